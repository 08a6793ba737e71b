// SPDX-License-Identifier: Apache-2.0
// Files of a model: mapping them, and opening those that a graph refers to without leaving the
// model's folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "compiler/support/diagnostics.h"

namespace rlx {

// A whole regular file mapped read-only; unmapped when the last owner goes.
class MappedFile {
 public:
  MappedFile(const void* address, size_t size_bytes) : address_(address), size_bytes_(size_bytes) {}
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(address_), size_bytes_};
  }

 private:
  const void* address_;  // nullptr for an empty file
  size_t size_bytes_;
};

// Why a file cannot be read; `message` is the end of a sentence that names the file.
struct FileFault {
  DiagCode code = DiagCode::FileMissing;
  std::string message;
};
using FileResult = std::variant<std::shared_ptr<const MappedFile>, FileFault>;

// Maps a file that the user named.
FileResult map_file(const std::string& path);

// The folder of a graph file. References are relative to it and may not leave it: no absolute path,
// no "..", no symbolic link on the way, a regular file with one name (link count 1).
class ModelFolder {
 public:
  struct Options {
    bool use_openat2 = true;  // false: the walk for kernels without it, which holds the same rules
  };
  explicit ModelFolder(const std::string& path) : ModelFolder(path, Options()) {}
  ModelFolder(const std::string& path, Options options);
  ~ModelFolder();
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;

  [[nodiscard]] FileResult map(const std::string& relative_path) const;

 private:
  std::string path_;
  Options options_;
  int descriptor_ = -1;  // -1: the folder cannot be opened, which map() reports
};

// The config.json beside it, where the path is that of a checkpoint's folder, of model.safetensors
// or of its index; else the path as it is.
std::string model_file(const std::string& path);

// The folder part of a path, "." where there is none.
std::string folder_of(const std::string& path);

}  // namespace rlx
