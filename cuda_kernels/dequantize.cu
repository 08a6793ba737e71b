// SPDX-License-Identifier: Apache-2.0
// y = the decoded elements of a block-typed x [.., RLX_N, RLX_K], as they stand or with RLX_TRANSPOSED as [.., RLX_K, RLX_N].
// Grid: one thread per piece of 32 elements (lib/blocks.cuh); where it transposes, neighbouring threads have neighbouring rows.
// Specializations: those of lib/blocks.cuh; RLX_Y, RLX_Y_VECTOR 8: whole runs are stored at once; rlx_index; generated/sizes.inc:
// RLX_COUNT pieces. Numerics: as lib/blocks.cuh; one rounding to y.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/blocks.cuh"
#include "generated/sizes.inc"

RLX_PARAMS(CopyParams);

RLX_MAIN {
  const rlx_u64 thread = rlx_linear_group * rlx_u64(RLX_BLOCK_X) + rlx_u64(rlx_local_x);
  if (thread >= rlx_u64(RLX_COUNT)) return;
  const rlx_index row_pieces = rlx_index(RLX_K / 32);
#if RLX_TRANSPOSED
  const rlx_index rest = rlx_index(thread) / rlx_index(RLX_N);
  const rlx_index n = rlx_index(thread) % rlx_index(RLX_N);
  const rlx_index column = rest % row_pieces;
  const rlx_index row = rest / row_pieces * rlx_index(RLX_N) + n;
#else
  const rlx_index column = rlx_index(thread) % row_pieces;
  const rlx_index row = rlx_index(thread) / row_pieces;
#endif
  const rlx_i64 block = rlx_i64(row) * rlx_i64(RLX_K / RLX_W_ELEMENTS) + rlx_i64(column / rlx_index(RLX_W_PIECES));
  const rlx_u32 piece = rlx_u32(column % rlx_index(RLX_W_PIECES));
  const Piece words = rlx_load_piece(p.x + rlx_ptr(block * rlx_i64(RLX_W_BYTES)), piece);
  RLX_UNROLL for (rlx_u32 run = 0u; run < 4u; ++run) {
    float w[8];
    rlx_decode_run(words, run, w);
#if RLX_TRANSPOSED
    const rlx_i64 k = rlx_i64(column / rlx_index(RLX_W_PIECES)) * rlx_i64(RLX_W_ELEMENTS) + rlx_i64(rlx_run_place(piece, run));
    const rlx_i64 first = (rlx_i64(row / rlx_index(RLX_N)) * rlx_i64(RLX_K) + k) * rlx_i64(RLX_N) + rlx_i64(n);
    RLX_UNROLL for (int i = 0; i < 8; ++i) RLX_CAT(rlx_store_, RLX_Y)(p.y, first + rlx_i64(i) * rlx_i64(RLX_N), RLX_CAT(rlx_t_, RLX_Y)(w[i]));
#else
    const rlx_i64 first = block * rlx_i64(RLX_W_ELEMENTS) + rlx_i64(rlx_run_place(piece, run));
#if RLX_Y_VECTOR == 8
    RLX_CAT(rlx_store8_, RLX_Y)(p.y, first, w);
#else
    RLX_UNROLL for (int i = 0; i < 8; ++i) RLX_CAT(rlx_store_, RLX_Y)(p.y, first + rlx_i64(i), RLX_CAT(rlx_t_, RLX_Y)(w[i]));
#endif
#endif
  }
}
