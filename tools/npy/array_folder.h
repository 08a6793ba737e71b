// SPDX-License-Identifier: Apache-2.0
// A folder into which each named tensor goes as a .npy file.
#pragma once

#include <set>
#include <string>

#include "tools/npy/npy.h"

namespace rlx::npy {

class ArrayFolder {
 public:
  // Makes the folder, and those above it, where they are missing.
  static Status open(const std::string& path, ArrayFolder& folder);

  // Writes to <folder>/<name>.npy and gives that path. Names come from plans and models: what makes
  // one a path becomes "_", and of two that would share a file the second gets a number.
  Status write(const std::string& name, const Array& array, std::string& path);
  // "<name>.npy" with what makes it a path replaced: the file of the first array of that name.
  static std::string file_name(const std::string& name);

 private:
  std::string path_;
  std::set<std::string> used_;
};

}  // namespace rlx::npy
