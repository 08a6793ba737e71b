// SPDX-License-Identifier: Apache-2.0
// y[m, n] = act(sum over k of a[m, k] * b[k, n] + bias[m, n]) + residual[m, n], for every batch entry: by tiles that eight lanes keep in
// registers, for drivers that run subgroups as vectors of a CPU, where a load costs as much as tens of multiplications and a barrier more.
// Layout: as in matmul.kernel.
// Grid: tiles of RLX_TILE_M x RLX_TILE_N x batches groups, of eight threads each, spread by split_grid.
// Specializations: RLX_VECTORS: fours of columns of a thread; RLX_PAIRED_LOADS 1 (lib/storage.inc); epilogue
//   (lib/product.inc); RLX_M, RLX_N, RLX_K, RLX_BATCHES, the operands' types, strides and vectors, and generated/batch.inc as in matmul.kernel. RLX_ACC is f32 or i32.
// Phases: at each four depths a lane loads those of four rows of a, which it gives to the others, and of its columns of b. The sums then
//   pass through shared memory, each lane's own, so that the epilogue is a loop.
// Numerics: f32, f16 and bf16 accumulate in f32, i8 and u8 in i32, depth by depth; one rounding at the store.
#include "lib/prelude.inc"
#include "lib/storage.inc"
#include "lib/product.inc"
#include "lib/lines.inc"

RLX_PARAMS(MatmulParams);

#define RLX_LANES 8
#define RLX_TILE_M (4 * RLX_LANES)
#define RLX_TILE_N (4 * RLX_LANES * RLX_VECTORS)
#define RLX_TILES_M ((RLX_M + RLX_TILE_M - 1) / RLX_TILE_M)
#define RLX_TILES_N ((RLX_N + RLX_TILE_N - 1) / RLX_TILE_N)
#define RLX_TILES (RLX_TILES_M * RLX_TILES_N)

#include "lib/panel.inc"
#include "lib/tile_place.inc"

RLX_PANEL_LOADER(load_a_panel, RLX_A, RLX_M, RLX_A_LINE, RLX_A_DEPTH, RLX_A_VECTOR)
RLX_PANEL_LOADER(load_b_panel, RLX_B, RLX_N, RLX_B_LINE, RLX_B_DEPTH, RLX_B_VECTOR)

shared rlx_acc4_t rlx_sums[RLX_TILE_M * RLX_VECTORS * RLX_LANES];

RLX_MAIN {
  const rlx_u32 group = rlx_u32(rlx_linear_group);
  if (group >= rlx_u32(RLX_TILES) * rlx_u32(RLX_BATCHES)) return;
  const TilePlace tile = rlx_tile_place(group % rlx_u32(RLX_TILES), rlx_u32(RLX_TILES_M), rlx_u32(RLX_TILES_N));
  const rlx_u32 batch = group / rlx_u32(RLX_TILES);
#include "generated/batch.inc"
  const rlx_ptr a = RLX_AT(p.a, a_batch, RLX_CAT(rlx_bytes_, RLX_A));
  const rlx_ptr b = RLX_AT(p.b, b_batch, RLX_CAT(rlx_bytes_, RLX_B));
  const bool in_one_subgroup = gl_SubgroupSize >= rlx_u32(RLX_LANES);
  const rlx_u32 lane = in_one_subgroup ? gl_SubgroupInvocationID : rlx_local_index;
  const rlx_u32 first_row = tile.m * rlx_u32(RLX_TILE_M);
  const rlx_u32 first_column = tile.n * rlx_u32(RLX_TILE_N) + lane * 4u;
  const rlx_u32 depth_end = rlx_u32(RLX_K);

  rlx_acc4_t acc[RLX_TILE_M][RLX_VECTORS];
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_TILE_M); ++i) {
    RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS); ++j) acc[i][j] = rlx_acc4_splat(0);
  }
  for (rlx_u32 depth = 0u; depth < depth_end; depth += 4u) {
    rlx_acc4_t columns[RLX_VECTORS][4];
    RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS); ++j) {
      load_b_panel(b, first_column + j * rlx_u32(4 * RLX_LANES), depth, depth_end, columns[j]);
    }
    rlx_acc4_t own[4];
    load_a_panel(a, first_row + lane * 4u, depth, depth_end, own);
    RLX_UNROLL for (rlx_u32 from = 0u; from < rlx_u32(RLX_LANES); ++from) {
      rlx_acc4_t rows[4];
      if (in_one_subgroup) {
        RLX_UNROLL for (rlx_u32 d = 0u; d < 4u; ++d) rows[d] = subgroupShuffle(own[d], from);
      } else {
        load_a_panel(a, first_row + from * 4u, depth, depth_end, rows);
      }
      RLX_UNROLL for (rlx_u32 d = 0u; d < 4u; ++d) {
        RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) {
          RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS); ++j) acc[from * 4u + i][j] += rows[d][i] * columns[j][d];
        }
      }
    }
  }

  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_TILE_M); ++i) {
    RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS); ++j) {
      rlx_sums[(i * rlx_u32(RLX_VECTORS) + j) * rlx_u32(RLX_LANES) + lane] = acc[i][j];
    }
  }
  const rlx_ptr out_base = RLX_AT(p.y, rlx_y_entry(batch), RLX_CAT(rlx_bytes_, RLX_Y));
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
  const rlx_u32 rows = min(rlx_u32(RLX_TILE_M), rlx_u32(RLX_M) - first_row);
  RLX_LOOP for (rlx_u32 place = 0u; place < rows * rlx_u32(RLX_VECTORS); ++place) {
    const RLX_INDEX m = RLX_INDEX(first_row + place / rlx_u32(RLX_VECTORS));
    const rlx_u32 column = first_column + place % rlx_u32(RLX_VECTORS) * rlx_u32(4 * RLX_LANES);
    const RLX_INDEX n = RLX_INDEX(column);
    const rlx_acc4_t sum = rlx_sums[place * rlx_u32(RLX_LANES) + lane];
#if RLX_Y_VECTOR == 4
    if (column < rlx_u32(RLX_N)) {
      RLX_CAT(rlx_store4_, RLX_Y)(out_base, rlx_y_element(m, n), rlx_finish4(sum, bias, residual, m, n));
    }
#else
    RLX_UNROLL for (rlx_u32 c = 0u; c < 4u; ++c) {
      if (column + c < rlx_u32(RLX_N)) {
        const RLX_INDEX k = RLX_INDEX(c);
        RLX_CAT(rlx_store_, RLX_Y)(out_base, rlx_y_element(m, n + k), rlx_finish(sum[c], bias, residual, m, n + k));
      }
    }
#endif
  }
}
