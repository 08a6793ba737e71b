// SPDX-License-Identifier: Apache-2.0
// Activations for results that are rounded to 16 bits: as lib/math.glsl's, to a relative 2^-18 instead of the last place, in a
// fraction of the instructions and without branches, so that neighbours are computed side by side.
// Include behind lib/math.glsl and before the generated epilogue, which then calls these.
#ifndef RLX_LIB_SHORT_MATH_GLSL
#define RLX_LIB_SHORT_MATH_GLSL

// x / (1 + exp(-x)); below -100 it is 0 in 16 bits.
RLX_FN float rlx_short_silu(float x) {
  const float value = x < -100.0f ? -100.0f : x;
  return value / (1.0f + exp2(value * -1.44269504f));
}
// x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
RLX_FN float rlx_short_gelu_tanh(float x) {
  const float value = x < -15.0f ? -15.0f : x;
  const float size = value > 15.0f ? 15.0f : value;
  const float u = size * (1.0f + 0.044715f * (size * size));
  return value / (1.0f + exp2(u * -2.30220819f));
}
// x times the integral of the normal density up to x; the tail as rlx_normal_tail has it. Below -15 it is 0 in 16 bits.
RLX_FN float rlx_short_gelu(float x) {
  const float value = x < -15.0f ? -15.0f : x;
  const float size = value > 15.0f ? 15.0f : abs(value);
  const float t = 1.0f / (1.0f + 0.3f * size);
  const float q = 0.119687751f + t * (0.119550116f + t * (0.1104232f + t * (0.07748577f + t * (0.0988308415f +
                  t * (-0.084481284f + t * (0.197921649f + t * (-0.232835487f + t * (0.114402115f - t * 0.0209846701f))))))));
  const float tail = t * q * exp2(size * size * -0.721347520f);
  return value * (value < 0.0f ? tail : 1.0f - tail);
}

#define rlx_gelu(x) rlx_short_gelu(x)
#define rlx_gelu_tanh(x) rlx_short_gelu_tanh(x)
#define rlx_silu(x) rlx_short_silu(x)

#endif
