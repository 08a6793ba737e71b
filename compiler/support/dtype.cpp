// SPDX-License-Identifier: Apache-2.0
// Element types: tables made from schema/dtype.def and 16-bit float conversion.
#include "compiler/support/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "compiler/support/check.h"

namespace rlx {
namespace {

struct DTypeRow {
  std::string_view name;
  uint32_t block_elements;
  uint32_t block_bytes;
  DTypeKind kind;
};

constexpr std::array kRows = {
#define RLX_DTYPE(name, elements, bytes, kind) DTypeRow{#name, elements, bytes, DTypeKind::kind},
#include "schema/dtype.def"
#undef RLX_DTYPE
};

const DTypeRow& row(DType dtype) {
  return kRows.at(static_cast<size_t>(dtype));
}

// Rounds a finite magnitude to a binary format with `mantissa_bits` stored bits and minimum normal
// exponent `min_exponent`; the result is exact in f64.
double round_to_binary(double value, int mantissa_bits, int min_exponent) {
  int exponent = 0;
  std::frexp(value, &exponent);
  const int ulp_exponent = std::max(exponent - 1, min_exponent) - mantissa_bits;
  return std::ldexp(std::nearbyint(std::ldexp(value, -ulp_exponent)), ulp_exponent);
}

}  // namespace

std::string_view name_of(DType dtype) {
  return dtype == DType::bool_ ? "bool" : row(dtype).name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_number(uint32_t number) {
  if (number >= kRows.size()) return std::nullopt;
  return static_cast<DType>(number);
}

DTypeKind kind_of(DType dtype) {
  return row(dtype).kind;
}
uint32_t block_elements(DType dtype) {
  return row(dtype).block_elements;
}
uint32_t block_bytes(DType dtype) {
  return row(dtype).block_bytes;
}

uint32_t element_bytes(DType dtype) {
  RLX_CHECK(block_elements(dtype) == 1,
            "element size of block type " + std::string(name_of(dtype)));
  return block_bytes(dtype);
}

IntegerRange integer_range(DType dtype) {
  if (dtype == DType::bool_) return {0, 1};
  RLX_CHECK(is_integer(dtype), "integer range of " + std::string(name_of(dtype)));
  const uint32_t bits = element_bytes(dtype) * 8;
  if (kind_of(dtype) == DTypeKind::Uint) return {0, (int64_t{1} << bits) - 1};
  const int64_t highest = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  return {-highest - 1, highest};
}

uint16_t f16_from_double(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  const double rounded = std::isinf(magnitude) ? magnitude : round_to_binary(magnitude, 10, -14);
  if (rounded > 65504) return sign | 0x7c00;
  if (rounded < 0x1p-14) return sign | static_cast<uint16_t>(rounded * 0x1p24);
  int exponent = 0;
  const double fraction = std::frexp(rounded, &exponent);
  const auto mantissa = static_cast<uint16_t>((fraction * 2 - 1) * 1024);
  return sign | static_cast<uint16_t>((exponent - 1 + 15) << 10) | mantissa;
}

uint16_t bf16_from_double(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7fc0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  const double rounded = std::isinf(magnitude) ? magnitude : round_to_binary(magnitude, 7, -126);
  if (rounded > 0x1.fep127) return sign | 0x7f80;
  // Exact in f32: at most 8 significant bits within f32's exponent range.
  return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(rounded)) >> 16);
}

double double_from_f16(uint16_t bits) {
  const double sign = (bits & 0x8000) ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  if (exponent == 31) {
    return mantissa ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

double double_from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::f64:
      return value;
    case DType::f32:
      return static_cast<float>(value);
    case DType::f16:
      return double_from_f16(f16_from_double(value));
    case DType::bf16:
      return double_from_bf16(bf16_from_double(value));
    default:
      RLX_CHECK(false, "rounding to " + std::string(name_of(dtype)));
  }
}

}  // namespace rlx
