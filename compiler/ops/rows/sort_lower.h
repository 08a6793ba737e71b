// SPDX-License-Identifier: Apache-2.0
// Lowering of topk, sort and argsort, and of the draw from each row's first elements.
#pragma once

#include <optional>

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

bool lower_sort(LowerContext& ctx);

// A draw (ops.md 12.1) from the largest of each row, NaN as -inf.
struct RowDraw {
  TensorRef seed;
  TensorRef step;
  TensorRef id;
  std::optional<TensorRef> logprob;
  std::optional<TensorRef> next_step;  // may be the step's own word
  double temperature = 1;
  double top_p = 1;
  double min_p = 0;
  int64_t stream = 0;
};
// Of the rows of input 0, its last axis, from `count` each: no more than kMostDrawnFrom.
bool lower_draw(LowerContext& ctx, int64_t count, const RowDraw& draw);
inline constexpr int64_t kMostDrawnFrom = 1024;

// Largest first.
bool sorts_descending(const NodeContext& ctx);

}  // namespace rlx
