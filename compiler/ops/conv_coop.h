// SPDX-License-Identifier: Apache-2.0
// Convolutions on cooperative matrices: products of pixels [N * OUT, taps * C] with filters
// [Co, taps * C] by the kernel matmul_coop, channels last.
#pragma once

#include "compiler/ops/conv_mma.h"

namespace rlx {

// Precondition: on_cooperative_matrices(form). Operands of other layouts are copied first.
bool lower_conv_coop(LowerContext& ctx, ConvMmaForm form, const Convolution& conv);

}  // namespace rlx
