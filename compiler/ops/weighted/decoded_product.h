// SPDX-License-Identifier: Apache-2.0
// Products whose weights in blocks are rounded to halves before they multiply (round_w of
// fused_dequant_matmul): a step decodes each matrix into memory, and one of the table of products
// multiplies. With many rows that is several times faster than decoding tile by tile; the arena
// holds the product's matrices meanwhile.
#pragma once

#include <string>

#include "compiler/ops/weighted/weighted_product.h"

namespace rlx {

// The row of the table of weighted products.
std::string decoded_refusal(const OfferContext& at, const WeightedProduct& product);
double decoded_time(const OfferContext& at, const WeightedProduct& product);
bool emit_decoded(LowerContext& ctx, const WeightedProduct& product);

// Whether matrix units multiply what was decoded, and how long it takes with the decoding; nullopt
// where none do. For the passes that round.
std::optional<double> decoded_on_matrix_units(const OfferContext& at,
                                              const WeightedProduct& product);

}  // namespace rlx
