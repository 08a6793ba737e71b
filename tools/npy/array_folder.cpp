// SPDX-License-Identifier: Apache-2.0
// Names of tensors as names of files.
#include "tools/npy/array_folder.h"

#include <filesystem>
#include <system_error>

namespace rlx::npy {

Status ArrayFolder::open(const std::string& path, ArrayFolder& folder) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && !std::filesystem::is_directory(path, error) && !error)
    error = std::make_error_code(std::errc::not_a_directory);
  if (error) return {RLX_IO_ERROR, path + ": cannot create this folder: " + error.message()};
  folder.path_ = path;
  return {};
}

namespace {

std::string stem_of(const std::string& name) {
  std::string stem = name;
  for (char& letter : stem) {
    if (letter == '/' || letter == '\\') letter = '_';
  }
  return stem == "." || stem == ".." ? "_" : stem;
}

}  // namespace

std::string ArrayFolder::file_name(const std::string& name) {
  return stem_of(name) + ".npy";
}

Status ArrayFolder::write(const std::string& name, const Array& array, std::string& path) {
  const std::string stem = stem_of(name);
  std::string unique = stem;
  for (int count = 2; !used_.insert(unique).second; ++count)
    unique = stem + "_" + std::to_string(count);
  path = path_ + "/" + unique + ".npy";
  return write_npy(path, array);
}

}  // namespace rlx::npy
