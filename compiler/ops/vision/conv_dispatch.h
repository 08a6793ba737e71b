// SPDX-License-Identifier: Apache-2.0
// What the kernels of convolutions without matrix units are told alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/ops/vision/conv_lower.h"

namespace rlx {

using ConvDispatch = DispatchBuilder<ConvParams>;

// From a channel, or an image, to the next. Strides of axes of size 1 say nothing.
Dim plane_stride(const TensorRef& ref);
Dim image_stride(const TensorRef& ref);

// The window, types, strides of x and activation.
void define_convolution(ConvDispatch& dispatch, const Convolution& conv);
// Bias, residual and y of the kernels whose y has planes of dense pixels (lib/planes.inc).
void define_planar_epilogue(ConvDispatch& dispatch, const Convolution& conv);
// Alignments in bytes; 0: of an element.
struct ConvAlignments {
  uint32_t x = 0;
  uint32_t w = 0;
  uint32_t bias = 0;
  uint32_t residual = 0;
  uint32_t y = 0;
};
// Bytes that the convolution cannot avoid to move, and its multiplications and additions.
Dim bytes_of(const Convolution& conv);
Dim flops_of(const Convolution& conv);
// Binds the views, and says what work they are.
void bind_convolution(ConvDispatch& dispatch, const Convolution& conv,
                      const ConvAlignments& alignments);

// Channels that kernels of channels-last images move at once.
inline constexpr int64_t kChannelVector = 4;
// Whether vectors of neighbouring channels follow each other. Strides of axes of size 1 say
// nothing.
bool has_channel_vectors(const TensorRef& ref);
uint32_t channel_vector_bytes(const TensorRef& ref);

// The convolution with the layouts that planar kernels read; reports sizes beyond their counts.
std::optional<Convolution> in_planes(LowerContext& ctx, Convolution conv);
// Reports sizes beyond the kernels' counts.
bool check_counts(LowerContext& ctx, const Convolution& conv);

}  // namespace rlx
