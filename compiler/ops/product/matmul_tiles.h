// SPDX-License-Identifier: Apache-2.0
// Tile shapes of products and the choice among them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/dispatch/builder.h"
#include "compiler/dispatch/device_model.h"

namespace rlx {

// One instance of shaders/lib/tile.inc.
struct TileShape {
  uint32_t m;  // lines of a per workgroup
  uint32_t n;  // lines of b per workgroup
  uint32_t k;  // depth staged at once
  uint32_t thread_m;
  uint32_t thread_n;
  uint32_t depth_groups;
  uint32_t stages;
  double efficiency;  // share of the arithmetic peak that full multiprocessors reach

  [[nodiscard]] uint32_t threads() const { return m / thread_m * (n / thread_n) * depth_groups; }
};

struct ProductSize {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batches = 1;
};

struct TileChoice {
  TileShape tile;
  int64_t tiles = 0;        // per batch entry
  int64_t splits = 1;       // ranges of k
  int64_t split_k = 0;      // depth of a range, a multiple of the tile's k
  int64_t groups = 0;       // workgroups: tiles * splits * batches
  double microseconds = 0;  // estimated, from the kernel's start on

  [[nodiscard]] std::string text() const;  // "64x64x16 tile, split-k 2, 96 workgroups"
};

struct TileLimits {
  bool allow_splits = true;
  uint32_t acc_bytes = 4;  // shared memory must hold the staged panels in accumulator precision
  // Panels of 8 depths: faster where staging is a plain copy, slower where it reckons places.
  bool allow_shallow = false;
};

// Each tile with each split that fits.
std::vector<TileChoice> tile_candidates(const ProductSize& size, const TileLimits& limits,
                                        const DeviceModel& device);
// Of these the one that the model expects to be fastest.
TileChoice choose_tile(const ProductSize& size, const TileLimits& limits,
                       const DeviceModel& device);

// The time that the choice goes by, on any device: that of a step, less what every step takes; with
// the pass that joins splits.
double tile_microseconds(const ProductSize& size, const TileChoice& choice,
                         const DeviceModel& device);

// Sets workgroup and the RLX_TILE_* defines.
template <typename Params>
void define_tile(DispatchBuilder<Params>& dispatch, const TileShape& tile) {
  dispatch.workgroup({tile.threads(), 1, 1})
      .define("RLX_TILE_M", tile.m)
      .define("RLX_TILE_N", tile.n)
      .define("RLX_TILE_K", tile.k)
      .define("RLX_THREAD_M", tile.thread_m)
      .define("RLX_THREAD_N", tile.thread_n)
      .define("RLX_DEPTH_GROUPS", tile.depth_groups)
      .define("RLX_STAGES", tile.stages);
}

}  // namespace rlx
