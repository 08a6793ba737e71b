// SPDX-License-Identifier: Apache-2.0
// 8-bit floats as codes in the low byte of a word (ops.md 0.10). E4M3 has no infinities, 0x7F and 0xFF are NaN; E5M2 is the upper half
// of f16.
//   rlx_f32_from_<dtype>(code); rlx_<dtype>_from_f32(value): to nearest even; what rounds beyond the largest finite value becomes it.
// The twin of cuda_kernels/lib/float8.cuh.
#ifndef RLX_LIB_FLOAT8_GLSL
#define RLX_LIB_FLOAT8_GLSL

#include "lib/scalar.glsl"

RLX_FN float rlx_f32_from_f8e4m3(rlx_u32 code) {
  const rlx_u32 magnitude = code & 0x7Fu;
  const rlx_u32 normal = (magnitude << 20) + (120u << 23);
  const float small = rlx_f32(magnitude) * rlx_from_bits(0x3B000000u);  // 2^-9
  rlx_u32 bits = magnitude < 8u ? rlx_bits(small) : normal;
  bits = magnitude == 0x7Fu ? 0x7FC00000u : bits;
  return rlx_from_bits(bits | ((code & 0x80u) << 24));
}
RLX_FN float rlx_f32_from_f8e5m2(rlx_u32 code) {
  const rlx_u32 magnitude = code & 0x7Fu;
  const rlx_u32 normal = (magnitude << 21) + (112u << 23);
  const float small = rlx_f32(magnitude) * rlx_from_bits(0x37800000u);  // 2^-16
  rlx_u32 bits = magnitude < 4u ? rlx_bits(small) : normal;
  bits = magnitude >= 0x7Cu ? (magnitude == 0x7Cu ? 0x7F800000u : 0x7FC00000u) : bits;
  return rlx_from_bits(bits | ((code & 0x80u) << 24));
}

// Below the least normal number the sum with a power of two rounds where it should.
RLX_FN rlx_u32 rlx_f8e4m3_from_f32(float value) {
  const rlx_u32 bits = rlx_bits(value);
  const rlx_u32 magnitude = bits & 0x7FFFFFFFu;
  const rlx_u32 normal = (magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u) - (120u << 23)) >> 20;
  // At 2^14 the unit of f32 is 2^-9, that of the subnormals.
  const rlx_u32 small = rlx_bits(rlx_add_rn(rlx_from_bits(magnitude), 16384.0f)) - 0x46800000u;
  rlx_u32 code = magnitude < 0x3C800000u ? small : normal;  // 2^-6
  code = magnitude >= 0x43E00000u ? 0x7Eu : code;           // 448 and above
  code = magnitude > 0x7F800000u ? 0x7Fu : code;
  return code | ((bits >> 24) & 0x80u);
}
RLX_FN rlx_u32 rlx_f8e5m2_from_f32(float value) {
  const rlx_u32 bits = rlx_bits(value);
  const rlx_u32 magnitude = bits & 0x7FFFFFFFu;
  const rlx_u32 normal = (magnitude + 0xFFFFFu + ((magnitude >> 21) & 1u) - (112u << 23)) >> 21;
  // At 2^7 the unit of f32 is 2^-16, that of the subnormals.
  const rlx_u32 small = rlx_bits(rlx_add_rn(rlx_from_bits(magnitude), 128.0f)) - 0x43000000u;
  rlx_u32 code = magnitude < 0x38800000u ? small : normal;  // 2^-14
  code = magnitude >= 0x47600000u ? 0x7Bu : code;           // 57344 and above
  code = magnitude > 0x7F800000u ? 0x7Fu : code;
  return code | ((bits >> 24) & 0x80u);
}

#endif
