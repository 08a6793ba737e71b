// SPDX-License-Identifier: Apache-2.0
// Reading and writing of storage types: rlx_load_<dtype>(base, i) gives element i of the dense array at address `base` in its
// compute type (rlx_t_<dtype>); rlx_store_<dtype>(base, i, value) converts and writes. i counts elements and may be negative.
//   rlx_load4_* / rlx_store4_*: elements i..i+3; their address must be a multiple of 4 elements' bytes (16 for f32, 8 for f16).
//   rlx_raw4/8/16 and rlx_put4/8/16: 4, 8 or 16 bytes at a byte offset, aligned to their size, as they stand.
// Numerics: f32 -> f16 and f32 -> bf16 round to nearest even, overflow to infinity, keep NaN a NaN and keep f16 subnormals.
// i8, u8, i16 wrap on store. Copies that must keep every bit read f16 and bf16 as u16, f32 as u32 and f64 as i64.
// The twin of shaders/lib/storage.glsl.
#ifndef RLX_LIB_STORAGE_CUH
#define RLX_LIB_STORAGE_CUH

// The Type at a byte offset from an address.
template <typename Type>
RLX_FN Type& rlx_at(rlx_ptr base, rlx_i64 byte_offset) {
  return *reinterpret_cast<Type*>(base + static_cast<rlx_ptr>(byte_offset));
}

// ---- 16-bit floats ----

RLX_FN float rlx_f32_from_bf16(rlx_u32 bits) { return __uint_as_float(bits << 16); }

RLX_FN float rlx_f32_from_f16(rlx_u32 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<unsigned short>(bits)));
  return value;
}

RLX_FN rlx_u32 rlx_bf16_from_f32(float value) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

RLX_FN rlx_u32 rlx_f16_from_f32(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

RLX_FN float rlx_round_f16(float value) { return rlx_f32_from_f16(rlx_f16_from_f32(value)); }
RLX_FN float rlx_round_bf16(float value) { return rlx_f32_from_bf16(rlx_bf16_from_f32(value)); }

// Two 16-bit floats in a word, the first in the low half.
RLX_FN rlx_vec2 rlx_unpack_f16x2(rlx_u32 word) {
  return rlx_vec2{rlx_f32_from_f16(word & 0xFFFFu), rlx_f32_from_f16(word >> 16)};
}
RLX_FN rlx_vec2 rlx_unpack_bf16x2(rlx_u32 word) {
  return rlx_vec2{__uint_as_float(word << 16), __uint_as_float(word & 0xFFFF0000u)};
}
RLX_FN rlx_u32 rlx_pack_f16x2(float low, float high) {
  rlx_u32 word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
RLX_FN rlx_u32 rlx_pack_bf16x2(float low, float high) {
  rlx_u32 word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

// ---- integers narrower than their compute type, wrapped as their storage would ----

RLX_FN int rlx_wrap_i8(int value) { return static_cast<signed char>(value); }
RLX_FN int rlx_wrap_i16(int value) { return static_cast<short>(value); }
RLX_FN int rlx_wrap_u8(int value) { return value & 0xFF; }
RLX_FN rlx_u32 rlx_wrap_u16(rlx_u32 value) { return value & 0xFFFFu; }

// ---- scalars ----

RLX_FN float rlx_load_f32(rlx_ptr base, rlx_i64 i) { return rlx_at<float>(base, i * 4); }
RLX_FN float rlx_load_f16(rlx_ptr base, rlx_i64 i) { return rlx_f32_from_f16(rlx_at<unsigned short>(base, i * 2)); }
RLX_FN float rlx_load_bf16(rlx_ptr base, rlx_i64 i) { return rlx_f32_from_bf16(rlx_at<unsigned short>(base, i * 2)); }
RLX_FN double rlx_load_f64(rlx_ptr base, rlx_i64 i) { return rlx_at<double>(base, i * 8); }
RLX_FN int rlx_load_i8(rlx_ptr base, rlx_i64 i) { return rlx_at<signed char>(base, i); }
RLX_FN int rlx_load_u8(rlx_ptr base, rlx_i64 i) { return rlx_at<unsigned char>(base, i); }
RLX_FN int rlx_load_i16(rlx_ptr base, rlx_i64 i) { return rlx_at<short>(base, i * 2); }
RLX_FN rlx_u32 rlx_load_u16(rlx_ptr base, rlx_i64 i) { return rlx_at<unsigned short>(base, i * 2); }
RLX_FN int rlx_load_i32(rlx_ptr base, rlx_i64 i) { return rlx_at<int>(base, i * 4); }
RLX_FN rlx_u32 rlx_load_u32(rlx_ptr base, rlx_i64 i) { return rlx_at<rlx_u32>(base, i * 4); }
RLX_FN rlx_i64 rlx_load_i64(rlx_ptr base, rlx_i64 i) { return rlx_at<rlx_i64>(base, i * 8); }
RLX_FN bool rlx_load_bool(rlx_ptr base, rlx_i64 i) { return rlx_at<unsigned char>(base, i) != 0; }

RLX_FN void rlx_store_f32(rlx_ptr base, rlx_i64 i, float value) { rlx_at<float>(base, i * 4) = value; }
RLX_FN void rlx_store_f16(rlx_ptr base, rlx_i64 i, float value) {
  rlx_at<unsigned short>(base, i * 2) = static_cast<unsigned short>(rlx_f16_from_f32(value));
}
RLX_FN void rlx_store_bf16(rlx_ptr base, rlx_i64 i, float value) {
  rlx_at<unsigned short>(base, i * 2) = static_cast<unsigned short>(rlx_bf16_from_f32(value));
}
RLX_FN void rlx_store_f64(rlx_ptr base, rlx_i64 i, double value) { rlx_at<double>(base, i * 8) = value; }
RLX_FN void rlx_store_i8(rlx_ptr base, rlx_i64 i, int value) { rlx_at<signed char>(base, i) = static_cast<signed char>(value); }
RLX_FN void rlx_store_u8(rlx_ptr base, rlx_i64 i, int value) {
  rlx_at<unsigned char>(base, i) = static_cast<unsigned char>(value);
}
RLX_FN void rlx_store_i16(rlx_ptr base, rlx_i64 i, int value) { rlx_at<short>(base, i * 2) = static_cast<short>(value); }
RLX_FN void rlx_store_u16(rlx_ptr base, rlx_i64 i, rlx_u32 value) {
  rlx_at<unsigned short>(base, i * 2) = static_cast<unsigned short>(value);
}
RLX_FN void rlx_store_i32(rlx_ptr base, rlx_i64 i, int value) { rlx_at<int>(base, i * 4) = value; }
RLX_FN void rlx_store_u32(rlx_ptr base, rlx_i64 i, rlx_u32 value) { rlx_at<rlx_u32>(base, i * 4) = value; }
RLX_FN void rlx_store_i64(rlx_ptr base, rlx_i64 i, rlx_i64 value) { rlx_at<rlx_i64>(base, i * 8) = value; }
RLX_FN void rlx_store_bool(rlx_ptr base, rlx_i64 i, bool value) { rlx_at<unsigned char>(base, i) = value ? 1 : 0; }

// ---- whole words at byte offsets ----

RLX_FN rlx_u32 rlx_raw4(rlx_ptr base, rlx_i64 byte_offset) { return rlx_at<rlx_u32>(base, byte_offset); }
RLX_FN rlx_uvec2 rlx_raw8(rlx_ptr base, rlx_i64 byte_offset) { return rlx_at<rlx_uvec2>(base, byte_offset); }
RLX_FN rlx_uvec4 rlx_raw16(rlx_ptr base, rlx_i64 byte_offset) { return rlx_at<rlx_uvec4>(base, byte_offset); }
RLX_FN void rlx_put4(rlx_ptr base, rlx_i64 byte_offset, rlx_u32 word) { rlx_at<rlx_u32>(base, byte_offset) = word; }
RLX_FN void rlx_put8(rlx_ptr base, rlx_i64 byte_offset, rlx_uvec2 words) { rlx_at<rlx_uvec2>(base, byte_offset) = words; }
RLX_FN void rlx_put16(rlx_ptr base, rlx_i64 byte_offset, rlx_uvec4 words) { rlx_at<rlx_uvec4>(base, byte_offset) = words; }

// ---- four floats ----

RLX_FN rlx_vec4 rlx_load4_f32(rlx_ptr base, rlx_i64 i) { return rlx_at<rlx_vec4>(base, i * 4); }
RLX_FN rlx_vec4 rlx_load4_f16(rlx_ptr base, rlx_i64 i) {
  const rlx_uvec2 words = rlx_at<rlx_uvec2>(base, i * 2);
  const rlx_vec2 low = rlx_unpack_f16x2(words.x);
  const rlx_vec2 high = rlx_unpack_f16x2(words.y);
  return rlx_vec4{low.x, low.y, high.x, high.y};
}
RLX_FN rlx_vec4 rlx_load4_bf16(rlx_ptr base, rlx_i64 i) {
  const rlx_uvec2 words = rlx_at<rlx_uvec2>(base, i * 2);
  const rlx_vec2 low = rlx_unpack_bf16x2(words.x);
  const rlx_vec2 high = rlx_unpack_bf16x2(words.y);
  return rlx_vec4{low.x, low.y, high.x, high.y};
}
RLX_FN void rlx_store4_f32(rlx_ptr base, rlx_i64 i, rlx_vec4 value) { rlx_at<rlx_vec4>(base, i * 4) = value; }
RLX_FN void rlx_store4_f16(rlx_ptr base, rlx_i64 i, rlx_vec4 value) {
  rlx_at<rlx_uvec2>(base, i * 2) = rlx_uvec2{rlx_pack_f16x2(value.x, value.y), rlx_pack_f16x2(value.z, value.w)};
}
RLX_FN void rlx_store4_bf16(rlx_ptr base, rlx_i64 i, rlx_vec4 value) {
  rlx_at<rlx_uvec2>(base, i * 2) = rlx_uvec2{rlx_pack_bf16x2(value.x, value.y), rlx_pack_bf16x2(value.z, value.w)};
}

// ---- eight floats: one 16-byte access of f16 or bf16, two of f32; the address is a multiple of 16 ----

RLX_FN void rlx_load8_f32(rlx_ptr base, rlx_i64 i, float (&v)[8]) {
  const rlx_vec4 low = rlx_load4_f32(base, i);
  const rlx_vec4 high = rlx_load4_f32(base, i + 4);
  v[0] = low.x;
  v[1] = low.y;
  v[2] = low.z;
  v[3] = low.w;
  v[4] = high.x;
  v[5] = high.y;
  v[6] = high.z;
  v[7] = high.w;
}
#define RLX_LOAD8(name, unpack)                                       \
  RLX_FN void name(rlx_ptr base, rlx_i64 i, float (&v)[8]) {          \
    const rlx_uvec4 words = rlx_raw16(base, i * 2);                   \
    const rlx_vec2 a = unpack(words.x);                               \
    const rlx_vec2 b = unpack(words.y);                               \
    const rlx_vec2 c = unpack(words.z);                               \
    const rlx_vec2 d = unpack(words.w);                               \
    v[0] = a.x;                                                       \
    v[1] = a.y;                                                       \
    v[2] = b.x;                                                       \
    v[3] = b.y;                                                       \
    v[4] = c.x;                                                       \
    v[5] = c.y;                                                       \
    v[6] = d.x;                                                       \
    v[7] = d.y;                                                       \
  }
RLX_LOAD8(rlx_load8_f16, rlx_unpack_f16x2)
RLX_LOAD8(rlx_load8_bf16, rlx_unpack_bf16x2)
RLX_FN void rlx_store8_f32(rlx_ptr base, rlx_i64 i, const float (&v)[8]) {
  rlx_store4_f32(base, i, rlx_vec4{v[0], v[1], v[2], v[3]});
  rlx_store4_f32(base, i + 4, rlx_vec4{v[4], v[5], v[6], v[7]});
}
RLX_FN void rlx_store8_f16(rlx_ptr base, rlx_i64 i, const float (&v)[8]) {
  rlx_put16(base, i * 2, rlx_uvec4{rlx_pack_f16x2(v[0], v[1]), rlx_pack_f16x2(v[2], v[3]), rlx_pack_f16x2(v[4], v[5]),
                                   rlx_pack_f16x2(v[6], v[7])});
}
RLX_FN void rlx_store8_bf16(rlx_ptr base, rlx_i64 i, const float (&v)[8]) {
  rlx_put16(base, i * 2, rlx_uvec4{rlx_pack_bf16x2(v[0], v[1]), rlx_pack_bf16x2(v[2], v[3]), rlx_pack_bf16x2(v[4], v[5]),
                                   rlx_pack_bf16x2(v[6], v[7])});
}

#endif
