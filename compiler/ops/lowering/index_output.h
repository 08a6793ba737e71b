// SPDX-License-Identifier: Apache-2.0
// Index outputs (ops.md 0.6): attribute index_dtype, i32 unless the node says i64, u32 or f32.
#pragma once

#include "compiler/ops/op_def.h"

namespace rlx {

// The node's index_dtype is one that an index output may have; else a diagnostic.
bool check_index_dtype(InferContext& ctx);
// Writes an index into a tensor of any index_dtype, wrapped to it.
void set_index(Tensor& indices, size_t at, int64_t index);

}  // namespace rlx
