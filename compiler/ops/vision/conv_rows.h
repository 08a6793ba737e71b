// SPDX-License-Identifier: Apache-2.0
// Whether rows of pixels [N, C, W] are worth being stored channels last.
#pragma once

#include <string>

#include "compiler/ops/vision/conv_lower.h"

namespace rlx {

// Most nodes write rows of pixels in planes, and kernels without matrix units take them so. Why a
// kernel of this time that wants them channels last is left out: nothing around the convolution is
// channels last, and two copies make it slower than those kernels. Empty where it is not, and for
// images.
std::string conv_rows_refusal(const OfferContext& at, const ConvProblem& problem,
                              double microseconds);

}  // namespace rlx
