// SPDX-License-Identifier: Apache-2.0
// The sums of one row of x, or of its rms_norm, times lines of a weight matrix in blocks (lib/weights.inc), at the speed of memory: the form of
// dequant_mma for one row. Tensor cores add up what a thread multiplies: of the eight columns of x of an m16n8k16 two belong to each of the four
// threads that share a line, and hold the x of that thread's weights and zeros for the others'. So a thread finds the sums of its own codes in
// its own d, where it has their scales, and codes become halves by a mask for two of them.
// Specializations: lib/block_ring.cuh, whose warps hold the x of a slice in registers; RLX_GROUPS workgroups share all tiles evenly; RLX_X f16,
//   bf16 or f32; RLX_NORM as in dequant_matvec.
// Layout: thread t has two pieces of 32 elements of a slice of each of its lines g and g + 8. Product u of a piece takes word u % 2 of run u / 2:
//   a[0], a[1] codes 0 and 2 of lines g and g + 8, a[2], a[3] codes 1 and 3; column 2t of b their x, column 2t + 1 what x was short by.
// Numerics: codes are whole numbers in units of 2^-24 (subnormal halves; E2M1 codes are halves themselves) and their products exact. x of f16
//   stands as it is; other x times the power of two that brings the largest of the slice to 2^14, as the sum of two halves: as exact as f32 for
//   what is 2^-15 of that largest or more, and to 2^-38 of it for what is less. Sums of what shares a scale are the tensor core's, those of
//   slices f32, in an order that RLX_K alone decides.
#ifndef RLX_LIB_BLOCK_ROW_CUH
#define RLX_LIB_BLOCK_ROW_CUH

#include "lib/block_ring.cuh"

#define rlx_is_f16_f16 1
#define rlx_is_f16_bf16 0
#define rlx_is_f16_f32 0
constexpr bool kSplit = RLX_NORM || !RLX_CAT(rlx_is_f16_, RLX_X);  // x is the sum of two halves
constexpr rlx_u32 kPieces = 2;                                     // of a thread's line
constexpr rlx_u32 kProducts = 8;                                   // of a piece
constexpr rlx_u32 kGroups = 4 / RLX_RUNS_OF_GROUP;                 // of a piece, whose scales or units differ
constexpr rlx_u32 kSets = RLX_PIECES_OF_SCALES == 2 ? kGroups : kPieces * kGroups;
constexpr rlx_u32 kAllTiles = (RLX_N + kLines - 1) / kLines;
static_assert(RLX_W_ELEMENTS <= kSlice, "whole blocks in a slice");

// Shared memory: rings, parts [RLX_WARPS][RLX_TILES][kLines], squares [RLX_WARPS].
constexpr rlx_u32 kPartsAt = kRingsBytes;
constexpr rlx_u32 kSquaresAt = kPartsAt + RLX_WARPS * RLX_TILES * kLines * 4;
RLX_DYNAMIC_SHARED(kSquaresAt + RLX_WARPS * 4);

// A place in shared memory, as lib/blocks.inc reads it.
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
// The sums to which a run of a piece adds.
RLX_FN rlx_u32 set_of(rlx_u32 q, rlx_u32 run) { return (RLX_PIECES_OF_SCALES == 2 ? 0u : q * kGroups) + run / RLX_RUNS_OF_GROUP; }

// The tiles of a workgroup.
struct TileShare {
  rlx_u32 first;
  rlx_u32 count;
};
RLX_FN TileShare tiles_of(rlx_u32 group) {
  const rlx_u32 first = rlx_u32(rlx_u64(group) * kAllTiles / RLX_GROUPS);
  return {first, rlx_u32(rlx_u64(group + 1u) * kAllTiles / RLX_GROUPS) - first};
}

// ---- x ----

// Of a slice: halves[q][u] is b of product u of piece q; sums of x by sets; unit is what their sums are to be multiplied by.
struct HeldX {
  rlx_u32 halves[kPieces][kProducts][2];
  float sums[kSets];
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

// Two floats as halves, or what these are short by.
RLX_FN rlx_u32 halves_of(float low, float high, bool is_rest) {
  const rlx_u32 word = rlx_pack_f16x2(low, high);
  if (!kSplit) return word;
  const rlx_vec2 rounded = rlx_unpack_f16x2(word);
  return is_rest ? rlx_pack_f16x2(low - rounded.x, high - rounded.y) : word;
}

RLX_FN void hold_x(const RlxParams& p, rlx_u32 slice, HeldX& held, float& squares) {
  const rlx_u32 t = rlx_lane_of_warp % 4u;
  const bool is_rest = rlx_lane_of_warp / 4u % 2u != 0u;
  float values[kPieces][4][8] = {};
  float largest = 0.0f;
  float own_squares = 0.0f;
  if (rlx_lane_of_warp / 8u == t && (kSplit || !is_rest)) {
    RLX_UNROLL for (rlx_u32 q = 0u; q < kPieces; ++q) {
      const rlx_u32 piece = piece_of(t, q);
      RLX_UNROLL for (rlx_u32 run = 0u; run < 4u; ++run) {
        const rlx_u32 depth = slice * kSlice + piece / RLX_W_PIECES * RLX_W_ELEMENTS + rlx_run_place(piece % RLX_W_PIECES, run);
        if (RLX_K % kSlice == 0u || depth < rlx_u32(RLX_K)) load_operand(p, 0u, depth, values[q][run], own_squares);
        RLX_UNROLL for (int e = 0; e < 8; ++e) largest = fmaxf(largest, fabsf(values[q][run][e]));
      }
    }
  }
  if (!is_rest) squares += own_squares;
  const int exponent = kSplit ? exponent_to_scale(largest) : 0;
  const float factor = rlx_pow2(exponent);
  held.unit = rlx_pow2(-exponent);
  float sums[kSets][4] = {};
  constexpr rlx_u32 kOnes = 0x3C003C00u;
  const rlx_u32 ones[4] = {kOnes, kOnes, kOnes, kOnes};
  RLX_UNROLL for (rlx_u32 q = 0u; q < kPieces; ++q) {
    RLX_UNROLL for (rlx_u32 u = 0u; u < kProducts; ++u) {
      const float(&run)[8] = values[q][u / 2u];
      RLX_UNROLL for (rlx_u32 i = 0u; i < 2u; ++i) {
        const rlx_u32 first = u % 2u * 4u + i;
        held.halves[q][u][i] = halves_of(run[first] * factor, run[first + 2u] * factor, is_rest);
      }
      rlx_mma_f16(sums[set_of(q, u / 2u)], ones, held.halves[q][u]);
    }
  }
  RLX_UNROLL for (rlx_u32 set = 0u; set < kSets; ++set) held.sums[set] = sums[set][0] + sums[set][1];
}

// ---- products ----

// Two of the codes of a run's word as halves: bytes 0 and 2, or 1 and 3.
RLX_FN rlx_u32 code_halves(Run run, rlx_u32 word_of_run, rlx_u32 odd) {
  const rlx_u32 word = (word_of_run == 0u ? run.low : run.high) >> (odd * 8u);
#if RLX_W_E2M1
  return rlx_e2m1_halves(word >> run.shift);
#else
  return word & ((run.mask << run.shift) * 0x10001u);
#endif
}

// What the thread's pieces of a tile add to the sums of its lines; at: where the lines' slices begin.
RLX_FN void multiply_tile(const HeldX& held, const rlx_u32 (&at)[2], float (&acc)[2]) {
  const rlx_u32 t = rlx_lane_of_warp % 4u;
  Piece pieces[kPieces][2];
  float sums[kSets][4] = {};
  RLX_UNROLL for (rlx_u32 q = 0u; q < kPieces; ++q) {
    const rlx_u32 piece = piece_of(t, q);
    RLX_UNROLL for (rlx_u32 half = 0u; half < 2u; ++half) {
      pieces[q][half] = rlx_load_piece(RingPlace{at[half] + piece / RLX_W_PIECES * RLX_W_BYTES}, piece % RLX_W_PIECES);
    }
    RLX_UNROLL for (rlx_u32 u = 0u; u < kProducts; ++u) {
      rlx_u32 a[4];
      RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) a[i] = code_halves(rlx_run(pieces[q][i % 2u], u / 2u), u % 2u, i / 2u);
      rlx_mma_f16(sums[set_of(q, u / 2u)], a, held.halves[q][u]);
    }
  }
  RLX_UNROLL for (rlx_u32 half = 0u; half < 2u; ++half) {
    float total = 0.0f;
    RLX_UNROLL for (rlx_u32 set = 0u; set < kSets; ++set) {
      const Piece piece = pieces[set / kGroups][half];
      const float sum = sums[set][2u * half] + sums[set][2u * half + 1u];
      total += rlx_group_value(piece, rlx_run(piece, set % kGroups * RLX_RUNS_OF_GROUP), sum, held.sums[set]);
    }
    total *= held.unit;
    total += __shfl_xor_sync(0xFFFFFFFFu, total, 1);
    acc[half] = total + __shfl_xor_sync(0xFFFFFFFFu, total, 2);
  }
}

// All of a warp's slices of the workgroup's lines, added up in its parts.
RLX_FN void multiply_lines(const RlxParams& p, Weights from, TileShare share) {
  HeldX held;
  float squares = 0.0f;
  const auto begin = [&](rlx_u32 slice) { hold_x(p, slice, held, squares); };
  stream_tiles(rlx_shared, from, share.first * kLines, share.count, begin, [&](rlx_u32 tile, bool is_first, const rlx_u32 (&at)[2]) {
    float acc[2];
    multiply_tile(held, at, acc);
    float* own = reinterpret_cast<float*>(rlx_shared + kPartsAt) + (rlx_warp * RLX_TILES + tile) * kLines + rlx_lane_of_warp / 4u;
    RLX_UNROLL for (rlx_u32 half = 0u; half < 2u; ++half) {
      if (rlx_lane_of_warp % 4u == 0u) own[half * 8u] = (is_first ? 0.0f : own[half * 8u]) + acc[half];
    }
  });
#if RLX_NORM
  RLX_UNROLL for (int distance = 16; distance > 0; distance /= 2) squares += __shfl_xor_sync(0xFFFFFFFFu, squares, distance);
  if (rlx_lane_of_warp == 0u) reinterpret_cast<float*>(rlx_shared + kSquaresAt)[rlx_warp] = squares;
#endif
}

// The sum of a line of the workgroup, behind a barrier.
RLX_FN float joined_sum(rlx_u32, rlx_u32 line) {
  const float* from = reinterpret_cast<const float*>(rlx_shared + kPartsAt) + line;
  float total = 0.0f;
  RLX_UNROLL for (rlx_u32 warp = 0u; warp < RLX_WARPS; ++warp) total += from[warp * (RLX_TILES * kLines)];
#if RLX_NORM
  float squares = 0.0f;
  RLX_UNROLL for (rlx_u32 warp = 0u; warp < RLX_WARPS; ++warp) squares += reinterpret_cast<const float*>(rlx_shared + kSquaresAt)[warp];
  return normed(total, squares);
#else
  return total;
#endif
}

#endif
