// SPDX-License-Identifier: Apache-2.0
// From a product over strided views to dispatches of `matmul` or `matvec`.
#include "compiler/ops/product/matmul_lower.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ops/product/matmul_coop_lower.h"
#include "compiler/ops/product/matmul_emit.h"
#include "compiler/ops/product/matmul_library.h"
#include "compiler/ops/product/matmul_mma_lower.h"
#include "compiler/ops/product/matmul_splits.h"
#include "compiler/ops/product/matmul_tiles.h"
#include "compiler/ops/product/matmul_vectors.h"
#include "compiler/ops/product/matmul_wgmma.h"
#include "compiler/ops/product/matvec_stream_lower.h"
#include "compiler/ops/product/product_time.h"
#include "compiler/support/ceil_div.h"
#include "compiler/support/check.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

// Up to this many vectors, a product is bound by the other operand's bytes and goes to matvec.
constexpr int64_t kMaxVectors = 4;
constexpr int64_t kLeastTile = 16;

// ---- normal form: fewer batch dims ----

// Every stride list of the product over its batch dims; a dense y needs none.
std::vector<Strides*> batch_strides(Product& product) {
  std::vector<Strides*> lists = {&product.a.batch, &product.b.batch};
  if (product.bias) lists.push_back(&product.bias->batch);
  if (product.residual) lists.push_back(&product.residual->batch);
  if (product.y_lines) lists.push_back(&product.y_lines->batch);
  return lists;
}

void erase_batch_dim(Product& product, size_t dim) {
  product.batch.erase(product.batch.begin() + static_cast<int64_t>(dim));
  for (Strides* strides : batch_strides(product)) {
    strides->erase(strides->begin() + static_cast<int64_t>(dim));
  }
}

void merge_batch_dims(Product& product) {
  for (size_t i = product.batch.size(); i-- > 0;) {
    if (product.batch[i] == 1) erase_batch_dim(product, i);
  }
  for (size_t i = product.batch.size(); i-- > 1;) {
    const std::vector<Strides*> lists = batch_strides(product);
    const bool merges = std::all_of(lists.begin(), lists.end(), [&](const Strides* strides) {
      return (*strides)[i - 1] == (*strides)[i] * product.batch[i];
    });
    if (!merges) continue;
    for (Strides* strides : lists) (*strides)[i - 1] = (*strides)[i];
    product.batch[i - 1] *= product.batch[i];
    for (Strides* strides : lists) strides->erase(strides->begin() + static_cast<int64_t>(i));
    product.batch.erase(product.batch.begin() + static_cast<int64_t>(i));
  }
}

// The innermost batch dim continues the lines of m: every operand steps through it as through more
// lines.
bool continues_lines(int64_t batch_stride, int64_t line_stride, int64_t m) {
  return m == 1 || batch_stride == line_stride * m;
}

// One weight matrix for all batch entries: batch entries become lines of a ([B, S, K] x [K, N] is
// one product).
void fold_batch_into_lines(Product& product) {
  while (!product.batch.empty() && product.b.batch.back() == 0) {
    if (!continues_lines(product.a.batch.back(), product.a.line, product.m)) return;
    if (product.bias && !continues_lines(product.bias->batch.back(), product.bias->m, product.m))
      return;
    if (product.residual &&
        !continues_lines(product.residual->batch.back(), product.residual->m, product.m)) {
      return;
    }
    if (product.y_lines &&
        !continues_lines(product.y_lines->batch.back(), product.y_lines->line, product.m))
      return;
    if (product.m == 1) {
      product.a.line = product.a.batch.back();
      if (product.bias) product.bias->m = product.bias->batch.back();
      if (product.residual) product.residual->m = product.residual->batch.back();
      if (product.y_lines) product.y_lines->line = product.y_lines->batch.back();
    }
    product.m *= product.batch.back();
    erase_batch_dim(product, product.batch.size() - 1);
  }
}

// One left matrix for all batch entries, whose columns follow each other in every operand: batch
// entries become columns (pixels of images that lie one behind the other in each channel).
void fold_batch_into_columns(Product& product) {
  while (!product.batch.empty() && product.a.batch.back() == 0) {
    const auto continues = [&](int64_t batch_stride, int64_t stride) {
      return batch_stride == stride * product.n;
    };
    if (!product.y_lines || !continues(product.y_lines->batch.back(), 1) ||
        !continues(product.b.batch.back(), product.b.line))
      return;
    if (product.bias && !continues(product.bias->batch.back(), product.bias->n)) return;
    if (product.residual && !continues(product.residual->batch.back(), product.residual->n)) return;
    product.n *= product.batch.back();
    erase_batch_dim(product, product.batch.size() - 1);
  }
}

// Lines that stand as in a dense y are no news.
void forget_dense_lines(Product& product) {
  if (!product.y_lines || (product.m > 1 && product.y_lines->line != product.n)) return;
  int64_t expected = product.m * product.n;
  for (size_t i = product.batch.size(); i-- > 0;) {
    if (product.y_lines->batch[i] != expected) return;
    expected *= product.batch[i];
  }
  product.y_lines.reset();
}

void bring_to_normal_form(Product& product) {
  merge_batch_dims(product);
  fold_batch_into_lines(product);
  fold_batch_into_columns(product);
  forget_dense_lines(product);
}

// ---- the dispatches ----

void emit_tiles(LowerContext& ctx, const Product& product) {
  const DType acc = accumulator_of(product.a.ref.dtype());
  const TileChoice choice = choose_tile(
      {.m = product.m, .n = product.n, .k = product.k, .batches = batch_count(product)},
      {.acc_bytes = element_bytes(acc), .allow_shallow = product.a.ref.dtype() == DType::f32},
      ctx.target().device);
  std::optional<TensorRef> partial;
  if (choice.splits > 1) partial = partial_sums(ctx, product, choice.splits);
  {
    auto dispatch = ctx.dispatch<KernelId::matmul>();
    define_pass(ctx, dispatch, product, partial ? Pass::Split : Pass::Whole);
    define_tile(dispatch, choice.tile);
    const std::string a_axis = vector_axis(ctx, product.a, product.m, product.k);
    const std::string b_axis = vector_axis(ctx, product.b, product.n, product.k);
    dispatch.define("RLX_A", std::string(name_of(product.a.ref.dtype())))
        .define("RLX_B", std::string(name_of(product.b.ref.dtype())))
        .define("RLX_A_LINE", product.a.line)
        .define("RLX_A_DEPTH", product.a.depth)
        .define("RLX_B_LINE", product.b.line)
        .define("RLX_B_DEPTH", product.b.depth)
        .define("RLX_A_VECTOR", a_axis)
        .define("RLX_B_VECTOR", b_axis)
        .define("RLX_SPLITS", choice.splits)
        .define("RLX_SPLIT_K", std::max<int64_t>(choice.split_k, 1))
        .grid(split_grid(static_cast<uint64_t>(choice.groups)))
        .work(least_bytes(product), flops_of(product))
        .reason(reason_of(product, "matmul " + choice.text()));
    bind_operands(dispatch, product, vector_bytes(product.a.ref, a_axis != "1"),
                  vector_bytes(product.b.ref, b_axis != "1"));
    bind_result(ctx, dispatch, product, partial);
  }
  if (partial) join_splits(ctx, product, *partial, choice.splits);
}

// On matrix units where the target and the operands allow it.
void emit_matrix(LowerContext& ctx, const Product& product) {
  const Target& target = ctx.target();
  const std::string mma = mma_refusal(ctx, product);
  if (mma.empty()) return emit_mma(ctx, product);
  const std::string coop = coop_refusal(ctx, product);
  if (coop.empty()) return emit_coop(ctx, product);
  const size_t first_step = ctx.program().steps.size();
  emit_tiles(ctx, product);
  std::string& reason = ctx.program().steps[first_step].reason;
  if (target.offers(KernelId::matmul_mma)) reason += "; not on tensor cores: " + mma;
  if (target.offers(KernelId::matmul_coop)) reason += "; not on cooperative matrices: " + coop;
}

void emit_vectors(LowerContext& ctx, const Product& product) {
  const VectorPlan plan = plan_vectors(ctx, product);
  const int64_t batches = batch_count(product);
  std::optional<TensorRef> partial;
  if (plan.splits > 1) partial = partial_sums(ctx, product, plan.splits);
  {
    auto dispatch = ctx.dispatch<KernelId::matvec>();
    define_pass(ctx, dispatch, product, partial ? Pass::Split : Pass::Whole);
    define_plan(dispatch, plan);
    const ProductOperand& x = plan.swapped ? product.b : product.a;
    const ProductOperand& w = plan.swapped ? product.a : product.b;
    dispatch.define("RLX_X", std::string(name_of(x.ref.dtype())))
        .define("RLX_W", std::string(name_of(w.ref.dtype())))
        .define("RLX_X_LINE", x.line)
        .define("RLX_X_DEPTH", x.depth)
        .define("RLX_W_LINE", w.line)
        .define("RLX_W_DEPTH", w.depth)
        .grid(split_grid(static_cast<uint64_t>(plan.blocks * plan.splits * batches)))
        .work(least_bytes(product), flops_of(product))
        .reason(reason_of(product, to_string(plan, batches)));
    const uint32_t w_bytes =
        plan.chunk == 1 ? 0 : narrow<uint32_t>(plan.chunk) * element_bytes(w.ref.dtype());
    const uint32_t x_bytes =
        vector_bytes(x.ref, plan.along_depth && plan.chunk > 1 && plan.x_in_vectors);
    bind_operands(dispatch, product, plan.swapped ? w_bytes : x_bytes,
                  plan.swapped ? x_bytes : w_bytes);
    if (partial) {
      dispatch.write(&MatmulParams::partial, *partial);
    } else {
      bind_epilogue(ctx, dispatch, product);
    }
  }
  if (partial) join_splits(ctx, product, *partial, plan.splits);
}

}  // namespace

DType accumulator_of(DType operand) {
  if (operand == DType::f64) return DType::f64;
  return is_float(operand) ? DType::f32 : DType::i32;
}

bool has_unit_axis(const ProductOperand& operand, int64_t lines, int64_t depth) {
  return operand.line == 1 || operand.depth == 1 || lines <= 1 || depth <= 1;
}

AddedOperand added_operand(const TensorRef& ref, const Shape& y_shape) {
  AddedOperand added{.ref = ref, .batch = broadcast_strides(ref.shape(), ref.strides, y_shape)};
  RLX_CHECK(added.batch.size() >= 2, "an added tensor of rank below 2: " + to_string(y_shape));
  added.n = added.batch.back();
  added.batch.pop_back();
  added.m = added.batch.back();
  added.batch.pop_back();
  return added;
}

namespace {

// Large tiles take the product, and enough of them to beat matmul_mma's smaller ones.
bool tiles_are_faster(const LowerContext& ctx, const Product& product) {
  const TiledProduct tiled{.product = product};
  const DeviceModel& device = ctx.target().device;
  if (!wgmma_refusal(ctx, tiled).empty()) return false;
  const ProductWork work{.dtype = product.a.ref.dtype(),
                         .precision = ctx.products(),
                         .flops = flops_of(product),
                         .bytes = least_bytes(product)};
  return wgmma_microseconds(ctx.target(), tiled_size(tiled)) <
         rate_microseconds(device.mma_rates, device, work);
}

bool few_vectors(const Product& product) {
  return std::min(product.m, product.n) <= kMaxVectors && product.k > 0;
}

// Kernels that write dense results alone (matvec_stream, matmul_wgmma, matmul_coop), and are chosen
// because they are much faster; or batch entries of a few lines, which are lines of one matrix only
// where they follow each other in y.
bool wants_dense_lines(const LowerContext& ctx, Product product) {
  Product placed = product;
  bring_to_normal_form(placed);
  product.y_lines.reset();
  product.y.offset_bytes = 0;
  product.y.strides = dense_strides(product.y.shape());
  bring_to_normal_form(product);
  if (stream_fits(ctx, {product, {}, {}, {}})) return true;
  if (few_vectors(product)) return false;
  return few_vectors(placed) || coop_refusal(ctx, product).empty() ||
         tiles_are_faster(ctx, product);
}

// The product in a buffer of its own, then a copy to where y stands.
bool lower_apart(LowerContext& ctx, Product product) {
  const TensorRef place = product.y;
  const TensorRef dense = ctx.scratch(place.type, "dense");
  product.y = dense;
  product.y_lines.reset();
  if (!lower_product(ctx, std::move(product))) return false;
  ctx.copy(dense, place, "the fastest kernel of this product writes dense results");
  return true;
}

}  // namespace

std::optional<ProductLines> product_lines(const TensorRef& y) {
  if (y.dense()) return std::nullopt;
  ProductLines lines{.batch = y.strides, .line = y.strides.at(y.strides.size() - 2)};
  lines.batch.resize(y.strides.size() - 2);
  return lines;
}

bool lower_product(LowerContext& ctx, Product product) {
  const int64_t batches = batch_count(product);
  if (product.m == 0 || product.n == 0 || batches == 0) return true;
  if (product.y_lines && wants_dense_lines(ctx, product)) return lower_apart(ctx, product);
  bring_to_normal_form(product);
  const int64_t largest = std::max({product.m, product.n, product.k, batch_count(product)});
  if (largest > kCountLimit ||
      ceil_div(product.m, kLeastTile) * ceil_div(product.n, kLeastTile) > kCountLimit) {
    return ctx.fail(DiagCode::UnsupportedOp, "a product of m=" + std::to_string(product.m) +
                                                 " n=" + std::to_string(product.n) +
                                                 " k=" + std::to_string(product.k) +
                                                 " exceeds the kernels' 32-bit counts");
  }
  if (const StreamedProduct streamed{product, {}, {}, {}}; stream_fits(ctx, streamed)) {
    emit_stream(ctx, streamed);
    return true;
  }
  const size_t first_step = ctx.program().steps.size();
  if (few_vectors(product)) {
    emit_vectors(ctx, product);
  } else if (tiles_are_faster(ctx, product)) {
    emit_wgmma(ctx, {.product = product});
  } else {
    emit_matrix(ctx, product);
  }
  offer_to_library(ctx, product, first_step);
  return true;
}

}  // namespace rlx
