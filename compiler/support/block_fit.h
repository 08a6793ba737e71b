// SPDX-License-Identifier: Apache-2.0
// What the encoders of block types share: numbers to codes, and codes to bytes.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "compiler/support/dtype.h"

namespace rlx::blocks {

// A group whose numbers are all smaller counts as zeros.
inline constexpr float kLeastGroup = 1e-15F;
inline constexpr size_t kLongBlock = 256;  // elements of a K block

using LongCodes = std::array<uint8_t, kLongBlock>;

// The nearest whole number, ties to even, of magnitudes below 2^22: in a sum with 1.5 * 2^23 it is
// what the low bits hold. Of others, and of NaN, whatever those bits are.
inline int nearest(float value) {
  const float sum = value + 12582912.0F;
  return static_cast<int>(std::bit_cast<uint32_t>(sum) & 0x7FFFFF) - 0x400000;
}

// The number of the largest magnitude, the first of equals.
inline float extreme_of(std::span<const float> values) {
  float extreme = 0;
  for (const float value : values) {
    if (std::fabs(value) > std::fabs(extreme)) extreme = value;
  }
  return extreme;
}

inline float inverse_of(float scale) {
  return scale != 0 ? 1.0F / scale : 0.0F;
}

inline void put_half(std::span<std::byte> block, size_t at, float value) {
  const uint16_t bits = f16_from_double(value);
  std::memcpy(block.data() + at, &bits, sizeof(bits));
}
// What a reader of the block takes the scale for.
inline float half_at(std::span<const std::byte> block, size_t at) {
  uint16_t bits = 0;
  std::memcpy(&bits, block.data() + at, sizeof(bits));
  return static_cast<float>(double_from_f16(bits));
}

inline void put_byte(std::span<std::byte> block, size_t at, unsigned value) {
  block[at] = static_cast<std::byte>(value & 0xFF);
}
inline void add_bits(std::span<std::byte> block, size_t at, unsigned bits) {
  block[at] |= static_cast<std::byte>(bits & 0xFF);
}

// Codes of a group of `half` * 2 as nibbles: of the first half in the low ones.
inline void put_nibbles(std::span<std::byte> block, size_t at, std::span<const uint8_t> codes) {
  const size_t half = codes.size() / 2;
  for (size_t i = 0; i < half; ++i)
    put_byte(block, at + i, (codes[i] & 15U) | (codes[i + half] & 15U) << 4);
}

// Weighted sums over a group, of number by code and of code by code: their quotient is the scale of
// the least error.
struct Fit {
  float by_code = 0;
  float of_codes = 0;

  [[nodiscard]] float scale() const { return by_code / of_codes; }
  // Whether its scale leaves less error than one for which `best` is scale times by_code.
  [[nodiscard]] bool is_better_than(float best) const {
    return of_codes > 0 && by_code * by_code > best * of_codes;
  }
};

// Encoders of one block each.
using Encode = void (*)(std::span<const float> values, std::span<std::byte> block);
void encode_q2_k(std::span<const float> values, std::span<std::byte> block);
void encode_q3_k(std::span<const float> values, std::span<std::byte> block);
void encode_q4_k(std::span<const float> values, std::span<std::byte> block);
void encode_q5_k(std::span<const float> values, std::span<std::byte> block);
void encode_q6_k(std::span<const float> values, std::span<std::byte> block);
void encode_iq4_nl(std::span<const float> values, std::span<std::byte> block);
void encode_iq4_xs(std::span<const float> values, std::span<std::byte> block);

}  // namespace rlx::blocks
