// SPDX-License-Identifier: Apache-2.0
// An axis whose first part is cut off and joined behind the rest is rolled, along several axes at
// once where one follows the other.
#include <algorithm>
#include <array>

#include "compiler/ops/op_id.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"

namespace rlx {
namespace {

struct Roll {
  ValueId x{};
  std::vector<int64_t> shifts;
  std::vector<int64_t> axes;
};

// What one joined cuts are of, rolled; nullopt of other nodes.
std::optional<Roll> roll_of(const Graph& graph, const Node& node) {
  if (node.op != OpId::concat || node.inputs.size() != 2) return std::nullopt;
  const std::optional<Cut> last = cut_of(graph, *node.inputs[0]);
  const std::optional<Cut> first = cut_of(graph, *node.inputs[1]);
  if (!first || !last || first->x != last->x || first->axis != last->axis) return std::nullopt;
  const Shape& x = graph.value(first->x).type.shape;
  const bool is_whole = axis_of(node, x.size()) == first->axis && first->start == 0 &&
                        first->end == last->start && first->end > 0 &&
                        last->end == x[first->axis] && last->end > last->start;
  if (!is_whole) return std::nullopt;
  return Roll{.x = first->x, .shifts = {-first->end}, .axes = {static_cast<int64_t>(first->axis)}};
}

// A roll of another axis right before, which nothing else reads.
void take_roll_before(const Graph& graph, Roll& roll, const std::array<ValueId, 2>& cuts) {
  const Node* before = producer_of(graph, roll.x);
  const std::vector<NodeId> readers = graph.readers(roll.x);
  const bool is_only =
      !graph.is_output(roll.x) && std::all_of(readers.begin(), readers.end(), [&](NodeId id) {
        const ValueId made = graph.node(id).outputs[0];
        return made == cuts[0] || made == cuts[1];
      });
  if (before == nullptr || before->op != OpId::roll || !is_only) return;
  const auto& shifts = std::get<Ints>(before->attributes.at("shifts"));
  const auto& axes = std::get<Ints>(before->attributes.at("axes"));
  if (std::find(axes.begin(), axes.end(), Dim(roll.axes[0])) != axes.end()) return;
  for (size_t i = 0; i < axes.size(); ++i) {
    roll.axes.push_back(axes[i].bound());
    roll.shifts.push_back(shifts[i].bound());
  }
  roll.x = *before->inputs[0];
}

}  // namespace

size_t see_rolls(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      const Node node = graph.node(id);
      std::optional<Roll> roll = roll_of(graph, node);
      if (!roll) continue;
      take_roll_before(graph, *roll, {*node.inputs[0], *node.inputs[1]});
      NodeEmitter emitter(graph, id);
      const ValueId y = emitter.emit("roll", {roll->x},
                                     {{"shifts", Ints(roll->shifts.begin(), roll->shifts.end())},
                                      {"axes", Ints(roll->axes.begin(), roll->axes.end())}});
      graph.replace_uses(node.outputs[0], y);
      ++changed;
    }
  }
  if (changed > 0) remove_dead(module, options, diagnostics);
  return changed;
}

}  // namespace rlx
