// SPDX-License-Identifier: Apache-2.0
// A file opened read-only, whose size was taken once and whose ranges are read with that size in
// mind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/status.h"

namespace rlx {

// Owns the file descriptor. Reads go through pread, so a file that is shortened after it was opened
// gives an error where a memory mapping would raise SIGBUS; pages still come from the page cache
// once.
class InputFile {
 public:
  InputFile() = default;
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Regular files only; an error names the path and the system's reason.
  static Status open(const std::string& path, InputFile& file);

  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }
  // Bytes that the file system keeps for the file: less than its size where it is sparse or
  // compressed. 0 where the file system does not tell.
  [[nodiscard]] uint64_t held_bytes() const { return held_bytes_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // Reads exactly destination.size() bytes; an error where the range is not in the file (any more).
  Status read(uint64_t offset_bytes, std::span<std::byte> destination) const;

 private:
  int descriptor_ = -1;
  uint64_t size_bytes_ = 0;
  uint64_t held_bytes_ = 0;
  std::string path_;
};

}  // namespace rlx
