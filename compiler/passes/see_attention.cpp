// SPDX-License-Identifier: Apache-2.0
// Attention that a model writes out becomes one attention node, which keeps no scores in memory. A
// mask that is known to be causal becomes the attribute; other masks and what is added become
// inputs. Where no key counts for a query, softmax gives NaN and the op 0 (ops.md 5.1); finite
// scores in the place of masked ones stay as they are written, so that such a query keeps its
// result.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ops/attention/attention_problem.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/known_tensors.h"
#include "compiler/passes/mask_forms.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"
#include "compiler/passes/written_attention.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

// In f32, what is this far below another score vanishes beside it.
constexpr double kAbsorbingScore = -1e9;
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// A mask that becomes an input of the op: the bias, or the mask.
struct TakenMask {
  WrittenMask mask;
  bool becomes_bias = false;
};

struct TakenMasks {
  std::vector<TakenMask> masks;
  MaskForm form;  // of those that became attributes, all together
};

class MaskReader {
 public:
  MaskReader(const Graph& graph, MaskForms& forms, const WrittenAttention& attention)
      : graph_(graph), forms_(forms), attention_(attention) {}

  // nullopt where a mask is none that the op has.
  std::optional<TakenMasks> read() {
    const std::vector<WrittenMask>& masks = attention_.masks;
    const int64_t loose = std::count_if(masks.begin(), masks.end(),
                                        [this](const WrittenMask& mask) { return is_loose(mask); });
    for (const WrittenMask& mask : masks) {
      others_fill_rows_ = loose == (is_loose(mask) ? 1 : 0);
      if (!(mask.is_condition ? take_condition(mask) : take_bias(mask))) return std::nullopt;
    }
    return taken_;
  }

 private:
  // True where a mask may leave a query none of the keys that a triangle or a band leaves it. All
  // keys of such a query are masked then, and with finite scores they count again.
  bool is_loose(const WrittenMask& mask) {
    const Dim& queries = attention_.q_tokens;
    const Dim& keys = attention_.kv_tokens;
    const auto is_placed = [](const MaskForm& form) {
      return form.is_open || form.align != MaskAlign::None;
    };
    if (mask.is_condition)
      return !is_placed(forms_.of_condition(mask.value, mask.is_inverted, queries, keys));
    if (const auto form = forms_.of_bias(mask.value, mask.factor, queries, keys))
      return !is_placed(*form);
    if (const std::optional<WrittenMask> condition = condition_of(mask))
      return is_loose(*condition);
    return forms_.may_mask(mask.value, mask.factor);
  }

  // True where the form alone says what the mask does.
  bool take_form(const MaskForm& form) {
    if (form.is_open) return true;
    if (form.align == MaskAlign::None) return false;
    MaskForm& all = taken_.form;
    if (all.align != MaskAlign::None && all.align != form.align) return false;
    all.align = form.align;
    all.causal = all.causal || form.causal;
    all.window_left = narrower(all.window_left, form.window_left);
    all.window_right = narrower(all.window_right, form.window_right);
    return true;
  }

  bool take_condition(const WrittenMask& mask) {
    const MaskForm form = forms_.of_condition(mask.value, mask.is_inverted, attention_.q_tokens,
                                              attention_.kv_tokens);
    const bool removes =
        mask.replacement == kMinusInfinity
            ? !is_replaced_
            : mask.replacement <= kMaskedScore && form.fills_rows && others_fill_rows_;
    if (removes && take_form(form)) return true;
    if (!removes && !(mask.replacement <= kAbsorbingScore)) return false;
    if (removes && mask.replacement == kMinusInfinity && take_both(mask)) return true;
    if (!removes) is_replaced_ = true;
    taken_.masks.push_back({.mask = mask, .becomes_bias = !removes});
    return true;
  }

  // A condition of two that must both hold.
  bool take_both(const WrittenMask& mask) {
    const Node* node = producer_of(graph_, mask.value);
    const OpId joins = mask.is_inverted ? OpId::logical_or : OpId::logical_and;
    if (node == nullptr || node->op != joins) return false;
    return std::all_of(node->inputs.begin(), node->inputs.end(),
                       [&](const std::optional<ValueId>& part) {
                         WrittenMask half = mask;
                         half.value = *part;
                         return take_condition(half);
                       });
  }

  bool take_bias(const WrittenMask& mask) {
    if (!is_float(graph_.value(mask.value).type.dtype)) return false;
    const std::optional<MaskForm> form =
        forms_.of_bias(mask.value, mask.factor, attention_.q_tokens, attention_.kv_tokens);
    const bool removes = !is_replaced_ && others_fill_rows_;
    if (removes && form && form->fills_rows && take_form(*form)) return true;
    if (const std::optional<WrittenMask> condition = condition_of(mask)) {
      // A row that the condition leaves empty keeps what the sum makes of it.
      if (condition->replacement == kMinusInfinity && !is_replaced_)
        return take_condition(*condition);
    }
    taken_.masks.push_back({.mask = mask, .becomes_bias = true});
    return true;
  }

  [[nodiscard]] std::optional<WrittenMask> condition_of(const WrittenMask& mask) const {
    const std::optional<MaskCondition> found = forms_.condition_of(mask.value, mask.factor);
    if (!found) return std::nullopt;
    WrittenMask condition = mask;
    condition.value = found->value;
    condition.is_condition = true;
    condition.is_inverted = found->is_inverted;
    condition.replacement = found->replacement;
    return condition;
  }

  const Graph& graph_;
  MaskForms& forms_;
  const WrittenAttention& attention_;
  TakenMasks taken_;
  bool others_fill_rows_ = false;  // no other mask than the one that is being taken is loose
  bool is_replaced_ = false;       // scores that were masked before count again by a finite number
};

class AttentionBuilder {
 public:
  AttentionBuilder(Graph& graph, const WrittenAttention& attention)
      : graph_(graph), attention_(attention), emitter_(graph, attention.product) {}

  void build(const TakenMasks& taken) {
    WrittenHeads q = split(attention_.q, attention_.heads);
    WrittenHeads k = split(attention_.k, attention_.kv_heads);
    WrittenHeads v = split(attention_.v, attention_.kv_heads);
    const std::string q_layout = layout_of(q);
    const std::string kv_layout =
        layout_of(k) == layout_of(v) && k.axes == v.axes ? layout_of(k) : "bhsd";
    Attributes attributes = {{"num_heads", attention_.heads},
                             {"num_kv_heads", attention_.kv_heads},
                             {"head_dim", attention_.head_dim},
                             {"v_head_dim", attention_.v_head_dim},
                             {"q_layout", q_layout},
                             {"kv_layout", kv_layout},
                             {"out_layout", std::string(attention_.is_by_token ? "bshd" : "bhsd")},
                             {"scale", attention_.scale},
                             {"softcap", attention_.softcap}};
    const MaskForm& form = taken.form;
    if (form.causal) attributes["causal"] = true;
    if (form.align == MaskAlign::Start) attributes["causal_align"] = std::string("start");
    if (form.window_left >= 0) attributes["window_left"] = form.window_left;
    if (form.window_right >= 0) attributes["window_right"] = form.window_right;
    std::vector<std::optional<ValueId>> inputs = {in_layout(q, q_layout), in_layout(k, kv_layout),
                                                  in_layout(v, kv_layout)};
    add_masks(taken, inputs);
    if (attention_.sinks) {
      inputs.resize(kAttentionSinks);
      inputs.push_back(sinks());
    }
    const ValueId y = emitter_.emit("attention", std::move(inputs), std::move(attributes));
    const Shape wanted = graph_.value(attention_.result).type.shape;
    const ValueId result = emitter_.reshape(y, wanted);
    graph_.replace_uses(attention_.result, result);
  }

 private:
  // Batch and heads as two axes.
  WrittenHeads split(WrittenHeads heads, int64_t count) {
    const size_t at = heads.axes.find('n');
    if (at == std::string::npos) return heads;
    const Shape leading = {attention_.batch, count};
    if (attention_.batch != 1 && at != 0) heads = turned(heads, "nsd");
    Shape shape = emitter_.type(heads.value).shape;
    if (attention_.batch == 1) {
      // One axis more, in front of all: heads stay where they are.
      shape.insert(shape.begin(), 1);
      heads.axes.replace(at, 1, "h");
      heads.axes.insert(0, "b");
    } else {
      shape.erase(shape.begin());
      shape.insert(shape.begin(), leading.begin(), leading.end());
      heads.axes.replace(0, 1, "bh");
    }
    heads.value = emitter_.reshape(heads.value, shape);
    return heads;
  }

  WrittenHeads turned(const WrittenHeads& heads, const std::string& axes) {
    if (heads.axes == axes) return heads;
    Ints perm;
    for (const char axis : axes) perm.push_back(static_cast<int64_t>(heads.axes.find(axis)));
    return {.value = emitter_.emit("transpose", {heads.value}, {{"perm", perm}}), .axes = axes};
  }

  static std::string layout_of(const WrittenHeads& heads) {
    return heads.axes == "bshd" ? "bshd" : "bhsd";
  }
  ValueId in_layout(const WrittenHeads& heads, const std::string& layout) {
    return turned(heads, layout).value;
  }

  // One number for each head, of a column that is the same for all tokens of the batch.
  ValueId sinks() {
    ValueId value = *attention_.sinks;
    const size_t rank = emitter_.type(value).shape.size();
    for (size_t axis = 0; axis < rank; ++axis) {
      if (axis + 3 == rank || emitter_.type(value).shape[axis] == 1) continue;
      value = emitter_.emit(
          "narrow", {value},
          {{"axis", static_cast<int64_t>(axis)}, {"start", int64_t{0}}, {"len", int64_t{1}}});
    }
    value = emitter_.reshape(value, {element_count(emitter_.type(value).shape)});
    return emitter_.expand(value, {attention_.heads});
  }

  // What broadcasts to scores [.., batch * heads, queries, keys] as [batch or 1, heads or 1, ..].
  ValueId with_four_axes(ValueId value, const Shape& scores) {
    Shape shape = emitter_.type(value).shape;
    shape.insert(shape.begin(), scores.size() - shape.size(), 1);
    value = emitter_.reshape(value, shape);
    const size_t leading = scores.size() - 2;
    size_t heads_from = 0;
    Dim batch = 1;
    while (heads_from < leading && batch != attention_.batch) batch *= scores[heads_from++];
    const bool is_apart = batch == attention_.batch;
    Shape wanted = shape;
    const auto join = [&](size_t first, size_t last) {
      const bool is_one = std::all_of(shape.begin() + static_cast<std::ptrdiff_t>(first),
                                      shape.begin() + static_cast<std::ptrdiff_t>(last),
                                      [](const Dim& d) { return d == 1; });
      for (size_t i = first; i < last && !is_one; ++i) wanted[i] = scores[i];
      return is_one;
    };
    Shape four(2, 1);
    if (is_apart) {
      if (!join(0, heads_from)) four[0] = attention_.batch;
      if (!join(heads_from, leading)) four[1] = attention_.heads;
    } else if (!join(0, leading)) {
      four = {attention_.batch, attention_.heads};
    }
    four.insert(four.end(), shape.end() - 2, shape.end());
    return emitter_.reshape(emitter_.expand(value, wanted), four);
  }

  ValueId as_condition(const WrittenMask& mask) {
    ValueId value = mask.value;
    const DType dtype = emitter_.type(value).dtype;
    // A number attends from 0.5 on, or above 0; a condition holds for all but 0.
    if (dtype != DType::bool_) value = emitter_.cast(value, DType::bool_);
    if (mask.is_inverted) value = emitter_.emit("logical_not", {value});
    return with_four_axes(value, mask.scores);
  }

  ValueId as_bias(const WrittenMask& mask, DType dtype) {
    ValueId value = mask.value;
    if (mask.factor != 1) value = emitter_.emit("affine", {value}, {{"mul", mask.factor}});
    return with_four_axes(emitter_.cast(value, dtype), mask.scores);
  }

  // `bias`, which stands within the condition, or in its place the score that replaces.
  ValueId replaced(const WrittenMask& mask, std::optional<ValueId> bias, DType dtype) {
    const ValueId counts = as_condition(mask);
    // 0 or 1, and so 0 or the score that replaces.
    const ValueId hidden = emitter_.cast(emitter_.emit("logical_not", {counts}), dtype);
    const ValueId number = emitter_.emit("affine", {hidden}, {{"mul", mask.replacement}});
    if (!bias && std::isfinite(mask.replacement)) return number;
    if (!bias) bias = emitter_.emit("affine", {hidden}, {{"mul", 0.0}});
    return emitter_.emit("where", {counts, *bias, number});
  }

  // From the scores on to the softmax.
  void add_masks(const TakenMasks& taken, std::vector<std::optional<ValueId>>& inputs) {
    const DType dtype = emitter_.type(*inputs[0]).dtype;
    std::optional<ValueId> mask;
    std::optional<ValueId> bias;
    for (size_t i = taken.masks.size(); i-- > 0;) {
      const TakenMask& part = taken.masks[i];
      if (!part.becomes_bias) {
        const ValueId value = as_condition(part.mask);
        mask = mask ? emitter_.emit("logical_and", {*mask, value}) : value;
      } else if (part.mask.is_condition) {
        bias = replaced(part.mask, bias, dtype);
      } else {
        const ValueId value = as_bias(part.mask, dtype);
        bias = bias ? emitter_.emit("add", {*bias, value}) : value;
      }
    }
    if (mask || bias) inputs.push_back(mask);
    if (bias) inputs.push_back(bias);
  }

  Graph& graph_;
  const WrittenAttention& attention_;
  NodeEmitter emitter_;
};

// True where a column of sinks has a number for each head, whatever the token: by its shape, or as
// its elements are.
bool is_by_head(const Graph& graph, KnownTensors& tensors, const WrittenAttention& attention) {
  const TensorType& type = graph.value(*attention.sinks).type;
  Shape shape = type.shape;
  if (!is_float(type.dtype) || shape.size() > 4) return false;
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  if (shape[1] != 1 && shape[1] != attention.heads) return false;
  if (shape[0] == 1 && shape[2] == 1) return true;
  const Tensor* known = tensors.of(*attention.sinks);
  if (known == nullptr) return false;
  const auto tokens = static_cast<size_t>(static_cast<int64_t>(shape[2]));
  const auto heads = static_cast<size_t>(static_cast<int64_t>(shape[1]));
  for (size_t i = 0; i < known->floats.size(); ++i) {
    if (known->floats[i] != known->floats[i / tokens % heads * tokens]) return false;
  }
  return true;
}

bool see(Module& module, Graph& graph, MaskForms& forms, KnownTensors& tensors, NodeId id) {
  std::optional<WrittenAttention> attention;
  std::optional<TakenMasks> masks;
  const bool is_decided = !free_size_read_by([&] {
    attention = written_attention(module, graph, graph.node(id));
    if (attention && attention->sinks && !is_by_head(graph, tensors, *attention)) attention.reset();
    if (attention) masks = MaskReader(graph, forms, *attention).read();
  });
  if (!is_decided || !attention || !masks) return false;
  AttentionBuilder(graph, *attention).build(*masks);
  return true;
}

}  // namespace

size_t see_attention(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    MaskForms forms(module, graph);
    KnownTensors tensors(module, graph);
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      if (graph.node(id).op == OpId::softmax && see(module, graph, forms, tensors, id)) ++changed;
    }
  }
  // What was seen reads no more: it would stand between other patterns and their values.
  if (changed > 0) remove_dead(module, options, diagnostics);
  return changed;
}

}  // namespace rlx
