// SPDX-License-Identifier: Apache-2.0
// Lowering of attention with few queries: attention_decode, its keys split over workgroups where
// heads alone would leave the device empty, and what the splits found merged by a second dispatch.
#include <algorithm>
#include <bit>

#include "compiler/ops/attention/attention_lower.h"
#include "compiler/ops/lowering/rows.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kDecodeQueries = 4;
constexpr int64_t kDecodeThreads = 256;
constexpr int64_t kNarrowestTeam = 4;
constexpr int64_t kWidestTeam = 32;

int64_t power_of_two_up(int64_t x) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(x)));
}

// The names are those of the kernel's header comment.
struct DecodeTiling {
  int64_t lanes = 1;
  int64_t key_pieces = 1;  // of a thread
  int64_t value_pieces = 1;
  int64_t head_rows = 1;
  int64_t rows = 1;
  int64_t row_tiles = 1;
  int64_t keys = 1;  // of a team at a time
  int64_t meeting = 1;
  int64_t splits = 1;

  [[nodiscard]] int64_t teams() const { return kDecodeThreads / lanes; }
};

DecodeTiling choose_decode_tiling(const AttentionProblem& problem, DType real,
                                  const FullDevice& full) {
  // In registers: pieces of queries and results; pieces of keys and values on their way.
  const int64_t most_pieces = real == DType::f64 ? 4 : 8;
  const int64_t keys_at_once = real == DType::f64 ? 2 : 4;
  const int64_t d4 = ceil_div(problem.head_dim, 4);
  const int64_t dv4 = ceil_div(problem.v_head_dim, 4);
  DecodeTiling tiling;
  tiling.lanes = std::clamp(power_of_two_up(std::max(d4, dv4)), kNarrowestTeam, kWidestTeam);
  tiling.key_pieces = ceil_div(d4, tiling.lanes);
  tiling.value_pieces = ceil_div(dv4, tiling.lanes);
  const int64_t pieces = tiling.key_pieces + tiling.value_pieces;
  tiling.head_rows = problem.heads / problem.kv_heads * problem.q_tokens;
  tiling.rows = std::min(power_of_two_up(tiling.head_rows),
                         static_cast<int64_t>(std::bit_floor(
                             static_cast<uint64_t>(std::max<int64_t>(1, most_pieces / pieces)))));
  tiling.row_tiles = ceil_div(tiling.head_rows, tiling.rows);
  tiling.keys = std::max<int64_t>(1, keys_at_once * 2 / pieces);
  // 16 KiB of shared memory.
  tiling.meeting = std::min<int64_t>(tiling.rows * tiling.value_pieces, real == DType::f64 ? 2 : 4);
  const int64_t groups = problem.batch * problem.kv_heads * tiling.row_tiles;
  const int64_t rounds = ceil_div(most_keys(problem), tiling.teams() * tiling.keys);
  tiling.splits =
      std::clamp<int64_t>(std::min(full.decode_groups / groups, rounds), 1, kMostSplits);
  return tiling;
}

using DecodeDispatch = DispatchBuilder<AttentionDecodeParams>;

void define_tiling(DecodeDispatch& dispatch, const AttentionProblem& problem,
                   const DecodeTiling& tiling) {
  dispatch.workgroup({static_cast<uint32_t>(kDecodeThreads), 1, 1})
      .define("RLX_LANES", tiling.lanes)
      .define("RLX_ROWS", tiling.teams())
      .define("RLX_BY_COLUMN", 0)
      .define("RLX_KV_HEADS", problem.kv_heads)
      .define("RLX_R", tiling.rows)
      .define("RLX_ROW_TILES", tiling.row_tiles)
      .define("RLX_D4", ceil_div(problem.head_dim, 4))
      .define("RLX_DV4", ceil_div(problem.v_head_dim, 4))
      .define("RLX_KP", tiling.key_pieces)
      .define("RLX_VP", tiling.value_pieces)
      .define("RLX_KU", tiling.keys)
      .define("RLX_MEETING", tiling.meeting)
      .define("RLX_SPLITS", tiling.splits);
}

void count_groups(DecodeDispatch& dispatch, int64_t items, int64_t groups) {
  const Grid grid = split_grid(static_cast<uint64_t>(groups));
  dispatch.define("RLX_GROUPS", integer_text(items)).grid(grid.x, grid.y, grid.z);
}

}  // namespace

TensorRef attention_partial(LowerContext& ctx, const AttentionCall& call, int64_t splits) {
  const AttentionProblem& problem = call.problem;
  const int64_t piece_count = ceil_div(problem.v_head_dim, 4) + 1;
  return ctx.scratch(
      {.dtype = attention_arithmetic(call.operands),
       .shape = {problem.batch, problem.kv_heads,
                 problem.heads / problem.kv_heads * problem.q_tokens, splits, 4 * piece_count}},
      "partial");
}

void emit_attention_merge(LowerContext& ctx, const AttentionCall& call, int64_t splits,
                          const TensorRef& partial) {
  const AttentionProblem& problem = call.problem;
  const AttentionOperands& o = call.operands;
  const DType real = attention_arithmetic(o);
  DecodeTiling tiling = choose_decode_tiling(problem, real, ctx.target().device.full);
  tiling.splits = splits;
  const int64_t rows = problem.batch * problem.heads * problem.q_tokens;
  auto dispatch = ctx.dispatch<KernelId::attention_decode>();
  // y, lse and sinks alone, of all operands.
  AttentionOperands results = o;
  results.mask.reset();
  results.bias.reset();
  results.kv_len.reset();
  results.q_start.reset();
  define_attention(dispatch, problem, results);
  dispatch.define("RLX_MERGE", 1)
      .define("RLX_DOUBLE", real == DType::f64 ? 1 : 0)
      .define("RLX_Q", dtype_text(o.q.ref))
      .define("RLX_K", dtype_text(o.q.ref))
      .define("RLX_V", dtype_text(o.q.ref))
      .define("RLX_Q_WIDE", 0)
      .define("RLX_K_WIDE", 0)
      .define("RLX_V_WIDE", 0)
      .define("RLX_Y_WIDE", in_fours(ctx, o.y, real) ? 1 : 0)
      .generated("attention.inc", attention_text(problem, results))
      .write(&AttentionDecodeParams::y, o.y.ref, access_alignment(ctx, o.y, real))
      .read(&AttentionDecodeParams::partial, partial, 4 * element_bytes(real))
      .work(byte_size(partial.type) + byte_size(o.y.ref.type), 0)
      .reason("merges the splits of " + std::to_string(rows) + " rows");
  define_tiling(dispatch, problem, tiling);
  count_groups(dispatch, rows, rows);
}

std::string attention_decode_refusal(const OfferContext&, const AttentionCall& call) {
  if (call.problem.q_tokens > kDecodeQueries)
    return "more than " + std::to_string(kDecodeQueries) + " queries";
  return call.problem.kv_tokens == 0 ? "there are no keys" : "";
}

bool emit_attention_decode(LowerContext& ctx, const AttentionCall& call) {
  const AttentionProblem& problem = call.problem;
  const AttentionOperands& o = call.operands;
  const DType real = attention_arithmetic(o);
  const DecodeTiling tiling = choose_decode_tiling(problem, real, ctx.target().device.full);
  std::optional<TensorRef> partial;
  if (tiling.splits > 1) partial = attention_partial(ctx, call, tiling.splits);
  {
    auto dispatch = ctx.dispatch<KernelId::attention_decode>();
    AttentionOperands operands = o;
    if (partial) {
      operands.lse.reset();
      operands.sinks.reset();
    }
    define_attention(dispatch, problem, operands);
    define_vector_attention(dispatch, ctx, problem, operands);
    dispatch.define("RLX_MERGE", 0)
        .reason("few queries: " + std::to_string(tiling.rows) +
                " rows read a key, keys split over " + std::to_string(tiling.splits) +
                " workgroups of " + std::to_string(tiling.teams()) + " teams");
    if (partial) {
      dispatch.write(&AttentionDecodeParams::partial, *partial, 4 * element_bytes(real));
    } else {
      dispatch.write(&AttentionDecodeParams::y, o.y.ref, access_alignment(ctx, o.y, real));
    }
    define_tiling(dispatch, problem, tiling);
    const int64_t groups = problem.batch * problem.kv_heads * tiling.row_tiles * tiling.splits;
    count_groups(dispatch, groups, groups);
  }
  if (partial) emit_attention_merge(ctx, call, tiling.splits, *partial);
  return true;
}

}  // namespace rlx
