// SPDX-License-Identifier: Apache-2.0
// Assignments of steps to waves, to choose the one that needs least memory from.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/lower/hazards.h"
#include "compiler/lower/liveness.h"
#include "compiler/lower/schedule.h"

namespace rlx {

struct WavePlan {
  std::string_view name;
  std::vector<uint32_t> wave_of_step;
  uint32_t wave_count = 0;
  WaveCost cost;
};

// Candidates in the order in which they are preferred where equal. `hazards` are the edges between
// steps in program order.
//   Speed, each with as few waves as the longest chain has steps:
//     as-early-as-possible, as-late-as-possible, balanced (the better of the two, improved by
//     moving single steps within their slack), sunk (balanced, then steps moved late together with
//     what serves them alone), and the same four with other readers of an in-place input put before
//     the step that overwrites it, where that does not lengthen the chain.
//   Memory adds orders of one step per wave, afterwards merged where that costs no memory:
//   program-order and
//     least-memory-first (a greedy list schedule).
std::vector<WavePlan> wave_candidates(const Edges& hazards, const LivenessModel& liveness,
                                      const ScheduleOptions& options);

}  // namespace rlx
