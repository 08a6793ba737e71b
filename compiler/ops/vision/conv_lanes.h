// SPDX-License-Identifier: Apache-2.0
// Convolutions on devices that are CPUs: products of pixels [N * OUT, taps * C/g] with filters
// [Co/g, taps * C/g] by the kernel matmul_lanes, channels last. As rows of the table have them
// (conv_offers.h). Operands of other layouts are copied first.
#pragma once

#include <string>

#include "compiler/ops/vision/conv_lower.h"

namespace rlx {

// Channels of a group in whole vectors; reads x channels last.
std::string conv_lane_pieces_refusal(const OfferContext& at, const ConvProblem& problem);
// Other channels; x as it is.
std::string conv_lane_elements_refusal(const OfferContext& at, const ConvProblem& problem);

double conv_lanes_time(const OfferContext& at, const ConvProblem& problem);
bool emit_conv_lanes(LowerContext& ctx, const ConvProblem& problem);

}  // namespace rlx
