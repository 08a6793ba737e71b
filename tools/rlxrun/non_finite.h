// SPDX-License-Identifier: Apache-2.0
// Where a run's first NaN, and its first infinity, comes from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/rlxrun/handles.h"
#include "tools/rlxrun/profiler_ranges.h"

namespace rlx::tool {

// A value that holds what was looked for.
struct NonFiniteValue {
  std::optional<uint32_t> step;  // after which it does; none: an input, which the run was given
  std::string kernel;            // of the step
  std::string node;              // of the step; "" where the plan has no debug section
  std::string name;
  std::string type;    // "f16[2,3]"
  uint64_t index = 0;  // of the first such element
  uint64_t count = 0;  // of such elements
  uint64_t elements = 0;
};

struct NonFiniteReport {
  std::optional<NonFiniteValue> nan;
  std::optional<NonFiniteValue> infinity;
};

// Looks at the inputs, then step by step at what lives after it: each look is a run up to the step,
// states as they were. Weights and states are not looked at, nor what kernels keep to themselves.
// For a session that has not run yet: what later steps left in an output's memory would be taken
// for the work of earlier ones.
NonFiniteReport find_non_finite(rlx_session* session, const EntryView& entry,
                                const ProfilerRanges& ranges);

}  // namespace rlx::tool
