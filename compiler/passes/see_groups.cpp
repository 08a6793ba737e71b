// SPDX-License-Identifier: Apache-2.0
// group_norm as formats without one write it: the channels of a group as one, an instance_norm of
// those, and the channels as they were, with their weights behind it.
#include <algorithm>

#include "compiler/ops/op_id.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

struct WrittenGroups {
  ValueId x{};
  std::optional<ValueId> gamma;
  std::optional<ValueId> beta;
  int64_t groups = 1;
  double eps = 0;
  ValueId result{};
};

class GroupReader {
 public:
  GroupReader(const Module& module, const Graph& graph) : module_(module), graph_(graph) {}

  // The group_norm in the middle of which a node is; nullopt where it is in none.
  std::optional<WrittenGroups> read(const Node& node) {
    if (node.op != OpId::instance_norm || !is_plain(node)) return std::nullopt;
    const Node* apart = inner(*node.inputs[0]);
    if (apart == nullptr || !is_reshaping(*apart)) return std::nullopt;
    found_.x = *apart->inputs[0];
    const Shape& x = shape_of(found_.x);
    const Shape& groups = shape_of(*node.inputs[0]);
    const bool is_split = x.size() >= 3 && groups.size() >= 3 && groups[0] == x[0] &&
                          !groups[1].is_free() && !x[1].is_free() && groups[1] > 0 &&
                          x[1] % groups[1] == 0;
    const std::optional<NodeId> back = sole_reader(graph_, node.outputs[0]);
    if (!is_split || !back || !is_reshaping(graph_.node(*back))) return std::nullopt;
    found_.result = graph_.node(*back).outputs[0];
    if (shape_of(found_.result) != x) return std::nullopt;
    found_.groups = groups[1];
    found_.eps = std::get<double>(node.attributes.contains("eps") ? node.attributes.at("eps")
                                                                  : AttributeValue{1e-5});
    take_weights();
    return found_;
  }

 private:
  [[nodiscard]] const Shape& shape_of(ValueId id) const { return graph_.value(id).type.shape; }
  // The producer of what has no other reader.
  [[nodiscard]] const Node* inner(ValueId id) const {
    return sole_reader(graph_, id) ? producer_of(graph_, id) : nullptr;
  }

  // It neither scales nor shifts.
  [[nodiscard]] bool is_plain(const Node& node) const {
    const auto is_number = [&](size_t input, double number) {
      const std::optional<ValueId> id = input_at(node, input);
      return !id || known_number(module_, graph_, *id) == number;
    };
    return is_number(1, 1) && is_number(2, 0);
  }

  // What stands once for each channel.
  [[nodiscard]] bool is_by_channel(ValueId id, const Shape& x) const {
    const Shape& shape = shape_of(id);
    if (shape.size() + 1 < x.size() || shape.size() > x.size()) return false;
    const size_t channel = shape.size() + 1 - x.size();
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] != (i == channel ? x[1] : Dim(1))) return false;
    }
    return true;
  }

  void take_weights() {
    while (const std::optional<NodeId> id = sole_reader(graph_, found_.result)) {
      const Node& node = graph_.node(*id);
      const bool scales = node.op == OpId::mul && !found_.gamma && !found_.beta;
      const bool shifts = node.op == OpId::add && !found_.beta;
      if (!scales && !shifts) return;
      const ValueId other = *node.inputs[node.inputs[0] == found_.result ? 1 : 0];
      const Shape& x = shape_of(found_.x);
      if (!is_by_channel(other, x) || shape_of(node.outputs[0]) != x ||
          graph_.value(other).type.dtype != graph_.value(found_.x).type.dtype)
        return;
      (scales ? found_.gamma : found_.beta) = other;
      found_.result = node.outputs[0];
    }
  }

  const Module& module_;
  const Graph& graph_;
  WrittenGroups found_;
};

void replace(Graph& graph, const WrittenGroups& norm) {
  NodeEmitter emitter(graph, *graph.value(norm.result).producer);
  const Dim channels = emitter.type(norm.x).shape[1];
  const auto weight = [&](const std::optional<ValueId>& value) {
    return value ? std::optional(emitter.reshape(*value, {channels})) : std::nullopt;
  };
  std::vector<std::optional<ValueId>> inputs = {norm.x, weight(norm.gamma), weight(norm.beta)};
  while (!inputs.back()) inputs.pop_back();
  const ValueId y = emitter.emit("group_norm", std::move(inputs),
                                 {{"num_groups", norm.groups}, {"eps", norm.eps}});
  graph.replace_uses(norm.result, y);
}

}  // namespace

size_t see_groups(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      const std::optional<WrittenGroups> norm =
          decided_at_all_sizes([&] { return GroupReader(module, graph).read(graph.node(id)); });
      if (!norm) continue;
      replace(graph, *norm);
      ++changed;
    }
  }
  if (changed > 0) remove_dead(module, options, diagnostics);
  return changed;
}

}  // namespace rlx
