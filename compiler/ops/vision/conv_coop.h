// SPDX-License-Identifier: Apache-2.0
// Convolutions on cooperative matrices: products of pixels [N * OUT, taps * C] with filters
// [Co, taps * C] by the kernel matmul_coop, channels last. As rows of the table have them
// (conv_offers.h). Operands of other layouts are copied first.
#pragma once

#include <string>

#include "compiler/ops/vision/conv_lower.h"

namespace rlx {

// Channels in whole pieces of 16 bytes; reads x and w channels last.
std::string conv_pieces_refusal(const OfferContext& at, const ConvProblem& problem);
bool emit_conv_pieces(LowerContext& ctx, const ConvProblem& problem);

// Other channels; x as it is, w channels last.
std::string conv_elements_refusal(const OfferContext& at, const ConvProblem& problem);
bool emit_conv_elements(LowerContext& ctx, const ConvProblem& problem);

// Why both cannot write there.
std::string conv_coop_place_refusal(const TensorRef& place);

double conv_coop_time(const OfferContext& at, const ConvProblem& problem);
// By the tiles of `largest`.
double conv_coop_time_of(const OfferContext& at, const ConvProblem& largest,
                         const ConvProblem& problem);
// Whether the table of products lowers it.
bool is_coop_product(const ConvProblem& problem);

}  // namespace rlx
