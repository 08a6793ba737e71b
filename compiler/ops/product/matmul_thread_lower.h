// SPDX-License-Identifier: Apache-2.0
// Products without matrix units: the kernels matmul, in tiles, and matvec, of a few vectors. As
// rows of the table have them (product_offers.h).
#pragma once

#include <string>

#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

std::string vectors_refusal(const OfferContext& at, const FusedProduct& fused);
double vectors_bound(const OfferContext& at, const FusedProduct& fused);
bool emit_vectors(LowerContext& ctx, const FusedProduct& fused);

std::string tiles_refusal(const OfferContext& at, const FusedProduct& fused);
double tiles_time(const OfferContext& at, const FusedProduct& fused);
// The same of what is emitted for the lines up to those of `largest`: splits of the depth stay.
double tiles_time_of(const OfferContext& at, const FusedProduct& largest,
                     const FusedProduct& fused);
bool emit_tiles(LowerContext& ctx, const FusedProduct& fused);

}  // namespace rlx
