// SPDX-License-Identifier: Apache-2.0
// Bytes of a zip member, stored or deflated, with their checksum.
#pragma once

#define ZLIB_CONST
#include <zlib.h>

#include <new>
#include <string>
#include <vector>

#include "tools/npy/bytes.h"

namespace rlx::npy {

// Unpacks as far as it is asked to and holds no more than a piece of the packed bytes. What the
// member claims to unpack to counts for nothing but left_bytes().
class InflateReader final : public ByteReader {
 public:
  // `packed` is a range of deflated bytes that claims to unpack to `size_bytes`.
  InflateReader(RangeReader packed, uint64_t size_bytes, std::string_view label);
  ~InflateReader() override;
  InflateReader(const InflateReader&) = delete;
  InflateReader& operator=(const InflateReader&) = delete;

  [[nodiscard]] uint64_t left_bytes() const override { return left_bytes_; }
  [[nodiscard]] Status read(std::span<std::byte> destination) override;
  // Whether the packed bytes end where the claim does; to be asked when all was read.
  [[nodiscard]] Status check_end();

 private:
  Status refill();
  [[nodiscard]] Status damaged() const;

  RangeReader packed_;
  std::string label_;
  uint64_t left_bytes_;
  std::vector<std::byte> piece_;
  z_stream stream_ = {};
  bool has_ended_ = false;
};

// Passes bytes on and sums them up.
class ChecksumReader final : public ByteReader {
 public:
  explicit ChecksumReader(ByteReader& bytes) : bytes_(&bytes) {}
  [[nodiscard]] uint64_t left_bytes() const override { return bytes_->left_bytes(); }
  [[nodiscard]] Status read(std::span<std::byte> destination) override;
  [[nodiscard]] uint32_t crc32() const { return static_cast<uint32_t>(crc_); }

 private:
  ByteReader* bytes_;
  uLong crc_ = crc32_z(0, nullptr, 0);
};

}  // namespace rlx::npy
