// SPDX-License-Identifier: Apache-2.0
// Sums of up to eight rows of f16 times lines of a weight matrix in blocks (lib/weights.inc), which is read once, at the speed of memory: the
// streamed form of dequant_mma. A warp multiplies 16 lines by 8 rows with one m16n8k16 for 16 depths, so rows cost nothing but their x.
// Specializations: RLX_M; those of lib/block_ring.cuh, whose warps hold the x of a slice in registers. What the slices of a warp add up to lies
//   in `parts`, and the warps' parts are added where results are made.
// Layout of a fragment: thread t of the four that have a line takes elements 4t .. 4t + 3 of every 16, which lie in one word of the block, so
//   all threads of a product share the group's scale. a[0], a[1] are elements 4t and 4t + 2 of lines g and g + 8, a[2], a[3] the odd ones.
// Numerics: codes are whole numbers in units of 2^-24 (subnormal halves; E2M1 codes are halves themselves) and their products exact; a group's
//   sum is the tensor core's, less zero * (sum of x), the groups' f32, in an order that RLX_K alone decides: a row's bits do not depend on RLX_M.
#ifndef RLX_LIB_BLOCK_STREAM_CUH
#define RLX_LIB_BLOCK_STREAM_CUH

#include "lib/block_ring.cuh"

constexpr rlx_u32 kUnits = kSlice / 16;
#if defined(RLX_W_q2_k) || defined(RLX_W_q3_k) || defined(RLX_W_q6_k) || defined(RLX_W_nvfp4)
constexpr rlx_u32 kGroupUnits = 1;
#else
constexpr rlx_u32 kGroupUnits = 2;
#endif
constexpr rlx_u32 kGroups = kUnits / kGroupUnits;
constexpr float kUnit = RLX_W_E2M1 ? 16384.0f : RLX_UNIT_SCALE;
// What codes stand for is their difference from this.
#if defined(RLX_W_q4_0)
constexpr float kZero = 8.0f;
#elif defined(RLX_W_q5_0)
constexpr float kZero = 16.0f;
#elif defined(RLX_W_q3_k)
constexpr float kZero = 4.0f;
#elif defined(RLX_W_q6_k)
constexpr float kZero = 32.0f;
#elif defined(RLX_W_q8_0) || defined(RLX_W_q8_k) || defined(RLX_W_iq4_nl) || defined(RLX_W_iq4_xs)
constexpr float kZero = 128.0f;
#else
constexpr float kZero = 0.0f;
#endif
constexpr bool kNeedsSums = RLX_W_OFFSETS || kZero != 0.0f;
static_assert(RLX_M <= 8, "rows of one fragment");

struct Factor {
  float scale;
  float offset;
};
constexpr rlx_u32 kFactorBytes = kGroups * kLines * (RLX_W_OFFSETS ? 8 : 4);  // of a warp

// Shared memory: rings, factors [kGroups][kLines] of each warp, parts [RLX_WARPS][RLX_TILES][32] of four floats.
constexpr rlx_u32 kFactorsAt = kRingsBytes;
constexpr rlx_u32 kPartsAt = kFactorsAt + RLX_WARPS * kFactorBytes;
RLX_DYNAMIC_SHARED(kPartsAt + RLX_WARPS * RLX_TILES * 512);

// ---- bytes of the ring ----

RLX_FN rlx_u32 ring_byte(rlx_u32 at) { return rlx_shared[at]; }
RLX_FN float ring_half(rlx_u32 at) { return rlx_f32_from_f16(*reinterpret_cast<const unsigned short*>(rlx_shared + at)); }
// Of any address where blocks are no whole words: of two aligned words, of which the second may be another line's.
RLX_FN rlx_u32 ring_word(rlx_u32 at) {
  const rlx_u32* from = reinterpret_cast<const rlx_u32*>(rlx_shared + (at & ~3u));
  if (RLX_W_BYTES % 4 == 0) return from[0];
  return __byte_perm(from[0], from[1], 0x3210u + (at & 3u) * 0x1111u);
}

// ---- codes and factors of a line's slice, which begins at `at` ----

// The words of the thread's elements of depths 32j .. 32j + 15 and of the 16 behind them: codes in their bytes, at bit code_shift(j).
RLX_FN void load_codes(rlx_u32 at, rlx_u32 j, rlx_u32 t, rlx_u32 (&codes)[2]) {
#if RLX_W_ELEMENTS == 32 && !defined(RLX_W_q8_0)
  at += j * rlx_u32(RLX_W_BYTES);
#if defined(RLX_W_q4_1)
  const rlx_u32 head = 4u;
#elif defined(RLX_W_q5_0)
  const rlx_u32 head = 6u;
#elif defined(RLX_W_q5_1)
  const rlx_u32 head = 8u;
#elif defined(RLX_W_mxfp4)
  const rlx_u32 head = 1u;
#else
  const rlx_u32 head = 2u;
#endif
  const rlx_u32 word = ring_word(at + head + 4u * t);
  codes[0] = word & 0x0F0F0F0Fu;
  codes[1] = (word >> 4) & 0x0F0F0F0Fu;
#if defined(RLX_W_q5_0) || defined(RLX_W_q5_1)
  const rlx_u32 fifth = ring_word(at + head - 4u) >> (4u * t);
  codes[0] |= rlx_spread_fifth(fifth);
  codes[1] |= rlx_spread_fifth(fifth >> 16);
#endif
#elif defined(RLX_W_nvfp4)
  // 16 elements are 8 bytes: the low halves are the first 8 of them.
  at += (j >> 1) * rlx_u32(RLX_W_BYTES) + 4u + 16u * (j & 1u) + 4u * (t & 1u);
  RLX_UNROLL for (rlx_u32 i = 0u; i < 2u; ++i) codes[i] = ring_word(at + 8u * i) >> (4u * (t >> 1));
#elif defined(RLX_W_iq4_xs)
  const rlx_u32 word = ring_word(at + 8u + 16u * j + 4u * t);
  codes[0] = word & 0x0F0F0F0Fu;
  codes[1] = (word >> 4) & 0x0F0F0F0Fu;
#else
  RLX_UNROLL for (rlx_u32 i = 0u; i < 2u; ++i) {
    const rlx_u32 row = 16u * i + 4u * t;
#if defined(RLX_W_q8_0)
    codes[i] = ring_word(at + j * rlx_u32(RLX_W_BYTES) + 2u + row) ^ 0x80808080u;
#elif defined(RLX_W_q8_k)
    codes[i] = ring_word(at + 4u + 32u * j + row) ^ 0x80808080u;
#elif defined(RLX_W_q4_k)
    codes[i] = ring_word(at + 16u + 32u * (j >> 1) + row);
#elif defined(RLX_W_q5_k)
    codes[i] = RLX_NIBBLES(ring_word(at + 48u + 32u * (j >> 1) + row), j & 1u) | rlx_bit_plane(ring_word(at + 16u + row), j, 4u);
#elif defined(RLX_W_q2_k)
    codes[i] = ring_word(at + 16u + 32u * (j >> 2) + row);
#elif defined(RLX_W_q3_k)
    codes[i] = RLX_PAIRS(ring_word(at + 32u + 32u * (j >> 2) + row), j & 3u) | rlx_bit_plane(ring_word(at + row), j, 2u);
#elif defined(RLX_W_q6_k)
    const rlx_u32 low = ring_word(at + 64u * (j >> 2) + 32u * (j & 1u) + row);
    const rlx_u32 top = ring_word(at + 128u + 32u * (j >> 2) + row);
    codes[i] = RLX_NIBBLES(low, (j >> 1) & 1u) | (RLX_PAIRS(top, j & 3u) << 4);
#endif
  }
#endif
#if defined(RLX_W_iq4_nl) || defined(RLX_W_iq4_xs)
  RLX_UNROLL for (rlx_u32 i = 0u; i < 2u; ++i) {
    codes[i] = rlx_look_up(codes[i], 0xBFAD9881u, 0xF6EADDCFu, 0x26190D01u, 0x71594535u) ^ 0x80808080u;
  }
#endif
}
RLX_FN rlx_u32 code_shift(rlx_u32 j) {
#if defined(RLX_W_q4_k)
  return 4u * (j & 1u);
#elif defined(RLX_W_q2_k)
  return 2u * (j & 3u);
#else
  return 0u;
#endif
}
// Two codes of a word's even bytes as halves.
RLX_FN rlx_u32 code_halves(rlx_u32 word, rlx_u32 shift) {
#if RLX_W_E2M1
  return rlx_e2m1_halves(word);
#elif defined(RLX_W_q4_k)
  return word & (0x000F000Fu << shift);
#elif defined(RLX_W_q2_k)
  return word & (0x00030003u << shift);
#else
  return word & 0x00FF00FFu;
#endif
}

// Of the elements that share a scale, for sums in units of kUnit.
RLX_FN Factor group_factor(rlx_u32 at, rlx_u32 group) {
  Factor factor = {0.0f, 0.0f};
#if RLX_W_ELEMENTS == 32
  at += group * rlx_u32(RLX_W_BYTES);
#if defined(RLX_W_mxfp4)
  // 2^(e - 127) with the codes' unit, in two factors: it may lie outside f32's normal numbers.
  const int exponent = int(ring_byte(at)) - 127 + 14;
  factor.scale = rlx_pow2(exponent >> 1) * rlx_pow2(exponent - (exponent >> 1));
  return factor;
#else
  factor.scale = ring_half(at);
#if RLX_W_OFFSETS
  factor.offset = ring_half(at + 2u);
#endif
#endif
#elif defined(RLX_W_nvfp4)
  const rlx_u32 code = ring_byte(at + (group >> 2) * rlx_u32(RLX_W_BYTES) + (group & 3u)) & 0x7Fu;
  factor.scale = code == 0x7Fu ? 0.0f : rlx_f32_from_f8e4m3(code);
#elif defined(RLX_W_q8_k)
  factor.scale = rlx_from_bits(ring_word(at));
#elif defined(RLX_W_iq4_xs)
  const rlx_u32 low_bits = (ring_word(at + 4u) >> (4u * group)) & 15u;
  const rlx_u32 high_bits = (ring_word(at) >> (16u + 2u * group)) & 3u;
  factor.scale = ring_half(at) * rlx_f32(int(low_bits | (high_bits << 4)) - 32);
#elif defined(RLX_W_q4_k) || defined(RLX_W_q5_k)
  const rlx_u32 i = group & 3u;
  const rlx_u32 a = ring_byte(at + 4u + i);
  const rlx_u32 b = ring_byte(at + 8u + i);
  const rlx_u32 c = ring_byte(at + 12u + i);
  const rlx_u32 scale = group < 4u ? a & 63u : (c & 15u) | ((a >> 6) << 4);
  const rlx_u32 minimum = group < 4u ? b & 63u : (c >> 4) | ((b >> 6) << 4);
  factor.scale = ring_half(at) * rlx_f32(scale);
  factor.offset = -(ring_half(at + 2u) * rlx_f32(minimum));
#elif defined(RLX_W_q2_k)
  const rlx_u32 sub = ring_byte(at + group);
  factor.scale = ring_half(at + 80u) * rlx_f32(sub & 15u);
  factor.offset = -(ring_half(at + 82u) * rlx_f32(sub >> 4));
#elif defined(RLX_W_q3_k)
  const rlx_u32 low_bits = (ring_byte(at + 96u + (group & 7u)) >> (4u * (group >> 3))) & 15u;
  const rlx_u32 high_bits = (ring_byte(at + 104u + (group & 3u)) >> (2u * (group >> 2))) & 3u;
  factor.scale = ring_half(at + 108u) * rlx_f32(int(low_bits | (high_bits << 4)) - 32);
#elif defined(RLX_W_q6_k)
  factor.scale = ring_half(at + 208u) * rlx_f32(rlx_wrap_i8(int(ring_byte(at + 192u + group))));
#endif
  factor.scale *= kUnit / rlx_f32(1u << code_shift(group * kGroupUnits / 2u));
  return factor;
}

// ---- product ----

// The thread's elements of its row of x, and of the two rows whose sums it has, zero or one times the groups' sums of x.
struct HeldX {
  rlx_u32 halves[kUnits][2];
  float sums[kGroups][2];
};
RLX_FN void hold_x(rlx_ptr x, rlx_u32 slice, HeldX& held) {
  const rlx_u32 row = rlx_lane_of_warp / 4u;
  RLX_UNROLL for (rlx_u32 u = 0u; u < kUnits; ++u) {
    const rlx_u32 depth = slice * kSlice + u * 16u;
    rlx_uvec2 words = rlx_make_uvec2(0u, 0u);
    if (row < rlx_u32(RLX_M) && (RLX_K % kSlice == 0u || depth < rlx_u32(RLX_K))) {
      words = rlx_raw8(x, (rlx_i64(row) * RLX_K + depth + rlx_lane_of_warp % 4u * 4u) * 2);
    }
    held.halves[u][0] = __byte_perm(words.x, words.y, 0x5410u);
    held.halves[u][1] = __byte_perm(words.x, words.y, 0x7632u);
  }
  if (!kNeedsSums) return;
  constexpr rlx_u32 kOnes = 0x3C003C00u;
  const rlx_u32 ones[4] = {kOnes, kOnes, kOnes, kOnes};
  RLX_UNROLL for (rlx_u32 group = 0u; group < kGroups; ++group) {
    float sums[4] = {};
    RLX_UNROLL for (rlx_u32 i = 0u; i < kGroupUnits; ++i) rlx_mma_f16(sums, ones, held.halves[group * kGroupUnits + i]);
    RLX_UNROLL for (rlx_u32 e = 0u; e < 2u; ++e) held.sums[group][e] = RLX_W_OFFSETS ? sums[e] : -(kZero / kUnit) * sums[e];
  }
}

RLX_FN Factor factor_at(rlx_u32 factors, rlx_u32 group, rlx_u32 line) {
  const float* from = reinterpret_cast<const float*>(rlx_shared + factors) + (group * kLines + line) * (RLX_W_OFFSETS ? 2u : 1u);
  return {from[0], RLX_W_OFFSETS ? from[1] : 0.0f};
}
RLX_FN void put_factor(rlx_u32 factors, rlx_u32 group, rlx_u32 line, Factor factor) {
  float* to = reinterpret_cast<float*>(rlx_shared + factors) + (group * kLines + line) * (RLX_W_OFFSETS ? 2u : 1u);
  to[0] = factor.scale;
  if (RLX_W_OFFSETS) to[1] = factor.offset;
}

// A tile's slice, as d of an mma; at: where the slices of the thread's two lines begin.
RLX_FN void multiply_tile(const HeldX& held, const rlx_u32 (&at)[2], rlx_u32 factors, float (&acc)[4]) {
  const rlx_u32 g = rlx_lane_of_warp / 4u;
  const rlx_u32 t = rlx_lane_of_warp % 4u;
  RLX_UNROLL for (rlx_u32 half = 0u; half < 2u; ++half) {
    RLX_UNROLL for (rlx_u32 i = 0u; i < kGroups / 4u; ++i) {
      put_factor(factors, t + i * 4u, g + half * 8u, group_factor(at[half], t + i * 4u));
    }
  }
  __syncwarp();
  RLX_UNROLL for (rlx_u32 j = 0u; j < kUnits / 2u; ++j) {
    rlx_u32 codes[2][2];
    RLX_UNROLL for (rlx_u32 half = 0u; half < 2u; ++half) load_codes(at[half], j, t, codes[half]);
    float sums[4];
    RLX_UNROLL for (rlx_u32 i = 0u; i < 2u; ++i) {
      const rlx_u32 group = (2u * j + i) / kGroupUnits;
      if (i % kGroupUnits == 0u) {
        RLX_UNROLL for (rlx_u32 e = 0u; e < 4u; ++e) sums[e] = kNeedsSums && !RLX_W_OFFSETS ? held.sums[group][e % 2u] : 0.0f;
      }
      const rlx_u32 shift = code_shift(j);
      const rlx_u32 a[4] = {code_halves(codes[0][i], shift), code_halves(codes[1][i], shift), code_halves(codes[0][i] >> 8, shift),
                            code_halves(codes[1][i] >> 8, shift)};
      rlx_mma_f16(sums, a, held.halves[2u * j + i]);
      if ((i + 1u) % kGroupUnits != 0u) continue;
      RLX_UNROLL for (rlx_u32 half = 0u; half < 2u; ++half) {
        const Factor factor = factor_at(factors, group, g + half * 8u);
        RLX_UNROLL for (rlx_u32 e = 0u; e < 2u; ++e) {
          if (RLX_W_OFFSETS) acc[2u * half + e] += factor.offset * held.sums[group][e];
          acc[2u * half + e] += factor.scale * sums[2u * half + e];
        }
      }
    }
  }
}

// All of a warp's slices of the workgroup's lines, added up in its parts.
RLX_FN void multiply_lines(const RlxParams& p, Weights from, rlx_u32 first_line) {
  const rlx_u32 factors = kFactorsAt + rlx_warp * kFactorBytes;
  HeldX held;
  const auto begin = [&](rlx_u32 slice) { hold_x(p.x, slice, held); };
  stream_tiles(rlx_shared, from, first_line, RLX_TILES, begin, [&](rlx_u32 tile, bool is_first, const rlx_u32 (&at)[2]) {
    float4* own = reinterpret_cast<float4*>(rlx_shared + kPartsAt) + (rlx_warp * RLX_TILES + tile) * 32u + rlx_lane_of_warp;
    float acc[4] = {};
    if (!is_first) {
      acc[0] = own->x;
      acc[1] = own->y;
      acc[2] = own->z;
      acc[3] = own->w;
    }
    multiply_tile(held, at, factors, acc);
    *own = make_float4(acc[0], acc[1], acc[2], acc[3]);
  });
}

// The sum of row m and a line of the workgroup, behind a barrier.
RLX_FN float joined_sum(rlx_u32 m, rlx_u32 line) {
  const rlx_u32 lane = line % 8u * 4u + m / 2u;
  const rlx_u32 element = line % kLines / 8u * 2u + m % 2u;
  const float* from = reinterpret_cast<const float*>(rlx_shared + kPartsAt) + (line / kLines * 32u + lane) * 4u + element;
  float total = from[0];
  RLX_UNROLL for (rlx_u32 warp = 1u; warp < RLX_WARPS; ++warp) total += from[warp * (RLX_TILES * 128u)];
  return total;
}

#endif
