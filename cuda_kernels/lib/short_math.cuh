// SPDX-License-Identifier: Apache-2.0
// Activations for results that are rounded to 16 bits: as lib/math.cuh's, to a relative 2^-16 or better instead of the last place, in a
// third of the instructions. CUDA only: epilogues that a multiprocessor's scalar units would otherwise be too slow for.
// Include behind lib/math.cuh and before the generated epilogue, which then calls these.
#ifndef RLX_LIB_SHORT_MATH_CUH
#define RLX_LIB_SHORT_MATH_CUH

RLX_FN float rlx_short_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
RLX_FN float rlx_short_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// The larger one, NaN where one is.
RLX_FN float rlx_max_or_nan(float x, float y) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(x), "f"(y));
  return larger;
}

// As rlx_gelu, to a relative 2^-16; by ftz forms, which need no care for small numbers. The normal distribution's tail from `size`
// on is t factor(t) exp(-size^2 / 2), the factor fitted by reweighted least squares.
RLX_FN float rlx_short_gelu(float x) {
  const float size = fminf(fabsf(x), 15.0f);
  const float t = rlx_short_reciprocal(1.0f + 0.3f * size);
  const float factor = 0.12004211f + t * (0.11408919f + t * (0.14280339f + t * (-0.01433812f + t * (0.21373482f - t * 0.07632656f))));
  const float tail = t * factor * rlx_short_exp2(size * (size * -0.72134752f));
  return rlx_max_or_nan(x, 0.0f) - size * tail;
}
// x / (1 + exp(-x)); below -100 it is 0 in 16 bits.
RLX_FN float rlx_short_silu(float x) {
  const float value = rlx_max_or_nan(x, -100.0f);
  return value * rlx_short_reciprocal(1.0f + rlx_short_exp2(value * -1.44269504f));
}
// x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
RLX_FN float rlx_short_gelu_tanh(float x) {
  const float value = rlx_max_or_nan(x, -15.0f);
  const float size = fminf(value, 15.0f);
  const float u = size * (1.0f + 0.044715f * (size * size));
  return value * rlx_short_reciprocal(1.0f + rlx_short_exp2(u * -2.30220819f));
}

#define rlx_gelu(x) rlx_short_gelu(x)
#define rlx_gelu_tanh(x) rlx_short_gelu_tanh(x)
#define rlx_silu(x) rlx_short_silu(x)

#endif
