// SPDX-License-Identifier: Apache-2.0
// y[m, n] = act(sum over k of a[m, k] * b[k, n] + bias[m, n]) + residual[m, n] by cooperative matrices, for every batch entry.
// Layout: a and b as in matmul.kernel, both f16 or both bf16 (RLX_MATRIX), or both f32 (RLX_PARTS 3), and in whole aligned pieces of
//   RLX_A_COPY and RLX_B_COPY bytes (16 where undefined, down to an element's) along one axis: along the depth (RLX_A_BY_LINE 0) or along
//   the lines (1; a line is an m of a, an n of b);
//   y is dense, or its lines stand RLX_Y_LINE apart. RLX_WINDOWS 1 or 2: the lines of a are
//   the windows of images (lib/window_lines.glsl), and where RLX_K is no multiple of 8, b has lines of any alignment.
// Groups of channels: the entries of a batch are bundles of RLX_BUNDLED (1 where undefined) groups that stand side by side and are
//   multiplied as one. b [RLX_N, taps, own channels] has zeros for the channels of a bundle's other groups; where a sum is not finite,
//   which those may have made, it is computed again by f32 fused multiply-adds of its own group. RLX_SPLITS is 1 there.
// Products of f32 (RLX_PARTS 3; RLX_MATRIX is bf16): each operand is the sum of three bf16, exactly (lib/parts.glsl), and six of the nine
//   products of parts are made; sums that are not finite are computed again, as above.
// Grid: tiles x RLX_SPLITS x batches groups, spread by split_grid. RLX_PASS as in matmul.kernel, whose pass 2 joins the splits.
// Specializations: RLX_TILE_M, RLX_TILE_N, RLX_TILE_K; RLX_STAGES 1 or 2 panels of each operand in shared memory;
//   RLX_AHEAD panels of each travel to registers at a time, a divisor of the number that each split has;
//   RLX_WARPS_M x RLX_WARPS_N subgroups share a tile, RLX_WARPS_K of them each its depth; RLX_SPLITS, RLX_SPLIT_K (depth of a split,
//   whole tiles); RLX_SUM_MATRICES matrices of sums pass through shared memory at a time; epilogue (lib/product.inc; RLX_SHORT_MATH 1: by lib/short_math.inc, where y has 16 bits); RLX_M, RLX_N, RLX_K, RLX_BATCHES, the operands' strides and generated/batch.inc
//   as in matmul.kernel; RLX_WINDOWS, and what it needs.
// Phases: the panels of the next RLX_AHEAD depths travel to registers while those in shared memory are multiplied; then the sums pass
//   through shared memory, 16 rows at a time, where each thread adds the slices of its elements in order and finishes them.
// Numerics: products summed in f32, one rounding at the store. Of f32: with u = 2^-24, parts lie below 2^-8 and 2^-15 of their operand, so
//   the three products left out are below 4u of the product together. Matrix units cut sums off instead of rounding them: the products of
//   16 depths are summed apart, the small ones first, and added to the rounded sums; what is cut off is a few u of those sums. Parts below
//   2^-126 may be flushed: of operands below 2^-102 only.
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#include "lib/prelude.inc"
#include "lib/storage.inc"
#if RLX_ACTIVATION && RLX_SHORT_MATH
#include "lib/math.inc"
#include "lib/short_math.inc"
#endif
#include "lib/product.inc"
#include "lib/lines.inc"
#include "lib/tile_place.inc"
#include "lib/matrices.glsl"
#ifndef RLX_PARTS
#define RLX_PARTS 1
#endif
#if RLX_PARTS == 3
#include "lib/parts.glsl"
#define RLX_OPERAND f32
#define RLX_OPERAND_BYTES 4
#else
#define RLX_OPERAND RLX_MATRIX
#define RLX_OPERAND_BYTES 2
#endif
// Elements of an operand in 16 bytes, which are a unit, and the units of a piece of a panel.
#define RLX_UNIT (16 / RLX_OPERAND_BYTES)
#define RLX_PIECE_UNITS (8 / RLX_UNIT)
#if RLX_WINDOWS
#include "lib/window_lines.glsl"
#endif

RLX_PARAMS(MatmulParams);

#define RLX_TILES_M ((RLX_M + RLX_TILE_M - 1) / RLX_TILE_M)
#define RLX_TILES_N ((RLX_N + RLX_TILE_N - 1) / RLX_TILE_N)
#define RLX_TILES (RLX_TILES_M * RLX_TILES_N)

#define RLX_WARPS (RLX_WARPS_M * RLX_WARPS_N * RLX_WARPS_K)
#define RLX_WARP_M (RLX_TILE_M / RLX_WARPS_M)
#define RLX_WARP_N (RLX_TILE_N / RLX_WARPS_N)
#define RLX_MATRICES_M (RLX_WARP_M / 16)
#define RLX_MATRICES_N (RLX_WARP_N / 16)
#define RLX_STEPS (RLX_TILE_K / 16 / RLX_WARPS_K)  // of a subgroup per tile of depth

#ifndef RLX_A_COPY
#define RLX_A_COPY 16
#endif
#ifndef RLX_B_COPY
#define RLX_B_COPY 16
#endif
#ifndef RLX_BUNDLED
#define RLX_BUNDLED 1
#endif

// ---- panels ----

// In pieces of 16 bytes, 8 halves. Along the depth: [lines][RLX_TILE_K], along the lines: [RLX_TILE_K][lines]. A row holds that of each
// part, one after the other, and ends with one more piece, so that eight rows touch all banks.
#if RLX_A_BY_LINE
#define RLX_A_ROWS RLX_TILE_K
#define RLX_A_PIECES (RLX_TILE_M / 8)
#else
#define RLX_A_ROWS RLX_TILE_M
#define RLX_A_PIECES (RLX_TILE_K / 8)
#endif
#if RLX_B_BY_LINE
#define RLX_B_ROWS RLX_TILE_K
#define RLX_B_PIECES (RLX_TILE_N / 8)
#else
#define RLX_B_ROWS RLX_TILE_N
#define RLX_B_PIECES (RLX_TILE_K / 8)
#endif
#define RLX_A_PITCH (RLX_PARTS * RLX_A_PIECES + 1)
#define RLX_B_PITCH (RLX_PARTS * RLX_B_PIECES + 1)
#define RLX_A_LOADS ((RLX_A_ROWS * RLX_A_PIECES + RLX_BLOCK_SIZE - 1) / RLX_BLOCK_SIZE)
#define RLX_B_LOADS ((RLX_B_ROWS * RLX_B_PIECES + RLX_BLOCK_SIZE - 1) / RLX_BLOCK_SIZE)
#define RLX_B_FIRST (RLX_A_ROWS * RLX_A_PITCH)
#define RLX_STAGE_PIECES (RLX_B_FIRST + RLX_B_ROWS * RLX_B_PITCH)

// A subgroup's slot for 16 rows of its sums: f32, a row ends with two more pieces, so that four rows touch all banks.
#define RLX_SUM_UNITS (RLX_SUM_MATRICES * 4)  // of four elements, in a row
#define RLX_SUM_PITCH (RLX_SUM_UNITS + 2)
#define RLX_SUM_PIECES (16 * RLX_SUM_PITCH)

#if RLX_STAGES * RLX_STAGE_PIECES > RLX_WARPS * RLX_SUM_PIECES
RLX_SHARED rlx_uvec4 rlx_panels[RLX_STAGES * RLX_STAGE_PIECES];
#else
RLX_SHARED rlx_uvec4 rlx_panels[RLX_WARPS * RLX_SUM_PIECES];
#endif

// RLX_UNIT_LOADER defines load_unit(base, line, depth): a unit of neighbours from there on, zeros beyond the depth; tiles have
// `line_tile` lines. What it gives for lines beyond the edge meets no element that is stored. It clamps and masks instead of branching,
// so that the loops around it are unrolled and pieces stay in registers: with a choice of address for lines and for depths, in both
// operands, NVIDIA's compiler branches around each load (784 x 728 x 728 of f16 took 34 us in place of 15).
#define RLX_UNIT_LOADER(load_unit, lines, line_tile, by_line, line_stride, depth_stride, copy_bytes)                 \
  RLX_FN rlx_i64 load_unit##_at(rlx_u32 line, rlx_u32 depth, rlx_u32 e, rlx_u32 width) {                             \
    const rlx_u32 l = (by_line) != 0 ? line + e : line;                                                              \
    const rlx_u32 k = (by_line) != 0 ? depth : depth + e;                                                            \
    const rlx_u32 last_l = rlx_u32(lines) - ((by_line) != 0 ? width : 1u);                                           \
    const rlx_u32 last_k = rlx_u32(RLX_K) - ((by_line) != 0 ? 1u : width);                                           \
    const RLX_INDEX m = RLX_INDEX((lines) % (line_tile) == 0 ? l : min(l, last_l));                                  \
    const RLX_INDEX n = RLX_INDEX(RLX_K % RLX_TILE_K == 0 ? k : min(k, last_k));                                     \
    return rlx_i64(m * RLX_INDEX(line_stride) + n * RLX_INDEX(depth_stride));                                        \
  }                                                                                                                  \
  RLX_FN rlx_u32 load_unit##_kept(rlx_u32 depth, rlx_u32 e) {                                                        \
    const rlx_u32 k = (by_line) != 0 ? depth : depth + e;                                                            \
    return RLX_K % RLX_TILE_K == 0 || k < rlx_u32(RLX_K) ? 0xFFFFFFFFu : 0u;                                         \
  }                                                                                                                  \
  RLX_FN rlx_uvec4 load_unit(rlx_ptr base, rlx_u32 line, rlx_u32 depth) {                                            \
    const rlx_i32 whole = ((by_line) != 0 ? rlx_i32(lines) : rlx_i32(RLX_K)) * RLX_OPERAND_BYTES;                    \
    if ((copy_bytes) == 16 && whole % 16 == 0) {                                                                     \
      const rlx_i64 at = load_unit##_at(line, depth, 0u, rlx_u32(RLX_UNIT));                                         \
      return rlx_operand16(base, at * RLX_OPERAND_BYTES) & rlx_uvec4(load_unit##_kept(depth, 0u));                   \
    }                                                                                                                \
    rlx_uvec4 unit = rlx_uvec4(0u);                                                                                  \
    if ((copy_bytes) >= 8 && whole % 8 == 0) {                                                                       \
      RLX_UNROLL for (rlx_u32 w = 0u; w < 4u; w += 2u) {                                                             \
        const rlx_u32 e = w * 4u / rlx_u32(RLX_OPERAND_BYTES);                                                       \
        const rlx_i64 at = load_unit##_at(line, depth, e, 8u / rlx_u32(RLX_OPERAND_BYTES));                          \
        const rlx_uvec2 words = rlx_raw8(base, at * RLX_OPERAND_BYTES);                                              \
        unit[w] = words.x & load_unit##_kept(depth, e);                                                              \
        unit[w + 1u] = words.y & load_unit##_kept(depth, e);                                                         \
      }                                                                                                              \
      return unit;                                                                                                   \
    }                                                                                                                \
    if ((copy_bytes) >= 4 && whole % 4 == 0) {                                                                       \
      RLX_UNROLL for (rlx_u32 w = 0u; w < 4u; ++w) {                                                                 \
        const rlx_u32 e = w * 4u / rlx_u32(RLX_OPERAND_BYTES);                                                       \
        const rlx_i64 at = load_unit##_at(line, depth, e, 4u / rlx_u32(RLX_OPERAND_BYTES));                          \
        unit[w] = rlx_raw4(base, at * RLX_OPERAND_BYTES) & load_unit##_kept(depth, e);                               \
      }                                                                                                              \
      return unit;                                                                                                   \
    }                                                                                                                \
    RLX_UNROLL for (rlx_u32 e = 0u; e < 8u; ++e) {                                                                   \
      const rlx_u32 bits = rlx_load_u16(base, load_unit##_at(line, depth, e, 1u));                                   \
      unit[e / 2u] |= (bits & load_unit##_kept(depth, e)) << (e % 2u * 16u);                                         \
    }                                                                                                                \
    return unit;                                                                                                     \
  }
#if RLX_BUNDLED > 1
#define RLX_OWN_CHANNELS (RLX_CHANNELS / RLX_BUNDLED)
#define RLX_OWN_FILTERS (RLX_N / RLX_BUNDLED)
#define RLX_OWN_DEPTH (RLX_K / RLX_BUNDLED)
// The same of a bundle's filters: zeros for the channels of other groups.
RLX_FN rlx_uvec4 load_b_unit(rlx_ptr base, rlx_u32 line, rlx_u32 depth) {
  const bool inside = line < rlx_u32(RLX_N) && (RLX_K % RLX_TILE_K == 0 || depth < rlx_u32(RLX_K));
  const rlx_u32 tap = depth / rlx_u32(RLX_CHANNELS);
  const rlx_u32 own = line / rlx_u32(RLX_OWN_FILTERS);
  const rlx_u32 first = line * rlx_u32(RLX_OWN_DEPTH) + tap * rlx_u32(RLX_OWN_CHANNELS);
  rlx_uvec4 unit = rlx_uvec4(0u);
  RLX_UNROLL for (rlx_u32 w = 0u; w < 4u; w += rlx_u32(RLX_B_COPY / 4)) {
    const rlx_u32 channel = depth % rlx_u32(RLX_CHANNELS) + w * rlx_u32(4 / RLX_OPERAND_BYTES);
    const bool there = inside && channel / rlx_u32(RLX_OWN_CHANNELS) == own;
    const rlx_i64 at = there ? rlx_i64(first + channel % rlx_u32(RLX_OWN_CHANNELS)) * RLX_OPERAND_BYTES : rlx_i64(0);
    const rlx_u32 kept = there ? 0xFFFFFFFFu : 0u;
#if RLX_B_COPY == 16
    unit = rlx_operand16(base, at) & rlx_uvec4(kept);
#elif RLX_B_COPY == 8
    const rlx_uvec2 words = rlx_raw8(base, at) & rlx_uvec2(kept);
    unit[w] = words.x;
    unit[w + 1u] = words.y;
#else
    unit[w] = rlx_raw4(base, at) & kept;
#endif
  }
  return unit;
}
#else
RLX_UNIT_LOADER(load_b_unit, RLX_N, RLX_TILE_N, RLX_B_BY_LINE, RLX_B_LINE, RLX_B_DEPTH, RLX_B_COPY)
#endif

// This thread's piece of a panel in its `load`-th turn: its row, and its place in that. Four to a row, eight neighbouring threads
// would meet in the banks of rows r and r + 1: they take those of rows r and r + 4.
#if RLX_BLOCK_SIZE % RLX_A_PIECES != 0 || RLX_BLOCK_SIZE % RLX_B_PIECES != 0
#error "a thread's pieces have one place in their rows"
#endif
RLX_FN rlx_u32 piece_in_turn(rlx_u32 index, rlx_u32 pieces) {
  return pieces != 4u ? index : (index & ~28u) | (index & 4u) << 2u | (index & 24u) >> 1u;
}
RLX_FN rlx_u32 piece_row(rlx_u32 load, rlx_u32 pieces) {
  return piece_in_turn(rlx_local_index, pieces) / pieces + load * (rlx_u32(RLX_BLOCK_SIZE) / pieces);
}
RLX_FN rlx_u32 piece_place(rlx_u32 pieces) {
  return piece_in_turn(rlx_local_index, pieces) % pieces;
}

// The lines of a's tile, and the unit of that line which `row` and `first` of a panel stand for, from depth `depth` on.
#if RLX_WINDOWS
struct TileLines {
  WindowLine of_load[RLX_A_LOADS];
};
RLX_FN TileLines lines_of_tile(rlx_u32 first_line) {
  TileLines lines;
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_A_LOADS); ++load) {
    lines.of_load[load] = rlx_window_line(first_line + piece_row(load, rlx_u32(RLX_A_PIECES)));
  }
  return lines;
}
#define RLX_LOAD_A(a, lines, load, row, first, depth) rlx_load_window_unit(a, lines.of_load[load], depth, first)
#else
struct TileLines {
  rlx_u32 first;
};
RLX_FN TileLines lines_of_tile(rlx_u32 first_line) {
  TileLines lines;
  lines.first = first_line;
  return lines;
}
RLX_UNIT_LOADER(load_a_unit, RLX_M, RLX_TILE_M, RLX_A_BY_LINE, RLX_A_LINE, RLX_A_DEPTH, RLX_A_COPY)
#define RLX_LOAD_A(a, lines, load, row, first, depth) \
  load_a_unit(a, lines.first + (RLX_A_BY_LINE != 0 ? first : row), depth + (RLX_A_BY_LINE != 0 ? row : first))
#endif

// The units of the panels at `depth` that this thread stages.
#define RLX_A_UNITS (RLX_A_LOADS * RLX_PIECE_UNITS)
#define RLX_B_UNITS (RLX_B_LOADS * RLX_PIECE_UNITS)
RLX_FN void load_units(rlx_ptr a, rlx_ptr b, TileLines lines, TilePlace tile, rlx_u32 depth,
                       inout rlx_uvec4 a_next[RLX_A_UNITS], inout rlx_uvec4 b_next[RLX_B_UNITS]) {
  RLX_UNROLL for (rlx_u32 unit = 0u; unit < rlx_u32(RLX_A_UNITS); ++unit) {
    const rlx_u32 load = unit / rlx_u32(RLX_PIECE_UNITS);
    const rlx_u32 row = piece_row(load, rlx_u32(RLX_A_PIECES));
    const rlx_u32 first = piece_place(rlx_u32(RLX_A_PIECES)) * 8u + unit % rlx_u32(RLX_PIECE_UNITS) * rlx_u32(RLX_UNIT);
    if (RLX_A_ROWS * RLX_A_PIECES % RLX_BLOCK_SIZE == 0 || row < rlx_u32(RLX_A_ROWS))
      a_next[unit] = RLX_LOAD_A(a, lines, load, row, first, depth);
  }
  RLX_UNROLL for (rlx_u32 unit = 0u; unit < rlx_u32(RLX_B_UNITS); ++unit) {
    const rlx_u32 row = piece_row(unit / rlx_u32(RLX_PIECE_UNITS), rlx_u32(RLX_B_PIECES));
    const rlx_u32 first = piece_place(rlx_u32(RLX_B_PIECES)) * 8u + unit % rlx_u32(RLX_PIECE_UNITS) * rlx_u32(RLX_UNIT);
    const rlx_u32 line = tile.n * rlx_u32(RLX_TILE_N) + (RLX_B_BY_LINE != 0 ? first : row);
    if (RLX_B_ROWS * RLX_B_PIECES % RLX_BLOCK_SIZE == 0 || row < rlx_u32(RLX_B_ROWS))
      b_next[unit] = load_b_unit(b, line, depth + (RLX_B_BY_LINE != 0 ? row : first));
  }
}

// The piece that begins with units[first], where panels have it.
#if RLX_PARTS == 3
#define RLX_STAGE_PIECE(at, part_pieces, units, first)                                           \
  {                                                                                              \
    const RlxParts parts = rlx_parts_of(units[first], units[first + 1u]);                        \
    RLX_UNROLL for (rlx_u32 p = 0u; p < 3u; ++p) rlx_panels[(at) + p * rlx_u32(part_pieces)] = parts.of[p]; \
  }
#else
#define RLX_STAGE_PIECE(at, part_pieces, units, first) rlx_panels[at] = units[first];
#endif
RLX_FN void stage_pieces(rlx_u32 stage, rlx_uvec4 a_next[RLX_A_UNITS], rlx_uvec4 b_next[RLX_B_UNITS]) {
  const rlx_u32 base = stage * rlx_u32(RLX_STAGE_PIECES);
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_A_LOADS); ++load) {
    const rlx_u32 row = piece_row(load, rlx_u32(RLX_A_PIECES));
    const rlx_u32 at = row * rlx_u32(RLX_A_PITCH) + piece_place(rlx_u32(RLX_A_PIECES));
    if (RLX_A_ROWS * RLX_A_PIECES % RLX_BLOCK_SIZE == 0 || row < rlx_u32(RLX_A_ROWS))
      RLX_STAGE_PIECE(base + at, RLX_A_PIECES, a_next, load * rlx_u32(RLX_PIECE_UNITS))
  }
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_B_LOADS); ++load) {
    const rlx_u32 row = piece_row(load, rlx_u32(RLX_B_PIECES));
    const rlx_u32 at = row * rlx_u32(RLX_B_PITCH) + piece_place(rlx_u32(RLX_B_PIECES));
    if (RLX_B_ROWS * RLX_B_PIECES % RLX_BLOCK_SIZE == 0 || row < rlx_u32(RLX_B_ROWS))
      RLX_STAGE_PIECE(base + rlx_u32(RLX_B_FIRST) + at, RLX_B_PIECES, b_next, load * rlx_u32(RLX_PIECE_UNITS))
  }
}

// ---- the kernel ----

struct Result {
  rlx_ptr a;
  rlx_ptr b;
  rlx_ptr base;  // of y, or of this split's sums
  rlx_ptr bias;
  rlx_ptr residual;
  rlx_u32 depth_begin;
  rlx_u32 depth_end;
};

// Sums that are not finite are computed again.
#define RLX_SUMS_AGAIN (RLX_BUNDLED > 1 || RLX_PARTS > 1)

// The RLX_WARPS_K subgroups of one place share out the units of their slots: a thread takes RLX_SLOT_TURNS.
#define RLX_SHARERS (RLX_SUBGROUP * RLX_WARPS_K)
#define RLX_SLOT_TURNS ((16 * RLX_SUM_UNITS + RLX_SHARERS - 1) / RLX_SHARERS)

// A bias of columns is the same for all units of a thread.
#if defined(RLX_BIAS) && RLX_Y_VECTOR == 4 && RLX_PASS != 1
#define RLX_COLUMN_BIAS (RLX_BIAS_M == 0 && RLX_SHARERS % RLX_SUM_UNITS == 0)
#else
#define RLX_COLUMN_BIAS false
#endif
// A residual in front of the activation joins the sums in shared memory: there all of a thread's part is under way at a time.
#if defined(RLX_RESIDUAL) && RLX_Y_VECTOR == 4 && RLX_PASS != 1 && (RLX_RESIDUAL_FIRST || !RLX_ACTIVATION) && !RLX_SUMS_AGAIN
#define RLX_RESIDUAL_JOINS (16 * RLX_SUM_UNITS % RLX_SHARERS == 0)
#else
#define RLX_RESIDUAL_JOINS false
#endif

// Where a thread's units lie: line and column within a slot of sums, and their place in the first of the slots to be added.
struct Unit {
  rlx_u32 line;
  rlx_u32 column;
  rlx_u32 at;
};
RLX_FN Unit unit_in_turn(rlx_u32 warp, rlx_u32 turn) {
  const rlx_u32 part = warp / rlx_u32(RLX_WARPS_M * RLX_WARPS_N);
  const rlx_u32 index = turn * rlx_u32(RLX_SHARERS) + part * rlx_u32(RLX_SUBGROUP) + rlx_local_index % rlx_u32(RLX_SUBGROUP);
  const rlx_u32 place = index % rlx_u32(RLX_SUM_UNITS);
  Unit unit;
  unit.line = index / rlx_u32(RLX_SUM_UNITS);
  unit.column = place * 4u;
  unit.at = warp % rlx_u32(RLX_WARPS_M * RLX_WARPS_N) * rlx_u32(RLX_SUM_PIECES) + unit.line * rlx_u32(RLX_SUM_PITCH) + place;
  return unit;
}

// What this thread's units of a slot, whose first element is (row, column), meet on their way to y.
struct Added {
  rlx_acc4_t bias;
  rlx_acc4_t residual[RLX_SLOT_TURNS];
};
RLX_FN void load_added(Result result, rlx_u32 warp, rlx_u32 row, rlx_u32 column, inout Added added) {
#if RLX_Y_VECTOR == 4
  if (RLX_COLUMN_BIAS) {
    const rlx_u32 n = column + unit_in_turn(warp, 0u).column;
    const bool inside = n < rlx_u32(RLX_N);
    added.bias = rlx_bias4(result.bias, RLX_INDEX(0), RLX_INDEX(inside ? n : 0u));
  }
  if (RLX_RESIDUAL_JOINS) {
    RLX_UNROLL for (rlx_u32 turn = 0u; turn < rlx_u32(RLX_SLOT_TURNS); ++turn) {
      const Unit unit = unit_in_turn(warp, turn);
      const bool inside_m = row + unit.line < rlx_u32(RLX_M);
      const bool inside_n = column + unit.column < rlx_u32(RLX_N);
      const bool inside = inside_m && inside_n;
      const rlx_u32 m = inside ? row + unit.line : 0u;
      const rlx_u32 n = inside ? column + unit.column : 0u;
      added.residual[turn] = rlx_residual4(result.residual, RLX_INDEX(m), RLX_INDEX(n));
    }
  }
#endif
}
RLX_FN void join_residual(rlx_u32 warp, Added added) {
  RLX_UNROLL for (rlx_u32 turn = 0u; turn < rlx_u32(RLX_SLOT_TURNS); ++turn) {
    const rlx_u32 at = unit_in_turn(warp, turn).at;
    rlx_panels[at] = floatBitsToUint(uintBitsToFloat(rlx_panels[at]) + added.residual[turn]);
  }
}

#if RLX_SUMS_AGAIN
// Elements of a and b at depth k of line `row` and column `column`; of bundles over the channels of the filter's own group.
#if RLX_BUNDLED > 1
#define RLX_SUM_DEPTH(result) rlx_u32(RLX_OWN_DEPTH)
#define RLX_SUM_BEGIN(result) 0u
RLX_FN RLX_INDEX b_element(rlx_u32 column, rlx_u32 k) { return RLX_INDEX(column * rlx_u32(RLX_OWN_DEPTH) + k); }
RLX_FN rlx_u32 a_tap(rlx_u32 k) { return k / rlx_u32(RLX_OWN_CHANNELS); }
RLX_FN rlx_u32 a_channel(rlx_u32 column, rlx_u32 k) {
  return column / rlx_u32(RLX_OWN_FILTERS) * rlx_u32(RLX_OWN_CHANNELS) + k % rlx_u32(RLX_OWN_CHANNELS);
}
#else
#define RLX_SUM_DEPTH(result) result.depth_end
#define RLX_SUM_BEGIN(result) result.depth_begin
RLX_FN RLX_INDEX b_element(rlx_u32 column, rlx_u32 k) {
  return RLX_INDEX(column) * RLX_INDEX(RLX_B_LINE) + RLX_INDEX(k) * RLX_INDEX(RLX_B_DEPTH);
}
#if RLX_WINDOWS
RLX_FN rlx_u32 a_tap(rlx_u32 k) { return k / rlx_u32(RLX_CHANNELS); }
RLX_FN rlx_u32 a_channel(rlx_u32 column, rlx_u32 k) { return k % rlx_u32(RLX_CHANNELS); }
#endif
#endif
// The sum of line `row` and column `column` by f32 fused multiply-adds.
RLX_FN float own_sum(Result result, rlx_u32 row, rlx_u32 column) {
#if RLX_WINDOWS
  const WindowLine line = rlx_window_line(row);
#endif
  float sum = 0.0;
  RLX_LOOP for (rlx_u32 k = RLX_SUM_BEGIN(result); k < RLX_SUM_DEPTH(result) && sum == sum; ++k) {  // NaN stays what it is
#if RLX_WINDOWS
    const WindowPixel pixel = rlx_window_pixel(line, a_tap(k));
    const RLX_INDEX channel = RLX_INDEX(a_channel(column, k)) * RLX_INDEX(RLX_X_C);
    const bool inside = pixel.inside;
    const rlx_i64 at = inside ? rlx_i64(pixel.at + channel) : rlx_i64(0);
#else
    const bool inside = true;
    const rlx_i64 at = rlx_i64(RLX_INDEX(row) * RLX_INDEX(RLX_A_LINE) + RLX_INDEX(k) * RLX_INDEX(RLX_A_DEPTH));
#endif
    const float x = RLX_CAT(rlx_load_, RLX_OPERAND)(result.a, at);
    const float w = RLX_CAT(rlx_load_, RLX_OPERAND)(result.b, rlx_i64(b_element(column, k)));
    sum = fma(inside ? x : 0.0, w, sum);
  }
  return sum;
}
#endif

// Finishes four neighbours of y, or stores them as sums of this split.
RLX_FN void store_sums(Result result, rlx_u32 row, rlx_u32 column, rlx_acc4_t sum, rlx_acc4_t column_bias) {
  if (row >= rlx_u32(RLX_M) || column >= rlx_u32(RLX_N)) return;
  const RLX_INDEX m = RLX_INDEX(row);
  const RLX_INDEX n = RLX_INDEX(column);
#if RLX_PASS == 1
  const RLX_INDEX at = m * RLX_INDEX(RLX_N) + n;
#else
  const RLX_INDEX at = rlx_y_element(m, n);
#endif
#if RLX_SUMS_AGAIN
  const bvec4 is_finite = notEqual(floatBitsToUint(sum) & rlx_uvec4(0x7F800000u), rlx_uvec4(0x7F800000u));
  if (!all(is_finite)) {
    // A loop, as most of the code is in here.
    RLX_LOOP for (rlx_u32 c = 0u; c < 4u; ++c) {
      if (column + c >= rlx_u32(RLX_N)) break;
      const bvec4 is_it = equal(rlx_uvec4(c), rlx_uvec4(0u, 1u, 2u, 3u));
      const float again = own_sum(result, row, column + c);
      sum = mix(sum, vec4(again), bvec4(is_it.x && !is_finite.x, is_it.y && !is_finite.y, is_it.z && !is_finite.z, is_it.w && !is_finite.w));
    }
  }
#endif
#if RLX_PASS == 1 && RLX_Y_VECTOR == 4
  RLX_CAT(rlx_store4_, RLX_ACC)(result.base, at, sum);
#elif RLX_Y_VECTOR == 4
  rlx_acc4_t bias = column_bias;
  rlx_acc4_t residual = rlx_acc4_splat(0);
  if (!RLX_COLUMN_BIAS) bias = rlx_bias4(result.bias, m, n);
  if (!RLX_RESIDUAL_JOINS) residual = rlx_residual4(result.residual, m, n);
  RLX_CAT(rlx_store4_, RLX_Y)(result.base, at, rlx_apply4(sum, bias, residual));
#else
  RLX_UNROLL for (rlx_u32 c = 0u; c < 4u; ++c) {
    if (column + c < rlx_u32(RLX_N)) {
      const RLX_INDEX k = RLX_INDEX(c);
#if RLX_PASS == 1
      RLX_CAT(rlx_store_, RLX_ACC)(result.base, at + k, sum[c]);
#else
      RLX_CAT(rlx_store_, RLX_Y)(result.base, at + k, rlx_finish(sum[c], result.bias, result.residual, m, n + k));
#endif
    }
  }
#endif
}

// The subgroups that share a slot's place, or this one alone, have written their slots, or read them.
RLX_FN void meet() {
#if RLX_WARPS_K == 1
  rlx_subgroup_barrier();
#else
  rlx_barrier();
#endif
}

// Finishes the sums whose first element is (row, column) of y: each of the RLX_WARPS_K subgroups of one place has left its own in
// its slot.
RLX_FN void store_slot(Result result, rlx_u32 warp, rlx_u32 row, rlx_u32 column, Added added) {
  if (RLX_RESIDUAL_JOINS) join_residual(warp, added);
  for (rlx_u32 turn = 0u; turn < rlx_u32(RLX_SLOT_TURNS); ++turn) {
    const Unit unit = unit_in_turn(warp, turn);
    if (16 * RLX_SUM_UNITS % RLX_SHARERS != 0 && unit.line >= 16u) return;
    rlx_acc4_t sum = uintBitsToFloat(rlx_panels[unit.at]);
    RLX_UNROLL for (rlx_u32 k = 1u; k < rlx_u32(RLX_WARPS_K); ++k) {
      sum += uintBitsToFloat(rlx_panels[unit.at + k * rlx_u32(RLX_WARPS_M * RLX_WARPS_N * RLX_SUM_PIECES)]);
    }
    store_sums(result, row + unit.line, column + unit.column, sum, added.bias);
  }
}

// RLX_EACH_MATRIX(X): X(i, j) for each matrix of a subgroup, with literal numbers: SPIRV-Tools and drivers do not unroll loops with
// branches, and an index that is not known when the code is compiled moves all matrices from registers to memory.
#if RLX_MATRICES_M > 4 || RLX_MATRICES_N > 4
#error "RLX_EACH_MATRIX knows 4 x 4 matrices"
#endif
#define RLX_EACH_1(X, i) X(i, 0)
#define RLX_EACH_2(X, i) RLX_EACH_1(X, i) X(i, 1)
#define RLX_EACH_3(X, i) RLX_EACH_2(X, i) X(i, 2)
#define RLX_EACH_4(X, i) RLX_EACH_3(X, i) X(i, 3)
#if RLX_MATRICES_N == 1
#define RLX_EACH_ROW RLX_EACH_1
#elif RLX_MATRICES_N == 2
#define RLX_EACH_ROW RLX_EACH_2
#elif RLX_MATRICES_N == 3
#define RLX_EACH_ROW RLX_EACH_3
#else
#define RLX_EACH_ROW RLX_EACH_4
#endif
#if RLX_MATRICES_M == 1
#define RLX_EACH_MATRIX(X) RLX_EACH_ROW(X, 0)
#elif RLX_MATRICES_M == 2
#define RLX_EACH_MATRIX(X) RLX_EACH_ROW(X, 0) RLX_EACH_ROW(X, 1)
#elif RLX_MATRICES_M == 3
#define RLX_EACH_MATRIX(X) RLX_EACH_ROW(X, 0) RLX_EACH_ROW(X, 1) RLX_EACH_ROW(X, 2)
#else
#define RLX_EACH_MATRIX(X) RLX_EACH_ROW(X, 0) RLX_EACH_ROW(X, 1) RLX_EACH_ROW(X, 2) RLX_EACH_ROW(X, 3)
#endif

// Products of a's part p and b's part q, of one depth of matrices.
#define RLX_MULTIPLY_PARTS(apart, p, q)                                            \
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_MATRICES_M); ++i) {               \
    apart[i] = coopMatMulAddNV(left[p][i], right[q], apart[i]);                     \
  }

// The next panels of each operand take their place in shared memory, where everyone has multiplied those before.
RLX_FN void stage_next(rlx_u32 block, rlx_uvec4 a_next[RLX_A_UNITS], rlx_uvec4 b_next[RLX_B_UNITS]) {
#if RLX_STAGES == 1
  rlx_barrier();
#endif
  stage_pieces(block % rlx_u32(RLX_STAGES), a_next, b_next);
  rlx_barrier();
}

// Adds the products of a block's depths to the sums of the subgroup at (warp_m, warp_n) of the tile and warp_k of its depth.
RLX_FN void multiply_panels(rlx_u32 block, rlx_u32 warp_m, rlx_u32 warp_n, rlx_u32 warp_k,
                            inout rlx_sum_matrix sums[RLX_MATRICES_M][RLX_MATRICES_N]) {
  const rlx_u32 a_panel = block % rlx_u32(RLX_STAGES) * rlx_u32(RLX_STAGE_PIECES);
  const rlx_u32 b_panel = a_panel + rlx_u32(RLX_B_FIRST);
  RLX_UNROLL for (rlx_u32 s = 0u; s < rlx_u32(RLX_STEPS); ++s) {
    const rlx_u32 step = s * rlx_u32(RLX_WARPS_K) + warp_k;
    rlx_left_matrix left[RLX_PARTS][RLX_MATRICES_M];
    RLX_UNROLL for (rlx_u32 part = 0u; part < rlx_u32(RLX_PARTS); ++part) {
      RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_MATRICES_M); ++i) {
        const rlx_u32 line = warp_m + i * 16u;
        const rlx_u32 panel = a_panel + part * rlx_u32(RLX_A_PIECES);
#if RLX_A_BY_LINE
        coopMatLoadNV(left[part][i], rlx_panels, panel + step * 16u * rlx_u32(RLX_A_PITCH) + line / 8u, RLX_A_PITCH, true);
#else
        coopMatLoadNV(left[part][i], rlx_panels, panel + line * rlx_u32(RLX_A_PITCH) + step * 2u, RLX_A_PITCH, false);
#endif
      }
    }
    RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_MATRICES_N); ++j) {
      const rlx_u32 line = warp_n + j * 16u;
      rlx_right_matrix right[RLX_PARTS];
      RLX_UNROLL for (rlx_u32 part = 0u; part < rlx_u32(RLX_PARTS); ++part) {
        const rlx_u32 panel = b_panel + part * rlx_u32(RLX_B_PIECES);
#if RLX_B_BY_LINE
        coopMatLoadNV(right[part], rlx_panels, panel + step * 16u * rlx_u32(RLX_B_PITCH) + line / 8u, RLX_B_PITCH, false);
#else
        coopMatLoadNV(right[part], rlx_panels, panel + line * rlx_u32(RLX_B_PITCH) + step * 2u, RLX_B_PITCH, true);
#endif
      }
#if RLX_PARTS == 3
      rlx_sum_matrix apart[RLX_MATRICES_M];
      RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_MATRICES_M); ++i) {
        apart[i] = coopMatMulAddNV(left[1][i], right[1], rlx_sum_matrix(0.0));
      }
      RLX_MULTIPLY_PARTS(apart, 2, 0)
      RLX_MULTIPLY_PARTS(apart, 0, 2)
      RLX_MULTIPLY_PARTS(apart, 1, 0)
      RLX_MULTIPLY_PARTS(apart, 0, 1)
      RLX_MULTIPLY_PARTS(apart, 0, 0)
      RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_MATRICES_M); ++i) {
        RLX_UNROLL for (rlx_u32 e = 0u; e < rlx_u32(RLX_MATRIX_SHARE); ++e) sums[i][j][e] += apart[i][e];
      }
#else
      RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_MATRICES_M); ++i) {
        sums[i][j] = coopMatMulAddNV(left[0][i], right[0], sums[i][j]);
      }
#endif
    }
  }
}

RLX_MAIN {
  const rlx_u32 group = rlx_u32(rlx_linear_group);
  if (group >= rlx_u32(RLX_TILES) * rlx_u32(RLX_SPLITS) * rlx_u32(RLX_BATCHES)) return;
  const TilePlace tile = rlx_tile_place(RLX_TILE_OF(group, rlx_u32(RLX_SPLITS) * rlx_u32(RLX_BATCHES)), rlx_u32(RLX_TILES_M), rlx_u32(RLX_TILES_N));
  const rlx_u32 split = RLX_SPLITS == 1 ? 0u : group / rlx_u32(RLX_TILES) % rlx_u32(RLX_SPLITS);
  const rlx_u32 batch = group / (rlx_u32(RLX_TILES) * rlx_u32(RLX_SPLITS));
#include "generated/batch.inc"
  const rlx_ptr a = RLX_AT(p.a, a_batch, RLX_OPERAND_BYTES);
  const rlx_ptr b = RLX_AT(p.b, b_batch, RLX_OPERAND_BYTES);
  const rlx_u32 depth_begin = split * rlx_u32(RLX_SPLIT_K);
  const rlx_u32 depth_end = min(rlx_u32(RLX_K), depth_begin + rlx_u32(RLX_SPLIT_K));
  const rlx_u32 blocks = (depth_end - depth_begin + rlx_u32(RLX_TILE_K - 1)) / rlx_u32(RLX_TILE_K);
  const rlx_u32 warp = rlx_local_index / rlx_u32(RLX_SUBGROUP);
  const rlx_u32 warp_m = warp % rlx_u32(RLX_WARPS_M) * rlx_u32(RLX_WARP_M);
  const rlx_u32 warp_n = warp / rlx_u32(RLX_WARPS_M) % rlx_u32(RLX_WARPS_N) * rlx_u32(RLX_WARP_N);
  const rlx_u32 warp_k = warp / rlx_u32(RLX_WARPS_M * RLX_WARPS_N);

  // Multiply.
  rlx_sum_matrix sums[RLX_MATRICES_M][RLX_MATRICES_N];
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_MATRICES_M); ++i) {
    RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_MATRICES_N); ++j) {
      sums[i][j] = rlx_sum_matrix(0.0);
    }
  }
  rlx_uvec4 a_next[RLX_AHEAD][RLX_A_UNITS];
  rlx_uvec4 b_next[RLX_AHEAD][RLX_B_UNITS];
  const TileLines lines = lines_of_tile(tile.m * rlx_u32(RLX_TILE_M));
  RLX_UNROLL for (rlx_u32 turn = 0u; turn < rlx_u32(RLX_AHEAD); ++turn) {
    load_units(a, b, lines, tile, depth_begin + turn * rlx_u32(RLX_TILE_K), a_next[turn], b_next[turn]);
  }
  stage_pieces(0u, a_next[0], b_next[0]);
  rlx_barrier();
  // Rounds with more behind them, then the last one. Turns are unrolled, so that places in a_next and b_next are known when the code
  // is compiled.
  RLX_LOOP for (rlx_u32 round = 0u; round + rlx_u32(RLX_AHEAD) < blocks; round += rlx_u32(RLX_AHEAD)) {
    RLX_UNROLL for (rlx_u32 turn = 0u; turn < rlx_u32(RLX_AHEAD); ++turn) {
      const rlx_u32 block = round + turn;
      const rlx_u32 depth = depth_begin + (block + rlx_u32(RLX_AHEAD)) * rlx_u32(RLX_TILE_K);
      load_units(a, b, lines, tile, depth, a_next[turn], b_next[turn]);
      multiply_panels(block, warp_m, warp_n, warp_k, sums);
      stage_next(block + 1u, a_next[(turn + 1u) % rlx_u32(RLX_AHEAD)], b_next[(turn + 1u) % rlx_u32(RLX_AHEAD)]);
    }
  }
  const rlx_u32 last_round = blocks - rlx_u32(RLX_AHEAD);
  multiply_panels(last_round, warp_m, warp_n, warp_k, sums);
  RLX_UNROLL for (rlx_u32 turn = 1u; turn < rlx_u32(RLX_AHEAD); ++turn) {
    stage_next(last_round + turn, a_next[turn], b_next[turn]);
    multiply_panels(last_round + turn, warp_m, warp_n, warp_k, sums);
  }
  rlx_barrier();

  // Store.
  Result result;
  result.a = a;
  result.b = b;
  result.depth_begin = depth_begin;
  result.depth_end = depth_end;
#if RLX_PASS == 1
  result.base = RLX_AT(p.partial, (rlx_i64(split) * RLX_BATCHES + rlx_i64(batch)) * rlx_i64(RLX_M) * rlx_i64(RLX_N),
                       RLX_CAT(rlx_bytes_, RLX_ACC));
#else
  result.base = RLX_AT(p.y, rlx_y_entry(batch), RLX_CAT(rlx_bytes_, RLX_Y));
#endif
#ifdef RLX_BIAS
  result.bias = RLX_AT(p.bias, bias_batch, RLX_CAT(rlx_bytes_, RLX_BIAS));
#else
  result.bias = 0;
#endif
#ifdef RLX_RESIDUAL
  result.residual = RLX_AT(p.residual, residual_batch, RLX_CAT(rlx_bytes_, RLX_RESIDUAL));
#else
  result.residual = 0;
#endif
  const rlx_u32 row = tile.m * rlx_u32(RLX_TILE_M) + warp_m;
  const rlx_u32 column = tile.n * rlx_u32(RLX_TILE_N) + warp_n;
  Added added;
#define RLX_STORE_MATRIX(i, j)                                                                                      \
  if (j % RLX_SUM_MATRICES == 0) {                                                                                  \
    load_added(result, warp, row + i * 16u, column + j * 16u, added);                                               \
  }                                                                                                                 \
  coopMatStoreNV(sums[i][j], rlx_panels, warp * rlx_u32(RLX_SUM_PIECES) + rlx_u32(j % RLX_SUM_MATRICES * 4),          \
                 RLX_SUM_PITCH, false);                                                                              \
  if (j % RLX_SUM_MATRICES == RLX_SUM_MATRICES - 1) {                                                                \
    meet();                                                                                                          \
    store_slot(result, warp, row + i * 16u, column + j / RLX_SUM_MATRICES * RLX_SUM_MATRICES * 16u, added);           \
    meet();                                                                                                          \
  }
  RLX_EACH_MATRIX(RLX_STORE_MATRIX)
}
