// SPDX-License-Identifier: Apache-2.0
// New nodes of a graph.
#include "compiler/ops/node_builder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/ir/constants.h"
#include "compiler/ops/op_def.h"
#include "compiler/support/check.h"

namespace rlx {

NodeBuilder::NodeBuilder(Module& module, Graph& graph, Site site)
    : module_(&module), graph_(&graph), site_(std::move(site)) {}

ValueId NodeBuilder::emit(std::string_view op, Inputs inputs, Attributes attributes) {
  return emit_all(op, std::move(inputs), std::move(attributes), 1).front();
}

std::vector<ValueId> NodeBuilder::emit_all(std::string_view op, Inputs inputs,
                                           Attributes attributes, size_t output_count) {
  RLX_CHECK(find_op(op) != nullptr, "composition of unknown op " + std::string(op));
  const std::string stem = site_.stem + "." + std::string(op);
  std::vector<ValueId> outputs;
  for (size_t i = 0; i < output_count; ++i) {
    const std::string name = graph_->fresh_name(i == 0 ? stem : stem + "." + std::to_string(i));
    outputs.push_back(
        graph_->add_value({.name = name, .type = {}, .weight = {}, .state = {}, .producer = {}}));
  }
  Node node{.name = graph_->value(outputs.front()).name,
            .op = std::string(op),
            .inputs = std::move(inputs),
            .outputs = outputs,
            .attributes = std::move(attributes),
            .region = {},
            .place = {},
            .source = {}};
  if (site_.node) {
    node.place = graph_->node(*site_.node).place;
    node.source = graph_->node(*site_.node).source;
  }
  const NodeId id = site_.position ? graph_->insert_node_before(*site_.position, std::move(node))
                                   : graph_->add_node(std::move(node));
  Diagnostics diagnostics;
  RLX_CHECK(check_and_infer(*graph_, id, diagnostics), diagnostics.text());
  return outputs;
}

ValueId NodeBuilder::constant(std::string_view stem, const Tensor& values) {
  return add_constant(*module_, *graph_, site_.stem + "." + std::string(stem), values);
}

ValueId NodeBuilder::cast(ValueId x, DType to) {
  if (dtype(x) == to) return x;
  return emit("cast", {x}, {{"to", std::string(name_of(to))}});
}

ValueId NodeBuilder::widen(ValueId x) {
  return cast(x, dtype(x) == DType::f64 ? DType::f64 : DType::f32);
}

ValueId NodeBuilder::affine(ValueId x, double mul, double add) {
  if (mul == 1 && add == 0) return x;
  return emit("affine", {x}, {{"mul", mul}, {"add", add}});
}

ValueId NodeBuilder::reshape(ValueId x, const Shape& wanted) {
  if (shape(x) == wanted) return x;
  return emit("reshape", {x}, {{"shape", wanted}});
}

ValueId NodeBuilder::expand(ValueId x, const Shape& wanted) {
  if (shape(x) == wanted) return x;
  return emit("expand", {x}, {{"shape", wanted}});
}

ValueId NodeBuilder::transpose(ValueId x, const Ints& axes) {
  if (std::is_sorted(axes.begin(), axes.end())) return x;
  return emit("transpose", {x}, {{"perm", axes}});
}

ValueId NodeBuilder::turn(ValueId x) {
  Ints axes = axes_from(0, shape(x).size());
  std::swap(axes.at(axes.size() - 2), axes.at(axes.size() - 1));
  return transpose(x, axes);
}

ValueId NodeBuilder::reduce(std::string_view op, ValueId x, const Ints& axes, Axes reduced) {
  if (axes.empty()) return x;
  return emit(op, {x}, {{"axes", axes}, {"keep_dims", reduced == Axes::Keep}});
}

ValueId NodeBuilder::sum_to(ValueId x, const Shape& wanted) {
  const Shape& from = shape(x);
  const size_t added = from.size() - wanted.size();
  Ints axes;
  for (size_t d = 0; d < from.size(); ++d) {
    if (d < added || wanted[d - added] != from[d]) axes.push_back(static_cast<int64_t>(d));
  }
  return reshape(reduce("reduce_sum", x, axes), wanted);
}

ValueId NodeBuilder::filled(const TensorType& type, double value) {
  return emit(
      "fill", {},
      {{"shape", type.shape}, {"value", value}, {"dtype", std::string(name_of(type.dtype))}});
}

Ints axes_from(size_t first, size_t rank) {
  Ints axes;
  for (size_t d = first; d < rank; ++d) axes.push_back(static_cast<int64_t>(d));
  return axes;
}

}  // namespace rlx
