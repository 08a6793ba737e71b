// SPDX-License-Identifier: Apache-2.0
// conv with one input channel per group: y[n, co, o] = act(sum over taps t of x[n, co / RLX_MULTIPLIER, o * stride + t * dilation -
//   begin] * w[co, t] + bias[co]) + residual[n, co, o], for one or two spatial dims H, W.
// Layout: w [Co, 1, H, W] is dense; y and residual [N, Co, H, W] have dense pixels (lib/planes.glsl); x has any strides.
// Grid: a workgroup per output tile of RLX_TILE_H x RLX_TILE_W, per output channel and image, spread by split_grid. It stages the
//   patch of x that the tile reads and the channel's weights in shared memory; a thread sums several outputs.
// Specializations: RLX_IMAGES, RLX_CHANNELS (Co), RLX_MULTIPLIER (Co/C); tile; window as in conv_window.h; storage types RLX_X, RLX_W;
//   strides RLX_X_N, RLX_X_C, RLX_X_H, RLX_X_W; epilogue of lib/product.glsl (RLX_Y_VECTOR 1).
// Numerics: f32, f16 and bf16 accumulate in f32, f64 in f64; pads are zeros that are multiplied; one rounding at the store.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "lib/product.glsl"

RLX_PARAMS(ConvParams);

#define RLX_PATCH_H ((RLX_TILE_H - 1) * RLX_STRIDE_H + (RLX_KERNEL_H - 1) * RLX_DILATION_H + 1)
#define RLX_PATCH_W ((RLX_TILE_W - 1) * RLX_STRIDE_W + (RLX_KERNEL_W - 1) * RLX_DILATION_W + 1)
#define RLX_TAPS (RLX_KERNEL_H * RLX_KERNEL_W)
#define RLX_TILES_H ((RLX_OUT_H + RLX_TILE_H - 1) / RLX_TILE_H)
#define RLX_TILES_W ((RLX_OUT_W + RLX_TILE_W - 1) / RLX_TILE_W)
#define RLX_PIXELS (RLX_OUT_H * RLX_OUT_W)
#define RLX_PLANES RLX_CHANNELS
#include "lib/planes.glsl"

RLX_SHARED rlx_acc_t staged_x[RLX_PATCH_H * RLX_PATCH_W];
RLX_SHARED rlx_acc_t staged_w[RLX_TAPS];

#define RLX_TAP(tap_h, tap_w) \
  staged_x[corner + (tap_h) * rlx_u32(RLX_DILATION_H * RLX_PATCH_W) + (tap_w) * rlx_u32(RLX_DILATION_W)]

// Sum over the taps of the output whose window begins at `corner` of the patch. A small kernel's weights stay in registers.
#if RLX_TAPS <= 32
#define RLX_WEIGHTS rlx_acc_t weights[RLX_TAPS]
RLX_FN rlx_acc_t sum_window(rlx_u32 corner, RLX_WEIGHTS) {
  rlx_acc_t sum = rlx_acc_t(0);
  RLX_UNROLL for (rlx_u32 tap_h = 0u; tap_h < rlx_u32(RLX_KERNEL_H); ++tap_h) {
    RLX_UNROLL for (rlx_u32 tap_w = 0u; tap_w < rlx_u32(RLX_KERNEL_W); ++tap_w) {
      sum += RLX_TAP(tap_h, tap_w) * weights[tap_h * rlx_u32(RLX_KERNEL_W) + tap_w];
    }
  }
  return sum;
}
#else
RLX_FN rlx_acc_t sum_window(rlx_u32 corner) {
  rlx_acc_t sum = rlx_acc_t(0);
  for (rlx_u32 tap_h = 0u; tap_h < rlx_u32(RLX_KERNEL_H); ++tap_h) {
    for (rlx_u32 tap_w = 0u; tap_w < rlx_u32(RLX_KERNEL_W); ++tap_w) {
      sum += RLX_TAP(tap_h, tap_w) * staged_w[tap_h * rlx_u32(RLX_KERNEL_W) + tap_w];
    }
  }
  return sum;
}
#endif

RLX_MAIN {
  const rlx_u32 group = rlx_u32(rlx_linear_group);
  const rlx_u32 tiles = rlx_u32(RLX_TILES_H * RLX_TILES_W);
  if (group >= tiles * rlx_u32(RLX_CHANNELS) * rlx_u32(RLX_IMAGES)) return;
  const rlx_u32 tile = group % tiles;
  const rlx_u32 channel = group / tiles % rlx_u32(RLX_CHANNELS);
  const rlx_u32 image = group / (tiles * rlx_u32(RLX_CHANNELS));
  const rlx_u32 first_h = tile / rlx_u32(RLX_TILES_W) * rlx_u32(RLX_TILE_H);
  const rlx_u32 first_w = tile % rlx_u32(RLX_TILES_W) * rlx_u32(RLX_TILE_W);

  // Stage.
  const rlx_ptr x = RLX_AT(p.x, rlx_i64(image) * rlx_i64(RLX_X_N) + rlx_i64(channel / rlx_u32(RLX_MULTIPLIER)) * rlx_i64(RLX_X_C),
                           RLX_CAT(rlx_bytes_, RLX_X));
  const rlx_ptr channel_w = RLX_AT(p.w, rlx_i64(channel) * rlx_i64(RLX_TAPS), RLX_CAT(rlx_bytes_, RLX_W));
  for (rlx_u32 i = rlx_local_index; i < rlx_u32(RLX_TAPS); i += rlx_u32(RLX_BLOCK_SIZE)) {
    staged_w[i] = RLX_ELEMENT(RLX_W, channel_w, RLX_INDEX(i));
  }
  for (rlx_u32 i = rlx_local_index; i < rlx_u32(RLX_PATCH_H * RLX_PATCH_W); i += rlx_u32(RLX_BLOCK_SIZE)) {
    const int h = int(first_h) * RLX_STRIDE_H - RLX_BEGIN_H + int(i / rlx_u32(RLX_PATCH_W));
    const int w = int(first_w) * RLX_STRIDE_W - RLX_BEGIN_W + int(i % rlx_u32(RLX_PATCH_W));
    rlx_acc_t value = rlx_acc_t(0);
    if (rlx_u32(h) < rlx_u32(RLX_IN_H) && rlx_u32(w) < rlx_u32(RLX_IN_W)) {
      value = RLX_ELEMENT(RLX_X, x, RLX_INDEX(h) * RLX_X_H + RLX_INDEX(w) * RLX_X_W);
    }
    staged_x[i] = value;
  }
  rlx_barrier();

  // Sum and store.
  const rlx_ptr out_base = RLX_AT(p.y, rlx_y_plane(image, channel), RLX_CAT(rlx_bytes_, RLX_Y));
#ifdef RLX_BIAS
  const rlx_ptr bias = p.bias;
#else
  const rlx_ptr bias = 0;
#endif
#ifdef RLX_RESIDUAL
  // The epilogue's m is the channel; its rows are planes of this image.
  const rlx_ptr residual = RLX_AT(p.residual, rlx_residual_plane(image, 0), RLX_CAT(rlx_bytes_, RLX_RESIDUAL));
#else
  const rlx_ptr residual = 0;
#endif
#if RLX_TAPS <= 32
  RLX_WEIGHTS;
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_TAPS); ++i) weights[i] = staged_w[i];
#endif
  for (rlx_u32 i = rlx_local_index; i < rlx_u32(RLX_TILE_H * RLX_TILE_W); i += rlx_u32(RLX_BLOCK_SIZE)) {
    const rlx_u32 h = i / rlx_u32(RLX_TILE_W);
    const rlx_u32 w = i % rlx_u32(RLX_TILE_W);
    if (first_h + h < rlx_u32(RLX_OUT_H) && first_w + w < rlx_u32(RLX_OUT_W)) {
      const RLX_INDEX pixel = RLX_INDEX(first_h + h) * RLX_INDEX(RLX_OUT_W) + RLX_INDEX(first_w + w);
      const rlx_u32 corner = h * rlx_u32(RLX_STRIDE_H * RLX_PATCH_W) + w * rlx_u32(RLX_STRIDE_W);
#if RLX_TAPS <= 32
      const rlx_acc_t sum = sum_window(corner, weights);
#else
      const rlx_acc_t sum = sum_window(corner);
#endif
      const rlx_acc_t value = rlx_finish(sum, bias, residual, RLX_INDEX(channel), pixel);
      RLX_CAT(rlx_store_, RLX_Y)(out_base, pixel, value);
    }
  }
}
