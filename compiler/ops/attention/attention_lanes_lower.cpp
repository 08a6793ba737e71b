// SPDX-License-Identifier: Apache-2.0
// Lowering of attention on devices that are CPUs: one dispatch of attention_lanes.
#include <algorithm>
#include <cmath>

#include "compiler/ops/attention/attention_lower.h"
#include "compiler/ops/lowering/rows.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// Elements of a head, each of which the kernel's text has by itself, of each row of a thread: LLVM
// takes 0.5 s for 64 by four rows, 1.7 for 128, 6 for 256; so wider heads have two rows.
constexpr int64_t kWidestByLanes = 256;
constexpr int64_t kWidestOfFourRows = 128;

int64_t widest_of(const AttentionProblem& problem) {
  return std::max(problem.head_dim, problem.v_head_dim);
}

// How a group shares the work; the names are those of the kernel's header comment.
struct LanesTiling {
  int64_t rows = 4;  // of a thread
  static constexpr uint32_t kLanes = 8;
  static constexpr int64_t kTileKeys = 128;  // 16 KiB of scores

  [[nodiscard]] int64_t tile_rows() const { return rows * kLanes; }
  [[nodiscard]] Dim tiles(const AttentionProblem& problem) const {
    return ceil_div(problem.heads / problem.kv_heads * problem.q_tokens, tile_rows());
  }
  [[nodiscard]] Dim groups(const AttentionProblem& problem) const {
    return problem.batch * problem.kv_heads * tiles(problem);
  }
};

// To load a key and its value takes as long as three rows of a thread, and products are 1.9 times
// as fast as those of matmul_lanes, whose sums do not stay in registers: heads of 64, tiles of 16
// and 32 rows, 0.20 and 0.25 CPU us a key where that makes 15,500 products a us.
double tiling_microseconds(const AttentionProblem& problem, const LanesTiling& tiling,
                           const DeviceModel& device) {
  constexpr double kLoads = 3;
  constexpr double kRate = 1.9;
  const double rounds =
      std::ceil(static_cast<double>(tiling.groups(problem).bound()) / device.multiprocessors);
  const double products = (static_cast<double>(tiling.rows) + kLoads) * LanesTiling::kLanes *
                          static_cast<double>(problem.head_dim + problem.v_head_dim) *
                          static_cast<double>(most_keys(problem).bound());
  return device.step_microseconds + rounds * products / (kRate * device.lane_tiles.products);
}

struct LanesChoice {
  LanesTiling tiling;
  double microseconds = 0;
};

LanesChoice choose_lanes_tiling(const AttentionProblem& problem, const DeviceModel& device) {
  constexpr LanesTiling kTall = {.rows = 4};
  constexpr LanesTiling kFlat = {.rows = 2};
  const double tall = tiling_microseconds(problem, kTall, device);
  const double flat = tiling_microseconds(problem, kFlat, device);
  return flat < tall || widest_of(problem) > kWidestOfFourRows ? LanesChoice{kFlat, flat}
                                                               : LanesChoice{kTall, tall};
}

bool is_selective(const AttentionProblem& problem, const AttentionOperands& o) {
  return problem.causal || problem.window_left >= 0 || problem.window_right >= 0 || o.mask ||
         o.bias;
}

bool in_pairs(const LowerContext& ctx, const Heads& heads) {
  return in_fours(ctx, heads, DType::f32) && element_bytes(heads.ref.dtype()) > 1;
}

}  // namespace

bool emit_attention_lanes(LowerContext& ctx, const AttentionCall& call) {
  const AttentionProblem& problem = call.problem;
  const AttentionOperands& o = call.operands;
  const LanesTiling tiling = choose_lanes_tiling(problem, ctx.device()).tiling;
  const Dim groups = tiling.groups(problem);
  auto dispatch = ctx.dispatch<KernelId::attention_lanes>();
  define_attention(dispatch, problem, o);
  define_vector_attention(dispatch, ctx, problem, o);
  dispatch.workgroup({LanesTiling::kLanes, 1, 1})
      .define("RLX_R", tiling.rows)
      .define("RLX_TILE_KEYS", LanesTiling::kTileKeys)
      .define("RLX_KV_HEADS", problem.kv_heads)
      .define("RLX_SELECTIVE", is_selective(problem, o) ? 1 : 0)
      .define("RLX_K_PAIRS", in_pairs(ctx, o.k) ? 1 : 0)
      .define("RLX_V_PAIRS", in_pairs(ctx, o.v) ? 1 : 0)
      .size("RLX_ROW_TILES", tiling.tiles(problem))
      .define("RLX_GROUPS", integer_text(groups))
      .grid(split_grid(groups))
      .write(&AttentionParams::y, o.y.ref, access_alignment(ctx, o.y, DType::f32))
      .estimate([problem, tiling](const DeviceModel& device) {
        return tiling_microseconds(problem, tiling, device);
      })
      .reason("eight lanes: tiles of " + std::to_string(tiling.tile_rows()) + " rows, " +
              to_string(groups) + " workgroups");
  return true;
}

std::string attention_lanes_refusal(const OfferContext&, const AttentionCall& call) {
  if (attention_arithmetic(call.operands) == DType::f64) return "sums of f64";
  if (widest_of(call.problem) > kWidestByLanes)
    return "heads of more than " + std::to_string(kWidestByLanes) + " elements";
  return "";
}

double attention_lanes_time(const OfferContext& at, const AttentionCall& call) {
  return choose_lanes_tiling(call.problem, at.device()).microseconds;
}

}  // namespace rlx
