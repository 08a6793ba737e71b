// SPDX-License-Identifier: Apache-2.0
// Sizes in whole units.
#pragma once

#include <cstdint>

namespace rlx {

// The least multiple that is not below `bytes`; both far below 2^64.
constexpr uint64_t round_up(uint64_t bytes, uint64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace rlx
