// SPDX-License-Identifier: Apache-2.0
// When the values of a program are whole: the steps after which each can be looked at.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/plan_view.h"

namespace rlx::tool {

// A value holds something whole from the end of `step`, which wrote the last of it, to the end of
// `last`, after which nothing reads this content. A value that is written again later has several.
struct WholeValue {
  uint32_t step = 0;
  uint32_t last = 0;
  uint32_t value = 0;
};

// Of what the steps of the record write (arena, outputs, states), ascending by step.
std::vector<WholeValue> whole_values(const fb::Entry& record);

}  // namespace rlx::tool
