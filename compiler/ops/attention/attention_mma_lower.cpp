// SPDX-License-Identifier: Apache-2.0
// Lowering of attention to the tensor cores: one dispatch of attention_mma.
#include <array>

#include "compiler/ops/attention/attention_lower.h"
#include "compiler/ops/attention/attention_mma_tiles.h"
#include "compiler/ops/lowering/forms.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/rows.h"

namespace rlx {
namespace {

constexpr int64_t kWidestHalf = 256;
constexpr int64_t kWidestF32 = 128;
constexpr int64_t kLargestGrid = 65535;

// Causality and a right window that cannot remove a key: the only query is the last token.
AttentionProblem simplified(const AttentionProblem& problem, const AttentionOperands& o) {
  AttentionProblem result = problem;
  if (problem.q_tokens == 1 && problem.align_end && !o.q_start) {
    result.causal = false;
    result.window_right = -1;
  }
  return result;
}

// The tile of rows of each z. Causal tiles grow with their number. All at once on the device: long
// and short ones alternate by rounds of one workgroup per multiprocessor, so that what shares a
// multiprocessor adds up alike. More than that, or a count that the run gives: long ones first.
std::string tile_order(const AttentionProblem& problem, const AttentionMmaTiling& tiling,
                       const DeviceModel& device) {
  if (!problem.causal) return "(z)";
  if (has_free_sizes(problem)) return "(int(rlx_grid_z) - 1 - (z))";
  const int64_t tiles = tiling.row_tiles(problem);
  if (tiles < 2) return "(z)";
  const std::string last = std::to_string(tiles - 1);
  const int64_t per_z = tiling.groups(problem) / tiles * tiling.splits;
  const int64_t round = std::max<int64_t>(1, device.multiprocessors / per_z);
  const int64_t resident = tiling.min_groups * device.multiprocessors;
  if (tiles * per_z > resident || tiles % (2 * round) != 0) return "(" + last + " - (z))";
  const std::string r = std::to_string(round);
  return "((z) / " + r + " % 2 == 0 ? " + last + " - (z) : " + std::to_string(tiles - round) +
         " - (z) / " + r + " * " + r + " + (z) % " + r + ")";
}

// Whether two keys' bias, from an even one on, are one aligned access.
bool bias_in_pairs(const OfferContext& at, const AttentionProblem& problem,
                   const std::optional<Heads>& bias) {
  if (!bias) return false;
  const DType dtype = bias->ref.dtype();
  const HeadsView& view = bias->view;
  return (is_half(dtype) || dtype == DType::f32) && view.dim == 1 &&
         problem.kv_tokens.divides_by(2) && view.batch.divides_by(2) && view.head.divides_by(2) &&
         view.token.divides_by(2) && at.alignment(bias->ref) >= 2 * element_bytes(dtype);
}

// A graph input: it stands before the run and does not change in it.
bool stands_before_run(LowerContext& ctx, const std::optional<TensorRef>& ref) {
  return !ref || ctx.program().buffer(ref->buffer).input_index.has_value();
}

}  // namespace

std::string attention_mma_refusal(const OfferContext& at, const AttentionCall& call) {
  const AttentionProblem& problem = call.problem;
  const AttentionOperands& o = call.operands;
  const DType dtype = o.q.ref.dtype();
  if (o.k.ref.dtype() != dtype || o.v.ref.dtype() != dtype)
    return "k or v has another dtype than q";
  if (dtype == DType::f64 || (o.bias && o.bias->ref.dtype() == DType::f64)) return "f64";
  if (problem.kv_tokens == 0) return "there are no keys";
  const int64_t piece = kWidestAccessBytes / element_bytes(dtype);
  const int64_t widest = dtype == DType::f32 ? kWidestF32 : kWidestHalf;
  for (const int64_t dim : {problem.head_dim, problem.v_head_dim}) {
    if (dim % piece != 0 || dim > widest) {
      return "head size " + std::to_string(dim) + " is no multiple of " + std::to_string(piece) +
             " up to " + std::to_string(widest);
    }
  }
  if (const char* name = misaligned_operand(at, o)) {
    return std::string("rows of ") + name + " do not begin at multiples of 16 bytes";
  }
  const int64_t rows = (problem.q_tokens * (problem.heads / problem.kv_heads)).range().most;
  if (problem.heads * 8 > kLargestGrid || problem.batch.range().most > kLargestGrid ||
      rows > 16 * kLargestGrid) {
    return "heads, batch or queries exceed the grid";
  }
  return {};
}

double attention_mma_time(const OfferContext& at, const AttentionCall& call) {
  const std::vector<AttentionProblem> sizes =
      sampled_problems(simplified(call.problem, call.operands));
  const DType dtype = call.operands.q.ref.dtype();
  const AttentionMmaTiling tiling = choose_attention_mma_tiling(sizes, dtype, at.device());
  return attention_mma_microseconds(sizes.front(), dtype, at.device(), tiling);
}

double attention_mma_time_of(const OfferContext& at, const AttentionCall& largest,
                             const AttentionCall& call) {
  const DType dtype = call.operands.q.ref.dtype();
  const AttentionMmaTiling tiling = choose_attention_mma_tiling(
      sampled_problems(simplified(largest.problem, largest.operands)), dtype, at.device());
  const AttentionProblem problem =
      sampled_problems(simplified(call.problem, call.operands)).front();
  return attention_mma_microseconds(problem, dtype, at.device(), tiling);
}

bool emit_attention_mma(LowerContext& ctx, const AttentionCall& call) {
  const AttentionOperands& o = call.operands;
  const AttentionProblem problem = simplified(call.problem, o);
  const DType dtype = o.q.ref.dtype();
  const DeviceModel& device = ctx.target().device;
  std::vector<AttentionProblem> sizes = sampled_problems(problem);
  // Fewer queries have alternates.
  if (problem.q_tokens.is_free()) sizes.resize(1);
  const AttentionMmaTiling tiling =
      take_form(ctx, "attention_mma", attention_mma_candidates(sizes, dtype, device)).tiling;
  const bool cached =
      ctx.segment_of(o.k.ref) != Segment::Arena && ctx.segment_of(o.v.ref) != Segment::Arena;
  const bool early = stands_before_run(ctx, o.kv_len) && stands_before_run(ctx, o.q_start);
  auto dispatch = ctx.dispatch<KernelId::attention_mma>();
  const bool in_pairs = bias_in_pairs(ctx, problem, o.bias);
  define_attention(dispatch, problem, o, in_pairs ? 2 * element_bytes(o.bias->ref.dtype()) : 0);
  if (o.bias) dispatch.define("RLX_BIAS_PAIRS", in_pairs ? 1 : 0);
  dispatch.workgroup({static_cast<uint32_t>(tiling.threads()), 1, 1})
      .define("RLX_X", dtype_text(o.q.ref))
      .define("RLX_MOST_SQ", problem.q_tokens.range().most)
      .define("RLX_TERMS", ctx.products() == ProductPrecision::Tf32 ? 1 : 3)
      .define("RLX_FOLD", tiling.fold)
      .define("RLX_M_TILES", 1)
      .define("RLX_WARPS_Q", tiling.warps_q)
      .define("RLX_WARPS_K", tiling.warps_k)
      .define("RLX_SPLITS", tiling.splits)
      .define("RLX_STEP_KEYS", tiling.step_keys)
      .define("RLX_STAGED", tiling.stages)
      .define("RLX_MIN_GROUPS", tiling.min_groups)
      .define("RLX_PREFETCH", cached ? 1 : 0)
      .define("RLX_EARLY_POSITIONS", early ? 1 : 0)
      .generated("attention_mma.inc",
                 operand_lines(problem, o) +
                     define_line("RLX_TILE_OF(z)", tile_order(problem, tiling, device)) +
                     weight_lines(problem, o))
      .read(&AttentionParams::q, o.q.ref, kWidestAccessBytes)
      .read(&AttentionParams::k, o.k.ref, kWidestAccessBytes)
      .read(&AttentionParams::v, o.v.ref, kWidestAccessBytes)
      .write(&AttentionParams::y, o.y.ref, kWidestAccessBytes)
      .grid(problem.heads / tiling.fold * tiling.splits, problem.batch, tiling.row_tiles(problem))
      .estimate([largest = sizes.front(), dtype, tiling](const DeviceModel& any) {
        return attention_mma_microseconds(largest, dtype, any, tiling);
      })
      .reason("tensor cores; " + tiling.text());
  return true;
}

}  // namespace rlx
