// SPDX-License-Identifier: Apache-2.0
// Elements of tensors as numbers: decoding for comparison and printing, encoding for seeded inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tools/npy/npy.h"

namespace rlx::tool {

enum class NumberClass : uint8_t { Float, Integer, Bool, Complex, None };

// None for block formats.
NumberClass class_of(uint32_t dtype);

// The rlx_dtype that an array from a file is read as where no tensor says better: u16 and raw16 are
// bf16.
uint32_t dtype_of(npy::Element element);

// Element `index` of a tensor: its value, or the real and imaginary part of a complex one.
struct Number {
  double real = 0;
  double imaginary = 0;
  int64_t integer = 0;  // exact, for integers and bools
};
Number number_at(std::span<const std::byte> data, uint32_t dtype, uint64_t index);

// Rounds to nearest, ties to even.
uint16_t to_f16(float value);
uint16_t to_bf16(float value);

}  // namespace rlx::tool
