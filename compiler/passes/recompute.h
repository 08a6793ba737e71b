// SPDX-License-Identifier: Apache-2.0
// What keeps the arena's peak high although it is cheap to compute: values that wait over the peak
// for a late reader, as a backward pass reads a forward one's, are computed again in front of it.
#pragma once

#include "compiler/ir/graph.h"

namespace rlx {

// Repeats elementwise nodes of every entry in front of their readers behind the peak, most bytes
// first, until no peak falls by it any more: by the order of the nodes, so the arena of a schedule
// may be another. Values stay as they are, to the bit. Run when all passes have. Returns how many
// nodes were repeated.
size_t recompute(Module& module);

}  // namespace rlx
