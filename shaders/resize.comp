// SPDX-License-Identifier: Apache-2.0
// Resampling by tables: y[.., o0, .., o1, .., o2] = combine over the taps of each resampled axis of x[.., tap0, .., tap1, .., tap2],
// weighted by the product of their weights (SUM), or MAX, MIN, PROD, COPY of what stands there. A tap of -1 is absent.
// Layout: x has any strides, y is dense. taps (i32) and weights (RLX_WEIGHT): one table after the other, each [out][taps]. The output is
//   taken as RLX_ROW_LENGTH columns, its last dim, by rows, the others.
// Grid: a thread makes RLX_WIDTH neighbouring columns of RLX_THREAD_ROWS neighbouring rows; spread by split_grid.
// Specializations: storage types RLX_X, RLX_Y (raw ones for COPY, RLX_COPIES 1), RLX_Y_BYTES; RLX_COMBINE, RLX_SUMS (1: SUM),
//   RLX_IDENTITY (no taps); RLX_OUTER_AXES 0..2: resampled axes other than the last dim; RLX_LAST_RESAMPLED 1: it is one; RLX_HELD 1:
//   the columns' taps stay in registers; RLX_PIECES = RLX_ROW_LENGTH / RLX_WIDTH; RLX_COUNT threads.
// generated/tables.inc: RLX_INDEX; RLX_X_ROW(row): offset in x without the resampled axes; for outer axis k RLX_PLACE_k(row): its
//   coordinate, RLX_TAPS_k, RLX_TABLE_k (first entry of its table), RLX_STEP_k (stride in x); RLX_TAPS_LAST, RLX_TABLE_LAST,
//   RLX_STEP_LAST.
// Numerics: f16, bf16 and f32 in f32, f64 in f64; NaN wins for MAX and MIN; one rounding at the store.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "lib/math.glsl"
#include "generated/tables.inc"

RLX_PARAMS(ResizeParams);

#define rlx_value_t RLX_CAT(rlx_t_, RLX_X)
#define rlx_weight_t RLX_CAT(rlx_t_, RLX_WEIGHT)
#define RLX_TAP(entry) rlx_load_i32(p.taps, rlx_i64(entry))
#if RLX_SUMS
#define RLX_WEIGHT_OF(entry) RLX_CAT(rlx_load_, RLX_WEIGHT)(p.weights, rlx_i64(entry))
#else
#define RLX_WEIGHT_OF(entry) rlx_weight_t(1)
#endif

// The running value, `none` before its first tap.
#define RLX_TAKE_SUM(total, none, weight, value) total += (weight) * (value)
#define RLX_TAKE_PROD(total, none, weight, value) total *= (value)
#define RLX_TAKE_MAX(total, none, weight, value) total = none ? (value) : rlx_max(total, value)
#define RLX_TAKE_MIN(total, none, weight, value) total = none ? (value) : rlx_min(total, value)
#define RLX_TAKE_COPY(total, none, weight, value) total = (value)
#define RLX_TAKE RLX_CAT(RLX_TAKE_, RLX_COMBINE)

// Stores the columns from element `at` of y.
RLX_FN void store_columns(rlx_ptr y, RLX_INDEX at, rlx_value_t values[RLX_WIDTH]) {
#if RLX_WIDTH == 1
  RLX_CAT(rlx_store_, RLX_Y)(y, at, RLX_CAT(rlx_t_, RLX_Y)(values[0]));
#elif RLX_COPIES && RLX_Y_BYTES == 4
  rlx_put16(y, rlx_i64(at) * rlx_i64(4), rlx_uvec4(values[0], values[1], values[2], values[3]));
#elif RLX_COPIES
  rlx_put16(y, rlx_i64(at) * rlx_i64(2), rlx_uvec4(values[0] | (values[1] << 16), values[2] | (values[3] << 16),
                                         values[4] | (values[5] << 16), values[6] | (values[7] << 16)));
#elif RLX_WIDTH == 4
  RLX_CAT(rlx_store4_, RLX_Y)(y, at, rlx_vec4(values[0], values[1], values[2], values[3]));
#else
  RLX_CAT(rlx_store8_, RLX_Y)(y, at, values);
#endif
}

RLX_MAIN {
  const rlx_u64 linear = rlx_linear_group * rlx_u64(RLX_BLOCK_SIZE) + rlx_u64(rlx_local_index);
  if (linear >= rlx_u64(RLX_COUNT)) return;
  const RLX_INDEX item = RLX_INDEX(linear);
  const RLX_INDEX column = item % RLX_INDEX(RLX_PIECES) * RLX_INDEX(RLX_WIDTH);
  const RLX_INDEX first_row = item / RLX_INDEX(RLX_PIECES) * RLX_INDEX(RLX_THREAD_ROWS);
#if RLX_HELD
  int column_taps[RLX_WIDTH][RLX_TAPS_LAST];
  rlx_weight_t column_weights[RLX_WIDTH][RLX_TAPS_LAST];
  RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) {
    RLX_UNROLL for (int t = 0; t < RLX_TAPS_LAST; ++t) {
      const RLX_INDEX entry = RLX_INDEX(RLX_TABLE_LAST) + (column + RLX_INDEX(j)) * RLX_INDEX(RLX_TAPS_LAST) + RLX_INDEX(t);
      column_taps[j][t] = RLX_TAP(entry);
      column_weights[j][t] = RLX_WEIGHT_OF(entry);
    }
  }
#endif

  for (int r = 0; r < RLX_THREAD_ROWS; ++r) {
    const RLX_INDEX row = first_row + RLX_INDEX(r);
    const RLX_INDEX x_row = RLX_X_ROW(row);
    rlx_value_t totals[RLX_WIDTH];
    bool none[RLX_WIDTH];
    RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) {
      totals[j] = RLX_IDENTITY;
      none[j] = true;
    }
    for (int a = 0; a < RLX_TAPS_0; ++a) {
#if RLX_OUTER_AXES > 0
      const RLX_INDEX entry_0 = RLX_INDEX(RLX_TABLE_0) + RLX_PLACE_0(row) * RLX_INDEX(RLX_TAPS_0) + RLX_INDEX(a);
      const int tap_0 = RLX_TAP(entry_0);
      const rlx_weight_t weight_0 = RLX_WEIGHT_OF(entry_0);
      if (tap_0 < 0) continue;
#else
      const int tap_0 = 0;
      const rlx_weight_t weight_0 = rlx_weight_t(1);
#endif
      for (int b = 0; b < RLX_TAPS_1; ++b) {
#if RLX_OUTER_AXES > 1
        const RLX_INDEX entry_1 = RLX_INDEX(RLX_TABLE_1) + RLX_PLACE_1(row) * RLX_INDEX(RLX_TAPS_1) + RLX_INDEX(b);
        const int tap_1 = RLX_TAP(entry_1);
        const rlx_weight_t weight_1 = weight_0 * RLX_WEIGHT_OF(entry_1);
        if (tap_1 < 0) continue;
#else
        const int tap_1 = 0;
        const rlx_weight_t weight_1 = weight_0;
#endif
        const RLX_INDEX x_line = x_row + RLX_INDEX(tap_0) * RLX_INDEX(RLX_STEP_0) + RLX_INDEX(tap_1) * RLX_INDEX(RLX_STEP_1);
        RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) {
#if RLX_LAST_RESAMPLED
#if RLX_HELD
          RLX_UNROLL for (int t = 0; t < RLX_TAPS_LAST; ++t) {
            const int tap = column_taps[j][t];
            const rlx_weight_t weight = weight_1 * column_weights[j][t];
#else
          for (int t = 0; t < RLX_TAPS_LAST; ++t) {
            const RLX_INDEX entry = RLX_INDEX(RLX_TABLE_LAST) + (column + RLX_INDEX(j)) * RLX_INDEX(RLX_TAPS_LAST) + RLX_INDEX(t);
            const int tap = RLX_TAP(entry);
            const rlx_weight_t weight = weight_1 * RLX_WEIGHT_OF(entry);
#endif
            if (tap >= 0) {
              const rlx_value_t value = RLX_CAT(rlx_load_, RLX_X)(p.x, x_line + RLX_INDEX(tap) * RLX_INDEX(RLX_STEP_LAST));
              RLX_TAKE(totals[j], none[j], weight, value);
              none[j] = false;
            }
          }
#else
          const rlx_value_t value = RLX_CAT(rlx_load_, RLX_X)(p.x, x_line + (column + RLX_INDEX(j)) * RLX_INDEX(RLX_STEP_LAST));
          RLX_TAKE(totals[j], none[j], weight_1, value);
          none[j] = false;
#endif
        }
      }
    }
    store_columns(p.y, row * RLX_INDEX(RLX_ROW_LENGTH) + column, totals);
  }
}
