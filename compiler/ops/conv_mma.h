// SPDX-License-Identifier: Apache-2.0
// Convolutions on tensor cores: which nodes, and their lowering to the kernel conv_mma.
#pragma once

#include "compiler/ops/conv_lower.h"

namespace rlx {

// The forms of the kernel, as cuda_kernels/conv_mma.cu tells.
enum class ConvMmaForm : uint8_t {
  None,   // the node does not run on tensor cores
  Ring,   // in general; reads x and w channels last
  Patch,  // few channels; x and w as they are
};

// How the target computes this node by conv_mma. Fusion, the choice of layouts and the lowering ask
// alike, so that what the first two prepare is what the last one takes.
ConvMmaForm conv_mma_form(const Target& target, ProductPrecision products, const Graph& graph,
                          const Node& node);

// Precondition: the form is not None. Operands of other layouts are copied first.
bool lower_conv_mma(LowerContext& ctx, ConvMmaForm form, const Convolution& conv);

}  // namespace rlx
