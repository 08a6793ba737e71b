// SPDX-License-Identifier: Apache-2.0
// Convolutions of 16-bit images by the kernel matmul_wgmma, whose copy engine brings what lies
// under the windows. As rows of the table have them (conv_offers.h). Operands of other layouts are
// copied first.
#pragma once

#include <string>

#include "compiler/ops/vision/conv_lower.h"

namespace rlx {

std::string conv_wgmma_refusal(const OfferContext& at, const ConvProblem& problem);
double conv_wgmma_time(const OfferContext& at, const ConvProblem& problem);
// By the tiles of `largest`.
double conv_wgmma_time_of(const OfferContext& at, const ConvProblem& largest,
                          const ConvProblem& problem);
bool emit_conv_wgmma(LowerContext& ctx, const ConvProblem& problem);

}  // namespace rlx
