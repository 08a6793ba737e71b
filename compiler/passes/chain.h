// SPDX-License-Identifier: Apache-2.0
// Elementwise nodes as chains of region steps.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace rlx {

// True for an op with a scalar form and for ew_region.
bool is_elementwise(const Node& node);
// True where every input is there and no type is a block type.
bool has_chain_types(const Graph& graph, const Node& node);
// An elementwise node as a chain: its own, or the single step that it is.
std::vector<RegionStep> chain_of(const Graph& graph, const Node& node);
// Instructions of one element of a chain over these inputs.
uint64_t cost_of(const Graph& graph, const std::vector<RegionStep>& steps,
                 const std::vector<std::optional<ValueId>>& inputs);

}  // namespace rlx
