// SPDX-License-Identifier: Apache-2.0
// Products on tensor cores by the matmul_mma kernel.
#pragma once

#include <string>

#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

// As a row of the table has them (product_offers.h). The time is that of a large product, as other
// kernels' are held against it; the tiles are chosen by a finer model of small ones.
std::string mma_refusal(const OfferContext& at, const FusedProduct& fused);
double mma_time(const OfferContext& at, const FusedProduct& fused);
bool emit_mma(LowerContext& ctx, const FusedProduct& fused);

}  // namespace rlx
