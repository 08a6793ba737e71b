// SPDX-License-Identifier: Apache-2.0
// Products that are f32 in result on tensor cores: each operand is split into two tf32 parts, x = high + low / 2048, both within
// f32's range of exponents. high * high and the mixed products are summed apart; low * low is below f32's last bit where many
// products are added. Tensor cores cut sums off instead of rounding them, so high * high moves into a rounded sum every few
// depths (settle). Where a sum is not finite (an operand is not, or overflows), the caller computes it again (rlx_finite).
#ifndef RLX_LIB_SPLIT_F32_CUH
#define RLX_LIB_SPLIT_F32_CUH

#include "lib/mma.cuh"

// Where few products are added, one that dominates shows its last bits: low * low counts there.
#define RLX_SPLIT_FEW_PRODUCTS 192

// high is rounded to nearest; low has 12 bits, of which the tensor core drops the last one. Adding to the bits of a NaN can make
// a number of it: low is then still NaN.
RLX_FN void rlx_split_f32(rlx_u32 bits, rlx_u32& high, rlx_u32& low) {
  high = (bits + 0x1000u) & 0xFFFFE000u;
  low = rlx_bits((rlx_from_bits(bits) - rlx_from_bits(high)) * 2048.0f);
}

// The same of four words in shared memory, which become the high parts; the low ones go to `low`.
RLX_FN void rlx_split_shared4(rlx_u32 shared, rlx_u32 low) {
  rlx_u32 high_words[4];
  rlx_u32 low_words[4];
  rlx_shared_load4(high_words, shared);
  RLX_UNROLL for (int e = 0; e < 4; ++e) rlx_split_f32(high_words[e], high_words[e], low_words[e]);
  rlx_shared_store4(shared, high_words);
  rlx_shared_store4(low, low_words);
}

RLX_FN bool rlx_finite(float x) { return (rlx_bits(x) & 0x7FFFFFFFu) < 0x7F800000u; }

// What a warp has summed of kM x kN blocks of 16 x 8: high * high since the last settle(), the mixed products times 2048, and what
// was settled.
template <int kM, int kN>
struct RlxSplitSums {
  float high[kM][kN][4];
  float mixed[kM][kN][4];
  float settled[kM][kN][4];
};

template <int kM, int kN>
RLX_FN void rlx_clear(float (&sums)[kM][kN][4]) {
  RLX_UNROLL for (int i = 0; i < kM; ++i) {
    RLX_UNROLL for (int j = 0; j < kN; ++j) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) sums[i][j][e] = 0.0f;
    }
  }
}

template <int kM, int kN>
RLX_FN void rlx_clear(RlxSplitSums<kM, kN>& sums) {
  rlx_clear(sums.high);
  rlx_clear(sums.mixed);
  rlx_clear(sums.settled);
}

// Adds the products of one mma depth; a and b are f32 and become their high parts. kLowProducts: low * low too.
template <bool kLowProducts, int kM, int kN>
RLX_FN void rlx_multiply_split(RlxSplitSums<kM, kN>& sums, rlx_u32 (&a)[kM][4], rlx_u32 (&b)[kN][2]) {
  rlx_u32 a_low[kM][4];
  rlx_u32 b_low[kN][2];
  RLX_UNROLL for (int i = 0; i < kM; ++i) {
    RLX_UNROLL for (int e = 0; e < 4; ++e) rlx_split_f32(a[i][e], a[i][e], a_low[i][e]);
  }
  // Products of one sum stand far apart: each waits for the one before.
  RLX_UNROLL for (int j = 0; j < kN; ++j) {
    rlx_u32 rest[2];
    RLX_UNROLL for (int e = 0; e < 2; ++e) {
      const float x = rlx_from_bits(b[j][e]);
      rlx_split_f32(b[j][e], b[j][e], b_low[j][e]);
      rest[e] = rlx_bits(x - rlx_from_bits(b[j][e]));
    }
    RLX_UNROLL for (int i = 0; i < kM; ++i) {
      if (kLowProducts) rlx_mma_tf32(sums.mixed[i][j], a_low[i], rest);
      rlx_mma_tf32(sums.mixed[i][j], a_low[i], b[j]);
    }
  }
  RLX_UNROLL for (int j = 0; j < kN; ++j) {
    RLX_UNROLL for (int i = 0; i < kM; ++i) rlx_mma_tf32(sums.high[i][j], a[i], b[j]);
  }
  RLX_UNROLL for (int j = 0; j < kN; ++j) {
    RLX_UNROLL for (int i = 0; i < kM; ++i) rlx_mma_tf32(sums.mixed[i][j], a[i], b_low[j]);
  }
}

// Adds the cut-off sums to rounded ones.
template <int kM, int kN>
RLX_FN void rlx_add_high(RlxSplitSums<kM, kN>& sums) {
  RLX_UNROLL for (int i = 0; i < kM; ++i) {
    RLX_UNROLL for (int j = 0; j < kN; ++j) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) sums.settled[i][j][e] += sums.high[i][j][e];
    }
  }
}
// Moves them there: every 32 depths or more often.
template <int kM, int kN>
RLX_FN void rlx_settle(RlxSplitSums<kM, kN>& sums) {
  rlx_add_high(sums);
  rlx_clear(sums.high);
}

// A whole sum, where all are settled.
template <int kM, int kN>
RLX_FN float rlx_sum_of(const RlxSplitSums<kM, kN>& sums, int i, int j, int e) {
  return fmaf(sums.mixed[i][j][e], 1.0f / 2048.0f, sums.settled[i][j][e]);
}

#endif
