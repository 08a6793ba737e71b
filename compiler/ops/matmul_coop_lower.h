// SPDX-License-Identifier: Apache-2.0
// The kernel matmul_coop: products on cooperative matrices.
#pragma once

#include <string>

#include "compiler/ops/matmul_lower.h"

namespace rlx {

// Why the product cannot be computed so; empty where it can.
std::string coop_refusal(const LowerContext& ctx, const Product& product);
// Emits the dispatch, and the one that joins sums where k is split. Precondition: coop_refusal is
// empty.
void emit_coop(LowerContext& ctx, const Product& product);

}  // namespace rlx
