// SPDX-License-Identifier: Apache-2.0
// Lowering of topk, sort and argsort.
#pragma once

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

bool lower_sort(LowerContext& ctx);
// Largest first.
bool sorts_descending(const NodeContext& ctx);

}  // namespace rlx
