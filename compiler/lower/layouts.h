// SPDX-License-Identifier: Apache-2.0
// Which values are stored channels last.
#pragma once

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

// Chooses the layout of each value before anything is lowered, by three rules:
// - what a convolution on tensor cores reads or writes is channels last;
// - that spreads through nodes that can do with any layout, elementwise ones and pools, forward and
// backward;
// - inputs, outputs and states stay dense, and so does what any other node makes: it is copied
// where a convolution reads it.
void choose_layouts(LoweringState& state);

}  // namespace rlx
