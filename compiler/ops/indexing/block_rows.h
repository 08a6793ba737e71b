// SPDX-License-Identifier: Apache-2.0
// gather and embedding from a block-typed table (ops.md 8): rows are decoded as they are read.
#pragma once

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

// The behaviours of a gather whose input 0 has a block type.
bool infer_block_rows(InferContext& ctx);
bool evaluate_block_rows(EvaluateContext& ctx);
bool lower_block_rows(LowerContext& ctx);
// Whether a gather or embedding tells of indices outside.
bool reports_outside(const NodeContext& ctx);

}  // namespace rlx
