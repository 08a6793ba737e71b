// SPDX-License-Identifier: Apache-2.0
// A norm before a product as a step of its own, where a kernel has it as a prologue for the fewest
// lines that a run may give alone. The row of the table in ops/product/product_offers.h.
#pragma once

#include <string>

#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

std::string norm_apart_refusal(const OfferContext& at, const FusedProduct& fused);
double norm_apart_time(const OfferContext& at, const FusedProduct& fused);
bool emit_norm_apart(LowerContext& ctx, const FusedProduct& fused);

}  // namespace rlx
