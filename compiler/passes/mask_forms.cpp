// SPDX-License-Identifier: Apache-2.0
// Masks as constants or made of them, and as triangles made of positions, which hold at every size.
#include "compiler/passes/mask_forms.h"

#include <algorithm>
#include <array>
#include <vector>

#include "compiler/ops/op_id.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"
#include "compiler/reference/evaluate.h"

namespace rlx {
namespace {

constexpr int64_t kMostMaskElements = int64_t{1} << 24;
constexpr int kMostMaskNodes = 32;  // from a mask up to what it is made of
// Their results are as large as what goes into them.
constexpr std::array kCarriers = {OpId::add,   OpId::sub,       OpId::mul,    OpId::neg,
                                  OpId::cast,  OpId::affine,    OpId::expand, OpId::slice,
                                  OpId::trilu, OpId::transpose, OpId::concat};

double element_of(const Tensor& tensor, size_t i) {
  return tensor.is_float() ? tensor.floats[i] : static_cast<double>(tensor.integers[i]);
}

// True where key j counts for query i if and only if i + shift - left <= j <= i + shift.
bool is_band(const std::vector<bool>& counts, int64_t queries, int64_t keys, int64_t shift,
             int64_t left) {
  for (size_t at = 0; at < counts.size(); ++at) {
    const int64_t last = static_cast<int64_t>(at) / keys % queries + shift;
    const int64_t key = static_cast<int64_t>(at) % keys;
    if (counts[at] != (key <= last && key >= last - left)) return false;
  }
  return true;
}

// Rows of keys that count, one row after the other; `shape` as the mask has it.
MaskForm form_of_rows(const std::vector<bool>& counts, const Shape& shape, const Dim& queries,
                      const Dim& keys) {
  MaskForm form;
  form.is_open = std::all_of(counts.begin(), counts.end(), [](bool c) { return c; });
  const size_t columns = shape.empty() ? 1 : static_cast<size_t>(shape.back().bound());
  form.fills_rows = true;
  for (size_t row = 0; row < counts.size() && form.fills_rows; row += columns) {
    const auto begin = counts.begin() + static_cast<std::ptrdiff_t>(row);
    form.fills_rows =
        std::any_of(begin, begin + static_cast<std::ptrdiff_t>(columns), [](bool c) { return c; });
  }
  const bool has_rows = !counts.empty() && !queries.is_free() && !keys.is_free() &&
                        shape.size() >= 2 && shape.back() == keys &&
                        shape[shape.size() - 2] == queries && queries <= keys;
  if (!has_rows) return form;
  const int64_t rows = queries.bound();
  // The last query says how far a window reaches.
  const auto last_row = counts.begin() + (rows - 1) * keys.bound();
  const auto first_key = std::find(last_row, last_row + keys.bound(), true) - last_row;
  for (const int64_t shift : {keys.bound() - rows, int64_t{0}}) {
    const int64_t left = rows - 1 + shift - first_key;
    if (left < 0 || !is_band(counts, rows, keys.bound(), shift, left)) continue;
    form.causal = shift == 0 && rows != keys.bound() ? CausalForm::Start : CausalForm::End;
    form.window_left = first_key == 0 ? -1 : left;
    return form;
  }
  return form;
}

MaskForm causal_form(const Dim& queries, const Dim& keys) {
  return {.is_open = false,
          .fills_rows = true,
          .causal = queries == keys ? CausalForm::End : CausalForm::Start};
}

bool keeps_matrix(const Graph& graph, const Node& node) {
  const Shape& from = graph.value(*node.inputs[0]).type.shape;
  const Shape& to = graph.value(node.outputs[0]).type.shape;
  return from.size() >= 2 && to.size() >= 2 && from.back() == to.back() &&
         from[from.size() - 2] == to[to.size() - 2];
}

// The slice takes the first rows and columns.
bool takes_first(const Graph& graph, const Node& node) {
  const auto steps = node.attributes.find("steps");
  const auto starts = node.attributes.find("starts");
  const auto all = [](const Attributes::const_iterator& found, int64_t wanted) {
    const Ints& list = std::get<Ints>(found->second);
    return std::all_of(list.begin(), list.end(), [wanted](const Dim& d) { return d == wanted; });
  };
  return starts != node.attributes.end() && all(starts, 0) &&
         (steps == node.attributes.end() || all(steps, 1)) &&
         graph.value(node.outputs[0]).type.shape.size() >= 2;
}

}  // namespace

bool MaskForms::is_evaluable(const Weight& weight) const {
  if (std::holds_alternative<RandomData>(weight.data)) return false;
  if (block_elements(weight.type.dtype) != 1) return false;
  if (element_count(weight.type.shape) > kMostMaskElements) return false;
  const auto* computed = std::get_if<ComputedData>(&weight.data);
  return computed == nullptr ||
         std::ranges::all_of(computed->inputs, [&](const std::optional<WeightId>& input) {
           return !input || is_evaluable(module_.weight(*input));
         });
}

const Tensor* MaskForms::known_tensor(ValueId id) {
  const Weight* weight = weight_of(module_, graph_, id);
  if (weight == nullptr || !is_evaluable(*weight)) return nullptr;
  const WeightId key = *graph_.value(id).weight;
  const auto found = tensors_.find(key);
  if (found != tensors_.end()) return &found->second;
  return &tensors_.emplace(key, weight_tensor(module_, *weight)).first->second;
}

bool MaskForms::is_nonzero_everywhere(ValueId id) {
  for (const Node* node = producer_of(graph_, id); node != nullptr && node->op == OpId::expand;
       node = producer_of(graph_, id))
    id = *node->inputs[0];
  const Tensor* const tensor = known_tensor(id);
  if (tensor == nullptr || tensor->count() == 0) return false;
  for (size_t i = 0; i < static_cast<size_t>(tensor->count()); ++i) {
    if (element_of(*tensor, i) == 0) return false;
  }
  return true;
}

bool MaskForms::is_zero(ValueId id) {
  const Tensor* const tensor = known_tensor(id);
  return tensor != nullptr && tensor->count() == 1 && element_of(*tensor, 0) == 0;
}

// Positions 0, 1, 2 .. along the last axis but one, or along the last.
MaskForms::Along MaskForms::positions_along(ValueId id) {
  const Shape& shape = graph_.value(id).type.shape;
  if (shape.empty()) return Along::Neither;
  const Dim count = element_count(shape);
  Along along = Along::Neither;
  if (shape.back() == count) along = Along::Keys;
  if (shape.size() >= 2 && shape[shape.size() - 2] == count) along = Along::Queries;
  for (int i = 0; i < kMostMaskNodes; ++i) {
    const Node* node = producer_of(graph_, id);
    if (node == nullptr) break;
    const bool passes = is_reshaping(*node) || node->op == OpId::cast;
    if (!passes) {
      const bool counts_up = node->op == OpId::ramp && is_zero(*node->inputs[0]);
      const Tensor* const step = counts_up ? known_tensor(*node->inputs[1]) : nullptr;
      return step != nullptr && element_of(*step, 0) == 1 ? along : Along::Neither;
    }
    id = *node->inputs[0];
  }
  const Tensor* const tensor = known_tensor(id);
  if (tensor == nullptr || tensor->count() < 2) return Along::Neither;
  for (size_t i = 0; i < static_cast<size_t>(tensor->count()); ++i) {
    if (element_of(*tensor, i) != static_cast<double>(i)) return Along::Neither;
  }
  return along;
}

// True for what holds where key <= query, false where key > query: at every size, positions from 0
// on.
std::optional<bool> MaskForms::lower_triangle(ValueId id) {
  bool holds = true;
  for (int i = 0; i < kMostMaskNodes; ++i) {
    const Node* node = producer_of(graph_, id);
    if (node == nullptr) break;
    const auto by_positions = [&](Along first, Along second) {
      return positions_along(*node->inputs[0]) == first &&
             positions_along(*node->inputs[1]) == second;
    };
    if (node->op == OpId::trilu) {
      if (!is_nonzero_everywhere(*node->inputs[0])) return std::nullopt;
      const bool upper = node_flag(*node, "upper");
      if (node_integer(*node, "k") != (upper ? 1 : 0)) return std::nullopt;
      return upper ? !holds : holds;
    }
    if (node->op == OpId::ge || node->op == OpId::lt) {
      if (!by_positions(Along::Queries, Along::Keys)) return std::nullopt;
      return node->op == OpId::ge ? holds : !holds;
    }
    if (node->op == OpId::le || node->op == OpId::gt) {
      if (!by_positions(Along::Keys, Along::Queries)) return std::nullopt;
      return node->op == OpId::le ? holds : !holds;
    }
    const bool compares =
        (node->op == OpId::eq || node->op == OpId::ne) && is_zero(*node->inputs[1]);
    const bool views =
        (is_reshaping(*node) || node->op == OpId::expand) && keeps_matrix(graph_, *node);
    const bool cuts = node->op == OpId::slice && takes_first(graph_, *node);
    const bool inverts = node->op == OpId::logical_not || (compares && node->op == OpId::eq);
    if (!compares && !views && !cuts && !inverts && node->op != OpId::cast) return std::nullopt;
    if (inverts) holds = !holds;
    id = *node->inputs[0];
  }
  // What a slice cuts the first rows and columns from.
  const Tensor* const tensor = known_tensor(id);
  if (tensor == nullptr || tensor->type.shape.size() < 2) return std::nullopt;
  std::vector<bool> counts;
  for (size_t i = 0; i < static_cast<size_t>(tensor->count()); ++i)
    counts.push_back((element_of(*tensor, i) != 0) == holds);
  const Shape& shape = tensor->type.shape;
  const Dim& rows = shape[shape.size() - 2];
  const auto is_triangle = [&] {
    const MaskForm form = form_of_rows(counts, shape, rows, shape.back());
    return form.causal != CausalForm::None && form.window_left < 0;
  };
  if (rows != shape.back()) return std::nullopt;
  if (is_triangle()) return true;
  counts.flip();
  return is_triangle() ? std::optional(false) : std::nullopt;
}

MaskForm MaskForms::of_condition(ValueId condition, bool is_inverted, const Dim& queries,
                                 const Dim& keys) {
  if (const Tensor* const tensor = known_tensor(condition)) {
    std::vector<bool> counts;
    for (size_t i = 0; i < static_cast<size_t>(tensor->count()); ++i)
      counts.push_back((element_of(*tensor, i) != 0) != is_inverted);
    return form_of_rows(counts, tensor->type.shape, queries, keys);
  }
  const std::optional<bool> lower = lower_triangle(condition);
  return lower && *lower != is_inverted ? causal_form(queries, keys) : MaskForm{};
}

std::optional<MaskForm> MaskForms::of_bias(ValueId bias, double factor, const Dim& queries,
                                           const Dim& keys) {
  if (const Tensor* const tensor = known_tensor(bias)) {
    std::vector<bool> counts;
    for (size_t i = 0; i < static_cast<size_t>(tensor->count()); ++i) {
      const double added = element_of(*tensor, i) == 0 ? 0 : element_of(*tensor, i) * factor;
      if (added != 0 && !(added <= kMaskedScore)) return std::nullopt;
      counts.push_back(added == 0);
    }
    return form_of_rows(counts, tensor->type.shape, queries, keys);
  }
  // The upper triangle of what is far below 0, zeros elsewhere.
  const Node* node = producer_of(graph_, bias);
  if (node == nullptr || node->op != OpId::trilu) return std::nullopt;
  const std::optional<double> number = known_number(module_, graph_, *node->inputs[0]);
  const bool is_far_below = number && *number * factor <= kMaskedScore;
  if (!is_far_below || lower_triangle(bias) != false) return std::nullopt;
  return causal_form(queries, keys);
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
      const Tensor* const tensor = known_tensor(value);
      const auto count = tensor == nullptr ? 0 : static_cast<size_t>(tensor->count());
      for (size_t at = 0; at < count; ++at) {
        if (element_of(*tensor, at) * scale <= kMaskedScore) return true;
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
