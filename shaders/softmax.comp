// SPDX-License-Identifier: Apache-2.0
// y = exp(x - m) / s, or x - m - log(s) with RLX_LOG; m the row's maximum, s the row's sum of exp(x - m).
// Layout: rows and the positions in them are loop positions; generated/rows.inc turns them into element offsets (RLX_X_KEPT,
//   RLX_X_REDUCED, RLX_Y_KEPT, RLX_Y_REDUCED) and names their type RLX_INDEX and that of values, RLX_REAL (rlx_f32, or rlx_f64
//   for f64). Any axis, any strides; y may be x.
// Grid: one group for each RLX_ROWS rows, spread by split_grid.
// Specializations: RLX_LANES x RLX_ROWS threads and RLX_BY_COLUMN (lib/reduce.glsl); RLX_ROW_COUNT, RLX_COLS; RLX_X, RLX_Y
//   storage types; RLX_WIDTH 4 or 8: so many neighbouring elements at a time; RLX_ITEMS: pieces of RLX_WIDTH elements that a
//   thread keeps in registers, 0: the row is read twice, RLX_BATCH pieces at a time, and the maximum and the sum are found together in
//   the first pass.
// Numerics: f32 throughout (f64 for f64, with RLX_DOUBLE), one rounding. A row with a NaN or an infinite maximum becomes NaN.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "lib/math.glsl"
#ifdef RLX_DOUBLE
#include "lib/math64.glsl"
#endif
#include "lib/reduce.glsl"
#include "generated/rows.inc"

RLX_PARAMS(CopyParams);

RLX_GROUP_REDUCE(row_max, RLX_REAL, RLX_COMBINE_MAX)
RLX_GROUP_REDUCE(row_sum, RLX_REAL, RLX_COMBINE_SUM)

#define RLX_MINUS_INFINITY RLX_REAL(rlx_from_bits(0xFF800000u))

// One piece of x into values[at ...], and of y from there; i is its first position.
#if RLX_WIDTH == 8
#define RLX_LOAD_PIECE(i, values, at)                                          \
  {                                                                            \
    float piece[8];                                                            \
    RLX_CAT(rlx_load8_, RLX_X)(p.x, x_row + RLX_X_REDUCED(i), piece);          \
    RLX_UNROLL for (int w = 0; w < 8; ++w) values[(at) + w] = piece[w];        \
  }
#define RLX_STORE_PIECE(i, values, at)                                         \
  {                                                                            \
    float piece[8];                                                            \
    RLX_UNROLL for (int w = 0; w < 8; ++w) piece[w] = values[(at) + w];        \
    RLX_CAT(rlx_store8_, RLX_Y)(p.y, y_row + RLX_Y_REDUCED(i), piece);         \
  }
#elif RLX_WIDTH == 4
#define RLX_LOAD_PIECE(i, values, at)                                                      \
  {                                                                                        \
    const rlx_vec4 piece = RLX_CAT(rlx_load4_, RLX_X)(p.x, x_row + RLX_X_REDUCED(i));      \
    values[(at)] = piece.x;                                                                \
    values[(at) + 1] = piece.y;                                                            \
    values[(at) + 2] = piece.z;                                                            \
    values[(at) + 3] = piece.w;                                                            \
  }
#define RLX_STORE_PIECE(i, values, at)                                         \
  {                                                                            \
    rlx_vec4 piece;                                                            \
    piece.x = values[(at)];                                                    \
    piece.y = values[(at) + 1];                                                \
    piece.z = values[(at) + 2];                                                \
    piece.w = values[(at) + 3];                                                \
    RLX_CAT(rlx_store4_, RLX_Y)(p.y, y_row + RLX_Y_REDUCED(i), piece);         \
  }
#else
#define RLX_LOAD_PIECE(i, values, at) values[(at)] = RLX_CAT(rlx_load_, RLX_X)(p.x, x_row + RLX_X_REDUCED(i));
#define RLX_STORE_PIECE(i, values, at) RLX_CAT(rlx_store_, RLX_Y)(p.y, y_row + RLX_Y_REDUCED(i), values[(at)]);
#endif
// The sum of a row whose maximum is not finite is NaN, and so becomes all that is divided by it.
#define RLX_SUM_UNLESS(sum, top) (rlx_infinite(top) || rlx_nan(top) ? RLX_REAL(rlx_from_bits(0x7FC00000u)) : (sum))

RLX_MAIN {
  const RLX_INDEX row = RLX_INDEX(rlx_linear_group) * RLX_INDEX(RLX_ROWS) + RLX_INDEX(rlx_row);
  const bool inside = row < RLX_INDEX(RLX_ROW_COUNT);
  const RLX_INDEX kept = inside ? row : RLX_INDEX(0);
  const RLX_INDEX x_row = RLX_X_KEPT(kept);
  const RLX_INDEX y_row = RLX_Y_KEPT(kept);
  const RLX_INDEX end = RLX_INDEX(RLX_COLS);
  const RLX_INDEX first = RLX_INDEX(rlx_lane) * RLX_WIDTH;
  const RLX_INDEX step = RLX_INDEX(RLX_LANES) * RLX_WIDTH;

#if RLX_ITEMS > 0
  // Maximum, with the row kept in registers.
  RLX_REAL held[RLX_ITEMS * RLX_WIDTH];
  RLX_REAL top = RLX_MINUS_INFINITY;
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const RLX_INDEX i = first + RLX_INDEX(k) * step;
    if (i < end) {
      RLX_LOAD_PIECE(i, held, RLX_WIDTH * k)
    } else {
      RLX_UNROLL for (int w = 0; w < RLX_WIDTH; ++w) held[RLX_WIDTH * k + w] = RLX_MINUS_INFINITY;
    }
  }
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS * RLX_WIDTH; ++k) top = max(top, held[k]);
  top = row_max(top);
  // Sum. Whatever maximum a NaN left over, the differences of its thread add up to NaN.
  RLX_REAL sum = RLX_REAL(0);
  RLX_REAL differences = RLX_REAL(0);
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS * RLX_WIDTH; ++k) {
    held[k] -= top;
    differences += held[k];
#if RLX_LOG
    sum += rlx_exp_below(held[k]);
#else
    held[k] = rlx_exp_below(held[k]);
    sum += held[k];
#endif
  }
  sum = RLX_SUM_UNLESS(row_sum(rlx_nan(differences) ? differences : sum), top);
  // Result.
#if RLX_LOG
  const RLX_REAL log_sum = rlx_log(sum);
#define RLX_RESULT(v) ((v) - log_sum)
#else
  const RLX_REAL inverse = RLX_REAL(1) / sum;
#define RLX_RESULT(v) ((v) * inverse)
#endif
  if (!inside) return;
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS * RLX_WIDTH; ++k) held[k] = RLX_RESULT(held[k]);
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const RLX_INDEX i = first + RLX_INDEX(k) * step;
    if (i < end) RLX_STORE_PIECE(i, held, RLX_WIDTH * k)
  }
#else
  RLX_REAL values[RLX_BATCH * RLX_WIDTH];
  RLX_REAL top = RLX_MINUS_INFINITY;
  RLX_REAL sum = RLX_REAL(0);
  // Maximum and sum together: the sum is relative to the thread's maximum so far.
  for (RLX_INDEX i = first; i < end; i += step * RLX_BATCH) {
    RLX_UNROLL for (int k = 0; k < RLX_BATCH; ++k) {
      const RLX_INDEX at = i + RLX_INDEX(k) * step;
      if (at < end) {
        RLX_LOAD_PIECE(at, values, RLX_WIDTH * k)
      } else {
        RLX_UNROLL for (int w = 0; w < RLX_WIDTH; ++w) values[RLX_WIDTH * k + w] = RLX_MINUS_INFINITY;
      }
    }
    RLX_REAL highest = top;
    RLX_UNROLL for (int k = 0; k < RLX_BATCH * RLX_WIDTH; ++k) highest = RLX_COMBINE_MAX(highest, values[k]);
    sum = highest == top ? sum : sum * rlx_exp_below(top - highest);
    top = highest;
    if (top != RLX_MINUS_INFINITY) {
      RLX_UNROLL for (int k = 0; k < RLX_BATCH * RLX_WIDTH; ++k) sum += rlx_exp_below(values[k] - top);
    }
  }
  const RLX_REAL row_top = row_max(top);
  sum = row_sum(top == RLX_MINUS_INFINITY ? RLX_REAL(0) : sum * rlx_exp_below(top - row_top));
  sum = RLX_SUM_UNLESS(sum, row_top);
  // Result.
#if RLX_LOG
  const RLX_REAL log_sum = rlx_log(sum);
#define RLX_RESULT(v) ((v) - row_top - log_sum)
#else
  const RLX_REAL inverse = RLX_REAL(1) / sum;
#define RLX_RESULT(v) (rlx_exp_below((v) - row_top) * inverse)
#endif
  if (!inside) return;
  for (RLX_INDEX i = first; i < end; i += step * RLX_BATCH) {
    RLX_UNROLL for (int k = 0; k < RLX_BATCH; ++k) {
      const RLX_INDEX at = i + RLX_INDEX(k) * step;
      if (at < end) RLX_LOAD_PIECE(at, values, RLX_WIDTH * k)
    }
    RLX_UNROLL for (int k = 0; k < RLX_BATCH * RLX_WIDTH; ++k) values[k] = RLX_RESULT(values[k]);
    RLX_UNROLL for (int k = 0; k < RLX_BATCH; ++k) {
      const RLX_INDEX at = i + RLX_INDEX(k) * step;
      if (at < end) RLX_STORE_PIECE(at, values, RLX_WIDTH * k)
    }
  }
#endif
}
