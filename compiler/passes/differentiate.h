// SPDX-License-Identifier: Apache-2.0
// Reverse mode over a graph: nodes that compute the gradients of a loss, by the rules beside the
// operators' definitions (OpDef::gradient).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

// Adds nodes at the end of the graph; returns for each value of `wanted` its gradient, of its type,
// or nothing where the loss does not depend on it. Operators on the way that have no rule are
// rewritten into simpler ones where they can be. nullopt where anything was reported: a loss that
// is no float of one element, or operators without a gradient, all of them. Precondition: no node
// has bodies (inline_bodies_of), for what only these read is nobody's input.
std::optional<std::vector<std::optional<ValueId>>> differentiate(Module& module, Graph& graph,
                                                                 ValueId loss,
                                                                 std::span<const ValueId> wanted,
                                                                 Diagnostics& diagnostics);

}  // namespace rlx
