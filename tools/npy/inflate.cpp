// SPDX-License-Identifier: Apache-2.0
// zlib piece by piece.
#include "tools/npy/inflate.h"

#include <algorithm>

namespace rlx::npy {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr size_t kMostAtOnce = size_t{1} << 30;  // zlib counts in 32 bits

}  // namespace

InflateReader::InflateReader(RangeReader packed, uint64_t size_bytes, std::string_view label)
    : packed_(packed), label_(label), left_bytes_(size_bytes) {
  piece_.resize(std::min<uint64_t>(kPieceBytes, packed_.left_bytes()));
  // The one failure is of memory, and the caller's constructors fail by exceptions too.
  if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
}

InflateReader::~InflateReader() {
  inflateEnd(&stream_);
}

Status InflateReader::damaged() const {
  return fault(label_, "its compressed data are damaged");
}

Status InflateReader::refill() {
  const auto part =
      std::span(piece_).first(std::min<uint64_t>(piece_.size(), packed_.left_bytes()));
  RLX_RETURN_IF_ERROR(packed_.read(part));
  stream_.next_in = reinterpret_cast<const Bytef*>(part.data());
  stream_.avail_in = static_cast<uInt>(part.size());
  return {};
}

Status InflateReader::read(std::span<std::byte> destination) {
  left_bytes_ -= destination.size();
  while (!destination.empty()) {
    if (stream_.avail_in == 0) RLX_RETURN_IF_ERROR(refill());
    const size_t room = std::min(destination.size(), kMostAtOnce);
    stream_.next_out = reinterpret_cast<Bytef*>(destination.data());
    stream_.avail_out = static_cast<uInt>(room);
    const int result = has_ended_ ? Z_DATA_ERROR : inflate(&stream_, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END) return damaged();  // Z_BUF_ERROR: it is cut short
    has_ended_ = result == Z_STREAM_END;
    destination = destination.subspan(room - stream_.avail_out);
  }
  return {};
}

Status InflateReader::check_end() {
  std::byte more{};
  while (!has_ended_) {
    if (stream_.avail_in == 0) RLX_RETURN_IF_ERROR(refill());
    stream_.next_out = reinterpret_cast<Bytef*>(&more);
    stream_.avail_out = 1;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END) return damaged();
    if (stream_.avail_out == 0) return fault(label_, "it unpacks to more than its size says");
    has_ended_ = result == Z_STREAM_END;
  }
  return {};
}

Status ChecksumReader::read(std::span<std::byte> destination) {
  RLX_RETURN_IF_ERROR(bytes_->read(destination));
  crc_ = crc32_z(crc_, reinterpret_cast<const Bytef*>(destination.data()), destination.size());
  return {};
}

}  // namespace rlx::npy
