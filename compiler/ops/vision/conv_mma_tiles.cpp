// SPDX-License-Identifier: Apache-2.0
// The cost model of conv_mma.
#include "compiler/ops/vision/conv_mma_tiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ops/lowering/lower_context.h"
#include "compiler/support/sampled_sizes.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kStepBytes = 128;  // of k, per pixel and filter
constexpr int64_t kMaxStages = 8;
constexpr int64_t kSumPad = 8;  // words behind each row of sums
constexpr std::array<int64_t, 4> kConvSplits = {1, 2, 4, 8};

// step: microseconds of a step on an H200, where a workgroup has a multiprocessor to itself.
struct TileCost {
  ConvTile tile;
  double step;
};
constexpr std::array kTiles = {
    TileCost{{.tile_m = 32, .tile_n = 64, .warps_k = 4}, 0.092},
    TileCost{{.tile_m = 32, .tile_n = 32, .warps_k = 4}, 0.080},
    TileCost{{.tile_m = 64, .tile_n = 32, .warps_k = 4}, 0.100},
    TileCost{{.tile_m = 64, .tile_n = 64, .warps_m = 2, .warps_n = 2, .warps_k = 2}, 0.150},
    TileCost{{.tile_m = 64, .tile_n = 64, .warps_m = 2, .warps_n = 2}, 0.200},
    TileCost{{.tile_m = 128, .tile_n = 64, .warps_m = 2, .warps_n = 2}, 0.300},
};
// Microseconds that such a step takes among others more than in a row of its like, by which the
// costs are fitted: what it reads comes from farther away, and less of it is done before the step
// ahead of it ends. ResNet-50 of 2 to 8 images, H200
// (tests/bench/results/2026-11-29-h200-convolutions.md).
constexpr double kAmongOthers = 3.4;
// Tiles that warpgroups multiply, measured on an H200 with the convolutions of ResNet-50 at batch
// 32. Microseconds of a step, where nobody else is on the multiprocessor (alone) and per workgroup
// where it is full (busy), and of a workgroup's epilogue, without and with a residual.
struct GroupCost {
  ConvTile tile;
  int64_t stages;
  double alone;
  double busy;
  double tail;
  double residual_tail;
};
// Of 64 rows, or of 128 in two warpgroups; warps as mma has them where there is no wgmma.
constexpr ConvTile group_tile(int64_t tile_m, int64_t tile_n) {
  const bool wide = tile_n > 64 && tile_m > 64;
  return {.tile_m = tile_m,
          .tile_n = tile_n,
          .warps_m = wide ? 2 : tile_m / 32,
          .warps_n = wide ? 4 : 2,
          .by_groups = true};
}
constexpr std::array kGroupTiles = {
    GroupCost{group_tile(64, 64), 4, 0.53, 0.19, 0.33, 0.45},
    GroupCost{group_tile(128, 64), 4, 0.60, 0.33, 0.65, 1.15},
    GroupCost{group_tile(64, 128), 3, 0.69, 0.30, 0.55, 1.15},
    GroupCost{group_tile(64, 128), 8, 0.334, 0.334, 0.70, 1.00},
    GroupCost{group_tile(128, 128), 3, 0.93, 0.54, 1.13, 3.00},
    GroupCost{group_tile(128, 128), 6, 0.55, 0.53, 1.13, 3.00},
};
// f32 in two parts, measured on an H100 with twelve convolutions of ResNet-50 at batch 1 and 8, k
// split or not: what is picked takes 3 % longer than the fastest on average, 14 % at most. Warps
// multiply 32 x 32: three sums of each product fill their registers.
// clang-format off
constexpr std::array kSplitTiles = {
    GroupCost{{.tile_m = 32, .tile_n = 32, .warps_k = 4}, 6, 0.27, 0.185, 0.30, 0.38},
    GroupCost{{.tile_m = 32, .tile_n = 64, .warps_n = 2, .warps_k = 4}, 6, 0.185, 0.446, 0.90, 1.20},
    GroupCost{{.tile_m = 64, .tile_n = 32, .warps_m = 2, .warps_k = 4}, 6, 0.35, 0.474, 0.78, 1.20},
    GroupCost{{.tile_m = 64, .tile_n = 64, .warps_m = 2, .warps_n = 2, .warps_k = 2}, 5, 0.456, 0.707, 1.43, 1.43},
    GroupCost{{.tile_m = 64, .tile_n = 64, .warps_m = 2, .warps_n = 2}, 3, 0.67, 0.657, 0.21, 0.64},
    GroupCost{group_tile(64, 64), 3, 0.78, 0.655, 0.33, 0.54},
    GroupCost{group_tile(128, 64), 3, 0.39, 1.04, 1.08, 1.93},
    GroupCost{group_tile(64, 128), 3, 1.08, 1.25, 0.79, 1.38},
    GroupCost{group_tile(128, 128), 4, 1.37, 1.50, 2.77, 4.00},
};
// clang-format on
constexpr double kPartsSplit = 0.3;  // per workgroup of a cluster
// Of the multiprocessors, which clusters of more than two do not fill.
constexpr double kUnfilled = 0.09;
// Of a wave: these tiles start where others end. Of few waves one more takes its time, whoever
// starts.
constexpr double kOverhang = 0.1;
constexpr double kManyWaves = 8;
constexpr int64_t kSharedStages = 4;  // of rings that leave room for other workgroups

int64_t shared_bytes(const ConvTile& tile, int64_t stages) {
  const int64_t ring = stages * (tile.tile_m + tile.tile_n) * kStepBytes;
  const int64_t sums = tile.warps_k * tile.tile_m * (tile.tile_n + kSumPad) * 4;
  return std::max(ring, sums);
}

// As many steps in flight as there are and shared memory holds; at least two slots for a ring.
int64_t stages_for(const ConvTile& tile, int64_t steps, const DeviceModel& device) {
  int64_t stages = std::min(kMaxStages, steps);
  while (stages > 1 && shared_bytes(tile, stages) > static_cast<int64_t>(device.shared_bytes))
    --stages;
  return stages;
}

// Tiles of the busiest multiprocessor.
double tiles_per_processor(const ConvTiling& tiling, const DeviceModel& device) {
  return std::ceil(static_cast<double>(tiling.groups) / device.multiprocessors);
}

// Microseconds that memory needs.
double memory_time(const ConvProduct& product, const DeviceModel& device) {
  const double outputs =
      static_cast<double>(product.m * product.n) * (product.has_residual ? 2 : 1);
  const double inputs = static_cast<double>(product.m * std::min(product.k, product.n * 4));
  return (outputs + inputs) * static_cast<double>(product.count) * product.element_bytes /
         device.memory_gigabytes_per_second * 1e-3;
}

double estimate(const ConvProduct& product, const TileCost& cost, const ConvTiling& tiling,
                int64_t steps, const DeviceModel& device) {
  const ConvTile& tile = tiling.tile;
  const double step_products = static_cast<double>(tile.tile_m * tile.tile_n) *
                               static_cast<double>(kStepBytes / product.element_bytes) * 1e-6;
  const double tiles = tiles_per_processor(tiling, device);
  const double all_steps = tiles * static_cast<double>(steps);
  const double copied = all_steps * static_cast<double>((tile.tile_m + tile.tile_n) * kStepBytes);
  const double outputs = tiles * static_cast<double>(tile.tile_m * tile.tile_n) / 4096;
  const double alone = static_cast<double>(steps) * cost.step * device.conv.tiles;
  const double together =
      copied <= device.conv.burst
          ? all_steps * step_products / device.conv.products + tiles * device.conv.epilogue
          : copied / device.conv.copy_rate +
                outputs * (product.has_residual ? device.conv.residual_tail : device.conv.tail);
  return kAmongOthers + device.conv.start + (tiling.split > 1 ? device.conv.split : 0) +
         std::max({alone, together, memory_time(product, device)});
}

double estimate(const ConvProduct& product, const GroupCost& cost, const ConvTiling& tiling,
                int64_t steps, const DeviceModel& device) {
  const bool clusters = product.in_parts && tiling.split > 2;
  const double waves = static_cast<double>(tiling.groups) /
                       (device.multiprocessors * (clusters ? 1 - kUnfilled : 1));
  const double tiles =
      std::max(1.0, std::ceil(waves - (clusters || waves < kManyWaves ? 0 : kOverhang)));
  const double tail = (product.has_residual ? cost.residual_tail : cost.tail) * device.conv.tiles;
  const double products =
      static_cast<double>(steps) * std::max(cost.alone, tiles * cost.busy) * device.conv.tiles;
  const double sharer =
      product.in_parts ? kPartsSplit * device.conv.tiles : device.conv.group_split;
  const double split = tiling.split > 1 ? sharer * static_cast<double>(tiling.split) : 0;
  return std::max(device.conv.group_start + split + products + tiles * tail,
                  device.conv.start + memory_time(product, device));
}

// ---- few channels ----

struct PatchShape {
  int64_t tile_h;
  int64_t tile_w;
};
constexpr std::array kPatchShapes = {PatchShape{8, 16}, PatchShape{8, 8}};

// A pixel is half a piece or a whole one. Two pixels share a piece only where windows begin at
// whole pieces.
std::optional<int64_t> channels_of_patch(const FixedWindow& window, int64_t channels,
                                         uint32_t element_bytes) {
  const int64_t whole = kWidestAccessBytes / element_bytes;
  const bool pairs = window.dilation[2] == 1 && window.stride[2] % 2 == 0;
  if (element_bytes == 2 && pairs && channels <= whole / 2) return whole / 2;
  if (channels <= whole) return whole;
  return std::nullopt;
}

// As lib/conv_patch.cuh lays it out.
int64_t patch_shared_bytes(const FixedWindow& window, const PatchTiling& tiling,
                           uint32_t element_bytes) {
  const int64_t pixel_bytes = tiling.patch_channels * element_bytes;
  const int64_t piece_taps = kWidestAccessBytes / pixel_bytes;
  const int64_t row_pieces = ceil_div(window.kernel[2], piece_taps);
  const int64_t steps = ceil_div(window.kernel[1] * row_pieces, 2);
  const int64_t height =
      (tiling.tile_h - 1) * window.stride[1] + (window.kernel[1] - 1) * window.dilation[1] + 1;
  const int64_t width = (tiling.tile_w - 1) * window.stride[2] +
                        (row_pieces * piece_taps - 1) * window.dilation[2] + piece_taps;
  const int64_t filters = tiling.tile_n * (steps * 32 + kWidestAccessBytes);
  const int64_t sums = tiling.tile_h * tiling.tile_w * (tiling.tile_n + kSumPad) * 4;
  return filters + height * width * pixel_bytes + kWidestAccessBytes + sums;
}

}  // namespace

std::string ConvTiling::text() const {
  std::string text = std::to_string(tile.tile_m) + "x" + std::to_string(tile.tile_n) + " tiles, " +
                     std::to_string(tile.warps_m * tile.warps_n * tile.warps_k) + " warps";
  if (tile.by_groups) text += " (warpgroups)";
  if (tile.warps_k > 1) text += " (" + std::to_string(tile.warps_k) + " share k)";
  text += ", " + std::to_string(stages) + " stages";
  if (split > 1) text += ", k split over clusters of " + std::to_string(split);
  return text + ", " + std::to_string(groups) + " workgroups";
}

int64_t conv_steps(const ConvProduct& product, int64_t split) {
  return ceil_div(ceil_div(product.k * product.element_bytes, kStepBytes), split);
}

bool is_almost_alone(const ConvTiling& tiling, const DeviceModel& device) {
  return !tiling.tile.by_groups && 4 * tiling.groups <= device.multiprocessors;
}

std::optional<ConvTiling> shared_tiling(const ConvProduct& product, ConvTiling tiling,
                                        const DeviceModel& device) {
  const int64_t steps = conv_steps(product, tiling.split);
  if (steps <= kFewConvSteps) {
    // f32 in parts fills registers so far that a few more are a workgroup less. Architectures
    // without clusters go through the steps of all of one by a ring, which has two slots or more.
    const bool fits = !product.in_parts && (tiling.split == 1 || steps == kFewConvSteps);
    return fits ? std::optional(tiling) : std::nullopt;
  }
  if (is_almost_alone(tiling, device) && !product.in_parts) {
    const bool few = steps <= kMaxStages / 2;
    tiling.stages = stages_for(tiling.tile, few ? kMaxStages / 2 : kMaxStages, device);
  }
  return tiling;
}

double alone_microseconds(const ConvProduct& product, const ConvTiling& tiling) {
  const bool is_of_warps = !product.in_parts && !tiling.tile.by_groups;
  return tiling.microseconds - (is_of_warps ? kAmongOthers : 0);
}

ConvTiling tiling_of_size(const ConvProduct& product, ConvTiling tiling) {
  tiling.groups = ceil_div(product.m, tiling.tile.tile_m) *
                  ceil_div(product.n, tiling.tile.tile_n) * product.count * tiling.split;
  return tiling;
}

double conv_microseconds(const ConvProduct& product, const ConvTiling& tiling,
                         const DeviceModel& device) {
  const int64_t steps = conv_steps(product, tiling.split);
  if (product.in_parts) return estimate(product, kSplitTiles.at(tiling.row), tiling, steps, device);
  return tiling.tile.by_groups
             ? estimate(product, kGroupTiles.at(tiling.row), tiling, steps, device)
             : estimate(product, kTiles.at(tiling.row), tiling, steps, device);
}

namespace {

// A row of one of the tables with a division of k, at every size; nullopt where it does not go.
// stages_of(steps) are those in flight, none where the row's costs do not hold.
template <typename Cost, typename StagesOf>
std::optional<std::vector<ConvTiling>> tiled_at_all(std::span<const ConvProduct> sizes,
                                                    const Cost& cost, size_t row, int64_t split,
                                                    const StagesOf& stages_of,
                                                    const DeviceModel& device) {
  std::vector<ConvTiling> tilings;
  for (const ConvProduct& product : sizes) {
    const int64_t all_steps = ceil_div(product.k * product.element_bytes, kStepBytes);
    if (split > all_steps) return std::nullopt;
    const int64_t steps = ceil_div(all_steps, split);
    const std::optional<int64_t> stages = stages_of(steps);
    if (!stages) return std::nullopt;
    ConvTiling tiling =
        tiling_of_size(product, {.tile = cost.tile, .row = row, .split = split, .stages = *stages});
    tiling.microseconds = estimate(product, cost, tiling, steps, device);
    tilings.push_back(tiling);
  }
  return tilings;
}

}  // namespace

std::vector<std::vector<ConvTiling>> conv_candidates(std::span<const ConvProduct> sizes,
                                                     const DeviceModel& device) {
  std::vector<std::vector<ConvTiling>> candidates;
  const auto add_rows = [&](const auto& table, const auto& stages_of) {
    for (size_t row = 0; row < table.size(); ++row) {
      for (const int64_t split : kConvSplits) {
        const auto stages = [&](int64_t steps) { return stages_of(table[row], steps); };
        if (auto tilings = tiled_at_all(sizes, table[row], row, split, stages, device))
          candidates.push_back(std::move(*tilings));
      }
    }
  };
  const ConvProduct& largest = sizes.front();
  if (largest.in_parts) {
    add_rows(kSplitTiles, [&](const GroupCost& cost, int64_t steps) -> std::optional<int64_t> {
      if (cost.tile.by_groups && largest.k < kLeastPartsDepth) return std::nullopt;
      return std::min(cost.stages, steps);
    });
  } else {
    add_rows(kTiles, [&](const TileCost& cost, int64_t steps) {
      return std::optional(stages_for(cost.tile, steps, device));
    });
  }
  if (largest.element_bytes == 2) {
    add_rows(kGroupTiles, [](const GroupCost& cost, int64_t steps) -> std::optional<int64_t> {
      // Large rings are for many steps: their costs do not hold for parts of them.
      if (steps < cost.stages && cost.stages > kSharedStages) return std::nullopt;
      return std::min(cost.stages, steps);
    });
  }
  return candidates;
}

ConvTiling choose_conv_tiling(std::span<const ConvProduct> sizes, const DeviceModel& device) {
  const auto candidates = conv_candidates(sizes, device);
  return least_excess(candidates, [](const ConvTiling& tiling) { return tiling.microseconds; });
}

std::string PatchTiling::text() const {
  return "patches of few channels, " + std::to_string(tile_h) + "x" + std::to_string(tile_w) +
         " pixels by " + std::to_string(tile_n) + " filters, " + std::to_string(groups) +
         " workgroups";
}

std::optional<PatchTiling> choose_patch_tiling(const FixedWindow& window, int64_t images,
                                               int64_t channels, int64_t filters,
                                               uint32_t element_bytes, const DeviceModel& device) {
  const std::optional<int64_t> patch_channels = channels_of_patch(window, channels, element_bytes);
  if (!patch_channels) return std::nullopt;
  std::optional<PatchTiling> best;
  for (const PatchShape& shape : kPatchShapes) {
    PatchTiling tiling{.patch_channels = *patch_channels,
                       .tile_h = shape.tile_h,
                       .tile_w = shape.tile_w,
                       .tile_n = filters <= 32 ? 32 : 64,
                       .warps_m = 4,
                       .warps_n = 2};
    if (patch_shared_bytes(window, tiling, element_bytes) >
        static_cast<int64_t>(device.shared_bytes))
      continue;
    const int64_t tiles =
        images * ceil_div(window.out[1], shape.tile_h) * ceil_div(window.out[2], shape.tile_w);
    const int64_t filter_tiles = ceil_div(filters, tiling.tile_n);
    const int64_t most = kPatchGroupsPerProcessor * static_cast<int64_t>(device.multiprocessors);
    tiling.groups = std::min(tiles, std::max<int64_t>(1, most / filter_tiles)) * filter_tiles;
    if (!best) best = tiling;
    // A smaller tile where the larger ones leave multiprocessors without work.
    const bool idle = best->groups < static_cast<int64_t>(device.multiprocessors);
    if (idle && tiling.groups > best->groups) best = tiling;
  }
  return best;
}

}  // namespace rlx
