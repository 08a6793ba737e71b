// SPDX-License-Identifier: Apache-2.0
// y = x / (bias + alpha / size * sum of x_i^2)^beta, i over the RLX_BEFORE channels before x's and the RLX_AFTER behind it that exist.
// Layout: x and y [N, C, pixels] dense. Grid: a thread per element, neighbours along the pixels; spread by split_grid.
// Specializations: RLX_CHANNELS, RLX_PIXELS, RLX_COUNT (elements), RLX_BEFORE, RLX_AFTER; storage type RLX_X; RLX_LINEAR: type of element
//   numbers; RLX_DOUBLE 1: the power is a function of doubles; generated/power.inc: RLX_SCALED(sum) = bias + alpha / size * sum,
//   RLX_DIVIDED(x, base) = x / base^beta.
// Numerics: f32 (f64 for f64), one rounding at the store.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "lib/math.glsl"
#if RLX_DOUBLE
#include "lib/math64.glsl"
#endif
#include "generated/power.inc"

RLX_PARAMS(CopyParams);

#define rlx_value_t RLX_CAT(rlx_t_, RLX_X)

RLX_MAIN {
  const rlx_u64 linear = rlx_linear_group * rlx_u64(RLX_BLOCK_SIZE) + rlx_u64(rlx_local_index);
  if (linear >= rlx_u64(RLX_COUNT)) return;
  const int channel = int(RLX_LINEAR(linear) / RLX_LINEAR(RLX_PIXELS) % RLX_LINEAR(RLX_CHANNELS));
  const int first = max(channel - RLX_BEFORE, 0);
  const int last = min(channel + RLX_AFTER, RLX_CHANNELS - 1);
  rlx_value_t sum = rlx_value_t(0);
  for (int c = first; c <= last; ++c) {
    const rlx_value_t value = RLX_CAT(rlx_load_, RLX_X)(p.x, rlx_i64(linear) + rlx_i64(c - channel) * rlx_i64(RLX_PIXELS));
    sum += value * value;
  }
  const rlx_value_t value = RLX_CAT(rlx_load_, RLX_X)(p.x, rlx_i64(linear));
  const rlx_value_t base = RLX_SCALED(sum);
  RLX_CAT(rlx_store_, RLX_X)(p.y, rlx_i64(linear), RLX_DIVIDED(value, base));
}
