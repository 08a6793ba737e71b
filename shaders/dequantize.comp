// SPDX-License-Identifier: Apache-2.0
// Values from codes, in two forms.
// Blocks (RLX_W_ELEMENTS defined): y = the decoded elements of a block-typed x [rows, RLX_K], as they stand or with RLX_TRANSPOSED
//   [.., RLX_N, RLX_K] -> [.., RLX_K, RLX_N]. Grid: one thread per piece of 32 elements (lib/blocks.glsl); where it transposes,
//   neighbouring threads have neighbouring rows. Specializations: those of lib/blocks.glsl, RLX_Y, RLX_Y_VECTOR 8: whole runs are stored
//   at once; rlx_index; generated/sizes.inc: RLX_COUNT pieces.
// Scaled: y = (x - zero) * scale, the difference in 32-bit integers, the product in f32. scale and zero hold one value (RLX_SCALES 0),
//   one per index of an axis (1) or per RLX_BLOCK indices of it (2). Grid: RLX_BLOCK_X threads of RLX_CHUNK elements.
//   Specializations: RLX_X codes, RLX_S scale, RLX_Z zero point (undefined: none), RLX_Y; RLX_AXIS size of the axis, RLX_INNER elements
//   after it, RLX_BLOCK; RLX_FLOAT_CODES 1: x is an 8-bit float; rlx_index; generated/sizes.inc: RLX_COUNT elements.
// Numerics: as lib/blocks.glsl, or in f32; one rounding to y.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "generated/sizes.inc"

RLX_PARAMS(QuantizeParams);

#ifdef RLX_W_ELEMENTS
#include "lib/blocks.glsl"

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
#else
#include "lib/scaled.glsl"

RLX_MAIN {
  const rlx_u64 thread = rlx_linear_group * rlx_u64(RLX_BLOCK_X) + rlx_u64(rlx_local_x);
  RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_CHUNK); ++j) {
    const rlx_u64 i = thread * rlx_u64(RLX_CHUNK) + rlx_u64(j);
    if (i < rlx_u64(RLX_COUNT)) {
      const rlx_i64 at = rlx_scale_place(rlx_index(i));
      const RLX_T scale = RLX_T(RLX_CAT(rlx_load_, RLX_S)(p.scale, at));
#if RLX_FLOAT_CODES
      const RLX_T code = RLX_CAT(rlx_f32_from_, RLX_X)(rlx_u32(rlx_load_u8(p.x, rlx_i64(i))));
#elif defined(RLX_Z)
      const RLX_T code = rlx_f32_from(rlx_sub(RLX_CAT(rlx_load_, RLX_X)(p.x, rlx_i64(i)), RLX_CAT(rlx_load_, RLX_Z)(p.zero, at)));
#else
      const RLX_T code = rlx_f32_from(RLX_CAT(rlx_load_, RLX_X)(p.x, rlx_i64(i)));
#endif
      RLX_CAT(rlx_store_, RLX_Y)(p.y, rlx_i64(i), code * scale);
    }
  }
}
#endif
