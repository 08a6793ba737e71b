// SPDX-License-Identifier: Apache-2.0
// Decoders of the block types of ops.md 0.10, in pieces of 32 elements: four runs of 8 neighbours, whose codes share words.
// Specializations: RLX_W_<type> 1 for the weight's type; RLX_W_ELEMENTS and RLX_W_BYTES of its block.
//   rlx_load_words(block, piece): the words of piece 0 .. RLX_W_PIECES - 1 of the block at an address, as they are in memory: nothing waits
//   for them.  rlx_piece(words, piece): codes and scales.  rlx_load_piece(block, piece): both steps.
//   rlx_run(words, run): the codes of elements rlx_run_place(piece, run) .. + 7 of the block with what makes values of them.
//   rlx_decode_run(words, run, w): their values.
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
// From even addresses: the aligned words that hold the first byte and those behind it, then the last half. No word is read of which no
// byte is asked for. RLX_JOIN_WORDS makes the words of them; odd tells that the address was no multiple of 4.
#define RLX_READ_WORDS_2(words, at, count)                                      \
  RLX_UNROLL for (int i_ = 0; i_ < (count); ++i_) {                             \
    words[i_] = rlx_raw4((at) & ~rlx_ptr(3), rlx_i64(4 * i_));                  \
  }                                                                             \
  words[count] = rlx_load_u16(at, rlx_i64(2 * (count)-1))
#define RLX_JOIN_WORDS(to, words, odd, count)                                   \
  RLX_UNROLL for (int i_ = 0; i_ < (count); ++i_) {                             \
    to[i_] = (odd) ? (words[i_] >> 16) | (words[i_ + 1] << 16) : words[i_];     \
  }
RLX_FN bool rlx_is_odd(rlx_ptr at) { return (rlx_u32(at) & 2u) != 0u; }
// The same from any address; shift: bits of the first word that lie before it.
#define RLX_READ_WORDS_1(words, at, count)                                      \
  RLX_UNROLL for (int i_ = 0; i_ < (count); ++i_) {                             \
    words[i_] = rlx_raw4((at) & ~rlx_ptr(3), rlx_i64(4 * i_));                  \
  }                                                                             \
  words[count] = rlx_raw4(((at) + rlx_ptr(4 * (count)-1)) & ~rlx_ptr(3), rlx_i64(0))
#define RLX_SHIFT_WORDS(to, words, shift, count)                                \
  RLX_UNROLL for (int i_ = 0; i_ < (count); ++i_) {                             \
    to[i_] = (shift) == 0u ? words[i_] : (words[i_] >> (shift)) | (words[i_ + 1] << (32u - (shift))); \
  }

// Codes as floats without conversions of integers: a word masked to one code in each half is two subnormal halves, whose unit is 2^-24,
// so one exact conversion from half to float each gives code * 2^-24. Masks that leave a code higher in its byte scale it by that power.
#define RLX_UNIT_SCALE 16777216.0f
RLX_FN float rlx_byte(rlx_u32 word, rlx_u32 i) { return rlx_f32_from_f16((word >> (8u * i)) & 0xFFu) * RLX_UNIT_SCALE; }
RLX_FN float rlx_signed_byte(rlx_u32 word, rlx_u32 i) { return rlx_byte(word ^ 0x80808080u, i) - 128.0f; }
// Values first .. first + 3: the codes of a word's four bytes under a mask of one half, in units of 2^-24.
RLX_FN void rlx_codes4(rlx_u32 word, rlx_u32 mask, rlx_u32 first, float (&codes)[8]) {
  const rlx_vec2 even = rlx_unpack_f16x2(word & (mask * 0x10001u));
  const rlx_vec2 odd = rlx_unpack_f16x2((word >> 8) & (mask * 0x10001u));
  codes[first] = even.x;
  codes[first + 1u] = odd.x;
  codes[first + 2u] = even.y;
  codes[first + 3u] = odd.y;
}
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
// The E2M1 codes in the low nibbles of two halves as halves: 2^-14 of their value, for the formats differ in the exponent's bias alone.
RLX_FN rlx_u32 rlx_e2m1_halves(rlx_u32 nibbles) { return ((nibbles & 0x70007u) << 9) | ((nibbles & 0x80008u) << 12); }
#if defined(RLX_W_mxfp4) || defined(RLX_W_nvfp4)
#define RLX_W_E2M1 1
#else
#define RLX_W_E2M1 0
#endif

// Eight codes, in order in the bytes of two words at bit `shift`, and what they stand for: scale * (code - zero), or
// scale * code + offset for the types that have a minimum (RLX_W_OFFSETS).
struct Run {
  rlx_u32 low;
  rlx_u32 high;
  rlx_u32 shift;
  rlx_u32 mask;  // of one code
  float zero;
  float scale;
  float offset;
};
// Of codes that lie at bit 0 of their bytes.
RLX_FN Run rlx_run_of_bytes(rlx_u32 low, rlx_u32 high, rlx_u32 mask, float zero, float scale, float offset) {
  Run run;
  run.low = low;
  run.high = high;
  run.shift = 0u;
  run.mask = mask;
  run.zero = zero;
  run.scale = scale;
  run.offset = offset;
  return run;
}
RLX_FN Run rlx_run_of_signed(rlx_u32 low, rlx_u32 high, float scale) {
  return rlx_run_of_bytes(low ^ 0x80808080u, high ^ 0x80808080u, 0xFFu, 128.0f, scale, 0.0f);
}

#if defined(RLX_W_q4_1) || defined(RLX_W_q5_1) || defined(RLX_W_q2_k) || defined(RLX_W_q4_k) || defined(RLX_W_q5_k)
#define RLX_W_OFFSETS 1
#else
#define RLX_W_OFFSETS 0
#endif

#define RLX_NIBBLES(word, high_half) (((word) >> (4u * (high_half))) & 0x0F0F0F0Fu)
#define RLX_PAIRS(word, field) (((word) >> (2u * (field))) & 0x03030303u)

#if defined(RLX_W_q4_0) || defined(RLX_W_q4_1) || defined(RLX_W_q5_0) || defined(RLX_W_q5_1) || defined(RLX_W_iq4_nl) || \
    defined(RLX_W_mxfp4)
// ---- 32 elements: nibbles of 16 bytes, the low halves first ----
struct Words {
  rlx_u32 codes[5];
  rlx_u32 fifth[2];
  rlx_u32 head[2];  // scale and minimum, or exponent
  bool odd;
  rlx_u32 shift;
};
struct Piece {
  rlx_u32 codes[4];
  rlx_u32 fifth[1];  // bit e: the fifth bit of element e
  float scale;
  float offset;  // of mxfp4: a second factor
};
RLX_FN Words rlx_load_words(rlx_ptr block, rlx_u32 piece) {
  Words words;
  words.odd = rlx_is_odd(block + rlx_ptr(2));
#if defined(RLX_W_mxfp4)
  words.shift = (rlx_u32(block + rlx_ptr(1)) & 3u) * 8u;
  RLX_READ_WORDS_1(words.codes, block + rlx_ptr(1), 4);
  words.head[0] = rlx_u32(rlx_load_u8(block, rlx_i64(0)));
#else
  words.head[0] = rlx_load_u16(block, rlx_i64(0));
#if defined(RLX_W_q4_1)
  words.head[1] = rlx_load_u16(block, rlx_i64(1));
  RLX_READ_WORDS_4(words.codes, block + rlx_ptr(4), 4);
#elif defined(RLX_W_q5_0)
  RLX_READ_WORDS_2(words.fifth, block + rlx_ptr(2), 1);
  RLX_READ_WORDS_2(words.codes, block + rlx_ptr(6), 4);
#elif defined(RLX_W_q5_1)
  words.head[1] = rlx_load_u16(block, rlx_i64(1));
  RLX_READ_WORDS_4(words.fifth, block + rlx_ptr(4), 1);
  RLX_READ_WORDS_8(words.codes, block + rlx_ptr(8), 4);
#else
  RLX_READ_WORDS_2(words.codes, block + rlx_ptr(2), 4);
#endif
#endif
  return words;
}
RLX_FN Piece rlx_piece(Words words, rlx_u32 piece) {
  Piece values;
  values.fifth[0] = 0u;
  values.offset = 0.0f;
#if defined(RLX_W_q4_1) || defined(RLX_W_q5_1)
  RLX_UNROLL for (int i = 0; i < 4; ++i) values.codes[i] = words.codes[i];
#elif defined(RLX_W_mxfp4)
  RLX_SHIFT_WORDS(values.codes, words.codes, words.shift, 4)
#else
  RLX_JOIN_WORDS(values.codes, words.codes, words.odd, 4)
#endif
#if defined(RLX_W_mxfp4)
  // 2^(e - 127) spans more than f32's normal numbers and is applied in two factors.
  const int exponent = int(words.head[0]) - 127;
  values.scale = rlx_pow2(exponent >> 1);
  values.offset = rlx_pow2(exponent - (exponent >> 1));
#else
  values.scale = rlx_f32_from_f16(words.head[0]);
#endif
#if defined(RLX_W_q4_1) || defined(RLX_W_q5_1)
  values.offset = rlx_f32_from_f16(words.head[1]);
#endif
#if defined(RLX_W_q5_0)
  RLX_JOIN_WORDS(values.fifth, words.fifth, words.odd, 1)
#elif defined(RLX_W_q5_1)
  values.fifth[0] = words.fifth[0];
#endif
  return values;
}
// Four neighbouring bits, one to each byte's bit 4.
RLX_FN rlx_u32 rlx_spread_fifth(rlx_u32 bits) {
  return ((bits & 1u) << 4) | ((bits & 2u) << 11) | ((bits & 4u) << 18) | ((bits & 8u) << 25);
}
RLX_FN Run rlx_run(Piece words, rlx_u32 run) {
  const rlx_u32 high_half = run >> 1;
  const rlx_u32 first = words.codes[(run & 1u) * 2u];
  const rlx_u32 second = words.codes[(run & 1u) * 2u + 1u];
#if defined(RLX_W_q4_0) || defined(RLX_W_q4_1) || defined(RLX_W_mxfp4)
#if defined(RLX_W_q4_0)
  Run codes = rlx_run_of_bytes(first, second, 15u, 8.0f, words.scale, 0.0f);
#else
  Run codes = rlx_run_of_bytes(first, second, 15u, 0.0f, words.scale, words.offset);
#endif
  codes.shift = 4u * high_half;
  return codes;
#else
  rlx_u32 low = RLX_NIBBLES(first, high_half);
  rlx_u32 high = RLX_NIBBLES(second, high_half);
#if defined(RLX_W_q5_0) || defined(RLX_W_q5_1)
  low |= rlx_spread_fifth(words.fifth[0] >> (8u * run));
  high |= rlx_spread_fifth(words.fifth[0] >> (8u * run + 4u));
#if defined(RLX_W_q5_0)
  return rlx_run_of_bytes(low, high, 31u, 16.0f, words.scale, 0.0f);
#else
  return rlx_run_of_bytes(low, high, 31u, 0.0f, words.scale, words.offset);
#endif
#else
  low = rlx_look_up(low, 0xBFAD9881u, 0xF6EADDCFu, 0x26190D01u, 0x71594535u);
  high = rlx_look_up(high, 0xBFAD9881u, 0xF6EADDCFu, 0x26190D01u, 0x71594535u);
  return rlx_run_of_signed(low, high, words.scale);
#endif
#endif
}

#elif defined(RLX_W_q8_0) || defined(RLX_W_q8_k)
// ---- signed bytes ----
struct Words {
  rlx_u32 codes[9];
  rlx_u32 scale;
  bool odd;
};
struct Piece {
  rlx_u32 codes[8];
  float scale;
};
RLX_FN Words rlx_load_words(rlx_ptr block, rlx_u32 piece) {
  Words words;
  words.odd = rlx_is_odd(block + rlx_ptr(2));
#if defined(RLX_W_q8_0)
  words.scale = rlx_load_u16(block, rlx_i64(0));
  RLX_READ_WORDS_2(words.codes, block + rlx_ptr(2), 8);
#else
  words.scale = rlx_raw4(block, rlx_i64(0));
  RLX_READ_WORDS_4(words.codes, block + rlx_ptr(4u + 32u * piece), 8);
#endif
  return words;
}
RLX_FN Piece rlx_piece(Words words, rlx_u32 piece) {
  Piece values;
#if defined(RLX_W_q8_0)
  values.scale = rlx_f32_from_f16(words.scale);
  RLX_JOIN_WORDS(values.codes, words.codes, words.odd, 8)
#else
  values.scale = rlx_from_bits(words.scale);
  RLX_UNROLL for (int i = 0; i < 8; ++i) values.codes[i] = words.codes[i];
#endif
  return values;
}
RLX_FN Run rlx_run(Piece words, rlx_u32 run) {
  return rlx_run_of_signed(words.codes[2u * run], words.codes[2u * run + 1u], words.scale);
}

#elif defined(RLX_W_nvfp4)
// ---- two groups of 16 E2M1 codes: 8 bytes each, the low halves first ----
struct Words {
  rlx_u32 codes[4];
  rlx_u32 scales;  // of all four groups of the block
};
struct Piece {
  rlx_u32 codes[4];
  float scale[2];
};
RLX_FN Words rlx_load_words(rlx_ptr block, rlx_u32 piece) {
  Words words;
  words.scales = rlx_raw4(block, rlx_i64(0));
  RLX_READ_WORDS_4(words.codes, block + rlx_ptr(4u + 16u * piece), 4);
  return words;
}
RLX_FN Piece rlx_piece(Words words, rlx_u32 piece) {
  Piece values;
  RLX_UNROLL for (int i = 0; i < 4; ++i) values.codes[i] = words.codes[i];
  RLX_UNROLL for (rlx_u32 g = 0u; g < 2u; ++g) {
    const rlx_u32 code = (words.scales >> (16u * piece + 8u * g)) & 0x7Fu;
    values.scale[g] = code == 0x7Fu ? 0.0f : rlx_f32_from_f8e4m3(code);
  }
  return values;
}
RLX_FN Run rlx_run(Piece words, rlx_u32 run) {
  const rlx_u32 first = (run >> 1) * 2u;
  Run codes = rlx_run_of_bytes(words.codes[first], words.codes[first + 1u], 15u, 0.0f, words.scale[run >> 1], 0.0f);
  codes.shift = 4u * (run & 1u);
  return codes;
}

#elif defined(RLX_W_q4_k) || defined(RLX_W_q5_k)
// ---- 16 bytes of nibbles: 16 elements of one group of 32, and 16 of the next ----
struct Words {
  rlx_u32 head[4];  // d and dmin, then the twelve bytes of 6-bit scales and minima
  rlx_u32 codes[4];
#if defined(RLX_W_q5_k)
  rlx_u32 fifth[4];
#endif
};
struct Piece {
  rlx_u32 codes[4];
#if defined(RLX_W_q5_k)
  rlx_u32 fifth[4];  // bit 0 and 1 of each byte: the fifth bits of both halves
#endif
  float scale[2];
  float offset[2];
};
RLX_FN Words rlx_load_words(rlx_ptr block, rlx_u32 piece) {
  Words words;
  RLX_READ_WORDS_16(words.head, block, 4);
#if defined(RLX_W_q5_k)
  RLX_READ_WORDS_16(words.fifth, block + rlx_ptr(16u + 16u * (piece & 1u)), 4);
  RLX_READ_WORDS_16(words.codes, block + rlx_ptr(48u + 16u * piece), 4);
#else
  RLX_READ_WORDS_16(words.codes, block + rlx_ptr(16u + 16u * piece), 4);
#endif
  return words;
}
RLX_FN Piece rlx_piece(Words words, rlx_u32 piece) {
  Piece values;
  RLX_UNROLL for (int i = 0; i < 4; ++i) {
    values.codes[i] = words.codes[i];
#if defined(RLX_W_q5_k)
    values.fifth[i] = words.fifth[i] >> (2u * (piece >> 1));
#endif
  }
  // Groups 2 * pair and 2 * pair + 1 in the two low bytes.
  const rlx_u32 pair = piece >> 1;
  const rlx_u32 a = words.head[1] >> (16u * (pair & 1u));
  const rlx_u32 b = words.head[2] >> (16u * (pair & 1u));
  const rlx_u32 c = words.head[3] >> (16u * (pair & 1u));
  const rlx_u32 scales = pair < 2u ? a & 0x3F3Fu : (c & 0x0F0Fu) | ((a >> 2) & 0x3030u);
  const rlx_u32 minima = pair < 2u ? b & 0x3F3Fu : ((c >> 4) & 0x0F0Fu) | ((b >> 2) & 0x3030u);
  // Scales and minima as subnormal halves too, two at a time.
  const rlx_vec2 d = rlx_unpack_f16x2(words.head[0]);
  const rlx_vec2 scale = rlx_unpack_f16x2((scales & 0xFFu) | ((scales & 0xFF00u) << 8));
  const rlx_vec2 minimum = rlx_unpack_f16x2((minima & 0xFFu) | ((minima & 0xFF00u) << 8));
  values.scale[0] = d.x * RLX_UNIT_SCALE * scale.x;
  values.scale[1] = d.x * RLX_UNIT_SCALE * scale.y;
  values.offset[0] = -(d.y * RLX_UNIT_SCALE * minimum.x);
  values.offset[1] = -(d.y * RLX_UNIT_SCALE * minimum.y);
  return values;
}
RLX_FN Run rlx_run(Piece words, rlx_u32 run) {
  const rlx_u32 first = (run & 1u) * 2u;
  const rlx_u32 group = run >> 1;
#if defined(RLX_W_q5_k)
  const rlx_u32 low = RLX_NIBBLES(words.codes[first], group) | rlx_bit_plane(words.fifth[first], group, 4u);
  const rlx_u32 high = RLX_NIBBLES(words.codes[first + 1u], group) | rlx_bit_plane(words.fifth[first + 1u], group, 4u);
  return rlx_run_of_bytes(low, high, 31u, 0.0f, words.scale[group], words.offset[group]);
#else
  Run codes = rlx_run_of_bytes(words.codes[first], words.codes[first + 1u], 15u, 0.0f, words.scale[group], words.offset[group]);
  codes.shift = 4u * group;
  return codes;
#endif
}

#elif defined(RLX_W_q2_k)
// ---- 8 bytes of four 2-bit codes each, of four groups 32 apart ----
struct Words {
  rlx_u32 codes[2];
  rlx_u32 subs[2];
  rlx_u32 d;  // and dmin
};
struct Piece {
  rlx_u32 codes[2];
  rlx_u32 subs[2];  // byte 2 * (run mod 2) of word run / 2: scale and minimum of the run
  float d;
  float dmin;
};
RLX_FN Words rlx_load_words(rlx_ptr block, rlx_u32 piece) {
  Words words;
  const rlx_u32 half_block = piece >> 2;
  RLX_READ_WORDS_4(words.codes, block + rlx_ptr(16u + 32u * half_block + 8u * (piece & 3u)), 2);
  RLX_READ_WORDS_4(words.subs, block + rlx_ptr(8u * half_block), 2);
  words.d = rlx_raw4(block, rlx_i64(80));
  return words;
}
RLX_FN Piece rlx_piece(Words words, rlx_u32 piece) {
  Piece values;
  RLX_UNROLL for (int i = 0; i < 2; ++i) {
    values.codes[i] = words.codes[i];
    values.subs[i] = words.subs[i] >> (4u * (piece & 2u));
  }
  const rlx_vec2 d = rlx_unpack_f16x2(words.d);
  values.d = d.x;
  values.dmin = d.y;
  return values;
}
RLX_FN Run rlx_run(Piece words, rlx_u32 run) {
  const rlx_u32 sub = words.subs[run >> 1] >> (16u * (run & 1u));
  Run codes = rlx_run_of_bytes(words.codes[0], words.codes[1], 3u, 0.0f, words.d * rlx_f32(sub & 15u),
                               -(words.dmin * rlx_f32((sub >> 4) & 15u)));
  codes.shift = 2u * run;
  return codes;
}

#elif defined(RLX_W_q3_k)
// ---- as q2_k, with a third bit in 32 bytes of their own ----
struct Words {
  rlx_u32 codes[3];
  rlx_u32 third[3];
  rlx_u32 subs[4];
  rlx_u32 d;
  bool odd;
};
struct Piece {
  rlx_u32 codes[2];
  rlx_u32 third[2];  // bit `run` of each byte
  rlx_u32 subs[3];   // low nibbles in byte 2 * (run mod 2) of word run / 2; pairs of high bits in word 2
  float d;
};
RLX_FN Words rlx_load_words(rlx_ptr block, rlx_u32 piece) {
  Words words;
  const rlx_u32 half_block = piece >> 2;
  words.odd = rlx_is_odd(block);
  RLX_READ_WORDS_2(words.third, block + rlx_ptr(8u * (piece & 3u)), 2);
  RLX_READ_WORDS_2(words.codes, block + rlx_ptr(32u + 32u * half_block + 8u * (piece & 3u)), 2);
  RLX_READ_WORDS_2(words.subs, block + rlx_ptr(96), 3);
  words.d = rlx_load_u16(block, rlx_i64(54));
  return words;
}
RLX_FN Piece rlx_piece(Words words, rlx_u32 piece) {
  Piece values;
  const rlx_u32 half_block = piece >> 2;
  RLX_JOIN_WORDS(values.codes, words.codes, words.odd, 2)
  RLX_JOIN_WORDS(values.third, words.third, words.odd, 2)
  RLX_JOIN_WORDS(values.subs, words.subs, words.odd, 3)
  RLX_UNROLL for (int i = 0; i < 2; ++i) values.third[i] = values.third[i] >> (4u * half_block);
  RLX_UNROLL for (int i = 0; i < 3; ++i) values.subs[i] = values.subs[i] >> (4u * (piece & 2u) + 4u * half_block);
  values.d = rlx_f32_from_f16(words.d);
  return values;
}
RLX_FN Run rlx_run(Piece words, rlx_u32 run) {
  const rlx_u32 low_bits = (words.subs[run >> 1] >> (16u * (run & 1u))) & 15u;
  const rlx_u32 high_bits = (words.subs[2] >> (16u * (run & 1u) + 2u * (run >> 1))) & 3u;
  const int sub = int(low_bits | (high_bits << 4)) - 32;
  const rlx_u32 low = RLX_PAIRS(words.codes[0], run) | rlx_bit_plane(words.third[0], run, 2u);
  const rlx_u32 high = RLX_PAIRS(words.codes[1], run) | rlx_bit_plane(words.third[1], run, 2u);
  return rlx_run_of_bytes(low, high, 7u, 4.0f, words.d * rlx_f32(sub), 0.0f);
}

#elif defined(RLX_W_q6_k)
// ---- 4 low bits in two rows of bytes, 2 high bits in a third, of four groups 32 apart ----
struct Words {
  rlx_u32 even[3];
  rlx_u32 odd_groups[3];
  rlx_u32 top[3];
  rlx_u32 subs[3];
  rlx_u32 d;
  bool odd;
};
struct Piece {
  rlx_u32 even[2];        // groups 0 and 2
  rlx_u32 odd_groups[2];  // groups 1 and 3
  rlx_u32 top[2];
  rlx_u32 subs[2];  // byte 2 * (run mod 2) of word run / 2: signed scale of the run
  float d;
};
RLX_FN Words rlx_load_words(rlx_ptr block, rlx_u32 piece) {
  Words words;
  const rlx_u32 half_block = piece >> 2;
  const rlx_u32 column = 8u * (piece & 3u);
  words.odd = rlx_is_odd(block);
  RLX_READ_WORDS_2(words.even, block + rlx_ptr(64u * half_block + column), 2);
  RLX_READ_WORDS_2(words.odd_groups, block + rlx_ptr(64u * half_block + 32u + column), 2);
  RLX_READ_WORDS_2(words.top, block + rlx_ptr(128u + 32u * half_block + column), 2);
  RLX_READ_WORDS_2(words.subs, block + rlx_ptr(192u + 8u * half_block), 2);
  words.d = rlx_load_u16(block, rlx_i64(104));
  return words;
}
RLX_FN Piece rlx_piece(Words words, rlx_u32 piece) {
  Piece values;
  RLX_JOIN_WORDS(values.even, words.even, words.odd, 2)
  RLX_JOIN_WORDS(values.odd_groups, words.odd_groups, words.odd, 2)
  RLX_JOIN_WORDS(values.top, words.top, words.odd, 2)
  RLX_JOIN_WORDS(values.subs, words.subs, words.odd, 2)
  RLX_UNROLL for (int i = 0; i < 2; ++i) values.subs[i] = values.subs[i] >> (4u * (piece & 2u));
  values.d = rlx_f32_from_f16(words.d);
  return values;
}
RLX_FN Run rlx_run(Piece words, rlx_u32 run) {
  const rlx_u32 first = (run & 1u) == 0u ? words.even[0] : words.odd_groups[0];
  const rlx_u32 second = (run & 1u) == 0u ? words.even[1] : words.odd_groups[1];
  const rlx_u32 low = RLX_NIBBLES(first, run >> 1) | (RLX_PAIRS(words.top[0], run) << 4);
  const rlx_u32 high = RLX_NIBBLES(second, run >> 1) | (RLX_PAIRS(words.top[1], run) << 4);
  const float scale = words.d * rlx_signed_byte(words.subs[run >> 1], 2u * (run & 1u));
  return rlx_run_of_bytes(low, high, 63u, 32.0f, scale, 0.0f);
}
#endif

RLX_FN Piece rlx_load_piece(rlx_ptr block, rlx_u32 piece) { return rlx_piece(rlx_load_words(block, piece), piece); }

// How many neighbouring runs of a piece share scale, offset and the place of their codes.
#if defined(RLX_W_q2_k) || defined(RLX_W_q3_k) || defined(RLX_W_q6_k) || defined(RLX_W_nvfp4)
#define RLX_RUNS_OF_GROUP 1
#elif defined(RLX_W_q4_k) || defined(RLX_W_q5_k) || defined(RLX_W_q4_0) || defined(RLX_W_q4_1) || defined(RLX_W_mxfp4)
#define RLX_RUNS_OF_GROUP 2
#else
#define RLX_RUNS_OF_GROUP 4
#endif

// How many neighbouring pieces share the scales of all their runs.
#if defined(RLX_W_q2_k) || defined(RLX_W_q3_k) || defined(RLX_W_q4_k) || defined(RLX_W_q5_k) || defined(RLX_W_q6_k)
#define RLX_PIECES_OF_SCALES 2
#else
#define RLX_PIECES_OF_SCALES 1
#endif

// The codes of a run; rlx_code_unit of the run makes whole numbers of them.
RLX_FN void rlx_run_codes(Run run, float (&codes)[8]) {
#if RLX_W_E2M1
  RLX_UNROLL for (rlx_u32 i = 0u; i < 2u; ++i) {
    const rlx_u32 word = (i == 0u ? run.low : run.high) >> run.shift;
    const rlx_vec2 even = rlx_unpack_f16x2(rlx_e2m1_halves(word));
    const rlx_vec2 odd = rlx_unpack_f16x2(rlx_e2m1_halves(word >> 8));
    codes[4u * i] = even.x;
    codes[4u * i + 1u] = odd.x;
    codes[4u * i + 2u] = even.y;
    codes[4u * i + 3u] = odd.y;
  }
#else
  rlx_codes4(run.low, run.mask << run.shift, 0u, codes);
  rlx_codes4(run.high, run.mask << run.shift, 4u, codes);
#endif
}
RLX_FN float rlx_code_unit(Run run) { return RLX_W_E2M1 != 0 ? 16384.0f : RLX_UNIT_SCALE / rlx_f32(1u << run.shift); }

RLX_FN void rlx_decode_run(Piece words, rlx_u32 run, float (&w)[8]) {
  const Run codes = rlx_run(words, run);
  const float unit = rlx_code_unit(codes);
  float values[8];
  rlx_run_codes(codes, values);
#if RLX_W_OFFSETS
  const float scale = codes.scale * unit;
  RLX_UNROLL for (int i = 0; i < 8; ++i) w[i] = scale * values[i] + codes.offset;
#else
  RLX_UNROLL for (int i = 0; i < 8; ++i) w[i] = codes.scale * (values[i] * unit - codes.zero);
#endif
#if defined(RLX_W_mxfp4)
  RLX_UNROLL for (int i = 0; i < 8; ++i) w[i] *= words.offset;
#endif
}

#endif
