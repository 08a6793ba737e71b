// SPDX-License-Identifier: Apache-2.0
// Which values are stored channels last.
#pragma once

#include <vector>

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

// Which values, by number, are stored channels last, by these rules:
// - what a convolution on matrix units reads or writes is channels last, as its row of the table
//   says, and so is what a depthwise one does that the graph's own transposes and reshapes bring
//   from there or take there;
// - that spreads through nodes that can do with any layout, elementwise ones, pools,
//   resampling, concats, parts and depthwise convolutions, forward and backward;
// - inputs, outputs and states stay dense, and so does what any other node makes: it is copied
//   where a convolution reads it.
std::vector<bool> channels_last_values(const OfferContext& at, const Graph& graph);

}  // namespace rlx
