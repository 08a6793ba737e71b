// SPDX-License-Identifier: Apache-2.0
// Tensors that change in place: what kv_append, rope_append and the scattering ops share.
#pragma once

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

// Where output `output`, the cache of input `input` with some rows replaced, is to be written; it
// holds the cache's old rows already, and the output's view is set. In place (no copy) where the
// cache is a state that this entry writes and whose old value nothing else reads, the result of an
// append that nothing else reads, or a value whose bytes nothing reads from this node on; otherwise
// a copy of the cache.
TensorRef appended_cache(LowerContext& ctx, size_t input, size_t output);

// True for ops whose output holds the rows of one of its inputs, a cache.
struct CacheOperand {
  size_t input;
  size_t output;
};
std::span<const CacheOperand> cache_operands(std::string_view op);

// Reports positions that are no index dtype, or neither a scalar nor one for each of `batch`
// entries.
bool check_append_positions(InferContext& ctx, size_t input, const Dim& batch);

// Row in [0, capacity) that row `i` of the new ones goes to, or -1 where it is dropped; `position`
// as read from the tensor.
int64_t appended_row(int64_t position, int64_t i, int64_t new_rows, int64_t capacity,
                     bool circular);

}  // namespace rlx
