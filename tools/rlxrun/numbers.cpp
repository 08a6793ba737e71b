// SPDX-License-Identifier: Apache-2.0
// Decoding and encoding of element types.
#include "tools/rlxrun/numbers.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/include/rlx.h"

namespace rlx::tool {
namespace {

template <typename T>
T load(std::span<const std::byte> data, uint64_t index) {
  T value;
  std::memcpy(&value, data.data() + index * sizeof(T), sizeof value);
  return value;
}

// A float of 1 sign bit, `exponent_bits` and `mantissa_bits`. Without infinities (f8e4m3) only the
// largest pattern is NaN.
double decode_float(uint32_t bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const uint32_t exponent_mask = (1u << exponent_bits) - 1;
  const uint32_t mantissa_mask = (1u << mantissa_bits) - 1;
  const uint32_t exponent = bits >> mantissa_bits & exponent_mask;
  const uint32_t mantissa = bits & mantissa_mask;
  const double sign = (bits >> (exponent_bits + mantissa_bits) & 1) != 0 ? -1 : 1;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent == exponent_mask && has_infinity) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == exponent_mask && mantissa == mantissa_mask)
    return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1u << mantissa_bits),
                           static_cast<int>(exponent) - bias - mantissa_bits);
}

Number of_float(double value) {
  return {.real = value};
}

Number of_integer(int64_t value) {
  return {.real = static_cast<double>(value), .integer = value};
}

}  // namespace

NumberClass class_of(uint32_t dtype) {
  switch (dtype) {
    case RLX_F32:
    case RLX_F16:
    case RLX_BF16:
    case RLX_F64:
    case RLX_F8E4M3:
    case RLX_F8E5M2:
      return NumberClass::Float;
    case RLX_I8:
    case RLX_U8:
    case RLX_I16:
    case RLX_I32:
    case RLX_U32:
    case RLX_I64:
      return NumberClass::Integer;
    case RLX_BOOL:
      return NumberClass::Bool;
    case RLX_C64:
      return NumberClass::Complex;
    default:
      return NumberClass::None;
  }
}

uint32_t dtype_of(npy::Element element) {
  switch (element) {
    case npy::Element::F32:
      return RLX_F32;
    case npy::Element::F16:
      return RLX_F16;
    case npy::Element::F64:
      return RLX_F64;
    case npy::Element::I8:
      return RLX_I8;
    case npy::Element::U8:
      return RLX_U8;
    case npy::Element::I16:
      return RLX_I16;
    case npy::Element::U16:
      return RLX_BF16;
    case npy::Element::I32:
      return RLX_I32;
    case npy::Element::U32:
      return RLX_U32;
    case npy::Element::I64:
      return RLX_I64;
    case npy::Element::Bool:
      return RLX_BOOL;
    case npy::Element::C64:
      return RLX_C64;
    case npy::Element::Raw8:
      return RLX_F8E4M3;
    case npy::Element::Raw16:
      return RLX_BF16;
  }
  return RLX_F32;
}

Number number_at(std::span<const std::byte> data, uint32_t dtype, uint64_t index) {
  switch (dtype) {
    case RLX_F32:
      return of_float(load<float>(data, index));
    case RLX_F64:
      return of_float(load<double>(data, index));
    case RLX_F16:
      return of_float(decode_float(load<uint16_t>(data, index), 5, 10, true));
    case RLX_BF16:
      return of_float(decode_float(load<uint16_t>(data, index), 8, 7, true));
    case RLX_F8E4M3:
      return of_float(decode_float(load<uint8_t>(data, index), 4, 3, false));
    case RLX_F8E5M2:
      return of_float(decode_float(load<uint8_t>(data, index), 5, 2, true));
    case RLX_I8:
      return of_integer(load<int8_t>(data, index));
    case RLX_U8:
      return of_integer(load<uint8_t>(data, index));
    case RLX_BOOL:
      return of_integer(load<uint8_t>(data, index) != 0 ? 1 : 0);
    case RLX_I16:
      return of_integer(load<int16_t>(data, index));
    case RLX_I32:
      return of_integer(load<int32_t>(data, index));
    case RLX_U32:
      return of_integer(load<uint32_t>(data, index));
    case RLX_I64:
      return of_integer(load<int64_t>(data, index));
    case RLX_C64:
      return {.real = load<float>(data, 2 * index), .imaginary = load<float>(data, 2 * index + 1)};
    default:
      return {};
  }
}

uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t to_f16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude >= 65520) return static_cast<uint16_t>(sign | 0x7c00);
  // Below 2^-14 numbers are multiples of 2^-24; above, 11 significant bits remain. nearbyint rounds
  // ties to even.
  const int exponent = magnitude < 0x1p-14 ? -14 : std::ilogb(magnitude);
  const double steps = std::nearbyint(std::ldexp(magnitude, 10 - exponent));
  const auto mantissa = static_cast<uint32_t>(
      steps);  // with the leading one; 2048 carries into the exponent by itself
  const uint32_t bits =
      mantissa < 1024 ? mantissa : (static_cast<uint32_t>(exponent + 14) << 10) + mantissa;
  return static_cast<uint16_t>(sign | bits);
}

}  // namespace rlx::tool
