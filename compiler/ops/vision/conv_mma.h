// SPDX-License-Identifier: Apache-2.0
// Convolutions by the kernel conv_mma, in the two forms of which cuda_kernels/conv_mma.cu tells. As
// rows of the table have them (conv_offers.h). Operands of other layouts are copied first.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "compiler/ops/vision/conv_lower.h"

namespace rlx {

// What all kernels for matrix units ask of a convolution: images of two dims or rows of pixels with
// work enough, operands of one type, sizes that they can count. Empty where it can be computed so.
std::string conv_matrix_refusal(const Convolution& conv);
// Rows of pixels [N, C, W] as images of height 1.
Convolution of_images(Convolution conv);
// Channels in whole pieces of 16 bytes, which matrix units copy at once.
bool has_channel_pieces(const Convolution& conv);
// Groups that matrix units multiply as one bundle: as many side by side as a step has room for, in
// whole pieces; 0 where there are none. Channels and filters are known.
int64_t bundled_groups(const Convolution& conv);
// Why channels in their groups are not copied in pieces; empty where they are.
std::string conv_groups_refusal(const Convolution& conv);
// Elements that an image, or a dim of it with its padding, may have.
inline constexpr int64_t kRowLimit = std::numeric_limits<int32_t>::max() - (1 << 24);

// In general; x and w channels last.
std::string conv_ring_refusal(const OfferContext& at, const ConvProblem& problem);
double conv_ring_time(const OfferContext& at, const ConvProblem& problem);
// Of the step by itself, in the tiles that are the fastest then.
double conv_ring_alone_time(const OfferContext& at, const ConvProblem& problem);
// By the tiles of `largest`.
double conv_ring_time_of(const OfferContext& at, const ConvProblem& largest,
                         const ConvProblem& problem);
bool emit_conv_ring(LowerContext& ctx, const ConvProblem& problem);

// Few channels; x and w as they are.
std::string conv_patch_refusal(const OfferContext& at, const ConvProblem& problem);
double conv_patch_bound(const OfferContext& at, const ConvProblem& problem);
bool emit_conv_patch(LowerContext& ctx, const ConvProblem& problem);

// Why they cannot write there as it stands; empty where they can.
std::string conv_mma_place_refusal(const TensorRef& place);

}  // namespace rlx
