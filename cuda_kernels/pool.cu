// SPDX-License-Identifier: Apache-2.0
// y[n, c, o] = combine over the window's taps inside the input of x[n, c, o * stride + t * dilation - begin]: max, min, sum, mean or
//   prod; optionally the flat spatial index of the first maximum.
// Layout: x has any strides; y and indices are dense: [N, C, D, H, W], or [N, D, H, W, C] where RLX_CHANNELS_LAST is 1; or y has the
//   strides RLX_Y_N, RLX_Y_C and RLX_Y_PIXEL between images, channels and pixels. Spatial dims that the op lacks have size 1.
// Grid: RLX_LANES threads share a window (1 for small ones); RLX_ROWS windows per workgroup; spread by split_grid. Channels last, a
//   thread takes the windows of RLX_VECTOR (1, or without indices 4 or 8) neighbouring channels, which it loads and stores at once:
//   x's channels are dense, addresses are multiples of a vector. 8: of 16-bit floats.
// Specializations: RLX_PLANES (N * C), RLX_CHANNELS; window as in conv_window.h and RLX_END_D, RLX_END_H, RLX_END_W; RLX_KIND (MAX, MIN,
//   SUM, MEAN, PROD as 0..4); RLX_DIVISOR: 0 counts taps inside the input, RLX_COUNT_PADS 1 also those on pads; RLX_WITH_INDICES;
//   RLX_IDENTITY; storage types RLX_X (also of y), RLX_INDICES; strides RLX_X_N, RLX_X_C, RLX_X_D, RLX_X_H, RLX_X_W; RLX_INDEX;
//   RLX_LINEAR: type of window numbers; RLX_MAY_BE_NAN 1: the values may be NaN.
// Numerics: f32, f16 and bf16 combine in f32; NaN wins for max and min; one rounding at the store.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/math.cuh"

// The address of element i of an array whose elements have `bytes` bytes.
#ifndef RLX_AT
#define RLX_AT(base, i, bytes) ((base) + rlx_ptr(rlx_i64(i) * rlx_i64(bytes)))
#endif

RLX_PARAMS(PoolParams);

#define RLX_POOL_MAX 0
#define RLX_POOL_MIN 1
#define RLX_POOL_SUM 2
#define RLX_POOL_MEAN 3
#define RLX_POOL_PROD 4
#define RLX_TAPS (RLX_KERNEL_D * RLX_KERNEL_H * RLX_KERNEL_W)
#define RLX_PIECES (RLX_CHANNELS / RLX_VECTOR)  // of the channels

#define rlx_value_t RLX_CAT(rlx_t_, RLX_X)

// Small windows of vectors: all taps are loaded, those outside from the nearest element, so that no load waits for a test.
#if RLX_VECTOR > 1 && RLX_TAPS <= 9
#define RLX_LOADS_ALL 1
#else
#define RLX_LOADS_ALL 0
#endif

#if RLX_MAY_BE_NAN
#define rlx_wins_always(v) rlx_is_nan(v)
#else
#define rlx_wins_always(v) false
#endif

// What a thread knows of a window: the combined value, where the extreme stands, and how many taps the mean divides by.
struct Part {
  rlx_value_t value;
  int index;
  int counted;
};

#if RLX_KIND == RLX_POOL_MAX || RLX_KIND == RLX_POOL_MIN
#if RLX_KIND == RLX_POOL_MAX
#define rlx_beats(b, a) ((b) > (a))
#else
#define rlx_beats(b, a) ((b) < (a))
#endif
#if RLX_WITH_INDICES
// True where b replaces a; equal values keep the one that stands first.
RLX_FN bool replaces(rlx_value_t a, int a_index, rlx_value_t b, int b_index) {
  if (a_index < 0) return b_index >= 0;
  if (b_index < 0) return false;
  const bool a_nan = rlx_wins_always(a);
  const bool b_nan = rlx_wins_always(b);
  if (a_nan || b_nan) return b_nan && (!a_nan || b_index < a_index);
  return rlx_beats(b, a) || (b == a && b_index < a_index);
}
#else
RLX_FN bool replaces(rlx_value_t a, int a_index, rlx_value_t b, int b_index) {
  return rlx_beats(b, a) || rlx_wins_always(b);
}
#endif
#endif

RLX_FN Part combine(Part a, Part b) {
#if RLX_KIND == RLX_POOL_MAX || RLX_KIND == RLX_POOL_MIN
  if (replaces(a.value, a.index, b.value, b.index)) {
    a.value = b.value;
    a.index = b.index;
  }
#elif RLX_KIND == RLX_POOL_PROD
  a.value *= b.value;
#else
  a.value += b.value;
  a.counted += b.counted;
#endif
  return a;
}

#if RLX_LANES > 1
RLX_SHARED rlx_value_t part_values[RLX_LANES];
RLX_SHARED int part_indices[RLX_LANES];
RLX_SHARED int part_counts[RLX_LANES];

// Combines the parts of all threads in a fixed order; thread 0 gets the result.
RLX_FN Part combine_lanes(Part part, rlx_u32 lane) {
  for (rlx_u32 distance = rlx_u32(RLX_LANES) / 2u; distance > 0u; distance /= 2u) {
    part_values[lane] = part.value;
    part_indices[lane] = part.index;
    part_counts[lane] = part.counted;
    rlx_barrier();
    if (lane < distance) {
      Part other;
      other.value = part_values[lane + distance];
      other.index = part_indices[lane + distance];
      other.counted = part_counts[lane + distance];
      part = combine(part, other);
    }
    rlx_barrier();
  }
  return part;
}
#endif

RLX_MAIN {
  const rlx_u64 window = rlx_linear_group * rlx_u64(RLX_ROWS) + rlx_u64(rlx_local_index / rlx_u32(RLX_LANES));
  const rlx_u32 lane = rlx_local_index % rlx_u32(RLX_LANES);
  if (window >= rlx_u64(RLX_PLANES / RLX_VECTOR) * rlx_u64(RLX_OUT_D) * rlx_u64(RLX_OUT_H) * rlx_u64(RLX_OUT_W)) return;
  const RLX_LINEAR linear = RLX_LINEAR(window);
#if RLX_CHANNELS_LAST
  const RLX_LINEAR pixel = linear / RLX_LINEAR(RLX_PIECES);
  const RLX_LINEAR channel = linear % RLX_LINEAR(RLX_PIECES) * RLX_LINEAR(RLX_VECTOR);
  const RLX_LINEAR image = pixel / RLX_LINEAR(RLX_OUT_W * RLX_OUT_H * RLX_OUT_D);
#else
  const RLX_LINEAR pixel = linear;
  const RLX_LINEAR plane = linear / RLX_LINEAR(RLX_OUT_W * RLX_OUT_H * RLX_OUT_D);
  const RLX_LINEAR channel = plane % RLX_LINEAR(RLX_CHANNELS);
  const RLX_LINEAR image = plane / RLX_LINEAR(RLX_CHANNELS);
#endif
  const int out_w = int(pixel % RLX_LINEAR(RLX_OUT_W));
  const int out_h = int(pixel / RLX_LINEAR(RLX_OUT_W) % RLX_LINEAR(RLX_OUT_H));
  const int out_d = int(pixel / RLX_LINEAR(RLX_OUT_W * RLX_OUT_H) % RLX_LINEAR(RLX_OUT_D));
  const rlx_ptr x = RLX_AT(p.x, rlx_i64(image) * rlx_i64(RLX_X_N) + rlx_i64(channel) * rlx_i64(RLX_X_C), RLX_CAT(rlx_bytes_, RLX_X));

  Part parts[RLX_VECTOR];
  RLX_UNROLL for (int i = 0; i < RLX_VECTOR; ++i) {
    parts[i].value = RLX_IDENTITY;
    parts[i].index = -1;
    parts[i].counted = 0;
  }
#if RLX_LOADS_ALL
  RLX_UNROLL
#endif
  for (int tap = int(lane); tap < RLX_TAPS; tap += RLX_LANES) {
    const int w = out_w * RLX_STRIDE_W - RLX_BEGIN_W + tap % RLX_KERNEL_W * RLX_DILATION_W;
    const int h = out_h * RLX_STRIDE_H - RLX_BEGIN_H + tap / RLX_KERNEL_W % RLX_KERNEL_H * RLX_DILATION_H;
    const int d = out_d * RLX_STRIDE_D - RLX_BEGIN_D + tap / (RLX_KERNEL_W * RLX_KERNEL_H) * RLX_DILATION_D;
    const bool inside = rlx_u32(d) < rlx_u32(RLX_IN_D) && rlx_u32(h) < rlx_u32(RLX_IN_H) && rlx_u32(w) < rlx_u32(RLX_IN_W);
#if RLX_COUNT_PADS
    // Taps beyond the end pads, which rounding up adds, never count.
    const bool counts = d < RLX_IN_D + RLX_END_D && h < RLX_IN_H + RLX_END_H && w < RLX_IN_W + RLX_END_W;
#else
    const bool counts = inside;
#endif
    RLX_UNROLL for (int i = 0; i < RLX_VECTOR; ++i) {
      if (counts) ++parts[i].counted;
    }
    if (inside || bool(RLX_LOADS_ALL)) {
      rlx_value_t values[RLX_VECTOR];
#if RLX_LOADS_ALL
      const RLX_INDEX at_d = RLX_INDEX(min(max(d, 0), RLX_IN_D - 1));
      const RLX_INDEX at_h = RLX_INDEX(min(max(h, 0), RLX_IN_H - 1));
      const RLX_INDEX at_w = RLX_INDEX(min(max(w, 0), RLX_IN_W - 1));
      const RLX_INDEX at = at_d * RLX_X_D + at_h * RLX_X_H + at_w * RLX_X_W;
#else
      const RLX_INDEX at = RLX_INDEX(d) * RLX_X_D + RLX_INDEX(h) * RLX_X_H + RLX_INDEX(w) * RLX_X_W;
#endif
#if RLX_VECTOR == 8
      RLX_CAT(rlx_load8_, RLX_X)(x, at, values);
#elif RLX_VECTOR == 4
      const rlx_vec4 four = RLX_CAT(rlx_load4_, RLX_X)(x, at);
      values[0] = four.x;
      values[1] = four.y;
      values[2] = four.z;
      values[3] = four.w;
#else
      values[0] = RLX_CAT(rlx_load_, RLX_X)(x, at);
#endif
      RLX_UNROLL for (int i = 0; i < RLX_VECTOR; ++i) {
        Part one;
        one.value = inside ? values[i] : RLX_IDENTITY;
        one.index = (d * RLX_IN_H + h) * RLX_IN_W + w;
        one.counted = 0;
        parts[i] = combine(parts[i], one);
      }
    }
  }
#if RLX_LANES > 1
  parts[0] = combine_lanes(parts[0], lane);
  if (lane > 0u) return;
#endif
#if RLX_KIND == RLX_POOL_MEAN
  RLX_UNROLL for (int i = 0; i < RLX_VECTOR; ++i) {
#if RLX_DIVISOR
    parts[i].value /= rlx_value_t(RLX_DIVISOR);
#else
    parts[i].value /= rlx_value_t(max(parts[i].counted, 1));
#endif
  }
#endif
#ifdef RLX_Y_N
  const rlx_i64 at = rlx_i64(image) * rlx_i64(RLX_Y_N) + rlx_i64(channel) * rlx_i64(RLX_Y_C) +
                     rlx_i64(pixel % RLX_LINEAR(RLX_OUT_W * RLX_OUT_H * RLX_OUT_D)) * rlx_i64(RLX_Y_PIXEL);
#else
  const rlx_i64 at = rlx_i64(linear) * rlx_i64(RLX_VECTOR);
#endif
#if RLX_VECTOR == 8
  rlx_value_t results[RLX_VECTOR];
  RLX_UNROLL for (int i = 0; i < RLX_VECTOR; ++i) results[i] = parts[i].value;
  RLX_CAT(rlx_store8_, RLX_X)(p.y, at, results);
#elif RLX_VECTOR == 4
  RLX_CAT(rlx_store4_, RLX_X)(p.y, at, rlx_vec4{parts[0].value, parts[1].value, parts[2].value, parts[3].value});
#else
  RLX_CAT(rlx_store_, RLX_X)(p.y, at, parts[0].value);
#endif
#if RLX_WITH_INDICES
  RLX_CAT(rlx_store_, RLX_INDICES)(p.indices, rlx_i64(linear), RLX_CAT(rlx_t_, RLX_INDICES)(max(parts[0].index, 0)));
#endif
}
