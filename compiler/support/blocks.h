// SPDX-License-Identifier: Apache-2.0
// 8-bit floats and block types on the host (ops.md 0.10): one element at a time, in f64. The oracle
// of the kernels' decoders, with which it shares no code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/support/dtype.h"

namespace rlx {

// Values of an E4M3 (no infinities, 0x7F and 0xFF are NaN), E5M2 and E2M1 (low 4 bits) code.
double double_from_e4m3(uint8_t code);
double double_from_e5m2(uint8_t code);
double double_from_e2m1(uint8_t code);
// The nearest code, ties to even. Values beyond the largest finite one become it (saturates) or NaN
// (E4M3) and infinity (E5M2); NaN stays NaN.
uint8_t e4m3_from_double(double value, bool saturates);
uint8_t e5m2_from_double(double value, bool saturates);

constexpr bool is_float8(DType dtype) {
  return dtype == DType::f8e4m3 || dtype == DType::f8e5m2;
}
// The two above by element type.
double double_from_float8(DType dtype, uint8_t code);
uint8_t float8_from_double(DType dtype, double value, bool saturates);

// An element of a block as the sum of at most two terms, as its type defines it.
struct BlockElement {
  double product = 0;  // of scale and code
  double offset = 0;   // added to it
  [[nodiscard]] double value() const { return product + offset; }
  [[nodiscard]] double magnitude() const;  // |product| + |offset|
};
// Element `index` of dense blocks; a type whose block is no single element.
BlockElement decode_block_element(DType dtype, std::span<const std::byte> bytes, int64_t index);

}  // namespace rlx
