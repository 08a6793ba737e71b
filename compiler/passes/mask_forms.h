// SPDX-License-Identifier: Apache-2.0
// Which keys a mask of attention lets through, where its making shows it.
#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace rlx {

// Keys j that count for query i: j <= i + shift, where shift is 0 (start) or keys - queries (end).
enum class CausalForm : uint8_t { None, Start, End };

struct MaskForm {
  bool is_open = false;     // every key counts for every query
  bool fills_rows = false;  // some key counts for every query
  CausalForm causal = CausalForm::None;
};

// Scores of keys that do not count are at most this: no other score of a query comes near.
inline constexpr double kMaskedScore = -1e4;

// A condition that holds where keys count, or inverted where they do not. It broadcasts to
// [.., queries, keys].
MaskForm form_of_condition(const Module& module, const Graph& graph, ValueId condition,
                           bool is_inverted, const Dim& queries, const Dim& keys);

// Of what is added to scores after it was multiplied by `factor`: 0 where keys count, and at most
// kMaskedScore where they do not. nullopt where it is another sum, or unknown.
std::optional<MaskForm> form_of_bias(const Module& module, const Graph& graph, ValueId bias,
                                     double factor, const Dim& queries, const Dim& keys);

}  // namespace rlx
