// SPDX-License-Identifier: Apache-2.0
// The sums of one row of x, or of its rms_norm, times lines of a weight matrix in blocks (lib/weights.inc), at the speed of memory: the form of
// dequant_mma for one row. Tensor cores add up what a thread multiplies: of the eight columns of x of an m16n8k16 two belong to each of the four
// threads that share a line, and hold the x of that thread's weights and zeros for the others'. So a thread finds the sums of its own codes in
// its own d, where it has their scales, and codes become halves by a mask for two of them.
// Specializations: those of lib/block_ring.cuh, whose warps hold the x of a slice in registers; RLX_X f16, bf16 or f32; RLX_NORM as in
//   dequant_matvec.
// Layout: thread t has two pieces of 32 elements of a slice of each of its lines g and g + 8. Column 2t + j is its slot j: half of a piece's
//   runs, and of runs that have scales of their own one at a time (kSets). a[j * 2 + half]: two codes of slot j of a line; b[j]: their x.
// Numerics: codes are whole numbers in units of 2^-24 (subnormal halves; E2M1 codes are halves themselves) and their products exact. x of f16
//   stands as it is; other x times the power of two that brings the largest of the slice to 2^14, as the sum of two halves (one for bf16): as
//   exact as f32 for what is 2^-15 of that largest or more, and to 2^-38 of it for what is less. Sums of what shares a scale are the tensor
//   core's, those of slices f32, in an order that RLX_K alone decides.
#ifndef RLX_LIB_BLOCK_ROW_CUH
#define RLX_LIB_BLOCK_ROW_CUH

#include "lib/block_ring.cuh"

#define rlx_is_f16_f16 1
#define rlx_is_f16_bf16 0
#define rlx_is_f16_f32 0
#define rlx_is_f32_f16 0
#define rlx_is_f32_bf16 0
#define rlx_is_f32_f32 1
constexpr rlx_u32 kParts = RLX_NORM || RLX_CAT(rlx_is_f32_, RLX_X) ? 2u : 1u;  // halves that an x is the sum of
constexpr bool kScaled = RLX_NORM || !RLX_CAT(rlx_is_f16_, RLX_X);
constexpr rlx_u32 kPieces = 2;                                         // of a thread's line
constexpr rlx_u32 kProducts = 8;                                       // of a piece: four codes each, two of each slot
constexpr rlx_u32 kSets = RLX_RUNS_OF_GROUP == 1 ? 2u : 1u;            // of slots of a piece
constexpr rlx_u32 kScales = RLX_PIECES_OF_SCALES == 2 ? kSets : kPieces * kSets;  // sets of slots whose scales differ
static_assert(RLX_W_ELEMENTS <= kSlice, "whole blocks in a slice");

// Shared memory: rings, parts [RLX_WARPS][RLX_TILES][32] of two floats, squares [RLX_WARPS].
constexpr rlx_u32 kPartsAt = kRingsBytes;
constexpr rlx_u32 kSquaresAt = kPartsAt + RLX_WARPS * RLX_TILES * 256;
RLX_DYNAMIC_SHARED(kSquaresAt + RLX_WARPS * 4);

// A place in shared memory, with the words of lib/blocks.inc.
struct RingPlace {
  rlx_u32 at;
  RLX_FN explicit operator rlx_u32() const { return at; }
  RLX_FN RingPlace operator+(rlx_ptr bytes) const { return {at + rlx_u32(bytes)}; }
  RLX_FN RingPlace operator&(rlx_ptr mask) const { return {at & rlx_u32(mask)}; }
  template <typename Type>
  RLX_FN const Type& as(rlx_i64 offset) const {
    return *reinterpret_cast<const Type*>(rlx_shared + at + rlx_u32(offset));
  }
};
RLX_FN rlx_u32 rlx_load_u8(RingPlace base, rlx_i64 i) { return base.as<unsigned char>(i); }
RLX_FN rlx_u32 rlx_load_u16(RingPlace base, rlx_i64 i) { return base.as<unsigned short>(i * 2); }
RLX_FN rlx_u32 rlx_raw4(RingPlace base, rlx_i64 byte_offset) { return base.as<rlx_u32>(byte_offset); }
RLX_FN rlx_uvec2 rlx_raw8(RingPlace base, rlx_i64 byte_offset) { return base.as<rlx_uvec2>(byte_offset); }
RLX_FN rlx_uvec4 rlx_raw16(RingPlace base, rlx_i64 byte_offset) { return base.as<rlx_uvec4>(byte_offset); }

// Which of a slice's pieces thread t has: two that share their scales lie side by side.
RLX_FN rlx_u32 piece_of(rlx_u32 t, rlx_u32 q) { return RLX_PIECES_OF_SCALES == 2 ? 2u * t + q : t + 4u * q; }
// The run of a slot that product u of a piece multiplies, and the set whose sums it adds to.
RLX_FN rlx_u32 run_of(rlx_u32 slot, rlx_u32 u) { return kSets == 2u ? u / 4u * 2u + slot : slot * 2u + u / 4u; }
RLX_FN rlx_u32 set_of(rlx_u32 u) { return kSets == 2u ? u / 4u : 0u; }
RLX_FN rlx_u32 scale_set(rlx_u32 q, rlx_u32 set) { return RLX_PIECES_OF_SCALES == 2 ? set : q * kSets + set; }

// ---- x ----

// Of a slice: halves[part][q][u][j] is b[j] of product u of piece q; sums of x by slots; unit is what their sums are to be multiplied by.
struct HeldX {
  rlx_u32 halves[kParts][kPieces][kProducts][2];
  float sums[kScales][2];
  float unit;
};

// Of a warp's largest magnitude, the power of two that brings it to 2^14; 1 where there is none.
RLX_FN int exponent_to_scale(float largest) {
  RLX_UNROLL for (int distance = 16; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, distance));
  }
  const int exponent = int(rlx_bits(largest) >> 23);
  return largest == 0.0f || exponent == 255 ? 0 : min(14 + 127 - exponent, 126);
}

RLX_FN void hold_x(const RlxParams& p, rlx_u32 slice, HeldX& held, float& squares) {
  const rlx_u32 t = rlx_lane_of_warp % 4u;
  const rlx_u32 slot = rlx_lane_of_warp / 4u % 2u;
  const bool has_x = rlx_lane_of_warp / 8u == t;
  float values[kPieces][2][8] = {};
  float largest = 0.0f;
  if (has_x) {
    RLX_UNROLL for (rlx_u32 q = 0u; q < kPieces; ++q) {
      RLX_UNROLL for (rlx_u32 i = 0u; i < 2u; ++i) {
        const rlx_u32 piece = piece_of(t, q);
        const rlx_u32 depth = slice * kSlice + piece / RLX_W_PIECES * RLX_W_ELEMENTS + rlx_run_place(piece % RLX_W_PIECES, run_of(slot, 4u * i));
        if (RLX_K % kSlice != 0u && depth >= rlx_u32(RLX_K)) continue;
        load_operand(p, 0u, depth, values[q][i], squares);
        RLX_UNROLL for (int e = 0; e < 8; ++e) largest = fmaxf(largest, fabsf(values[q][i][e]));
      }
    }
  }
  held.unit = 1.0f;
  if (kScaled) {
    const int exponent = exponent_to_scale(largest);
    const float factor = rlx_pow2(exponent);
    held.unit = rlx_pow2(-exponent);
    RLX_UNROLL for (rlx_u32 q = 0u; q < kPieces; ++q) {
      RLX_UNROLL for (rlx_u32 i = 0u; i < 2u; ++i) {
        RLX_UNROLL for (int e = 0; e < 8; ++e) values[q][i][e] *= factor;
      }
    }
  }
  RLX_UNROLL for (rlx_u32 q = 0u; q < kPieces; ++q) {
    RLX_UNROLL for (rlx_u32 u = 0u; u < kProducts; ++u) {
      const rlx_u32 first = u % 4u / 2u * 4u + u % 2u;
      float low = values[q][u / 4u][first];
      float high = values[q][u / 4u][first + 2u];
      RLX_UNROLL for (rlx_u32 part = 0u; part < kParts; ++part) {
        const rlx_u32 word = rlx_pack_f16x2(low, high);
        held.halves[part][q][u][0] = slot == 0u ? word : 0u;
        held.halves[part][q][u][1] = slot == 1u ? word : 0u;
        const rlx_vec2 rounded = rlx_unpack_f16x2(word);
        low -= rounded.x;
        high -= rounded.y;
      }
    }
  }
  constexpr rlx_u32 kOnes = 0x3C003C00u;
  const rlx_u32 ones[4] = {kOnes, kOnes, kOnes, kOnes};
  float sums[kScales][4] = {};
  RLX_UNROLL for (rlx_u32 q = 0u; q < kPieces; ++q) {
    RLX_UNROLL for (rlx_u32 u = 0u; u < kProducts; ++u) {
      RLX_UNROLL for (rlx_u32 part = 0u; part < kParts; ++part) rlx_mma_f16(sums[scale_set(q, set_of(u))], ones, held.halves[part][q][u]);
    }
  }
  RLX_UNROLL for (rlx_u32 s = 0u; s < kScales; ++s) {
    RLX_UNROLL for (rlx_u32 slot_of_sum = 0u; slot_of_sum < 2u; ++slot_of_sum) held.sums[s][slot_of_sum] = sums[s][slot_of_sum];
  }
}

// ---- products ----

// Two of a run's codes as halves: bytes 0 and 2, or 1 and 3, of its first word, then of the second.
RLX_FN rlx_u32 code_halves(Run run, rlx_u32 pair) {
  const rlx_u32 word = (pair < 2u ? run.low : run.high) >> (pair % 2u * 8u);
#if RLX_W_E2M1
  return rlx_e2m1_halves(word >> run.shift);
#else
  return word & ((run.mask << run.shift) * 0x10001u);
#endif
}

// What the thread's pieces add to the sums of its lines; at: where the lines' slices begin.
RLX_FN void multiply_tile(const HeldX& held, const rlx_u32 (&at)[2], float (&acc)[2]) {
  const rlx_u32 t = rlx_lane_of_warp % 4u;
  Piece pieces[kPieces][2];
  float sums[kPieces * kSets][4] = {};
  RLX_UNROLL for (rlx_u32 q = 0u; q < kPieces; ++q) {
    const rlx_u32 piece = piece_of(t, q);
    RLX_UNROLL for (rlx_u32 half = 0u; half < 2u; ++half) {
      pieces[q][half] = rlx_load_piece(RingPlace{at[half] + piece / RLX_W_PIECES * RLX_W_BYTES}, piece % RLX_W_PIECES);
    }
    RLX_UNROLL for (rlx_u32 u = 0u; u < kProducts; ++u) {
      rlx_u32 a[4];
      RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) a[i] = code_halves(rlx_run(pieces[q][i % 2u], run_of(i / 2u, u)), u % 4u);
      RLX_UNROLL for (rlx_u32 part = 0u; part < kParts; ++part) rlx_mma_f16(sums[q * kSets + set_of(u)], a, held.halves[part][q][u]);
    }
  }
  RLX_UNROLL for (rlx_u32 s = 0u; s < kScales; ++s) {
    RLX_UNROLL for (rlx_u32 half = 0u; half < 2u; ++half) {
      RLX_UNROLL for (rlx_u32 slot = 0u; slot < 2u; ++slot) {
        float sum = sums[s][half * 2u + slot];
        if (RLX_PIECES_OF_SCALES == 2) sum += sums[kSets + s][half * 2u + slot];
        const Piece piece = pieces[s / kSets][half];
        acc[half] += rlx_group_value(piece, rlx_run(piece, run_of(slot, s % kSets * 4u)), sum, held.sums[s][slot]);
      }
    }
  }
}

// All of a warp's slices of the workgroup's lines, added up in its parts.
RLX_FN void multiply_lines(const RlxParams& p, Weights from, rlx_u32 first_line) {
  HeldX held;
  float squares = 0.0f;
  const auto begin = [&](rlx_u32 slice) { hold_x(p, slice, held, squares); };
  stream_lines(rlx_shared, from, first_line, begin, [&](rlx_u32 tile, bool is_first, const rlx_u32 (&at)[2]) {
    float2* own = reinterpret_cast<float2*>(rlx_shared + kPartsAt) + (rlx_warp * RLX_TILES + tile) * 32u + rlx_lane_of_warp;
    float acc[2] = {};
    multiply_tile(held, at, acc);
    const float2 before = is_first ? make_float2(0.0f, 0.0f) : *own;
    *own = make_float2(before.x + held.unit * acc[0], before.y + held.unit * acc[1]);
  });
#if RLX_NORM
  RLX_UNROLL for (int distance = 16; distance > 0; distance /= 2) squares += __shfl_xor_sync(0xFFFFFFFFu, squares, distance);
  if (rlx_lane_of_warp == 0u) reinterpret_cast<float*>(rlx_shared + kSquaresAt)[rlx_warp] = squares;
#endif
}

// The sum of a line of the workgroup, behind a barrier.
RLX_FN float joined_sum(rlx_u32, rlx_u32 line) {
  float total = 0.0f;
  RLX_UNROLL for (rlx_u32 warp = 0u; warp < RLX_WARPS; ++warp) {
    const float* from = reinterpret_cast<const float*>(rlx_shared + kPartsAt) + ((warp * RLX_TILES + line / kLines) * 32u + line % 8u * 4u) * 2u;
    RLX_UNROLL for (rlx_u32 t = 0u; t < 4u; ++t) total += from[t * 2u + line % kLines / 8u];
  }
#if RLX_NORM
  float squares = 0.0f;
  RLX_UNROLL for (rlx_u32 warp = 0u; warp < RLX_WARPS; ++warp) squares += reinterpret_cast<const float*>(rlx_shared + kSquaresAt)[warp];
  return normed(total, squares);
#else
  return total;
#endif
}

#endif
