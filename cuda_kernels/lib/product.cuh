// SPDX-License-Identifier: Apache-2.0
// What all products share: the accumulator type and the epilogue y = act(value + bias) + residual, rounded once at the store.
// Specializations: RLX_ACC f32, f64 or i32; RLX_INDEX type of element offsets (int or int64_t); RLX_Y storage type of y.
//   RLX_BIAS, RLX_RESIDUAL: storage types, undefined where absent; RLX_BIAS_M, RLX_BIAS_N, RLX_RESIDUAL_M, RLX_RESIDUAL_N: strides;
//   RLX_BIAS_VECTOR, RLX_RESIDUAL_VECTOR 4: four neighbours along n are one aligned load.
//   RLX_RESIDUAL_FIRST 1: y = act(value + bias + residual) instead.
//   RLX_ACTIVATION 1: generated/epilogue.inc defines rlx_acc_t rlx_activate(rlx_acc_t); RLX_DOUBLE where it calls functions
//   of doubles.
// The twin of shaders/lib/product.glsl.
#ifndef RLX_LIB_PRODUCT_CUH
#define RLX_LIB_PRODUCT_CUH

#define rlx_acc_t RLX_CAT(rlx_t_, RLX_ACC)

// Four accumulators; a plain aggregate in memory, so that shared memory can hold it and moves are 16 bytes wide.
struct alignas(16) rlx_acc4_t {
  rlx_acc_t x;
  rlx_acc_t y;
  rlx_acc_t z;
  rlx_acc_t w;

  rlx_acc4_t() = default;
  RLX_FN rlx_acc4_t(rlx_acc_t x, rlx_acc_t y, rlx_acc_t z, rlx_acc_t w) : x(x), y(y), z(z), w(w) {}
  RLX_FN rlx_acc4_t(rlx_vec4 v) : x(rlx_acc_t(v.x)), y(rlx_acc_t(v.y)), z(rlx_acc_t(v.z)), w(rlx_acc_t(v.w)) {}
  RLX_FN operator rlx_vec4() const { return make_float4(float(x), float(y), float(z), float(w)); }
  RLX_FN rlx_acc_t& operator[](rlx_u32 i) { return i == 0u ? x : i == 1u ? y : i == 2u ? z : w; }
  RLX_FN rlx_acc_t operator[](rlx_u32 i) const { return i == 0u ? x : i == 1u ? y : i == 2u ? z : w; }
};
RLX_FN rlx_acc4_t rlx_acc4_splat(rlx_acc_t v) { return rlx_acc4_t(v, v, v, v); }
RLX_FN rlx_acc4_t operator*(rlx_acc4_t a, rlx_acc4_t b) { return rlx_acc4_t(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w); }
RLX_FN rlx_acc4_t& operator+=(rlx_acc4_t& a, rlx_acc4_t b) {
  a.x += b.x;
  a.y += b.y;
  a.z += b.z;
  a.w += b.w;
  return a;
}

// The address of element i of an array whose elements have `bytes` bytes.
#ifndef RLX_AT
#define RLX_AT(base, i, bytes) ((base) + rlx_ptr(rlx_i64(i) * rlx_i64(bytes)))
#endif

// Element i of an operand as the accumulator's type.
#define RLX_ELEMENT(dtype, base, i) rlx_acc_t(RLX_CAT(rlx_load_, dtype)(base, i))

#if RLX_ACTIVATION
#include "lib/math.cuh"
#ifdef RLX_DOUBLE
#include "lib/math64.cuh"
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
// The four elements of bias and residual that belong to (m, n) to (m, n + 3); zeros where there is none.
RLX_FN rlx_acc4_t rlx_bias4(rlx_ptr bias, RLX_INDEX m, RLX_INDEX n) {
#ifndef RLX_BIAS
  return rlx_acc4_splat(0);
#elif RLX_BIAS_VECTOR == 4
  return RLX_CAT(rlx_load4_, RLX_BIAS)(bias, m * RLX_BIAS_M + n);
#else
  rlx_acc4_t value;
  RLX_UNROLL for (int j = 0; j < 4; ++j) value[j] = RLX_ELEMENT(RLX_BIAS, bias, m * RLX_BIAS_M + (n + j) * RLX_BIAS_N);
  return value;
#endif
}
RLX_FN rlx_acc4_t rlx_residual4(rlx_ptr residual, RLX_INDEX m, RLX_INDEX n) {
#ifndef RLX_RESIDUAL
  return rlx_acc4_splat(0);
#elif RLX_RESIDUAL_VECTOR == 4
  return RLX_CAT(rlx_load4_, RLX_RESIDUAL)(residual, m * RLX_RESIDUAL_M + n);
#else
  rlx_acc4_t value;
  RLX_UNROLL for (int j = 0; j < 4; ++j) {
    value[j] = RLX_ELEMENT(RLX_RESIDUAL, residual, m * RLX_RESIDUAL_M + (n + j) * RLX_RESIDUAL_N);
  }
  return value;
#endif
}

// act(value + bias) + residual, or as RLX_RESIDUAL_FIRST says.
RLX_FN rlx_acc4_t rlx_apply4(rlx_acc4_t value, rlx_acc4_t bias, rlx_acc4_t residual) {
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
  return rlx_apply4(value, rlx_bias4(bias, m, n), rlx_residual4(residual, m, n));
}
#endif

#endif
