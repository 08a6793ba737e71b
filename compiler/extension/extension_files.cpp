// SPDX-License-Identifier: Apache-2.0
#include "compiler/extension/extension_files.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace rlx {

std::optional<std::string> ExtensionFiles::read(const std::string& path) const {
  if (embedded) {
    const auto found = embedded->find(path);
    return found == embedded->end() ? std::nullopt : std::optional(found->second);
  }
  // A path that leaves the folder names no file of the extension.
  const std::filesystem::path relative(path);
  if (relative.is_absolute() || path.find("..") != std::string::npos) return std::nullopt;
  const std::filesystem::path file = std::filesystem::path(folder) / relative;
  std::error_code failed;
  if (!std::filesystem::is_regular_file(file, failed)) return std::nullopt;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad()) return std::nullopt;
  return text;
}

std::string ExtensionFiles::place(const std::string& path) const {
  return folder + "/" + path;
}

}  // namespace rlx
