// SPDX-License-Identifier: Apache-2.0
// Constants folded from bytes to bytes: what needs no tensor of 64-bit elements.
#pragma once

#include <optional>

#include "compiler/ir/graph.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

// The result of a node over one weight whose bytes are known: a cast, evaluated some elements at a
// time, or the same bytes under another shape. Takes the memory of the result, or none. nullopt for
// other nodes.
std::optional<HostBytes> fold_bytes(const Module& module, const Graph& graph, const Node& node,
                                    Diagnostics& diagnostics);

}  // namespace rlx
