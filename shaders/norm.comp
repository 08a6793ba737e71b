// SPDX-License-Identifier: Apache-2.0
// layer_norm (RLX_CENTER 1): y = (x - mean) * inv_std * gamma + beta, inv_std = (mean((x - mean)^2) + eps)^(-1/2).
// rms_norm (RLX_CENTER 0):   y = x * inv_std * (gamma + gamma_offset) + beta, inv_std = (mean(x^2) + eps)^(-1/2).
// An absent gamma is 1.
// Layout: a row is RLX_COLS neighbouring elements of x and of y; rows may be strided. generated/rows.inc gives RLX_INDEX,
//   RLX_X_KEPT, RLX_Y_KEPT (element offsets of a row), RLX_GAMMA_AT, RLX_BETA_AT (by position in the row), RLX_REAL (rlx_f32, or
//   rlx_f64 for f64), RLX_MEAN(a) (a / RLX_COLS), RLX_EPS and RLX_GAMMA_OFFSET.
// Grid: one group for each RLX_ROWS rows, spread by split_grid.
// Specializations: RLX_LANES x RLX_ROWS threads (lib/reduce.glsl, neighbours share a row); RLX_ROW_COUNT, RLX_COLS; storage types
//   RLX_X (of x and y), RLX_GAMMA, RLX_BETA; RLX_HAS_GAMMA, RLX_HAS_BETA, RLX_HAS_MEAN, RLX_HAS_INV_STD; RLX_WIDTH 4: four elements
//   of x and y at a time; RLX_ITEMS: pieces of RLX_WIDTH elements that a thread keeps in registers, 0: the row is read again.
// Numerics: mean first, then the centred squares, in f32 (f64 for f64); one rounding at the end. The mean is rounded, which matters
//   far from zero: the mean of what is left after centring corrects it.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "lib/math.glsl"
#include "lib/reduce.glsl"
#include "generated/rows.inc"

RLX_PARAMS(NormParams);

RLX_GROUP_REDUCE(row_sum, RLX_REAL, RLX_COMBINE_SUM)

#define RLX_LOAD(i) RLX_CAT(rlx_load_, RLX_X)(p.x, x_row + (i))
#define RLX_LOAD4(i) RLX_CAT(rlx_load4_, RLX_X)(p.x, x_row + (i))

#if RLX_HAS_GAMMA
#define RLX_SCALED(v, i) ((v) * inv_std * (RLX_REAL(RLX_CAT(rlx_load_, RLX_GAMMA)(p.gamma, RLX_GAMMA_AT(i))) + RLX_GAMMA_OFFSET))
#else
#define RLX_SCALED(v, i) ((v) * inv_std * (RLX_REAL(1) + RLX_GAMMA_OFFSET))
#endif
#if RLX_HAS_BETA
#define RLX_RESULT(v, i) (RLX_SCALED(v, i) + RLX_REAL(RLX_CAT(rlx_load_, RLX_BETA)(p.beta, RLX_BETA_AT(i))))
#else
#define RLX_RESULT(v, i) RLX_SCALED(v, i)
#endif

RLX_MAIN {
  const RLX_INDEX row = RLX_INDEX(rlx_linear_group) * RLX_INDEX(RLX_ROWS) + RLX_INDEX(rlx_row);
  const bool inside = row < RLX_INDEX(RLX_ROW_COUNT);
  const RLX_INDEX kept = inside ? row : RLX_INDEX(0);
  const RLX_INDEX x_row = RLX_X_KEPT(kept);
  const RLX_INDEX y_row = RLX_Y_KEPT(kept);
  const RLX_INDEX first = RLX_INDEX(rlx_lane) * RLX_WIDTH;
  const RLX_INDEX step = RLX_INDEX(RLX_LANES) * RLX_WIDTH;
  RLX_REAL mean = RLX_REAL(0);

#if RLX_ITEMS > 0
  // The row into registers; places behind its end hold 0.
  RLX_REAL held[RLX_ITEMS * RLX_WIDTH];
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const RLX_INDEX i = first + RLX_INDEX(k) * step;
    const bool in_row = i < RLX_INDEX(RLX_COLS);
#if RLX_WIDTH == 4
    rlx_vec4 four;
    if (in_row) four = RLX_LOAD4(i);
    held[4 * k] = in_row ? four.x : 0.0f;
    held[4 * k + 1] = in_row ? four.y : 0.0f;
    held[4 * k + 2] = in_row ? four.z : 0.0f;
    held[4 * k + 3] = in_row ? four.w : 0.0f;
#else
    held[k] = RLX_REAL(0);
    if (in_row) held[k] = RLX_LOAD(i);
#endif
  }
#if RLX_CENTER
  // Mean.
  RLX_REAL sum = RLX_REAL(0);
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS * RLX_WIDTH; ++k) sum += held[k];
  mean = RLX_MEAN(row_sum(sum));
#endif
  // Squares.
  RLX_REAL squares = RLX_REAL(0);
  RLX_REAL rest = RLX_REAL(0);
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS * RLX_WIDTH; ++k) {
    const RLX_INDEX i = first + RLX_INDEX(k / RLX_WIDTH) * step;
    held[k] -= mean;
    if (i < RLX_INDEX(RLX_COLS)) {
      squares += held[k] * held[k];
      rest += held[k];
    }
  }
#else
#if RLX_CENTER
  // Mean.
  RLX_REAL sum = RLX_REAL(0);
  for (RLX_INDEX i = first; i < RLX_INDEX(RLX_COLS); i += step) {
#if RLX_WIDTH == 4
    const rlx_vec4 four = RLX_LOAD4(i);
    sum += (four.x + four.y) + (four.z + four.w);
#else
    sum += RLX_LOAD(i);
#endif
  }
  mean = RLX_MEAN(row_sum(sum));
#endif
  // Squares.
  RLX_REAL squares = RLX_REAL(0);
  RLX_REAL rest = RLX_REAL(0);
  for (RLX_INDEX i = first; i < RLX_INDEX(RLX_COLS); i += step) {
#if RLX_WIDTH == 4
    rlx_vec4 four = RLX_LOAD4(i);
    four.x -= mean;
    four.y -= mean;
    four.z -= mean;
    four.w -= mean;
    squares += (four.x * four.x + four.y * four.y) + (four.z * four.z + four.w * four.w);
    rest += (four.x + four.y) + (four.z + four.w);
#else
    const RLX_REAL centred = RLX_LOAD(i) - mean;
    squares += centred * centred;
    rest += centred;
#endif
  }
#endif
  RLX_REAL variance = RLX_MEAN(row_sum(squares));
#if RLX_CENTER
  // What the rounding of the mean left over.
  const RLX_REAL missed = RLX_MEAN(row_sum(rest));
  variance -= missed * missed;
#else
  const RLX_REAL missed = RLX_REAL(0);
#endif
  const RLX_REAL inv_std = RLX_REAL(1) / sqrt(variance + RLX_EPS);

  // Result.
  if (!inside) return;
#if RLX_ITEMS > 0
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const RLX_INDEX i = first + RLX_INDEX(k) * step;
    if (i >= RLX_INDEX(RLX_COLS)) continue;
#if RLX_WIDTH == 4
    rlx_vec4 four;
    four.x = RLX_RESULT(held[4 * k] - missed, i);
    four.y = RLX_RESULT(held[4 * k + 1] - missed, i + 1);
    four.z = RLX_RESULT(held[4 * k + 2] - missed, i + 2);
    four.w = RLX_RESULT(held[4 * k + 3] - missed, i + 3);
    RLX_CAT(rlx_store4_, RLX_X)(p.y, y_row + i, four);
#else
    RLX_CAT(rlx_store_, RLX_X)(p.y, y_row + i, RLX_RESULT(held[k] - missed, i));
#endif
  }
#else
  for (RLX_INDEX i = first; i < RLX_INDEX(RLX_COLS); i += step) {
#if RLX_WIDTH == 4
    rlx_vec4 four = RLX_LOAD4(i);
    four.x = RLX_RESULT(four.x - mean - missed, i);
    four.y = RLX_RESULT(four.y - mean - missed, i + 1);
    four.z = RLX_RESULT(four.z - mean - missed, i + 2);
    four.w = RLX_RESULT(four.w - mean - missed, i + 3);
    RLX_CAT(rlx_store4_, RLX_X)(p.y, y_row + i, four);
#else
    RLX_CAT(rlx_store_, RLX_X)(p.y, y_row + i, RLX_RESULT(RLX_LOAD(i) - mean - missed, i));
#endif
  }
#endif
  if (rlx_lane != 0u) return;
#if RLX_HAS_MEAN
  rlx_store_f32(p.mean, row, rlx_f32(mean + missed));
#endif
#if RLX_HAS_INV_STD
  rlx_store_f32(p.inv_std, row, rlx_f32(inv_std));
#endif
}
