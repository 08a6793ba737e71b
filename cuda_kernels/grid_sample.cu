// SPDX-License-Identifier: Apache-2.0
// y[n, c, o] = x[n, c] interpolated at the position that grid[n, o] = (gx, gy) names: -1 and 1 are the outer edges of the first and last
// pixel, or their centres (RLX_ALIGN 1). Beyond the edges x is zeros, its border or mirrored (RLX_PADDING 0, 1, 2).
// Layout: x and grid have any strides; y [N, C, Ho, Wo] dense.
// Grid: a thread per output pixel and RLX_TOGETHER channels, neighbours along the pixels; spread by split_grid.
// Specializations: storage types RLX_X (also of y), RLX_GRID; RLX_REAL, of positions, and RLX_ACC; RLX_TAPS per axis: 1 nearest (half to
//   even), 2 linear, 4 cubic (Keys, a = -0.75); RLX_CHANNELS in RLX_BLOCKS blocks; RLX_HEIGHT, RLX_WIDTH of x; RLX_OUT_W, RLX_PIXELS of y;
//   RLX_COUNT threads; strides RLX_X_N, _C, _H, _W and RLX_GRID_N, _H, _W, _XY; RLX_LINEAR: type of thread numbers.
// Numerics: a position is a pair of numbers, high + low, so its whole part is exact and its fraction is rounded once; sums in RLX_ACC; a
//   position that is no number, or an infinite one that is to be mirrored, gives NaN.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/math.cuh"

RLX_PARAMS(GatherParams);

#define RLX_BEYOND 1.0e9f  // positions further out are taken as infinite, or brought near first

// A position far beyond the edges, brought near by whole periods.
RLX_FN float brought_near(float position, float period) { return rlx_fmod(position, period); }
RLX_FN double brought_near(double position, double period) {
  return position - period * rlx_floor(position / period);
}

// Of one axis: the fraction of the position and the taps' coordinates in x, -1 where that is a zero.
struct Axis {
  RLX_ACC weights[RLX_TAPS];
  int taps[RLX_TAPS];
  bool valid;
};

// Where coordinate i of the endless plane lies in x.
RLX_FN int inside(int i, int size) {
#if RLX_PADDING == 0
  return i >= 0 && i < size ? i : -1;
#elif RLX_PADDING == 1
  return min(max(i, 0), size - 1);
#else
#if RLX_ALIGN
  const int period = max(2 * (size - 1), 1);
  const int m = (i < 0 ? -i : i) % period;
  return m > size - 1 ? period - m : m;
#else
  const int period = 2 * size;
  const int m = (i < 0 ? -1 - i : i) % period;  // of both, as % is not defined for negative numbers
  return m >= size ? period - 1 - m : m;
#endif
#endif
}

// Weights of the four pixels around a fraction t, as products: near 0 they keep their relative precision.
RLX_FN RLX_ACC outer_weight(RLX_ACC t, RLX_ACC s) { return RLX_ACC(-0.75f) * t * s * s; }
RLX_FN RLX_ACC inner_weight(RLX_ACC t, RLX_ACC s) {
  return s * (RLX_ACC(1) + t * (RLX_ACC(1) - RLX_ACC(1.25f) * t));
}

RLX_FN Axis axis_of(RLX_REAL g, int size) {
  // high + low = g * scale + middle.
#if RLX_ALIGN
  const RLX_REAL scale = RLX_REAL(size - 1) * RLX_REAL(0.5f);
  const RLX_REAL middle = scale;
#else
  const RLX_REAL scale = RLX_REAL(size) * RLX_REAL(0.5f);
  const RLX_REAL middle = RLX_REAL(size - 1) * RLX_REAL(0.5f);
#endif
  const RLX_REAL product = rlx_fma(g, scale, RLX_REAL(0));  // not to be contracted with the sum below
  const RLX_REAL product_rest = rlx_fma(g, scale, -product);
  RLX_PRECISE RLX_REAL high = product + middle;
  RLX_PRECISE RLX_REAL carried = high - product;
  RLX_PRECISE RLX_REAL low = (product - (high - carried)) + (middle - carried);
  low += product_rest;
  Axis axis;
  axis.valid = !rlx_is_nan(high);
  if (!(rlx_abs(high) < RLX_REAL(RLX_BEYOND))) {
#if RLX_PADDING == 2
    axis.valid = axis.valid && rlx_abs(high) < RLX_REAL(RLX_INF);
    high = axis.valid ? brought_near(high, RLX_REAL(max(2 * (size - RLX_ALIGN), 1))) : RLX_REAL(0);
#else
    high = axis.valid ? (high < RLX_REAL(0) ? RLX_REAL(-RLX_BEYOND) : RLX_REAL(RLX_BEYOND)) : RLX_REAL(0);
#endif
    low = RLX_REAL(0);
  }
  const RLX_REAL whole = rlx_floor(high);
  RLX_REAL fraction = (high - whole) + low;
  int first = int(whole);
  if (fraction < RLX_REAL(0)) {
    fraction += RLX_REAL(1);
    --first;
  } else if (fraction >= RLX_REAL(1)) {
    fraction -= RLX_REAL(1);
    ++first;
  }
#if RLX_TAPS == 1
  // Two halves take the even one of their pixels in x.
  const int before = inside(first, size);
  const int after = inside(first + 1, size);
#if RLX_PADDING == 0
  const bool tie_after = (first & 1) != 0;
#else
  const bool tie_after = (before & 1) != 0;
#endif
  const bool tie = fraction == RLX_REAL(0.5f);
  axis.taps[0] = (tie ? tie_after : fraction > RLX_REAL(0.5f)) ? after : before;
  axis.weights[0] = RLX_ACC(1);
#else
  RLX_UNROLL for (int t = 0; t < RLX_TAPS; ++t) {
    axis.taps[t] = inside(first + t - (RLX_TAPS / 2 - 1), size);
  }
  const RLX_ACC behind = RLX_ACC(fraction);
  const RLX_ACC before = RLX_ACC(RLX_REAL(1) - fraction);
#if RLX_TAPS == 2
  axis.weights[0] = before;
  axis.weights[1] = behind;
#else
  axis.weights[0] = outer_weight(behind, before);
  axis.weights[1] = inner_weight(behind, before);
  axis.weights[2] = inner_weight(before, behind);
  axis.weights[3] = outer_weight(before, behind);
#endif
#endif
  return axis;
}

RLX_MAIN {
  const rlx_u64 linear = rlx_linear_group * rlx_u64(RLX_BLOCK_SIZE) + rlx_u64(rlx_local_index);
  if (linear >= rlx_u64(RLX_COUNT)) return;
  const RLX_LINEAR item = RLX_LINEAR(linear);
  const rlx_i64 pixel = rlx_i64(item % RLX_LINEAR(RLX_PIXELS));
  const int block = int(item / RLX_LINEAR(RLX_PIXELS) % RLX_LINEAR(RLX_BLOCKS));
  const rlx_i64 image = rlx_i64(item / RLX_LINEAR(RLX_PIXELS) / RLX_LINEAR(RLX_BLOCKS));
  const rlx_i64 out_h = pixel / rlx_i64(RLX_OUT_W);
  const rlx_i64 out_w = pixel % rlx_i64(RLX_OUT_W);
  const rlx_i64 grid_at = image * rlx_i64(RLX_GRID_N) + out_h * rlx_i64(RLX_GRID_H) + out_w * rlx_i64(RLX_GRID_W);
  const Axis column = axis_of(RLX_REAL(RLX_CAT(rlx_load_, RLX_GRID)(p.index, grid_at)), RLX_WIDTH);
  const Axis row = axis_of(RLX_REAL(RLX_CAT(rlx_load_, RLX_GRID)(p.index, grid_at + rlx_i64(RLX_GRID_XY))), RLX_HEIGHT);
  for (int k = 0; k < RLX_TOGETHER; ++k) {
    const int channel = block * RLX_TOGETHER + k;
    if (channel >= RLX_CHANNELS) break;
    const rlx_i64 plane = image * rlx_i64(RLX_X_N) + rlx_i64(channel) * rlx_i64(RLX_X_C);
    RLX_ACC total = RLX_ACC(0);
    RLX_UNROLL for (int a = 0; a < RLX_TAPS; ++a) {
      RLX_UNROLL for (int b = 0; b < RLX_TAPS; ++b) {
        if (row.taps[a] >= 0 && column.taps[b] >= 0) {
          const rlx_i64 at = plane + rlx_i64(row.taps[a]) * rlx_i64(RLX_X_H) + rlx_i64(column.taps[b]) * rlx_i64(RLX_X_W);
          total += row.weights[a] * column.weights[b] * RLX_ACC(RLX_CAT(rlx_load_, RLX_X)(p.x, at));
        }
      }
    }
    if (!column.valid || !row.valid) total = RLX_ACC(RLX_NAN);
    RLX_CAT(rlx_store_, RLX_X)(p.y, (image * rlx_i64(RLX_CHANNELS) + rlx_i64(channel)) * rlx_i64(RLX_PIXELS) + pixel, total);
  }
}
