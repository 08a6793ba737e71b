// SPDX-License-Identifier: Apache-2.0
// Lowering of the reductions of ops.md 7.1 onto the reduce kernel.
#pragma once

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

// The axes that a reduction node reduces, normalised: all of them where the attribute is absent.
std::optional<Ints> reduced_axes(NodeContext& ctx, size_t rank);

bool lower_reduce(LowerContext& ctx);

}  // namespace rlx
