// SPDX-License-Identifier: Apache-2.0
// How conv_mma divides its product among workgroups and warps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "compiler/dispatch/target.h"
#include "compiler/ops/lowering/conv_window.h"

namespace rlx {

// What warpgroups leave out of f32 in parts shows where fewer products are added
// (lib/split_f32.cuh).
inline constexpr int64_t kLeastPartsDepth = 192;

// The implicit product [m pixels, k] x [k, n filters], or several side by side that share the
// pixels; element_bytes of the factors.
struct ConvProduct {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t count = 1;
  uint32_t element_bytes = 2;
  bool in_parts = false;  // f32 factors, each of two tf32 parts
  bool has_residual = false;
};

// tile_m pixels by tile_n filters of a workgroup; warps along pixels, filters and, within each step
// of 128 bytes, k.
struct ConvTile {
  int64_t tile_m = 0;
  int64_t tile_n = 0;
  int64_t warps_m = 1;
  int64_t warps_n = 1;
  int64_t warps_k = 1;
  bool by_groups = false;  // warpgroups multiply where the architecture has wgmma
};

struct ConvTiling {
  ConvTile tile;
  size_t row = 0;      // of its table
  int64_t split = 1;   // workgroups that share a tile's k
  int64_t stages = 1;  // steps in flight
  int64_t groups = 1;
  double microseconds = 0;  // estimated

  [[nodiscard]] uint32_t threads() const {
    return static_cast<uint32_t>(32 * tile.warps_m * tile.warps_n * tile.warps_k);
  }
  [[nodiscard]] std::string text() const;
};

// Every tiling that fits, for a product at several sizes, which differ in m and begin with the
// largest.
std::vector<std::vector<ConvTiling>> conv_candidates(std::span<const ConvProduct> sizes,
                                                     const DeviceModel& device);
// Of these the one whose estimate exceeds the best one's by the least factor where this is largest;
// of equal ones the first of the table. Its numbers are those at the first size.
ConvTiling choose_conv_tiling(std::span<const ConvProduct> sizes, const DeviceModel& device);
// The same for as many lines as the product has; its estimate is not known then.
ConvTiling tiling_of_size(const ConvProduct& product, ConvTiling tiling);
// Its estimate without what the step takes longer among others.
double alone_microseconds(const ConvProduct& product, const ConvTiling& tiling);
// Its estimate, on any device.
double conv_microseconds(const ConvProduct& product, const ConvTiling& tiling,
                         const DeviceModel& device);

// Steps that a ring holds as they are, whatever sizes are words.
inline constexpr int64_t kFewConvSteps = 2;
// Warps multiply by so few workgroups that what one holds and tests keeps no other waiting.
bool is_almost_alone(const ConvTiling& tiling, const DeviceModel& device);
// The same tiling for sizes that are words, which may be those of other products too: workgroups
// that are almost alone get as many stages as the tile has for more steps, or half. nullopt where
// words would cost as much as the product.
std::optional<ConvTiling> shared_tiling(const ConvProduct& product, ConvTiling tiling,
                                        const DeviceModel& device);
// Of each workgroup that shares a tile's k.
int64_t conv_steps(const ConvProduct& product, int64_t split);

// The form for few channels: rectangles of output pixels, a patch of x under each.
// As many workgroups as a grid has at most for each multiprocessor.
inline constexpr int64_t kPatchGroupsPerProcessor = 2;

struct PatchTiling {
  int64_t patch_channels = 0;  // elements of a pixel in the patch
  int64_t tile_h = 0;
  int64_t tile_w = 0;
  int64_t tile_n = 0;  // filters of a workgroup
  int64_t warps_m = 0;
  int64_t warps_n = 0;
  int64_t groups = 0;

  [[nodiscard]] uint32_t threads() const { return static_cast<uint32_t>(32 * warps_m * warps_n); }
  [[nodiscard]] std::string text() const;
};

// nullopt where the channels are too many, or patch and filters too large for shared memory.
std::optional<PatchTiling> choose_patch_tiling(const FixedWindow& window, int64_t images,
                                               int64_t channels, int64_t filters,
                                               uint32_t element_bytes, const DeviceModel& device);

}  // namespace rlx
