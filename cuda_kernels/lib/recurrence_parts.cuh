// SPDX-License-Identifier: Apache-2.0
// Factors of linear_recurrence_mma's products as sums of 16-bit parts, exact products of which are added as f32: two of f16, of what a power
// of two has brought below 2^15, the second times 2^11; or three of bf16, which are the factor itself. Of f16 a part's error is at most
// 2^-22 of its factor, or 2^-51 of the largest one that the power was chosen for, which is less where factors are below 2^-29 of that
// one. Products of low parts whose orders add up beyond kParts - 1 are left out: 2^-22 of the product of f16, 2^-24 of bf16.
#ifndef RLX_LIB_RECURRENCE_PARTS_CUH
#define RLX_LIB_RECURRENCE_PARTS_CUH

#define RLX_IS_f16 1
#define RLX_IS_bf16 0
constexpr bool kBf16 = !RLX_CAT(RLX_IS_, RLX_X);
constexpr int kParts = kBf16 ? 3 : 2;
constexpr float kPartWeight = kBf16 ? 1.0f : 1.0f / 2048.0f;  // of each order of parts to the one before

// Words of two factors' parts.
RLX_FN void parts_of(rlx_u32 (&words)[kParts], float x, float y) {
  if constexpr (kBf16) {
    RLX_UNROLL for (int i = 0; i < kParts; ++i) {
      words[i] = __byte_perm(__float_as_uint(x), __float_as_uint(y), 0x7632);
      x -= __uint_as_float(__float_as_uint(x) & 0xFFFF0000u);
      y -= __uint_as_float(__float_as_uint(y) & 0xFFFF0000u);
    }
  } else {
    words[0] = rlx_pack_f16x2(x, y);
    const rlx_vec2 high = rlx_unpack_f16x2(words[0]);
    words[kParts - 1] = rlx_pack_f16x2((x - high.x) * 2048.0f, (y - high.y) * 2048.0f);
  }
}

// The larger of `most` and a factor's bits, above an infinity's exponent for 0: what is not finite counts as less than zero.
RLX_FN int larger(int most, float x) { return max(most, int((__float_as_uint(x) & 0x7FFFFFFFu) + 0x00800000u)); }
// The power of two that brings what larger() has found to 2^14 or more, as far as f32 has it, and below 2^15.
RLX_FN float power_of(int most) { return kBf16 ? 1.0f : __uint_as_float(rlx_u32(269 - max(most >> 23, 16)) << 23); }
// 1 / x of a power of two.
RLX_FN float inverse_of(float power) { return __uint_as_float((254u << 23) - __float_as_uint(power)); }

// Where a triangle's parts stand in a record: by 16 columns those rows that are not all zeros, by 8 x 8 values.
constexpr int kPackedBytes = 5 * 1024;
RLX_FN constexpr int packed_columns(int sixteen) { return sixteen * 2048 - sixteen * (sixteen - 1) * 256; }

#endif
