// SPDX-License-Identifier: Apache-2.0
// The model that chooses attention_mma's tiling.
#include "compiler/ops/attention_mma_tiles.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "compiler/support/check.h"

namespace rlx {
namespace {

// Fitted to an H200 (driver 580) in chains of equal steps: 12 heads of 32 and 64, 128 tokens, batch
// 1 and 32, f16 and f32; prefill of 1024 tokens and decode over 1025 keys of 32 heads, 8 kv heads,
// bf16.
constexpr double kStartMicroseconds = 1.2;
constexpr double kStepMicroseconds = 0.3;     // from one step of a warp to the next
constexpr double kLoadMicroseconds = 0.14;    // per KiB that a warp loads at a step, straight
constexpr double kJoinMicroseconds = 0.17;    // per warp whose 16 rows of 64 columns are joined
constexpr double kClusterMicroseconds = 1.0;  // to send results through a cluster
constexpr double kStagedStartMicroseconds = 1.8;
constexpr double kStagedStepMicroseconds = 0.8;   // of 64 keys by 64 columns, latency of one warp
constexpr double kStagedTileMicroseconds = 0.39;  // 64 rows by 64 keys by 64 columns, 16-bit
constexpr double kF32Slowdown = 5;                // of the same, 3xTF32
constexpr double kCacheBytesPerMicrosecond = 4.5e6;
constexpr int64_t kMostWarps = 16;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Largest count of heads that shares a tile of so many rows.
int64_t fold_for(const AttentionProblem& problem, int64_t tile_rows) {
  const int64_t shared = problem.heads / problem.kv_heads;
  int64_t fold = 1;
  for (int64_t heads = 2; heads <= shared; ++heads) {
    if (shared % heads == 0 && heads * problem.q_tokens <= tile_rows) fold = heads;
  }
  return fold;
}

// Keys that the longest tile of rows attends to.
int64_t keys_of(const AttentionProblem& problem) {
  if (problem.window_left < 0 || (!problem.causal && problem.window_right < 0)) {
    return problem.kv_tokens;
  }
  const int64_t right = problem.causal ? 0 : problem.window_right;
  return std::min(problem.kv_tokens, problem.window_left + right + problem.q_tokens);
}

struct Sizes {
  int64_t keys;
  int64_t bytes;    // of an element
  int64_t columns;  // the larger head size
};

double straight_microseconds(const AttentionProblem& problem, const Sizes& sizes,
                             const DeviceModel& device, const AttentionMmaTiling& tiling) {
  const double key_bytes =
      static_cast<double>((problem.head_dim + problem.v_head_dim) * sizes.bytes);
  const int64_t steps =
      std::max<int64_t>(1, ceil_div(sizes.keys, tiling.step_keys * tiling.warps_k * tiling.splits));
  const double step_kib = static_cast<double>(tiling.step_keys) * key_bytes / 1024;
  const int64_t rows = std::min<int64_t>(problem.q_tokens * tiling.fold, tiling.tile_rows());
  const double join = kJoinMicroseconds * static_cast<double>(tiling.warps_k) *
                      static_cast<double>(rows) / 16 * static_cast<double>(problem.v_head_dim) / 64;
  const auto groups = static_cast<double>(tiling.groups(problem) * tiling.splits);
  const double resident = std::max(1.0, std::floor(512.0 / static_cast<double>(tiling.threads())));
  const double waves = std::ceil(groups / (resident * device.multiprocessors));
  const double latency =
      static_cast<double>(steps) * (kLoadMicroseconds * step_kib + kStepMicroseconds) + join;
  const double traffic = static_cast<double>(tiling.groups(problem)) *
                         static_cast<double>(sizes.keys) * key_bytes / kCacheBytesPerMicrosecond;
  return kStartMicroseconds + std::max(waves * latency, traffic);
}

double staged_microseconds(const AttentionProblem& problem, const Sizes& sizes,
                           const DeviceModel& device, const AttentionMmaTiling& tiling) {
  const double width =
      static_cast<double>(sizes.columns) / 64 * (sizes.bytes == 4 ? kF32Slowdown : 1);
  const auto steps = static_cast<double>(
      std::max<int64_t>(1, ceil_div(sizes.keys, tiling.step_keys * tiling.splits)));
  const double step_tiles = static_cast<double>(tiling.step_keys) / 64 * width;
  const auto groups = static_cast<double>(tiling.groups(problem));
  const double share = problem.causal && problem.q_tokens > 1 ? 0.6 : 1;  // of the keys, on average
  const double tiles = groups * static_cast<double>(tiling.warps_q) / 4 * steps *
                       static_cast<double>(tiling.splits) * step_tiles * share;
  const double throughput =
      std::ceil(groups * static_cast<double>(tiling.splits) / device.multiprocessors) *
      device.multiprocessors / (groups * static_cast<double>(tiling.splits)) * tiles *
      kStagedTileMicroseconds / device.multiprocessors;
  const double chain = steps * kStagedStepMicroseconds * std::max(0.5, step_tiles);
  const double traffic =
      groups * static_cast<double>(sizes.keys) * share *
      static_cast<double>((problem.head_dim + problem.v_head_dim) * sizes.bytes) /
      kCacheBytesPerMicrosecond;
  return kStagedStartMicroseconds + std::max({throughput, chain, traffic});
}

std::vector<AttentionMmaTiling> candidates_of(const AttentionProblem& problem, DType dtype) {
  const bool is_f32 = dtype == DType::f32;
  const int64_t columns = std::max(problem.head_dim, problem.v_head_dim);
  std::vector<AttentionMmaTiling> candidates;
  for (const int64_t splits : {1, 2, 4, 8}) {
    // Registers: a step's keys and values, beside the result and the queries.
    std::vector<int64_t> step_keys = is_f32 ? std::vector<int64_t>{8} : std::vector<int64_t>{16};
    if (columns <= 64) step_keys.push_back(2 * step_keys[0]);
    for (const int64_t keys : step_keys) {
      const int64_t wanted = ceil_div(std::max<int64_t>(keys_of(problem), 1), keys * splits);
      const int64_t most = columns <= 64 ? kMostWarps : 8;
      for (const int64_t warps :
           {int64_t{1}, int64_t{2}, int64_t{4}, int64_t{8}, int64_t{16}, wanted}) {
        if (warps > most || warps > wanted) continue;
        candidates.push_back({.fold = fold_for(problem, 16),
                              .warps_q = 1,
                              .warps_k = warps,
                              .splits = splits,
                              .step_keys = keys,
                              .stages = 0});
      }
    }
    for (const int64_t warps_q : {4, 8}) {
      if (warps_q == 8 && is_f32) continue;
      const int64_t keys = is_f32 ? (columns <= 64 ? 32 : 16) : columns <= 128 ? 64 : 32;
      if (splits > 1 && ceil_div(keys_of(problem), keys) < splits) continue;
      const int64_t registers = columns <= 64 ? 3 : columns <= 128 ? 2 : 1;
      candidates.push_back(
          {.fold = fold_for(problem, 16 * warps_q),
           .warps_q = warps_q,
           .warps_k = 1,
           .splits = splits,
           .step_keys = keys,
           .stages = 2,
           .min_groups = is_f32 ? 1 : std::max<int64_t>(1, registers * 4 / warps_q)});
    }
  }
  return candidates;
}

}  // namespace

int64_t AttentionMmaTiling::row_tiles(const AttentionProblem& problem) const {
  return ceil_div(problem.q_tokens * fold, tile_rows());
}

int64_t AttentionMmaTiling::groups(const AttentionProblem& problem) const {
  return problem.batch * (problem.heads / fold) * row_tiles(problem);
}

std::string AttentionMmaTiling::text() const {
  std::string result = "tiles of " + std::to_string(tile_rows()) + " rows";
  if (fold > 1) result += " of " + std::to_string(fold) + " heads";
  result += ", " + std::to_string(step_keys) + " keys a step";
  if (stages > 0) result += " through " + std::to_string(stages) + " stages";
  if (warps_k > 1) result += ", keys over " + std::to_string(warps_k) + " warps";
  if (splits > 1) result += " and " + std::to_string(splits) + " workgroups";
  return result;
}

double attention_mma_microseconds(const AttentionProblem& problem, DType dtype,
                                  const DeviceModel& device, const AttentionMmaTiling& tiling) {
  const Sizes sizes{.keys = keys_of(problem),
                    .bytes = element_bytes(dtype),
                    .columns = std::max(problem.head_dim, problem.v_head_dim)};
  const double alone = tiling.stages > 0 ? staged_microseconds(problem, sizes, device, tiling)
                                         : straight_microseconds(problem, sizes, device, tiling);
  return alone + (tiling.splits > 1 ? kClusterMicroseconds : 0);
}

AttentionMmaTiling choose_attention_mma_tiling(const AttentionProblem& problem, DType dtype,
                                               const DeviceModel& device) {
  std::optional<AttentionMmaTiling> best;
  double best_time = 0;
  for (const AttentionMmaTiling& tiling : candidates_of(problem, dtype)) {
    const double time = attention_mma_microseconds(problem, dtype, device, tiling);
    if (best && time >= best_time) continue;
    best = tiling;
    best_time = time;
  }
  RLX_CHECK(best.has_value(), "no tiling of attention_mma fits");
  return *best;
}

}  // namespace rlx
