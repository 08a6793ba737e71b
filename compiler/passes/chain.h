// SPDX-License-Identifier: Apache-2.0
// Elementwise nodes as chains of region steps.
#pragma once

#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace rlx {

// True for an op with a scalar form and for ew_region.
bool is_elementwise(const Node& node);
// True where every input is there and no type is a block type.
bool has_chain_types(const Graph& graph, const Node& node);
// True for a reduction over axes that computes no chain yet: fuse_reductions gives it one.
bool is_reduction(const Graph& graph, const Node& node);
// An elementwise node as a chain: its own, or the single step that it is.
std::vector<RegionStep> chain_of(const Graph& graph, const Node& node);
// Inputs and steps of a reader with a producer of one of its inputs computed inside it. The steps
// end as the reader's do.
struct JoinedChain {
  std::vector<std::optional<ValueId>> inputs;
  std::vector<RegionStep> steps;
};
JoinedChain join_chains(const Graph& graph, const Node& producer, const Node& reader);
// Inserts what several nodes became before `place`, with results in place of theirs. The nodes
// still stand there, without readers.
NodeId insert_joined(Graph& graph, Node joined, const std::vector<ValueId>& replaced, NodeId place);
// The most steps of one region.
inline constexpr size_t kMostRegionSteps = 48;
// The most inputs and outputs of one region that gives values of this shape: RLX_REGION_BUFFERS,
// less the count of indices outside where there is one, and less the pointers in whose places the
// sizes of a run stand.
size_t most_buffers(const Shape& shape, const std::vector<RegionStep>& steps);
// Instructions of one element of a chain over these inputs.
uint64_t cost_of(const Graph& graph, const std::vector<RegionStep>& steps,
                 const std::vector<std::optional<ValueId>>& inputs);

}  // namespace rlx
