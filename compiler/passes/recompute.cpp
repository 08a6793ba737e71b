// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recompute.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "compiler/ops/lowering/positions.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/chain.h"
#include "compiler/support/blocks.h"

namespace rlx {
namespace {

// Below, a step more is not worth the bytes.
constexpr uint64_t kLeastBytes = uint64_t{64} << 10;
// Instructions of one element of what is computed again: those of an activation.
constexpr uint64_t kMostCost = 256;

bool views_another(const Node& node) {
  const OpDef* op = find_op(node.op);
  return op != nullptr && op->view_kind != ViewKind::None;
}

// The nodes in their order, and what of the arena is there while each runs. A view's bytes are
// those of what it views.
class Liveness {
 public:
  explicit Liveness(const Graph& graph) : graph_(graph) {
    const std::vector<NodeId>& order = graph.order();
    for (size_t i = 0; i < order.size(); ++i) position_.emplace(order[i], i);
    for (const ValueId output : graph.outputs()) kept_.emplace(base(output), true);
    std::vector<int64_t> change(order.size() + 1, 0);
    for (const NodeId id : order) {
      if (views_another(graph.node(id))) continue;
      for (const ValueId value : graph.node(id).outputs) {
        if (kept_.contains(value)) continue;
        change[position_.at(id)] += static_cast<int64_t>(bytes(value));
        change[last_use(value) + 1] -= static_cast<int64_t>(bytes(value));
      }
    }
    std::partial_sum(change.begin(), change.end(), change.begin());
    const auto most = std::max_element(change.begin(), change.end());
    peak_ = static_cast<size_t>(most - change.begin());
    peak_bytes_ = static_cast<uint64_t>(std::max<int64_t>(*most, 0));
  }

  // While this node runs the most bytes are there.
  [[nodiscard]] size_t peak() const { return peak_; }
  [[nodiscard]] uint64_t peak_bytes() const { return peak_bytes_; }
  [[nodiscard]] size_t position(NodeId id) const { return position_.at(id); }

  [[nodiscard]] uint64_t bytes(ValueId value) const {
    const TensorType& type = graph_.value(value).type;
    return static_cast<uint64_t>(element_count(type.shape).bound()) * element_bytes(type.dtype);
  }
  [[nodiscard]] ValueId base(ValueId value) const {
    while (const std::optional<NodeId> producer = graph_.value(value).producer) {
      if (!views_another(graph_.node(*producer))) break;
      value = *graph_.node(*producer).inputs[0];
    }
    return value;
  }
  // It takes bytes of the arena for a time.
  [[nodiscard]] bool waits(ValueId value) const {
    return graph_.value(value).producer.has_value() && !kept_.contains(value);
  }

  // Where a reader needs the bytes first; of a view, where its own readers do.
  [[nodiscard]] size_t first_need(NodeId reader) const {
    if (!views_another(graph_.node(reader))) return position(reader);
    size_t first = position_.size();
    for (const NodeId next : graph_.readers(graph_.node(reader).outputs[0]))
      first = std::min(first, first_need(next));
    return first;
  }
  [[nodiscard]] size_t last_use(ValueId value) const {
    size_t last = position(*graph_.value(value).producer);
    for (const NodeId reader : graph_.readers(value)) {
      const bool views = views_another(graph_.node(reader));
      last = std::max(last, views ? last_use(graph_.node(reader).outputs[0]) : position(reader));
    }
    return last;
  }

 private:
  const Graph& graph_;
  std::unordered_map<NodeId, size_t> position_;
  std::unordered_map<ValueId, bool> kept_;  // outputs, and what they view
  size_t peak_ = 0;
  uint64_t peak_bytes_ = 0;
};

bool is_cheap(const Graph& graph, const Node& node) {
  if (!is_elementwise(node) || node.outputs.size() != 1 || !has_chain_types(graph, node))
    return false;
  const std::vector<RegionStep> steps = chain_of(graph, node);
  return cost_of(graph, steps, node.inputs) <= kMostCost &&
         std::none_of(steps.begin(), steps.end(), [](const RegionStep& step) {
           return is_positional(step.op) || reads_index(step.op) || draws_random(step.op);
         });
}

struct Pick {
  NodeId node{};
  std::vector<NodeId> readers;  // behind the peak
  uint64_t gain = 0;            // bytes less at the peak
};

// What computing a node again behind the peak brings; none where nothing reads it before.
Pick choice_of(const Graph& graph, const Liveness& live, NodeId id) {
  const Node& node = graph.node(id);
  const ValueId value = node.outputs[0];
  Pick choice{.node = id, .readers = {}};
  size_t first = graph.order().size();
  bool has_near = false;
  for (const NodeId reader : graph.readers(value)) {
    const size_t need = live.first_need(reader);
    has_near = has_near || need <= live.peak();
    if (need <= live.peak() || need >= graph.order().size()) continue;
    first = std::min(first, need);
    if (choice.readers.empty() || choice.readers.back() != reader) choice.readers.push_back(reader);
  }
  if (!has_near || choice.readers.empty()) return choice;
  uint64_t longer = 0;
  for (const std::optional<ValueId>& input : node.inputs) {
    const ValueId operand = live.base(*input);
    if (live.waits(operand) && live.last_use(operand) < first) longer += live.bytes(operand);
  }
  const uint64_t bytes = live.bytes(value);
  choice.gain = bytes > longer ? bytes - longer : 0;
  return choice;
}

Pick best_choice(const Graph& graph, const Liveness& live) {
  Pick best;
  for (const NodeId id : graph.order()) {
    if (live.position(id) > live.peak()) break;
    const Node& node = graph.node(id);
    if (node.outputs.size() != 1 || !live.waits(node.outputs[0])) continue;
    if (live.last_use(node.outputs[0]) <= live.peak() || !is_cheap(graph, node)) continue;
    Pick choice = choice_of(graph, live, id);
    if (choice.gain > best.gain) best = std::move(choice);
  }
  return best;
}

// A copy of the node right before another one.
NodeId repeat(Graph& graph, NodeId id, NodeId before) {
  Node copy = graph.node(id);
  copy.name = graph.fresh_name(copy.name + ".again");
  copy.outputs = {graph.add_value({.name = copy.name,
                                   .type = graph.value(graph.node(id).outputs[0]).type,
                                   .weight = {},
                                   .state = {},
                                   .producer = {}})};
  return graph.insert_node_before(before, std::move(copy));
}

void read_instead(Graph& graph, NodeId reader, ValueId from, ValueId to) {
  graph.change_node(reader, [from, to](Node& node) {
    std::replace(node.inputs.begin(), node.inputs.end(), std::optional(from), std::optional(to));
  });
}

// Readers of `from` read `to` instead, which is made right before `place`; their views too.
void serve(Graph& graph, const std::vector<NodeId>& readers, ValueId from, ValueId to,
           NodeId place) {
  for (const NodeId reader : readers) {
    if (!views_another(graph.node(reader))) {
      read_instead(graph, reader, from, to);
      continue;
    }
    const NodeId again = repeat(graph, reader, place);
    read_instead(graph, again, from, to);
    const ValueId viewed = graph.node(reader).outputs[0];
    serve(graph, graph.readers(viewed), viewed, graph.node(again).outputs[0], place);
    graph.remove_node(reader);
  }
}

size_t recompute_in(Graph& graph) {
  size_t changed = 0;
  for (;;) {
    const Liveness live(graph);
    const Pick best = best_choice(graph, live);
    if (best.gain < kLeastBytes) return changed;
    const auto first = std::min_element(
        best.readers.begin(), best.readers.end(),
        [&](NodeId a, NodeId b) { return live.first_need(a) < live.first_need(b); });
    const NodeId place = graph.order()[live.first_need(*first)];
    const NodeId again = repeat(graph, best.node, place);
    serve(graph, best.readers, graph.node(best.node).outputs[0], graph.node(again).outputs[0],
          place);
    ++changed;
  }
}

}  // namespace

size_t recompute(Module& module) {
  size_t changed = 0;
  for (Graph& graph : module.entries) changed += recompute_in(graph);
  return changed;
}

}  // namespace rlx
