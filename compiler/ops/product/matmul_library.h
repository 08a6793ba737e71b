// SPDX-License-Identifier: Apache-2.0
// Products that the target's library computes: which it can take as they are, and where it is the
// faster choice.
#pragma once

#include <string>

#include "compiler/ops/product/product_offers.h"

namespace rlx {

// As a row of the table has them (product_offers.h). Refuses products that are too small to fill
// the library's tiles, or that it cannot compute with one rounding. The step of the fastest of our
// own kernels stays on the emitted one as its alternative, where it is a single dispatch.
std::string library_refusal(const OfferContext& at, const FusedProduct& fused);
double library_time(const OfferContext& at, const FusedProduct& fused);
bool emit_library(LowerContext& ctx, const FusedProduct& fused);

// True where a product of 16-bit operands with an activation is expected to be faster by the
// library, followed by a pass that applies the activation, than by our own kernel with the
// activation in its epilogue.
bool library_wants_activation_apart(const OfferContext& at, const ProductTypes& types);

}  // namespace rlx
