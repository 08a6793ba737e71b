// SPDX-License-Identifier: Apache-2.0
// Reading from memory and from ranges.
#include "tools/npy/bytes.h"

#include <algorithm>

namespace rlx::npy {

Status fault(std::string_view name, const std::string& what) {
  return {RLX_INVALID_ARGUMENT, std::string(name) + ": " + what};
}

Status MemorySource::read(uint64_t offset_bytes, std::span<std::byte> destination) const {
  const auto part = bytes_.subspan(offset_bytes, destination.size());
  std::copy(part.begin(), part.end(), destination.begin());
  return {};
}

Status RangeReader::read(std::span<std::byte> destination) {
  RLX_RETURN_IF_ERROR(source_->read(offset_bytes_, destination));
  offset_bytes_ += destination.size();
  left_bytes_ -= destination.size();
  return {};
}

}  // namespace rlx::npy
