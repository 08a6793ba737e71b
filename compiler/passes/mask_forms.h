// SPDX-License-Identifier: Apache-2.0
// Which keys a mask of attention lets through, where its making shows it.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/passes/known_tensors.h"
#include "compiler/passes/position_bands.h"

namespace rlx {

// The key that stands beside query i: i + shift, where shift is 0 (start) or keys - queries (end).
enum class MaskAlign : uint8_t { None, Start, End };

struct MaskForm {
  bool is_open = false;     // every key counts for every query
  bool fills_rows = false;  // some key counts for every query
  // Where a band of keys counts, on either side of the one beside the query; None: no band.
  MaskAlign align = MaskAlign::None;
  bool causal = false;        // none behind that key
  int64_t window_left = -1;   // so many keys before it; -1: all
  int64_t window_right = -1;  // so many keys behind it; -1: all, or of a causal one none
};

// A condition that chooses between 0 and another number, which is added to scores.
struct MaskCondition {
  ValueId value{};
  bool is_inverted = false;  // it holds where the number is added
  double replacement = 0;    // the number
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
  MaskForms(const Module& module, const Graph& graph)
      : module_(module), graph_(graph), tensors_(module, graph) {}

  // Of a condition that holds where keys count, or inverted where they do not. It broadcasts to
  // [.., queries, keys].
  MaskForm of_condition(ValueId condition, bool is_inverted, const Dim& queries, const Dim& keys);

  // Of what is added to scores after it was multiplied by `factor`: 0 where keys count, and at most
  // kMaskedScore where they do not. nullopt where it is another sum, or unknown.
  std::optional<MaskForm> of_bias(ValueId bias, double factor, const Dim& queries, const Dim& keys);

  // Of where(condition, 0, number), or the other way round, added after it was multiplied by
  // `factor`; nullopt of others.
  [[nodiscard]] std::optional<MaskCondition> condition_of(ValueId bias, double factor) const;

  // Whether what is added to scores after it was multiplied by `factor` may take some to
  // kMaskedScore: false where only products, tables or small numbers go into it.
  bool may_mask(ValueId bias, double factor);

 private:
  // A condition that was asked for, and its answer.
  struct Condition {
    ValueId value{};
    bool is_inverted = false;
    Dim queries;
    Dim keys;
    MaskForm form;
  };

  const Module& module_;
  const Graph& graph_;
  KnownTensors tensors_;
  std::vector<Condition> conditions_;  // each layer asks for the same few
};

}  // namespace rlx
