// SPDX-License-Identifier: Apache-2.0
// Parts of what was joined along the same axis are read where they came from: a cut inside one part
// of a concat, outputs of a split that are those parts, and what a concat joins again. An
// elementwise node of joined values of which cuts alone are read is computed for each cut, whose
// operands are parts then. Exporters write complex numbers so, as pairs that are joined behind each
// operation and cut before the next.
#include <algorithm>

#include "compiler/ops/lowering/positions.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/chain.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

ValueId cut_out(NodeEmitter& emitter, ValueId x, size_t axis, int64_t start, int64_t end) {
  const Dim length = emitter.type(x).shape[axis];
  if (start == 0 && length == end) return x;
  return emitter.emit(
      "narrow", {x},
      {{"axis", static_cast<int64_t>(axis)}, {"start", start}, {"len", end - start}});
}

// ---- cuts of a concat ----

struct Part {
  ValueId of{};
  int64_t start = 0;
  int64_t end = 0;
};

// Where in one part of a concat along `axis` its elements start .. end lie.
std::optional<Part> part_of(const Graph& graph, const Node& concat, size_t axis, int64_t start,
                            int64_t end) {
  if (concat.op != OpId::concat || start >= end) return std::nullopt;
  const size_t rank = graph.value(concat.outputs[0]).type.shape.size();
  if (axis_of(concat, rank) != axis) return std::nullopt;
  int64_t first = 0;
  for (const std::optional<ValueId>& input : concat.inputs) {
    const int64_t length = graph.value(*input).type.shape[axis];
    if (start >= first && end <= first + length)
      return Part{.of = *input, .start = start - first, .end = end - first};
    first += length;
  }
  return std::nullopt;
}

bool read_part(Graph& graph, NodeId id) {
  const ValueId result = graph.node(id).outputs[0];
  const auto part = decided_at_all_sizes([&]() -> std::optional<Part> {
    const std::optional<Cut> cut = cut_of(graph, result);
    const Node* concat = cut ? producer_of(graph, cut->x) : nullptr;
    if (concat == nullptr) return std::nullopt;
    return part_of(graph, *concat, cut->axis, cut->start, cut->end);
  });
  if (!part) return false;
  NodeEmitter emitter(graph, id);
  const size_t axis = cut_of(graph, result)->axis;
  graph.replace_uses(result, cut_out(emitter, part->of, axis, part->start, part->end));
  graph.remove_node(id);
  return true;
}

// All outputs of a split, or none.
bool read_split(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  if (node.op != OpId::split) return false;
  const size_t axis = axis_of(node, graph.value(*node.inputs[0]).type.shape.size());
  const auto parts = decided_at_all_sizes([&]() -> std::optional<std::vector<Part>> {
    const Node* concat = producer_of(graph, *node.inputs[0]);
    if (concat == nullptr) return std::nullopt;
    std::vector<Part> found;
    int64_t start = 0;
    for (const ValueId output : node.outputs) {
      const int64_t length = graph.value(output).type.shape[axis];
      const auto part = part_of(graph, *concat, axis, start, start + length);
      if (!part) return std::nullopt;
      found.push_back(*part);
      start += length;
    }
    return found;
  });
  if (!parts) return false;
  NodeEmitter emitter(graph, id);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Part& part = (*parts)[i];
    graph.replace_uses(node.outputs[i], cut_out(emitter, part.of, axis, part.start, part.end));
  }
  graph.remove_node(id);
  return true;
}

// ---- concats of parts of concats ----

// The parts of which a concat makes elements start .. end along its axis.
std::vector<std::optional<ValueId>> parts_within(NodeEmitter& emitter, const Node& concat,
                                                 size_t axis, int64_t start, int64_t end) {
  std::vector<std::optional<ValueId>> parts;
  int64_t first = 0;
  for (const std::optional<ValueId>& input : concat.inputs) {
    const int64_t last = first + static_cast<int64_t>(emitter.type(*input).shape[axis]);
    if (start < last && first < end)
      parts.emplace_back(cut_out(emitter, *input, axis, std::max(start, first) - first,
                                 std::min(end, last) - first));
    first = last;
  }
  return parts;
}

// What a concat that nothing else reads, or a cut of one, joins along this axis before it is joined
// again.
struct JoinedAgain {
  Node concat;
  int64_t start = 0;
  int64_t end = 0;
};

std::optional<JoinedAgain> joined_again(const Graph& graph, ValueId part, size_t axis) {
  const Shape& shape = graph.value(part).type.shape;
  if (!sole_reader(graph, part) || graph.is_output(part) || shape[axis].is_free())
    return std::nullopt;
  const std::optional<Cut> cut = cut_of(graph, part);
  if (cut && cut->axis != axis) return std::nullopt;
  const Node* made_by = producer_of(graph, cut ? cut->x : part);
  if (made_by == nullptr || made_by->op != OpId::concat || axis_of(*made_by, shape.size()) != axis)
    return std::nullopt;
  const bool is_free = std::any_of(
      made_by->inputs.begin(), made_by->inputs.end(),
      [&](const auto& input) { return graph.value(*input).type.shape[axis].is_free(); });
  if (is_free) return std::nullopt;
  return JoinedAgain{.concat = *made_by,
                     .start = cut ? cut->start : 0,
                     .end = cut ? cut->end : static_cast<int64_t>(shape[axis])};
}

bool join_parts_once(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  if (node.op != OpId::concat) return false;
  const size_t axis = axis_of(node, graph.value(node.outputs[0]).type.shape.size());
  NodeEmitter emitter(graph, id);
  std::vector<std::optional<ValueId>> parts;
  bool changed = false;
  for (const std::optional<ValueId>& input : node.inputs) {
    const std::optional<JoinedAgain> again = joined_again(graph, *input, axis);
    if (!again) {
      parts.push_back(input);
      continue;
    }
    const auto within = parts_within(emitter, again->concat, axis, again->start, again->end);
    parts.insert(parts.end(), within.begin(), within.end());
    changed = true;
  }
  changed = changed && !parts.empty();
  if (changed) graph.change_node(id, [&parts](Node& concat) { concat.inputs = std::move(parts); });
  return changed;
}

// ---- cuts of elementwise nodes ----

// The axis of an operand that broadcasting lays on axis `axis` of the result; nullopt where all of
// the result's elements along it read the same one.
std::optional<size_t> axis_in(const Graph& graph, ValueId operand, const Shape& result,
                              size_t axis) {
  const Shape& shape = graph.value(operand).type.shape;
  const size_t missing = result.size() - shape.size();
  if (axis < missing || shape[axis - missing] != result[axis]) return std::nullopt;
  return axis - missing;
}

// True where elements of a value along an axis come from a concat along it, through elementwise
// nodes that nothing else reads.
bool is_joined(const Graph& graph, ValueId value, size_t axis) {
  const Node* node = producer_of(graph, value);
  if (node == nullptr) return false;
  const Shape& shape = graph.value(value).type.shape;
  if (node->op == OpId::concat) return axis_of(*node, shape.size()) == axis;
  if (!is_elementwise(*node) || !sole_reader(graph, value) || !has_chain_types(graph, *node))
    return false;
  return std::any_of(node->inputs.begin(), node->inputs.end(), [&](const auto& input) {
    const std::optional<size_t> at = axis_in(graph, *input, shape, axis);
    return at && is_joined(graph, *input, *at);
  });
}

// The axis along which all readers of an elementwise node cut it, no more elements than it has,
// where one of its operands was joined along it.
std::optional<size_t> axis_of_cuts(const Graph& graph, const Node& node) {
  const ValueId result = node.outputs[0];
  const std::vector<NodeId> readers = graph.readers(result);
  if (!is_elementwise(node) || is_positional(node.op) || node.outputs.size() != 1 ||
      !node.region.empty() || graph.is_output(result) || readers.empty() ||
      !has_chain_types(graph, node))
    return std::nullopt;
  std::optional<size_t> axis;
  int64_t taken = 0;
  for (const NodeId reader : readers) {
    const std::optional<Cut> cut = cut_of(graph, graph.node(reader).outputs[0]);
    if (!cut || axis.value_or(cut->axis) != cut->axis) return std::nullopt;
    axis = cut->axis;
    taken += cut->end - cut->start;
  }
  const Shape& shape = graph.value(result).type.shape;
  if (taken > shape[*axis]) return std::nullopt;
  const bool has_joined =
      std::any_of(node.inputs.begin(), node.inputs.end(), [&](const std::optional<ValueId>& input) {
        const std::optional<size_t> at = axis_in(graph, *input, shape, *axis);
        return at && is_joined(graph, *input, *at);
      });
  return has_joined ? axis : std::nullopt;
}

bool cut_operands(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const auto axis = decided_at_all_sizes([&] { return axis_of_cuts(graph, node); });
  if (!axis) return false;
  const Shape shape = graph.value(node.outputs[0]).type.shape;
  for (const NodeId reader : graph.readers(node.outputs[0])) {
    const ValueId result = graph.node(reader).outputs[0];
    const Cut cut = *cut_of(graph, result);
    NodeEmitter emitter(graph, reader);
    std::vector<std::optional<ValueId>> inputs;
    for (const std::optional<ValueId>& input : node.inputs) {
      const std::optional<size_t> at = axis_in(graph, *input, shape, *axis);
      inputs.push_back(at ? cut_out(emitter, *input, *at, cut.start, cut.end) : *input);
    }
    graph.replace_uses(result, emitter.emit(node.op.c_str(), std::move(inputs), node.attributes));
    graph.remove_node(reader);
  }
  graph.remove_node(id);
  return true;
}

}  // namespace

size_t cut_joined(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    // From the results to the inputs: what a cut moves before may be joined itself.
    std::vector<NodeId> order = graph.order();
    for (auto id = order.rbegin(); id != order.rend(); ++id)
      if (graph.contains(*id) && cut_operands(graph, *id)) ++changed;
    order = graph.order();
    for (const NodeId id : order)
      if (read_part(graph, id) || read_split(graph, id)) ++changed;
    order = graph.order();
    for (const NodeId id : order)
      if (graph.contains(id) && join_parts_once(graph, id)) ++changed;
  }
  if (changed > 0) remove_dead(module, options, diagnostics);
  return changed;
}

}  // namespace rlx
