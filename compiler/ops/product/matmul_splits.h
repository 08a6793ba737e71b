// SPDX-License-Identifier: Apache-2.0
// Products whose k is divided over workgroups: a pass of partial sums, then one that joins them.
#pragma once

#include "compiler/ops/product/matmul_emit.h"

namespace rlx {

// define_product and RLX_PASS, for the kernels with MatmulParams.
void define_pass(const LowerContext& ctx, DispatchBuilder<MatmulParams>& dispatch,
                 const Product& product, ProductPass pass);
// Scratch for the sums of each range of k: [splits, batches, m, n].
TensorRef partial_sums(LowerContext& ctx, const Product& product, int64_t splits);
// Binds what the pass writes: the partial sums where there are any, else what the epilogue does.
void bind_result(const LowerContext& ctx, DispatchBuilder<MatmulParams>& dispatch,
                 const Product& product, const std::optional<TensorRef>& partial);
// Adds the splits' sums and applies the epilogue.
void join_splits(LowerContext& ctx, const Product& product, const TensorRef& partial,
                 int64_t splits);

}  // namespace rlx
