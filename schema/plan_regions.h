// SPDX-License-Identifier: Apache-2.0
// What plans with regions (plan.fbs) have besides.
#pragma once

#include <cstdint>

namespace rlx {

// How many regions the entries have, a u64, aligned to 8 bytes. Critical: runtimes that would run
// the steps of a region once refuse the plan.
inline constexpr uint32_t kRegionsSection = 10;
inline constexpr uint16_t kPlanMinorRegions = 5;
// Steps that all trips of an entry's regions may take together.
inline constexpr uint64_t kMaxRegionSteps = uint64_t{1} << 24;

}  // namespace rlx
