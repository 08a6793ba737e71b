// SPDX-License-Identifier: Apache-2.0
// The step that writes weights in blocks as dense ones.
#pragma once

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

struct DequantizeForm {
  bool transposes = false;  // [.., N, K] to [.., K, N]
};
// w: blocks [.., N, K]; y: dense, f32, f16 or bf16. Nothing for an empty w.
void emit_dequantize(LowerContext& ctx, const TensorRef& w, const TensorRef& y,
                     const DequantizeForm& form);

}  // namespace rlx
