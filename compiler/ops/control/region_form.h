// SPDX-License-Identifier: Apache-2.0
// A loop that stays control flow: what passes/make_regions makes of loops and branches that are
// worth it, and lowering a region of the plan. It is a `loop` of one closed body, whose inner
// control flow is gone, without stacked rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compiler/ops/control/control_forms.h"

namespace rlx {

enum class RegionKind : uint8_t {
  Counted,  // has a trip count, a constant; all trips run
  While,    // its condition is an i32[], which it carries first as well
  Branch,   // has a condition and one trip at most
};

struct RegionForm {
  RegionKind kind = RegionKind::Counted;
  int64_t trips = 0;
  size_t carries = 0;  // of While the condition is the first
};

// Precondition: the node is such a loop.
inline RegionForm region_form(const Node& node) {
  const LoopForm form = loop_form(node);
  RegionForm region{.trips = form.max_iterations, .carries = form.carries};
  if (!node.inputs[kLoopTrips])
    region.kind = form.max_iterations == 1 ? RegionKind::Branch : RegionKind::While;
  return region;
}

// Of its body: the first inputs (trip, condition) and the first output (condition), which stand
// before what is carried.
inline constexpr size_t kRegionFirstInput = 2;
inline constexpr size_t kRegionFirstOutput = 1;

}  // namespace rlx
