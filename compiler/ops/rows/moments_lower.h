// SPDX-License-Identifier: Apache-2.0
// Mean and spread of sets of elements by the moments kernel: one dispatch, or two where long rows
// go in parts.
#pragma once

#include <optional>
#include <string>

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

// f64 of f64, else f32: in which statistics are computed and stored.
DType statistics_type(DType dtype);

// The sets are the rows over `axes` of `shape`, a view of x that may split its dims. Results of a
// set stand `repeats` times, side by side.
struct MomentsProblem {
  TensorRef x;
  Shape shape;
  Ints axes;
  int64_t repeats = 1;
  bool centred = true;  // around the mean; else as they stand
  std::string spread;   // over `squares`, their sum; RLX_OF_ROW(a) divides by the count
  std::string inv_std;  // over `spread`
};
// Variance and (variance + eps)^(-1/2).
MomentsProblem variance_problem(TensorRef x, Shape shape, Ints axes, double eps);
// The mean of the squares, and it + eps to the power -1/2.
MomentsProblem mean_square_problem(TensorRef x, Shape shape, Ints axes, double eps);

// Dense tensors of statistics_type(x), one element per set and repetition. center and rest belong
// to centred problems; their sum is the mean.
struct MomentsResults {
  std::optional<TensorRef> center = std::nullopt;
  std::optional<TensorRef> rest = std::nullopt;
  TensorRef inv_std;
  std::optional<TensorRef> variance = std::nullopt;
};

// Precondition: there are sets. With no elements in them, the results are NaN. False where every
// form was left out, which it reports.
bool emit_moments(LowerContext& ctx, const MomentsProblem& problem, const MomentsResults& results);

}  // namespace rlx
