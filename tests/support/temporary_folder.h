// SPDX-License-Identifier: Apache-2.0
// A folder for the files of a test.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>

namespace rlx::test {

// A new folder that goes away with the object, files and all.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rlx-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string path() const { return path_.string(); }
  [[nodiscard]] std::string path(const std::string& name) const { return (path_ / name).string(); }
  // Writes a file, and the folders on its way; returns its path.
  std::string write(const std::string& name, std::span<const std::byte> bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path(name);
  }
  std::string write(const std::string& name, const std::string& bytes) const {
    return write(name, std::as_bytes(std::span(bytes)));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace rlx::test
