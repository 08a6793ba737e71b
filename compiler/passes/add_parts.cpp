// SPDX-License-Identifier: Apache-2.0
// Reductions over few elements that stand far apart, as elementwise nodes of parts of their
// operand: those keep the layout in which they find it and join the elementwise nodes around them,
// where a reduction would leave one thread two loads.
#include <algorithm>
#include <array>

#include "compiler/ops/lowering/positions.h"
#include "compiler/ops/lowering/scalar_cost.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/chain.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"

namespace rlx {
namespace {

constexpr int64_t kMostParts = 4;
constexpr int64_t kLeastNeighbours = 8;  // of an element of a part

struct Combination {
  OpId reduction;
  const char* op;
};
constexpr std::array kCombinations = {
    Combination{OpId::reduce_sum, "add"}, Combination{OpId::reduce_mean, "add"},
    Combination{OpId::reduce_max, "max"}, Combination{OpId::reduce_min, "min"}};

const char* combination_of(const Node& node) {
  const auto row = std::ranges::find_if(
      kCombinations, [&](const Combination& each) { return node.op == each.reduction; });
  return row == kCombinations.end() ? nullptr : row->op;
}

// The axis of a reduction over few elements with neighbours enough; nullopt of others.
std::optional<size_t> axis_of_few(const Graph& graph, const Node& node) {
  const TensorType& x = graph.value(*node.inputs[0]).type;
  const auto axes = node.attributes.find("axes");
  if (axes == node.attributes.end() || std::get<Ints>(axes->second).size() != 1) return {};
  if (!is_half(x.dtype) && x.dtype != DType::f32) return {};
  const int64_t given = std::get<Ints>(axes->second)[0].bound();
  const auto axis = static_cast<size_t>(given < 0 ? given + std::ssize(x.shape) : given);
  const Dim& count = x.shape[axis];
  if (count.is_free() || count < 2 || count > kMostParts) return {};
  Dim neighbours = 1;
  for (size_t d = axis + 1; d < x.shape.size(); ++d) neighbours *= x.shape[d];
  return neighbours.range().least < kLeastNeighbours ? std::nullopt : std::optional(axis);
}

// An elementwise node that nothing else reads: the same node of parts of its operands takes its
// place.
bool is_spread(const Graph& graph, const Node* node) {
  return node != nullptr && find_op(node->op)->scalar != nullptr && !is_positional(node->op) &&
         node->outputs.size() == 1 && graph.reader_count(node->outputs[0]) == 1 &&
         !graph.is_output(node->outputs[0]) && has_chain_types(graph, *node);
}

// What a part of a value is computed of.
struct Spread {
  uint64_t cost = 0;  // instructions of an element
  size_t operands = 0;
};
void add_spread(const Graph& graph, ValueId value, Spread& spread) {
  const Node* node = producer_of(graph, value);
  if (!is_spread(graph, node)) {
    ++spread.operands;
    return;
  }
  spread.cost += cost_of(graph, chain_of(graph, *node), node->inputs);
  for (const std::optional<ValueId>& input : node->inputs) add_spread(graph, *input, spread);
}

// Whether all parts join one kernel.
bool fits_in_one(const Graph& graph, ValueId x, int64_t count) {
  constexpr size_t kMostOperands = 8;
  Spread spread;
  add_spread(graph, x, spread);
  return static_cast<uint64_t>(count) * spread.cost <= kMostInlineCost &&
         static_cast<size_t>(count) * spread.operands <= kMostOperands;
}

// Makes parts of a tensor: what stands at one place of an axis, without that axis.
class Parts {
 public:
  Parts(Graph& graph, NodeId position, size_t axis_from_behind)
      : graph_(graph), emitter_(graph, position), axis_from_behind_(axis_from_behind) {}

  ValueId part(ValueId value, int64_t place) {
    const TensorType& type = emitter_.type(value);
    if (type.shape.size() < axis_from_behind_) return value;
    const size_t axis = type.shape.size() - axis_from_behind_;
    const Node* made_by = producer_of(graph_, value);
    if (type.shape[axis] != 1 && is_spread(graph_, made_by)) {
      const Node node = *made_by;
      std::vector<std::optional<ValueId>> inputs;
      for (const std::optional<ValueId>& input : node.inputs)
        inputs.emplace_back(part(*input, place));
      return emitter_.emit(node.op.c_str(), std::move(inputs), node.attributes);
    }
    Shape rest = type.shape;
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(axis));
    if (type.shape[axis] == 1) return emitter_.reshape(value, rest);
    const ValueId cut = emitter_.emit(
        "narrow", {value},
        {{"axis", static_cast<int64_t>(axis)}, {"start", place}, {"len", int64_t{1}}});
    return emitter_.reshape(cut, rest);
  }

 private:
  Graph& graph_;
  NodeEmitter emitter_;
  size_t axis_from_behind_;
};

// Of more than two parts in f32: rounded once, as a reduction is.
void replace(Graph& graph, NodeId id, size_t axis, const char* op) {
  const Node node = graph.node(id);
  const TensorType x = graph.value(*node.inputs[0]).type;
  const int64_t count = x.shape[axis];
  const bool is_mean = node.op == OpId::reduce_mean;
  const DType wide = count > 2 ? DType::f32 : x.dtype;
  NodeEmitter emitter(graph, id);
  Parts parts(graph, id, x.shape.size() - axis);
  ValueId sum = emitter.cast(parts.part(*node.inputs[0], 0), wide);
  for (int64_t place = 1; place < count; ++place)
    sum = emitter.emit(op, {sum, emitter.cast(parts.part(*node.inputs[0], place), wide)});
  if (is_mean) sum = emitter.emit("affine", {sum}, {{"mul", 1.0 / static_cast<double>(count)}});
  sum = emitter.reshape(emitter.cast(sum, x.dtype), graph.value(node.outputs[0]).type.shape);
  graph.replace_uses(node.outputs[0], sum);
}

}  // namespace

size_t add_parts(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      if (!graph.contains(id)) continue;
      const Node& node = graph.node(id);
      const char* op = combination_of(node);
      if (op == nullptr) continue;
      const std::optional<size_t> axis = axis_of_few(graph, node);
      if (!axis) continue;
      const ValueId x = *node.inputs[0];
      if (!fits_in_one(graph, x, graph.value(x).type.shape[*axis].bound())) continue;
      replace(graph, id, *axis, op);
      ++changed;
    }
  }
  if (changed > 0) remove_dead(module, options, diagnostics);
  return changed;
}

}  // namespace rlx
