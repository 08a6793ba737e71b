// SPDX-License-Identifier: Apache-2.0
// y = exp(x - m) / s, or x - m - log(s) with RLX_LOG; m the row's maximum, s the row's sum of exp(x - m).
// Layout: rows and the positions in them are loop positions; generated/rows.inc turns them into element offsets (RLX_X_KEPT,
//   RLX_X_REDUCED, RLX_Y_KEPT, RLX_Y_REDUCED), names their type RLX_INDEX and that of the arithmetic RLX_REAL. Any axis, any
//   strides; y may be x.
// Grid: one group for each RLX_ROWS rows, spread by split_grid.
// Specializations: RLX_LANES x RLX_ROWS threads and RLX_BY_COLUMN (lib/reduce.cuh); RLX_ROW_COUNT, RLX_COLS; RLX_X, RLX_Y storage
//   types; RLX_WIDTH 4: four neighbouring elements at a time; RLX_ITEMS: pieces of RLX_WIDTH elements that a thread keeps in
//   registers, 0: the row is read twice and the maximum and the sum are found together in the first pass.
// Numerics: f32 throughout (f64 for f64), one rounding. A row with a NaN or an infinite maximum becomes NaN.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/math.cuh"
#include "lib/reduce.cuh"
#include "generated/rows.inc"

RLX_PARAMS(CopyParams);

RLX_GROUP_REDUCE(row_max, RLX_REAL, RLX_COMBINE_MAX)
RLX_GROUP_REDUCE(row_sum, RLX_REAL, RLX_COMBINE_SUM)

#define RLX_MINUS_INFINITY RLX_REAL(rlx_from_bits(0xFF800000u))
#define RLX_LOAD(i) RLX_CAT(rlx_load_, RLX_X)(p.x, x_row + RLX_X_REDUCED(i))
#define RLX_LOAD4(i) RLX_CAT(rlx_load4_, RLX_X)(p.x, x_row + RLX_X_REDUCED(i))
#define RLX_STORE(i, value) RLX_CAT(rlx_store_, RLX_Y)(p.y, y_row + RLX_Y_REDUCED(i), value)
#define RLX_STORE4(i, value) RLX_CAT(rlx_store4_, RLX_Y)(p.y, y_row + RLX_Y_REDUCED(i), value)

RLX_MAIN {
  const RLX_INDEX row = RLX_INDEX(rlx_linear_group) * RLX_INDEX(RLX_ROWS) + RLX_INDEX(rlx_row);
  const bool inside = row < RLX_INDEX(RLX_ROW_COUNT);
  const RLX_INDEX kept = inside ? row : RLX_INDEX(0);
  const RLX_INDEX x_row = RLX_X_KEPT(kept);
  const RLX_INDEX y_row = RLX_Y_KEPT(kept);
  const RLX_INDEX first = RLX_INDEX(rlx_lane) * RLX_WIDTH;
  const RLX_INDEX step = RLX_INDEX(RLX_LANES) * RLX_WIDTH;

#if RLX_ITEMS > 0
  // Maximum, with the row kept in registers.
  RLX_REAL held[RLX_ITEMS * RLX_WIDTH];
  RLX_REAL top = RLX_MINUS_INFINITY;
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const RLX_INDEX i = first + RLX_INDEX(k) * step;
    const bool in_row = i < RLX_INDEX(RLX_COLS);
#if RLX_WIDTH == 4
    rlx_vec4 four;
    if (in_row) four = RLX_LOAD4(i);
    held[4 * k] = in_row ? four.x : RLX_MINUS_INFINITY;
    held[4 * k + 1] = in_row ? four.y : RLX_MINUS_INFINITY;
    held[4 * k + 2] = in_row ? four.z : RLX_MINUS_INFINITY;
    held[4 * k + 3] = in_row ? four.w : RLX_MINUS_INFINITY;
#else
    held[k] = RLX_MINUS_INFINITY;
    if (in_row) held[k] = RLX_LOAD(i);
#endif
    RLX_UNROLL for (int w = 0; w < RLX_WIDTH; ++w) {
      top = RLX_COMBINE_MAX(top, held[RLX_WIDTH * k + w]);
    }
  }
  top = row_max(top);
  // Sum.
  RLX_REAL sum = RLX_REAL(0);
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS * RLX_WIDTH; ++k) {
#if RLX_LOG
    held[k] -= top;
    sum += rlx_exp(held[k]);
#else
    held[k] = rlx_exp(held[k] - top);
    sum += held[k];
#endif
  }
  sum = row_sum(sum);
  // Result.
#if RLX_LOG
  const RLX_REAL log_sum = rlx_log(sum);
#define RLX_RESULT(v) ((v) - log_sum)
#else
  const RLX_REAL inverse = RLX_REAL(1) / sum;
#define RLX_RESULT(v) ((v) * inverse)
#endif
  if (!inside) return;
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const RLX_INDEX i = first + RLX_INDEX(k) * step;
    if (i >= RLX_INDEX(RLX_COLS)) continue;
#if RLX_WIDTH == 4
    rlx_vec4 four;
    four.x = RLX_RESULT(held[4 * k]);
    four.y = RLX_RESULT(held[4 * k + 1]);
    four.z = RLX_RESULT(held[4 * k + 2]);
    four.w = RLX_RESULT(held[4 * k + 3]);
    RLX_STORE4(i, four);
#else
    RLX_STORE(i, RLX_RESULT(held[k]));
#endif
  }
#else
  // Maximum and sum together: the sum is relative to the thread's maximum so far.
  RLX_REAL top = RLX_MINUS_INFINITY;
  RLX_REAL sum = RLX_REAL(0);
  for (RLX_INDEX i = first; i < RLX_INDEX(RLX_COLS); i += step) {
#if RLX_WIDTH == 4
    const rlx_vec4 four = RLX_LOAD4(i);
    RLX_REAL values[4];
    values[0] = four.x;
    values[1] = four.y;
    values[2] = four.z;
    values[3] = four.w;
#else
    RLX_REAL values[1];
    values[0] = RLX_LOAD(i);
#endif
    RLX_REAL highest = top;
    RLX_UNROLL for (int w = 0; w < RLX_WIDTH; ++w) highest = RLX_COMBINE_MAX(highest, values[w]);
    if (highest != top) {
      sum *= rlx_exp(top - highest);
      top = highest;
    }
    if (top != RLX_MINUS_INFINITY) {
      RLX_UNROLL for (int w = 0; w < RLX_WIDTH; ++w) sum += rlx_exp(values[w] - top);
    }
  }
  const RLX_REAL row_top = row_max(top);
  sum = row_sum(top == RLX_MINUS_INFINITY ? RLX_REAL(0) : sum * rlx_exp(top - row_top));
  if (rlx_infinite(row_top) || rlx_nan(row_top)) sum = RLX_REAL(rlx_from_bits(0x7FC00000u));
  // Result.
#if RLX_LOG
  const RLX_REAL log_sum = rlx_log(sum);
#define RLX_RESULT(v) ((v) - row_top - log_sum)
#else
  const RLX_REAL inverse = RLX_REAL(1) / sum;
#define RLX_RESULT(v) (rlx_exp((v) - row_top) * inverse)
#endif
  if (!inside) return;
  for (RLX_INDEX i = first; i < RLX_INDEX(RLX_COLS); i += step) {
#if RLX_WIDTH == 4
    rlx_vec4 four = RLX_LOAD4(i);
    four.x = RLX_RESULT(four.x);
    four.y = RLX_RESULT(four.y);
    four.z = RLX_RESULT(four.z);
    four.w = RLX_RESULT(four.w);
    RLX_STORE4(i, four);
#else
    RLX_STORE(i, RLX_RESULT(RLX_LOAD(i)));
#endif
  }
#endif
}
