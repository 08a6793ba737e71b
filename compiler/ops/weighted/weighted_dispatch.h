// SPDX-License-Identifier: Apache-2.0
// What the kernels of weighted products are told alike.
#pragma once

#include <cstdint>

#include "compiler/dispatch/builder.h"
#include "compiler/ops/weighted/weighted_product.h"

namespace rlx {

using WeightedDispatch = DispatchBuilder<WeightedMatmulParams>;

inline constexpr int64_t kDecodedRun = 8;  // elements decoded together

bool is_dense_weight(const WeightedProduct& product);
// Whether so many neighbours of x are an aligned load.
bool loads_run_of_x(const OfferContext& at, const WeightedProduct& product, int64_t elements);
// Sizes, epilogue and everything but the tile or team.
void define_product_sizes(const LowerContext& ctx, WeightedDispatch& dispatch,
                          const WeightedProduct& product, int64_t y_vector = 1);

}  // namespace rlx
