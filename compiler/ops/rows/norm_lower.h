// SPDX-License-Identifier: Apache-2.0
// rms_norm as a step of another op's lowering.
#pragma once

#include <optional>

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

// y = x / sqrt(mean of x^2 + eps) * (gamma + gamma_offset) over the last dim, of which gamma is a
// vector; x and y are of one shape, their last dim dense.
struct RmsNorm {
  TensorRef x;
  TensorRef y;
  std::optional<TensorRef> gamma;
  double eps = 0;
  double gamma_offset = 0;
};
bool emit_rms_norm(LowerContext& ctx, const RmsNorm& norm);

}  // namespace rlx
