// SPDX-License-Identifier: Apache-2.0
// Masks of attention that a model gives as one node. What is known to leave every key is dropped; a
// triangle, a band or a window of known numbers or of positions becomes the attributes that say so,
// and of conditions that must all hold only the others are read: kernels then skip the keys that no
// query of a tile attends to.
#include <map>
#include <utility>

#include "compiler/ops/attention/attention_problem.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/mask_forms.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

// What a node's masks come to.
class MaskTaker {
 public:
  MaskTaker(Graph& graph, MaskForms& forms, const Node& node)
      : graph_(graph),
        forms_(forms),
        inputs_(node.inputs),
        attributes_(node.attributes),
        is_causal_(node_flag(node, "causal")),
        is_start_(node_text(node, "causal_align") == "start"),
        window_left_(node_integer(node, "window_left")),
        window_right_(node_integer(node, "window_right")) {
    inputs_.resize(kAttentionSinks + 1);
  }

  // True where a mask or bias is read no more, or less of it. Positions that only the run knows say
  // nothing of a mask.
  bool take(const Node& node) {
    const bool is_apart = node_text(node, "packed") == "none" && node.outputs.size() == 1 &&
                          !inputs_[kAttentionKvLen] && !inputs_[kAttentionQStart];
    if (!is_apart || !find_tokens(node)) return false;
    const bool takes_mask = take_mask();
    return take_bias() || takes_mask;
  }

  void build(NodeId id) {
    NodeEmitter emitter(graph_, id);
    if (!conditions_.empty()) inputs_[kAttentionMask] = joined(emitter);
    while (!inputs_.back()) inputs_.pop_back();
    attributes_["causal"] = is_causal_;
    attributes_["causal_align"] = std::string(is_start_ ? "start" : "end");
    attributes_["window_left"] = window_left_;
    attributes_["window_right"] = window_right_;
    const ValueId result = graph_.node(id).outputs[0];
    graph_.replace_uses(result, emitter.emit("attention", inputs_, attributes_));
  }

 private:
  bool find_tokens(const Node& node) {
    const auto tokens = [&](AttentionInput input, const char* layout_name) -> std::optional<Dim> {
      if (!inputs_[input]) return std::nullopt;
      const Shape& shape = graph_.value(*inputs_[input]).type.shape;
      const std::string layout = node_text(node, layout_name);
      if (shape.size() != 4 || (layout != "bshd" && layout != "bhsd")) return std::nullopt;
      return shape[layout == "bshd" ? 1 : 2];
    };
    const std::optional<Dim> queries = tokens(kAttentionQ, "q_layout");
    const std::optional<Dim> keys = tokens(kAttentionK, "kv_layout");
    if (!queries || !keys) return false;
    queries_ = *queries;
    keys_ = *keys;
    return true;
  }

  bool take_form(const MaskForm& form) {
    if (form.is_open) return true;
    if (form.align == MaskAlign::None) return false;
    const bool starts = form.align == MaskAlign::Start;
    const bool is_placed = is_causal_ || window_left_ >= 0 || window_right_ >= 0;
    if (is_placed && starts != is_start_ && queries_ != keys_) return false;
    if (!is_placed) is_start_ = starts;
    is_causal_ = is_causal_ || form.causal;
    window_left_ = narrower(window_left_, form.window_left);
    window_right_ = narrower(window_right_, form.window_right);
    return true;
  }

  // Conditions that must all hold, those of known form left out; false where all stay.
  bool take_mask() {
    const std::optional<ValueId> mask = inputs_[kAttentionMask];
    if (!mask || graph_.value(*mask).type.dtype != DType::bool_) return false;
    std::vector<ValueId> open = {*mask};
    bool takes = false;
    while (!open.empty()) {
      const ValueId condition = open.back();
      open.pop_back();
      if (take_form(forms_.of_condition(condition, false, queries_, keys_))) {
        takes = true;
        continue;
      }
      const Node* both = producer_of(graph_, condition);
      if (both != nullptr && both->op == OpId::logical_and) {
        for (const std::optional<ValueId>& part : both->inputs) open.push_back(*part);
      } else {
        conditions_.push_back(condition);
      }
    }
    if (takes) inputs_[kAttentionMask].reset();
    if (!takes) conditions_.clear();
    return takes;
  }

  // A row that a finite bias leaves empty, by itself or with a mask, keeps what the sum makes of
  // it.
  bool take_bias() {
    const std::optional<ValueId> bias = inputs_[kAttentionBias];
    if (!bias || inputs_[kAttentionMask] || !conditions_.empty()) return false;
    const std::optional<MaskForm> form = forms_.of_bias(*bias, 1, queries_, keys_);
    if (!form || !form->fills_rows || !take_form(*form)) return false;
    inputs_[kAttentionBias].reset();
    return true;
  }

  ValueId joined(NodeEmitter& emitter) const {
    std::optional<ValueId> mask;
    for (const ValueId condition : conditions_) {
      const ValueId value = emitter.cast(condition, DType::bool_);
      mask = mask ? emitter.emit("logical_and", {mask, value}) : value;
    }
    Shape shape = emitter.type(*mask).shape;
    shape.insert(shape.begin(), 4 - shape.size(), 1);
    return emitter.reshape(*mask, shape);
  }

  Graph& graph_;
  MaskForms& forms_;
  std::vector<std::optional<ValueId>> inputs_;
  Attributes attributes_;
  bool is_causal_;
  bool is_start_;
  int64_t window_left_;
  int64_t window_right_;
  Dim queries_ = 0;
  Dim keys_ = 0;
  std::vector<ValueId> conditions_;
};

bool see(Graph& graph, MaskForms& forms, NodeId id) {
  const Node node = graph.node(id);
  MaskTaker taker(graph, forms, node);
  bool takes = false;
  const bool is_decided = !free_size_read_by([&] { takes = taker.take(node); });
  if (!is_decided || !takes) return false;
  taker.build(id);
  return true;
}

}  // namespace

size_t see_masks(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    MaskForms forms(module, graph);
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      if (graph.node(id).op == OpId::attention && see(graph, forms, id)) ++changed;
    }
  }
  if (changed > 0) remove_dead(module, options, diagnostics);
  return changed;
}

}  // namespace rlx
