// SPDX-License-Identifier: Apache-2.0
// Sizes as elements of tensors, for what computes with them when it runs.
#pragma once

#include "compiler/ops/op_def.h"

namespace rlx {

// Nodes whose result is the size, as i64[1]; a constant where it is fixed.
ValueId emit_size(RewriteContext& ctx, const Dim& size);

}  // namespace rlx
