// SPDX-License-Identifier: Apache-2.0
// Of each row of x: mean = center + rest, variance = mean((x - mean)^2), inv_std from it (RLX_CENTER 1); or from the plain sum of
// squares (RLX_CENTER 0).
// Layout: a row is RLX_REDUCED elements of x anywhere; generated/rows.inc turns loop positions into element offsets (RLX_X_KEPT,
//   RLX_X_REDUCED, RLX_Y_KEPT). A row's results stand RLX_REPEATS times, side by side.
// Grid: RLX_PARTS groups for each RLX_ROWS rows, spread by split_grid. With RLX_PARTS > 1 they write what they found of their part to
//   partial[row][part], and a second dispatch (RLX_MERGE 1, a group for each RLX_ROWS rows) merges those in a fixed order.
// Specializations: RLX_LANES x RLX_ROWS threads and RLX_BY_COLUMN (lib/reduce.glsl); RLX_ROW_COUNT, RLX_REDUCED, RLX_PARTS,
//   RLX_PART_LENGTH; storage types RLX_X, RLX_Y (of all results and of partial); RLX_WIDTH 1, 4 or 8: so many neighbours of a row at
//   a time; RLX_ITEMS: pieces of RLX_WIDTH elements that a thread holds; RLX_HAS_MEAN, RLX_HAS_VARIANCE: what is wanted.
// generated/rows.inc: RLX_INDEX; RLX_REAL (rlx_f32, or rlx_f64 for f64); RLX_OF_ROW(a) and RLX_OF_PART(a, n): a divided by the count of
//   elements; RLX_PART_COUNT(i): elements of part i; RLX_SPREAD(squares) and RLX_INV_STD(spread).
// Numerics: f32 (f64 for f64). Each part takes its mean first, then the squares around it. A mean is rounded, which matters far from
//   zero: `rest` is the mean of what is left after centring. Means of parts meet as differences.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "lib/math.glsl"
#include "lib/reduce.glsl"
#include "generated/rows.inc"

RLX_PARAMS(MomentsParams);

RLX_GROUP_REDUCE(row_sum, RLX_REAL, RLX_COMBINE_SUM)

#define RLX_PART_WORDS 3  // of a part in `partial`: center, rest, squares around their sum
#define RLX_LOAD_PART(i, word) RLX_CAT(rlx_load_, RLX_Y)(p.partial, (i) * RLX_PART_WORDS + (word))

// A piece: RLX_WIDTH neighbouring elements as RLX_REAL.
#if RLX_WIDTH == 8
#define RLX_GET_PIECE(v, at) RLX_CAT(rlx_load8_, RLX_X)(p.x, at, v);
#elif RLX_WIDTH == 4
#define RLX_GET_PIECE(v, at)                                \
  {                                                         \
    const rlx_vec4 four = RLX_CAT(rlx_load4_, RLX_X)(p.x, at); \
    v[0] = four.x;                                          \
    v[1] = four.y;                                          \
    v[2] = four.z;                                          \
    v[3] = four.w;                                          \
  }
#else
#define RLX_GET_PIECE(v, at) v[0] = RLX_REAL(RLX_CAT(rlx_load_, RLX_X)(p.x, at));
#endif

RLX_MAIN {
  const RLX_INDEX group = RLX_INDEX(rlx_linear_group);
#if RLX_MERGE
  const RLX_INDEX row = group * RLX_INDEX(RLX_ROWS) + RLX_INDEX(rlx_row);
#else
  const RLX_INDEX part = group % RLX_INDEX(RLX_PARTS);
  const RLX_INDEX row = group / RLX_INDEX(RLX_PARTS) * RLX_INDEX(RLX_ROWS) + RLX_INDEX(rlx_row);
#endif
  const bool inside = row < RLX_INDEX(RLX_ROW_COUNT);
  const RLX_INDEX kept = inside ? row : RLX_INDEX(0);
  RLX_REAL center = RLX_REAL(0);
  RLX_REAL rest = RLX_REAL(0);

#if RLX_MERGE
  // Parts of a row: their means against the first one's center, then their squares and what those means add to them.
  const RLX_INDEX first = kept * RLX_INDEX(RLX_PARTS);
#if RLX_CENTER
  center = RLX_LOAD_PART(first, 0);
  for (RLX_INDEX i = RLX_INDEX(rlx_lane); i < RLX_INDEX(RLX_PARTS); i += RLX_INDEX(RLX_LANES)) {
    RLX_PRECISE RLX_REAL away = (RLX_LOAD_PART(first + i, 0) - center) + RLX_LOAD_PART(first + i, 1);
    rest += away * RLX_REAL(RLX_PART_COUNT(i));
  }
  rest = RLX_OF_ROW(row_sum(rest));
#endif
  RLX_REAL squares = RLX_REAL(0);
  for (RLX_INDEX i = RLX_INDEX(rlx_lane); i < RLX_INDEX(RLX_PARTS); i += RLX_INDEX(RLX_LANES)) {
    squares += RLX_LOAD_PART(first + i, 2);
#if RLX_CENTER
    RLX_PRECISE RLX_REAL away = ((RLX_LOAD_PART(first + i, 0) - center) + RLX_LOAD_PART(first + i, 1)) - rest;
    squares += away * away * RLX_REAL(RLX_PART_COUNT(i));
#endif
  }
  squares = row_sum(squares);
#if RLX_CENTER
  // The sum of both as the nearest number and what it misses.
  RLX_PRECISE RLX_REAL mean = center + rest;
  RLX_PRECISE RLX_REAL carried = mean - center;
  RLX_PRECISE RLX_REAL missed = (center - (mean - carried)) + (rest - carried);
  rest = missed;
  center = mean;
#endif
#else
  // The part's elements in registers; places behind its end hold 0.
  RLX_REAL held[RLX_ITEMS][RLX_WIDTH];
  const RLX_INDEX begin = part * RLX_INDEX(RLX_PART_LENGTH);
  const RLX_INDEX end = min(begin + RLX_INDEX(RLX_PART_LENGTH), RLX_INDEX(RLX_REDUCED));
  const RLX_INDEX first = begin + RLX_INDEX(rlx_lane) * RLX_WIDTH;
  const RLX_INDEX step = RLX_INDEX(RLX_LANES) * RLX_WIDTH;
  const RLX_INDEX x_row = RLX_X_KEPT(kept);
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const RLX_INDEX i = first + RLX_INDEX(k) * step;
    RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) held[k][j] = RLX_REAL(0);
    if (i < end) {
      RLX_GET_PIECE(held[k], x_row + RLX_X_REDUCED(i))
    }
  }
#if RLX_CENTER
  // Mean.
  RLX_REAL sum = RLX_REAL(0);
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) sum += held[k][j];
  }
  center = RLX_OF_PART(row_sum(sum), end - begin);
#endif
  // Squares around the rounded mean, and what its rounding left over.
  RLX_REAL squares = RLX_REAL(0);
  RLX_REAL missed = RLX_REAL(0);
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    if (first + RLX_INDEX(k) * step < end) {
      RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) {
        const RLX_REAL away = held[k][j] - center;
        squares += away * away;
        missed += away;
      }
    }
  }
  squares = row_sum(squares);
#if RLX_CENTER
  missed = row_sum(missed);
  rest = RLX_OF_PART(missed, end - begin);
  squares -= missed * rest;
#endif
#endif

#if !RLX_MERGE && RLX_PARTS > 1
  if (!inside || rlx_lane != 0u) return;
  const RLX_INDEX at = (row * RLX_INDEX(RLX_PARTS) + part) * RLX_PART_WORDS;
  RLX_CAT(rlx_store_, RLX_Y)(p.partial, at, center);
  RLX_CAT(rlx_store_, RLX_Y)(p.partial, at + 1, rest);
  RLX_CAT(rlx_store_, RLX_Y)(p.partial, at + 2, squares);
#else
  // Result, repeated for each channel of the row.
  const RLX_REAL spread = RLX_SPREAD(squares);
  const RLX_REAL inv_std = RLX_INV_STD(spread);
  if (!inside) return;
  for (RLX_INDEX i = RLX_INDEX(rlx_lane); i < RLX_INDEX(RLX_REPEATS); i += RLX_INDEX(RLX_LANES)) {
    const RLX_INDEX at = RLX_Y_KEPT(row) + i;
#if RLX_HAS_MEAN
    RLX_CAT(rlx_store_, RLX_Y)(p.center, at, center);
    RLX_CAT(rlx_store_, RLX_Y)(p.rest, at, rest);
#endif
    RLX_CAT(rlx_store_, RLX_Y)(p.inv_std, at, inv_std);
#if RLX_HAS_VARIANCE
    RLX_CAT(rlx_store_, RLX_Y)(p.variance, at, spread);
#endif
  }
#endif
}
