// SPDX-License-Identifier: Apache-2.0
// lib/scalar.inc, math.inc and math64.inc of shaders/, with what Vulkan has of its own, compiled as
// C++ on the host with the few words of GLSL that they use.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace rlx::glsl {

struct uvec2 {
  uvec2(uint32_t first, uint32_t second) : x(first), y(second) {}
  uint32_t x;
  uint32_t y;
};
struct ivec2 {
  ivec2(int first, int second) : x(first), y(second) {}
  int x;
  int y;
};
inline int64_t packInt2x32(ivec2 words) {
  return static_cast<int64_t>(uint64_t{static_cast<uint32_t>(words.y)} << 32 |
                              static_cast<uint32_t>(words.x));
}
inline double packDouble2x32(uvec2 words) {
  return std::bit_cast<double>(uint64_t{words.x} | uint64_t{words.y} << 32);
}
inline uvec2 unpackDouble2x32(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
}
using std::ceil;
using std::exp2;
using std::floor;
using std::max;
using std::min;
using std::sqrt;
using std::trunc;
inline float inversesqrt(float x) {
  return 1.0f / std::sqrt(x);
}
inline float roundEven(float x) {
  return std::nearbyint(x);
}
inline double roundEven(double x) {
  return std::nearbyint(x);
}
inline int findMSB(uint32_t x) {
  return 31 - std::countl_zero(x);
}

// A driver's division, which may be off by some units of the last place.
inline int quotient_error_units = 0;
inline float driver_quotient(float a, float b) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(a / b) +
                              static_cast<uint32_t>(quotient_error_units));
}

#define RLX_NATIVE_QUOTIENT(a, b) driver_quotient(a, b)
#define RLX_FN [[maybe_unused]] static inline
#define RLX_BIG_FN RLX_FN
#define precise
#define RLX_INOUT(type) type&
#define rlx_u32 uint32_t
#define rlx_i64 int64_t
#define rlx_u64 uint64_t
#define rlx_bits(x) std::bit_cast<uint32_t>(x)
#define rlx_from_bits(x) std::bit_cast<float>(x)
#include "lib/math.inc"
#include "lib/math64.inc"
#undef RLX_NATIVE_QUOTIENT
#undef RLX_FN
#undef RLX_BIG_FN
#undef precise
#undef RLX_INOUT
#undef rlx_u32
#undef rlx_i64
#undef rlx_u64
#undef rlx_bits
#undef rlx_from_bits

}  // namespace rlx::glsl
