// SPDX-License-Identifier: Apache-2.0
// A loop (ops/control/region_form.h) as a region of the program.
#pragma once

#include <vector>

#include "compiler/lower/step_region.h"
#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

// Emits what stands before the region (what is carried gets its place and its first value), the
// steps of the body, and the region around them. What is carried lies in the same places in every
// trip: the steps that make it write there where nothing needs the old value any more, otherwise
// copies at the body's end do. False where anything was reported.
bool lower_region(LoweringState& state, const Node& node, std::vector<StepRegion>& regions,
                  Diagnostics& diagnostics);

}  // namespace rlx
