// SPDX-License-Identifier: Apache-2.0
// What the passes that see written-out operators ask of nodes.
#include "compiler/passes/patterns.h"

#include <algorithm>
#include <numeric>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/products.h"

namespace rlx {
namespace {

AttributeReader attributes_of(const Node& node) {
  return {*find_op(node.op), node.attributes};
}

// The operand of a node with two that is no known number, and the number of the other.
struct WithNumber {
  ValueId x{};
  double number = 0;
  bool is_second = true;  // the number
};

std::optional<WithNumber> with_number(const Module& module, const Graph& graph, const Node& node) {
  for (const size_t i : {size_t{1}, size_t{0}}) {
    const ValueId x = *node.inputs[1 - i];
    const std::optional<double> number = known_number(module, graph, *node.inputs[i]);
    if (number && graph.value(x).type == graph.value(node.outputs[0]).type)
      return WithNumber{.x = x, .number = *number, .is_second = i == 1};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Scaled> scaled_of(const Module& module, const Graph& graph, const Node& node) {
  if (!is_float(graph.value(node.outputs[0]).type.dtype)) return std::nullopt;
  if (node.op == OpId::affine) {
    const AttributeReader attributes = attributes_of(node);
    if (attributes.real("add") != 0) return std::nullopt;
    return Scaled{.x = *node.inputs[0], .factor = attributes.real("mul")};
  }
  if (node.op != OpId::mul && node.op != OpId::div) return std::nullopt;
  const std::optional<WithNumber> found = with_number(module, graph, node);
  if (!found) return std::nullopt;
  if (node.op == OpId::mul) return Scaled{.x = found->x, .factor = found->number};
  if (!found->is_second || found->number == 0) return std::nullopt;
  return Scaled{.x = found->x, .factor = 1 / found->number};
}

std::optional<Shifted> shifted_of(const Module& module, const Graph& graph, const Node& node) {
  if (!is_float(graph.value(node.outputs[0]).type.dtype)) return std::nullopt;
  if (node.op == OpId::affine) {
    const AttributeReader attributes = attributes_of(node);
    if (attributes.real("mul") != 1) return std::nullopt;
    return Shifted{.x = *node.inputs[0], .shift = attributes.real("add")};
  }
  if (node.op != OpId::add && node.op != OpId::sub) return std::nullopt;
  const std::optional<WithNumber> found = with_number(module, graph, node);
  if (!found || (node.op == OpId::sub && !found->is_second)) return std::nullopt;
  return Shifted{.x = found->x, .shift = node.op == OpId::sub ? -found->number : found->number};
}

std::optional<double> power_of(const Module& module, const Graph& graph, const Node& node) {
  if (node.op == OpId::square || (node.op == OpId::mul && node.inputs[0] == node.inputs[1]))
    return 2;
  if (node.op == OpId::powf) return attributes_of(node).real("exponent");
  const bool is_power = node.op == OpId::pow &&
                        graph.value(*node.inputs[0]).type == graph.value(node.outputs[0]).type;
  return is_power ? known_number(module, graph, *node.inputs[1]) : std::nullopt;
}

std::vector<size_t> permutation_of(const Graph& graph, const Node& node) {
  std::vector<size_t> axes(graph.value(*node.inputs[0]).type.shape.size());
  std::iota(axes.rbegin(), axes.rend(), size_t{0});
  const auto written = node.attributes.find("perm");
  if (written == node.attributes.end()) return axes;
  const Ints& perm = std::get<Ints>(written->second);
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<size_t>(perm[i]);
  return axes;
}

bool is_float_cast(const Graph& graph, const Node& node) {
  return node.op == OpId::cast && is_float(graph.value(*node.inputs[0]).type.dtype) &&
         is_float(graph.value(node.outputs[0]).type.dtype);
}

bool is_reshaping(const Node& node) {
  return find_op(node.op)->view_kind == ViewKind::Reshape;
}

int64_t node_integer(const Node& node, const char* name) {
  return attributes_of(node).integer(name);
}

double node_real(const Node& node, const char* name) {
  return attributes_of(node).real(name);
}

bool node_flag(const Node& node, const char* name) {
  return attributes_of(node).flag(name);
}

std::string node_text(const Node& node, const char* name) {
  return attributes_of(node).text(name);
}

size_t axis_of(const Node& node, size_t rank) {
  const int64_t axis = node_integer(node, "axis");
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

std::optional<CutStart> cut_start_of(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 1) return std::nullopt;
  const Shape& x = graph.value(*node.inputs[0]).type.shape;
  if (node.op == OpId::narrow)
    return CutStart{.axis = axis_of(node, x.size()),
                    .start = attributes_of(node).integers("start").at(0)};
  if (node.op != OpId::slice) return std::nullopt;
  const Ints& starts = std::get<Ints>(node.attributes.at("starts"));
  const auto axes = node.attributes.find("axes");
  const auto steps = node.attributes.find("steps");
  const bool is_step = steps != node.attributes.end() && std::get<Ints>(steps->second) != Ints{1};
  if (starts.size() != 1 || is_step || axes == node.attributes.end()) return std::nullopt;
  const int64_t axis = std::get<Ints>(axes->second)[0].bound();
  return CutStart{
      .axis = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(x.size()) : axis),
      .start = starts[0]};
}

std::optional<Cut> cut_of(const Graph& graph, ValueId id) {
  const Node* node = producer_of(graph, id);
  const std::optional<CutStart> begin = node == nullptr ? std::nullopt : cut_start_of(graph, *node);
  if (!begin) return std::nullopt;
  const Shape& x = graph.value(*node->inputs[0]).type.shape;
  const Shape& y = graph.value(id).type.shape;
  const size_t axis = begin->axis;
  if (begin->start.is_free() || x[axis].is_free() || y[axis].is_free()) return std::nullopt;
  const int64_t length = x[axis];
  const int64_t first = begin->start;
  const int64_t start = std::clamp<int64_t>(first < 0 ? first + length : first, 0, length);
  return Cut{.x = *node->inputs[0],
             .axis = axis,
             .start = start,
             .end = start + static_cast<int64_t>(y[axis])};
}

ValueId NodeEmitter::emit(const char* op, std::vector<std::optional<ValueId>> inputs,
                          Attributes attributes) {
  const std::string stem = graph_.node(position_).name + "." + op;
  return add_node_before(graph_, position_, op, stem, std::move(inputs), std::move(attributes));
}

ValueId NodeEmitter::reshape(ValueId value, const Shape& shape) {
  if (type(value).shape == shape) return value;
  return emit("reshape", {value}, {{"shape", Ints(shape)}});
}

ValueId NodeEmitter::expand(ValueId value, const Shape& shape) {
  if (type(value).shape == shape) return value;
  return emit("expand", {value}, {{"shape", Ints(shape)}});
}

ValueId NodeEmitter::cast(ValueId value, DType dtype) {
  if (type(value).dtype == dtype) return value;
  return emit("cast", {value}, {{"to", std::string(name_of(dtype))}});
}

}  // namespace rlx
