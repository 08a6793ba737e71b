// SPDX-License-Identifier: Apache-2.0
// y = the windows of x as a matrix: the element of channel c and tap t at place o is x[n, c, o * stride + t * dilation - begin], zero
// bits outside x. Elements are copied bit by bit.
// Layout: x has any strides; y is dense, [N * places, C * taps] (RLX_AS_ROWS 1) or [N, C * taps, places]. Spatial dims are D, H, W.
// Grid: a thread for RLX_WIDTH neighbouring elements of y, spread by split_grid.
// Specializations: RLX_IMAGES, RLX_CHANNELS; window as in conv_window.h; raw storage type RLX_X of RLX_X_BYTES; strides RLX_IMAGE_N, _C, _D,
//   _H, _W of x; RLX_LINEAR: type of element numbers; RLX_WIDTH: 16 bytes' worth, or 1.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"

RLX_PARAMS(CopyParams);

#define RLX_TAPS (RLX_KERNEL_D * RLX_KERNEL_H * RLX_KERNEL_W)
#define RLX_PLACES (RLX_OUT_D * RLX_OUT_H * RLX_OUT_W)
#define RLX_DEPTH (RLX_CHANNELS * RLX_TAPS)
#define rlx_value_t RLX_CAT(rlx_t_, RLX_X)

RLX_FN rlx_value_t element(rlx_ptr x, RLX_LINEAR i) {
#if RLX_AS_ROWS
  const rlx_u32 line = rlx_u32(i % RLX_LINEAR(RLX_DEPTH));
  const rlx_u32 place = rlx_u32(i / RLX_LINEAR(RLX_DEPTH) % RLX_LINEAR(RLX_PLACES));
#else
  const rlx_u32 place = rlx_u32(i % RLX_LINEAR(RLX_PLACES));
  const rlx_u32 line = rlx_u32(i / RLX_LINEAR(RLX_PLACES) % RLX_LINEAR(RLX_DEPTH));
#endif
  const RLX_LINEAR image = i / RLX_LINEAR(RLX_DEPTH) / RLX_LINEAR(RLX_PLACES);
  const rlx_u32 channel = line / rlx_u32(RLX_TAPS);
  const rlx_u32 tap = line % rlx_u32(RLX_TAPS);
  const int w = int(place % rlx_u32(RLX_OUT_W)) * RLX_STRIDE_W - RLX_BEGIN_W + int(tap % rlx_u32(RLX_KERNEL_W)) * RLX_DILATION_W;
  const int h = int(place / rlx_u32(RLX_OUT_W) % rlx_u32(RLX_OUT_H)) * RLX_STRIDE_H - RLX_BEGIN_H +
                int(tap / rlx_u32(RLX_KERNEL_W) % rlx_u32(RLX_KERNEL_H)) * RLX_DILATION_H;
  const int d = int(place / rlx_u32(RLX_OUT_W * RLX_OUT_H)) * RLX_STRIDE_D - RLX_BEGIN_D +
                int(tap / rlx_u32(RLX_KERNEL_W * RLX_KERNEL_H)) * RLX_DILATION_D;
  const bool inside = rlx_u32(d) < rlx_u32(RLX_IN_D) && rlx_u32(h) < rlx_u32(RLX_IN_H) && rlx_u32(w) < rlx_u32(RLX_IN_W);
  if (!inside) return rlx_value_t(0);
  const rlx_i64 at = rlx_i64(image) * rlx_i64(RLX_IMAGE_N) + rlx_i64(channel) * rlx_i64(RLX_IMAGE_C) + rlx_i64(d) * rlx_i64(RLX_IMAGE_D) +
                     rlx_i64(h) * rlx_i64(RLX_IMAGE_H) + rlx_i64(w) * rlx_i64(RLX_IMAGE_W);
  return RLX_CAT(rlx_load_, RLX_X)(x, at);
}

RLX_MAIN {
  const rlx_u64 first = (rlx_linear_group * rlx_u64(RLX_BLOCK_SIZE) + rlx_u64(rlx_local_index)) * rlx_u64(RLX_WIDTH);
  if (first >= rlx_u64(RLX_IMAGES) * rlx_u64(RLX_DEPTH) * rlx_u64(RLX_PLACES)) return;
  const RLX_LINEAR i = RLX_LINEAR(first);
#if RLX_WIDTH == 1
  RLX_CAT(rlx_store_, RLX_X)(p.y, rlx_i64(first), element(p.x, i));
#else
  rlx_value_t v[RLX_WIDTH];
  RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) v[j] = element(p.x, i + RLX_LINEAR(j));
#if RLX_X_BYTES == 4
  rlx_put16(p.y, rlx_i64(first) * rlx_i64(4), rlx_uvec4(v[0], v[1], v[2], v[3]));
#else
  rlx_put16(p.y, rlx_i64(first) * rlx_i64(2),
            rlx_uvec4(v[0] | (v[1] << 16), v[2] | (v[3] << 16), v[4] | (v[5] << 16), v[6] | (v[7] << 16)));
#endif
#endif
}
