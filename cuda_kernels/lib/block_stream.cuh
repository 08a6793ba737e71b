// SPDX-License-Identifier: Apache-2.0
// Sums of up to eight rows of f16 times lines of a weight matrix in blocks (lib/weights.inc), which is read once, at the speed of memory: the
// streamed form of dequant_mma. A warp multiplies 16 lines by 8 rows with one m16n8k16 for 16 depths, so rows cost nothing but their x.
// Specializations: RLX_M; those of lib/block_ring.cuh, whose warps hold the x of a slice in registers. What the slices of a warp add up to lies
//   in `parts`, and the warps' parts are added where results are made.
// Layout of a fragment: lib/near_blocks.inc; a[0], a[1] are elements 4t and 4t + 2 of lines g and g + 8, a[2], a[3] the odd ones.
// Numerics: products are exact (lib/near_blocks.inc); a group's sum is the tensor core's, less zero * (sum of x), the groups' f32, in an order
//   that RLX_K alone decides: a row's bits do not depend on RLX_M.
#ifndef RLX_LIB_BLOCK_STREAM_CUH
#define RLX_LIB_BLOCK_STREAM_CUH

#include "lib/block_ring.cuh"
#include "lib/near_blocks.inc"

static_assert(RLX_M <= 8, "rows of one fragment");

constexpr rlx_u32 kFactorBytes = RLX_NEAR_GROUPS * kLines * (RLX_W_OFFSETS ? 8 : 4);  // of a warp

// Shared memory: rings, factors [RLX_NEAR_GROUPS][kLines] of each warp, parts [RLX_WARPS][RLX_TILES][32] of four floats.
constexpr rlx_u32 kFactorsAt = kRingsBytes;
constexpr rlx_u32 kPartsAt = kFactorsAt + RLX_WARPS * kFactorBytes;
RLX_DYNAMIC_SHARED(kPartsAt + RLX_WARPS * RLX_TILES * 512);

// ---- bytes of the ring ----

RLX_FN rlx_u32 rlx_near_byte(rlx_u32 at) { return rlx_shared[at]; }
RLX_FN float rlx_near_half(rlx_u32 at) { return rlx_f32_from_f16(*reinterpret_cast<const unsigned short*>(rlx_shared + at)); }
// Of any address where blocks are no whole words: of two aligned words, of which the second may be another line's.
RLX_FN rlx_u32 rlx_near_word(rlx_u32 at) {
  const rlx_u32* from = reinterpret_cast<const rlx_u32*>(rlx_shared + (at & ~3u));
  if (RLX_W_BYTES % 4 == 0) return from[0];
  return __byte_perm(from[0], from[1], 0x3210u + (at & 3u) * 0x1111u);
}

// ---- product ----

// The thread's elements of its row of x, and of the two rows whose sums it has, zero or one times the groups' sums of x.
struct HeldX {
  rlx_u32 halves[RLX_UNITS][2];
  float sums[RLX_NEAR_GROUPS][2];
};
RLX_FN void hold_x(rlx_ptr x, rlx_u32 slice, HeldX& held) {
  const rlx_u32 row = rlx_lane_of_warp / 4u;
  RLX_UNROLL for (rlx_u32 u = 0u; u < RLX_UNITS; ++u) {
    const rlx_u32 depth = slice * kSlice + u * 16u;
    rlx_uvec2 words = rlx_make_uvec2(0u, 0u);
    if (row < rlx_u32(RLX_M) && (RLX_K % kSlice == 0u || depth < rlx_u32(RLX_K))) {
      words = rlx_raw8(x, (rlx_i64(row) * RLX_K + depth + rlx_lane_of_warp % 4u * 4u) * 2);
    }
    held.halves[u][0] = __byte_perm(words.x, words.y, 0x5410u);
    held.halves[u][1] = __byte_perm(words.x, words.y, 0x7632u);
  }
  if (!RLX_NEEDS_X_SUMS) return;
  constexpr rlx_u32 kOnes = 0x3C003C00u;
  const rlx_u32 ones[4] = {kOnes, kOnes, kOnes, kOnes};
  RLX_UNROLL for (rlx_u32 group = 0u; group < RLX_NEAR_GROUPS; ++group) {
    float sums[4] = {};
    RLX_UNROLL for (rlx_u32 i = 0u; i < RLX_UNITS_OF_GROUP; ++i) rlx_mma_f16(sums, ones, held.halves[group * RLX_UNITS_OF_GROUP + i]);
    constexpr float kFactor = RLX_W_OFFSETS ? 1.0f : -float(RLX_CODE_ZERO) / float(1 << RLX_NEAR_EXPONENT);
    RLX_UNROLL for (rlx_u32 e = 0u; e < 2u; ++e) held.sums[group][e] = kFactor * sums[e];
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
    RLX_UNROLL for (rlx_u32 i = 0u; i < RLX_NEAR_GROUPS / 4u; ++i) {
      put_factor(factors, t + i * 4u, g + half * 8u, rlx_near_factor(at[half], t + i * 4u));
    }
  }
  __syncwarp();
  RLX_UNROLL for (rlx_u32 j = 0u; j < RLX_UNITS / 2u; ++j) {
    rlx_u32 codes[2][2];
    RLX_UNROLL for (rlx_u32 half = 0u; half < 2u; ++half) rlx_near_codes(at[half], j, t, codes[half]);
    float sums[4];
    RLX_UNROLL for (rlx_u32 i = 0u; i < 2u; ++i) {
      const rlx_u32 group = (2u * j + i) / RLX_UNITS_OF_GROUP;
      if (i % RLX_UNITS_OF_GROUP == 0u) {
        RLX_UNROLL for (rlx_u32 e = 0u; e < 4u; ++e) sums[e] = RLX_NEEDS_X_SUMS && !RLX_W_OFFSETS ? held.sums[group][e % 2u] : 0.0f;
      }
      const rlx_u32 shift = rlx_near_shift(j);
      const rlx_u32 a[4] = {rlx_near_halves(codes[0][i], shift), rlx_near_halves(codes[1][i], shift), rlx_near_halves(codes[0][i] >> 8, shift),
                            rlx_near_halves(codes[1][i] >> 8, shift)};
      rlx_mma_f16(sums, a, held.halves[2u * j + i]);
      if ((i + 1u) % RLX_UNITS_OF_GROUP != 0u) continue;
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
