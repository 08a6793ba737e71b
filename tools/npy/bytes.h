// SPDX-License-Identifier: Apache-2.0
// Bytes of a file or in memory, by position or one after another: what is read of a file is what is
// asked for, so that a claim costs nothing before it was checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/input_file.h"
#include "runtime/base/status.h"

namespace rlx::npy {

// Refused input: "<name>: <what>".
Status fault(std::string_view name, const std::string& what);

// Bytes by position.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  [[nodiscard]] virtual uint64_t size_bytes() const = 0;
  // The range lies within size_bytes().
  [[nodiscard]] virtual Status read(uint64_t offset_bytes,
                                    std::span<std::byte> destination) const = 0;

  [[nodiscard]] bool has(uint64_t offset_bytes, uint64_t count) const {
    return count <= size_bytes() && offset_bytes <= size_bytes() - count;
  }
};

class FileSource final : public ByteSource {
 public:
  Status open(const std::string& path) { return InputFile::open(path, file_); }
  [[nodiscard]] uint64_t size_bytes() const override { return file_.size_bytes(); }
  [[nodiscard]] Status read(uint64_t offset_bytes,
                            std::span<std::byte> destination) const override {
    return file_.read(offset_bytes, destination);
  }

 private:
  InputFile file_;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  [[nodiscard]] uint64_t size_bytes() const override { return bytes_.size(); }
  [[nodiscard]] Status read(uint64_t offset_bytes, std::span<std::byte> destination) const override;

 private:
  std::span<const std::byte> bytes_;
};

// Bytes one after another.
class ByteReader {
 public:
  virtual ~ByteReader() = default;
  // How many are still to come, as the container says.
  [[nodiscard]] virtual uint64_t left_bytes() const = 0;
  // The next ones; at most left_bytes().
  [[nodiscard]] virtual Status read(std::span<std::byte> destination) = 0;
};

// A range of a source as it stands; the range lies within it.
class RangeReader final : public ByteReader {
 public:
  RangeReader(const ByteSource& source, uint64_t offset_bytes, uint64_t size_bytes)
      : source_(&source), offset_bytes_(offset_bytes), left_bytes_(size_bytes) {}
  [[nodiscard]] uint64_t left_bytes() const override { return left_bytes_; }
  [[nodiscard]] Status read(std::span<std::byte> destination) override;

 private:
  const ByteSource* source_;
  uint64_t offset_bytes_;
  uint64_t left_bytes_;
};

}  // namespace rlx::npy
