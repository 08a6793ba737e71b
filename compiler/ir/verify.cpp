// SPDX-License-Identifier: Apache-2.0
// Structural check of a module, run after import and after every pass.
#include <string>
#include <string_view>
#include <unordered_set>

#include "compiler/ir/graph.h"
#include "schema/plan_header.h"

namespace rlx {
namespace {

using Fault = std::optional<std::string>;

std::string described(const Graph& graph, const std::string& what) {
  return "entry \"" + graph.name + "\": " + what;
}

Fault find_type_fault(const Graph& graph, const Value& value) {
  if (value.type.shape.size() > kMaxRank) {
    return described(graph, "value \"" + value.name + "\" has rank above 8");
  }
  for (const Dim& dim : value.type.shape) {
    if (dim < 0) return described(graph, "value \"" + value.name + "\" has a negative dim");
  }
  return std::nullopt;
}

Fault find_leaf_fault(const Module& module, const Graph& graph, const Value& value) {
  if (value.origin == ValueOrigin::Weight) {
    if (!value.weight || index_of(*value.weight) >= module.weights.size()) {
      return described(graph, "value \"" + value.name + "\" names no weight");
    }
    if (module.weight(*value.weight).type != value.type) {
      return described(graph, "value \"" + value.name + "\" and its weight differ in type");
    }
  }
  if (value.origin == ValueOrigin::State) {
    if (!value.state || index_of(*value.state) >= module.states.size()) {
      return described(graph, "value \"" + value.name + "\" names no state");
    }
    if (module.state(*value.state).type != value.type) {
      return described(graph, "value \"" + value.name + "\" and its state differ in type");
    }
  }
  return std::nullopt;
}

Fault find_node_fault(const Graph& graph, NodeId id, std::vector<bool>& made,
                      std::unordered_set<std::string_view>& names) {
  const Node& node = graph.node(id);
  if (node.name.empty() || !names.insert(node.name).second) {
    return described(graph, "node name \"" + node.name + "\" is empty or used twice");
  }
  for (const std::optional<ValueId>& input : node.inputs) {
    if (!input) continue;
    if (index_of(*input) >= graph.value_count()) {
      return described(graph, "node \"" + node.name + "\" reads a value that does not exist");
    }
    if (!made[index_of(*input)]) {
      return described(graph, "node \"" + node.name + "\" reads \"" + graph.value(*input).name +
                                  "\" before it is made");
    }
  }
  for (uint32_t i = 0; i < node.outputs.size(); ++i) {
    if (index_of(node.outputs[i]) >= graph.value_count()) {
      return described(graph, "node \"" + node.name + "\" makes a value that does not exist");
    }
    const Value& output = graph.value(node.outputs[i]);
    if (output.origin != ValueOrigin::Node || output.producer != id || output.output_index != i) {
      return described(
          graph, "output \"" + output.name + "\" does not name its producer \"" + node.name + "\"");
    }
    if (Fault fault = find_type_fault(graph, output)) return fault;
    made[index_of(node.outputs[i])] = true;
  }
  return std::nullopt;
}

Fault find_graph_fault(const Module& module, const Graph& graph);

Fault find_body_fault(const Module& module, const Graph& graph, const Node& node) {
  if (node.captures > node.inputs.size())
    return described(graph, "node \"" + node.name + "\" captures more than it reads");
  for (const auto& body : node.bodies) {
    if (body == nullptr) return described(graph, "node \"" + node.name + "\" lacks a body");
    if (Fault fault = find_graph_fault(module, *body))
      return described(graph, "in node \"" + node.name + "\": " + *fault);
  }
  return std::nullopt;
}

Fault find_graph_fault(const Module& module, const Graph& graph) {
  std::vector<bool> made(graph.value_count());
  for (size_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId(i));
    if (value.name.empty()) return described(graph, "a value has no name");
    if (value.origin == ValueOrigin::Node) continue;
    made[i] = true;
    if (Fault fault = find_leaf_fault(module, graph, value)) return fault;
    if (Fault fault = find_type_fault(graph, value)) return fault;
  }
  std::unordered_set<std::string_view> names;
  names.reserve(graph.order().size());
  for (NodeId id : graph.order()) {
    if (Fault fault = find_node_fault(graph, id, made, names)) return fault;
    if (Fault fault = find_body_fault(module, graph, graph.node(id))) return fault;
  }
  for (ValueId id : graph.outputs()) {
    if (index_of(id) >= graph.value_count()) return described(graph, "an output does not exist");
    if (!made[index_of(id)]) {
      return described(graph, "output \"" + graph.value(id).name + "\" is never made");
    }
  }
  if (const Fault fault = graph.find_index_fault()) return described(graph, *fault);
  return std::nullopt;
}

// A computed weight reads only weights before it, so that the init entry can make them in order.
Fault find_weight_fault(const Module& module, size_t index) {
  const Weight& weight = module.weights[index];
  const auto* computed = std::get_if<ComputedData>(&weight.data);
  if (computed == nullptr) return std::nullopt;
  for (const std::optional<WeightId>& input : computed->inputs) {
    if (input && index_of(*input) >= index) {
      return "weight \"" + weight.name +
             "\" is computed from a weight that does not stand before it";
    }
  }
  return std::nullopt;
}

}  // namespace

Fault find_fault(const Module& module) {
  for (size_t i = 0; i < module.weights.size(); ++i) {
    if (Fault fault = find_weight_fault(module, i)) return fault;
  }
  for (const Graph& graph : module.entries) {
    if (Fault fault = find_graph_fault(module, graph)) return fault;
  }
  return std::nullopt;
}

}  // namespace rlx
