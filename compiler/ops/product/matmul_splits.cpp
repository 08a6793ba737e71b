// SPDX-License-Identifier: Apache-2.0
// The two passes of a product whose k is divided over workgroups.
#include "compiler/ops/product/matmul_splits.h"

#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr uint32_t kPassThreads = 256;

}  // namespace

void define_pass(const LowerContext& ctx, DispatchBuilder<MatmulParams>& dispatch,
                 const Product& product, ProductPass pass) {
  define_product(ctx, dispatch, product, pass);
  dispatch.define("RLX_PASS", static_cast<int64_t>(pass));
}

TensorRef partial_sums(LowerContext& ctx, const Product& product, int64_t splits) {
  const TensorType type{accumulator_of(product.a.ref.dtype()),
                        {splits, batch_count(product), product.m, product.n}};
  return ctx.scratch(type, ctx.node().name + ".partial");
}

void bind_result(const LowerContext& ctx, DispatchBuilder<MatmulParams>& dispatch,
                 const Product& product, const std::optional<TensorRef>& partial) {
  if (partial) {
    dispatch.write(&MatmulParams::partial, *partial,
                   vector_bytes(*partial, y_in_vectors(ctx, product)));
  } else {
    bind_epilogue(ctx, dispatch, product);
  }
}

void join_splits(LowerContext& ctx, const Product& product, const TensorRef& partial,
                 int64_t splits) {
  auto dispatch = ctx.dispatch<KernelId::matmul>();
  const bool in_vectors = y_in_vectors(ctx, product);
  define_pass(ctx, dispatch, product, ProductPass::Join);
  const Dim elements = product.m * product.n * batch_count(product);
  const int64_t per_group = kPassThreads * (in_vectors ? kVectorElements : 1);
  dispatch.workgroup({kPassThreads, 1, 1})
      .define("RLX_SPLITS", splits)
      .define("RLX_TILE_M", 1)
      .define("RLX_TILE_N", 1)
      .read(&MatmulParams::partial, partial, vector_bytes(partial, in_vectors))
      .grid(split_grid(ceil_div(elements, per_group)))
      .work(byte_size(partial.type) + byte_size(product.y.type), elements * splits)
      .estimate([](const DeviceModel&) { return 0.0; })  // the first pass's holds it
      .reason("adds " + std::to_string(splits) + " ranges of k in order");
  bind_epilogue(ctx, dispatch, product);
}

}  // namespace rlx
