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
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"
#include "compiler/passes/view_chain.h"
#include "compiler/reference/evaluate.h"
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

// The operand that a product with one, a quotient by one or a difference from zero is, to the bit.
std::optional<ValueId> changed_by_nothing(const Module& module, const Graph& graph,
                                          const Node& node) {
  if (node.op != OpId::mul && node.op != OpId::div && node.op != OpId::sub) return std::nullopt;
  const TensorType& type = graph.value(node.outputs[0]).type;
  for (const size_t i : {size_t{1}, size_t{0}}) {
    if (i == 0 && node.op != OpId::mul) continue;
    const bool is_nothing =
        known_number(module, graph, *node.inputs[i]) == (node.op == OpId::sub ? 0.0 : 1.0);
    if (is_nothing && graph.value(*node.inputs[1 - i]).type == type) return node.inputs[1 - i];
  }
  return std::nullopt;
}

// The value that a node merely passes on, or nullopt.
std::optional<ValueId> passed_on(const Module& module, const Graph& graph, const Node& node) {
  if (node.op == OpId::identity || node.op == OpId::stop_gradient) return node.inputs[0];
  if (const auto operand = changed_by_nothing(module, graph, node)) return operand;
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

// What a reader takes of a shape, where it takes sizes that are fixed.
std::optional<Tensor> fixed_sizes(const Module& module, const Graph& graph, const Node& shape_of,
                                  const Node& reader, Diagnostics& diagnostics) {
  if (reader.op != OpId::slice && reader.op != OpId::narrow && reader.op != OpId::gather)
    return std::nullopt;
  std::vector<Tensor> answers;
  // What is the same for two numbers in the places of free sizes does not take them.
  for (const int64_t free_size : {0, 1}) {
    Tensor sizes;
    sizes.type = graph.value(shape_of.outputs[0]).type;
    for (const Dim& dim : graph.value(*shape_of.inputs[0]).type.shape)
      sizes.integers.push_back(dim.is_free() ? free_size : dim.bound());
    std::vector<Tensor> weights;
    weights.reserve(reader.inputs.size());
    std::vector<const Tensor*> inputs;
    for (const std::optional<ValueId>& input : reader.inputs) {
      const Weight* weight = weight_of(module, graph, *input);
      const bool is_shape = input == shape_of.outputs[0];
      if (!is_shape && (weight == nullptr || !is_known(*weight))) return std::nullopt;
      if (!is_shape) weights.push_back(weight_tensor(module, *weight));
      inputs.push_back(is_shape ? &sizes : &weights.back());
    }
    auto outputs =
        evaluate_node(reader, inputs, {graph.value(reader.outputs[0]).type}, diagnostics);
    if (!outputs) return std::nullopt;
    answers.push_back(std::move(outputs->front()));
  }
  return answers[0].integers == answers[1].integers ? std::optional(answers[0]) : std::nullopt;
}

// Readers of a shape with free sizes that take fixed ones alone read constants; true where nobody
// reads it any more.
bool fold_fixed_sizes(Module& module, Graph& graph, const Node& node, Diagnostics& diagnostics) {
  if (node.op != OpId::shape_of) return false;
  const ValueId shape = node.outputs[0];
  for (const NodeId id : graph.readers(shape)) {
    const Node reader = graph.node(id);
    const std::optional<Tensor> sizes = fixed_sizes(module, graph, node, reader, diagnostics);
    if (!sizes) return false;
    const std::string stem = graph.value(reader.outputs[0]).name + ".const";
    graph.replace_uses(reader.outputs[0], add_constant(module, graph, stem, *sizes));
    graph.remove_node(id);
  }
  return !graph.is_output(shape);
}

bool fold_shape(Module& module, Graph& graph, const Node& node, Diagnostics& diagnostics) {
  if (!find_op(node.op)->shape_only) return false;
  const Shape& shape = graph.value(*node.inputs[0]).type.shape;
  const bool is_free =
      std::any_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_free(); });
  if (is_free) return fold_fixed_sizes(module, graph, node, diagnostics);
  Tensor shape_carrier;
  shape_carrier.type = graph.value(*node.inputs[0]).type;
  const auto outputs =
      evaluate_node(node, {&shape_carrier}, {graph.value(node.outputs[0]).type}, diagnostics);
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

// gather at one known index as the part of the axis that it is, which is a view.
bool take_known_part(const Module& module, Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op != OpId::gather || node.attributes.contains("out_dtype")) return false;
  const TensorType& x = graph.value(*node.inputs[0]).type;
  const Weight* index = weight_of(module, graph, *node.inputs[1]);
  const bool is_one = index != nullptr && is_known(*index) && element_count(index->type.shape) == 1;
  // Lists stay: of sizes that the run gives, others read the numbers.
  if (!is_one || x.shape.size() < 2 || block_elements(x.dtype) != 1) return false;
  const int64_t written = weight_tensor(module, *index).integers.at(0);
  const int64_t written_axis = node_integer(node, "axis");
  const int64_t axis =
      written_axis < 0 ? written_axis + static_cast<int64_t>(x.shape.size()) : written_axis;
  const Dim& size = x.shape[static_cast<size_t>(axis)];
  if (written < 0 && size.is_free()) return false;
  const Dim start = written < 0 ? written + size : Dim(written);
  // What lies outside at some size is the op's to tell.
  if (start.range().least < 0 || start.bound() >= size.range().least) return false;
  const ValueId part =
      add_node_before(graph, id, "narrow", node.name, {node.inputs[0]},
                      {{"axis", axis}, {"start", start.bound()}, {"len", int64_t{1}}});
  graph.change_node(id, [&graph, part](Node& view) {
    view.op = "reshape";
    view.inputs = {part};
    view.attributes = {{"shape", Ints(graph.value(view.outputs[0]).type.shape)}};
  });
  return true;
}

// The view that makes a value, and those before it, while nobody reads them.
void remove_unread_views(Graph& graph, ValueId value) {
  while (true) {
    const std::optional<NodeId> id = graph.value(value).producer;
    if (!id || !graph.contains(*id) || !is_chained_view(graph.node(*id))) return;
    for (const ValueId output : graph.node(*id).outputs)
      if (graph.is_output(output) || graph.reader_count(output) > 0) return;
    value = *graph.node(*id).inputs[0];
    graph.remove_node(*id);
  }
}

}  // namespace

size_t canonicalise(Module& module, const PassOptions&, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      if (!graph.contains(id)) continue;  // with the shape that it read
      const Node& node = graph.node(id);
      if (fold_shape(module, graph, node, diagnostics)) {
        graph.remove_node(id);
        ++changed;
        continue;
      }
      const std::optional<ValueId> read = input_at(node, 0);
      // A merged view may turn out to change nothing.
      const bool merged = merge_with_producer(graph, id) || write_bounds(module, graph, id) ||
                          take_known_part(module, graph, id);
      const bool shortened = merge_views(graph, id);
      const std::optional<ValueId> source = passed_on(module, graph, graph.node(id));
      if (source) {
        graph.replace_uses(graph.node(id).outputs[0], *source);
        graph.remove_node(id);
      }
      // What was merged is read by others, or goes.
      if (shortened && !source) remove_unread_views(graph, graph.node(id).outputs[0]);
      if ((merged || shortened) && read) remove_unread_views(graph, *read);
      if (merged || shortened || source) ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
