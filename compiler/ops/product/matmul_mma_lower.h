// SPDX-License-Identifier: Apache-2.0
// Products on tensor cores by the matmul_mma kernel.
#pragma once

#include <string>

#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

// Why the kernel cannot take the product as it is ("operands of two dtypes"); empty where it can.
// `product` is in the normal form of lower_product: batch dims merged and folded.
std::string mma_refusal(const LowerContext& ctx, const Product& product);
// Emits the one dispatch. Precondition: no refusal, and nothing of the product is empty.
void emit_mma(LowerContext& ctx, const Product& product);

}  // namespace rlx
