// SPDX-License-Identifier: Apache-2.0
// The one form of every scattering op: rows of updates combined into a copy of the base.
#pragma once

#include <string>
#include <vector>

#include "compiler/ops/lowering/places.h"

namespace rlx {

// How an update meets what is at its place; duplicates combine in ascending order from the base.
enum class Combine : uint8_t { Replace, Add, Mul, Max, Min };  // Replace: the last update stays

// y [outer, places, row]: y[o, place(u), :] = combine(y[o, place(u), :], alpha * updates[o, u, :])
// for every u; y begins as the base. Places count rows.
struct ScatterProblem {
  PlaceMap map;
  Dim outer = 1;
  Dim places = 1;
  Dim row = 1;
  Combine combine = Combine::Replace;
  double alpha = 1;
};

// Where the operands of a scattering node stand among its inputs; no base: y begins as zeros.
struct ScatterOperands {
  std::optional<size_t> base;
  size_t index;
  size_t updates;
};

// Output 0 of the node: in place where the base dies and nothing else reads its bytes.
bool lower_scatter(LowerContext& ctx, const ScatterProblem& problem,
                   const ScatterOperands& operands);
// What may be left out of the table of its forms.
std::vector<std::string> scatter_offer_names();
// The same on the host, update by update.
bool evaluate_scatter(EvaluateContext& ctx, const ScatterProblem& problem,
                      const ScatterOperands& operands);

}  // namespace rlx
