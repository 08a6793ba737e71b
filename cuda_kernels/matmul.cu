// SPDX-License-Identifier: Apache-2.0
// y[m, n] = act(sum over k of a[m, k] * b[k, n] + bias[m, n]) + residual[m, n], for every batch entry.
// Layout: a and b are strided and contiguous along one of their two axes; bias and residual have any strides; y has
//   dense lines (lib/lines.cuh).
// Grid: tiles x RLX_SPLITS x batches groups, spread by split_grid. RLX_PASS 0: one pass. With RLX_SPLITS > 1, pass 1 writes the
//   sums of each range of k to partial[split][batch][m][n], and pass 2 (a thread per RLX_Y_VECTOR elements) adds them in order.
// Specializations: tile shape (lib/tile.cuh), epilogue (lib/product.cuh); RLX_M, RLX_N, RLX_K, RLX_BATCHES, RLX_SPLIT_K (depth of
//   a split); RLX_A, RLX_B storage types; RLX_A_LINE, RLX_A_DEPTH, RLX_B_LINE, RLX_B_DEPTH strides (a line is an m of a, an n of b);
//   RLX_A_VECTOR, RLX_B_VECTOR: LINE or DEPTH where four neighbours along that axis are one aligned load, else 1;
//   generated/batch.inc: element offsets a_batch, b_batch, bias_batch, residual_batch (rlx_i64) of `batch`.
// Numerics: f32, f16 and bf16 accumulate in f32, f64 in f64, i8 and u8 in i32; one rounding at the store.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/product.cuh"
#include "lib/lines.cuh"

RLX_PARAMS(MatmulParams);

#define RLX_TILES_M ((RLX_M + RLX_TILE_M - 1) / RLX_TILE_M)
#define RLX_TILES_N ((RLX_N + RLX_TILE_N - 1) / RLX_TILE_N)
#define RLX_TILES (RLX_TILES_M * RLX_TILES_N)

#if RLX_PASS == 2
RLX_MAIN {
  // Counts below 2^31: longer results are not split.
  const rlx_u32 count = rlx_u32(RLX_BATCHES) * rlx_u32(RLX_M) * rlx_u32(RLX_N);
  const rlx_u32 first = (rlx_u32(rlx_linear_group) * rlx_u32(RLX_BLOCK_SIZE) + rlx_local_index) * rlx_u32(RLX_Y_VECTOR);
  if (first >= count) return;
  const rlx_u32 batch = first / rlx_u32(RLX_M * RLX_N);
  const rlx_u32 element = first % rlx_u32(RLX_M * RLX_N);
  const RLX_INDEX m = RLX_INDEX(element / rlx_u32(RLX_N));
  const RLX_INDEX n = RLX_INDEX(element % rlx_u32(RLX_N));
#include "generated/batch.inc"
#ifdef RLX_BIAS
  const rlx_ptr bias = RLX_AT(p.bias, bias_batch, RLX_CAT(rlx_bytes_, RLX_BIAS));
#else
  const rlx_ptr bias = 0;
#endif
#ifdef RLX_RESIDUAL
  const rlx_ptr residual = RLX_AT(p.residual, residual_batch, RLX_CAT(rlx_bytes_, RLX_RESIDUAL));
#else
  const rlx_ptr residual = 0;
#endif
  const rlx_ptr out_base = RLX_AT(p.y, rlx_y_entry(batch), RLX_CAT(rlx_bytes_, RLX_Y));
  const RLX_INDEX at = rlx_y_element(m, n);
#if RLX_Y_VECTOR == 4
  rlx_acc4_t sum = rlx_acc4_splat(0);
  for (rlx_u32 split = 0u; split < rlx_u32(RLX_SPLITS); ++split) {
    sum += RLX_CAT(rlx_load4_, RLX_ACC)(p.partial, rlx_i64(rlx_u64(split) * rlx_u64(count) + rlx_u64(first)));
  }
  RLX_CAT(rlx_store4_, RLX_Y)(out_base, at, rlx_finish4(sum, bias, residual, m, n));
#else
  rlx_acc_t sum = rlx_acc_t(0);
  for (rlx_u32 split = 0u; split < rlx_u32(RLX_SPLITS); ++split) {
    sum += RLX_CAT(rlx_load_, RLX_ACC)(p.partial, rlx_i64(rlx_u64(split) * rlx_u64(count) + rlx_u64(first)));
  }
  RLX_CAT(rlx_store_, RLX_Y)(out_base, at, rlx_finish(sum, bias, residual, m, n));
#endif
}
#else
#include "lib/tile.cuh"

RLX_PANEL_LOADER(load_a_panel, RLX_A, RLX_M, RLX_A_LINE, RLX_A_DEPTH, RLX_A_VECTOR)
RLX_PANEL_LOADER(load_b_panel, RLX_B, RLX_N, RLX_B_LINE, RLX_B_DEPTH, RLX_B_VECTOR)

// The blocks of the panels at `depth` that this thread stages.
RLX_FN void load_blocks(rlx_ptr a, rlx_ptr b, TilePlace tile, rlx_u32 depth, rlx_u32 depth_end,
                        rlx_acc4_t next[RLX_BLOCK_LOADS][4]) {
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_BLOCK_LOADS); ++load) {
    const rlx_u32 block = rlx_local_index + load * rlx_u32(RLX_BLOCK_SIZE);
    if (block < rlx_u32(RLX_A_BLOCKS)) {
      const BlockPlace place = rlx_block_place(block, rlx_u32(RLX_A_PITCH));
      load_a_panel(a, tile.m * rlx_u32(RLX_TILE_M) + place.line4 * 4u, depth + place.depth4 * 4u, depth_end, next[load]);
    } else if (block < rlx_u32(RLX_A_BLOCKS + RLX_B_BLOCKS)) {
      const BlockPlace place = rlx_block_place(block - rlx_u32(RLX_A_BLOCKS), rlx_u32(RLX_B_PITCH));
      load_b_panel(b, tile.n * rlx_u32(RLX_TILE_N) + place.line4 * 4u, depth + place.depth4 * 4u, depth_end, next[load]);
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
  const rlx_u32 group = rlx_u32(rlx_linear_group);
  if (group >= rlx_u32(RLX_TILES) * rlx_u32(RLX_SPLITS) * rlx_u32(RLX_BATCHES)) return;
  const TilePlace tile = rlx_tile_place(group % rlx_u32(RLX_TILES), rlx_u32(RLX_TILES_M), rlx_u32(RLX_TILES_N));
  const rlx_u32 split = group / rlx_u32(RLX_TILES) % rlx_u32(RLX_SPLITS);
  const rlx_u32 batch = group / (rlx_u32(RLX_TILES) * rlx_u32(RLX_SPLITS));
#include "generated/batch.inc"
  const rlx_ptr a = RLX_AT(p.a, a_batch, RLX_CAT(rlx_bytes_, RLX_A));
  const rlx_ptr b = RLX_AT(p.b, b_batch, RLX_CAT(rlx_bytes_, RLX_B));
  const TileThread place = rlx_tile_thread(rlx_local_index);
  const rlx_u32 depth_begin = split * rlx_u32(RLX_SPLIT_K);
  const rlx_u32 depth_end = min(rlx_u32(RLX_K), depth_begin + rlx_u32(RLX_SPLIT_K));
  const rlx_u32 steps = (depth_end - depth_begin + rlx_u32(RLX_TILE_K - 1)) / rlx_u32(RLX_TILE_K);

  // Multiply: the panels of the next step travel to registers while the present ones are used.
  rlx_acc4_t RLX_SUMS;
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_THREAD_M); ++i) {
    RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS_N); ++j) acc[i][j] = rlx_acc4_splat(0);
  }
  rlx_acc4_t next[RLX_BLOCK_LOADS][4];
  load_blocks(a, b, tile, depth_begin, depth_end, next);
  stage_blocks(0u, next);
  rlx_barrier();
  for (rlx_u32 step = 0u; step < steps; ++step) {
    const rlx_u32 stage = step % rlx_u32(RLX_STAGES);
    const bool more = step + 1u < steps;
    if (more) load_blocks(a, b, tile, depth_begin + (step + 1u) * rlx_u32(RLX_TILE_K), depth_end, next);
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
#if RLX_PASS == 1
  const rlx_ptr out_base = RLX_AT(p.partial, (rlx_i64(split) * RLX_BATCHES + rlx_i64(batch)) * rlx_i64(RLX_M) * rlx_i64(RLX_N),
                                  RLX_CAT(rlx_bytes_, RLX_ACC));
#else
  const rlx_ptr out_base = RLX_AT(p.y, rlx_y_entry(batch), RLX_CAT(rlx_bytes_, RLX_Y));
#endif
#ifdef RLX_BIAS
  const rlx_ptr bias = RLX_AT(p.bias, bias_batch, RLX_CAT(rlx_bytes_, RLX_BIAS));
#else
  const rlx_ptr bias = 0;
#endif
#ifdef RLX_RESIDUAL
  const rlx_ptr residual = RLX_AT(p.residual, residual_batch, RLX_CAT(rlx_bytes_, RLX_RESIDUAL));
#else
  const rlx_ptr residual = 0;
#endif
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_THREAD_M); ++i) {
    const rlx_u32 row = tile.m * rlx_u32(RLX_TILE_M) + RLX_TILE_ROW(place, i);
    if (row < rlx_u32(RLX_M)) {
      RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS_N); ++j) {
        const rlx_u32 column = tile.n * rlx_u32(RLX_TILE_N) + RLX_TILE_COLUMN(place, j);
        const RLX_INDEX m = RLX_INDEX(row);
        const RLX_INDEX n = RLX_INDEX(column);
#if RLX_PASS == 1
        const RLX_INDEX at = m * RLX_INDEX(RLX_N) + n;
#else
        const RLX_INDEX at = rlx_y_element(m, n);
#endif
#if RLX_Y_VECTOR == 4
        if (column < rlx_u32(RLX_N)) {
#if RLX_PASS == 1
          RLX_CAT(rlx_store4_, RLX_ACC)(out_base, at, acc[i][j]);
#else
          RLX_CAT(rlx_store4_, RLX_Y)(out_base, at, rlx_finish4(acc[i][j], bias, residual, m, n));
#endif
        }
#else
        RLX_UNROLL for (rlx_u32 c = 0u; c < 4u; ++c) {
          if (column + c < rlx_u32(RLX_N)) {
            const RLX_INDEX k = RLX_INDEX(c);
#if RLX_PASS == 1
            RLX_CAT(rlx_store_, RLX_ACC)(out_base, at + k, acc[i][j][c]);
#else
            RLX_CAT(rlx_store_, RLX_Y)(out_base, at + k, rlx_finish(acc[i][j][c], bias, residual, m, n + k));
#endif
          }
        }
#endif
      }
    }
  }
}
#endif
