// SPDX-License-Identifier: Apache-2.0
// The model that chooses attention_mma's tiling.
#include "compiler/ops/attention/attention_mma_tiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/support/check.h"
#include "compiler/support/sampled_sizes.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// Largest count of heads that shares a tile of so many rows.
int64_t fold_for(const AttentionProblem& problem, int64_t tile_rows) {
  const int64_t shared = problem.heads / problem.kv_heads;
  int64_t fold = 1;
  for (int64_t heads = 2; heads <= shared; ++heads) {
    if (shared % heads == 0 && heads * problem.q_tokens <= tile_rows) fold = heads;
  }
  return fold;
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
  const double join = device.attention.join * static_cast<double>(tiling.warps_k) *
                      static_cast<double>(rows) / 16 * static_cast<double>(problem.v_head_dim) / 64;
  const auto groups = static_cast<double>(tiling.groups(problem) * tiling.splits);
  const double resident = std::max(1.0, std::floor(512.0 / static_cast<double>(tiling.threads())));
  const double waves = std::ceil(groups / (resident * device.multiprocessors));
  const double latency =
      static_cast<double>(steps) * (device.attention.load * step_kib + device.attention.step) +
      join;
  const double traffic = static_cast<double>(tiling.groups(problem)) *
                         static_cast<double>(sizes.keys) * key_bytes / device.attention.cache_rate;
  return device.attention.start + std::max(waves * latency, traffic);
}

double staged_microseconds(const AttentionProblem& problem, const Sizes& sizes,
                           const DeviceModel& device, const AttentionMmaTiling& tiling) {
  const double width = static_cast<double>(sizes.columns) / 64 *
                       (sizes.bytes == 4 ? device.attention.f32_slowdown : 1);
  const auto steps = static_cast<double>(
      std::max<int64_t>(1, ceil_div(sizes.keys, tiling.step_keys * tiling.splits)));
  const double step_tiles = static_cast<double>(tiling.step_keys) / 64 * width;
  const auto groups = static_cast<double>(tiling.groups(problem));
  // Of the keys, on average; workgroups of unequal length share multiprocessors badly.
  const double share = problem.causal
                           ? std::min(1.0, 0.5 + 2 * static_cast<double>(tiling.tile_rows()) /
                                                     static_cast<double>(problem.kv_tokens))
                           : 1;
  const double tiles = groups * static_cast<double>(tiling.warps_q) / 4 * steps *
                       static_cast<double>(tiling.splits) * step_tiles * share;
  const double throughput =
      std::ceil(groups * static_cast<double>(tiling.splits) / device.multiprocessors) *
      device.multiprocessors / (groups * static_cast<double>(tiling.splits)) * tiles *
      device.attention.staged_tile / device.multiprocessors;
  const double chain = steps * device.attention.staged_step * std::max(0.5, step_tiles);
  const double traffic =
      groups * static_cast<double>(sizes.keys) * share *
      static_cast<double>((problem.head_dim + problem.v_head_dim) * sizes.bytes) /
      device.attention.cache_rate;
  return device.attention.staged_start + std::max({throughput, chain, traffic});
}

// What fits into registers without spilling, on every architecture, by the largest head size.
struct Limits {
  int64_t columns;
  int64_t straight_warps;  // along the keys; 0: keys and values only through shared memory
  int64_t straight_keys;   // of a step
  int64_t staged_keys;     // of a step through shared memory; 0: not that way
};
constexpr std::array<Limits, 4> kHalfLimits = {{
    {.columns = 64, .straight_warps = 16, .straight_keys = 32, .staged_keys = 128},
    {.columns = 128, .straight_warps = 8, .straight_keys = 16, .staged_keys = 64},
    {.columns = 192, .straight_warps = 8, .straight_keys = 16, .staged_keys = 32},
    {.columns = 256, .straight_warps = 0, .straight_keys = 0, .staged_keys = 32},
}};
constexpr std::array<Limits, 4> kF32Limits = {{
    {.columns = 32, .straight_warps = 16, .straight_keys = 16, .staged_keys = 32},
    {.columns = 64, .straight_warps = 8, .straight_keys = 16, .staged_keys = 16},
    {.columns = 96, .straight_warps = 8, .straight_keys = 8, .staged_keys = 16},
    {.columns = 128, .straight_warps = 8, .straight_keys = 8, .staged_keys = 0},
}};

void add_straight(std::vector<AttentionMmaTiling>& candidates, const AttentionProblem& problem,
                  const Limits& limits, int64_t splits, bool is_f32) {
  const int64_t depth = is_f32 ? 8 : 16;  // keys of one product with v
  for (int64_t keys = depth; keys <= limits.straight_keys; keys *= 2) {
    const int64_t wanted = ceil_div(std::max<int64_t>(most_keys(problem), 1), keys * splits);
    for (const int64_t warps :
         {int64_t{1}, int64_t{2}, int64_t{4}, int64_t{8}, int64_t{16}, wanted}) {
      if (warps > limits.straight_warps || warps > wanted) continue;
      candidates.push_back(
          {.fold = fold_for(problem, 16), .warps_k = warps, .splits = splits, .step_keys = keys});
    }
  }
}

void add_staged(std::vector<AttentionMmaTiling>& candidates, const AttentionProblem& problem,
                const Limits& limits, int64_t splits, bool is_f32) {
  constexpr int64_t kWarps = 4;  // a warpgroup
  const bool narrow = !is_f32 && std::max(problem.head_dim, problem.v_head_dim) <= 64;
  const int64_t least = std::min<int64_t>(limits.staged_keys, is_f32 ? 16 : 64);
  for (int64_t keys = least; keys <= limits.staged_keys; keys *= 2) {
    if (ceil_div(most_keys(problem), keys) < splits) continue;
    candidates.push_back({.fold = fold_for(problem, 16 * kWarps),
                          .warps_q = kWarps,
                          .splits = splits,
                          .step_keys = keys,
                          .stages = 2,
                          .min_groups = narrow ? 3 : 1});
  }
}

std::vector<AttentionMmaTiling> candidates_of(const AttentionProblem& problem, DType dtype) {
  const bool is_f32 = dtype == DType::f32;
  const int64_t columns = std::max(problem.head_dim, problem.v_head_dim);
  std::vector<AttentionMmaTiling> candidates;
  for (const Limits& limits : is_f32 ? kF32Limits : kHalfLimits) {
    if (columns > limits.columns) continue;
    for (const int64_t splits : {1, 2, 4, 8}) {
      add_straight(candidates, problem, limits, splits, is_f32);
      if (limits.staged_keys > 0) add_staged(candidates, problem, limits, splits, is_f32);
    }
    break;
  }
  return candidates;
}

int64_t panels(int64_t row_bytes) {
  return ceil_div(row_bytes, 128);
}

}  // namespace

AttentionMmaShared attention_mma_shared(const AttentionProblem& problem, DType dtype,
                                        const AttentionMmaTiling& tiling) {
  const int64_t bytes = element_bytes(dtype);
  const int64_t columns = round_up(problem.v_head_dim, 16);
  const int64_t rows = min(problem.q_tokens * tiling.fold, tiling.tile_rows());
  const int64_t stage = tiling.step_keys * tiling.warps_k * 128 *
                        (panels(problem.head_dim * bytes) + panels(columns * bytes));
  const int64_t joined = tiling.warps_k * rows * (problem.v_head_dim + 10) * 4;
  const int64_t pieces = round_up(rows * problem.v_head_dim / 4, tiling.splits);
  const int64_t alone =
      std::max(tiling.stages * stage, joined) + 16 + (tiling.stages > 0 ? 1024 : 0);
  return {.alone_bytes = alone, .cluster_bytes = alone + (tiling.splits > 1 ? pieces * 24 : 0)};
}

Dim AttentionMmaTiling::row_tiles(const AttentionProblem& problem) const {
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
  const Sizes sizes{.keys = most_keys(problem),
                    .bytes = element_bytes(dtype),
                    .columns = std::max(problem.head_dim, problem.v_head_dim)};
  const double alone = tiling.stages > 0 ? staged_microseconds(problem, sizes, device, tiling)
                                         : straight_microseconds(problem, sizes, device, tiling);
  if (tiling.splits == 1) return alone;
  const bool is_crowded = tiling.groups(problem) * tiling.splits > device.multiprocessors;
  return alone + (is_crowded ? device.attention.crowded_cluster : device.attention.cluster);
}

namespace {

// Devices with clusters have so much; where one has less, the first workgroup takes all keys.
constexpr int64_t kMostClusterBytes = 227 * 1024;

// Clusters lie within groups of some 16 multiprocessors and leave the rest of them empty: of 132 on
// an H200, clusters of 8 that a second wave followed took twice their time from 128 on, clusters of
// 4 with three workgroups each from 384 on.
double cluster_room(const AttentionMmaTiling& tiling) {
  return tiling.splits <= 2 ? 1.0 : tiling.splits <= 4 ? 0.9 : 0.75;
}

// The tiling at every size; nullopt where it does not fit one.
std::optional<std::vector<TimedAttentionTiling>> timed(std::span<const AttentionProblem> sizes,
                                                       DType dtype, const DeviceModel& device,
                                                       const AttentionMmaTiling& tiling) {
  std::vector<TimedAttentionTiling> times;
  for (const AttentionProblem& size : sizes) {
    const bool fills_device =
        static_cast<double>(tiling.groups(size) * tiling.splits) >
        static_cast<double>(device.multiprocessors * tiling.min_groups) * cluster_room(tiling);
    if (tiling.splits > 1 && fills_device) return std::nullopt;
    const AttentionMmaShared shared = attention_mma_shared(size, dtype, tiling);
    if (shared.alone_bytes > static_cast<int64_t>(device.shared_bytes) ||
        shared.cluster_bytes > kMostClusterBytes)
      return std::nullopt;
    times.push_back({tiling, attention_mma_microseconds(size, dtype, device, tiling)});
  }
  return times;
}

}  // namespace

std::vector<std::vector<TimedAttentionTiling>> attention_mma_candidates(
    std::span<const AttentionProblem> sizes, DType dtype, const DeviceModel& device) {
  std::vector<std::vector<TimedAttentionTiling>> candidates;
  for (const AttentionProblem& size : sizes) {
    for (const AttentionMmaTiling& tiling : candidates_of(size, dtype)) {
      if (auto times = timed(sizes, dtype, device, tiling)) candidates.push_back(std::move(*times));
    }
  }
  RLX_CHECK(!candidates.empty(), "no tiling of attention_mma fits");
  return candidates;
}

AttentionMmaTiling choose_attention_mma_tiling(std::span<const AttentionProblem> sizes, DType dtype,
                                               const DeviceModel& device) {
  const auto candidates = attention_mma_candidates(sizes, dtype, device);
  return least_excess(candidates,
                      [](const TimedAttentionTiling& timed) { return timed.microseconds; })
      .tiling;
}

}  // namespace rlx
