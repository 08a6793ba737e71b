// SPDX-License-Identifier: Apache-2.0
// From a product over strided views to dispatches of matmul_coop.
#include "compiler/ops/product/matmul_coop_lower.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "compiler/ops/lowering/forms.h"
#include "compiler/ops/product/matmul_coop_tiles.h"
#include "compiler/ops/product/matmul_splits.h"
#include "compiler/support/checked.h"
#include "compiler/support/sampled_sizes.h"
#include "schema/rounding.h"

namespace rlx {

bool coop_multiplies(const OfferContext& at, DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 ||
         (dtype == DType::f32 && at.target().known_fragments);
}

std::string coop_refusal(const OfferContext& at, const FusedProduct& fused) {
  const Product& product = fused.product;
  if (std::string beside = beside_refusal(fused); !beside.empty()) return beside;
  const DType dtype = product.a.ref.dtype();
  if (!coop_multiplies(at, dtype) || product.b.ref.dtype() != dtype) {
    return "operands of " + std::string(name_of(dtype)) + " and " +
           std::string(name_of(product.b.ref.dtype()));
  }
  const DType y = product.y.dtype();
  if (y != DType::f16 && y != DType::bf16 && y != DType::f32)
    return "a result of " + std::string(name_of(y));
  if (product.k.is_free()) return "a depth that the run gives";
  if (product.k == 0) return "nothing to add";
  if (!pieces_of(at, product.a, product.m, product.k, element_bytes(dtype)) ||
      !pieces_of(at, product.b, product.n, product.k, element_bytes(dtype)))
    return "operands with neighbours along no axis";
  return {};
}

namespace {

using CoopDispatch = DispatchBuilder<MatmulParams>;

struct OperandPieces {
  Pieces a;
  Pieces b;
};
OperandPieces operand_pieces(const OfferContext& at, const Product& product) {
  const uint32_t least_bytes = element_bytes(product.a.ref.dtype());
  return {.a = pieces_of(at, product.a, product.m, product.k, least_bytes).value(),
          .b = pieces_of(at, product.b, product.n, product.k, least_bytes).value()};
}

// Operands of f32 are multiplied in parts of bf16.
bool is_in_parts(DType dtype) {
  return dtype == DType::f32;
}

void define_choice(CoopDispatch& dispatch, const Product& product, const CoopChoice& choice) {
  dispatch.workgroup({choice.tile.threads(), 1, 1})
      .define("RLX_TILE_M", choice.tile.m)
      .define("RLX_TILE_N", choice.tile.n)
      .define("RLX_TILE_K", choice.tile.k)
      .define("RLX_STAGES", choice.tile.stages)
      .define("RLX_AHEAD", choice.ahead)
      .define("RLX_WARPS_M", choice.tile.warps_m)
      .define("RLX_WARPS_N", choice.tile.warps_n)
      .define("RLX_WARPS_K", choice.tile.warps_k)
      .define("RLX_SUM_MATRICES", choice.tile.sum_matrices())
      .define("RLX_SPLITS", choice.splits)
      .define("RLX_SPLIT_K", choice.split_k)
      .grid(split_grid(ceil_div(product.m, choice.tile.m) * ceil_div(product.n, choice.tile.n) *
                       choice.splits * batch_count(product)));
}

// What the kernel is told of a: rows of a matrix, or the windows of an image.
void define_rows(CoopDispatch& dispatch, const Product& product, const CoopProblem& problem) {
  dispatch.define("RLX_WINDOWS", 0)
      .define("RLX_A_BY_LINE", problem.a_by_line ? 1 : 0)
      .size("RLX_A_LINE", product.a.line)
      .size("RLX_A_DEPTH", product.a.depth);
}

void define_windows(CoopDispatch& dispatch, const Product& product, const WindowLines& lines) {
  const TensorRef& x = product.a.ref;
  const int64_t taps = lines.window.taps();
  define_window(dispatch, lines.window);
  dispatch.define("RLX_WINDOWS", lines.in_pieces ? 1 : 2)
      .define("RLX_A_BY_LINE", 0)
      .define("RLX_CHANNELS", product.k / taps)
      .size("RLX_X_C", x.strides[1]);
  define_image(dispatch, x.strides);
  if (lines.bundled > 1) dispatch.define("RLX_BUNDLED", lines.bundled);
}

// Of windows; filters of bundles come in pieces of one group's channels.
OperandPieces window_pieces(const Product& product, const WindowLines& lines) {
  const int64_t bytes = element_bytes(product.a.ref.dtype());
  const int64_t taps = lines.window.taps();
  const int64_t own_channels = product.k.bound() / taps / lines.bundled;
  OperandPieces pieces;
  if (lines.bundled > 1) {
    pieces.b.bytes = narrow<uint32_t>(std::gcd(kWidestAccessBytes / bytes, own_channels) * bytes);
  }
  return pieces;
}

std::vector<CoopProblem> coop_problems(const OfferContext& at, const Product& product) {
  const OperandPieces pieces = operand_pieces(at, product);
  return at_sampled_sizes({product.m, product.n, batch_count(product)},
                          [&](const SampledSizes& sizes) {
                            return CoopProblem{.m = sizes.value(product.m),
                                               .n = sizes.value(product.n),
                                               .k = product.k,
                                               .batches = sizes.value(batch_count(product)),
                                               .a_by_line = pieces.a.by_line(),
                                               .b_by_line = pieces.b.by_line(),
                                               .in_parts = is_in_parts(product.a.ref.dtype())};
                          });
}

std::vector<CoopProblem> window_problems(const CoopWindows& windows) {
  return at_sampled_sizes({windows.m}, [&windows](const SampledSizes& sizes) {
    return CoopProblem{.m = sizes.value(windows.m),
                       .n = windows.n,
                       .k = windows.k,
                       .batches = windows.bundles,
                       .splits_depth = windows.bundles == 1,
                       .in_parts = is_in_parts(windows.dtype),
                       .of_windows = true};
  });
}

void emit_choice(LowerContext& ctx, const Product& product, const CoopProblem& problem,
                 const WindowLines* lines, const CoopChoice& choice) {
  std::optional<TensorRef> partial;
  if (choice.splits > 1) partial = partial_sums(ctx, product, choice.splits);
  {
    auto dispatch = ctx.dispatch<KernelId::matmul_coop>();
    define_pass(ctx, dispatch, product, partial ? ProductPass::Split : ProductPass::Whole);
    define_choice(dispatch, product, choice);
    if (lines != nullptr) {
      define_windows(dispatch, product, *lines);
    } else {
      define_rows(dispatch, product, problem);
    }
    const DType dtype = product.a.ref.dtype();
    if (is_in_parts(dtype)) dispatch.define("RLX_PARTS", 3);
    dispatch.define("RLX_MATRIX", is_in_parts(dtype) ? "bf16" : std::string(name_of(dtype)))
        .define("RLX_B_BY_LINE", problem.b_by_line ? 1 : 0)
        .size("RLX_B_LINE", product.b.line)
        .size("RLX_B_DEPTH", product.b.depth)
        .define("RLX_SHORT_MATH", element_bytes(product.y.dtype()) == 2 ? 1 : 0)
        .work(least_bytes(product), flops_of(product))
        .estimate([problem, choice](const DeviceModel& device) {
          return coop_microseconds(problem, choice, device);
        })
        .reason(reason_of(product, std::string(is_in_parts(dtype) ? "f32 in parts of bf16, " : "") +
                                       "cooperative matrices: " + choice.text()));
    const OperandPieces pieces =
        lines == nullptr ? operand_pieces(ctx, product) : window_pieces(product, *lines);
    define_copies(dispatch, pieces.a, pieces.b);
    bind_operands(dispatch, product, lines != nullptr && !lines->in_pieces ? 0 : pieces.a.bytes,
                  pieces.b.bytes);
    bind_result(ctx, dispatch, product, partial);
  }
  if (partial) join_splits(ctx, product, *partial, choice.splits);
}

bool emit(LowerContext& ctx, const Product& product, std::span<const CoopProblem> sizes,
          const WindowLines* lines) {
  const CoopProblem largest = sizes.front();
  const auto emit_one = [&](const CoopChoice& choice) {
    emit_choice(ctx, product, largest, lines, choice);
  };
  // Steps that join splits are there at all sizes or at none.
  if (has_free_lines(product) && choose_coop(sizes, ctx.device()).splits == 1) {
    emit_forms(ctx, "matmul_coop", product.m,
               coop_candidates(largest, form_sizes(product.m), ctx.device()), emit_one);
  } else {
    emit_one(take_form(ctx, "matmul_coop", coop_candidates(sizes, ctx.device())));
  }
  return true;
}

}  // namespace

namespace {

// How much longer copies in pieces of less than 16 bytes make it.
double slowdown(const OfferContext& at, const Product& product) {
  const OperandPieces pieces = operand_pieces(at, product);
  return pieces.a.are_widest() && pieces.b.are_widest() ? 1 : 2;
}

// At one size of what is emitted for sizes up to the largest: by the best tile, or by the same
// splits of the depth.
double part_time(const OfferContext& at, std::span<const CoopProblem> largest,
                 const CoopProblem& problem) {
  CoopChoice choice = choose_coop(largest, at.device());
  if (choice.splits > 1) {
    choice.groups = ceil_div(problem.m, choice.tile.m) * ceil_div(problem.n, choice.tile.n) *
                    choice.splits * problem.batches;
    return coop_microseconds(problem, choice, at.device());
  }
  double least = std::numeric_limits<double>::infinity();
  for (const auto& candidate : coop_candidates(problem, {&problem.m, 1}, at.device()))
    least = std::min(least, candidate.front().microseconds);
  return least;
}

}  // namespace

double coop_time(const OfferContext& at, const FusedProduct& fused) {
  return slowdown(at, fused.product) *
         choose_coop(coop_problems(at, fused.product), at.device()).microseconds;
}

double coop_time_of(const OfferContext& at, const FusedProduct& largest,
                    const FusedProduct& fused) {
  return slowdown(at, fused.product) * part_time(at, coop_problems(at, largest.product),
                                                 coop_problems(at, fused.product).front());
}

double window_coop_time(const OfferContext& at, const CoopWindows& windows) {
  return choose_coop(window_problems(windows), at.device()).microseconds;
}

double window_coop_time_of(const OfferContext& at, const CoopWindows& largest,
                           const CoopWindows& windows) {
  return part_time(at, window_problems(largest), window_problems(windows).front());
}

bool emit_coop(LowerContext& ctx, const FusedProduct& fused) {
  std::vector<CoopProblem> sizes = coop_problems(ctx, fused.product);
  // Fewer lines have forms, or alternates.
  if (has_free_lines(fused.product)) sizes.resize(1);
  return emit(ctx, fused.product, sizes, nullptr);
}

bool emit_coop(LowerContext& ctx, const Product& product, const WindowLines& lines) {
  std::vector<CoopProblem> sizes =
      window_problems({.dtype = product.a.ref.dtype(),
                       .m = product.m,
                       .n = product.n,
                       .k = product.k,
                       .bundles = element_count(product.batch).bound()});
  if (lines.is_part) sizes.resize(1);
  return emit(ctx, product, sizes, &lines);
}

}  // namespace rlx
