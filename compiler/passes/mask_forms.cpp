// SPDX-License-Identifier: Apache-2.0
// Masks as bands of keys beside each query, and what takes scores down to where they do not count.
#include "compiler/passes/mask_forms.h"

#include <array>

#include "compiler/ops/op_id.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"

namespace rlx {
namespace {

constexpr int kMostMaskNodes = 32;  // from a mask up to what it is made of
// Their results are as large as what goes into them.
constexpr std::array kCarriers = {OpId::add,   OpId::sub,       OpId::mul,    OpId::neg,
                                  OpId::cast,  OpId::affine,    OpId::expand, OpId::slice,
                                  OpId::trilu, OpId::transpose, OpId::concat};

// Leading axes of 1 alone: what broadcasts to scores does so before.
bool only_adds_ones(const Graph& graph, const Node& node) {
  const Shape& from = graph.value(*node.inputs[0]).type.shape;
  const Shape& to = graph.value(node.outputs[0]).type.shape;
  if (from.size() > to.size()) return false;
  const auto added = static_cast<std::ptrdiff_t>(to.size() - from.size());
  return std::all_of(to.begin(), to.begin() + added, [](const Dim& d) { return d == 1; }) &&
         std::equal(from.begin(), from.end(), to.begin() + added);
}

// Some key lies in the band of each query.
bool fills_rows(const PositionBand& band, const Dim& queries, const Dim& keys) {
  const bool reaches_first = !band.most || is_always_at_least(*band.most, 0);
  const bool reaches_last = !band.least || is_always_at_least(keys - queries, *band.least);
  const bool has_keys = !band.least || !band.most || is_always_at_least(*band.most, *band.least);
  return !band.is_empty && reaches_first && reaches_last && has_keys;
}

// A window that an attribute gives: a number of keys on one side.
std::optional<int64_t> window_of(const Dim& keys_beside) {
  if (keys_beside.is_free() || keys_beside.bound() < 0) return std::nullopt;
  return keys_beside.bound();
}

// What the attributes of attention say of a band around the key that stands beside a query.
std::optional<MaskForm> form_around(const PositionBand& band, MaskAlign align, const Dim& shift) {
  MaskForm form{.align = align};
  if (band.least) {
    const std::optional<int64_t> left = window_of(shift - *band.least);
    if (!left) return std::nullopt;
    form.window_left = *left;
  }
  if (band.most) {
    const std::optional<int64_t> right = window_of(*band.most - shift);
    if (!right) return std::nullopt;
    form.causal = *right == 0;
    if (!form.causal) form.window_right = *right;
  }
  return form;
}

MaskForm form_of_band(const PositionBand& band, const Dim& queries, const Dim& keys) {
  MaskForm form;
  if (band.is_open()) form.is_open = true;
  if (!band.is_empty && !band.is_open()) {
    const std::optional<MaskForm> at_end = is_always_at_least(keys, queries)
                                               ? form_around(band, MaskAlign::End, keys - queries)
                                               : std::nullopt;
    const std::optional<MaskForm> at_start =
        queries == keys ? std::nullopt : form_around(band, MaskAlign::Start, 0);
    const bool takes_end = at_end && (at_end->causal || !at_start || !at_start->causal);
    if (at_end || at_start) form = takes_end ? *at_end : *at_start;
  }
  form.fills_rows = fills_rows(band, queries, keys);
  return form;
}

}  // namespace

MaskForm MaskForms::of_condition(ValueId condition, bool is_inverted, const Dim& queries,
                                 const Dim& keys) {
  for (const Condition& known : conditions_) {
    if (known.value == condition && known.is_inverted == is_inverted && known.queries == queries &&
        known.keys == keys)
      return known.form;
  }
  const std::optional<PositionBand> band =
      band_of_condition(graph_, tensors_, condition, is_inverted, queries, keys);
  const MaskForm form = band ? form_of_band(*band, queries, keys) : MaskForm{};
  conditions_.push_back({.value = condition,
                         .is_inverted = is_inverted,
                         .queries = queries,
                         .keys = keys,
                         .form = form});
  return form;
}

std::optional<MaskForm> MaskForms::of_bias(ValueId bias, double factor, const Dim& queries,
                                           const Dim& keys) {
  if (const Tensor* const tensor = tensors_.of(bias)) {
    const auto added = [&](size_t i) {
      const double element = number_at(*tensor, i);
      return element == 0 ? 0 : element * factor;
    };
    for (size_t i = 0; i < static_cast<size_t>(tensor->count()); ++i) {
      if (added(i) != 0 && !(added(i) <= kMaskedScore)) return std::nullopt;
    }
    const std::optional<PositionBand> band = band_of_elements(
        tensor->type.shape, [&](size_t i) { return added(i) == 0; }, queries, keys);
    return band ? form_of_band(*band, queries, keys) : MaskForm{};
  }
  if (const std::optional<MaskCondition> condition = condition_of(bias, factor)) {
    if (!(condition->replacement <= kMaskedScore)) return std::nullopt;
    return of_condition(condition->value, condition->is_inverted, queries, keys);
  }
  // A triangle of what is far below 0, zeros elsewhere.
  const Node* node = producer_of(graph_, bias);
  if (node == nullptr || node->op != OpId::trilu) return std::nullopt;
  const std::optional<double> number = known_number(module_, graph_, *node->inputs[0]);
  if (!number || !(*number * factor <= kMaskedScore)) return std::nullopt;
  return of_condition(bias, true, queries, keys);
}

std::optional<MaskCondition> MaskForms::condition_of(ValueId bias, double factor) const {
  const Node* node = producer_of(graph_, bias);
  while (node != nullptr &&
         (is_reshaping(*node) || node->op == OpId::expand || is_float_cast(graph_, *node))) {
    if (is_reshaping(*node) && !only_adds_ones(graph_, *node)) return std::nullopt;
    node = producer_of(graph_, *node->inputs[0]);
  }
  if (node == nullptr || node->op != OpId::where) return std::nullopt;
  const std::optional<double> kept = known_number(module_, graph_, *node->inputs[1]);
  const std::optional<double> other = known_number(module_, graph_, *node->inputs[2]);
  if (!kept || !other || (*kept != 0) == (*other != 0)) return std::nullopt;
  return MaskCondition{.value = *node->inputs[0],
                       .is_inverted = *kept != 0,
                       .replacement = (*kept + *other) * factor};
}

bool MaskForms::may_mask(ValueId bias, double factor) {
  struct Open {
    ValueId value;
    double factor;
  };
  std::vector<Open> open = {{bias, factor}};
  for (int i = 0; i < kMostMaskNodes && !open.empty(); ++i) {
    const auto [value, scale] = open.back();
    open.pop_back();
    if (graph_.value(value).weight) {
      const Tensor* const tensor = tensors_.of(value);
      const auto count = tensor == nullptr ? 0 : static_cast<size_t>(tensor->count());
      for (size_t at = 0; at < count; ++at) {
        if (number_at(*tensor, at) * scale <= kMaskedScore) return true;
      }
      continue;
    }
    const Node* node = producer_of(graph_, value);
    if (node == nullptr) return true;
    if (const std::optional<Scaled> scaled = scaled_of(module_, graph_, *node)) {
      open.push_back({scaled->x, scale * scaled->factor});
    } else if (const std::optional<Shifted> shifted = shifted_of(module_, graph_, *node)) {
      if (shifted->shift * scale <= kMaskedScore) return true;
      open.push_back({shifted->x, scale});
    } else if (node->op == OpId::log) {
      return true;  // of 0
    } else if (node->op == OpId::where) {
      for (const size_t branch : {size_t{1}, size_t{2}})
        open.push_back({*node->inputs[branch], scale});
    } else if (is_reshaping(*node) ||
               std::ranges::any_of(kCarriers, [node](OpId op) { return node->op == op; })) {
      for (const std::optional<ValueId>& input : node->inputs) open.push_back({*input, scale});
    }
  }
  return !open.empty();
}

}  // namespace rlx
