// SPDX-License-Identifier: Apache-2.0
// Convolutions on matrix units: which nodes, and their lowering to the kernel conv_mma.
#pragma once

#include "compiler/ops/vision/conv_lower.h"

namespace rlx {

// How matrix units compute a convolution. Ring and Patch are forms of conv_mma, as
// cuda_kernels/conv_mma.cu tells; Pieces and Elements are products of matmul_coop (conv_coop.h).
enum class ConvMmaForm : uint8_t {
  None,      // the node does not run on them
  Ring,      // in general; reads x and w channels last
  Patch,     // few channels; x and w as they are
  Pieces,    // channels in whole pieces of 16 bytes; reads x and w channels last
  Elements,  // other channels; x as it is, w channels last
};

constexpr bool on_cooperative_matrices(ConvMmaForm form) {
  return form == ConvMmaForm::Pieces || form == ConvMmaForm::Elements;
}
constexpr bool reads_channels_last(ConvMmaForm form) {
  return form == ConvMmaForm::Ring || form == ConvMmaForm::Pieces;
}
constexpr bool reads_filters_channels_last(ConvMmaForm form) {
  return reads_channels_last(form) || form == ConvMmaForm::Elements;
}

// How the target computes this node on matrix units. Fusion, the choice of layouts and the lowering
// ask alike, so that what the first two prepare is what the last one takes.
ConvMmaForm conv_mma_form(const Target& target, ProductPrecision products, const Graph& graph,
                          const Node& node);

// Why a convolution of that form, not None, cannot write there as it stands; empty where it can.
std::string conv_mma_place_refusal(ConvMmaForm form, const TensorRef& place);

// Precondition: the form is Ring or Patch. Operands of other layouts are copied first.
bool lower_conv_mma(LowerContext& ctx, ConvMmaForm form, const Convolution& conv);

}  // namespace rlx
