// SPDX-License-Identifier: Apache-2.0
// Attention that a model gives as one node, behind the views that exporters write around it: heads
// that were repeated for the queries that share them are read once, and tensors whose axes of heads
// and tokens were exchanged for it as they stood before. Of one token, where an exchange is a
// reshape, rope goes before it too.
#include "compiler/ops/op_id.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"
#include "compiler/passes/written_attention.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

enum AttentionInput : size_t { kQ, kK, kV };

bool is_apart(const std::string& layout) {
  return layout == "bhsd" || layout == "bshd";
}
std::string exchanged(const std::string& layout) {
  return layout == "bhsd" ? "bshd" : "bhsd";
}

// [B,S,H,D] with heads and tokens exchanged, or the other way round.
Shape exchanged(const Shape& shape) {
  return {shape[0], shape[2], shape[1], shape[3]};
}

// A transpose that exchanges heads and tokens; of one of either, which clean-ups make a reshape.
bool exchanges(const Graph& graph, const Node& node) {
  if (node.op == OpId::transpose)
    return permutation_of(graph, node) == std::vector<size_t>{0, 2, 1, 3};
  if (!is_reshaping(node)) return false;
  const Shape& from = graph.value(*node.inputs[0]).type.shape;
  const Shape& to = graph.value(node.outputs[0]).type.shape;
  return from.size() == 4 && to.size() == 4 && (from[1] == 1 || from[2] == 1) &&
         to == exchanged(from);
}

// rope of one token by head, as it is by token.
bool rope_by_token(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const auto is_one = [&] {
    return node.op == OpId::rope && node_text(node, "layout") == "bhsd" &&
           graph.value(node.outputs[0]).type.shape[2] == 1;
  };
  if (!decided_at_all_sizes(is_one)) return false;
  NodeEmitter emitter(graph, id);
  const Shape by_head = emitter.type(node.outputs[0]).shape;
  std::vector<std::optional<ValueId>> inputs = node.inputs;
  inputs[0] = emitter.reshape(*inputs[0], exchanged(by_head));
  Attributes attributes = node.attributes;
  attributes["layout"] = std::string("bshd");
  const ValueId y = emitter.emit("rope", std::move(inputs), std::move(attributes));
  graph.replace_uses(node.outputs[0], emitter.reshape(y, by_head));
  return true;
}

// A node in another form: its inputs, its attributes and what stands for its result.
class AttentionTurner {
 public:
  AttentionTurner(Graph& graph, const Node& node)
      : graph_(graph),
        inputs_(node.inputs),
        attributes_(node.attributes),
        result_(node.outputs[0]),
        q_layout_(node_text(node, "q_layout")),
        kv_layout_(node_text(node, "kv_layout")) {
    out_layout_ =
        node.attributes.contains("out_layout") ? node_text(node, "out_layout") : q_layout_;
    const int64_t heads = node_integer(node, "num_heads");
    heads_ = heads;
    kv_heads_ =
        node.attributes.contains("num_kv_heads") ? node_integer(node, "num_kv_heads") : heads;
  }

  // True where anything is to be changed.
  bool read(const Node& node) {
    const bool is_whole = node_text(node, "packed") == "none" && node.outputs.size() == 1 &&
                          input_at(node, kQ) && input_at(node, kK) && input_at(node, kV);
    if (!is_whole || !is_apart(q_layout_) || !is_apart(kv_layout_) || !is_apart(out_layout_))
      return false;
    bool changed = false;
    while (drop_repeats() || turn_keys()) changed = true;
    while (turn(kQ, q_layout_)) changed = true;
    return turn_result() || changed;
  }

  void build(NodeId position) {
    attributes_["q_layout"] = q_layout_;
    attributes_["kv_layout"] = kv_layout_;
    attributes_["out_layout"] = out_layout_;
    attributes_["num_kv_heads"] = kv_heads_;
    NodeEmitter emitter(graph_, position);
    graph_.replace_uses(result_, emitter.emit("attention", inputs_, attributes_));
  }

 private:
  [[nodiscard]] std::optional<ValueId> before_exchange(ValueId id) const {
    const Node* node = producer_of(graph_, id);
    return node != nullptr && exchanges(graph_, *node) ? node->inputs[0] : std::nullopt;
  }

  bool turn(size_t input, std::string& layout) {
    const std::optional<ValueId> before = before_exchange(*inputs_[input]);
    if (!before) return false;
    inputs_[input] = before;
    layout = exchanged(layout);
    return true;
  }

  bool turn_keys() {
    const std::optional<ValueId> k = before_exchange(*inputs_[kK]);
    const std::optional<ValueId> v = before_exchange(*inputs_[kV]);
    if (!k || !v) return false;
    inputs_[kK] = k;
    inputs_[kV] = v;
    kv_layout_ = exchanged(kv_layout_);
    return true;
  }

  bool drop_repeats() {
    const auto k = before_repeats(graph_, {.value = *inputs_[kK], .axes = kv_layout_});
    const auto v = before_repeats(graph_, {.value = *inputs_[kV], .axes = kv_layout_});
    const bool is_turned = k && v && (k->heads.axes != kv_layout_ || v->heads.axes != kv_layout_);
    const bool divides = k && v && !is_turned && k->count == v->count && k->count > 0 &&
                         k->count < kv_heads_ && kv_heads_ % k->count == 0 &&
                         heads_ % k->count == 0;
    if (!divides) return false;
    inputs_[kK] = k->heads.value;
    inputs_[kV] = v->heads.value;
    kv_heads_ = k->count;
    return true;
  }

  bool turn_result() {
    const std::optional<NodeId> reader = sole_reader(graph_, result_);
    if (!reader) return false;
    const Node& node = graph_.node(*reader);
    if (before_exchange(node.outputs[0]) != result_) return false;
    result_ = node.outputs[0];
    out_layout_ = exchanged(out_layout_);
    return true;
  }

  Graph& graph_;
  std::vector<std::optional<ValueId>> inputs_;
  Attributes attributes_;
  ValueId result_;
  std::string q_layout_;
  std::string kv_layout_;
  std::string out_layout_;
  int64_t heads_ = 1;
  int64_t kv_heads_ = 1;
};

}  // namespace

size_t turn_attention(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      if (rope_by_token(graph, id)) ++changed;
      if (graph.node(id).op != OpId::attention) continue;
      AttentionTurner turner(graph, graph.node(id));
      bool is_changed = false;
      const bool is_decided = !free_size_read_by([&] { is_changed = turner.read(graph.node(id)); });
      if (!is_decided || !is_changed) continue;
      turner.build(id);
      ++changed;
    }
  }
  // What was looked through reads no more: it would stand between other patterns and their values.
  if (changed > 0) remove_dead(module, options, diagnostics);
  return changed;
}

}  // namespace rlx
