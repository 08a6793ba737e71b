// SPDX-License-Identifier: Apache-2.0
// y[n, c, i] = sum over taps t and places o with o * stride + t * dilation - begin = i of the columns' element (n, c, t, o): the adjoint
// of im2col, each pixel gathered once.
// Layout: x: columns as im2col makes them, dense, [N * places, C * taps] (RLX_AS_ROWS 1) or [N, C * taps, places]; y [N, C, D, H, W] dense.
// Grid: a thread per pixel, spread by split_grid.
// Specializations: RLX_IMAGES, RLX_CHANNELS; window as in conv_window.h (RLX_IN_*: the image); storage type RLX_X of both;
//   RLX_LINEAR: type of pixel numbers.
// Numerics: f16, bf16 and f32 add in f32, f64 in f64, integers modulo their range; in the order of the taps; one rounding at the store.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"

RLX_PARAMS(CopyParams);

#define RLX_TAPS (RLX_KERNEL_D * RLX_KERNEL_H * RLX_KERNEL_W)
#define RLX_PLACES (RLX_OUT_D * RLX_OUT_H * RLX_OUT_W)
#define RLX_DEPTH (RLX_CHANNELS * RLX_TAPS)
#define RLX_PIXELS (RLX_IN_D * RLX_IN_H * RLX_IN_W)
#define rlx_value_t RLX_CAT(rlx_t_, RLX_X)

// The place along one dim whose tap reads this pixel, or -1.
RLX_FN int place_of(int pixel, int tap, int stride, int begin, int dilation, int places) {
  const int from = pixel + begin - tap * dilation;
  return from >= 0 && from % stride == 0 && from / stride < places ? from / stride : -1;
}

RLX_MAIN {
  const rlx_u64 linear = rlx_linear_group * rlx_u64(RLX_BLOCK_SIZE) + rlx_u64(rlx_local_index);
  if (linear >= rlx_u64(RLX_IMAGES) * rlx_u64(RLX_CHANNELS) * rlx_u64(RLX_PIXELS)) return;
  const RLX_LINEAR i = RLX_LINEAR(linear);
  const rlx_u32 pixel = rlx_u32(i % RLX_LINEAR(RLX_PIXELS));
  const rlx_u32 channel = rlx_u32(i / RLX_LINEAR(RLX_PIXELS) % RLX_LINEAR(RLX_CHANNELS));
  const rlx_i64 image = rlx_i64(i / RLX_LINEAR(RLX_PIXELS) / RLX_LINEAR(RLX_CHANNELS));
  const int w = int(pixel % rlx_u32(RLX_IN_W));
  const int h = int(pixel / rlx_u32(RLX_IN_W) % rlx_u32(RLX_IN_H));
  const int d = int(pixel / rlx_u32(RLX_IN_W * RLX_IN_H));
  rlx_value_t total = rlx_value_t(0);
  for (int tap_d = 0; tap_d < RLX_KERNEL_D; ++tap_d) {
    const int place_d = place_of(d, tap_d, RLX_STRIDE_D, RLX_BEGIN_D, RLX_DILATION_D, RLX_OUT_D);
    if (place_d < 0) continue;
    for (int tap_h = 0; tap_h < RLX_KERNEL_H; ++tap_h) {
      const int place_h = place_of(h, tap_h, RLX_STRIDE_H, RLX_BEGIN_H, RLX_DILATION_H, RLX_OUT_H);
      if (place_h < 0) continue;
      for (int tap_w = 0; tap_w < RLX_KERNEL_W; ++tap_w) {
        const int place_w = place_of(w, tap_w, RLX_STRIDE_W, RLX_BEGIN_W, RLX_DILATION_W, RLX_OUT_W);
        if (place_w < 0) continue;
        const rlx_i64 line = rlx_i64(channel) * rlx_i64(RLX_TAPS) +
                             rlx_i64((tap_d * RLX_KERNEL_H + tap_h) * RLX_KERNEL_W + tap_w);
        const rlx_i64 place = rlx_i64((place_d * RLX_OUT_H + place_h) * RLX_OUT_W + place_w);
#if RLX_AS_ROWS
        const rlx_i64 at = (image * rlx_i64(RLX_PLACES) + place) * rlx_i64(RLX_DEPTH) + line;
#else
        const rlx_i64 at = (image * rlx_i64(RLX_DEPTH) + line) * rlx_i64(RLX_PLACES) + place;
#endif
        total += RLX_CAT(rlx_load_, RLX_X)(p.x, at);
      }
    }
  }
  RLX_CAT(rlx_store_, RLX_X)(p.y, rlx_i64(linear), total);
}
