// SPDX-License-Identifier: Apache-2.0
// The cost model of conv_mma.
#include "compiler/ops/conv_mma_tiles.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace rlx {
namespace {

constexpr int64_t kStepBytes = 128;  // of k, per pixel and filter
constexpr int64_t kMaxStages = 8;
constexpr int64_t kSumPad = 8;  // words behind each row of sums
constexpr std::array<int64_t, 4> kSplits = {1, 2, 4, 8};

// step: microseconds of a step where a workgroup has a multiprocessor to itself.
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
constexpr double kStart = 1.4;      // launch, first copies, epilogue
constexpr double kSplitCost = 1.4;  // of a cluster
constexpr double kProductRate =
    2.1;  // of a full multiprocessor, million multiply-adds per microsecond

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

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

double estimate(const ConvProduct& product, const TileCost& cost, const ConvTiling& tiling,
                int64_t steps, const DeviceModel& device) {
  const ConvTile& tile = tiling.tile;
  const double per_processor =
      std::ceil(static_cast<double>(tiling.groups) / device.multiprocessors);
  const double step_products = static_cast<double>(tile.tile_m * tile.tile_n) *
                               static_cast<double>(kStepBytes / product.element_bytes) * 1e-6;
  const double alone = static_cast<double>(steps) * cost.step;
  const double together =
      per_processor * (static_cast<double>(steps) * step_products / kProductRate + 0.25);
  const double outputs =
      static_cast<double>(product.m * product.n) * (product.has_residual ? 4 : 2);
  const double inputs = static_cast<double>(product.m * std::min(product.k, product.n * 4)) * 2;
  const double bytes = (outputs + inputs) / device.memory_gigabytes_per_second * 1e-3;
  return kStart + (tiling.split > 1 ? kSplitCost : 0) + std::max({alone, together, bytes});
}

// ---- few channels ----

constexpr int64_t kPieceBytes = 16;
constexpr int64_t kPatchGroupsPerProcessor = 2;

struct PatchShape {
  int64_t tile_h;
  int64_t tile_w;
};
constexpr std::array kPatchShapes = {PatchShape{8, 16}, PatchShape{8, 8}};

// A pixel is half a piece or a whole one. Two pixels share a piece only where windows begin at
// whole pieces.
std::optional<int64_t> channels_of_patch(const Window& window, int64_t channels,
                                         uint32_t element_bytes) {
  const int64_t whole = kPieceBytes / element_bytes;
  const bool pairs = window.dilation[2] == 1 && window.stride[2] % 2 == 0;
  if (element_bytes == 2 && pairs && channels <= whole / 2) return whole / 2;
  if (channels <= whole) return whole;
  return std::nullopt;
}

// As lib/conv_patch.cuh lays it out.
int64_t patch_shared_bytes(const Window& window, const PatchTiling& tiling,
                           uint32_t element_bytes) {
  const int64_t pixel_bytes = tiling.patch_channels * element_bytes;
  const int64_t piece_taps = kPieceBytes / pixel_bytes;
  const int64_t row_pieces = ceil_div(window.kernel[2], piece_taps);
  const int64_t steps = ceil_div(window.kernel[1] * row_pieces, 2);
  const int64_t height =
      (tiling.tile_h - 1) * window.stride[1] + (window.kernel[1] - 1) * window.dilation[1] + 1;
  const int64_t width = (tiling.tile_w - 1) * window.stride[2] +
                        (row_pieces * piece_taps - 1) * window.dilation[2] + piece_taps;
  const int64_t filters = tiling.tile_n * (steps * 32 + kPieceBytes);
  const int64_t sums = tiling.tile_h * tiling.tile_w * (tiling.tile_n + kSumPad) * 4;
  return filters + height * width * pixel_bytes + kPieceBytes + sums;
}

}  // namespace

std::string ConvTiling::text() const {
  std::string text = std::to_string(tile.tile_m) + "x" + std::to_string(tile.tile_n) + " tiles, " +
                     std::to_string(tile.warps_m * tile.warps_n * tile.warps_k) + " warps";
  if (tile.warps_k > 1) text += " (" + std::to_string(tile.warps_k) + " share k)";
  text += ", " + std::to_string(stages) + " stages";
  if (split > 1) text += ", k split over clusters of " + std::to_string(split);
  return text + ", " + std::to_string(groups) + " workgroups";
}

ConvTiling choose_conv_tiling(const ConvProduct& product, const DeviceModel& device) {
  const int64_t all_steps = ceil_div(product.k * product.element_bytes, kStepBytes);
  ConvTiling best;
  for (const TileCost& cost : kTiles) {
    const int64_t tiles =
        ceil_div(product.m, cost.tile.tile_m) * ceil_div(product.n, cost.tile.tile_n);
    for (const int64_t split : kSplits) {
      if (split > all_steps) break;
      const int64_t steps = ceil_div(all_steps, split);
      ConvTiling tiling{.tile = cost.tile,
                        .split = split,
                        .stages = stages_for(cost.tile, steps, device),
                        .groups = tiles * split};
      tiling.microseconds = estimate(product, cost, tiling, steps, device);
      if (best.tile.tile_m == 0 || tiling.microseconds < best.microseconds) best = tiling;
    }
  }
  return best;
}

std::string PatchTiling::text() const {
  return "patches of few channels, " + std::to_string(tile_h) + "x" + std::to_string(tile_w) +
         " pixels by " + std::to_string(tile_n) + " filters, " + std::to_string(groups) +
         " workgroups";
}

std::optional<PatchTiling> choose_patch_tiling(const Window& window, int64_t images,
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
