// SPDX-License-Identifier: Apache-2.0
// A file opened read-only, whose size was taken once and whose ranges are read with that size in
// mind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/descriptor.h"
#include "runtime/base/status.h"

namespace rlx {

struct InputOptions {
  bool follow_links = true;  // of the path's last name; false: such a link is refused
  bool only_own = false;     // refuses what another user owns, or others may write to
};

// Reads go through pread, so a file that is shortened after it was opened
// gives an error where a memory mapping would raise SIGBUS; pages still come from the page cache
// once.
class InputFile {
 public:
  // Regular files only; an error names the path and the system's reason.
  static Status open(const std::string& path, InputFile& file) { return open(path, {}, file); }
  static Status open(const std::string& path, const InputOptions& options, InputFile& file);

  [[nodiscard]] bool is_open() const { return descriptor_.is_open(); }
  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }
  // Bytes that the file system keeps for the file: less than its size where it is sparse or
  // compressed. 0 where the file system does not tell.
  [[nodiscard]] uint64_t held_bytes() const { return held_bytes_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // Reads exactly destination.size() bytes; an error where the range is not in the file (any more).
  Status read(uint64_t offset_bytes, std::span<std::byte> destination) const;

 private:
  Descriptor descriptor_;
  uint64_t size_bytes_ = 0;
  uint64_t held_bytes_ = 0;
  std::string path_;
};

// A whole file at once. Its size is taken before memory is asked for: more than `most_bytes` is
// refused.
Status read_file(const std::string& path, uint64_t most_bytes, std::vector<std::byte>& bytes);

}  // namespace rlx
