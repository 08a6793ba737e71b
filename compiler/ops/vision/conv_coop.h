// SPDX-License-Identifier: Apache-2.0
// Convolutions on cooperative matrices: products of pixels [N * OUT, taps * C] with filters
// [Co, taps * C] by the kernel matmul_coop, channels last.
#pragma once

#include "compiler/ops/vision/conv_mma.h"

namespace rlx {

// True where elementwise nodes at most lie between the node and a convolution of several groups,
// whose kernels write [N, C, H, W]: for products of single pixels, that order of both saves more
// than cooperative matrices would.
bool is_beside_groups(const Graph& graph, const Node& node);

// Precondition: on_cooperative_matrices(form). Operands of other layouts are copied first.
bool lower_conv_coop(LowerContext& ctx, ConvMmaForm form, const Convolution& conv);

}  // namespace rlx
