// SPDX-License-Identifier: Apache-2.0
// One section of byte strings, equal ones stored once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "schema/rounding.h"

namespace rlx {

class BlobSection {
 public:
  explicit BlobSection(uint64_t alignment_bytes) : alignment_bytes_(alignment_bytes) {}
  // Its offset in the section.
  uint64_t add(const std::vector<std::byte>& blob) {
    const auto [place, added] =
        offsets_.try_emplace(blob, round_up(bytes_.size(), alignment_bytes_));
    if (added) {
      bytes_.resize(place->second);
      bytes_.insert(bytes_.end(), blob.begin(), blob.end());
    }
    return place->second;
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  uint64_t alignment_bytes_;
  std::vector<std::byte> bytes_;
  std::map<std::vector<std::byte>, uint64_t> offsets_;
};

}  // namespace rlx
