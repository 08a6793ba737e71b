// SPDX-License-Identifier: Apache-2.0
// Elementwise chains as regions: a producer whose only reader is elementwise and of the same shape
// joins its reader, and so does one that computes a single element.
#include <algorithm>

#include "compiler/dispatch/size_words.h"
#include "compiler/ops/lowering/positions.h"
#include "compiler/ops/lowering/scalar_cost.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/chain.h"
#include "compiler/passes/pass.h"
#include "schema/kernel_params.h"

namespace rlx {

bool is_elementwise(const Node& node) {
  return node.op == OpId::ew_region || find_op(node.op)->scalar != nullptr;
}

bool has_chain_types(const Graph& graph, const Node& node) {
  const auto plain = [&graph](ValueId id) {
    return block_elements(graph.value(id).type.dtype) == 1;
  };
  return plain(node.outputs[0]) &&
         std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](const auto& input) { return input.has_value() && plain(*input); });
}

std::vector<RegionStep> chain_of(const Graph& graph, const Node& node) {
  if (!node.region.empty()) return node.region;
  RegionStep step{.op = node.op,
                  .attributes = node.attributes,
                  .operands = {},
                  .dtype = graph.value(node.outputs[0]).type.dtype};
  for (uint32_t i = 0; i < node.inputs.size(); ++i) step.operands.push_back(i);
  return {step};
}

uint64_t cost_of(const Graph& graph, const std::vector<RegionStep>& steps,
                 const std::vector<std::optional<ValueId>>& inputs) {
  std::vector<DType> dtypes;
  for (const std::optional<ValueId>& input : inputs)
    dtypes.push_back(graph.value(*input).type.dtype);
  return chain_cost(steps, dtypes);
}

JoinedChain join_chains(const Graph& graph, const Node& producer, const Node& reader) {
  JoinedChain joined;
  const auto input_index = [&joined](ValueId id) {
    const auto found = std::find(joined.inputs.begin(), joined.inputs.end(), id);
    const auto index = static_cast<uint32_t>(found - joined.inputs.begin());
    if (found == joined.inputs.end()) joined.inputs.emplace_back(id);
    return index;
  };
  const std::vector<RegionStep> first = chain_of(graph, producer);
  // Of the producer's steps the one whose result this is: results are the last steps.
  const auto step_of = [&](ValueId id) -> std::optional<uint32_t> {
    const auto found = std::find(producer.outputs.begin(), producer.outputs.end(), id);
    if (found == producer.outputs.end()) return std::nullopt;
    return static_cast<uint32_t>(first.size() -
                                 static_cast<size_t>(producer.outputs.end() - found));
  };
  for (const auto& input : producer.inputs) input_index(*input);
  for (const auto& input : reader.inputs) {
    if (!step_of(*input)) input_index(*input);
  }
  const auto input_count = static_cast<uint32_t>(joined.inputs.size());
  const auto append = [&](const Node& node, uint32_t first_step) {
    for (RegionStep step : chain_of(graph, node)) {
      for (uint32_t& operand : step.operands) {
        if (operand >= node.inputs.size()) {
          operand = input_count + first_step + operand - static_cast<uint32_t>(node.inputs.size());
        } else if (const auto inner = step_of(*node.inputs[operand])) {
          operand = input_count + *inner;
        } else {
          operand = input_index(*node.inputs[operand]);
        }
      }
      joined.steps.push_back(std::move(step));
    }
  };
  append(producer, 0);
  append(reader, static_cast<uint32_t>(first.size()));
  return joined;
}

NodeId insert_joined(Graph& graph, Node joined, const std::vector<ValueId>& replaced,
                     NodeId place) {
  joined.outputs.clear();
  for (const ValueId output : replaced) {
    const Value& value = graph.value(output);
    joined.outputs.push_back(graph.add_value({.name = graph.fresh_name(value.name),
                                              .type = value.type,
                                              .weight = {},
                                              .state = {},
                                              .producer = {}}));
  }
  const std::vector<ValueId> made = joined.outputs;
  const NodeId id = graph.insert_node_before(place, std::move(joined));
  for (size_t i = 0; i < replaced.size(); ++i) graph.replace_uses(replaced[i], made[i]);
  return id;
}

size_t most_buffers(const Shape& shape, const std::vector<RegionStep>& steps) {
  const bool counts = std::any_of(steps.begin(), steps.end(),
                                  [](const RegionStep& step) { return reads_index(step.op); });
  return RLX_REGION_BUFFERS - (counts ? 1 : 0) - pointers_of_sizes(shape);
}

namespace {

// Of a node as it is listed: nodes of more, which only a model has, are left alone.
constexpr size_t kMostListedInputs = 64;

// One element, cheap enough to be computed again by every element of its reader. What depends on
// its position would stand elsewhere there.
bool is_cheap_scalar(const Graph& graph, const Node& producer, const Shape& reader) {
  constexpr size_t kMostScalarSteps = 8;
  const Shape& shape = graph.value(producer.outputs[0]).type.shape;
  const std::vector<RegionStep> steps = chain_of(graph, producer);
  return element_count(shape) == 1 && shape.size() <= reader.size() && element_count(reader) > 0 &&
         steps.size() <= kMostScalarSteps &&
         std::none_of(steps.begin(), steps.end(),
                      [](const RegionStep& step) { return is_positional(step.op); });
}

bool can_join(const Graph& graph, NodeId producer_id, NodeId reader_id) {
  const Node& producer = graph.node(producer_id);
  const Node& reader = graph.node(reader_id);
  if (!is_elementwise(producer) || !has_chain_types(graph, producer)) return false;
  if (producer.inputs.size() > kMostListedInputs || reader.inputs.size() > kMostListedInputs)
    return false;
  const ValueId inner = producer.outputs[0];
  if (graph.is_output(inner)) return false;
  const Shape& shape = graph.value(reader.outputs[0]).type.shape;
  if (graph.value(inner).type.shape != shape && !is_cheap_scalar(graph, producer, shape))
    return false;
  return graph.only_reader(inner) == reader_id;
}

bool join_one_producer(Graph& graph, NodeId reader_id) {
  for (const std::optional<ValueId>& input : graph.node(reader_id).inputs) {
    const Value& value = graph.value(*input);
    if (value.origin != ValueOrigin::Node) continue;
    const NodeId producer_id = *value.producer;
    if (!can_join(graph, producer_id, reader_id)) continue;
    JoinedChain joined = join_chains(graph, graph.node(producer_id), graph.node(reader_id));
    const Shape& shape = graph.value(graph.node(reader_id).outputs[0]).type.shape;
    if (joined.inputs.size() + 1 > most_buffers(shape, joined.steps) ||
        joined.steps.size() > kMostRegionSteps ||
        cost_of(graph, joined.steps, joined.inputs) > kMostRegionCost)
      continue;
    graph.change_node(reader_id, [&joined](Node& reader) {
      reader.op = "ew_region";
      reader.attributes.clear();
      reader.inputs = std::move(joined.inputs);
      reader.region = std::move(joined.steps);
    });
    graph.remove_node(producer_id);
    return true;
  }
  return false;
}

}  // namespace

size_t fuse_elementwise(Module& module, const PassOptions&, Diagnostics&) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order(graph.order().rbegin(), graph.order().rend());
    for (NodeId id : order) {
      if (!graph.contains(id)) continue;
      if (!is_elementwise(graph.node(id)) || !has_chain_types(graph, graph.node(id))) continue;
      while (join_one_producer(graph, id)) ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
