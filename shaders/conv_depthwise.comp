// SPDX-License-Identifier: Apache-2.0
// conv with one input channel per group: y[n, co, o] = act(sum over taps t of x[n, co / RLX_MULTIPLIER, o * stride + t * dilation -
//   begin] * w[co, t] + bias[co]) + residual[n, co, o], for one or two spatial dims H, W.
// Layout: w [Co, 1, H, W] and y [N, Co, H, W] dense, residual like y; x has any strides.
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

RLX_SHARED rlx_acc_t staged_x[RLX_PATCH_H * RLX_PATCH_W];
RLX_SHARED rlx_acc_t staged_w[RLX_TAPS];

#define RLX_TAP(tap_h, tap_w) \
  staged_x[corner + (tap_h) * uint(RLX_DILATION_H * RLX_PATCH_W) + (tap_w) * uint(RLX_DILATION_W)]

// Sum over the taps of the output whose window begins at `corner` of the patch. A small kernel's weights stay in registers.
#if RLX_TAPS <= 32
#define RLX_WEIGHTS rlx_acc_t weights[RLX_TAPS]
RLX_FN rlx_acc_t sum_window(uint corner, RLX_WEIGHTS) {
  rlx_acc_t sum = rlx_acc_t(0);
  RLX_UNROLL for (uint tap_h = 0u; tap_h < uint(RLX_KERNEL_H); ++tap_h) {
    RLX_UNROLL for (uint tap_w = 0u; tap_w < uint(RLX_KERNEL_W); ++tap_w) {
      sum += RLX_TAP(tap_h, tap_w) * weights[tap_h * uint(RLX_KERNEL_W) + tap_w];
    }
  }
  return sum;
}
#else
RLX_FN rlx_acc_t sum_window(uint corner) {
  rlx_acc_t sum = rlx_acc_t(0);
  for (uint tap_h = 0u; tap_h < uint(RLX_KERNEL_H); ++tap_h) {
    for (uint tap_w = 0u; tap_w < uint(RLX_KERNEL_W); ++tap_w) {
      sum += RLX_TAP(tap_h, tap_w) * staged_w[tap_h * uint(RLX_KERNEL_W) + tap_w];
    }
  }
  return sum;
}
#endif

RLX_MAIN {
  const rlx_u64 group = rlx_linear_group;
  const uint tiles = uint(RLX_TILES_H * RLX_TILES_W);
  if (group >= rlx_u64(tiles) * rlx_u64(RLX_CHANNELS) * rlx_u64(RLX_IMAGES)) return;
  const uint tile = uint(group % rlx_u64(tiles));
  const uint channel = uint(group / rlx_u64(tiles) % rlx_u64(RLX_CHANNELS));
  const uint image = uint(group / (rlx_u64(tiles) * rlx_u64(RLX_CHANNELS)));
  const uint first_h = tile / uint(RLX_TILES_W) * uint(RLX_TILE_H);
  const uint first_w = tile % uint(RLX_TILES_W) * uint(RLX_TILE_W);

  // Stage.
  const rlx_ptr x = RLX_AT(p.x, rlx_i64(image) * rlx_i64(RLX_X_N) + rlx_i64(channel / uint(RLX_MULTIPLIER)) * rlx_i64(RLX_X_C),
                           RLX_CAT(rlx_bytes_, RLX_X));
  const rlx_ptr channel_w = RLX_AT(p.w, rlx_i64(channel) * rlx_i64(RLX_TAPS), RLX_CAT(rlx_bytes_, RLX_W));
  for (uint i = rlx_local_index; i < uint(RLX_TAPS); i += uint(RLX_BLOCK_SIZE)) {
    staged_w[i] = RLX_ELEMENT(RLX_W, channel_w, RLX_INDEX(i));
  }
  for (uint i = rlx_local_index; i < uint(RLX_PATCH_H * RLX_PATCH_W); i += uint(RLX_BLOCK_SIZE)) {
    const int h = int(first_h) * RLX_STRIDE_H - RLX_BEGIN_H + int(i / uint(RLX_PATCH_W));
    const int w = int(first_w) * RLX_STRIDE_W - RLX_BEGIN_W + int(i % uint(RLX_PATCH_W));
    rlx_acc_t value = rlx_acc_t(0);
    if (uint(h) < uint(RLX_IN_H) && uint(w) < uint(RLX_IN_W)) {
      value = RLX_ELEMENT(RLX_X, x, RLX_INDEX(h) * RLX_X_H + RLX_INDEX(w) * RLX_X_W);
    }
    staged_x[i] = value;
  }
  rlx_barrier();

  // Sum and store.
  const rlx_i64 plane = (rlx_i64(image) * rlx_i64(RLX_CHANNELS) + rlx_i64(channel)) * rlx_i64(RLX_OUT_H) * rlx_i64(RLX_OUT_W);
  const rlx_ptr out_base = RLX_AT(p.y, plane, RLX_CAT(rlx_bytes_, RLX_Y));
#ifdef RLX_BIAS
  const rlx_ptr bias = p.bias;
#else
  const rlx_ptr bias = 0;
#endif
#ifdef RLX_RESIDUAL
  // The epilogue's m is the channel; its rows are planes of this image.
  const rlx_ptr residual = RLX_AT(p.residual, rlx_i64(image) * rlx_i64(RLX_CHANNELS) * rlx_i64(RLX_OUT_H) * rlx_i64(RLX_OUT_W),
                                  RLX_CAT(rlx_bytes_, RLX_RESIDUAL));
#else
  const rlx_ptr residual = 0;
#endif
#if RLX_TAPS <= 32
  RLX_WEIGHTS;
  RLX_UNROLL for (uint i = 0u; i < uint(RLX_TAPS); ++i) weights[i] = staged_w[i];
#endif
  for (uint i = rlx_local_index; i < uint(RLX_TILE_H * RLX_TILE_W); i += uint(RLX_BLOCK_SIZE)) {
    const uint h = i / uint(RLX_TILE_W);
    const uint w = i % uint(RLX_TILE_W);
    if (first_h + h < uint(RLX_OUT_H) && first_w + w < uint(RLX_OUT_W)) {
      const RLX_INDEX pixel = RLX_INDEX(first_h + h) * RLX_INDEX(RLX_OUT_W) + RLX_INDEX(first_w + w);
      const uint corner = h * uint(RLX_STRIDE_H * RLX_PATCH_W) + w * uint(RLX_STRIDE_W);
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
