// SPDX-License-Identifier: Apache-2.0
// What a node needs before its types can be inferred, beyond what infer sees of it.
#pragma once

#include <optional>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

// For a node as a graph file has it, whose inputs have their types: the chain of an ew_region,
// texts, becomes the node's region; the known limit of a range becomes its count, the known k of a
// topk its attribute. False where anything was reported. Any other node stays as it is.
bool prepare_node(const Module& module, Graph& graph, NodeId id, Diagnostics& diagnostics);

// What a value holds where that is known before the run: a small constant of the module, or what
// follows from such constants and from shapes alone. nullopt: it is not known.
std::optional<Tensor> known_value(const Module& module, const Graph& graph, ValueId id);

// The parts of prepare_node.
bool prepare_chain(Graph& graph, NodeId id, Diagnostics& diagnostics);
void prepare_topk(const Module& module, Graph& graph, NodeId id);
bool prepare_range(const Module& module, Graph& graph, NodeId id, Diagnostics& diagnostics);

}  // namespace rlx
