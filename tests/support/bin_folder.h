// SPDX-License-Identifier: Apache-2.0
// Where the tools under test are.
#pragma once

#include <filesystem>
#include <string>

namespace rlx::test {

// The folder of this test program: the build puts every program into one.
inline std::string bin_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

}  // namespace rlx::test
