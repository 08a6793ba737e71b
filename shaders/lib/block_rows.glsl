// SPDX-License-Identifier: Apache-2.0
// The body of gather for a block-typed x [RLX_SIZE, RLX_K]: y[r, :] = the decoded row index[r] of x. Negative indices count from the end
// once, then those outside [0, RLX_SIZE) take the nearest row (or zeros).
// Grid: one thread per piece of 32 elements of y. Specializations: lib/blocks.glsl; RLX_K, RLX_Y, RLX_Y_VECTOR 8: whole runs are stored at
// once; RLX_I dtype of the index, RLX_ZERO_OUTSIDE, rlx_index; generated/sizes.inc: RLX_SIZE, RLX_COUNT pieces of y.
// The twin of cuda_kernels/lib/block_rows.cuh.
#include "lib/blocks.glsl"

RLX_MAIN {
  const rlx_u64 thread = rlx_linear_group * rlx_u64(RLX_BLOCK_X) + rlx_u64(rlx_local_x);
  if (thread >= rlx_u64(RLX_COUNT)) return;
  const rlx_u32 column = rlx_u32(rlx_index(thread) % rlx_index(RLX_K / 32));
  const rlx_i64 row = rlx_i64(rlx_index(thread) / rlx_index(RLX_K / 32));
  rlx_i64 source = RLX_CAT(rlx_index_from_, RLX_I)(RLX_CAT(rlx_load_, RLX_I)(p.index, row));
  if (source < rlx_i64(0)) source += RLX_SIZE;
  const bool inside = source >= rlx_i64(0) && source < RLX_SIZE;
  source = min(max(source, rlx_i64(0)), max(rlx_i64(RLX_SIZE), rlx_i64(1)) - rlx_i64(1));
  const rlx_i64 block = source * rlx_i64(RLX_K / RLX_W_ELEMENTS) + rlx_i64(column / rlx_u32(RLX_W_PIECES));
  const rlx_u32 piece = column % rlx_u32(RLX_W_PIECES);
  const rlx_u32 first = column / rlx_u32(RLX_W_PIECES) * rlx_u32(RLX_W_ELEMENTS);
  const bool is_zero = RLX_ZERO_OUTSIDE != 0 && !inside;
  Piece words;
  if (!is_zero) words = rlx_load_piece(p.x + rlx_ptr(block * rlx_i64(RLX_W_BYTES)), piece);
  RLX_UNROLL for (rlx_u32 run = 0u; run < 4u; ++run) {
    float w[8];
    RLX_UNROLL for (int i = 0; i < 8; ++i) w[i] = 0.0f;
    if (!is_zero) rlx_decode_run(words, run, w);
    const rlx_i64 to = row * rlx_i64(RLX_K) + rlx_i64(first + rlx_run_place(piece, run));
#if RLX_Y_VECTOR == 8
    RLX_CAT(rlx_store8_, RLX_Y)(p.y, to, w);
#else
    RLX_UNROLL for (int i = 0; i < 8; ++i) RLX_CAT(rlx_store_, RLX_Y)(p.y, to + rlx_i64(i), w[i]);
#endif
  }
  RLX_COUNT_OUTSIDE(!inside && column == 0u ? 1u : 0u);
}
