// SPDX-License-Identifier: Apache-2.0
// Which keys a mask of attention lets through, where its making shows it.
#pragma once

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"

namespace rlx {

// Keys j that count for query i: j <= i + shift, where shift is 0 (start) or keys - queries (end).
enum class CausalForm : uint8_t { None, Start, End };

struct MaskForm {
  bool is_open = false;     // every key counts for every query
  bool fills_rows = false;  // some key counts for every query
  CausalForm causal = CausalForm::None;
  int64_t window_left = -1;  // of a causal form: keys j >= i + shift - window_left alone; -1: all
};

// The window of keys that two windows leave; -1: none.
inline int64_t narrower(int64_t a, int64_t b) {
  return a < 0 || b < 0 ? std::max(a, b) : std::min(a, b);
}

// Scores of keys that do not count are at most this: no other score of a query comes near.
inline constexpr double kMaskedScore = -1e4;

// The forms of a graph's masks. Masks that are made of constants alone are evaluated, each once.
class MaskForms {
 public:
  MaskForms(const Module& module, const Graph& graph) : module_(module), graph_(graph) {}

  // Of a condition that holds where keys count, or inverted where they do not. It broadcasts to
  // [.., queries, keys].
  MaskForm of_condition(ValueId condition, bool is_inverted, const Dim& queries, const Dim& keys);

  // Of what is added to scores after it was multiplied by `factor`: 0 where keys count, and at most
  // kMaskedScore where they do not. nullopt where it is another sum, or unknown.
  std::optional<MaskForm> of_bias(ValueId bias, double factor, const Dim& queries, const Dim& keys);

  // Whether what is added to scores after it was multiplied by `factor` may take some to
  // kMaskedScore: false where only products, tables or small numbers go into it.
  bool may_mask(ValueId bias, double factor);

 private:
  // What varies along one axis alone.
  enum class Along : uint8_t { Neither, Queries, Keys };

  // nullptr where the value is no weight, too large, or made of random numbers.
  const Tensor* known_tensor(ValueId id);
  [[nodiscard]] bool is_evaluable(const Weight& weight) const;
  bool is_nonzero_everywhere(ValueId id);
  bool is_zero(ValueId id);
  Along positions_along(ValueId id);
  std::optional<bool> lower_triangle(ValueId id);

  const Module& module_;
  const Graph& graph_;
  std::map<WeightId, Tensor> tensors_;
};

}  // namespace rlx
