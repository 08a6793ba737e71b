// SPDX-License-Identifier: Apache-2.0
// The weight matrix of a product, decoded eight elements at a time from any stored form:
//   RLX_W_ELEMENTS defined: blocks of lib/blocks.glsl, [RLX_N, RLX_K].
//   RLX_W_DENSE: storage type of a dense matrix.   RLX_W_CODES: 1 i8, 2 signed and 3 unsigned 4-bit, 4 E4M3, 5 E5M2, 6 E2M1, with side tensors:
//     scale [ceil(RLX_K / RLX_SCALE_BLOCK), RLX_N] in f32 or, for E2M1, as E4M3 bytes; RLX_SCALE 0: none, 1: one value, 2: per column,
//     3: per block and column; RLX_ZERO 1: zero points laid out as the scales; RLX_GLOBAL 1: `zero` is a factor for all instead.
//   RLX_W_ALONG_DEPTH 1: [RLX_N, RLX_K], rlx_depths8 gives depths k .. k + 7 of line n; 0: [RLX_K, RLX_N], rlx_columns8 gives lines
//     n .. n + 7 of depth k. What lies outside is zero. k, or n, is a multiple of 8.
//   RLX_W_VECTOR 8: eight neighbours are one aligned load; 1: element by element.
// 4-bit codes lie two to a byte, the even element in the low half. The twin of cuda_kernels/lib/weights.cuh.
#ifndef RLX_LIB_WEIGHTS_GLSL
#define RLX_LIB_WEIGHTS_GLSL

// Addresses of the matrix and its side tensors; unused ones are 0.
struct Weights {
  rlx_ptr w;
  rlx_ptr scale;
  rlx_ptr zero;
};

#ifdef RLX_W_ELEMENTS
#include "lib/blocks.glsl"

RLX_FN rlx_ptr rlx_block_address(Weights from, rlx_u32 n, rlx_u32 block) {
  return from.w + rlx_ptr((rlx_i64(n) * rlx_i64(RLX_K / RLX_W_ELEMENTS) + rlx_i64(block)) * rlx_i64(RLX_W_BYTES));
}
RLX_FN void rlx_depths8(Weights from, rlx_u32 k, rlx_u32 n, inout rlx_acc_t w[8]) {
  RLX_UNROLL for (int i = 0; i < 8; ++i) w[i] = rlx_acc_t(0);
  if (n >= rlx_u32(RLX_N) || k >= rlx_u32(RLX_K)) return;
  const rlx_u32 e = k % rlx_u32(RLX_W_ELEMENTS);
  const Piece words = rlx_load_piece(rlx_block_address(from, n, k / rlx_u32(RLX_W_ELEMENTS)), rlx_piece_of(e));
  const rlx_u32 wanted = rlx_run_of(e);
  // Every run is tested, so that the piece's arrays are indexed by constants and stay in registers.
  RLX_UNROLL for (rlx_u32 run = 0u; run < 4u; ++run) {
    if (run == wanted) rlx_decode_run(words, run, w);
  }
}

#elif defined(RLX_W_DENSE)
#if RLX_W_VECTOR == 8
#define RLX_DENSE8(at) RLX_CAT(rlx_load8_, RLX_W_DENSE)(from.w, at, w)
#endif
#if RLX_W_ALONG_DEPTH
RLX_FN void rlx_depths8(Weights from, rlx_u32 k, rlx_u32 n, inout rlx_acc_t w[8]) {
  RLX_UNROLL for (int i = 0; i < 8; ++i) w[i] = rlx_acc_t(0);
  if (n >= rlx_u32(RLX_N) || k >= rlx_u32(RLX_K)) return;
  const rlx_i64 at = rlx_i64(n) * rlx_i64(RLX_K) + rlx_i64(k);
#if RLX_W_VECTOR == 8
  RLX_DENSE8(at);
#else
  RLX_UNROLL for (rlx_u32 i = 0u; i < 8u; ++i) {
    if (k + i < rlx_u32(RLX_K)) w[i] = RLX_ELEMENT(RLX_W_DENSE, from.w, at + rlx_i64(i));
  }
#endif
}
#else
RLX_FN void rlx_columns8(Weights from, rlx_u32 k, rlx_u32 n, inout rlx_acc_t w[8]) {
  RLX_UNROLL for (int i = 0; i < 8; ++i) w[i] = rlx_acc_t(0);
  if (n >= rlx_u32(RLX_N) || k >= rlx_u32(RLX_K)) return;
  const rlx_i64 at = rlx_i64(k) * rlx_i64(RLX_N) + rlx_i64(n);
#if RLX_W_VECTOR == 8
  RLX_DENSE8(at);
#else
  RLX_UNROLL for (rlx_u32 i = 0u; i < 8u; ++i) {
    if (n + i < rlx_u32(RLX_N)) w[i] = RLX_ELEMENT(RLX_W_DENSE, from.w, at + rlx_i64(i));
  }
#endif
}
#endif

#else
#include "lib/float8.glsl"

// The value of code i of a word that starts with it.
RLX_FN float rlx_code_value(rlx_u32 bits) {
#if RLX_W_CODES == 1
  return rlx_f32(rlx_wrap_i8(int(bits)));
#elif RLX_W_CODES == 2
  return rlx_f32(int((bits & 15u) ^ 8u) - 8);
#elif RLX_W_CODES == 3
  return rlx_f32(bits & 15u);
#elif RLX_W_CODES == 4
  return rlx_f32_from_f8e4m3(bits & 0xFFu);
#elif RLX_W_CODES == 5
  return rlx_f32_from_f8e5m2(bits & 0xFFu);
#else
  const rlx_u32 code = bits & 7u;
  const float value = code < 4u ? 0.5f * rlx_f32(code) : (code < 6u ? rlx_f32(code) - 2.0f : 2.0f * rlx_f32(code) - 8.0f);
  return (bits & 8u) != 0u ? -value : value;
#endif
}

// Scale (times the global factor) and zero point of column n in a scale block.
RLX_FN float rlx_scale_at(Weights from, rlx_i64 at) {
#if RLX_SCALE == 0
  return 1.0f;
#elif RLX_W_CODES == 6
  float scale = rlx_f32_from_f8e4m3(rlx_u32(rlx_load_u8(from.scale, at)));
#if RLX_GLOBAL
  scale *= rlx_load_f32(from.zero, rlx_i64(0));
#endif
  return scale;
#else
  return rlx_load_f32(from.scale, at);
#endif
}
RLX_FN float rlx_zero_at(Weights from, rlx_i64 at) {
#if RLX_ZERO
  return rlx_load_f32(from.zero, at);
#else
  return 0.0f;
#endif
}

// Eight codes of element `first` and those behind it, as far as `count` goes, zero beyond.
RLX_FN void rlx_codes8(Weights from, rlx_i64 first, rlx_u32 count, inout float values[8]) {
#if RLX_W_VECTOR == 8 && (RLX_W_CODES == 1 || RLX_W_CODES == 4 || RLX_W_CODES == 5)
  const rlx_uvec2 words = rlx_raw8(from.w, first);
  RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) {
    values[i] = rlx_code_value(words.x >> (8u * i));
    values[i + 4u] = rlx_code_value(words.y >> (8u * i));
  }
#elif RLX_W_VECTOR == 8
  const rlx_u32 word = rlx_raw4(from.w, first / rlx_i64(2));
  RLX_UNROLL for (rlx_u32 i = 0u; i < 8u; ++i) values[i] = rlx_code_value(word >> (4u * i));
#else
  RLX_UNROLL for (rlx_u32 i = 0u; i < 8u; ++i) {
    values[i] = 0.0f;
    if (i < count) {
      const rlx_i64 at = first + rlx_i64(i);
#if RLX_W_CODES == 1 || RLX_W_CODES == 4 || RLX_W_CODES == 5
      values[i] = rlx_code_value(rlx_u32(rlx_load_u8(from.w, at)));
#else
      const rlx_u32 pair = rlx_u32(rlx_load_u8(from.w, at >> 1));
      values[i] = rlx_code_value(pair >> (4u * (rlx_u32(at) & 1u)));
#endif
    }
  }
#endif
}

#if RLX_W_ALONG_DEPTH
RLX_FN void rlx_depths8(Weights from, rlx_u32 k, rlx_u32 n, inout rlx_acc_t w[8]) {
  RLX_UNROLL for (int i = 0; i < 8; ++i) w[i] = rlx_acc_t(0);
  if (n >= rlx_u32(RLX_N) || k >= rlx_u32(RLX_K)) return;
  const rlx_u32 count = min(8u, rlx_u32(RLX_K) - k);
  float values[8];
  rlx_codes8(from, rlx_i64(n) * rlx_i64(RLX_K) + rlx_i64(k), count, values);
  const rlx_u32 scales = rlx_u32((RLX_K + RLX_SCALE_BLOCK - 1) / RLX_SCALE_BLOCK);
  const float scale = rlx_scale_at(from, rlx_i64(n) * rlx_i64(scales) + rlx_i64(k / rlx_u32(RLX_SCALE_BLOCK)));
  RLX_UNROLL for (rlx_u32 i = 0u; i < 8u; ++i) {
    if (i < count) w[i] = values[i] * scale;
  }
}
#else
RLX_FN void rlx_columns8(Weights from, rlx_u32 k, rlx_u32 n, inout rlx_acc_t w[8]) {
  RLX_UNROLL for (int i = 0; i < 8; ++i) w[i] = rlx_acc_t(0);
  if (n >= rlx_u32(RLX_N) || k >= rlx_u32(RLX_K)) return;
  const rlx_u32 count = min(8u, rlx_u32(RLX_N) - n);
  float values[8];
  rlx_codes8(from, rlx_i64(k) * rlx_i64(RLX_N) + rlx_i64(n), count, values);
#if RLX_SCALE == 3
  const rlx_i64 first = rlx_i64(k / rlx_u32(RLX_SCALE_BLOCK)) * rlx_i64(RLX_N) + rlx_i64(n);
#elif RLX_SCALE == 2
  const rlx_i64 first = rlx_i64(n);
#else
  const rlx_i64 first = rlx_i64(0);
#endif
  RLX_UNROLL for (rlx_u32 i = 0u; i < 8u; ++i) {
    if (i < count) {
      const rlx_i64 at = first + rlx_i64(RLX_SCALE >= 2 ? i : 0u);
      w[i] = (values[i] - rlx_zero_at(from, at)) * rlx_scale_at(from, at);
    }
  }
}
#endif
#endif

#endif
