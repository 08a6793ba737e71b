// SPDX-License-Identifier: Apache-2.0
// y = random values of ops.md 0.8 and 12.2 (Philox4x32-10). RLX_KIND: 0 uniform floats low + span * u, 1 normals mean + std * n,
// 2 integers low + floor(w * count / 2^32), 3 the same from 64-bit words. compiler/support/philox.h is the host's form.
// Layout: y dense. Grid: one Philox block (4 elements, 2 of kind 3) per thread, groups spread by split_grid.
// Specializations: RLX_Y storage type, RLX_FLOAT (y holds floats), RLX_KIND; RLX_ROUND rounds to the type (0), RLX_LEAST and RLX_MOST
// bound integers (1). What differs from weight to weight is in the params, so that one kernel fills them all.
// Numerics: uniforms and integers exact, no contraction.
#version 460
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "lib/math.glsl"

RLX_PARAMS(RandomParams);

#define COUNT ((rlx_u64(p.count_high) << 32) | rlx_u64(p.count_low))

RLX_FN rlx_uvec4 philox(RandomParams p, rlx_u64 block) {
  rlx_u32 c0 = rlx_u32(block & rlx_u64(0xFFFFFFFFu));
  rlx_u32 c1 = rlx_u32(block >> 32);
  rlx_u32 c2 = p.step;
  rlx_u32 c3 = p.stream;
  rlx_u32 k0 = p.seed_low;
  rlx_u32 k1 = p.seed_high;
  RLX_UNROLL for (int round = 0; round < 10; ++round) {
    const rlx_u64 p0 = rlx_u64(0xD2511F53u) * rlx_u64(c0);
    const rlx_u64 p1 = rlx_u64(0xCD9E8D57u) * rlx_u64(c2);
    c0 = rlx_u32(p1 >> 32) ^ c1 ^ k0;
    c1 = rlx_u32(p1 & rlx_u64(0xFFFFFFFFu));
    c2 = rlx_u32(p0 >> 32) ^ c3 ^ k1;
    c3 = rlx_u32(p0 & rlx_u64(0xFFFFFFFFu));
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  rlx_uvec4 words;
  words.x = c0;
  words.y = c1;
  words.z = c2;
  words.w = c3;
  return words;
}

RLX_FN float unit_of(rlx_u32 word) { return float(word >> 8) * 5.96046448e-08f; }

#if RLX_KIND == 0
RLX_FN float value_of(RandomParams p, rlx_u32 word) {
  const float sum = rlx_add_rn(rlx_from_bits(p.value0), rlx_mul_rn(rlx_from_bits(p.value1), unit_of(word)));
  const float high = rlx_from_bits(p.value2);
  const float held = RLX_ROUND(sum);
  return held >= high && high > rlx_from_bits(p.value0) ? rlx_from_bits(p.value3) : held;
}
#elif RLX_KIND == 1
// n0 and n1 of Box-Muller: radius sqrt(-2 ln v), angle 2 pi u, whose quadrant and rest are exact.
RLX_FN float normal_of(rlx_u32 radius_word, rlx_u32 angle_word, rlx_u32 which) {
  const float v = float(2u * (radius_word >> 9) + 1u) * 5.96046448e-08f;
  const float radius = rlx_sqrt(-2.0f * rlx_log(v));
  const float turns = 4.0f * unit_of(angle_word);
  const float whole = rlx_round(turns);
  const float r = (turns - whole) * 1.57079637f;
  // The sine is the cosine a quadrant earlier.
  const rlx_u32 quadrant = rlx_u32(whole) + 3u * which;
  const float size = (quadrant & 1u) != 0u ? rlx_sin_poly(r) : rlx_cos_poly(r);
  return radius * (((quadrant + 1u) & 2u) != 0u ? -size : size);
}
RLX_FN float scaled(RandomParams p, float n) { return rlx_from_bits(p.value0) + rlx_from_bits(p.value1) * n; }
#endif

RLX_FN void put(RandomParams p, rlx_u64 i, float f, rlx_i64 n) {
  if (i >= COUNT) return;
#if RLX_FLOAT
  RLX_CAT(rlx_store_, RLX_Y)(p.y, rlx_i64(i), RLX_CAT(rlx_t_, RLX_Y)(f));
#elif RLX_KIND == 1
  RLX_CAT(rlx_store_, RLX_Y)(p.y, rlx_i64(i), RLX_CAT(rlx_t_, RLX_Y)(rlx_min(rlx_max(rlx_i64_from(rlx_round(f)), RLX_LEAST), RLX_MOST)));
#else
  RLX_CAT(rlx_store_, RLX_Y)(p.y, rlx_i64(i), RLX_CAT(rlx_t_, RLX_Y)(n));
#endif
}

#if RLX_KIND == 2
RLX_FN rlx_i64 integer_of(RandomParams p, rlx_u32 word) {
  const rlx_u64 low = (rlx_u64(p.value1) << 32) | rlx_u64(p.value0);
  return rlx_i64(low + ((rlx_u64(word) * (rlx_u64(p.value2) + rlx_u64(1))) >> 32));
}
#elif RLX_KIND == 3
// Upper half of the 128-bit product word * (span + 1).
RLX_FN rlx_i64 integer_of(RandomParams p, rlx_u32 word_high, rlx_u32 word_low) {
  const rlx_u64 low = (rlx_u64(p.value1) << 32) | rlx_u64(p.value0);
  const rlx_u64 count = ((rlx_u64(p.value3) << 32) | rlx_u64(p.value2)) + rlx_u64(1);
  const rlx_u64 mask = rlx_u64(0xFFFFFFFFu);
  if (count == rlx_u64(0)) return rlx_i64(low + ((rlx_u64(word_high) << 32) | rlx_u64(word_low)));
  const rlx_u64 middle = rlx_u64(word_high) * (count & mask) + ((rlx_u64(word_low) * (count & mask)) >> 32);
  const rlx_u64 other = rlx_u64(word_low) * (count >> 32) + (middle & mask);
  return rlx_i64(low + rlx_u64(word_high) * (count >> 32) + (middle >> 32) + (other >> 32));
}
#endif

RLX_MAIN {
  const rlx_u64 block = rlx_linear_group * rlx_u64(RLX_BLOCK_X) + rlx_u64(rlx_local_x);
  const rlx_uvec4 w = philox(p, block);
#if RLX_KIND == 0
  put(p, block * rlx_u64(4), value_of(p, w.x), rlx_i64(0));
  put(p, block * rlx_u64(4) + rlx_u64(1), value_of(p, w.y), rlx_i64(0));
  put(p, block * rlx_u64(4) + rlx_u64(2), value_of(p, w.z), rlx_i64(0));
  put(p, block * rlx_u64(4) + rlx_u64(3), value_of(p, w.w), rlx_i64(0));
#elif RLX_KIND == 1
  put(p, block * rlx_u64(4), scaled(p, normal_of(w.x, w.y, 0u)), rlx_i64(0));
  put(p, block * rlx_u64(4) + rlx_u64(1), scaled(p, normal_of(w.x, w.y, 1u)), rlx_i64(0));
  put(p, block * rlx_u64(4) + rlx_u64(2), scaled(p, normal_of(w.z, w.w, 0u)), rlx_i64(0));
  put(p, block * rlx_u64(4) + rlx_u64(3), scaled(p, normal_of(w.z, w.w, 1u)), rlx_i64(0));
#elif RLX_KIND == 2
  put(p, block * rlx_u64(4), 0.0f, integer_of(p, w.x));
  put(p, block * rlx_u64(4) + rlx_u64(1), 0.0f, integer_of(p, w.y));
  put(p, block * rlx_u64(4) + rlx_u64(2), 0.0f, integer_of(p, w.z));
  put(p, block * rlx_u64(4) + rlx_u64(3), 0.0f, integer_of(p, w.w));
#else
  put(p, block * rlx_u64(2), 0.0f, integer_of(p, w.x, w.y));
  put(p, block * rlx_u64(2) + rlx_u64(1), 0.0f, integer_of(p, w.z, w.w));
#endif
}
