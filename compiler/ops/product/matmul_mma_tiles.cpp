// SPDX-License-Identifier: Apache-2.0
// The tile table of matmul_mma and the model that chooses from it.
#include "compiler/ops/product/matmul_mma_tiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/support/check.h"
#include "compiler/support/checked.h"
#include "compiler/support/sampled_sizes.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kMaxStages = 12;
constexpr int64_t kSumPad = 8;           // f32 behind each row of sums
constexpr uint32_t kAlignSlack = 1024;   // panels begin at multiples of this
constexpr int64_t kClusterGrid = 65535;  // clusters lie along one grid axis
constexpr std::array<int64_t, 6> kMmaSplits = {1, 2, 3, 4, 6, 8};

// One row a tile. Four or eight warps along m of 16 lines each are warpgroups on sm_90a.
// clang-format off
constexpr std::array<MmaTile, 9> kHalfTiles = {{
    {.m = 16, .n = 32, .stage_bytes = 256, .warps_k = 4},
    {.m = 16, .n = 64, .warps_n = 2, .warps_k = 2},
    {.m = 64, .n = 32, .warps_m = 4},
    {.m = 64, .n = 32, .warps_m = 4, .warps_k = 2},
    {.m = 64, .n = 48, .warps_m = 4},
    {.m = 64, .n = 48, .warps_m = 4, .warps_k = 2},
    {.m = 64, .n = 64, .warps_m = 4},
    {.m = 64, .n = 96, .warps_m = 4},
    {.m = 64, .n = 128, .warps_m = 4, .warps_n = 2},
}};
// So are those of f32 with one warp along n and along the depth.
constexpr std::array<MmaTile, 12> kFloatTiles = {{
    {.m = 16, .n = 32, .stage_bytes = 256, .warps_k = 4},
    {.m = 32, .n = 32, .stage_bytes = 256, .warps_m = 2, .warps_k = 4},
    {.m = 32, .n = 64, .warps_m = 2, .warps_n = 2, .warps_k = 2},
    {.m = 64, .n = 32, .warps_m = 4, .warps_k = 2},
    {.m = 64, .n = 48, .warps_m = 4, .warps_k = 2},
    {.m = 64, .n = 64, .warps_m = 2, .warps_n = 2},
    {.m = 64, .n = 64, .warps_m = 2, .warps_n = 2, .warps_k = 2},
    {.m = 64, .n = 96, .warps_m = 4, .warps_n = 2},
    {.m = 64, .n = 128, .warps_m = 2, .warps_n = 4},
    {.m = 128, .n = 96, .warps_m = 4, .warps_n = 3},
    {.m = 128, .n = 64, .warps_m = 8},
    {.m = 128, .n = 128, .warps_m = 8},
}};
// clang-format on

constexpr double kFewWarpsPower = 0.645;
// Products of f32 in parts by warpgroups, against those by warps: b along the depth, b by line.
// Measured on an H100 with 18 products from 128 x 384 x 384 to 4096 x 4096 x 4096.
struct PartGroupsRates {
  double depth;
  double line;
};
constexpr PartGroupsRates kPartGroups128 = {1.85, 1.70};
constexpr PartGroupsRates kPartGroups64 = {1.34, 1.32};
// Microseconds of their tiles beside products: the first parts, the last sums.
constexpr double kPartGroupsBegin = 1.8;
// Their multiprocessor's shared memory, where there are such: stages and, twice, parts.
constexpr int64_t kPartGroupsBytes = 226 * 1024;
// What they leave out shows where fewer products are added (lib/split_f32.cuh).
constexpr int64_t kLeastPartGroupsDepth = 192;

// f32 in parts, by warpgroups.
bool is_for_part_groups(const MmaTile& tile) {
  return tile.m == 16 * tile.warps_m && tile.warps_m % 4 == 0 && tile.warps_n == 1 &&
         tile.warps_k == 1;
}

bool by_warpgroups(const MmaProblem& problem, const MmaTile& tile) {
  return problem.kind == MmaKind::Half && !problem.a_by_line && !problem.b_by_line &&
         tile.m == 16 * tile.warps_m && tile.warps_m % 4 == 0;
}

int64_t panel_bytes(const MmaProblem& problem, int64_t lines, int64_t tile_k, bool by_line) {
  const int64_t bytes = problem.element_bytes();
  return by_line ? tile_k * (lines + 8) * bytes : lines * tile_k * bytes;
}

int64_t stage_bytes(const MmaProblem& problem, const MmaTile& tile, int64_t tile_k) {
  return panel_bytes(problem, tile.m, tile_k, problem.a_by_line) +
         panel_bytes(problem, tile.n, tile_k, problem.b_by_line);
}

// 32-bit sums of a thread.
uint32_t sums_of_thread(const MmaProblem& problem, const MmaTile& tile) {
  const uint32_t each = tile.m / tile.warps_m * (tile.n / tile.warps_n) / 32;
  return problem.kind == MmaKind::SplitF32 ? 3 * each : each;
}

// Workgroups of a tile that run at once, one per multiprocessor: clusters do not fill every group
// of multiprocessors.
double slots(int64_t splits, const DeviceModel& device) {
  const double unfilled = splits <= 2 ? 0 : splits == 6 ? 0.22 : 0.09;
  return device.multiprocessors * (1 - unfilled);
}

double products_per_microsecond(const MmaProblem& problem, const MmaTile& tile, double together,
                                const MmaTimes& times) {
  if (by_warpgroups(problem, tile)) return times.warpgroup_products;
  if (problem.kind == MmaKind::Half) return times.warp_products;
  if (is_for_part_groups(tile)) {
    const PartGroupsRates& rates = tile.n == 128 ? kPartGroups128 : kPartGroups64;
    return times.split_f32_products * (problem.b_by_line ? rates.line : rates.depth);
  }
  const uint32_t warp_tile = tile.m / tile.warps_m * (tile.n / tile.warps_n);
  const double reuse = warp_tile >= 1024 ? 1 : warp_tile >= 512 ? 0.787 : 0.534;
  const double warps = tile.threads() / 32.0 * together;
  const double rate =
      times.split_f32_products * reuse * std::pow(std::min(1.0, warps / 8), kFewWarpsPower);
  return problem.kind == MmaKind::Tf32 ? 2.5 * rate : rate;
}

}  // namespace

double mma_microseconds(const MmaProblem& problem, const MmaChoice& choice,
                        const DeviceModel& device) {
  const MmaTile& tile = choice.tile;
  const MmaCosts& costs = by_warpgroups(problem, tile) ? device.mma_warpgroups : device.mma_warps;
  const int64_t blocks = choice.split_k / choice.tile_k;
  const bool refills = blocks > choice.stages;
  const double shares =
      std::ceil(static_cast<double>(choice.groups) / slots(choice.splits, device));
  const double together = std::min<double>(shares, choice.min_groups);
  const double rounds = std::ceil(shares / choice.min_groups);
  const double depth_bytes =
      static_cast<double>(choice.split_k) * static_cast<double>(problem.element_bytes());
  const double a_bytes = tile.m * depth_bytes;
  const double b_bytes = tile.n * depth_bytes;
  const double cache =
      static_cast<double>(choice.groups) / rounds * (a_bytes + b_bytes) / costs.cache_rate;
  const double port = (1 + (together - 1) * costs.shared) *
                      (a_bytes + (refills ? costs.refilled_weights * b_bytes : 0)) /
                      costs.port_rate;
  const double products = together * tile.m * tile.n * static_cast<double>(choice.split_k) /
                          products_per_microsecond(problem, tile, together, device.mma);
  const double body = std::max({cache, port, products}) * (refills ? costs.refilled : 1) +
                      static_cast<double>(blocks) * (refills ? costs.refilled_block : costs.block);
  const double tile_elements = static_cast<double>(tile.m) * tile.n;
  double exchange = 0;
  if (choice.splits > 1) {
    exchange = costs.exchange * static_cast<double>(choice.splits - 1) +
               tile_elements * 4 / costs.exchange_rate +
               (tile.warps_k > 1 ? costs.join * tile.warps_k : 0);
  }
  const double units = tile_elements / 4 / tile.threads() / static_cast<double>(choice.splits);
  const double finish = units * device.mma.unit_operation * problem.epilogue_operations;
  const double begin = choice.by_part_groups ? kPartGroupsBegin : 0;
  return device.mma.start + rounds * (begin + body + exchange + finish);
}

namespace {

// As many stages as there are and shared memory holds; nullopt where the tile does not fit.
std::optional<MmaChoice> tiled(const MmaProblem& problem, const MmaTile& tile, int64_t splits,
                               const DeviceModel& device) {
  MmaChoice choice{.tile = tile, .tile_k = tile.stage_bytes / problem.element_bytes()};
  const int64_t all_blocks = ceil_div(problem.k, choice.tile_k);
  const int64_t blocks = ceil_div(all_blocks, splits);
  if (ceil_div(all_blocks, blocks) != splits) return std::nullopt;
  int64_t room = static_cast<int64_t>(device.shared_bytes) - kAlignSlack;
  choice.by_part_groups = problem.kind == MmaKind::SplitF32 && is_for_part_groups(tile);
  if (choice.by_part_groups) {
    if (problem.a_by_line || problem.k < kLeastPartGroupsDepth) return std::nullopt;
    const int64_t parts = tile.m + (problem.b_by_line ? 2 : 1) * tile.n;
    room = kPartGroupsBytes - 2 * parts * tile.stage_bytes;
  }
  const int64_t sums = int64_t{tile.warps_k} * tile.m * (tile.n + kSumPad) * 4;
  const int64_t stages =
      std::min({blocks, kMaxStages, room / stage_bytes(problem, tile, choice.tile_k)});
  if (sums > room || stages < std::min<int64_t>(blocks, 3)) return std::nullopt;
  choice.stages = narrow<uint32_t>(stages);
  choice.splits = splits;
  choice.split_k = blocks * choice.tile_k;
  choice.tiles = ceil_div(problem.m, tile.m) * ceil_div(problem.n, tile.n);
  choice.groups = choice.tiles * splits * problem.batches;
  // Where products are fast, the sums of wide tiles are too many to exchange.
  const uint32_t most_exchanged = problem.kind == MmaKind::Half ? 64 * 96 : 64 * 128;
  if (splits > 1 && (choice.groups > kClusterGrid || tile.m * tile.n > most_exchanged))
    return std::nullopt;
  const uint32_t sums_each = sums_of_thread(problem, tile);
  const bool small = tile.threads() <= 128 || (tile.threads() <= 256 && sums_each <= 48);
  choice.min_groups = small ? 2 : 1;
  choice.microseconds = mma_microseconds(problem, choice, device);
  return choice;
}

}  // namespace

std::string MmaChoice::text() const {
  std::string text = std::to_string(tile.m) + "x" + std::to_string(tile.n) + " tiles, " +
                     std::to_string(tile.threads() / 32) + " warps" +
                     (by_part_groups ? " (warpgroups), " : ", ") + std::to_string(stages) +
                     " stages of " + std::to_string(tile_k);
  if (splits > 1) text += ", k split over clusters of " + std::to_string(splits);
  return text + ", " + std::to_string(groups) + " workgroups";
}

namespace {

std::span<const MmaTile> tiles_of(MmaKind kind) {
  return kind == MmaKind::Half ? std::span<const MmaTile>(kHalfTiles)
                               : std::span<const MmaTile>(kFloatTiles);
}

// One tile with one split at every size.
std::optional<std::vector<MmaChoice>> tiled_at_all(std::span<const MmaProblem> sizes,
                                                   const MmaTile& tile, int64_t splits,
                                                   const DeviceModel& device) {
  std::vector<MmaChoice> choices;
  for (const MmaProblem& size : sizes) {
    const std::optional<MmaChoice> choice = tiled(size, tile, splits, device);
    if (!choice) return std::nullopt;
    choices.push_back(*choice);
  }
  return choices;
}

}  // namespace

std::vector<std::vector<MmaChoice>> mma_candidates(std::span<const MmaProblem> sizes,
                                                   const DeviceModel& device) {
  std::vector<std::vector<MmaChoice>> candidates;
  for (const MmaTile& tile : tiles_of(sizes.front().kind)) {
    for (const int64_t splits : kMmaSplits) {
      if (auto choices = tiled_at_all(sizes, tile, splits, device))
        candidates.push_back(std::move(*choices));
    }
  }
  RLX_CHECK(!candidates.empty(), "no tile fits into shared memory");
  return candidates;
}

std::vector<std::vector<MmaChoice>> mma_candidates(const MmaProblem& problem,
                                                   std::span<const int64_t> lines,
                                                   const DeviceModel& device) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<MmaChoice>> candidates;
  for (const MmaTile& tile : tiles_of(problem.kind)) {
    for (const int64_t splits : kMmaSplits) {
      const MmaChoice none{.splits = splits, .microseconds = kNever};
      std::vector<MmaChoice>& at_lines = candidates.emplace_back();
      for (const int64_t m : lines) {
        MmaProblem size = problem;
        size.m = m;
        at_lines.push_back(tiled(size, tile, splits, device).value_or(none));
      }
    }
  }
  return candidates;
}

MmaChoice choose_mma(std::span<const MmaProblem> sizes, const DeviceModel& device) {
  const auto candidates = mma_candidates(sizes, device);
  return least_excess(candidates, [](const MmaChoice& choice) { return choice.microseconds; });
}

}  // namespace rlx
