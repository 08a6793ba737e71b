// SPDX-License-Identifier: Apache-2.0
// y[n, co, o] = act(sum over c of the group and taps t of x[n, c, o * stride + t * dilation - begin] * w[co, c, t] + bias[co]) +
//   residual[n, co, o]: an implicit matrix product of the weights [Co/g, K] with columns that are gathered while they are staged,
//   K = C/g * taps. Spatial dims are D, H, W; those that the op lacks have size 1.
// Layout: w [Co, C/g, D, H, W] is dense; y and residual [N, Co, D, H, W] have dense pixels (lib/planes.cuh); x has any strides.
// Grid: groups x tiles of (Co/g) x (N * pixels) workgroups, spread by split_grid.
// Specializations: tile shape (lib/tile.cuh), epilogue (lib/product.cuh); RLX_GROUPS, RLX_GROUP_IN (C/g), RLX_GROUP_OUT (Co/g),
//   RLX_IMAGES; window as in conv_window.h; storage types RLX_X, RLX_W; strides RLX_X_N, RLX_X_C, RLX_X_D, RLX_X_H, RLX_X_W;
//   RLX_W_VECTOR: DEPTH where K elements of w are read in aligned vectors, else 1.
// Numerics: f32, f16 and bf16 accumulate in f32, f64 in f64; pads are zeros that are multiplied; one rounding at the store.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/product.cuh"
#include "lib/tile.cuh"

RLX_PARAMS(ConvParams);

#define RLX_TAPS (RLX_KERNEL_D * RLX_KERNEL_H * RLX_KERNEL_W)
#define RLX_K (RLX_GROUP_IN * RLX_TAPS)
#define RLX_PIXELS (RLX_OUT_D * RLX_OUT_H * RLX_OUT_W)
#define RLX_COLUMNS (RLX_IMAGES * RLX_PIXELS)
#define RLX_TILES_M ((RLX_GROUP_OUT + RLX_TILE_M - 1) / RLX_TILE_M)
#define RLX_TILES_N ((RLX_COLUMNS + RLX_TILE_N - 1) / RLX_TILE_N)
#define RLX_TILES (RLX_TILES_M * RLX_TILES_N)

#define RLX_PLANES (RLX_GROUPS * RLX_GROUP_OUT)
#include "lib/planes.cuh"

RLX_PANEL_LOADER(load_w_panel, RLX_W, RLX_GROUP_OUT, RLX_K, 1, RLX_W_VECTOR)

// Where the window of a column begins; `offset` is that of its image.
struct Column {
  RLX_INDEX offset;
  int d;
  int h;
  int w;
  bool inside;
};
RLX_FN Column column_of(rlx_u32 column) {
  const rlx_u32 pixel = column % rlx_u32(RLX_PIXELS);
  Column place;
  place.inside = column < rlx_u32(RLX_COLUMNS);
  place.offset = RLX_INDEX(column / rlx_u32(RLX_PIXELS)) * RLX_X_N;
  place.d = int(pixel / rlx_u32(RLX_OUT_H * RLX_OUT_W)) * RLX_STRIDE_D - RLX_BEGIN_D;
  place.h = int(pixel / rlx_u32(RLX_OUT_W) % rlx_u32(RLX_OUT_H)) * RLX_STRIDE_H - RLX_BEGIN_H;
  place.w = int(pixel % rlx_u32(RLX_OUT_W)) * RLX_STRIDE_W - RLX_BEGIN_W;
  return place;
}

// The element of x that depth `k` of a column reads; pads are 0.
RLX_FN rlx_acc_t gather(rlx_ptr x, Column column, rlx_u32 k) {
  const int tap_w = int(k % rlx_u32(RLX_KERNEL_W));
  const int tap_h = int(k / rlx_u32(RLX_KERNEL_W) % rlx_u32(RLX_KERNEL_H));
  const int tap_d = int(k / rlx_u32(RLX_KERNEL_W * RLX_KERNEL_H) % rlx_u32(RLX_KERNEL_D));
  const rlx_u32 channel = k / rlx_u32(RLX_TAPS);
  const int d = column.d + tap_d * RLX_DILATION_D;
  const int h = column.h + tap_h * RLX_DILATION_H;
  const int w = column.w + tap_w * RLX_DILATION_W;
  const bool in_image = rlx_u32(d) < rlx_u32(RLX_IN_D) && rlx_u32(h) < rlx_u32(RLX_IN_H) && rlx_u32(w) < rlx_u32(RLX_IN_W);
  if (!column.inside || k >= rlx_u32(RLX_K) || !in_image) return rlx_acc_t(0);
  const RLX_INDEX at = column.offset + RLX_INDEX(channel) * RLX_X_C + RLX_INDEX(d) * RLX_X_D +
                       RLX_INDEX(h) * RLX_X_H + RLX_INDEX(w) * RLX_X_W;
  return RLX_ELEMENT(RLX_X, x, at);
}

// The blocks of the panels at `depth` that this thread stages; columns[load] are those of its block.
RLX_FN void load_blocks(rlx_ptr w, rlx_ptr x, Column columns[RLX_BLOCK_LOADS][4], rlx_u32 tile_m, rlx_u32 depth,
                        rlx_acc4_t next[RLX_BLOCK_LOADS][4]) {
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_BLOCK_LOADS); ++load) {
    const rlx_u32 block = rlx_local_index + load * rlx_u32(RLX_BLOCK_SIZE);
    if (block < rlx_u32(RLX_A_BLOCKS)) {
      const BlockPlace place = rlx_block_place(block, rlx_u32(RLX_A_PITCH));
      load_w_panel(w, tile_m * rlx_u32(RLX_TILE_M) + place.line4 * 4u, depth + place.depth4 * 4u, rlx_u32(RLX_K), next[load]);
    } else if (block < rlx_u32(RLX_A_BLOCKS + RLX_B_BLOCKS)) {
      const BlockPlace place = rlx_block_place(block - rlx_u32(RLX_A_BLOCKS), rlx_u32(RLX_B_PITCH));
      RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) {
        RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) {
          next[load][i][j] = gather(x, columns[load][j], depth + place.depth4 * 4u + i);
        }
      }
    }
  }
}

RLX_FN void stage_blocks(rlx_u32 stage, rlx_acc4_t next[RLX_BLOCK_LOADS][4]) {
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_BLOCK_LOADS); ++load) {
    const rlx_u32 block = rlx_local_index + load * rlx_u32(RLX_BLOCK_SIZE);
    if (block < rlx_u32(RLX_A_BLOCKS + RLX_B_BLOCKS)) rlx_stage_block(block, stage, next[load]);
  }
}

RLX_MAIN {
  const rlx_u32 linear = rlx_u32(rlx_linear_group);
  if (linear >= rlx_u32(RLX_TILES) * rlx_u32(RLX_GROUPS)) return;
  const TilePlace tile = rlx_tile_place(linear % rlx_u32(RLX_TILES), rlx_u32(RLX_TILES_M), rlx_u32(RLX_TILES_N));
  const rlx_u32 group = linear / rlx_u32(RLX_TILES);
  const rlx_ptr w = RLX_AT(p.w, rlx_i64(group) * rlx_i64(RLX_GROUP_OUT) * rlx_i64(RLX_K), RLX_CAT(rlx_bytes_, RLX_W));
  const rlx_ptr x = RLX_AT(p.x, rlx_i64(group) * rlx_i64(RLX_GROUP_IN) * rlx_i64(RLX_X_C), RLX_CAT(rlx_bytes_, RLX_X));
  const TileThread place = rlx_tile_thread(rlx_local_index);
  const rlx_u32 steps = rlx_u32((RLX_K + RLX_TILE_K - 1) / RLX_TILE_K);

  Column columns[RLX_BLOCK_LOADS][4];
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_BLOCK_LOADS); ++load) {
    const rlx_u32 block = rlx_local_index + load * rlx_u32(RLX_BLOCK_SIZE);
    const rlx_u32 first = tile.n * rlx_u32(RLX_TILE_N) +
                       rlx_block_place(block < rlx_u32(RLX_A_BLOCKS) ? 0u : block - rlx_u32(RLX_A_BLOCKS), rlx_u32(RLX_B_PITCH)).line4 * 4u;
    RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) columns[load][j] = column_of(first + j);
  }

  // Multiply: the panels of the next step travel to registers while the present ones are used.
  rlx_acc4_t RLX_SUMS;
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_THREAD_M); ++i) {
    RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS_N); ++j) acc[i][j] = rlx_acc4_splat(0);
  }
  rlx_acc4_t next[RLX_BLOCK_LOADS][4];
  load_blocks(w, x, columns, tile.m, 0u, next);
  stage_blocks(0u, next);
  rlx_barrier();
  for (rlx_u32 step = 0u; step < steps; ++step) {
    const rlx_u32 stage = step % rlx_u32(RLX_STAGES);
    const bool more = step + 1u < steps;
    if (more) load_blocks(w, x, columns, tile.m, (step + 1u) * rlx_u32(RLX_TILE_K), next);
    rlx_multiply_stage(stage, place, acc);
#if RLX_STAGES == 1
    rlx_barrier();
#endif
    if (more) stage_blocks((step + 1u) % rlx_u32(RLX_STAGES), next);
    rlx_barrier();
  }
  rlx_join_depth_groups(place, rlx_local_index, acc);
  if (place.depth_group > 0u) return;

  // Store.
#ifdef RLX_BIAS
  const rlx_ptr bias = RLX_AT(p.bias, rlx_i64(group) * rlx_i64(RLX_GROUP_OUT) * rlx_i64(RLX_BIAS_M), RLX_CAT(rlx_bytes_, RLX_BIAS));
#else
  const rlx_ptr bias = 0;
#endif
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_THREAD_M); ++i) {
    const rlx_u32 row = tile.m * rlx_u32(RLX_TILE_M) + RLX_TILE_ROW(place, i);
    if (row < rlx_u32(RLX_GROUP_OUT)) {
      RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS_N); ++j) {
        const rlx_u32 first = tile.n * rlx_u32(RLX_TILE_N) + RLX_TILE_COLUMN(place, j);
#if RLX_Y_VECTOR == 4
        const rlx_u32 width = 4u;
#else
        const rlx_u32 width = 1u;
#endif
        RLX_UNROLL for (rlx_u32 c = 0u; c < 4u; c += width) {
          const rlx_u32 column = first + c;
          if (column < rlx_u32(RLX_COLUMNS)) {
            const rlx_u32 image = column / rlx_u32(RLX_PIXELS);
            const rlx_u32 channel = group * rlx_u32(RLX_GROUP_OUT);  // the group's first
            const RLX_INDEX m = RLX_INDEX(row);
            const RLX_INDEX n = RLX_INDEX(column % rlx_u32(RLX_PIXELS));
            const rlx_ptr out_base = RLX_AT(p.y, rlx_y_plane(image, channel), RLX_CAT(rlx_bytes_, RLX_Y));
#ifdef RLX_RESIDUAL
            const rlx_ptr residual = RLX_AT(p.residual, rlx_residual_plane(image, channel), RLX_CAT(rlx_bytes_, RLX_RESIDUAL));
#else
            const rlx_ptr residual = 0;
#endif
            const RLX_INDEX at = m * RLX_INDEX(RLX_Y_C) + n;
#if RLX_Y_VECTOR == 4
            RLX_CAT(rlx_store4_, RLX_Y)(out_base, at, rlx_finish4(acc[i][j], bias, residual, m, n));
#else
            RLX_CAT(rlx_store_, RLX_Y)(out_base, at, rlx_finish(acc[i][j][c], bias, residual, m, n));
#endif
          }
        }
      }
    }
  }
}
