// SPDX-License-Identifier: Apache-2.0
// Whole files, read and written.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/status.h"

namespace rlx::npy {

// Errors name the path and the system's reason.
Status read_file(const std::string& path, std::vector<std::byte>& bytes);

// Writes to a temporary file beside `path` and renames it.
Status write_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace rlx::npy
