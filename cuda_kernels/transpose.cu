// SPDX-License-Identifier: Apache-2.0
// Batched matrix transposition, bit by bit: y[batch, r, c] = x[batch, r, c], where x runs along r and y along c.
// Layout: x(r, c) at r + c * RLX_X_STRIDE, y(r, c) at r * RLX_Y_STRIDE + c, both plus the batch's offset (generated/batch.inc).
// Grid: one workgroup of 32 x 8 per 32 x 32 tile, columns fastest, then rows, then batches, spread by split_grid.
// Specializations: RLX_RAW storage type, RLX_ROWS, RLX_COLUMNS, RLX_BATCHES and the two strides.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"

RLX_PARAMS(CopyParams);

// One column more than the tile's width, so that a column of the tile lies in different banks.
RLX_SHARED RLX_CAT(rlx_t_, RLX_RAW) tile[32][33];

RLX_MAIN {
  const rlx_u32 row_tiles = (RLX_ROWS + 31u) / 32u;
  const rlx_u32 column_tiles = (RLX_COLUMNS + 31u) / 32u;
  const rlx_u32 group = rlx_u32(rlx_linear_group);
  if (group >= row_tiles * column_tiles * RLX_BATCHES) return;
  rlx_u32 batch = group / (row_tiles * column_tiles);
  const rlx_u32 in_matrix = group % (row_tiles * column_tiles);
  const rlx_u32 row_start = in_matrix / column_tiles * 32u;
  const rlx_u32 column_start = in_matrix % column_tiles * 32u;
  rlx_u32 x_base = 0u;
  rlx_u32 y_base = 0u;
#include "generated/batch.inc"

  for (rlx_u32 j = rlx_local_y; j < 32u; j += RLX_BLOCK_Y) {
    const rlx_u32 r = row_start + rlx_local_x;
    const rlx_u32 c = column_start + j;
    if (r < RLX_ROWS && c < RLX_COLUMNS) {
      tile[j][rlx_local_x] = RLX_CAT(rlx_load_, RLX_RAW)(p.x, rlx_i64(x_base + r + c * RLX_X_STRIDE));
    }
  }
  rlx_barrier();
  for (rlx_u32 j = rlx_local_y; j < 32u; j += RLX_BLOCK_Y) {
    const rlx_u32 r = row_start + j;
    const rlx_u32 c = column_start + rlx_local_x;
    if (r < RLX_ROWS && c < RLX_COLUMNS) {
      RLX_CAT(rlx_store_, RLX_RAW)(p.y, rlx_i64(y_base + r * RLX_Y_STRIDE + c), tile[rlx_local_x][j]);
    }
  }
}
