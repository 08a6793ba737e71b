// SPDX-License-Identifier: Apache-2.0
// What all products share: the accumulator type and the epilogue y = act(value + bias) + residual, rounded once at the store.
// Specializations: RLX_ACC f32, f64 or i32; RLX_INDEX type of element offsets (int or int64_t); RLX_Y storage type of y.
//   RLX_BIAS, RLX_RESIDUAL: storage types, undefined where absent; RLX_BIAS_M, RLX_BIAS_N, RLX_RESIDUAL_M, RLX_RESIDUAL_N: strides;
//   RLX_BIAS_VECTOR, RLX_RESIDUAL_VECTOR 4: four neighbours along n are one aligned load.
//   RLX_RESIDUAL_FIRST 1: y = act(value + bias + residual) instead.
//   RLX_ACTIVATION 1: generated/epilogue.inc defines rlx_acc_t rlx_activate(rlx_acc_t); RLX_DOUBLE where it calls functions
//   of doubles.
// The twin of cuda_kernels/lib/product.cuh.
#ifndef RLX_LIB_PRODUCT_GLSL
#define RLX_LIB_PRODUCT_GLSL

#define rlx_acc_t RLX_CAT(rlx_t_, RLX_ACC)
#define rlx_acc4_f32 vec4
#define rlx_acc4_f64 dvec4
#define rlx_acc4_i32 ivec4
#define rlx_acc4_t RLX_CAT(rlx_acc4_, RLX_ACC)
#define rlx_acc4_splat(v) rlx_acc4_t(v)

// Element i of an operand as the accumulator's type.
#define RLX_ELEMENT(dtype, base, i) rlx_acc_t(RLX_CAT(rlx_load_, dtype)(base, i))

#if RLX_ACTIVATION
#include "lib/math.glsl"
#ifdef RLX_DOUBLE
#include "lib/math64.glsl"
#endif
#include "generated/epilogue.inc"
#else
#define rlx_activate(value) (value)
#endif

#ifndef RLX_RESIDUAL_FIRST
#define RLX_RESIDUAL_FIRST 0
#endif

// Element (m, n) of y from its sum of products. `bias` and `residual` point at the elements of (0, 0).
RLX_FN rlx_acc_t rlx_finish(rlx_acc_t value, rlx_ptr bias, rlx_ptr residual, RLX_INDEX m, RLX_INDEX n) {
#ifdef RLX_BIAS
  value += RLX_ELEMENT(RLX_BIAS, bias, m * RLX_BIAS_M + n * RLX_BIAS_N);
#endif
#if !RLX_RESIDUAL_FIRST
  value = rlx_activate(value);
#endif
#ifdef RLX_RESIDUAL
  value += RLX_ELEMENT(RLX_RESIDUAL, residual, m * RLX_RESIDUAL_M + n * RLX_RESIDUAL_N);
#endif
#if RLX_RESIDUAL_FIRST
  value = rlx_activate(value);
#endif
  return value;
}

#if RLX_Y_VECTOR == 4
// What bias and residual add to elements (m, n) to (m, n + 3); nothing writes the bias.
RLX_FN rlx_acc4_t rlx_bias4(rlx_ptr bias, RLX_INDEX m, RLX_INDEX n) {
  rlx_acc4_t value = rlx_acc4_splat(0);
#ifdef RLX_BIAS
#if RLX_BIAS_VECTOR == 4
  value = rlx_acc4_t(RLX_CAT(rlx_operand4_, RLX_BIAS)(bias, m * RLX_BIAS_M + n));
#else
  RLX_UNROLL for (int j = 0; j < 4; ++j) {
    value[j] = RLX_ELEMENT(RLX_BIAS, bias, m * RLX_BIAS_M + (n + j) * RLX_BIAS_N);
  }
#endif
#endif
  return value;
}
RLX_FN rlx_acc4_t rlx_residual4(rlx_ptr residual, RLX_INDEX m, RLX_INDEX n) {
  rlx_acc4_t value = rlx_acc4_splat(0);
#ifdef RLX_RESIDUAL
#if RLX_RESIDUAL_VECTOR == 4
  value = rlx_acc4_t(RLX_CAT(rlx_load4_, RLX_RESIDUAL)(residual, m * RLX_RESIDUAL_M + n));
#else
  RLX_UNROLL for (int j = 0; j < 4; ++j) {
    value[j] = RLX_ELEMENT(RLX_RESIDUAL, residual, m * RLX_RESIDUAL_M + (n + j) * RLX_RESIDUAL_N);
  }
#endif
#endif
  return value;
}

// Four elements of y from their sums and what is added to them.
RLX_FN rlx_acc4_t rlx_finish4_with(rlx_acc4_t value, rlx_acc4_t bias, rlx_acc4_t residual) {
#ifdef RLX_BIAS
  value += bias;
#endif
#if !RLX_RESIDUAL_FIRST
  RLX_UNROLL for (int j = 0; j < 4; ++j) value[j] = rlx_activate(value[j]);
#endif
#ifdef RLX_RESIDUAL
  value += residual;
#endif
#if RLX_RESIDUAL_FIRST
  RLX_UNROLL for (int j = 0; j < 4; ++j) value[j] = rlx_activate(value[j]);
#endif
  return value;
}

// Elements (m, n) to (m, n + 3).
RLX_FN rlx_acc4_t rlx_finish4(rlx_acc4_t value, rlx_ptr bias, rlx_ptr residual, RLX_INDEX m, RLX_INDEX n) {
  return rlx_finish4_with(value, rlx_bias4(bias, m, n), rlx_residual4(residual, m, n));
}
#endif

#endif
