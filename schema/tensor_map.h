// SPDX-License-Identifier: Apache-2.0
// What compiler and runtime agree on about tensor maps (plan.fbs) beside their fields.
#pragma once

#include <cstdint>

namespace rlx {

// As the last of two or more dims: as many lines as the range of the map's pointer holds. The range
// is then all of these lines, and the pointer's least bytes are at least one.
inline constexpr uint64_t kLinesOfRange = 0;
// Of the format: older ones have no such maps.
inline constexpr uint16_t kPlanMinorLinesOfRange = 4;

}  // namespace rlx
