// SPDX-License-Identifier: Apache-2.0
// The tile table and the model that chooses from it.
#include "compiler/ops/product/matmul_tiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// Shared memory stays within the 32 KiB that every Vulkan 1.3 desktop device has.
constexpr uint64_t kSharedBytes = 32768;
constexpr uint32_t kDeep = 16;  // depths of a panel that is no shallow one
// Sums of a thread that leave registers for the operands.
constexpr uint64_t kSumBytes = 64 * sizeof(float);

// One row a tile.
// clang-format off
constexpr std::array<TileShape, 10> kScalarTiles = {{
    {.m = 128, .n = 128, .k = 8, .thread_m = 8, .thread_n = 8, .depth_groups = 1,
     .stages = 2, .efficiency = 0.7},
    {.m = 128, .n = 128, .k = 16, .thread_m = 8, .thread_n = 8, .depth_groups = 1,
     .stages = 2, .efficiency = 0.65},
    {.m = 64, .n = 128, .k = 16, .thread_m = 8, .thread_n = 4, .depth_groups = 1,
     .stages = 2, .efficiency = 0.55},
    {.m = 64, .n = 64, .k = 16, .thread_m = 8, .thread_n = 4, .depth_groups = 1,
     .stages = 2, .efficiency = 0.5},
    {.m = 32, .n = 64, .k = 16, .thread_m = 4, .thread_n = 4, .depth_groups = 1,
     .stages = 2, .efficiency = 0.4},
    {.m = 16, .n = 128, .k = 16, .thread_m = 4, .thread_n = 4, .depth_groups = 1,
     .stages = 2, .efficiency = 0.35},
    {.m = 32, .n = 32, .k = 32, .thread_m = 4, .thread_n = 4, .depth_groups = 4,
     .stages = 2, .efficiency = 0.35},
    {.m = 16, .n = 64, .k = 32, .thread_m = 4, .thread_n = 4, .depth_groups = 4,
     .stages = 2, .efficiency = 0.3},
    {.m = 64, .n = 16, .k = 32, .thread_m = 4, .thread_n = 4, .depth_groups = 4,
     .stages = 2, .efficiency = 0.3},
    {.m = 16, .n = 32, .k = 128, .thread_m = 4, .thread_n = 4, .depth_groups = 8,
     .stages = 1, .efficiency = 0.25},
}};
// clang-format on

constexpr std::array<int64_t, 6> kScalarSplits = {1, 2, 3, 4, 6, 8};

uint64_t shared_bytes(const TileShape& tile, uint32_t acc_bytes) {
  const uint64_t staged = uint64_t{tile.stages} * tile.k * (tile.m + tile.n);
  const uint64_t joined = uint64_t{tile.depth_groups - 1} * tile.m * tile.n;
  return std::max(staged, joined) * acc_bytes;
}

bool fits(const TileShape& tile, const TileLimits& limits) {
  return shared_bytes(tile, limits.acc_bytes) <= kSharedBytes &&
         uint64_t{tile.thread_m} * tile.thread_n * limits.acc_bytes <= kSumBytes &&
         (tile.k >= kDeep || limits.allow_shallow);
}

}  // namespace

std::string TileChoice::text() const {
  std::string result = std::to_string(tile.m) + "x" + std::to_string(tile.n) + "x" +
                       std::to_string(tile.k) + " tile, ";
  if (splits > 1) result += "split-k " + std::to_string(splits) + ", ";
  return result + std::to_string(groups) + " workgroups";
}

// The groups on one multiprocessor share its arithmetic; a staging step costs its latency besides,
// which groups that reside together hide from each other; a second pass costs a launch and its
// traffic.
double tile_microseconds(const ProductSize& size, const TileChoice& choice,
                         const DeviceModel& device) {
  const TileShape& tile = choice.tile;
  const ThreadTiles& times = device.thread_tiles;
  const double rounds = std::ceil(static_cast<double>(choice.groups) / device.multiprocessors);
  const double warps_each = tile.threads() / 32.0;
  const double resident =
      std::min(rounds, std::max(1.0, std::floor(times.resident_warps / warps_each)));
  const double products =
      static_cast<double>(tile.m) * tile.n * static_cast<double>(choice.split_k);
  const double compute = rounds * products / (times.products * tile.efficiency);
  const double steps = static_cast<double>(ceil_div(choice.split_k, tile.k));
  const double step_latency = tile.stages > 1 ? times.step : times.single_stage_step;
  const double latency = std::ceil(rounds / resident) * steps * step_latency / resident;
  double time = compute + latency;
  if (choice.splits > 1) {
    const double elements = static_cast<double>(size.m) * static_cast<double>(size.n) *
                            static_cast<double>(size.batches);
    time += times.second_pass +
            elements * 4 * (2 * static_cast<double>(choice.splits) + 1) / times.second_pass_rate;
  }
  return time;
}

std::vector<TileChoice> tile_candidates(const ProductSize& size, const TileLimits& limits,
                                        const DeviceModel& device) {
  // The pass that joins splits counts elements in 32 bits.
  const bool may_split = limits.allow_splits && size.m * size.n * size.batches < int64_t{1} << 31;
  std::vector<TileChoice> candidates;
  for (const TileShape& tile : kScalarTiles) {
    if (!fits(tile, limits)) continue;
    const int64_t steps = std::max<int64_t>(ceil_div(size.k, tile.k), 1);
    for (const int64_t wanted : kScalarSplits) {
      if (wanted > 1 && (!may_split || wanted * 6 > steps)) continue;
      const int64_t split_steps = ceil_div(steps, wanted);
      TileChoice choice{.tile = tile};
      choice.tiles = ceil_div(size.m, tile.m) * ceil_div(size.n, tile.n);
      choice.splits = ceil_div(steps, split_steps);
      choice.split_k = split_steps * tile.k;
      choice.groups = choice.tiles * choice.splits * size.batches;
      choice.microseconds = tile_microseconds(size, choice, device);
      candidates.push_back(choice);
    }
  }
  RLX_CHECK(!candidates.empty(), "no tile fits into shared memory and registers");
  return candidates;
}

TileChoice choose_tile(const ProductSize& size, const TileLimits& limits,
                       const DeviceModel& device) {
  const std::vector<TileChoice> candidates = tile_candidates(size, limits, device);
  return *std::ranges::min_element(candidates, {}, &TileChoice::microseconds);
}

}  // namespace rlx
