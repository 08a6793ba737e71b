// SPDX-License-Identifier: Apache-2.0
// Lowering of attention to cooperative matrices: one dispatch of attention_coop, and where few
// queries have their keys split over workgroups, one that merges what those found.
#include "compiler/ops/attention/attention_lower.h"
#include "compiler/ops/lowering/rows.h"
#include "schema/kernel_params.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kMatrix = 16;
constexpr int64_t kPiece = 8;       // elements of a head that are loaded at once
constexpr int64_t kWidest = 256;    // elements of a head: its sums stay in registers
constexpr int64_t kWide = 128;      // above, fewer keys go into a tile
constexpr int64_t kFewQueries = 8;  // below, most rows of a matrix would be empty
constexpr int64_t kSubgroup = RLX_MATRIX_SUBGROUP;

int64_t matrices_of(int64_t head_dim) {
  return ceil_div(head_dim, kMatrix);
}
int64_t widest_head(const AttentionProblem& problem) {
  return std::max(problem.head_dim, problem.v_head_dim);
}

// How a group shares the work; the names are those of the kernel's header comment.
struct CoopTiling {
  int64_t warps = 4;
  int64_t subgroup_rows = 16;
  int64_t keys = 32;
  int64_t stages = 1;
  bool operator==(const CoopTiling&) const = default;

  [[nodiscard]] int64_t tile_queries() const { return warps * subgroup_rows; }
  [[nodiscard]] Dim query_tiles(const AttentionProblem& problem) const {
    return ceil_div(problem.q_tokens, tile_queries());
  }
  [[nodiscard]] Dim groups(const AttentionProblem& problem) const {
    return problem.batch * problem.heads * query_tiles(problem);
  }
  // The threads stage a tile of keys or values in whole rounds.
  [[nodiscard]] bool stages_whole(int64_t head_dim) const {
    return keys * (matrices_of(head_dim) * kMatrix / kPiece) % (warps * kSubgroup) == 0;
  }
};

// For problems that fill the device. Measured on an H200 (driver 580), f16, in us; warps x rows x
// keys x stages. 32 heads of 128, 2048 tokens, causal: 8x16x64x1 161, 8x16x32x2 184, 4x16x32x1 194.
// 32 heads of 64, 2048 tokens, causal: 8x16x32x2 86, 4x32x32x2 85, 8x16x64x2 98, 4x16x32x1 99; of
// 1024 tokens, which all run at once, so that the longest counts: 8x16x64x2 30, 8x16x32x2 37. 384
// heads of 64, 128 tokens: 8x16x32x1 16.3, 4x16x32x1 17.3, 4x32x32x1 18.1; of 32: 4x32x32x1 9.8,
// 8x16x64x2 10.5, 4x16x32x1 11.1.
CoopTiling full_tiling(const AttentionProblem& problem, const DeviceModel& device) {
  constexpr int64_t kManyKeys = 512;
  const int64_t widest = widest_head(problem);
  if (widest > 192) return {.warps = 4, .keys = 16};
  if (widest > kWide) return {.warps = 4, .keys = 32};
  if (widest > 64) return {.warps = 8, .keys = 64};
  if (widest <= 32) return {.warps = 4, .subgroup_rows = 32};
  CoopTiling tiling{.warps = 8};
  if (problem.kv_tokens < kManyKeys) return tiling;
  tiling.stages = 2;
  if (tiling.groups(problem) <= int64_t{2} * device.multiprocessors) tiling.keys = 64;
  return tiling;
}

// Too few queries to fill the device: smaller groups, each of which has the next 64 keys under way.
// Six layers in a chain, f16, heads of 64, us of one; with groups made smaller until they were
// enough, of 32 keys, and as here: 12 heads, causal, 256 and 512 tokens 10.2 and 14.5, 8.2 and
// 12.1; 16 heads of 512 15.0, 12.2; 12 heads, 128 tokens, not causal 8.1, 7.0.
constexpr CoopTiling kFewGroups = {.warps = 4, .keys = 64, .stages = 2};

bool has_few_groups(const AttentionProblem& problem, const DeviceModel& device) {
  const int64_t widest = widest_head(problem);
  return widest > 32 && widest <= 64 && !(problem.kv_tokens < kFewGroups.keys) &&
         kFewGroups.groups(problem) < device.multiprocessors &&
         kFewGroups.stages_whole(problem.head_dim) && kFewGroups.stages_whole(problem.v_head_dim);
}

// Where fragments are not known: about what each thread holds at once, as on RDNA 3, whose 32
// threads hold operands of 16 bits twice. Queries and sums along a head, scores and weights of
// keys, and pieces on their way to shared memory with their addresses.
int64_t registers(const CoopTiling& tiling, const AttentionProblem& problem) {
  const int64_t heads = matrices_of(problem.head_dim) + matrices_of(problem.v_head_dim);
  const int64_t rows = tiling.subgroup_rows / kMatrix;
  const int64_t pieces = tiling.keys * heads * (kMatrix / kPiece) / (tiling.warps * kSubgroup);
  return rows * (12 * heads + 16 * (tiling.keys / kMatrix)) + 8 * pieces;
}

// By radv (Mesa 25.0.7) for NAVI31, 256 registers a thread: of tilings with 224 or less none
// spills, with 240 some do, from 272 on most (tests/bench/results/2026-11-26-radv-matrices.md).
constexpr int64_t kMostRegisters = 232;
constexpr int64_t kMostWarps = 8;

// This one, or one with as many keys as fit the registers, and with as few more subgroups.
std::optional<CoopTiling> fitting_tiling(CoopTiling tiling, const AttentionProblem& problem) {
  if (registers(tiling, problem) <= kMostRegisters) return tiling;
  for (int64_t keys = tiling.keys; keys >= kMatrix; keys /= 2) {
    for (int64_t warps = tiling.warps; warps <= kMostWarps; warps *= 2) {
      CoopTiling other = tiling;
      other.keys = keys;
      other.warps = warps;
      if (other.stages_whole(problem.head_dim) && other.stages_whole(problem.v_head_dim) &&
          registers(other, problem) <= kMostRegisters)
        return other;
    }
  }
  return std::nullopt;
}

// Smaller groups where there would be too few.
CoopTiling choose_tiling(const AttentionProblem& problem, const DeviceModel& device) {
  if (has_few_groups(problem, device)) return kFewGroups;
  CoopTiling tiling = full_tiling(problem, device);
  const auto stages_whole = [&] {
    return tiling.stages_whole(problem.head_dim) && tiling.stages_whole(problem.v_head_dim);
  };
  if (!stages_whole() && widest_head(problem) <= kWide) tiling = {.warps = 4, .keys = 64};
  while (tiling.warps > 1 && (tiling.groups(problem) < device.multiprocessors || !stages_whole())) {
    tiling = {.warps = tiling.subgroup_rows > 16 ? tiling.warps : tiling.warps / 2,
              .keys = std::min<int64_t>(tiling.keys, 32)};
  }
  return tiling;
}

// nullopt where no tiling fits the registers.
std::optional<CoopTiling> tiling_on(const Target& target, const AttentionProblem& problem) {
  const CoopTiling tiling = choose_tiling(problem, target.device);
  return target.known_fragments ? tiling : fitting_tiling(tiling, problem);
}

// Of few queries, whose heads alone would leave the device empty: groups that share out the keys,
// and how many there are of each head; one where keys are not split. No other number of queries is
// split: a row of a longer prompt has the same bits, however many run together.
struct CoopSplits {
  CoopTiling tiling{.warps = 4, .keys = 32};
  int64_t splits = 1;
};
CoopSplits splits_on(const Target& target, const AttentionProblem& problem) {
  CoopSplits split;
  const bool is_for_few = !has_free_sizes(problem) && problem.q_tokens <= kFewQueries;
  if (!is_for_few || widest_head(problem) > kWide) return split;
  if (!target.known_fragments) {
    const std::optional<CoopTiling> fitting = fitting_tiling(split.tiling, problem);
    if (!fitting) return split;
    split.tiling = *fitting;
  }
  const CoopTiling& tiling = split.tiling;
  if (!tiling.stages_whole(problem.head_dim) || !tiling.stages_whole(problem.v_head_dim))
    return split;
  const int64_t heads = problem.batch.bound() * problem.heads;
  const int64_t tiles = ceil_div(most_keys(problem).bound(), tiling.keys);
  split.splits = std::clamp<int64_t>(
      std::min<int64_t>(target.device.full.decode_groups / heads, tiles / 2), 1, kMostSplits);
  return split;
}

}  // namespace

std::string attention_coop_refusal(const OfferContext& at, const AttentionCall& call) {
  const AttentionProblem& problem = call.problem;
  const AttentionOperands& o = call.operands;
  const DType dtype = o.q.ref.dtype();
  if (dtype != DType::f16 && dtype != DType::bf16)
    return "q is " + std::string(name_of(dtype)) + ", not f16 or bf16";
  if (o.k.ref.dtype() != dtype || o.v.ref.dtype() != dtype)
    return "k or v has another dtype than q";
  if (o.bias && o.bias->ref.dtype() == DType::f64) return "the bias is f64";
  if (problem.kv_tokens == 0) return "there are no keys";
  if (problem.q_tokens < kFewQueries)
    return to_string(problem.q_tokens) + " queries do not fill matrices";
  for (const int64_t dim : {problem.head_dim, problem.v_head_dim}) {
    if (dim % kPiece != 0 || dim > kWidest) {
      return "head size " + std::to_string(dim) + " is no multiple of " + std::to_string(kPiece) +
             " up to " + std::to_string(kWidest);
    }
  }
  if (const char* name = misaligned_operand(at, o))
    return std::string("rows of ") + name + " do not begin at multiples of 16 bytes";
  if (!tiling_on(at.target(), sampled_problems(problem).front())) {
    return "heads of " + std::to_string(problem.head_dim) + " and " +
           std::to_string(problem.v_head_dim) +
           " do not fit the registers of a device that says nothing of its matrices' fragments";
  }
  return {};
}

double attention_coop_bound(const OfferContext& at, const AttentionCall& call) {
  return bound_microseconds(at.device(), work_of(call), at.device().coop.products);
}

double attention_coop_bound_of(const OfferContext& at, const AttentionCall& largest,
                               const AttentionCall& call) {
  // Of a tiling that would not be chosen: 1.2 and 1.25 times as long where kFewGroups is right.
  constexpr double kOtherTiling = 1.2;
  const double bound = attention_coop_bound(at, call);
  const auto tiling_of = [&at](const AttentionCall& of) {
    return tiling_on(at.target(), sampled_problems(of.problem).front());
  };
  return tiling_of(largest) == tiling_of(call) ? bound : kOtherTiling * bound;
}

bool emit_attention_coop(LowerContext& ctx, const AttentionCall& call) {
  const AttentionProblem& problem = call.problem;
  const AttentionOperands& o = call.operands;
  const AttentionProblem largest = sampled_problems(problem).front();
  const CoopSplits split = splits_on(ctx.target(), problem);
  const bool is_split = split.splits > 1;
  const CoopTiling tiling = is_split ? split.tiling : tiling_on(ctx.target(), largest).value();
  const Dim groups = tiling.groups(problem);
  // Few enough heads that their keys and values stay in the cache from one tile of queries to the
  // next.
  constexpr int64_t kMostHeadsAtOnce = 256;
  const bool longest_first = problem.causal && largest.batch * largest.heads <= kMostHeadsAtOnce;
  std::optional<TensorRef> partial;
  AttentionOperands operands = o;
  if (is_split) {
    partial = attention_partial(ctx, call, split.splits);
    operands.lse.reset();
    operands.sinks.reset();
  }
  {
    auto dispatch = ctx.dispatch<KernelId::attention_coop>();
    define_attention(dispatch, problem, operands);
    dispatch.workgroup({static_cast<uint32_t>(tiling.warps * kSubgroup), 1, 1})
        .define("RLX_Q", dtype_text(o.q.ref))
        .define("RLX_MATRIX", dtype_text(o.q.ref))
        .define("RLX_VALUE_BLOCKS", matrices_of(problem.v_head_dim))
        .define("RLX_WARPS", tiling.warps)
        .define("RLX_SUBGROUP_ROWS", tiling.subgroup_rows)
        .define("RLX_KEYS", tiling.keys)
        .define("RLX_STAGES", tiling.stages)
        .define("RLX_SPLITS", split.splits)
        .define("RLX_KNOWN_FRAGMENTS", ctx.target().known_fragments ? 1 : 0)
        .define("RLX_LONGEST_FIRST", longest_first ? 1 : 0)
        .size("RLX_QUERY_TILES", tiling.query_tiles(problem))
        .define("RLX_GROUPS", integer_text(groups))
        .generated("attention_coop.inc", operand_lines(problem, o) + weight_lines(problem, o))
        .read(&AttentionParams::q, o.q.ref, kWidestAccessBytes)
        .read(&AttentionParams::k, o.k.ref, kWidestAccessBytes)
        .read(&AttentionParams::v, o.v.ref, kWidestAccessBytes)
        .write(&AttentionParams::y, partial ? *partial : o.y.ref, kWidestAccessBytes)
        .grid(split_grid(groups * split.splits))
        .reason("cooperative matrices; tiles of " + std::to_string(tiling.tile_queries()) +
                " queries and " + std::to_string(tiling.keys) + " keys, " + to_string(groups) +
                " workgroups" +
                (partial ? ", keys of each split over " + std::to_string(split.splits) : ""));
  }
  if (partial) emit_attention_merge(ctx, call, split.splits, *partial);
  return true;
}

}  // namespace rlx
