// SPDX-License-Identifier: Apache-2.0
// y = act(x * W + bias) + residual on tensor cores, or a gated pair (lib/weighted_epilogue.inc), for many rows x of 16-bit floats and a
// weight matrix in blocks (lib/blocks.inc).
//   y[m, n] = sum over groups of scale[n, group] * (sum over the group of code[n, k] * x[m, k]) + offset[n, group] * (sum over the group of
//   x[m, k]) + bias[n], where a group is the RLX_GROUP depths of a block that share a scale.
// Layout: x [RLX_M, RLX_K], rows of whole aligned 16-byte pieces; y [RLX_M, RLX_N], bias [RLX_N], dense; w [RLX_N, RLX_K] in blocks.
// Grid: tiles of m x tiles of n, spread by split_grid, those of m first.
//   RLX_STREAMED 1: the form of lib/block_stream.cuh for up to eight rows of f16, or with RLX_ONE_ROW 1 that of lib/block_row.cuh for one row
//     of any float type of at most 32 bits, or its rms_norm (RLX_NORM 1, RLX_EPS, RLX_GAMMA, RLX_GAMMA_OFFSET as in dequant_matvec); groups of
//     RLX_TILES times 16 lines.
//   RLX_GROUPED 1: rows go to the matrices of their experts (lib/expert_rows.inc), tiles of m to those of one each; RLX_TILES_M is the most that
//     an index can need. Dense matrices: the form of lib/expert_tiles.cuh.
// Specializations: RLX_TILE_N lines of w and RLX_TILE_M of x per workgroup, RLX_WARPS_N x RLX_WARPS_M warps share them; RLX_M, RLX_N, RLX_K;
//   lib/blocks.inc; RLX_X f16 or bf16; RLX_Y_VECTOR 4: four neighbours along n are one aligned store; epilogue of lib/weighted_epilogue.inc.
// Phases: a step is two pieces of 32 depths of every line. Codes become whole 16-bit floats in shared memory, and their scales and offsets
//   f32; x travels there (cp.async) two steps ahead of its use, in the pieces' order of depths. The codes of the next step travel to
//   registers while the present ones are multiplied. Sums of x are products with ones.
// Numerics: codes are exact in both types and so are the products; a group's sum is the tensor core's, the groups' f32. Where a result is
//   not finite, it is computed again from decoded weights: 0 * infinity is none of w * x, whose w is not 0.
// ptxas: spills because a thread keeps the words of the next pieces beside its sums: up to 12 words of them, of q5_k and q6_k above all.
#include "lib/prelude.inc"
#include "lib/storage.inc"
#include "lib/product.inc"
#include "lib/weighted_epilogue.inc"
#include "lib/weights.inc"
#include "lib/mma.cuh"

RLX_PARAMS(WeightedMatmulParams);

#if RLX_GROUPED
#include "lib/expert_rows.inc"
#endif
#ifdef RLX_W_DENSE
#include "lib/expert_tiles.cuh"
#else

#ifndef RLX_NORM
#define RLX_NORM 0
#endif

// x[m, k .. k + 7] as the product takes it, and what it adds to the sum of squares: of a norm, x times gamma.
RLX_FN void load_operand(const RlxParams& p, rlx_u32 m, rlx_u32 k, float (&x)[8], float& squares) {
  RLX_CAT(rlx_load8_, RLX_X)(p.x, rlx_i64(m) * rlx_i64(RLX_K) + rlx_i64(k), x);
#if RLX_NORM
  RLX_UNROLL for (int i = 0; i < 8; ++i) squares += x[i] * x[i];
#ifdef RLX_GAMMA
  float factors[8];
#if RLX_GAMMA_VECTOR == 8
  RLX_CAT(rlx_load8_, RLX_GAMMA)(p.gamma, rlx_i64(k), factors);
#else
  RLX_UNROLL for (int i = 0; i < 8; ++i) factors[i] = RLX_CAT(rlx_load_, RLX_GAMMA)(p.gamma, rlx_i64(k) + rlx_i64(i));
#endif
  RLX_UNROLL for (int i = 0; i < 8; ++i) x[i] *= factors[i] + RLX_GAMMA_OFFSET;
#endif
#endif
}
// A sum for a row whose squares have this sum.
RLX_FN float normed(float sum, float squares) {
#if RLX_NORM
  return sum * rlx_rsqrt(squares / float(RLX_K) + RLX_EPS);
#else
  return sum;
#endif
}

// ---- sums that are not finite ----

RLX_FN bool is_nan(float x) { return (rlx_bits(x) & 0x7FFFFFFFu) > 0x7F800000u; }

// Whether a row of x holds a NaN: every sum of it is one then, whatever the weights are.
RLX_FN bool holds_nan(const RlxParams& p, rlx_u32 m) {
  bool found = false;
  float squares = 0.0f;
  RLX_LOOP for (rlx_u32 k = 0u; k < rlx_u32(RLX_K) && !found; k += 8u) {
    float x[8];
    load_operand(p, m, k, x, squares);
    RLX_UNROLL for (int i = 0; i < 8; ++i) found = found || is_nan(x[i]);
  }
  return found;
}

// The sum of a row and a line by one thread, where another one is not finite; a NaN stays one, whatever is added.
RLX_FN float decoded_sum(const RlxParams& p, Weights from, rlx_u32 m, rlx_u32 n, float other) {
  if (is_nan(other) && holds_nan(p, m)) return other;
  float total = 0.0f;
  float squares = 0.0f;
  RLX_LOOP for (rlx_u32 k = 0u; k < rlx_u32(RLX_K) && !is_nan(total); k += 8u) {
    float w[8];
    float x[8];
    rlx_depths8(from, k, n, w);
    load_operand(p, m, k, x, squares);
    RLX_UNROLL for (int i = 0; i < 8; ++i) total += x[i] * w[i];
  }
  return normed(total, squares);
}
RLX_FN float checked_sum(const RlxParams& p, Weights from, rlx_u32 m, rlx_u32 n, float sum) {
  return (rlx_bits(sum) & 0x7F800000u) == 0x7F800000u ? decoded_sum(p, from, m, n, sum) : sum;
}

#if RLX_STREAMED
#if RLX_ONE_ROW
#include "lib/block_row.cuh"
#else
#include "lib/block_stream.cuh"
#endif

RLX_MAIN_PREFETCH {
  const rlx_u32 group = rlx_u32(rlx_linear_group);
  const Weights from = {p.w, p.scale, p.zero, p.w2, p.w3};
#if RLX_ONE_ROW
  if (group >= RLX_GROUPS) return;
  const TileShare share = tiles_of(group);
  const rlx_u32 first_line = share.first * kLines;
  const rlx_u32 lines = share.count * kLines;
  multiply_lines(p, from, share);
#else
  constexpr rlx_u32 lines = RLX_TILES * kLines;
  if (group >= (rlx_u32(RLX_N) + lines - 1u) / lines) return;
  const rlx_u32 first_line = group * lines;
  multiply_lines(p, from, first_line);
#endif
  rlx_barrier();
  constexpr rlx_u32 kStep = 1 + RLX_GATED;  // lines of a result
  RLX_LOOP for (rlx_u32 i = rlx_local_index; i < RLX_M * lines / kStep; i += RLX_BLOCK_SIZE) {
    const rlx_u32 m = i / (lines / kStep);
    const rlx_u32 line = i % (lines / kStep) * kStep;
    const rlx_u32 n = first_line + line;
    if (n >= rlx_u32(RLX_N)) continue;
    const float sum = checked_sum(p, from, m, n, joined_sum(m, line));
    const rlx_i64 at = rlx_i64(m) * rlx_i64(RLX_COLUMNS) + rlx_i64(n / kStep);
#if RLX_GATED
    const float up = checked_sum(p, from, m, n + 1u, joined_sum(m, line + 1u));
    RLX_CAT(rlx_store_, RLX_Y)(p.y, at, rlx_finish_pair(sum, up, p.bias, p.residual, RLX_INDEX(m), RLX_INDEX(n)));
#else
    RLX_CAT(rlx_store_, RLX_Y)(p.y, at, rlx_finish(sum, p.bias, p.residual, RLX_INDEX(m), RLX_INDEX(n)));
#endif
  }
}

#else
#if !RLX_GROUPED
#define RLX_TILES_M ((RLX_M + RLX_TILE_M - 1) / RLX_TILE_M)
#endif
#define RLX_TILES_N ((RLX_N + RLX_TILE_N - 1) / RLX_TILE_N)
#if defined(RLX_W_q2_k) || defined(RLX_W_q3_k) || defined(RLX_W_q6_k) || defined(RLX_W_nvfp4)
#define RLX_GROUP 16
#else
#define RLX_GROUP 32
#endif

#define rlx_is_bf16_f16 0
#define rlx_is_bf16_bf16 1
constexpr bool kIsBf16 = RLX_CAT(rlx_is_bf16_, RLX_X);
constexpr rlx_u32 kThreads = 32 * RLX_WARPS_N * RLX_WARPS_M;
constexpr rlx_u32 kWarpN = RLX_TILE_N / RLX_WARPS_N;
constexpr rlx_u32 kWarpM = RLX_TILE_M / RLX_WARPS_M;
constexpr rlx_u32 kFragmentsN = kWarpN / 16;
constexpr rlx_u32 kFragmentsM = kWarpM / 8;
static_assert(kWarpN % 16 == 0 && kWarpM % 8 == 0, "whole fragments");

constexpr rlx_u32 kPieces = RLX_K / 32;           // of a line
constexpr rlx_u32 kSteps = (kPieces + 1) / 2;     // of two pieces, 64 depths, 8 chunks of 8 depths
constexpr rlx_u32 kGroups = 64 / RLX_GROUP;       // of a step
constexpr rlx_u32 kGroupsOfHalf = 32 / RLX_GROUP;
constexpr rlx_u32 kRowBytes = 128;

// Shared memory: codes of two steps [RLX_TILE_N][64], x of three [RLX_TILE_M][64] (chunks exchanged so that eight rows touch all banks),
// factors of two [kGroups][RLX_TILE_N] and sums of x of two [kGroups][RLX_TILE_M]. Behind the last step, the tile's sums
// [RLX_TILE_M][kSumPitch] in their place.
constexpr rlx_u32 kCodeBytes = RLX_TILE_N * kRowBytes;
constexpr rlx_u32 kXBytes = RLX_TILE_M * kRowBytes;
constexpr rlx_u32 kFactors = kGroups * RLX_TILE_N;
constexpr rlx_u32 kXSums = kGroups * RLX_TILE_M;
constexpr rlx_u32 kXAt = 2 * kCodeBytes;
constexpr rlx_u32 kFactorsAt = kXAt + 3 * kXBytes;
constexpr rlx_u32 kXSumsAt = kFactorsAt + 2 * kFactors * (RLX_W_OFFSETS ? 8 : 4);
constexpr rlx_u32 kPipelineBytes = kXSumsAt + (RLX_W_OFFSETS ? 2 * kXSums * 4 : 0);
constexpr rlx_u32 kSumPitch = RLX_TILE_N + 4;
constexpr rlx_u32 kSumBytes = RLX_TILE_M * kSumPitch * 4;
RLX_DYNAMIC_SHARED(kPipelineBytes > kSumBytes ? kPipelineBytes : kSumBytes);

RLX_FN rlx_u32 chunk_at(rlx_u32 row, rlx_u32 chunk) { return row * kRowBytes + (chunk ^ (row & 7u)) * 16u; }
// scale, and offset where there are any, of a line's group.
RLX_FN float* factor_at(rlx_u32 step, rlx_u32 group, rlx_u32 line) {
  const rlx_u32 place = (step & 1u) * kFactors + group * RLX_TILE_N + line;
  return reinterpret_cast<float*>(rlx_shared + kFactorsAt) + place * (RLX_W_OFFSETS ? 2u : 1u);
}
RLX_FN float* x_sum_at(rlx_u32 step, rlx_u32 group, rlx_u32 row) {
  return reinterpret_cast<float*>(rlx_shared + kXSumsAt) + (step & 1u) * kXSums + group * RLX_TILE_M + row;
}

// The chunk of a step in which a run of one of its two pieces lies: groups lie together. Its inverse gives piece and run.
struct RunPlace {
  rlx_u32 piece;
  rlx_u32 run;
};
#if defined(RLX_W_q4_k) || defined(RLX_W_q5_k)
RLX_FN rlx_u32 chunk_of(rlx_u32 piece, rlx_u32 run) { return (run >> 1) * 4u + piece * 2u + (run & 1u); }
RLX_FN RunPlace place_of(rlx_u32 chunk) { return {(chunk >> 1) & 1u, (chunk >> 2) * 2u + (chunk & 1u)}; }
#elif defined(RLX_W_q2_k) || defined(RLX_W_q3_k) || defined(RLX_W_q6_k)
RLX_FN rlx_u32 chunk_of(rlx_u32 piece, rlx_u32 run) { return run * 2u + piece; }
RLX_FN RunPlace place_of(rlx_u32 chunk) { return {chunk & 1u, chunk >> 1}; }
#else
RLX_FN rlx_u32 chunk_of(rlx_u32 piece, rlx_u32 run) { return piece * 4u + run; }
RLX_FN RunPlace place_of(rlx_u32 chunk) { return {chunk >> 2, chunk & 3u}; }
#endif

// ---- x ----

// The row of x and y that is this line of the tile.
#if RLX_GROUPED
RLX_FN rlx_u32 row_of(rlx_u32, rlx_u32 line) { return tile_rows[line]; }
RLX_FN bool has_row(rlx_u32 row) { return row != RLX_NO_ROW; }
#else
RLX_FN rlx_u32 row_of(rlx_u32 first_row, rlx_u32 line) { return first_row + line; }
RLX_FN bool has_row(rlx_u32 row) { return row < rlx_u32(RLX_M); }
#endif

// A thread copies one chunk of every kRowsAtOnce-th row, the same one in every step.
constexpr rlx_u32 kRowsAtOnce = kThreads / 8;
constexpr rlx_u32 kCopies = RLX_TILE_M / kRowsAtOnce;
static_assert(kCopies * kRowsAtOnce == RLX_TILE_M && kRowsAtOnce % 8 == 0, "whole rounds, whose rows exchange chunks alike");

// Starts the copies of a step's depths of the tile's rows; zeros beyond the matrix.
RLX_FN void copy_x(const RlxParams& p, rlx_u32 first_row, rlx_u32 step) {
  const rlx_u32 row = rlx_local_index / 8u;
  const rlx_u32 chunk = rlx_local_index % 8u;
  const RunPlace place = place_of(chunk);
  const rlx_u32 piece = 2u * step + place.piece;
  const rlx_u32 k = piece / rlx_u32(RLX_W_PIECES) * rlx_u32(RLX_W_ELEMENTS) + rlx_run_place(piece % rlx_u32(RLX_W_PIECES), place.run);
  const rlx_u32 to = rlx_shared_address(rlx_shared) + kXAt + step % 3u * kXBytes + chunk_at(row, chunk);
  RLX_UNROLL for (rlx_u32 i = 0u; i < kCopies; ++i) {
    const rlx_u32 from = row_of(first_row, row + i * kRowsAtOnce);
    const bool inside = has_row(from) && piece < kPieces;
    rlx_copy16_async(to + i * kRowsAtOnce * kRowBytes, inside ? p.x + (rlx_u64(from) * rlx_u64(RLX_K) + k) * 2u : p.x,
                     inside ? 16u : 0u);
  }
}

RLX_FN void multiply_add(float (&d)[4], const rlx_u32 (&a)[4], rlx_u32 b0, rlx_u32 b1) {
  const rlx_u32 b[2] = {b0, b1};
  if (kIsBf16) {
    rlx_mma_bf16(d, a, b);
  } else {
    rlx_mma_f16(d, a, b);
  }
}

// The 32 depths of eight rows of x: b[0] and b[1] for the first sixteen, b[2] and b[3] for the others.
RLX_FN void load_x_fragment(rlx_u32 (&b)[4], rlx_u32 step, rlx_u32 row, rlx_u32 half) {
  const rlx_u32 lane = rlx_lane_of_warp;
  const rlx_u32 from = rlx_shared_address(rlx_shared) + kXAt + step % 3u * kXBytes;
  rlx_load_tiles4(b, from + chunk_at(row + lane % 8u, half * 4u + lane / 8u));
}

// The sums of each group of a step's depths, of every row of x.
RLX_FN void sum_x(rlx_u32 step) {
#if RLX_W_OFFSETS
  constexpr rlx_u32 kOnes = kIsBf16 ? 0x3F803F80u : 0x3C003C00u;
  const rlx_u32 ones[4] = {kOnes, kOnes, kOnes, kOnes};
  for (rlx_u32 tile = rlx_warp; tile < RLX_TILE_M / 8u; tile += RLX_WARPS_N * RLX_WARPS_M) {
    RLX_UNROLL for (rlx_u32 half = 0u; half < 2u; ++half) {
      rlx_u32 b[4];
      load_x_fragment(b, step, tile * 8u, half);
      float sums[kGroupsOfHalf][4] = {};
      multiply_add(sums[0], ones, b[0], b[1]);
      multiply_add(sums[kGroupsOfHalf - 1u], ones, b[2], b[3]);
      if (rlx_lane_of_warp < 4u) {
        RLX_UNROLL for (rlx_u32 g = 0u; g < kGroupsOfHalf; ++g) {
          float* to = x_sum_at(step, half * kGroupsOfHalf + g, tile * 8u + rlx_lane_of_warp * 2u);
          *reinterpret_cast<float2*>(to) = make_float2(sums[g][0], sums[g][1]);
        }
      }
    }
  }
#endif
}

// ---- w ----

constexpr rlx_u32 kUnits = RLX_TILE_N * 2 / kThreads;  // pieces that a thread decodes in a step
static_assert(kUnits * kThreads == RLX_TILE_N * 2, "whole pieces");

// Neighbouring threads have the two pieces of a line: blocks of an odd size share the words that a warp reads.
RLX_FN rlx_u32 unit_line(rlx_u32 unit) { return (rlx_local_index + unit * kThreads) / 2u; }
RLX_FN rlx_u32 unit_piece() { return rlx_local_index % 2u; }

RLX_FN void load_w(Weights from, rlx_u32 first_line, rlx_u32 step, Words (&next)[kUnits]) {
  RLX_UNROLL for (rlx_u32 unit = 0u; unit < kUnits; ++unit) {
    // Lines and pieces beyond the matrix repeat the last.
    const rlx_u32 line = min(first_line + unit_line(unit), rlx_u32(RLX_N - 1));
    const rlx_u32 piece = min(2u * step + unit_piece(), kPieces - 1u);
    next[unit] = rlx_load_words(rlx_block_address(from, line, piece / rlx_u32(RLX_W_PIECES)), piece % rlx_u32(RLX_W_PIECES));
  }
}

// Four codes of up to seven bits, less `zero`, as two words of 16-bit floats: in the mantissa of a power of two whose unit is one.
template <rlx_u32 kPower>
RLX_FN void codes_in_power(rlx_u32 codes, rlx_u32& first, rlx_u32& second) {
  asm("prmt.b32 %0, %1, %2, 0x4140;" : "=r"(first) : "r"(codes), "n"(kPower * 0x01010101u));
  asm("prmt.b32 %0, %1, %2, 0x4342;" : "=r"(second) : "r"(codes), "n"(kPower * 0x01010101u));
}
RLX_FN rlx_u32 minus_f16x2(rlx_u32 a, rlx_u32 b) {
  rlx_u32 d;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
RLX_FN rlx_u32 add_bf16x2(rlx_u32 a, rlx_u32 b) {
  rlx_u32 d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(0x3F803F80u), "r"(b));
  return d;
}
RLX_FN void pack_codes(rlx_u32 codes, rlx_u32 mask, rlx_u32 zero, rlx_u32& first, rlx_u32& second) {
  if (kIsBf16 && mask < 128u) {
    codes_in_power<0x43u>(codes, first, second);  // 128 + code
    first = add_bf16x2(first, (0xC300u + zero) * 0x10001u);
    second = add_bf16x2(second, (0xC300u + zero) * 0x10001u);
    return;
  }
  codes_in_power<0x64u>(codes, first, second);  // 1024 + code
  first = minus_f16x2(first, (0x6400u + zero) * 0x10001u);
  second = minus_f16x2(second, (0x6400u + zero) * 0x10001u);
  if (kIsBf16) {
    const rlx_vec2 low = rlx_unpack_f16x2(first);
    const rlx_vec2 high = rlx_unpack_f16x2(second);
    first = rlx_pack_bf16x2(low.x, low.y);
    second = rlx_pack_bf16x2(high.x, high.y);
  }
}

RLX_FN void stage_w(rlx_u32 step, const Words (&next)[kUnits]) {
  unsigned char* to = rlx_shared + (step & 1u) * kCodeBytes;
  RLX_UNROLL for (rlx_u32 unit = 0u; unit < kUnits; ++unit) {
    const rlx_u32 line = unit_line(unit);
    const rlx_u32 piece = unit_piece();
    // Beyond the last depth x is zero, and so must be the factors.
    const bool inside = kPieces % 2u == 0u || 2u * step + piece < kPieces;
    const Piece values = rlx_piece(next[unit], (2u * step + piece) % rlx_u32(RLX_W_PIECES));
    RLX_UNROLL for (rlx_u32 r = 0u; r < 4u; ++r) {
      const Run run = rlx_run(values, r);
      const rlx_u32 zero = RLX_W_OFFSETS ? 0u : rlx_u32(run.zero);
      const rlx_u32 mask = run.mask * 0x01010101u;
      rlx_uvec4 words;
      pack_codes((run.low >> run.shift) & mask, run.mask, zero, words.x, words.y);
      pack_codes((run.high >> run.shift) & mask, run.mask, zero, words.z, words.w);
      const rlx_u32 chunk = chunk_of(piece, r);
      *reinterpret_cast<rlx_uvec4*>(to + chunk_at(line, chunk)) = words;
      if (chunk * 8u % RLX_GROUP == 0u) {
        float* factor = factor_at(step, chunk * 8u / RLX_GROUP, line);
        factor[0] = inside ? run.scale : 0.0f;
        if (RLX_W_OFFSETS) factor[1] = inside ? run.offset : 0.0f;
      }
    }
  }
}

// ---- product ----

// The place of a warp's part of the tile.
struct Place {
  rlx_u32 line;
  rlx_u32 row;
};

// acc[i][j]: 16 lines of w x 8 rows of x, as d of an mma.
RLX_FN void multiply(rlx_u32 step, Place at, float (&acc)[kFragmentsN][kFragmentsM][4]) {
  const rlx_u32 lane = rlx_lane_of_warp;
  const rlx_u32 codes = rlx_shared_address(rlx_shared) + (step & 1u) * kCodeBytes;
  RLX_UNROLL for (rlx_u32 half = 0u; half < 2u; ++half) {
    rlx_u32 a[kFragmentsN][2][4];
    float scale[kGroupsOfHalf][kFragmentsN][2];
    float offset[kGroupsOfHalf][kFragmentsN][2];
    RLX_UNROLL for (rlx_u32 i = 0u; i < kFragmentsN; ++i) {
      RLX_UNROLL for (rlx_u32 j = 0u; j < 2u; ++j) {
        rlx_load_tiles4(a[i][j], codes + chunk_at(at.line + i * 16u + lane % 16u, half * 4u + j * 2u + lane / 16u));
      }
      RLX_UNROLL for (rlx_u32 g = 0u; g < kGroupsOfHalf; ++g) {
        RLX_UNROLL for (rlx_u32 h = 0u; h < 2u; ++h) {
          const float* factor = factor_at(step, half * kGroupsOfHalf + g, at.line + i * 16u + h * 8u + lane / 4u);
          scale[g][i][h] = factor[0];
          if (RLX_W_OFFSETS) offset[g][i][h] = factor[1];
        }
      }
    }
    RLX_UNROLL for (rlx_u32 j = 0u; j < kFragmentsM; ++j) {
      rlx_u32 b[4];
      load_x_fragment(b, step, at.row + j * 8u, half);
      float x_sum[kGroupsOfHalf][2];
      if (RLX_W_OFFSETS) {
        RLX_UNROLL for (rlx_u32 g = 0u; g < kGroupsOfHalf; ++g) {
          const float* from = x_sum_at(step, half * kGroupsOfHalf + g, at.row + j * 8u + lane % 4u * 2u);
          x_sum[g][0] = from[0];
          x_sum[g][1] = from[1];
        }
      }
      RLX_UNROLL for (rlx_u32 i = 0u; i < kFragmentsN; ++i) {
        float sums[kGroupsOfHalf][4] = {};
        multiply_add(sums[0], a[i][0], b[0], b[1]);
        multiply_add(sums[kGroupsOfHalf - 1u], a[i][1], b[2], b[3]);
        RLX_UNROLL for (rlx_u32 g = 0u; g < kGroupsOfHalf; ++g) {
          RLX_UNROLL for (rlx_u32 e = 0u; e < 4u; ++e) {
            if (RLX_W_OFFSETS) acc[i][j][e] += offset[g][i][e / 2u] * x_sum[g][e % 2u];
            acc[i][j][e] += scale[g][i][e / 2u] * sums[g][e];
          }
        }
      }
    }
  }
}

// ---- results of a tile ----

RLX_FN void finish_tile(const RlxParams& p, Weights from, rlx_ptr bias, rlx_u32 first_row, rlx_u32 first_line, bool is_zero) {
  float* sums = reinterpret_cast<float*>(rlx_shared);
  RLX_LOOP for (rlx_u32 i = rlx_local_index; i < RLX_TILE_M * RLX_TILE_N / 4u; i += kThreads) {
    const rlx_u32 row = i / (RLX_TILE_N / 4u);
    const rlx_u32 line = i % (RLX_TILE_N / 4u) * 4u;
    const rlx_u32 m = row_of(first_row, row);
    const rlx_u32 n = first_line + line;
    if (!has_row(m) || n >= rlx_u32(RLX_N)) continue;
    float* own = sums + row * kSumPitch + line;
    RLX_LOOP for (rlx_u32 j = 0u; j < 4u; ++j) {
      if (n + j < rlx_u32(RLX_N) && !is_zero) own[j] = checked_sum(p, from, m, n + j, own[j]);
    }
#if RLX_GATED
    RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; j += 2u) {
      if (n + j >= rlx_u32(RLX_N)) continue;
      const float value = rlx_finish_pair(own[j], own[j + 1u], bias, p.residual, RLX_INDEX(m), RLX_INDEX(n + j));
      RLX_CAT(rlx_store_, RLX_Y)(p.y, rlx_i64(m) * rlx_i64(RLX_COLUMNS) + rlx_i64((n + j) / 2u), value);
    }
#else
    float values[4];
    RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) {
      values[j] = n + j < rlx_u32(RLX_N) && !is_zero ? rlx_finish(own[j], bias, p.residual, RLX_INDEX(m), RLX_INDEX(n + j)) : 0.0f;
    }
    const rlx_i64 at = rlx_i64(m) * rlx_i64(RLX_N) + rlx_i64(n);
#if RLX_Y_VECTOR == 4
    RLX_CAT(rlx_store4_, RLX_Y)(p.y, at, rlx_vec4{values[0], values[1], values[2], values[3]});
#else
    RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) {
      if (n + j < rlx_u32(RLX_N)) RLX_CAT(rlx_store_, RLX_Y)(p.y, at + j, values[j]);
    }
#endif
#endif
  }
}

RLX_MAIN {
  const rlx_u32 group = rlx_u32(rlx_linear_group);
  if (group >= rlx_u32(RLX_TILES_M) * rlx_u32(RLX_TILES_N)) return;
  const rlx_u32 first_row = group % rlx_u32(RLX_TILES_M) * rlx_u32(RLX_TILE_M);
  const rlx_u32 first_line = group / rlx_u32(RLX_TILES_M) * rlx_u32(RLX_TILE_N);
  const Place at = {rlx_warp % RLX_WARPS_N * kWarpN, rlx_warp / RLX_WARPS_N * kWarpM};
  Weights from = {p.w, p.scale, p.zero, p.w2, p.w3};
  rlx_ptr bias = p.bias;
  bool is_zero = false;
#if RLX_GROUPED
  const ExpertTile expert = find_expert(p.index, group % rlx_u32(RLX_TILES_M), p.w, p.bias);
  RLX_COUNT_NO_EXPERT(group);
  if (!expert.is_there) return;
  is_zero = expert.is_zero;
  from.w = expert.w;
  bias = expert.bias;
#endif

  float acc[kFragmentsN][kFragmentsM][4] = {};
  Words next[kUnits];
  copy_x(p, first_row, 0u);
  rlx_commit_copies();
  copy_x(p, first_row, 1u);
  rlx_commit_copies();
  load_w(from, first_line, 0u, next);
  stage_w(0u, next);
  rlx_wait_copies<1>();
  rlx_barrier();
  sum_x(0u);
  // The count is hidden: with it, the compiler unrolls the loop in spite of its pragma.
  rlx_u32 steps = kSteps;
  asm volatile("" : "+r"(steps));
  RLX_LOOP for (rlx_u32 step = 0u; step < steps; ++step) {
    rlx_wait_copies<0>();
    rlx_barrier();
    copy_x(p, first_row, step + 2u);
    rlx_commit_copies();
    load_w(from, first_line, step + 1u, next);
    sum_x(step + 1u);
    multiply(step, at, acc);
    stage_w(step + 1u, next);
  }
  rlx_wait_copies<0>();
  rlx_barrier();

  float* sums = reinterpret_cast<float*>(rlx_shared);
  const rlx_u32 lane = rlx_lane_of_warp;
  RLX_UNROLL for (rlx_u32 i = 0u; i < kFragmentsN; ++i) {
    RLX_UNROLL for (rlx_u32 j = 0u; j < kFragmentsM; ++j) {
      RLX_UNROLL for (rlx_u32 e = 0u; e < 4u; ++e) {
        const rlx_u32 row = at.row + j * 8u + lane % 4u * 2u + e % 2u;
        sums[row * kSumPitch + at.line + i * 16u + lane / 4u + e / 2u * 8u] = acc[i][j][e];
      }
    }
  }
  rlx_barrier();
  finish_tile(p, from, bias, first_row, first_line, is_zero);
}
#endif
#endif
