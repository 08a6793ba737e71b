// SPDX-License-Identifier: Apache-2.0
// What a run leaves in states, computed by one kernel: a chain whose result goes to a state and to
// another chain becomes a part of that one, as an optimiser's moments become a part of its step.
#include <algorithm>

#include "compiler/ops/lowering/scalar_cost.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/chain.h"
#include "compiler/passes/pass.h"

namespace rlx {
namespace {

// All that reads the producer's result besides the reader writes it to states, after the reader.
bool is_kept(const Graph& graph, ValueId result, NodeId reader) {
  if (graph.is_output(result)) return false;
  const std::vector<NodeId> readers = graph.readers(result);
  return std::all_of(readers.begin(), readers.end(), [&](NodeId id) {
    return id == reader ||
           (graph.node(id).op == OpId::state_write && graph.runs_before(reader, id));
  });
}

bool can_join(const Graph& graph, NodeId producer_id, NodeId reader_id) {
  const Node& producer = graph.node(producer_id);
  const Node& reader = graph.node(reader_id);
  if (!is_elementwise(producer) || !has_chain_types(graph, producer)) return false;
  const Shape& shape = graph.value(reader.outputs[0]).type.shape;
  return std::all_of(producer.outputs.begin(), producer.outputs.end(), [&](ValueId output) {
    return graph.value(output).type.shape == shape && is_kept(graph, output, reader_id);
  });
}

// Results are the last steps, so each of the producer's that others read is named again behind the
// reader's. The node that both became; nullopt where they do not fit one kernel.
std::optional<NodeId> join(Graph& graph, NodeId producer_id, NodeId reader_id) {
  const Node producer = graph.node(producer_id);
  const Node reader = graph.node(reader_id);
  JoinedChain joined = join_chains(graph, producer, reader);
  const size_t inputs = joined.inputs.size();
  const size_t last = inputs + chain_of(graph, producer).size();
  std::vector<ValueId> replaced = reader.outputs;
  for (size_t r = 0; r < producer.outputs.size(); ++r) {
    if (graph.only_reader(producer.outputs[r]) == reader_id) continue;
    replaced.push_back(producer.outputs[r]);
    const DType dtype = graph.value(producer.outputs[r]).type.dtype;
    joined.steps.push_back({.op = "cast",
                            .attributes = {{"to", std::string(name_of(dtype))}},
                            .operands = {static_cast<uint32_t>(last - producer.outputs.size() + r)},
                            .dtype = dtype});
  }
  const Shape& shape = graph.value(reader.outputs[0]).type.shape;
  if (inputs + replaced.size() > most_buffers(shape, joined.steps) ||
      joined.steps.size() > kMostRegionSteps ||
      cost_of(graph, joined.steps, joined.inputs) > kMostInlineCost)
    return std::nullopt;
  Node both = reader;
  both.op = "ew_region";
  both.name = graph.fresh_name(reader.name);
  both.attributes.clear();
  both.inputs = std::move(joined.inputs);
  both.region = std::move(joined.steps);
  const NodeId id = insert_joined(graph, std::move(both), replaced, reader_id);
  graph.remove_node(reader_id);
  graph.remove_node(producer_id);
  return id;
}

// The reader with one of its producers inside; nullopt where none joins.
std::optional<NodeId> join_one(Graph& graph, NodeId reader_id) {
  const std::vector<std::optional<ValueId>> inputs = graph.node(reader_id).inputs;
  for (const std::optional<ValueId>& input : inputs) {
    const Value& value = graph.value(*input);
    if (value.origin != ValueOrigin::Node || !can_join(graph, *value.producer, reader_id)) continue;
    if (const auto joined = join(graph, *value.producer, reader_id)) return joined;
  }
  return std::nullopt;
}

}  // namespace

size_t join_outputs(Module& module, const PassOptions&, Diagnostics&) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      if (!graph.contains(id) || !is_elementwise(graph.node(id)) ||
          !has_chain_types(graph, graph.node(id)))
        continue;
      while (const std::optional<NodeId> joined = join_one(graph, id)) {
        id = *joined;
        ++changed;
      }
    }
  }
  return changed;
}

}  // namespace rlx
