// SPDX-License-Identifier: Apache-2.0
// Products as passes see them.
#include "compiler/passes/products.h"

#include <algorithm>
#include <set>

#include "compiler/ops/lowering/matmul_activation.h"
#include "compiler/ops/lowering/positions.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/constants.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

bool flag_of(const Node& node, const char* name) {
  const auto found = node.attributes.find(name);
  return found != node.attributes.end() && std::get<bool>(found->second);
}

bool is_activation_parameter(std::string_view name) {
  return std::find(kActivationParameters.begin(), kActivationParameters.end(), name) !=
         kActivationParameters.end();
}

bool is_along_lines(const Shape& shape) {
  return shape.size() <= 2 && (shape.size() < 2 || shape[0] == 1);
}

}  // namespace

bool is_scalar_node(const Node& node) {
  return find_op(node.op)->scalar != nullptr && !is_positional(node.op) && node.outputs.size() == 1;
}

std::optional<size_t> line_input(const Graph& graph, const Node& node) {
  if (const std::optional<ProductNode> product = product_of(graph, node)) {
    const bool is_per_line = !product->residual && product->x != product->w;
    return is_per_line ? std::optional<size_t>(0) : std::nullopt;
  }
  if (!is_scalar_node(node)) return std::nullopt;
  const Shape& result = graph.value(node.outputs[0]).type.shape;
  std::optional<size_t> lines;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i]) continue;
    const Shape& shape = graph.value(*node.inputs[i]).type.shape;
    if (is_along_lines(shape)) continue;
    if (lines || shape != result) return std::nullopt;
    lines = i;
  }
  return lines;
}

bool activation_fits(const Node& node) {
  if (!is_activation(node.op) || node.inputs.size() != 1) return false;
  return std::all_of(node.attributes.begin(), node.attributes.end(), [](const auto& attribute) {
    return is_activation_parameter(attribute.first);
  });
}

std::optional<ProductNode> product_of(const Graph& graph, const Node& node) {
  const bool fused = node.op == OpId::fused_matmul_bias_act;
  if (!fused && node.op != OpId::matmul) return std::nullopt;
  const TensorType& x = graph.value(*node.inputs[0]).type;
  const TensorType& w = graph.value(*node.inputs[1]).type;
  const DType result = graph.value(node.outputs[0]).type.dtype;
  const bool plain = x.shape.size() >= 2 && w.shape.size() == 2 && is_float(x.dtype) &&
                     is_float(w.dtype) && result == x.dtype;
  if (!plain || flag_of(node, "trans_a")) return std::nullopt;
  ProductNode product{.x = *node.inputs[0],
                      .w = *node.inputs[1],
                      .bias = input_at(node, 2),
                      .residual = input_at(node, 3),
                      .rows = flag_of(node, fused ? "trans_w" : "trans_b"),
                      .activation = {}};
  for (const auto& [name, value] : node.attributes) {
    if (name == "activation" || is_activation_parameter(name)) product.activation[name] = value;
  }
  const auto activation = product.activation.find("activation");
  if (activation != product.activation.end() &&
      activation->second == AttributeValue(std::string("none")))
    product.activation.clear();
  return product;
}

Dim line_count(const Graph& graph, ValueId x) {
  const Shape& shape = graph.value(x).type.shape;
  return element_count(Shape(shape.begin(), shape.end() - 1));
}

ValueId add_node_before(Graph& graph, NodeId position, const std::string& op,
                        const std::string& stem, std::vector<std::optional<ValueId>> inputs,
                        Attributes attributes) {
  const std::string name = graph.fresh_name(stem);
  const ValueId output =
      graph.add_value({.name = name, .type = {}, .weight = {}, .state = {}, .producer = {}});
  const Node& origin = graph.node(position);
  Node node{.name = name,
            .op = op,
            .inputs = std::move(inputs),
            .outputs = {output},
            .attributes = std::move(attributes),
            .region = {},
            .place = origin.place,
            .source = origin.source};
  const NodeId id = graph.insert_node_before(position, std::move(node));
  Diagnostics diagnostics;
  RLX_CHECK(check_and_infer(graph, id, diagnostics), diagnostics.text());
  return output;
}

std::optional<NodeId> sole_reader(const Graph& graph, ValueId id) {
  if (graph.is_output(id) || graph.reader_count(id) != 1) return std::nullopt;
  return graph.only_reader(id);
}

const Node* producer_of(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return value.origin == ValueOrigin::Node ? &graph.node(*value.producer) : nullptr;
}

void move_readers_behind(Graph& graph, NodeId id) {
  std::vector<NodeId> moved;
  std::set<NodeId> seen;
  const auto note_readers = [&](NodeId made_late) {
    for (ValueId output : graph.node(made_late).outputs) {
      for (NodeId reader : graph.readers(output)) {
        RLX_CHECK(reader != id, "nodes of \"" + graph.name + "\" read each other in a circle");
        if (graph.runs_before(reader, id) && seen.insert(reader).second) moved.push_back(reader);
      }
    }
  };
  note_readers(id);
  for (size_t i = 0; i < moved.size(); ++i) note_readers(moved[i]);
  std::sort(moved.begin(), moved.end(),
            [&graph](NodeId a, NodeId b) { return graph.runs_before(a, b); });
  NodeId last = id;
  for (NodeId reader : moved) {
    graph.move_behind(last, reader);
    last = reader;
  }
}

void turn_to_rows(Module& module, Graph& graph, NodeId product, Diagnostics& diagnostics) {
  const Node node = graph.node(product);
  const ValueId rows = add_node_before(graph, product, "transpose", node.name + ".rows",
                                       {node.inputs[1]}, {{"perm", Ints{1, 0}}});
  graph.change_node(product, [rows](Node& changed) {
    changed.inputs[1] = rows;
    changed.attributes[changed.op == OpId::matmul ? "trans_b" : "trans_w"] = true;
  });
  const NodeId view = *graph.value(rows).producer;
  if (fold_weights(module, graph, graph.node(view), diagnostics)) graph.remove_node(view);
}

}  // namespace rlx
