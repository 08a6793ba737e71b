// SPDX-License-Identifier: Apache-2.0
// Reading and writing of storage types: rlx_load_<dtype>(base, i) gives element i of the dense array at address `base` in its
// compute type (rlx_t_<dtype>); rlx_store_<dtype>(base, i, value) converts and writes. i counts elements and may be negative.
//   rlx_load4_* / rlx_store4_*: elements i..i+3; their address must be a multiple of 4 elements' bytes (16 for f32, 8 for f16).
//   rlx_raw4/8/16 and rlx_put4/8/16: 4, 8 or 16 bytes at a byte offset, aligned to their size, as they stand.
// Numerics: f32 -> f16 and f32 -> bf16 round to nearest even, overflow to infinity, keep NaN a NaN and keep f16 subnormals. Drivers' own
// conversions may truncate: a value is rounded to a half's places by f32 additions before it is converted, bf16 by integer arithmetic;
// with RLX_NATIVE_HALVES by the device's conversion, for which the compiler declares the same (compiler/emit/vulkan_code.cpp).
// i8, u8, i16 wrap on store.
// Copies that must keep every bit read f16 and bf16 as u16, f32 as u32 and f64 as i64.
// The twin of cuda_kernels/lib/storage.cuh.
#ifndef RLX_LIB_STORAGE_GLSL
#define RLX_LIB_STORAGE_GLSL

layout(buffer_reference, scalar, buffer_reference_align = 1) buffer U8 { uint8_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer I8 { int8_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer U16 { uint16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer I16 { int16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer U32 { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer I32 { int v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer F32 { float v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer I64 { int64_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer F64 { double v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer U32x2 { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer U32x4 { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer F32x4 { vec4 v; };

// The address of element i of an array whose elements have `bytes` bytes.
#define RLX_AT(base, i, bytes) ((base) + rlx_ptr(rlx_i64(i) * rlx_i64(bytes)))

// ---- 16-bit floats ----

float rlx_f32_from_bf16(uint bits) { return uintBitsToFloat(bits << 16); }

float rlx_f32_from_f16(uint bits) { return unpackHalf2x16(bits).x; }

uint rlx_bf16_from_f32(float value) {
  const uint bits = floatBitsToUint(value);
  const uint rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const uint quiet_nan = (bits >> 16) | 0x40u;
  return (bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet_nan : rounded;
}

#if RLX_NATIVE_HALVES
uint rlx_f16_from_f32(float value) { return uint(float16BitsToUint16(float16_t(value))); }
#else
// The half nearest to a value, ties to even, as a float. `far`, 2^13 times the value, is a multiple of the half's unit, and what is left of
// it without the value is rounded to that unit (ties to even, as a tie makes `far` even); 3/4 has the unit 2^-24 of the subnormals. From
// 65520 on the factor leaves infinity, and of NaN a NaN.
float rlx_at_half(float value) {
  const float magnitude = abs(value);
  precise float far = max(magnitude * 8192.0, 0.75);
  precise float rest = far - magnitude;
  precise float rounded = far - rest;
  const float bounded = magnitude < 65520.0 ? rounded : magnitude * uintBitsToFloat(0x78000000u);  // 2^113
  return uintBitsToFloat(floatBitsToUint(bounded) | (floatBitsToUint(value) & 0x80000000u));
}
uint rlx_f16_from_f32(float value) { return packHalf2x16(vec2(rlx_at_half(value), 0.0)); }
#endif

float rlx_round_f16(float value) { return rlx_f32_from_f16(rlx_f16_from_f32(value)); }
float rlx_round_bf16(float value) { return rlx_f32_from_bf16(rlx_bf16_from_f32(value)); }

// Two 16-bit floats in a word, the first in the low half.
vec2 rlx_unpack_f16x2(uint word) { return unpackHalf2x16(word); }
vec2 rlx_unpack_bf16x2(uint word) { return uintBitsToFloat(uvec2(word << 16, word & 0xFFFF0000u)); }
#if RLX_NATIVE_HALVES
uint rlx_pack_f16x2(float low, float high) { return packFloat2x16(f16vec2(low, high)); }
#else
uint rlx_pack_f16x2(float low, float high) { return packHalf2x16(vec2(rlx_at_half(low), rlx_at_half(high))); }
#endif
uint rlx_pack_bf16x2(float low, float high) { return rlx_bf16_from_f32(low) | (rlx_bf16_from_f32(high) << 16); }

// ---- integers narrower than their compute type, wrapped as their storage would ----

int rlx_wrap_i8(int value) { return bitfieldExtract(value, 0, 8); }
int rlx_wrap_i16(int value) { return bitfieldExtract(value, 0, 16); }
int rlx_wrap_u8(int value) { return value & 0xFF; }
uint rlx_wrap_u16(uint value) { return value & 0xFFFFu; }

// ---- scalars ----

float rlx_load_f32(rlx_ptr base, int64_t i) { return F32(RLX_AT(base, i, 4)).v; }
float rlx_load_f16(rlx_ptr base, int64_t i) { return rlx_f32_from_f16(uint(U16(RLX_AT(base, i, 2)).v)); }
float rlx_load_bf16(rlx_ptr base, int64_t i) { return rlx_f32_from_bf16(uint(U16(RLX_AT(base, i, 2)).v)); }
double rlx_load_f64(rlx_ptr base, int64_t i) { return F64(RLX_AT(base, i, 8)).v; }
int rlx_load_i8(rlx_ptr base, int64_t i) { return int(I8(RLX_AT(base, i, 1)).v); }
int rlx_load_u8(rlx_ptr base, int64_t i) { return int(uint(U8(RLX_AT(base, i, 1)).v)); }
int rlx_load_i16(rlx_ptr base, int64_t i) { return int(I16(RLX_AT(base, i, 2)).v); }
uint rlx_load_u16(rlx_ptr base, int64_t i) { return uint(U16(RLX_AT(base, i, 2)).v); }
int rlx_load_i32(rlx_ptr base, int64_t i) { return I32(RLX_AT(base, i, 4)).v; }
uint rlx_load_u32(rlx_ptr base, int64_t i) { return U32(RLX_AT(base, i, 4)).v; }
int64_t rlx_load_i64(rlx_ptr base, int64_t i) { return I64(RLX_AT(base, i, 8)).v; }
bool rlx_load_bool(rlx_ptr base, int64_t i) { return uint(U8(RLX_AT(base, i, 1)).v) != 0u; }

void rlx_store_f32(rlx_ptr base, int64_t i, float value) { F32(RLX_AT(base, i, 4)).v = value; }
void rlx_store_f16(rlx_ptr base, int64_t i, float value) { U16(RLX_AT(base, i, 2)).v = uint16_t(rlx_f16_from_f32(value)); }
void rlx_store_bf16(rlx_ptr base, int64_t i, float value) { U16(RLX_AT(base, i, 2)).v = uint16_t(rlx_bf16_from_f32(value)); }
void rlx_store_f64(rlx_ptr base, int64_t i, double value) { F64(RLX_AT(base, i, 8)).v = value; }
void rlx_store_i8(rlx_ptr base, int64_t i, int value) { I8(RLX_AT(base, i, 1)).v = int8_t(value); }
void rlx_store_u8(rlx_ptr base, int64_t i, int value) { U8(RLX_AT(base, i, 1)).v = uint8_t(uint(value)); }
void rlx_store_i16(rlx_ptr base, int64_t i, int value) { I16(RLX_AT(base, i, 2)).v = int16_t(value); }
void rlx_store_u16(rlx_ptr base, int64_t i, uint value) { U16(RLX_AT(base, i, 2)).v = uint16_t(value); }
void rlx_store_i32(rlx_ptr base, int64_t i, int value) { I32(RLX_AT(base, i, 4)).v = value; }
void rlx_store_u32(rlx_ptr base, int64_t i, uint value) { U32(RLX_AT(base, i, 4)).v = value; }
void rlx_store_i64(rlx_ptr base, int64_t i, int64_t value) { I64(RLX_AT(base, i, 8)).v = value; }
void rlx_store_bool(rlx_ptr base, int64_t i, bool value) { U8(RLX_AT(base, i, 1)).v = uint8_t(value ? 1u : 0u); }

// ---- whole words at byte offsets ----

uint rlx_raw4(rlx_ptr base, int64_t byte_offset) { return U32(base + rlx_ptr(byte_offset)).v; }
uvec2 rlx_raw8(rlx_ptr base, int64_t byte_offset) { return U32x2(base + rlx_ptr(byte_offset)).v; }
uvec4 rlx_raw16(rlx_ptr base, int64_t byte_offset) { return U32x4(base + rlx_ptr(byte_offset)).v; }
void rlx_put4(rlx_ptr base, int64_t byte_offset, uint word) { U32(base + rlx_ptr(byte_offset)).v = word; }
void rlx_put8(rlx_ptr base, int64_t byte_offset, uvec2 words) { U32x2(base + rlx_ptr(byte_offset)).v = words; }
void rlx_put16(rlx_ptr base, int64_t byte_offset, uvec4 words) { U32x4(base + rlx_ptr(byte_offset)).v = words; }

// ---- four floats ----

vec4 rlx_load4_f32(rlx_ptr base, int64_t i) { return F32x4(RLX_AT(base, i, 4)).v; }
vec4 rlx_load4_f16(rlx_ptr base, int64_t i) {
  const uvec2 words = U32x2(RLX_AT(base, i, 2)).v;
  return vec4(rlx_unpack_f16x2(words.x), rlx_unpack_f16x2(words.y));
}
vec4 rlx_load4_bf16(rlx_ptr base, int64_t i) {
  const uvec2 words = U32x2(RLX_AT(base, i, 2)).v;
  return vec4(rlx_unpack_bf16x2(words.x), rlx_unpack_bf16x2(words.y));
}
void rlx_store4_f32(rlx_ptr base, int64_t i, vec4 value) { F32x4(RLX_AT(base, i, 4)).v = value; }
void rlx_store4_f16(rlx_ptr base, int64_t i, vec4 value) {
  U32x2(RLX_AT(base, i, 2)).v = uvec2(rlx_pack_f16x2(value.x, value.y), rlx_pack_f16x2(value.z, value.w));
}
void rlx_store4_bf16(rlx_ptr base, int64_t i, vec4 value) {
  U32x2(RLX_AT(base, i, 2)).v = uvec2(rlx_pack_bf16x2(value.x, value.y), rlx_pack_bf16x2(value.z, value.w));
}

// ---- operands that no thread of the dispatch writes ----
// As rlx_load4_* and rlx_raw16, without twins: drivers may read through caches that writes do not pass (NVIDIA 580 on an H200: an f16
// product of 4096^3 on cooperative matrices takes 8 % less).

layout(buffer_reference, scalar, buffer_reference_align = 8) restrict readonly buffer OperandU32x2 { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) restrict readonly buffer OperandU32x4 { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) restrict readonly buffer OperandF32x4 { vec4 v; };

uvec4 rlx_operand16(rlx_ptr base, int64_t byte_offset) { return OperandU32x4(base + rlx_ptr(byte_offset)).v; }
vec4 rlx_operand4_f32(rlx_ptr base, int64_t i) { return OperandF32x4(RLX_AT(base, i, 4)).v; }
vec4 rlx_operand4_f16(rlx_ptr base, int64_t i) {
  const uvec2 words = OperandU32x2(RLX_AT(base, i, 2)).v;
  return vec4(rlx_unpack_f16x2(words.x), rlx_unpack_f16x2(words.y));
}
vec4 rlx_operand4_bf16(rlx_ptr base, int64_t i) {
  const uvec2 words = OperandU32x2(RLX_AT(base, i, 2)).v;
  return vec4(rlx_unpack_bf16x2(words.x), rlx_unpack_bf16x2(words.y));
}

// ---- eight floats: one 16-byte access of f16 or bf16, two of f32; the address is a multiple of 16 ----

void rlx_load8_f32(rlx_ptr base, int64_t i, out float v[8]) {
  const vec4 low = rlx_load4_f32(base, i);
  const vec4 high = rlx_load4_f32(base, i + 4);
  v = float[8](low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
}
#define RLX_LOAD8(name, unpack)                                       \
  void name(rlx_ptr base, int64_t i, out float v[8]) {                \
    const uvec4 words = rlx_raw16(base, i * 2);                       \
    const vec2 a = unpack(words.x);                                   \
    const vec2 b = unpack(words.y);                                   \
    const vec2 c = unpack(words.z);                                   \
    const vec2 d = unpack(words.w);                                   \
    v = float[8](a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y);             \
  }
RLX_LOAD8(rlx_load8_f16, rlx_unpack_f16x2)
RLX_LOAD8(rlx_load8_bf16, rlx_unpack_bf16x2)
void rlx_store8_f32(rlx_ptr base, int64_t i, float v[8]) {
  rlx_store4_f32(base, i, vec4(v[0], v[1], v[2], v[3]));
  rlx_store4_f32(base, i + 4, vec4(v[4], v[5], v[6], v[7]));
}
void rlx_store8_f16(rlx_ptr base, int64_t i, float v[8]) {
  rlx_put16(base, i * 2, uvec4(rlx_pack_f16x2(v[0], v[1]), rlx_pack_f16x2(v[2], v[3]), rlx_pack_f16x2(v[4], v[5]),
                               rlx_pack_f16x2(v[6], v[7])));
}
void rlx_store8_bf16(rlx_ptr base, int64_t i, float v[8]) {
  rlx_put16(base, i * 2, uvec4(rlx_pack_bf16x2(v[0], v[1]), rlx_pack_bf16x2(v[2], v[3]), rlx_pack_bf16x2(v[4], v[5]),
                               rlx_pack_bf16x2(v[6], v[7])));
}

#endif
