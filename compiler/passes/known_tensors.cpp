// SPDX-License-Identifier: Apache-2.0
// Weights that passes look into.
#include "compiler/passes/known_tensors.h"

#include <algorithm>

#include "compiler/passes/constants.h"
#include "compiler/reference/evaluate.h"

namespace rlx {
namespace {

constexpr int64_t kMostKnownElements = int64_t{1} << 24;

}  // namespace

double number_at(const Tensor& tensor, size_t i) {
  return tensor.is_float() ? tensor.floats[i] : static_cast<double>(tensor.integers[i]);
}

bool KnownTensors::is_evaluable(const Weight& weight) const {
  if (std::holds_alternative<RandomData>(weight.data)) return false;
  if (block_elements(weight.type.dtype) != 1) return false;
  if (element_count(weight.type.shape) > kMostKnownElements) return false;
  const auto* computed = std::get_if<ComputedData>(&weight.data);
  return computed == nullptr ||
         std::ranges::all_of(computed->inputs, [&](const std::optional<WeightId>& input) {
           return !input || is_evaluable(module_.weight(*input));
         });
}

const Tensor* KnownTensors::of(ValueId id) {
  const Weight* weight = weight_of(module_, graph_, id);
  if (weight == nullptr || !is_evaluable(*weight)) return nullptr;
  const WeightId key = *graph_.value(id).weight;
  const auto found = tensors_.find(key);
  if (found != tensors_.end()) return &found->second;
  return &tensors_.emplace(key, weight_tensor(module_, *weight)).first->second;
}

}  // namespace rlx
