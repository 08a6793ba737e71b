// SPDX-License-Identifier: Apache-2.0
// Reductions of chains over the same rows as one, where they read the same tensors: the sums of a
// norm's gradient, of which one is of dy and one of dy times what was normalised.
#include <algorithm>
#include <map>
#include <tuple>

#include "compiler/ops/lowering/reduce_chain.h"
#include "compiler/ops/lowering/scalar_cost.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/ops/rows/reduce_lower.h"
#include "compiler/passes/chain.h"
#include "compiler/passes/pass.h"

namespace rlx {
namespace {

Shape reduced_shape(const Graph& graph, const Node& node) {
  Shape shape;
  for (const std::optional<ValueId>& input : node.inputs)
    shape = broadcast_shapes(shape, graph.value(*input).type.shape).value();
  return shape;
}

// Sums and means of f32 in one pass over their rows.
bool can_join(const Graph& graph, const Node& node) {
  const bool sums = node.op == OpId::reduce_sum || node.op == OpId::reduce_mean;
  return sums && (!node.region.empty() || is_reduction(graph, node)) &&
         graph.value(node.outputs[0]).type.dtype == DType::f32;
}

// What two nodes have in common that are joined.
using Rows = std::tuple<std::string, std::string, std::string>;

Rows rows_of(const Graph& graph, const Node& node) {
  std::string attributes;
  for (const auto& [name, value] : node.attributes) attributes += name + "=" + to_string(value);
  return {node.op, attributes, to_string(reduced_shape(graph, node))};
}

// One tensor as large as what is reduced.
bool share_reads(const Graph& graph, const Node& a, const Node& b) {
  const Dim count = element_count(reduced_shape(graph, a));
  return std::any_of(a.inputs.begin(), a.inputs.end(), [&](const std::optional<ValueId>& input) {
    return element_count(graph.value(*input).type.shape) == count &&
           std::find(b.inputs.begin(), b.inputs.end(), input) != b.inputs.end();
  });
}

// What is reduced, as a chain: one without steps of its own is its input.
std::vector<RegionStep> steps_of(const Node& node) {
  if (!node.region.empty()) return node.region;
  return {{.op = "cast",
           .attributes = {{"to", std::string("f32")}},
           .operands = {0},
           .dtype = DType::f32}};
}

struct Joined {
  std::vector<std::optional<ValueId>> inputs;
  std::vector<RegionStep> steps;
};

// Appends a node's steps; the operands of the ones that give its results.
std::vector<uint32_t> append(Joined& joined, const Node& node) {
  const std::vector<RegionStep> steps = steps_of(node);
  const auto own_inputs = static_cast<uint32_t>(node.inputs.size());
  const auto inputs = static_cast<uint32_t>(joined.inputs.size());
  const auto before = static_cast<uint32_t>(joined.steps.size());
  for (RegionStep step : steps) {
    for (uint32_t& operand : step.operands) {
      if (operand >= own_inputs) {
        operand = inputs + before + operand - own_inputs;
      } else {
        const auto at = std::find(joined.inputs.begin(), joined.inputs.end(), node.inputs[operand]);
        operand = static_cast<uint32_t>(at - joined.inputs.begin());
      }
    }
    joined.steps.push_back(std::move(step));
  }
  const auto end = static_cast<uint32_t>(joined.steps.size());
  std::vector<uint32_t> results;
  for (size_t r = 0; r < node.outputs.size(); ++r)
    results.push_back(inputs + end - static_cast<uint32_t>(node.outputs.size() - r));
  return results;
}

// Results are the last steps, so each is named again behind all others.
Joined join(const Node& a, const Node& b) {
  Joined joined{.inputs = a.inputs, .steps = {}};
  for (const std::optional<ValueId>& input : b.inputs) {
    if (std::find(joined.inputs.begin(), joined.inputs.end(), input) == joined.inputs.end())
      joined.inputs.push_back(input);
  }
  std::vector<uint32_t> results = append(joined, a);
  const std::vector<uint32_t> others = append(joined, b);
  results.insert(results.end(), others.begin(), others.end());
  for (const uint32_t result : results) {
    joined.steps.push_back({.op = "cast",
                            .attributes = {{"to", std::string("f32")}},
                            .operands = {result},
                            .dtype = DType::f32});
  }
  return joined;
}

// The one of two nodes in whose place both may stand: what the later one reads is there when the
// earlier one runs, or nobody reads the earlier one before the later one runs.
std::optional<NodeId> common_place(const Graph& graph, NodeId earlier, NodeId later) {
  const auto made_before = [&](const std::optional<ValueId>& input) {
    const Value& value = graph.value(*input);
    return value.origin != ValueOrigin::Node || graph.runs_before(*value.producer, earlier);
  };
  const Node& second = graph.node(later);
  if (std::all_of(second.inputs.begin(), second.inputs.end(), made_before)) return earlier;
  for (const ValueId output : graph.node(earlier).outputs) {
    for (const NodeId reader : graph.readers(output)) {
      if (!graph.runs_before(later, reader)) return std::nullopt;
    }
  }
  return later;
}

// The node that both became, where they fit one kernel.
std::optional<NodeId> join_pair(Graph& graph, NodeId earlier, NodeId later) {
  const Node a = graph.node(earlier);
  const Node b = graph.node(later);
  const size_t results = a.outputs.size() + b.outputs.size();
  if (results > kMaxReduceResults || !share_reads(graph, a, b)) return std::nullopt;
  Joined joined = join(a, b);
  if (joined.inputs.size() + results > kMaxReduceOperands + 1 ||
      cost_of(graph, joined.steps, joined.inputs) > kMostInlineCost)
    return std::nullopt;
  const std::optional<NodeId> place = common_place(graph, earlier, later);
  if (!place) return std::nullopt;
  Node both = a;
  both.name = graph.fresh_name(a.name + ".joined");
  both.inputs = std::move(joined.inputs);
  both.region = std::move(joined.steps);
  std::vector<ValueId> replaced = a.outputs;
  replaced.insert(replaced.end(), b.outputs.begin(), b.outputs.end());
  const NodeId id = insert_joined(graph, std::move(both), replaced, *place);
  graph.remove_node(earlier);
  graph.remove_node(later);
  return id;
}

}  // namespace

size_t join_reductions(Module& module, const PassOptions&, Diagnostics&) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    std::map<Rows, std::vector<NodeId>> seen;
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      if (!can_join(graph, graph.node(id))) continue;
      std::vector<NodeId>& beside = seen[rows_of(graph, graph.node(id))];
      bool joins = false;
      for (NodeId& other : beside) {
        const std::optional<NodeId> both = join_pair(graph, other, id);
        if (!both) continue;
        other = *both;
        joins = true;
        ++changed;
        break;
      }
      if (!joins) beside.push_back(id);
    }
  }
  return changed;
}

}  // namespace rlx
