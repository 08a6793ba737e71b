// SPDX-License-Identifier: Apache-2.0
// Element types: names, sizes, kinds, and conversion of 16-bit floats.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rlx {

// Rows of schema/dtype.def; the underlying value is the number in files.
enum class DType : uint8_t {
#define RLX_DTYPE(name, block_elements, block_bytes, kind) name,
#include "schema/dtype.def"
#undef RLX_DTYPE
};

enum class DTypeKind : uint8_t { Float, Int, Uint, Bool, Complex, Storage };

// Name as written in files ("f32", "bool").
std::string_view name_of(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
std::optional<DType> dtype_from_number(uint32_t number);
DTypeKind kind_of(DType dtype);
uint32_t block_elements(DType dtype);
uint32_t block_bytes(DType dtype);

inline bool is_float(DType dtype) {
  return kind_of(dtype) == DTypeKind::Float;
}
// f16 or bf16: what matrix units take.
inline bool is_half(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}
// f32, f16 or bf16: what is computed in f32.
inline bool is_short_float(DType dtype) {
  return dtype == DType::f32 || is_half(dtype);
}
// Signed or unsigned integer; bool is neither.
inline bool is_integer(DType dtype) {
  return kind_of(dtype) == DTypeKind::Int || kind_of(dtype) == DTypeKind::Uint;
}
// Bytes of one element; only for types whose block is one element.
uint32_t element_bytes(DType dtype);
// Inclusive value range of an integer type or bool.
struct IntegerRange {
  int64_t lowest;
  int64_t highest;
};
IntegerRange integer_range(DType dtype);

// Round to nearest even straight from f64 (no double rounding); NaN stays NaN, overflow becomes
// infinity.
uint16_t f16_from_double(double value);
uint16_t bf16_from_double(double value);
double double_from_f16(uint16_t bits);
double double_from_bf16(uint16_t bits);

// The nearest value that `dtype` (a Float type) can hold.
double round_to(DType dtype, double value);

}  // namespace rlx
