// SPDX-License-Identifier: Apache-2.0
// What lowering an entry and lowering the init program share.
#pragma once

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

// Emits the steps of one node; afterwards each of its outputs has a place. False where anything was
// reported.
bool lower_node(LoweringState& state, const Node& node, Diagnostics& diagnostics);

// Gives each part of a concat its slot in the output, so that producers write there and no copy
// runs; a slot that is not contiguous only where the producer does not refuse it
// (OpDef::place_refusal) and readers take strides. Outer concats come first: an inner one's output
// may already have a place.
void place_concat_parts(LoweringState& state, Diagnostics& diagnostics);

}  // namespace rlx
