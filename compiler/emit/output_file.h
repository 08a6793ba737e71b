// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "compiler/support/diagnostics.h"

namespace rlx {

// Writes `<path>.partial` and renames it to `path` on commit, after everything has reached the
// disk. The partial file is locked, so two writers of one path do not mix; a writer that is killed
// leaves it behind, and the next one takes it over.
class OutputFile {
 public:
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) = delete;
  OutputFile(const OutputFile&) = delete;
  // Removes the partial file unless it was committed.
  ~OutputFile();

  static std::optional<OutputFile> create(const std::string& path, Diagnostics& diagnostics);

  [[nodiscard]] const std::string& partial_path() const { return partial_path_; }
  // A failure is kept: later writes do nothing and commit reports it.
  void write_at(uint64_t offset_bytes, std::span<const std::byte> bytes);
  [[nodiscard]] bool failed() const { return error_ != 0; }
  [[nodiscard]] bool commit(uint64_t size_bytes, Diagnostics& diagnostics);

 private:
  OutputFile(std::string path, std::string partial_path, int descriptor);

  std::string path_;
  std::string partial_path_;
  int descriptor_ = -1;
  int error_ = 0;  // errno of the first write that failed
};

}  // namespace rlx
