// SPDX-License-Identifier: Apache-2.0
// Decoders of the block types of ops.md 0.10, in pieces of 32 elements: four runs of 8 neighbours, whose codes share words.
// Specializations: RLX_W_<type> 1 for the weight's type; RLX_W_ELEMENTS and RLX_W_BYTES of its block.
//   rlx_load_piece(block, piece): the words of piece 0 .. RLX_W_PIECES - 1 of the block at an address.
//   rlx_decode_run(words, run, w): elements rlx_run_place(piece, run) .. + 7 of the block.
//   rlx_piece_of(e), rlx_run_of(e): which run starts at element e of the block, a multiple of 8.
// Loads are as wide as the blocks' alignment allows: 16 bytes for q4_k and q5_k, 2 for the types of odd sizes.
// Numerics: scale * code is exact in f32; types with a minimum round once, at its addition.
// The twin of shaders/lib/blocks.glsl.
#ifndef RLX_LIB_BLOCKS_CUH
#define RLX_LIB_BLOCKS_CUH

#include "lib/float8.cuh"

#define RLX_W_PIECES (RLX_W_ELEMENTS / 32)

// How runs lie in the block: neighbours; two halves of nibbles 32 apart; four bit fields 32 apart.
#if defined(RLX_W_q4_k) || defined(RLX_W_q5_k)
RLX_FN rlx_u32 rlx_run_place(rlx_u32 piece, rlx_u32 run) {
  return (piece >> 1) * 64u + (piece & 1u) * 16u + (run >> 1) * 32u + (run & 1u) * 8u;
}
RLX_FN rlx_u32 rlx_piece_of(rlx_u32 e) { return (e >> 6) * 2u + ((e >> 4) & 1u); }
RLX_FN rlx_u32 rlx_run_of(rlx_u32 e) { return ((e >> 5) & 1u) * 2u + ((e >> 3) & 1u); }
#elif defined(RLX_W_q2_k) || defined(RLX_W_q3_k) || defined(RLX_W_q6_k)
RLX_FN rlx_u32 rlx_run_place(rlx_u32 piece, rlx_u32 run) { return (piece >> 2) * 128u + (piece & 3u) * 8u + run * 32u; }
RLX_FN rlx_u32 rlx_piece_of(rlx_u32 e) { return (e >> 7) * 4u + ((e >> 3) & 3u); }
RLX_FN rlx_u32 rlx_run_of(rlx_u32 e) { return (e >> 5) & 3u; }
#else
RLX_FN rlx_u32 rlx_run_place(rlx_u32 piece, rlx_u32 run) { return piece * 32u + run * 8u; }
RLX_FN rlx_u32 rlx_piece_of(rlx_u32 e) { return e >> 5; }
RLX_FN rlx_u32 rlx_run_of(rlx_u32 e) { return (e >> 3) & 3u; }
#endif

// Little-endian words from an address of the given alignment.
#define RLX_READ_WORDS_16(words, at, count)                                     \
  RLX_UNROLL for (int i_ = 0; i_ < (count); i_ += 4) {                          \
    const rlx_uvec4 four_ = rlx_raw16(at, rlx_i64(4 * i_));                     \
    words[i_] = four_.x;                                                        \
    words[i_ + 1] = four_.y;                                                    \
    words[i_ + 2] = four_.z;                                                    \
    words[i_ + 3] = four_.w;                                                    \
  }
#define RLX_READ_WORDS_8(words, at, count)                                      \
  RLX_UNROLL for (int i_ = 0; i_ < (count); i_ += 2) {                          \
    const rlx_uvec2 two_ = rlx_raw8(at, rlx_i64(4 * i_));                       \
    words[i_] = two_.x;                                                         \
    words[i_ + 1] = two_.y;                                                     \
  }
#define RLX_READ_WORDS_4(words, at, count)                                      \
  RLX_UNROLL for (int i_ = 0; i_ < (count); ++i_) words[i_] = rlx_raw4(at, rlx_i64(4 * i_))
#define RLX_READ_WORDS_2(words, at, count)                                      \
  RLX_UNROLL for (int i_ = 0; i_ < (count); ++i_) {                             \
    words[i_] = rlx_load_u16(at, rlx_i64(2 * i_)) | (rlx_load_u16(at, rlx_i64(2 * i_ + 1)) << 16); \
  }
#define RLX_READ_WORDS_1(words, at, count)                                      \
  RLX_UNROLL for (int i_ = 0; i_ < (count); ++i_) {                             \
    words[i_] = 0u;                                                             \
    RLX_UNROLL for (int j_ = 0; j_ < 4; ++j_) {                                 \
      words[i_] |= rlx_u32(rlx_load_u8(at, rlx_i64(4 * i_ + j_))) << rlx_u32(8 * j_); \
    }                                                                           \
  }

// Byte i of a word as a signed number.
RLX_FN float rlx_signed_byte(rlx_u32 word, rlx_u32 i) { return rlx_f32(rlx_wrap_i8(int(word >> (8u * i)))); }
RLX_FN float rlx_unsigned_byte(rlx_u32 word, rlx_u32 i) { return rlx_f32((word >> (8u * i)) & 0xFFu); }
// Four codes, one in each byte, minus `zero`: signed bytes. Codes and `zero` are below 64, so no byte carries into the next.
RLX_FN rlx_u32 rlx_minus(rlx_u32 codes, rlx_u32 zero) { return (codes + (0x80u - zero) * 0x01010101u) ^ 0x80808080u; }
// Bit b of each byte at bit `to` of it.
RLX_FN rlx_u32 rlx_bit_plane(rlx_u32 bytes, rlx_u32 b, rlx_u32 to) { return ((bytes >> b) & 0x01010101u) << to; }
// The entries of a table of 16 signed bytes, in four words, for the nibbles in the low half of each byte.
RLX_FN rlx_u32 rlx_look_up(rlx_u32 nibbles, rlx_u32 t0, rlx_u32 t1, rlx_u32 t2, rlx_u32 t3) {
  rlx_u32 entries = 0u;
  RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) {
    const rlx_u32 n = (nibbles >> (8u * i)) & 15u;
    const rlx_u32 words = n < 8u ? (n < 4u ? t0 : t1) : (n < 12u ? t2 : t3);
    entries |= ((words >> (8u * (n & 3u))) & 0xFFu) << (8u * i);
  }
  return entries;
}
// Twice the value of E2M1 codes.
RLX_FN rlx_u32 rlx_e2m1_twice(rlx_u32 nibbles) { return rlx_look_up(nibbles, 0x03020100u, 0x0C080604u, 0xFDFEFF00u, 0xF4F8FAFCu); }

// w = scale * byte + offset for the eight signed bytes of two words.
RLX_FN void rlx_expand(rlx_u32 low, rlx_u32 high, float scale, float offset, float (&w)[8]) {
  RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) {
    w[i] = scale * rlx_signed_byte(low, i) + offset;
    w[i + 4u] = scale * rlx_signed_byte(high, i) + offset;
  }
}
RLX_FN void rlx_expand(rlx_u32 low, rlx_u32 high, float scale, float (&w)[8]) {
  RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) {
    w[i] = scale * rlx_signed_byte(low, i);
    w[i + 4u] = scale * rlx_signed_byte(high, i);
  }
}

#define RLX_NIBBLES(word, high_half) (((word) >> (4u * (high_half))) & 0x0F0F0F0Fu)
#define RLX_PAIRS(word, field) (((word) >> (2u * (field))) & 0x03030303u)

#if defined(RLX_W_q4_0) || defined(RLX_W_q4_1) || defined(RLX_W_q5_0) || defined(RLX_W_q5_1) || defined(RLX_W_iq4_nl) || \
    defined(RLX_W_mxfp4)
// ---- 32 elements: nibbles of 16 bytes, the low halves first ----
struct Piece {
  rlx_u32 codes[4];
  rlx_u32 fifth[1];  // bit e: the fifth bit of element e
  float scale;
  float offset;
};
RLX_FN Piece rlx_load_piece(rlx_ptr block, rlx_u32 piece) {
  Piece words;
  words.fifth[0] = 0u;
  words.offset = 0.0f;
#if defined(RLX_W_mxfp4)
  RLX_READ_WORDS_1(words.codes, block + rlx_ptr(1), 4);
  words.scale = rlx_f32(rlx_load_u8(block, rlx_i64(0)));  // the exponent; see rlx_decode_run
#else
  words.scale = rlx_load_f16(block, rlx_i64(0));
#if defined(RLX_W_q4_1)
  words.offset = rlx_load_f16(block, rlx_i64(1));
  RLX_READ_WORDS_4(words.codes, block + rlx_ptr(4), 4);
#elif defined(RLX_W_q5_0)
  RLX_READ_WORDS_2(words.fifth, block + rlx_ptr(2), 1);
  RLX_READ_WORDS_2(words.codes, block + rlx_ptr(6), 4);
#elif defined(RLX_W_q5_1)
  words.offset = rlx_load_f16(block, rlx_i64(1));
  RLX_READ_WORDS_4(words.fifth, block + rlx_ptr(4), 1);
  RLX_READ_WORDS_8(words.codes, block + rlx_ptr(8), 4);
#else
  RLX_READ_WORDS_2(words.codes, block + rlx_ptr(2), 4);
#endif
#endif
  return words;
}
// Four neighbouring bits, one to each byte's bit 4.
RLX_FN rlx_u32 rlx_spread_fifth(rlx_u32 bits) {
  return ((bits & 1u) << 4) | ((bits & 2u) << 11) | ((bits & 4u) << 18) | ((bits & 8u) << 25);
}
RLX_FN void rlx_decode_run(Piece words, rlx_u32 run, float (&w)[8]) {
  rlx_u32 low = RLX_NIBBLES(words.codes[(run & 1u) * 2u], run >> 1);
  rlx_u32 high = RLX_NIBBLES(words.codes[(run & 1u) * 2u + 1u], run >> 1);
#if defined(RLX_W_q5_0) || defined(RLX_W_q5_1)
  low |= rlx_spread_fifth(words.fifth[0] >> (8u * run));
  high |= rlx_spread_fifth(words.fifth[0] >> (8u * run + 4u));
#endif
#if defined(RLX_W_q4_0)
  rlx_expand(rlx_minus(low, 8u), rlx_minus(high, 8u), words.scale, w);
#elif defined(RLX_W_q5_0)
  rlx_expand(rlx_minus(low, 16u), rlx_minus(high, 16u), words.scale, w);
#elif defined(RLX_W_iq4_nl)
  low = rlx_look_up(low, 0xBFAD9881u, 0xF6EADDCFu, 0x26190D01u, 0x71594535u);
  high = rlx_look_up(high, 0xBFAD9881u, 0xF6EADDCFu, 0x26190D01u, 0x71594535u);
  rlx_expand(low, high, words.scale, w);
#elif defined(RLX_W_mxfp4)
  // 2^(e - 127) spans more than f32's normal numbers: applied in two factors, and codes are twice their value.
  const int exponent = int(words.scale) - 128;
  rlx_expand(rlx_e2m1_twice(low), rlx_e2m1_twice(high), rlx_pow2(exponent >> 1), w);
  RLX_UNROLL for (int i = 0; i < 8; ++i) w[i] *= rlx_pow2(exponent - (exponent >> 1));
#else
  rlx_expand(low, high, words.scale, words.offset, w);
#endif
}

#elif defined(RLX_W_q8_0) || defined(RLX_W_q8_k)
// ---- signed bytes ----
struct Piece {
  rlx_u32 codes[8];
  float scale;
};
RLX_FN Piece rlx_load_piece(rlx_ptr block, rlx_u32 piece) {
  Piece words;
#if defined(RLX_W_q8_0)
  words.scale = rlx_load_f16(block, rlx_i64(0));
  RLX_READ_WORDS_2(words.codes, block + rlx_ptr(2), 8);
#else
  words.scale = rlx_load_f32(block, rlx_i64(0));
  RLX_READ_WORDS_4(words.codes, block + rlx_ptr(4u + 32u * piece), 8);
#endif
  return words;
}
RLX_FN void rlx_decode_run(Piece words, rlx_u32 run, float (&w)[8]) {
  rlx_expand(words.codes[2u * run], words.codes[2u * run + 1u], words.scale, w);
}

#elif defined(RLX_W_nvfp4)
// ---- two groups of 16 E2M1 codes: 8 bytes each, the low halves first ----
struct Piece {
  rlx_u32 codes[4];
  float scale[2];  // half of it: codes are twice their value
};
RLX_FN Piece rlx_load_piece(rlx_ptr block, rlx_u32 piece) {
  Piece words;
  RLX_READ_WORDS_4(words.codes, block + rlx_ptr(4u + 16u * piece), 4);
  RLX_UNROLL for (int g = 0; g < 2; ++g) {
    const rlx_u32 code = rlx_u32(rlx_load_u8(block, rlx_i64(2u * piece) + rlx_i64(g))) & 0x7Fu;
    words.scale[g] = code == 0x7Fu ? 0.0f : 0.5f * rlx_f32_from_f8e4m3(code);
  }
  return words;
}
RLX_FN void rlx_decode_run(Piece words, rlx_u32 run, float (&w)[8]) {
  const rlx_u32 first = (run >> 1) * 2u;
  rlx_expand(rlx_e2m1_twice(RLX_NIBBLES(words.codes[first], run & 1u)),
             rlx_e2m1_twice(RLX_NIBBLES(words.codes[first + 1u], run & 1u)), words.scale[run >> 1], w);
}

#elif defined(RLX_W_q4_k) || defined(RLX_W_q5_k)
// ---- 16 bytes of nibbles: 16 elements of one group of 32, and 16 of the next ----
struct Piece {
  rlx_u32 codes[4];
#if defined(RLX_W_q5_k)
  rlx_u32 fifth[4];  // bit 0 and 1 of each byte: the fifth bits of both halves
#endif
  float scale[2];
  float offset[2];
};
RLX_FN Piece rlx_load_piece(rlx_ptr block, rlx_u32 piece) {
  Piece words;
  rlx_u32 head[4];  // d and dmin, then the twelve bytes of 6-bit scales and minima
  RLX_READ_WORDS_16(head, block, 4);
#if defined(RLX_W_q5_k)
  RLX_READ_WORDS_16(words.fifth, block + rlx_ptr(16u + 16u * (piece & 1u)), 4);
  RLX_UNROLL for (int i = 0; i < 4; ++i) words.fifth[i] = words.fifth[i] >> (2u * (piece >> 1));
  RLX_READ_WORDS_16(words.codes, block + rlx_ptr(48u + 16u * piece), 4);
#else
  RLX_READ_WORDS_16(words.codes, block + rlx_ptr(16u + 16u * piece), 4);
#endif
  // Groups 2 * pair and 2 * pair + 1 in the two low bytes.
  const rlx_u32 pair = piece >> 1;
  const rlx_u32 a = head[1] >> (16u * (pair & 1u));
  const rlx_u32 b = head[2] >> (16u * (pair & 1u));
  const rlx_u32 c = head[3] >> (16u * (pair & 1u));
  const rlx_u32 scales = pair < 2u ? a & 0x3F3Fu : (c & 0x0F0Fu) | ((a >> 2) & 0x3030u);
  const rlx_u32 minima = pair < 2u ? b & 0x3F3Fu : ((c >> 4) & 0x0F0Fu) | ((b >> 2) & 0x3030u);
  const rlx_vec2 d = rlx_unpack_f16x2(head[0]);
  RLX_UNROLL for (rlx_u32 g = 0u; g < 2u; ++g) {
    words.scale[g] = d.x * rlx_unsigned_byte(scales, g);
    words.offset[g] = -(d.y * rlx_unsigned_byte(minima, g));
  }
  return words;
}
RLX_FN void rlx_decode_run(Piece words, rlx_u32 run, float (&w)[8]) {
  const rlx_u32 first = (run & 1u) * 2u;
  rlx_u32 low = RLX_NIBBLES(words.codes[first], run >> 1);
  rlx_u32 high = RLX_NIBBLES(words.codes[first + 1u], run >> 1);
#if defined(RLX_W_q5_k)
  low |= rlx_bit_plane(words.fifth[first], run >> 1, 4u);
  high |= rlx_bit_plane(words.fifth[first + 1u], run >> 1, 4u);
#endif
  rlx_expand(low, high, words.scale[run >> 1], words.offset[run >> 1], w);
}

#elif defined(RLX_W_q2_k)
// ---- 8 bytes of four 2-bit codes each, of four groups 32 apart ----
struct Piece {
  rlx_u32 codes[2];
  rlx_u32 subs[2];  // byte 2 * (run mod 2) of word run / 2: scale and minimum of the run
  float d;
  float dmin;
};
RLX_FN Piece rlx_load_piece(rlx_ptr block, rlx_u32 piece) {
  Piece words;
  const rlx_u32 half_block = piece >> 2;
  RLX_READ_WORDS_4(words.codes, block + rlx_ptr(16u + 32u * half_block + 8u * (piece & 3u)), 2);
  RLX_READ_WORDS_4(words.subs, block + rlx_ptr(8u * half_block), 2);
  RLX_UNROLL for (int i = 0; i < 2; ++i) words.subs[i] = words.subs[i] >> (4u * (piece & 2u));
  words.d = rlx_load_f16(block, rlx_i64(40));
  words.dmin = rlx_load_f16(block, rlx_i64(41));
  return words;
}
RLX_FN void rlx_decode_run(Piece words, rlx_u32 run, float (&w)[8]) {
  const rlx_u32 sub = words.subs[run >> 1] >> (16u * (run & 1u));
  rlx_expand(RLX_PAIRS(words.codes[0], run), RLX_PAIRS(words.codes[1], run), words.d * rlx_f32(sub & 15u),
             -(words.dmin * rlx_f32((sub >> 4) & 15u)), w);
}

#elif defined(RLX_W_q3_k)
// ---- as q2_k, with a third bit in 32 bytes of their own ----
struct Piece {
  rlx_u32 codes[2];
  rlx_u32 third[2];  // bit `run` of each byte
  rlx_u32 subs[3];   // low nibbles in byte 2 * (run mod 2) of word run / 2; pairs of high bits in word 2
  float d;
};
RLX_FN Piece rlx_load_piece(rlx_ptr block, rlx_u32 piece) {
  Piece words;
  const rlx_u32 half_block = piece >> 2;
  RLX_READ_WORDS_2(words.third, block + rlx_ptr(8u * (piece & 3u)), 2);
  RLX_READ_WORDS_2(words.codes, block + rlx_ptr(32u + 32u * half_block + 8u * (piece & 3u)), 2);
  RLX_READ_WORDS_2(words.subs, block + rlx_ptr(96), 3);
  RLX_UNROLL for (int i = 0; i < 2; ++i) {
    words.third[i] = words.third[i] >> (4u * half_block);
    words.subs[i] = words.subs[i] >> (4u * (piece & 2u) + 4u * half_block);
  }
  words.subs[2] = words.subs[2] >> (4u * (piece & 2u) + 4u * half_block);
  words.d = rlx_load_f16(block, rlx_i64(54));
  return words;
}
RLX_FN void rlx_decode_run(Piece words, rlx_u32 run, float (&w)[8]) {
  const rlx_u32 low_bits = (words.subs[run >> 1] >> (16u * (run & 1u))) & 15u;
  const rlx_u32 high_bits = (words.subs[2] >> (16u * (run & 1u) + 2u * (run >> 1))) & 3u;
  const int sub = int(low_bits | (high_bits << 4)) - 32;
  const rlx_u32 low = RLX_PAIRS(words.codes[0], run) | rlx_bit_plane(words.third[0], run, 2u);
  const rlx_u32 high = RLX_PAIRS(words.codes[1], run) | rlx_bit_plane(words.third[1], run, 2u);
  rlx_expand(rlx_minus(low, 4u), rlx_minus(high, 4u), words.d * rlx_f32(sub), w);
}

#elif defined(RLX_W_q6_k)
// ---- 4 low bits in two rows of bytes, 2 high bits in a third, of four groups 32 apart ----
struct Piece {
  rlx_u32 even[2];  // groups 0 and 2
  rlx_u32 odd[2];   // groups 1 and 3
  rlx_u32 top[2];
  rlx_u32 subs[2];  // byte 2 * (run mod 2) of word run / 2: signed scale of the run
  float d;
};
RLX_FN Piece rlx_load_piece(rlx_ptr block, rlx_u32 piece) {
  Piece words;
  const rlx_u32 half_block = piece >> 2;
  const rlx_u32 column = 8u * (piece & 3u);
  RLX_READ_WORDS_2(words.even, block + rlx_ptr(64u * half_block + column), 2);
  RLX_READ_WORDS_2(words.odd, block + rlx_ptr(64u * half_block + 32u + column), 2);
  RLX_READ_WORDS_2(words.top, block + rlx_ptr(128u + 32u * half_block + column), 2);
  RLX_READ_WORDS_2(words.subs, block + rlx_ptr(192u + 8u * half_block), 2);
  RLX_UNROLL for (int i = 0; i < 2; ++i) words.subs[i] = words.subs[i] >> (4u * (piece & 2u));
  words.d = rlx_load_f16(block, rlx_i64(104));
  return words;
}
RLX_FN void rlx_decode_run(Piece words, rlx_u32 run, float (&w)[8]) {
  const rlx_u32 first = (run & 1u) == 0u ? words.even[0] : words.odd[0];
  const rlx_u32 second = (run & 1u) == 0u ? words.even[1] : words.odd[1];
  const rlx_u32 low = RLX_NIBBLES(first, run >> 1) | (RLX_PAIRS(words.top[0], run) << 4);
  const rlx_u32 high = RLX_NIBBLES(second, run >> 1) | (RLX_PAIRS(words.top[1], run) << 4);
  const float scale = words.d * rlx_signed_byte(words.subs[run >> 1], 2u * (run & 1u));
  rlx_expand(rlx_minus(low, 32u), rlx_minus(high, 32u), scale, w);
}
#endif

#endif
