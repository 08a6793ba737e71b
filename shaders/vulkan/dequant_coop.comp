// SPDX-License-Identifier: Apache-2.0
// y = act(x * W + bias) + residual on cooperative matrices, or a gated pair (lib/weighted_epilogue.inc), for up to eight rows x of f16, or their
// rms_norm, and a weight matrix in blocks (lib/weights.inc), which is read once: 16 lines are multiplied by all rows at once, so rows cost nothing
// but their x.
// RLX_GROUPED 1 and dense matrices: any number of rows of several experts, lib/expert_tiles.glsl. Else:
// Layout: x [RLX_M, RLX_K], rows of whole aligned 16-byte pieces; y [RLX_M, RLX_N], bias [RLX_N], dense; w [RLX_N, RLX_K] in blocks.
// Grid: RLX_GROUPS groups of RLX_TEAMS * RLX_TILES tiles of 16 lines, spread by split_grid.
// Threads: RLX_TEAMS teams of RLX_SHARES subgroups of 32, RLX_WARPS in all. A team has RLX_TILES tiles; its subgroups share out their
//   slices of 256 depths.
// Specializations: the above; RLX_M (at most 8), RLX_N, RLX_K; lib/blocks.inc; epilogue of lib/weighted_epilogue.inc. RLX_NORM 1: RLX_X storage
//   type of x, RLX_EPS, RLX_GAMMA, RLX_GAMMA_OFFSET, RLX_GAMMA_VECTOR as in dequant_matvec.
// Phases: a subgroup holds x of a slice as right operands, of which each thread loads its own elements. The tiles' bytes of that slice come as they are, in pieces of 16, to registers while the
//   tile before is multiplied (two tiles ahead took 8 % longer: fewer threads hold more), from there to the subgroup's own part of shared memory, and as codes to left operands (lib/near_blocks.inc). Sums of
//   a tile stay in registers until all slices are done; then the subgroups' sums are added where results are made.
// Fragments: elements of operands and sums lie as shaders/README.md says; a group that finds them otherwise makes its results by decoded_sum.
// Numerics: rows behind a norm are rounded to f16 before its factor. Products are exact (lib/near_blocks.inc); the sum of what shares a scale is
//   the matrix unit's, less zero * (sum of x); these are added in f32 in an order that does not depend on RLX_M. Where a result is not finite, it is
//   computed again from decoded weights: 0 * infinity is none of w * x, whose w is not 0.
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#include "lib/prelude.inc"
#include "lib/storage.inc"
#include "lib/product.inc"
#include "lib/weighted_epilogue.inc"
#include "lib/weights.inc"
#ifndef RLX_W_DENSE
#include "lib/near_blocks.inc"
#endif
#include "lib/matrices.glsl"

RLX_PARAMS(WeightedMatmulParams);

#ifdef RLX_W_DENSE
#include "lib/expert_rows.inc"
#include "lib/expert_tiles.glsl"
#else

#ifndef RLX_NORM
#define RLX_NORM 0
#endif

#define RLX_LINES 16  // of a tile
#define RLX_GROUP_LINES (RLX_TEAMS * RLX_TILES * RLX_LINES)
#define RLX_SLICES ((RLX_K + RLX_SLICE - 1) / RLX_SLICE)
#define RLX_LINE_BYTES (RLX_K / RLX_W_ELEMENTS * RLX_W_BYTES)
#define RLX_SLICE_BYTES (RLX_SLICE / RLX_W_ELEMENTS * RLX_W_BYTES)
// Pieces of 16 bytes of a slice of a line. Where lines are none of them, it lies up to 15 bytes behind where its place begins.
#if RLX_LINE_BYTES % 16 == 0 && RLX_SLICE_BYTES % 16 == 0
#define RLX_SKEWED 0
#define RLX_PIECES (RLX_SLICE_BYTES / 16)
#else
#define RLX_SKEWED 1
#define RLX_PIECES ((RLX_SLICE_BYTES + 30) / 16)
#endif
#define RLX_PITCH (RLX_PIECES | 1)  // odd, so that eight lines lie in banks of their own
#define RLX_LOADS ((RLX_PIECES + 3) / 4)
#define RLX_WARP_PIECES (RLX_LINES * RLX_PITCH)
#if RLX_WARP_PIECES < 64
#error "a place holds the numbers by which fragments are known"
#endif
// Shared memory: a place of each subgroup, and a piece that a word's neighbour may lie in; at first the numbers by which fragments are known, in
// the end sums [RLX_WARPS][RLX_TILES][32] of four floats.
#define RLX_SUM_PIECES (RLX_WARPS * RLX_TILES * 32)
#if RLX_SUM_PIECES > RLX_WARPS * RLX_WARP_PIECES
#define RLX_STAGED_PIECES RLX_SUM_PIECES
#else
#define RLX_STAGED_PIECES (RLX_WARPS * RLX_WARP_PIECES + 1)
#endif
RLX_SHARED rlx_u32 staged[RLX_STAGED_PIECES * 4];
RLX_FN void put_piece(rlx_u32 at, rlx_uvec4 piece) {
  staged[at * 4u] = piece.x;
  staged[at * 4u + 1u] = piece.y;
  staged[at * 4u + 2u] = piece.z;
  staged[at * 4u + 3u] = piece.w;
}

RLX_FN rlx_u32 rlx_near_byte(rlx_u32 at) { return (staged[at / 4u] >> (at % 4u * 8u)) & 0xFFu; }
RLX_FN float rlx_near_half(rlx_u32 at) { return rlx_f32_from_f16((staged[at / 4u] >> (at % 4u * 8u)) & 0xFFFFu); }
RLX_FN rlx_u32 rlx_near_word(rlx_u32 at) {
#if RLX_W_BYTES % 4 == 0
  return staged[at / 4u];
#else
  return rlx_u32(pack64(rlx_uvec2(staged[at / 4u], staged[at / 4u + 1u])) >> (at % 4u * 8u));
#endif
}

// ---- sums that are not finite, or of fragments that nobody knows ----

RLX_FN bool is_nan(float x) { return (rlx_bits(x) & 0x7FFFFFFFu) > 0x7F800000u; }
RLX_FN bool is_finite(float x) { return (rlx_bits(x) & 0x7F800000u) != 0x7F800000u; }

// x[m, k .. k + 7], of a norm times gamma.
RLX_FN void load_operand(rlx_u32 m, rlx_u32 k, RLX_INOUT_ARRAY(float, x, [8]), RLX_INOUT(float) squares) {
  RLX_CAT(rlx_load8_, RLX_X)(p.x, rlx_i64(m * rlx_u32(RLX_K) + k), x);
#if RLX_NORM
  RLX_UNROLL for (int i = 0; i < 8; ++i) squares += x[i] * x[i];
#ifdef RLX_GAMMA
  float factors[8];
#if RLX_GAMMA_VECTOR == 8
  RLX_CAT(rlx_load8_, RLX_GAMMA)(p.gamma, rlx_i64(k), factors);
#else
  RLX_UNROLL for (rlx_u32 i = 0u; i < 8u; ++i) factors[i] = RLX_ELEMENT(RLX_GAMMA, p.gamma, rlx_i64(k + i));
#endif
  RLX_UNROLL for (int i = 0; i < 8; ++i) x[i] *= factors[i] + RLX_GAMMA_OFFSET;
#endif
#endif
}
// What makes a norm of them, of a row whose squares have this sum.
RLX_FN float norm_factor(float squares) {
#if RLX_NORM
  return rlx_rsqrt(squares / float(RLX_K) + RLX_EPS);
#else
  return 1.0f;
#endif
}

// The sum of row m and line n by one thread; a NaN stays one, whatever is added.
RLX_FN float decoded_sum(Weights from, rlx_u32 m, rlx_u32 n) {
  float total = 0.0f;
  float squares = 0.0f;
  RLX_LOOP for (rlx_u32 k = 0u; k < rlx_u32(RLX_K) && !is_nan(total); k += 8u) {
    float w[8];
    float x[8];
    rlx_depths8(from, k, n, w);
    load_operand(m, k, x, squares);
    RLX_UNROLL for (int i = 0; i < 8; ++i) total += x[i] * w[i];
  }
  return total * norm_factor(squares);
}
// Whether a row of x holds a NaN: every sum of it is one then, whatever the weights are.
RLX_FN bool holds_nan(rlx_u32 m) {
  bool found = false;
  float squares = 0.0f;
  RLX_LOOP for (rlx_u32 k = 0u; k < rlx_u32(RLX_K) && !found; k += 8u) {
    float x[8];
    load_operand(m, k, x, squares);
    RLX_UNROLL for (int i = 0; i < 8; ++i) found = found || is_nan(x[i]);
  }
  return found;
}

// ---- fragments ----

// Of the element `e` that thread `lane` of a subgroup holds: row * 16 + column of a left operand, column * 16 + row of a right one,
// row * 8 + column of sums.
RLX_FN rlx_u32 left_place(rlx_u32 lane, rlx_u32 e) { return (lane / 4u + e / 4u * 8u) * 16u + lane % 4u * 2u + e % 2u + e / 2u % 2u * 8u; }
RLX_FN rlx_u32 right_place(rlx_u32 lane, rlx_u32 e) { return lane / 4u * 16u + lane % 4u * 2u + e % 2u + e / 2u * 8u; }
RLX_FN rlx_u32 sum_place(rlx_u32 lane, rlx_u32 e) { return (lane / 4u + e / 2u * 8u) * 8u + lane % 4u * 2u + e % 2u; }

// Whether they lie so: the numbers of places pass through the subgroup's place as operands and as sums.
RLX_FN bool fragments_are_known(rlx_u32 place, rlx_u32 lane) {
  const float n = float(8u * lane);
  put_piece(place + lane, rlx_uvec4(rlx_pack_f16x2(n, n + 1.0f), rlx_pack_f16x2(n + 2.0f, n + 3.0f), rlx_pack_f16x2(n + 4.0f, n + 5.0f),
                                    rlx_pack_f16x2(n + 6.0f, n + 7.0f)));
  const float m = float(4u * lane);
  put_piece(place + 32u + lane, floatBitsToUint(rlx_vec4(m, m + 1.0f, m + 2.0f, m + 3.0f)));
  rlx_subgroup_barrier();
  rlx_left_matrix left;
  rlx_narrow_right right;
  rlx_narrow_sum sum;
  coopMatLoadNV(left, staged, place * 4u, 8, false);
  coopMatLoadNV(right, staged, place * 4u, 8, true);
  coopMatLoadNV(sum, staged, (place + 32u) * 4u, 8, false);
  rlx_subgroup_barrier();
  rlx_u32 other = 0u;
  RLX_UNROLL for (rlx_u32 e = 0u; e < 8u; ++e) other |= rlx_value_f16(left[e]) == float(left_place(lane, e)) ? 0u : 1u;
  RLX_UNROLL for (rlx_u32 e = 0u; e < 4u; ++e) other |= rlx_value_f16(right[e]) == float(right_place(lane, e)) ? 0u : 1u;
  RLX_UNROLL for (rlx_u32 e = 0u; e < 4u; ++e) other |= sum[e] == float(sum_place(lane, e)) ? 0u : 1u;
  return subgroupOr(other) == 0u;
}

// ---- a tile's slice ----

RLX_FN rlx_ptr slice_address(Weights from, rlx_u32 line, rlx_u32 slice) {
  return rlx_line_address(from, min(line, rlx_u32(RLX_N - 1))) + rlx_ptr(slice * rlx_u32(RLX_SLICE_BYTES));
}
// Which piece of a line the thread has in a turn; the last one is some threads' once more.
RLX_FN rlx_u32 piece_in_turn(rlx_u32 lane, rlx_u32 turn) { return min(lane % 4u + turn * 4u, rlx_u32(RLX_PIECES - 1)); }

// The pieces of lines lane / 4 and lane / 4 + 8 that the thread stages; zeros behind the end of a line, and lines beyond the matrix repeat the last.
RLX_FN void load_tile(Weights from, rlx_u32 first_line, rlx_u32 slice, rlx_u32 lane, inout rlx_uvec4 next[2 * RLX_LOADS]) {
  RLX_UNROLL for (rlx_u32 i = 0u; i < 2u; ++i) {
    const rlx_ptr start = slice_address(from, first_line + lane / 4u + i * 8u, slice);
    const rlx_ptr begin = start & ~rlx_ptr(15);
    RLX_UNROLL for (rlx_u32 turn = 0u; turn < rlx_u32(RLX_LOADS); ++turn) {
      const rlx_u32 at = piece_in_turn(lane, turn) * 16u;
#if !RLX_SKEWED && RLX_K % RLX_SLICE == 0
      next[i * rlx_u32(RLX_LOADS) + turn] = rlx_operand16(begin, rlx_i64(at));
#else
      const rlx_u32 left = rlx_u32(start - begin) + rlx_u32(RLX_LINE_BYTES) - slice * rlx_u32(RLX_SLICE_BYTES);
      const bool inside = at < left;
      const rlx_u32 kept = inside ? 0xFFFFFFFFu : 0u;
      next[i * rlx_u32(RLX_LOADS) + turn] = rlx_operand16(begin, rlx_i64(inside ? at : 0u)) & rlx_uvec4(kept);
#endif
    }
  }
}
RLX_FN void stage_tile(rlx_u32 place, rlx_u32 lane, rlx_uvec4 next[2 * RLX_LOADS]) {
  RLX_UNROLL for (rlx_u32 i = 0u; i < 2u; ++i) {
    const rlx_u32 line = place + (lane / 4u + i * 8u) * rlx_u32(RLX_PITCH);
    RLX_UNROLL for (rlx_u32 turn = 0u; turn < rlx_u32(RLX_LOADS); ++turn) {
      put_piece(line + piece_in_turn(lane, turn), next[i * rlx_u32(RLX_LOADS) + turn]);
    }
  }
}
// Where the slice of the thread's line of a half of the tile begins, in bytes of shared memory.
RLX_FN rlx_u32 staged_slice(Weights from, rlx_u32 place, rlx_u32 first_line, rlx_u32 slice, rlx_u32 lane, rlx_u32 i) {
  const rlx_u32 own = lane / 4u + i * 8u;
  rlx_u32 at = (place + own * rlx_u32(RLX_PITCH)) * 16u;
#if RLX_SKEWED
  at += rlx_u32(slice_address(from, first_line + own, slice)) & 15u;
#endif
  return at;
}

// Factors of the groups lane % 4, lane % 4 + 4 ... of the thread's two lines. Behind the last depth there are none.
#define RLX_OWN_GROUPS (RLX_NEAR_GROUPS / 4)
struct Factors {
  float scale[2 * RLX_OWN_GROUPS];
  float offset[2 * RLX_OWN_GROUPS];
};
RLX_FN Factors factors_of(rlx_u32 at, rlx_u32 other_at, rlx_u32 slice, rlx_u32 lane) {
  Factors factors;
  RLX_UNROLL for (rlx_u32 i = 0u; i < 2u; ++i) {
    RLX_UNROLL for (rlx_u32 turn = 0u; turn < rlx_u32(RLX_OWN_GROUPS); ++turn) {
      const rlx_u32 group = lane % 4u + turn * 4u;
      const Factor factor = rlx_near_factor(i == 0u ? at : other_at, group);
      const bool inside = RLX_K % RLX_SLICE == 0 || slice * rlx_u32(RLX_SLICE) + group * rlx_u32(16 * RLX_UNITS_OF_GROUP) < rlx_u32(RLX_K);
      factors.scale[i * rlx_u32(RLX_OWN_GROUPS) + turn] = inside ? factor.scale : 0.0f;
      factors.offset[i * rlx_u32(RLX_OWN_GROUPS) + turn] = inside ? factor.offset : 0.0f;
    }
  }
  return factors;
}

// ---- x ----

// The thread's elements of a row: depths 4t .. 4t + 3 of every 16 for thread t of the four that have it, as it has a line's codes. What they
// stand for are the halves times `unit`.
struct HeldRow {
  rlx_uvec2 words[RLX_UNITS];
  float squares;  // of a norm, their own
  float unit;
};
RLX_FN HeldRow hold_row(rlx_u32 m, rlx_u32 slice, rlx_u32 lane) {
  HeldRow held;
  held.squares = 0.0f;
  held.unit = 1.0f;
#if RLX_NORM
  rlx_vec4 x[RLX_UNITS];
  float highest = 0.0f;
  RLX_UNROLL for (rlx_u32 u = 0u; u < rlx_u32(RLX_UNITS); ++u) {
    const rlx_u32 k = slice * rlx_u32(RLX_SLICE) + u * 16u + lane % 4u * 4u;
    const bool inside = RLX_K % RLX_SLICE == 0 || k < rlx_u32(RLX_K);
    x[u] = RLX_CAT(rlx_operand4_, RLX_X)(p.x, rlx_i64(m * rlx_u32(RLX_K) + (inside ? k : 0u)));
  }
  RLX_UNROLL for (rlx_u32 u = 0u; u < rlx_u32(RLX_UNITS); ++u) {
    const rlx_u32 k = slice * rlx_u32(RLX_SLICE) + u * 16u + lane % 4u * 4u;
    const bool inside = RLX_K % RLX_SLICE == 0 || k < rlx_u32(RLX_K);
    held.squares += inside ? dot(x[u], x[u]) : 0.0f;
#ifdef RLX_GAMMA
#if RLX_GAMMA_VECTOR == 8
    const rlx_vec4 factors = RLX_CAT(rlx_operand4_, RLX_GAMMA)(p.gamma, rlx_i64(inside ? k : 0u));
#else
    rlx_vec4 factors;
    RLX_UNROLL for (rlx_u32 e = 0u; e < 4u; ++e) factors[e] = RLX_ELEMENT(RLX_GAMMA, p.gamma, rlx_i64((inside ? k : 0u) + e));
#endif
    x[u] *= factors + RLX_GAMMA_OFFSET;
#endif
    x[u] = inside ? x[u] : rlx_vec4(0.0f);
    const rlx_vec4 size = abs(x[u]);
    highest = max(highest, max(max(size.x, size.y), max(size.z, size.w)));
  }
  // The four threads of a row share a power of two that brings its largest element to 1 .. 2.
  held.squares += subgroupShuffleXor(held.squares, 1u);
  held.squares += subgroupShuffleXor(held.squares, 2u);
  highest = max(highest, subgroupShuffleXor(highest, 1u));
  highest = max(highest, subgroupShuffleXor(highest, 2u));
  const rlx_u32 exponent = rlx_bits(highest) & 0x7F800000u;
  const float factor = exponent == 0u ? 1.0f : rlx_from_bits(0x7F000000u - exponent);
  held.unit = exponent == 0u ? 1.0f : rlx_from_bits(exponent);
  RLX_UNROLL for (rlx_u32 u = 0u; u < rlx_u32(RLX_UNITS); ++u) {
    const rlx_vec4 scaled = x[u] * factor;
    held.words[u] = rlx_uvec2(rlx_pack_f16x2(scaled.x, scaled.y), rlx_pack_f16x2(scaled.z, scaled.w));
  }
#else
  // In pieces of eight, of which half is the neighbour's: threads 0 and 2 load those of even sixteens, 1 and 3 of odd ones.
  const bool is_odd = lane % 2u == 1u;
  rlx_uvec4 pieces[RLX_UNITS / 2];
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_UNITS / 2); ++i) {
    const rlx_u32 k = slice * rlx_u32(RLX_SLICE) + (2u * i + lane % 2u) * 16u + lane % 4u / 2u * 8u;
    const bool inside = RLX_K % RLX_SLICE == 0 || k < rlx_u32(RLX_K);
    const rlx_u32 kept = inside ? 0xFFFFFFFFu : 0u;
    pieces[i] = rlx_operand16(p.x, rlx_i64(m * rlx_u32(RLX_K) + (inside ? k : 0u)) * 2) & rlx_uvec4(kept);
  }
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_UNITS / 2); ++i) {
    const rlx_uvec2 other = subgroupShuffleXor(is_odd ? pieces[i].xy : pieces[i].zw, 1u);
    held.words[2u * i] = is_odd ? other : pieces[i].xy;
    held.words[2u * i + 1u] = is_odd ? pieces[i].zw : other;
  }
#endif
  return held;
}

#if RLX_NORM
// Squares of a row's slices, of each subgroup of a team.
RLX_SHARED float squares_of[RLX_SHARES * RLX_M];
#endif
// What makes sums of row m those of its norm, behind the barriers.
RLX_FN float factor_of_row(rlx_u32 m) {
  float squares = 0.0f;
#if RLX_NORM
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_SHARES); ++i) squares += squares_of[i * rlx_u32(RLX_M) + m];
#endif
  return norm_factor(squares);
}

// Codes of unit `u` of both lines, in words, as a left operand times x.
#define RLX_MULTIPLY_UNIT(u, word, other_word)                                                     \
  {                                                                                                \
    const rlx_u32 shift = rlx_near_shift((u) / 2u);                                                \
    const f16vec2 even = unpackFloat2x16(rlx_near_halves(word, shift));                            \
    const f16vec2 odd = unpackFloat2x16(rlx_near_halves((word) >> 8, shift));                      \
    const f16vec2 other_even = unpackFloat2x16(rlx_near_halves(other_word, shift));                \
    const f16vec2 other_odd = unpackFloat2x16(rlx_near_halves((other_word) >> 8, shift));          \
    rlx_left_matrix left;                                                                          \
    left[0] = even.x;                                                                              \
    left[1] = even.y;                                                                              \
    left[2] = odd.x;                                                                               \
    left[3] = odd.y;                                                                               \
    left[4] = other_even.x;                                                                        \
    left[5] = other_even.y;                                                                        \
    left[6] = other_odd.x;                                                                         \
    left[7] = other_odd.y;                                                                         \
    sums = coopMatMulAddNV(left, x[u], sums);                                                      \
  }
// What the sums of a group begin with: zero or, where codes stand for their difference from something, that times the sum of x.
#if RLX_CODE_ZERO
#define RLX_BEGIN_GROUP(group)                                                                     \
  sums = rlx_narrow_sum(0.0);                                                                      \
  sums[0] = x_sums[2 * (group)];                                                                   \
  sums[1] = x_sums[2 * (group) + 1];                                                               \
  sums[2] = x_sums[2 * (group)];                                                                   \
  sums[3] = x_sums[2 * (group) + 1];
#else
#define RLX_BEGIN_GROUP(group) sums = rlx_narrow_sum(0.0);
#endif
// The thread of a line that has the factor of a group gives it to the others.
#define RLX_GIVEN(values, i, group) subgroupShuffle(values[(i) * RLX_OWN_GROUPS + (group) / 4], (lane & 28u) | rlx_u32((group) % 4))
#if RLX_W_OFFSETS
#define RLX_ADD_OFFSETS(group)                                                               \
  {                                                                                                \
    const float offset = RLX_GIVEN(factors.offset, 0, group);                                      \
    const float other_offset = RLX_GIVEN(factors.offset, 1, group);                                \
    acc[0] += offset * x_sums[2 * (group)];                                                 \
    acc[1] += offset * x_sums[2 * (group) + 1];                                         \
    acc[2] += other_offset * x_sums[2 * (group)];                                       \
    acc[3] += other_offset * x_sums[2 * (group) + 1];                                   \
  }
#else
#define RLX_ADD_OFFSETS(group)
#endif
#define RLX_END_GROUP(group)                                                                 \
  RLX_ADD_OFFSETS(group)                                                                     \
  {                                                                                                \
    const float scale = RLX_GIVEN(factors.scale, 0, group);                                        \
    const float other_scale = RLX_GIVEN(factors.scale, 1, group);                                  \
    acc[0] += scale * sums[0];                                                              \
    acc[1] += scale * sums[1];                                                          \
    acc[2] += other_scale * sums[2];                                                    \
    acc[3] += other_scale * sums[3];                                                    \
  }
#if RLX_UNITS_OF_GROUP == 2
#define RLX_MULTIPLY_PAIR(j)                                                                 \
  {                                                                                                \
    rlx_u32 words[2];                                                                              \
    rlx_u32 other_words[2];                                                                        \
    rlx_near_codes(at, j, lane % 4u, words);                                                       \
    rlx_near_codes(other_at, j, lane % 4u, other_words);                                           \
    RLX_BEGIN_GROUP(j)                                                                             \
    RLX_MULTIPLY_UNIT(2 * j, words[0], other_words[0])                                             \
    RLX_MULTIPLY_UNIT(2 * j + 1, words[1], other_words[1])                                         \
    RLX_END_GROUP(j)                                                                         \
  }
#else
#define RLX_MULTIPLY_PAIR(j)                                                                 \
  {                                                                                                \
    rlx_u32 words[2];                                                                              \
    rlx_u32 other_words[2];                                                                        \
    rlx_near_codes(at, j, lane % 4u, words);                                                       \
    rlx_near_codes(other_at, j, lane % 4u, other_words);                                           \
    RLX_BEGIN_GROUP(2 * j)                                                                         \
    RLX_MULTIPLY_UNIT(2 * j, words[0], other_words[0])                                             \
    RLX_END_GROUP(2 * j)                                                                     \
    RLX_BEGIN_GROUP(2 * j + 1)                                                                     \
    RLX_MULTIPLY_UNIT(2 * j + 1, words[1], other_words[1])                                         \
    RLX_END_GROUP(2 * j + 1)                                                                 \
  }
#endif
// Loops with branches are not unrolled, and an index that is not known when the code is compiled moves matrices from registers to memory.
#define RLX_EACH_PAIR(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

// The sum of row m and a line of the group.
RLX_FN float joined_sum(rlx_u32 m, rlx_u32 line) {
  const rlx_u32 tile = line / rlx_u32(RLX_LINES);
  const rlx_u32 lane = line % 8u * 4u + m / 2u;
  const rlx_u32 element = line % rlx_u32(RLX_LINES) / 8u * 2u + m % 2u;
  const rlx_u32 first = tile / rlx_u32(RLX_TILES) * rlx_u32(RLX_SHARES);
  float total = 0.0f;
  RLX_UNROLL for (rlx_u32 share = 0u; share < rlx_u32(RLX_SHARES); ++share) {
    const rlx_u32 at = ((first + share) * rlx_u32(RLX_TILES) + tile % rlx_u32(RLX_TILES)) * 32u + lane;
    total += rlx_from_bits(staged[at * 4u + element]);
  }
  return total;
}
RLX_FN float sum_of(Weights from, rlx_u32 m, rlx_u32 line, rlx_u32 n, bool is_known) {
  const float sum = joined_sum(m, line) * factor_of_row(m);
  if (is_known && (is_finite(sum) || (is_nan(sum) && holds_nan(m)))) return sum;
  return decoded_sum(from, m, n);
}

RLX_MAIN {
  const rlx_u32 group = rlx_u32(rlx_linear_group);
  if (group >= rlx_u32(RLX_GROUPS)) return;
  const rlx_u32 warp = rlx_local_index / rlx_u32(RLX_SUBGROUP);
  const rlx_u32 lane = rlx_local_index % rlx_u32(RLX_SUBGROUP);
  const rlx_u32 group_line = group * rlx_u32(RLX_GROUP_LINES);
  const rlx_u32 first_line = group_line + warp / rlx_u32(RLX_SHARES) * rlx_u32(RLX_TILES * RLX_LINES);
  const rlx_u32 place = warp * rlx_u32(RLX_WARP_PIECES);
  Weights from;
  from.w = p.w;
  from.scale = p.scale;
  from.zero = p.zero;
  from.w2 = p.w2;
  from.w3 = p.w3;

  const rlx_u32 share = warp % rlx_u32(RLX_SHARES);
  rlx_uvec4 next[2 * RLX_LOADS];
  load_tile(from, first_line, min(share, rlx_u32(RLX_SLICES - 1)), lane, next);
  const bool is_known = fragments_are_known(place, lane);

  float acc[RLX_TILES * 4];
  RLX_UNROLL for (int i = 0; i < RLX_TILES * 4; ++i) acc[i] = 0.0f;
#if RLX_NORM
  float squares = 0.0f;
  float units[2];  // of the sums of rows lane % 4 * 2 and the one behind it
  units[0] = 1.0f;
  units[1] = 1.0f;
#endif
  RLX_LOOP for (rlx_u32 slice = share; slice < rlx_u32(RLX_SLICES); slice += rlx_u32(RLX_SHARES)) {
    const rlx_u32 next_slice = slice + rlx_u32(RLX_SHARES);
    // Rows behind the last repeat it.
    const HeldRow held = hold_row(min(lane / 4u, rlx_u32(RLX_M - 1)), slice, lane);
#if RLX_NORM
    squares += held.squares;
    RLX_UNROLL for (rlx_u32 c = 0u; c < 2u; ++c) {
      const float unit = subgroupShuffle(held.unit, lane % 4u * 8u + c * 4u);
      RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_TILES * 2); ++i) acc[2u * i + c] *= units[c] / unit;
      units[c] = unit;
    }
#endif
    rlx_narrow_right x[RLX_UNITS];
    // A word of codes has two neighbours of a row of the matrix in its even bytes, and two more in its odd ones.
    RLX_UNROLL for (rlx_u32 u = 0u; u < rlx_u32(RLX_UNITS); ++u) {
      const f16vec2 first = unpackFloat2x16(held.words[u].x);
      const f16vec2 second = unpackFloat2x16(held.words[u].y);
      x[u][0] = first.x;
      x[u][1] = second.x;
      x[u][2] = first.y;
      x[u][3] = second.y;
    }
#if RLX_NEEDS_X_SUMS
    // Of the elements that share a scale, of rows lane % 4 * 2 and the one behind it; times -zero in units of codes, where there is one.
    float x_sums[2 * RLX_NEAR_GROUPS];
    rlx_left_matrix ones = rlx_left_matrix(float16_t(1.0));
    RLX_UNROLL for (int group_of_x = 0; group_of_x < RLX_NEAR_GROUPS; ++group_of_x) {
      rlx_narrow_sum sums = rlx_narrow_sum(0.0);
      RLX_UNROLL for (int u = 0; u < RLX_UNITS_OF_GROUP; ++u) {
        sums = coopMatMulAddNV(ones, x[group_of_x * RLX_UNITS_OF_GROUP + u], sums);
      }
      const float factor = RLX_CODE_ZERO != 0 ? -float(RLX_CODE_ZERO) / float(1 << RLX_NEAR_EXPONENT) : 1.0f;
      x_sums[2 * group_of_x] = factor * sums[0];
      x_sums[2 * group_of_x + 1] = factor * sums[1];
    }
#endif
    // The tile at hand has its sums in front. Code of tiles one by one takes longer to arrive than to run.
    RLX_LOOP for (rlx_u32 tile = 0u; tile < rlx_u32(RLX_TILES); ++tile) {
      stage_tile(place, lane, next);
      rlx_subgroup_barrier();
      const rlx_u32 line = first_line + tile * rlx_u32(RLX_LINES);
      const bool is_last = tile + 1u == rlx_u32(RLX_TILES);
      if (!is_last || next_slice < rlx_u32(RLX_SLICES))
        load_tile(from, is_last ? first_line : line + rlx_u32(RLX_LINES), is_last ? next_slice : slice, lane, next);
      // A block of its own, so that drivers leave those loads before it.
      if (line < rlx_u32(RLX_N)) {
        const rlx_u32 at = staged_slice(from, place, line, slice, lane, 0u);
        const rlx_u32 other_at = staged_slice(from, place, line, slice, lane, 1u);
        const Factors factors = factors_of(at, other_at, slice, lane);
        rlx_narrow_sum sums;
        RLX_EACH_PAIR(RLX_MULTIPLY_PAIR)
      }
      float own[4];
      RLX_UNROLL for (int e = 0; e < 4; ++e) own[e] = acc[e];
      RLX_UNROLL for (int i = 0; i < 4 * RLX_TILES - 4; ++i) acc[i] = acc[i + 4];
      RLX_UNROLL for (int e = 0; e < 4; ++e) acc[4 * RLX_TILES - 4 + e] = own[e];
      rlx_subgroup_barrier();
    }
  }

#if RLX_NORM
  if (warp < rlx_u32(RLX_SHARES) && lane % 4u == 0u && lane / 4u < rlx_u32(RLX_M)) squares_of[warp * rlx_u32(RLX_M) + lane / 4u] = squares;
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_TILES * 4); ++i) acc[i] *= units[i % 2u];
#endif
  rlx_barrier();
  RLX_UNROLL for (rlx_u32 tile = 0u; tile < rlx_u32(RLX_TILES); ++tile) {
    put_piece((warp * rlx_u32(RLX_TILES) + tile) * 32u + lane,
              floatBitsToUint(rlx_vec4(acc[tile * 4u], acc[tile * 4u + 1u], acc[tile * 4u + 2u], acc[tile * 4u + 3u])));
  }
  rlx_barrier();
  const rlx_u32 step = rlx_u32(1 + RLX_GATED);  // lines of a result
  const rlx_u32 columns = rlx_u32(RLX_GROUP_LINES) / step;
  RLX_LOOP for (rlx_u32 i = rlx_local_index; i < rlx_u32(RLX_M) * columns; i += rlx_u32(RLX_BLOCK_SIZE)) {
    const rlx_u32 m = i / columns;
    const rlx_u32 line = i % columns * step;
    const rlx_u32 n = group_line + line;
    if (n >= rlx_u32(RLX_N)) continue;
    const float sum = sum_of(from, m, line, n, is_known);
    const rlx_i64 at = rlx_i64(m * rlx_u32(RLX_COLUMNS) + n / step);
#if RLX_GATED
    const float up = sum_of(from, m, line + 1u, n + 1u, is_known);
    RLX_CAT(rlx_store_, RLX_Y)(p.y, at, rlx_finish_pair(sum, up, p.bias, p.residual, RLX_INDEX(m), RLX_INDEX(n)));
#else
    RLX_CAT(rlx_store_, RLX_Y)(p.y, at, rlx_finish(sum, p.bias, p.residual, RLX_INDEX(m), RLX_INDEX(n)));
#endif
  }
}
#endif
