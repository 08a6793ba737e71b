// SPDX-License-Identifier: Apache-2.0
// From a product over strided views to one dispatch of matmul_mma.
#include "compiler/ops/product/matmul_mma_lower.h"

#include <algorithm>

#include "compiler/ops/lowering/forms.h"
#include "compiler/ops/product/matmul_emit.h"
#include "compiler/ops/product/matmul_mma_tiles.h"
#include "compiler/ops/product/product_time.h"
#include "compiler/support/sampled_sizes.h"

namespace rlx {
namespace {

// Where sums are short, tf32 parts leave a larger error than f32 products do.
constexpr int64_t kLeastSplitDepth = 32;
// Operations of an activation per element; most take less.
constexpr double kActivationOperations = 30;
constexpr uint32_t kLeastPieceBytes = 2;  // an element
// Microseconds that a step takes longer in networks than in the chains of equal steps by which
// tiles are chosen: its first loads miss what such a chain finds in the cache. The others'
// estimates are of networks (tests/bench/results/2026-11-29-h200-products.md).
constexpr double kAmongOthers = 2.3;

bool is_float_of_mma(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

MmaKind kind_of(const OfferContext& at, DType dtype) {
  if (dtype != DType::f32) return MmaKind::Half;
  return at.products() == ProductPrecision::Tf32 ? MmaKind::Tf32 : MmaKind::SplitF32;
}

Dim group_count(const Product& product, const MmaChoice& choice) {
  return ceil_div(product.m, choice.tile.m) * ceil_div(product.n, choice.tile.n) * choice.splits *
         batch_count(product);
}

bool is_weight(const LowerContext& ctx, const ProductOperand& operand) {
  return ctx.segment_of(operand.ref) == Segment::Weights;
}

// Whether tiles go row by row: bands of rows spare reads of b from memory, but not where the L2
// cache holds it, and they cost a division where a run gives how many rows there are.
bool is_row_by_row(const Product& product) {
  constexpr int64_t kCachedBytes = int64_t{16} << 20;
  return product.m.is_free() && !product.n.is_free() &&
         product.n.bound() * product.k.bound() * element_bytes(product.b.ref.dtype()) <=
             kCachedBytes;
}

// At each of a few sizes. Precondition: no refusal.
std::vector<MmaProblem> problems_of(const OfferContext& at, const Product& product) {
  const Pieces a = pieces_of(at, product.a, product.m, product.k, kLeastPieceBytes).value();
  const Pieces b = pieces_of(at, product.b, product.n, product.k, kLeastPieceBytes).value();
  const auto problem_at = [&](const SampledSizes& sampled) {
    return MmaProblem{.m = sampled.value(product.m),
                      .n = sampled.value(product.n),
                      .k = product.k,
                      .batches = sampled.value(batch_count(product)),
                      .kind = kind_of(at, product.a.ref.dtype()),
                      .a_by_line = a.by_line(),
                      .b_by_line = b.by_line(),
                      .epilogue_operations = product.activation.none() ? 0 : kActivationOperations};
  };
  return at_sampled_sizes({product.m, product.n, batch_count(product)}, problem_at);
}

void emit_choice(LowerContext& ctx, const Product& product, const MmaProblem& problem,
                 const MmaChoice& choice) {
  const Pieces a = pieces_of(ctx, product.a, product.m, product.k, kLeastPieceBytes).value();
  const Pieces b = pieces_of(ctx, product.b, product.n, product.k, kLeastPieceBytes).value();
  auto dispatch = ctx.dispatch<KernelId::matmul_mma>();
  define_product(ctx, dispatch, product, ProductPass::Whole);
  dispatch.workgroup({choice.tile.threads(), 1, 1})
      .define("RLX_A", std::string(name_of(product.a.ref.dtype())))
      .define("RLX_A_BY_LINE", problem.a_by_line ? 1 : 0)
      .define("RLX_A_WEIGHTS", is_weight(ctx, product.a) ? 1 : 0)
      .size("RLX_A_LINE", product.a.line)
      .size("RLX_A_DEPTH", product.a.depth)
      .define("RLX_B_BY_LINE", problem.b_by_line ? 1 : 0)
      .define("RLX_B_WEIGHTS", is_weight(ctx, product.b) ? 1 : 0)
      .size("RLX_B_LINE", product.b.line)
      .size("RLX_B_DEPTH", product.b.depth)
      .define("RLX_TF32", problem.kind == MmaKind::Tf32 ? 1 : 0)
      .define("RLX_TILE_M", choice.tile.m)
      .define("RLX_TILE_N", choice.tile.n)
      .define("RLX_TILE_K", choice.tile_k)
      .define("RLX_STAGES", choice.stages)
      .define("RLX_WARPS_M", choice.tile.warps_m)
      .define("RLX_WARPS_N", choice.tile.warps_n)
      .define("RLX_WARPS_K", choice.tile.warps_k)
      .define("RLX_SPLITS", choice.splits)
      .define("RLX_SPLIT_K", choice.split_k)
      .define("RLX_MIN_GROUPS", choice.min_groups)
      .define("RLX_ROW_BY_ROW", is_row_by_row(product) ? 1 : 0)
      .grid(split_grid(group_count(product, choice)))
      .work(least_bytes(product), flops_of(product))
      .estimate([problem, choice](const DeviceModel& device) {
        return mma_microseconds(problem, choice, device);
      })
      .reason(reason_of(product, "tensor cores: " + choice.text()));
  define_copies(dispatch, a, b);
  bind_operands(dispatch, product, a.bytes, b.bytes);
  bind_epilogue(ctx, dispatch, product);
}

}  // namespace

std::string mma_refusal(const OfferContext& at, const FusedProduct& fused) {
  const Product& product = fused.product;
  if (std::string beside = beside_refusal(fused); !beside.empty()) return beside;
  const DType dtype = product.a.ref.dtype();
  if (dtype != product.b.ref.dtype()) return "operands of two dtypes";
  if (!is_float_of_mma(dtype)) return "no tensor-core product of " + std::string(name_of(dtype));
  if (!is_float_of_mma(product.y.dtype()))
    return "a result of " + std::string(name_of(product.y.dtype()));
  if (product.k.is_free()) return "a depth that the run gives";
  if (product.k == 0) return "nothing to add";
  if (kind_of(at, dtype) == MmaKind::SplitF32 && product.k < kLeastSplitDepth)
    return "f32 sums of less than " + std::to_string(kLeastSplitDepth) + " products";
  if (!pieces_of(at, product.a, product.m, product.k, kLeastPieceBytes) ||
      !pieces_of(at, product.b, product.n, product.k, kLeastPieceBytes))
    return "operands with neighbours along no axis";
  return {};
}

double mma_time(const OfferContext& at, const FusedProduct& fused) {
  const Product& product = fused.product;
  const double time = mean_over_sizes(problems_of(at, product), [&at](const MmaProblem& problem) {
    return choose_mma({&problem, 1}, at.device()).microseconds;
  });
  const auto slowdown = [&](const ProductOperand& operand, const Dim& lines) {
    const auto pieces = pieces_of(at, operand, lines, product.k, kLeastPieceBytes);
    const uint32_t bytes = pieces ? pieces->bytes : kLeastPieceBytes;
    return bytes == kWidestAccessBytes ? 1.0 : bytes > kLeastPieceBytes ? 1.5 : 3.0;
  };
  return time * std::max(slowdown(product.a, product.m), slowdown(product.b, product.n)) +
         kAmongOthers;
}

bool emit_mma(LowerContext& ctx, const FusedProduct& fused) {
  const Product& product = fused.product;
  const std::vector<MmaProblem> problems = problems_of(ctx, product);
  const MmaProblem problem = problems.front();
  const auto emit = [&](const MmaChoice& choice) { emit_choice(ctx, product, problem, choice); };
  if (has_free_lines(product)) {
    const std::vector<int64_t> lines = form_sizes(product.m);
    emit_forms(ctx, "matmul_mma", product.m, mma_candidates(problem, lines, ctx.device()), emit);
  } else {
    emit(take_form(ctx, "matmul_mma", mma_candidates(problems, ctx.device())));
  }
  return true;
}

}  // namespace rlx
