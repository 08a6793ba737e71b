// SPDX-License-Identifier: Apache-2.0
// Indices that are clamped need an element to be clamped to.
#pragma once

#include "compiler/ops/op_def.h"

namespace rlx {

// Refuses an empty axis of `from` where an index into it gives an element of `to`. Where the run
// decides, the first dim of `to` needs that of it.
bool require_clamped_axis(InferContext& ctx, const Shape& from, int64_t axis, Shape& to);

}  // namespace rlx
