// SPDX-License-Identifier: Apache-2.0
// What a node needs before its types can be inferred, beyond what infer sees of it.
#pragma once

#include <optional>
#include <unordered_map>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

// What values of one graph hold where that is known before the run: small constants of the module,
// and what follows from such constants and from shapes alone. Each value is looked at once.
class KnownValues {
 public:
  // nullptr: it is not known. The graph may grow between calls; what it holds stays.
  const Tensor* find(const Module& module, const Graph& graph, ValueId id);

 private:
  void work_out(const Module& module, const Graph& graph, ValueId id);

  std::unordered_map<ValueId, std::optional<Tensor>> values_;
  int64_t elements_ = 0;  // of values_
};

// For a node as a graph file has it, whose inputs have their types: the chain of an ew_region,
// texts, becomes the node's region; the known limit of a range becomes its count, the known k of a
// topk its attribute, the known trip count of a loop its bound. False where anything was reported.
// Any other node stays as it is.
bool prepare_node(const Module& module, Graph& graph, NodeId id, KnownValues& known,
                  Diagnostics& diagnostics);

// The parts of prepare_node.
bool prepare_chain(Graph& graph, NodeId id, Diagnostics& diagnostics);
// Writes the default stream of a node that draws random numbers: its first output's name, hashed.
void prepare_stream(Graph& graph, NodeId id);
void prepare_topk(const Module& module, Graph& graph, NodeId id, KnownValues& known);
// Writes the bound of a loop whose trip count is known; refuses a negative count.
bool prepare_loop(const Module& module, Graph& graph, NodeId id, KnownValues& known,
                  Diagnostics& diagnostics);
bool prepare_range(const Module& module, Graph& graph, NodeId id, KnownValues& known,
                   Diagnostics& diagnostics);

}  // namespace rlx
