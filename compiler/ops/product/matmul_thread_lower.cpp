// SPDX-License-Identifier: Apache-2.0
// From a product over strided views to dispatches of `matmul` or `matvec`.
#include "compiler/ops/product/matmul_thread_lower.h"

#include <algorithm>

#include "compiler/ops/lowering/forms.h"
#include "compiler/ops/lowering/offers.h"
#include "compiler/ops/product/matmul_emit.h"
#include "compiler/ops/product/matmul_lanes_lower.h"
#include "compiler/ops/product/matmul_splits.h"
#include "compiler/ops/product/matmul_tiles.h"
#include "compiler/ops/product/matmul_vectors.h"
#include "compiler/ops/product/product_words.h"
#include "compiler/support/checked.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// Up to this many vectors, a product is bound by the other operand's bytes.
constexpr int64_t kMaxVectors = 4;

ProductSize size_of(const Product& product) {
  return {.m = product.m.bound(),
          .n = product.n.bound(),
          .k = product.k.bound(),
          .batches = batch_count(product).bound()};
}

// From this many results on lanes are 2 to 5 times as fast as teams of `matvec` on a CPU where the
// depths of the many lines lie side by side; with fewer, or along the lines, teams are.
constexpr int64_t kFewestLaneResults = 256;
bool suits_lanes(const Product& product) {
  const ProductSize size = size_of(product);
  const ProductOperand& lines = product.n < product.m ? product.a : product.b;
  return lines.depth == 1 && size.m * size.n * size.batches >= kFewestLaneResults &&
         accumulator_of(product.a.ref.dtype()) != DType::f64;
}

Dim group_count(const Product& product, const TileChoice& choice) {
  return ceil_div(product.m, choice.tile.m) * ceil_div(product.n, choice.tile.n) * choice.splits *
         batch_count(product);
}

TileLimits limits_of(const Product& product) {
  const DType dtype = product.a.ref.dtype();
  return {.allow_splits = !product.k.is_free(),
          .acc_bytes = element_bytes(accumulator_of(dtype)),
          .allow_shallow = dtype == DType::f32};
}

}  // namespace

std::string vectors_refusal(const OfferContext& at, const FusedProduct& fused) {
  const Product& product = fused.product;
  if (std::string beside = beside_refusal(fused); !beside.empty()) return beside;
  if (std::min(product.m, product.n) > kMaxVectors)
    return "more than " + std::to_string(kMaxVectors) + " vectors";
  if (is_for_lanes(at.device()) && suits_lanes(product))
    return "lanes read the depths of so many lines with fewer loads";
  return product.k == 0 ? "nothing to add" : "";
}

double vectors_bound(const OfferContext& at, const FusedProduct& fused) {
  return thread_bound_microseconds(
      at.device(), {.bytes = static_cast<uint64_t>(least_bytes(fused.product).bound()),
                    .flops = static_cast<uint64_t>(flops_of(fused.product).bound())});
}

bool emit_vectors(LowerContext& ctx, const FusedProduct& fused) {
  const VectorPlan plan = plan_vectors(ctx, fused.product);
  const int64_t batches = batch_count(fused.product);
  std::optional<TensorRef> partial;
  if (plan.splits > 1) partial = partial_sums(ctx, fused.product, plan.splits);
  {
    // Nothing but a workgroup's number is divided by a size, once.
    const bool in_size_words =
        ctx.word_use() != WordUse::Never && !partial && takes_words(fused.product);
    SizeWords words;
    Product product = in_size_words ? in_words(words, fused.product) : fused.product;
    const auto word = [&](int64_t size) { return in_size_words ? words.word(size) : Dim(size); };
    auto dispatch = ctx.dispatch<KernelId::matvec>();
    define_pass(ctx, dispatch, product, partial ? ProductPass::Split : ProductPass::Whole);
    define_plan(dispatch, plan);
    const ProductOperand& x = plan.swapped ? product.b : product.a;
    const ProductOperand& w = plan.swapped ? product.a : product.b;
    dispatch.define("RLX_X", std::string(name_of(x.ref.dtype())))
        .define("RLX_W", std::string(name_of(w.ref.dtype())))
        .size("RLX_OUTPUTS", plan.swapped ? product.m : product.n)
        .size("RLX_OUTPUT_BLOCKS", word(plan.blocks))
        .size("RLX_SPLIT_K", word(plan.split_k))
        .size("RLX_X_LINE", x.line)
        .size("RLX_X_DEPTH", x.depth)
        .size("RLX_W_LINE", w.line)
        .size("RLX_W_DEPTH", w.depth)
        .grid(split_grid(static_cast<uint64_t>(plan.blocks * plan.splits * batches)))
        .work(least_bytes(fused.product), flops_of(fused.product))
        .reason(reason_of(fused.product, to_string(plan, batches)) +
                (in_size_words ? ", sizes as words" : ""));
    words.give(dispatch);
    const uint32_t w_bytes =
        plan.chunk == 1 ? 0 : narrow<uint32_t>(plan.chunk) * element_bytes(w.ref.dtype());
    const uint32_t x_bytes =
        vector_bytes(x.ref, plan.along_depth && plan.chunk > 1 && plan.x_in_vectors);
    if (in_size_words) put_reaches(product);
    bind_operands(dispatch, product, plan.swapped ? w_bytes : x_bytes,
                  plan.swapped ? x_bytes : w_bytes);
    if (partial) {
      dispatch.write(&MatmulParams::partial, *partial);
    } else {
      bind_epilogue(ctx, dispatch, product);
      if (may_replace_residual(fused.product)) dispatch.allow_in_place(fused.product.residual->ref);
    }
  }
  if (partial) join_splits(ctx, fused.product, *partial, plan.splits);
  return true;
}

std::string tiles_refusal(const OfferContext&, const FusedProduct& fused) {
  return beside_refusal(fused);
}

double tiles_time(const OfferContext& at, const FusedProduct& fused) {
  return at.device().step_microseconds +
         choose_tile(size_of(fused.product), limits_of(fused.product), at.device()).microseconds;
}

double tiles_time_of(const OfferContext& at, const FusedProduct& largest,
                     const FusedProduct& fused) {
  const ProductSize size = size_of(fused.product);
  TileLimits limits = limits_of(fused.product);
  TileChoice choice = choose_tile(size_of(largest.product), limits, at.device());
  if (choice.splits == 1) {
    limits.allow_splits = false;
    choice = choose_tile(size, limits, at.device());
  }
  choice.tiles = ceil_div(size.m, choice.tile.m) * ceil_div(size.n, choice.tile.n);
  choice.groups = choice.tiles * choice.splits * size.batches;
  return at.device().step_microseconds + tile_microseconds(size, choice, at.device());
}

namespace {

void emit_tile(LowerContext& ctx, const Product& fixed, const TileChoice& choice) {
  std::optional<TensorRef> partial;
  if (choice.splits > 1) partial = partial_sums(ctx, fixed, choice.splits);
  {
    const bool in_size_words =
        ctx.word_use() >= WordUse::ForShared && !partial && takes_words(fixed);
    SizeWords words;
    Product product = in_size_words ? in_words(words, fixed) : fixed;
    const int64_t split_k = std::max<int64_t>(choice.split_k, 1);
    auto dispatch = ctx.dispatch<KernelId::matmul>();
    define_pass(ctx, dispatch, product, partial ? ProductPass::Split : ProductPass::Whole);
    define_tile(dispatch, choice.tile);
    const std::string a_axis = vector_axis(ctx, fixed.a, fixed.m, fixed.k);
    const std::string b_axis = vector_axis(ctx, fixed.b, fixed.n, fixed.k);
    dispatch.define("RLX_A", std::string(name_of(product.a.ref.dtype())))
        .define("RLX_B", std::string(name_of(product.b.ref.dtype())))
        .size("RLX_A_LINE", product.a.line)
        .size("RLX_A_DEPTH", product.a.depth)
        .size("RLX_B_LINE", product.b.line)
        .size("RLX_B_DEPTH", product.b.depth)
        .define("RLX_A_VECTOR", a_axis)
        .define("RLX_B_VECTOR", b_axis)
        .define("RLX_SPLITS", choice.splits)
        .size("RLX_SPLIT_K", product.k.is_free() ? max(product.k, 1) : Dim(split_k))
        .grid(split_grid(group_count(fixed, choice)))
        .work(least_bytes(fixed), flops_of(fixed))
        .estimate([size = size_of(fixed), choice](const DeviceModel& device) {
          return device.step_microseconds + tile_microseconds(size, choice, device);
        })
        .reason(reason_of(fixed, "matmul " + choice.text()) +
                (in_size_words ? ", sizes as words" : ""));
    words.give(dispatch);
    if (in_size_words) put_reaches(product);
    bind_operands(dispatch, product, vector_bytes(fixed.a.ref, a_axis != "1"),
                  vector_bytes(fixed.b.ref, b_axis != "1"));
    bind_result(ctx, dispatch, product, partial);
  }
  if (partial) join_splits(ctx, fixed, *partial, choice.splits);
}

// Those of one pass, at each of form_sizes(product.m).
std::vector<std::vector<TileChoice>> tiles_at_lines(const Product& product,
                                                    const DeviceModel& device) {
  TileLimits limits = limits_of(product);
  limits.allow_splits = false;
  std::vector<std::vector<TileChoice>> candidates;
  for (const int64_t m : form_sizes(product.m)) {
    ProductSize size = size_of(product);
    size.m = m;
    const std::vector<TileChoice> at_size = tile_candidates(size, limits, device);
    candidates.resize(at_size.size());
    for (size_t i = 0; i < at_size.size(); ++i) candidates[i].push_back(at_size[i]);
  }
  return candidates;
}

}  // namespace

bool emit_tiles(LowerContext& ctx, const FusedProduct& fused) {
  const Product& product = fused.product;
  const auto emit = [&](const TileChoice& choice) { emit_tile(ctx, product, choice); };
  const ProductSize size = size_of(product);
  const TileLimits limits = limits_of(product);
  // Steps that join splits are there at all sizes or at none.
  if (has_free_lines(product) && choose_tile(size, limits, ctx.device()).splits == 1) {
    emit_forms(ctx, "matmul", product.m, tiles_at_lines(product, ctx.device()), emit);
  } else {
    emit(take_form(ctx, "matmul", tile_candidates(size, limits, ctx.device())));
  }
  return true;
}

}  // namespace rlx
