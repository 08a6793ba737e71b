// SPDX-License-Identifier: Apache-2.0
// Elements of 8-bit floats: rlx_load_f8e4m3(base, i) and rlx_load4_f8e4m3(base, i), f8e5m2 likewise, give element i, or i..i+3 at an
// address that is a multiple of 4, widened to f32. rlx_<dtype>_wrapping_from_f32(value): the nearest code where values beyond the range
// become NaN (f8e4m3) or infinity (f8e5m2), as cast has it under overflow "wrap"; lib/float8 has the saturating conversion.
// The twin of shaders/lib/float8_elements.glsl.
#ifndef RLX_LIB_FLOAT8_ELEMENTS_CUH
#define RLX_LIB_FLOAT8_ELEMENTS_CUH

#include "lib/float8.cuh"

#define rlx_t_f8e4m3 float
#define rlx_t_f8e5m2 float
#define rlx_bytes_f8e4m3 1
#define rlx_bytes_f8e5m2 1

// Halfway to the code behind the largest finite one goes down for f8e4m3, whose code is even, and up for f8e5m2.
RLX_FN rlx_u32 rlx_f8e4m3_wrapping_from_f32(float value) {
  const rlx_u32 code = rlx_f8e4m3_from_f32(value);
  return rlx_magnitude_bits(value) > 0x43E80000u ? code | 0x7Fu : code;  // above 464
}
RLX_FN rlx_u32 rlx_f8e5m2_wrapping_from_f32(float value) {
  const rlx_u32 code = rlx_f8e5m2_from_f32(value);
  const rlx_u32 magnitude = rlx_magnitude_bits(value);
  const bool beyond = magnitude >= 0x47700000u && magnitude <= 0x7F800000u;  // 61440 up to infinity
  return beyond ? (code & 0x80u) | 0x7Cu : code;
}

RLX_FN float rlx_load_f8e4m3(rlx_ptr base, rlx_i64 i) { return rlx_f32_from_f8e4m3(rlx_u32(rlx_load_u8(base, i))); }
RLX_FN float rlx_load_f8e5m2(rlx_ptr base, rlx_i64 i) { return rlx_f32_from_f8e5m2(rlx_u32(rlx_load_u8(base, i))); }

#define RLX_LOAD4_FLOAT8(name, from_code)         \
  RLX_FN rlx_vec4 name(rlx_ptr base, rlx_i64 i) { \
    const rlx_u32 word = rlx_raw4(base, i);       \
    rlx_vec4 four;                                \
    four.x = from_code(word & 0xFFu);             \
    four.y = from_code((word >> 8) & 0xFFu);      \
    four.z = from_code((word >> 16) & 0xFFu);     \
    four.w = from_code(word >> 24);               \
    return four;                                  \
  }
RLX_LOAD4_FLOAT8(rlx_load4_f8e4m3, rlx_f32_from_f8e4m3)
RLX_LOAD4_FLOAT8(rlx_load4_f8e5m2, rlx_f32_from_f8e5m2)

#endif
