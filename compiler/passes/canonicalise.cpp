// SPDX-License-Identifier: Apache-2.0
// Nodes that do nothing, views of views, values that are known from shapes, and known bounds of
// clamp.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/support/check.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

bool is_reshape(const std::string& op) {
  return find_op(op)->view_kind == ViewKind::Reshape;
}

// The axes of a transpose; without the attribute it reverses them.
Ints permutation(const Graph& graph, const Node& node) {
  const auto written = node.attributes.find("perm");
  if (written != node.attributes.end()) return std::get<Ints>(written->second);
  Ints reversed(graph.value(*node.inputs[0]).type.shape.size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return reversed;
}

// What a transpose may do without: axes that all stay where they are.
bool keeps_axes(const Graph& graph, const Node& node) {
  const Ints axes = permutation(graph, node);
  return std::is_sorted(axes.begin(), axes.end());
}

// The value that a node merely passes on, or nullopt.
std::optional<ValueId> passed_on(const Graph& graph, const Node& node) {
  if (node.op == OpId::identity || node.op == OpId::stop_gradient) return node.inputs[0];
  const bool may_be_plain = is_reshape(node.op) || node.op == OpId::cast ||
                            node.op == OpId::expand ||
                            (node.op == OpId::transpose && keeps_axes(graph, node));
  if (!may_be_plain) return std::nullopt;
  const bool same = graph.value(*node.inputs[0]).type == graph.value(node.outputs[0]).type;
  return same ? node.inputs[0] : std::nullopt;
}

const Node* producer(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return value.origin == ValueOrigin::Node ? &graph.node(*value.producer) : nullptr;
}

// reshape(reshape(x)) reads x; transpose(transpose(x)) becomes one transpose.
bool merge_with_producer(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!is_reshape(node.op) && node.op != OpId::transpose) return false;
  const Node* before = producer(graph, *node.inputs[0]);
  if (before == nullptr) return false;
  if (is_reshape(node.op) && is_reshape(before->op)) {
    graph.change_node(id, [&](Node& view) {
      view.inputs[0] = before->inputs[0];
      view.op = "reshape";
      view.attributes = {{"shape", graph.value(view.outputs[0]).type.shape}};
    });
    return true;
  }
  if (node.op != OpId::transpose || before->op != OpId::transpose) return false;
  const Ints inner = permutation(graph, *before);
  Ints joined;
  for (int64_t axis : permutation(graph, node))
    joined.push_back(inner.at(static_cast<size_t>(axis)));
  graph.change_node(id, [&](Node& view) {
    view.inputs[0] = before->inputs[0];
    view.attributes["perm"] = std::move(joined);
  });
  return true;
}

bool fold_shape(Module& module, Graph& graph, const Node& node, Diagnostics& diagnostics) {
  if (!find_op(node.op)->shape_only) return false;
  Tensor shape_carrier;
  shape_carrier.type = graph.value(*node.inputs[0]).type;
  std::optional<std::vector<Tensor>> outputs;
  const std::optional<Dim> read = free_size_read_by([&] {
    outputs =
        evaluate_node(node, {&shape_carrier}, {graph.value(node.outputs[0]).type}, diagnostics);
  });
  if (read) report_free_size(diagnostics, node.op, node.name, "its value", *read);
  RLX_CHECK(outputs.has_value(), "folding " + node.op + " \"" + node.name + "\"");
  const std::string stem = graph.value(node.outputs[0]).name + ".const";
  graph.replace_uses(node.outputs[0], add_constant(module, graph, stem, (*outputs)[0]));
  return true;
}

// clamp(x, low, high) with known bounds as clamp(x; min, max), which fits behind a product.
bool write_bounds(const Module& module, Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op != OpId::clamp || node.inputs.size() < 2) return false;
  if (graph.value(*node.inputs[0]).type != graph.value(node.outputs[0]).type) return false;
  Attributes bounds = node.attributes;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (!node.inputs[i]) continue;
    const std::optional<double> bound = known_number(module, graph, *node.inputs[i]);
    if (!bound || std::isnan(*bound)) return false;
    bounds[i == 1 ? "min" : "max"] = *bound;
  }
  graph.change_node(id, [&bounds](Node& clamp) {
    clamp.inputs.resize(1);
    clamp.attributes = std::move(bounds);
  });
  return true;
}

}  // namespace

size_t canonicalise(Module& module, const PassOptions&, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      const Node& node = graph.node(id);
      if (fold_shape(module, graph, node, diagnostics)) {
        graph.remove_node(id);
        ++changed;
        continue;
      }
      // A merged view may turn out to change nothing.
      const bool merged = merge_with_producer(graph, id) || write_bounds(module, graph, id);
      const std::optional<ValueId> source = passed_on(graph, node);
      if (source) {
        graph.replace_uses(node.outputs[0], *source);
        graph.remove_node(id);
      }
      if (merged || source) ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
