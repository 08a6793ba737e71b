// SPDX-License-Identifier: Apache-2.0
// The sums of one row of x, or of its rms_norm, times lines of a weight matrix in blocks (lib/weights.inc), at the speed of memory: the form of
// dequant_mma for one row. Tensor cores add up what a thread multiplies: of the eight columns of x of an m16n8k32 two belong to each of the four
// threads that share a line, and hold the x of that thread's weights and zeros for the others'. So a thread finds the sums of its own codes in
// its own d, where it has their scales, and codes multiply as the bytes that they are.
// Specializations: lib/block_ring.cuh, or lib/block_lines.cuh where lines are whole pieces of 16 bytes, whose warps
//   hold the x of a slice in registers; RLX_ROUND_TEAMS of RLX_WARPS warps, one of them without the latter; RLX_GROUPS workgroups share all tiles
//   evenly; RLX_X f16, bf16 or f32; RLX_NORM as in dequant_matvec.
// Layout: thread t has two pieces of 32 elements of a slice of each of its lines g and g + 8. A product takes a run: a[0], a[1] its first four
//   codes of lines g and g + 8, a[2], a[3] the others. x is a whole number of four signed digits to the base 256: column 2t of b the digits 3 and 1,
//   column 2t + 1 the digits 2 and 0, of two products.
// Numerics: codes are whole numbers; of E2M1 twice the values are. x is rounded to 2^-30 of the largest power of two in its slice; all sums of
//   what shares a scale are exact. Sums of slices are f32, in an order that RLX_K and the warps decide. Where a slice of x holds what is not finite, its
//   sums are NaN, and computed again from decoded weights.
#ifndef RLX_LIB_BLOCK_ROW_CUH
#define RLX_LIB_BLOCK_ROW_CUH

#include "lib/block_lines.cuh"

constexpr rlx_u32 kPieces = 2;                      // of a thread's line
constexpr rlx_u32 kRuns = 4;                        // of a piece
constexpr rlx_u32 kGroups = kRuns / RLX_RUNS_OF_GROUP;  // of a piece, whose scales or units differ
constexpr rlx_u32 kSets = RLX_PIECES_OF_SCALES == 2 ? kGroups : kPieces * kGroups;
constexpr rlx_u32 kAllTiles = (RLX_N + kLines - 1) / kLines;
static_assert(kWholeLines || RLX_ROUND_TEAMS == 1, "teams take turns at rounds");
static_assert(RLX_W_ELEMENTS <= kSlice, "whole blocks in a slice");

// Shared memory: rings, digits [kAllWarps][4][kSlice], parts [kAllWarps][RLX_TILES][kLines], squares [kAllWarps].
constexpr rlx_u32 kAllWarps = RLX_WARPS * RLX_ROUND_TEAMS;
constexpr rlx_u32 kDigitsAt = kWholeLines ? kRoundRingBytes : kRingsBytes;
constexpr rlx_u32 kPartsAt = kDigitsAt + kAllWarps * 4 * kSlice;
constexpr rlx_u32 kSquaresAt = kPartsAt + kAllWarps * RLX_TILES * kLines * 4;
RLX_DYNAMIC_SHARED(kSquaresAt + kAllWarps * 4);

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

// Of a slice: digits[q][run][pair] is b of a product of a run of piece q; sums of x by sets; unit is what all sums are to be multiplied by.
struct HeldX {
  rlx_u32 digits[kPieces][kRuns][2][2];
  float sums[kSets];
  float unit;
};

// The sums of a set: pair 0 of the digits 3 and 2, pair 1 of 1 and 0.
struct DigitSums {
  int pair[2][4];
  // Of line g, or g + 8.
  RLX_FN float of(rlx_u32 half) const {
    const int high = pair[0][2u * half] * 256 + pair[0][2u * half + 1u];
    const int low = pair[1][2u * half] * 256 + pair[1][2u * half + 1u];
    return float(high) * 65536.0f + float(low);
  }
};

// The power of two that brings the largest magnitude of a warp, given by its bits, to 2^29; 0 where there is none.
RLX_FN int exponent_to_scale(rlx_u32 largest) { return largest == 0u ? 0 : min(29 + 127 - int(largest >> 23), 126); }

// The bytes of four words, place by place.
RLX_FN void digit_words(const rlx_u32 (&u)[4], rlx_u32 (&digits)[4]) {
  const rlx_u32 a = __byte_perm(u[0], u[1], 0x5140u);
  const rlx_u32 b = __byte_perm(u[2], u[3], 0x5140u);
  const rlx_u32 c = __byte_perm(u[0], u[1], 0x7362u);
  const rlx_u32 d = __byte_perm(u[2], u[3], 0x7362u);
  digits[0] = __byte_perm(a, b, 0x5410u) ^ 0x80808080u;
  digits[1] = __byte_perm(a, b, 0x7632u) ^ 0x80808080u;
  digits[2] = __byte_perm(c, d, 0x5410u) ^ 0x80808080u;
  digits[3] = __byte_perm(c, d, 0x7632u);
}

// Makes the digits of the warp's slice, eight neighbours a lane, in the warp's place in shared memory. Returns the unit of the last.
RLX_FN float make_digits(const RlxParams& p, rlx_u32 slice, rlx_u32 to, float& squares) {
  const rlx_u32 first = slice * kSlice + rlx_lane_of_warp * 8u;
  float values[8] = {};
  if (RLX_K % kSlice == 0u || first < rlx_u32(RLX_K)) load_operand(p, 0u, first, values, squares);
  rlx_u32 largest = 0u;
  RLX_UNROLL for (int e = 0; e < 8; ++e) largest = max(largest, rlx_bits(values[e]) & 0x7FFFFFFFu);
  RLX_UNROLL for (int distance = 16; distance > 0; distance /= 2) largest = max(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, distance));
  const int exponent = exponent_to_scale(largest);
  const float factor = rlx_pow2(exponent);
  rlx_u32 words[2][4];
  RLX_UNROLL for (int i = 0; i < 2; ++i) {
    rlx_u32 u[4];
    // Digits are a byte's less 128, but for the highest.
    RLX_UNROLL for (int e = 0; e < 4; ++e) u[e] = rlx_u32(__float2int_rn(values[4 * i + e] * factor)) + 0x00808080u;
    digit_words(u, words[i]);
  }
  RLX_UNROLL for (rlx_u32 digit = 0u; digit < 4u; ++digit) {
    *reinterpret_cast<rlx_uvec2*>(rlx_shared + to + digit * kSlice + rlx_lane_of_warp * 8u) = rlx_uvec2{words[0][digit], words[1][digit]};
  }
  return largest >= 0x7F800000u ? rlx_from_bits(0x7FC00000u) : rlx_pow2(-exponent);
}

RLX_FN void hold_x(const RlxParams& p, rlx_u32 slice, HeldX& held, float& squares) {
  const rlx_u32 t = rlx_lane_of_warp % 4u;
  const rlx_u32 place = kDigitsAt + rlx_warp * (4u * kSlice);
  const rlx_u32 is_odd = rlx_lane_of_warp / 4u % 2u;
  __syncwarp();  // the digits of the slice before are read
  held.unit = make_digits(p, slice, place, squares);
  __syncwarp();
  DigitSums sums[kSets] = {};
  const rlx_u32 ones[4] = {0x01010101u, 0x01010101u, 0x01010101u, 0x01010101u};
  RLX_UNROLL for (rlx_u32 q = 0u; q < kPieces; ++q) {
    const rlx_u32 piece = piece_of(t, q);
    RLX_UNROLL for (rlx_u32 run = 0u; run < kRuns; ++run) {
      const rlx_u32 depth = piece / RLX_W_PIECES * RLX_W_ELEMENTS + rlx_run_place(piece % RLX_W_PIECES, run);
      RLX_UNROLL for (rlx_u32 pair = 0u; pair < 2u; ++pair) {
        const rlx_u32 digit = 3u - 2u * pair - is_odd;
        rlx_uvec2 words = {0u, 0u};
        if (rlx_lane_of_warp / 8u == t) words = *reinterpret_cast<const rlx_uvec2*>(rlx_shared + place + digit * kSlice + depth);
        held.digits[q][run][pair][0] = words.x;
        held.digits[q][run][pair][1] = words.y;
        rlx_mma_u8s8(sums[set_of(q, run)].pair[pair], ones, held.digits[q][run][pair]);
      }
    }
  }
  RLX_UNROLL for (rlx_u32 set = 0u; set < kSets; ++set) held.sums[set] = sums[set].of(0u);
}

// ---- products ----

// Four codes of a run as bytes.
RLX_FN rlx_u32 code_bytes(Run run, rlx_u32 word_of_run) {
  const rlx_u32 word = (word_of_run == 0u ? run.low : run.high) >> run.shift;
#if RLX_W_E2M1
  return rlx_look_up(word, 0x03020100u, 0x0C080604u, 0xFDFEFF00u, 0xF4F8FAFCu);
#else
  return word & (run.mask * 0x01010101u);
#endif
}
RLX_FN void add_products(int (&sums)[4], const rlx_u32 (&codes)[4], const rlx_u32 (&digits)[2]) {
#if RLX_W_E2M1
  rlx_mma_s8s8(sums, codes, digits);
#else
  rlx_mma_u8s8(sums, codes, digits);
#endif
}

// What the thread's pieces of a tile add to the sums of its lines; at: where the lines' slices begin.
RLX_FN void multiply_tile(const HeldX& held, const rlx_u32 (&at)[2], float (&acc)[2]) {
  const rlx_u32 t = rlx_lane_of_warp % 4u;
  Piece pieces[kPieces][2];
  DigitSums sums[kSets] = {};
  RLX_UNROLL for (rlx_u32 q = 0u; q < kPieces; ++q) {
    const rlx_u32 piece = piece_of(t, q);
    RLX_UNROLL for (rlx_u32 half = 0u; half < 2u; ++half) {
      pieces[q][half] = rlx_load_piece(RingPlace{at[half] + piece / RLX_W_PIECES * RLX_W_BYTES}, piece % RLX_W_PIECES);
    }
    RLX_UNROLL for (rlx_u32 run = 0u; run < kRuns; ++run) {
      rlx_u32 codes[4];
      RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) codes[i] = code_bytes(rlx_run(pieces[q][i % 2u], run), i / 2u);
      RLX_UNROLL for (rlx_u32 pair = 0u; pair < 2u; ++pair) add_products(sums[set_of(q, run)].pair[pair], codes, held.digits[q][run][pair]);
    }
  }
  RLX_UNROLL for (rlx_u32 half = 0u; half < 2u; ++half) {
    float total = 0.0f;
    RLX_UNROLL for (rlx_u32 set = 0u; set < kSets; ++set) {
      const Piece piece = pieces[set / kGroups][half];
      const Run run = rlx_run(piece, set % kGroups * RLX_RUNS_OF_GROUP);
      const float unit = (RLX_W_E2M1 ? 0.5f : 1.0f) / rlx_code_unit(run);
      total += rlx_group_value(piece, run, sums[set].of(half) * unit, held.sums[set]);
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
  const auto use = [&](rlx_u32 tile, bool is_first, const rlx_u32 (&at)[2]) {
    float acc[2];
    multiply_tile(held, at, acc);
    float* own = reinterpret_cast<float*>(rlx_shared + kPartsAt) + (rlx_warp * RLX_TILES + tile) * kLines + rlx_lane_of_warp / 4u;
    RLX_UNROLL for (rlx_u32 half = 0u; half < 2u; ++half) {
      if (rlx_lane_of_warp % 4u == 0u) own[half * 8u] = (is_first ? 0.0f : own[half * 8u]) + acc[half];
    }
  };
  if constexpr (kWholeLines) {
    stream_lines(rlx_shared, from, share.first * kLines, share.count, begin, use);
  } else {
    stream_tiles(rlx_shared, from, share.first * kLines, share.count, begin, use);
  }
#if RLX_NORM
  RLX_UNROLL for (int distance = 16; distance > 0; distance /= 2) squares += __shfl_xor_sync(0xFFFFFFFFu, squares, distance);
  if (rlx_lane_of_warp == 0u) reinterpret_cast<float*>(rlx_shared + kSquaresAt)[rlx_warp] = squares;
#endif
}

// The sum of a line of the workgroup, behind a barrier.
RLX_FN float joined_sum(rlx_u32, rlx_u32 line) {
  const float* from = reinterpret_cast<const float*>(rlx_shared + kPartsAt) + line;
  float total = 0.0f;
  RLX_UNROLL for (rlx_u32 warp = 0u; warp < kAllWarps; ++warp) total += from[warp * (RLX_TILES * kLines)];
#if RLX_NORM
  float squares = 0.0f;
  RLX_UNROLL for (rlx_u32 warp = 0u; warp < kAllWarps; ++warp) squares += reinterpret_cast<const float*>(rlx_shared + kSquaresAt)[warp];
  return normed(total, squares);
#else
  return total;
#endif
}

#endif
