// SPDX-License-Identifier: Apache-2.0
// Decoders of 8-bit floats and block types, written from the tables of ops.md 0.10.
#include "compiler/support/blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "compiler/support/check.h"

namespace rlx {
namespace {

constexpr std::array<double, 8> kE2m1 = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
constexpr std::array<int, 16> kIq4Nl = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};

// One block; positions and element numbers are those of the tables.
class Block {
 public:
  explicit Block(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] int byte(size_t at) const { return static_cast<uint8_t>(bytes_[at]); }
  [[nodiscard]] int signed_byte(size_t at) const { return static_cast<int8_t>(bytes_[at]); }
  [[nodiscard]] double half(size_t at) const {
    return double_from_f16(static_cast<uint16_t>(byte(at) | byte(at + 1) << 8));
  }
  [[nodiscard]] double single(size_t at) const {
    float value = 0;
    std::memcpy(&value, bytes_.data() + at, sizeof(value));
    return value;
  }
  // The nibble order of the 32-element types, whose codes start at `at`.
  [[nodiscard]] int nibble(size_t at, size_t e) const {
    return e < 16 ? byte(at + e) & 15 : byte(at + e - 16) >> 4;
  }
  // Bit e of a little-endian word.
  [[nodiscard]] int bit(size_t at, size_t e) const { return byte(at + e / 8) >> (e % 8) & 1; }

 private:
  std::span<const std::byte> bytes_;
};

// The 6-bit scale and minimum j of the twelve bytes that start at 4.
struct SubScale {
  int scale;
  int minimum;
};
SubScale unpack6(const Block& block, size_t j) {
  const auto b = [&block](size_t i) { return block.byte(4 + i); };
  if (j < 4) return {b(j) & 63, b(j + 4) & 63};
  return {(b(j + 4) & 15) | (b(j - 4) >> 6) << 4, (b(j + 4) >> 4) | (b(j) >> 6) << 4};
}

BlockElement decode_q2_k(const Block& block, size_t e) {
  const size_t h = e / 128;
  const size_t j = e % 128 / 32;
  const int q = block.byte(16 + 32 * h + e % 32) >> (2 * j) & 3;
  const int s = block.byte(e / 16);
  return {block.half(80) * (s & 15) * q, -block.half(82) * (s >> 4)};
}

BlockElement decode_q3_k(const Block& block, size_t e) {
  const size_t h = e / 128;
  const size_t j = e % 128 / 32;
  const size_t r = e % 32;
  const size_t k = e / 16;
  const bool high = (block.byte(r) >> (4 * h + j) & 1) != 0;
  const int q = (block.byte(32 + 32 * h + r) >> (2 * j) & 3) - (high ? 0 : 4);
  const auto sc = [&block](size_t i) { return block.byte(96 + i); };
  const int low = k < 8 ? sc(k) & 15 : sc(k - 8) >> 4;
  const int top = sc(8 + k % 4) >> (2 * (k / 4)) & 3;
  return {block.half(108) * (low + 16 * top - 32) * q, 0};
}

// q4_k, and q5_k with its fifth bits at 16.
BlockElement decode_q45_k(const Block& block, size_t e, bool fifth_bit) {
  const size_t codes = fifth_bit ? 48 : 16;
  const size_t r = e % 64;
  const int packed = block.byte(codes + 32 * (e / 64) + r % 32);
  int q = r < 32 ? packed & 15 : packed >> 4;
  if (fifth_bit) q += 16 * (block.byte(16 + e % 32) >> (e / 32) & 1);
  const SubScale sub = unpack6(block, e / 32);
  return {block.half(0) * sub.scale * q, -block.half(2) * sub.minimum};
}

BlockElement decode_q6_k(const Block& block, size_t e) {
  const size_t h = e / 128;
  const size_t c = e % 128 / 32;
  const size_t l = e % 32;
  const int packed = block.byte(64 * h + 32 * (c & 1) + l);
  const int low = c < 2 ? packed & 15 : packed >> 4;
  const int q = low + 16 * (block.byte(128 + 32 * h + l) >> (2 * c) & 3) - 32;
  return {block.half(208) * block.signed_byte(192 + e / 16) * q, 0};
}

// Eight groups of 32, each with the codes of iq4_nl and a scale of 6 bits: 4 at 4, 2 at 2.
BlockElement decode_iq4_xs(const Block& block, size_t e) {
  const size_t g = e / 32;
  const int low = block.byte(4 + g / 2) >> (4 * (g % 2)) & 15;
  const int top = block.byte(2 + g / 4) >> (2 * (g % 4)) & 3;
  const auto code = static_cast<size_t>(block.nibble(8 + 16 * g, e % 32));
  return {block.half(0) * (low + 16 * top - 32) * kIq4Nl.at(code), 0};
}

BlockElement decode_nvfp4(const Block& block, size_t e) {
  const size_t g = e / 16;
  const size_t j = e % 16;
  const int packed = block.byte(4 + 8 * g + j % 8);
  const int code = j < 8 ? packed & 15 : packed >> 4;
  const int scale = block.byte(g) & 0x7F;
  if (scale == 0x7F) return {};
  return {
      double_from_e4m3(static_cast<uint8_t>(scale)) * double_from_e2m1(static_cast<uint8_t>(code)),
      0};
}

BlockElement decode(DType dtype, const Block& block, size_t e) {
  switch (dtype) {
    case DType::q4_0:
      return {block.half(0) * (block.nibble(2, e) - 8), 0};
    case DType::q4_1:
      return {block.half(0) * block.nibble(4, e), block.half(2)};
    case DType::q5_0:
      return {block.half(0) * (block.nibble(6, e) + 16 * block.bit(2, e) - 16), 0};
    case DType::q5_1:
      return {block.half(0) * (block.nibble(8, e) + 16 * block.bit(4, e)), block.half(2)};
    case DType::q8_0:
      return {block.half(0) * block.signed_byte(2 + e), 0};
    case DType::q2_k:
      return decode_q2_k(block, e);
    case DType::q3_k:
      return decode_q3_k(block, e);
    case DType::q4_k:
      return decode_q45_k(block, e, false);
    case DType::q5_k:
      return decode_q45_k(block, e, true);
    case DType::q6_k:
      return decode_q6_k(block, e);
    case DType::q8_k:
      return {block.single(0) * block.signed_byte(4 + e), 0};
    case DType::iq4_nl:
      return {block.half(0) * kIq4Nl.at(static_cast<size_t>(block.nibble(2, e))), 0};
    case DType::iq4_xs:
      return decode_iq4_xs(block, e);
    case DType::mxfp4:
      return {std::ldexp(double_from_e2m1(static_cast<uint8_t>(block.nibble(1, e))),
                         block.byte(0) - 127),
              0};
    case DType::nvfp4:
      return decode_nvfp4(block, e);
    default:
      RLX_CHECK(false, "blocks of " + std::string(name_of(dtype)));
  }
}

// A float of `exponent_bits` and `mantissa_bits` without its sign, all codes finite.
double small_float(int magnitude, int mantissa_bits, int bias) {
  const int exponent = magnitude >> mantissa_bits;
  const int mantissa = magnitude & ((1 << mantissa_bits) - 1);
  if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

// The code up to `largest` whose value is nearest, ties to the even code; `largest` + 1 where the
// value rounds beyond it.
int nearest_code(double magnitude, int largest, double (*decode_code)(int)) {
  int low = 0;
  int high = largest + 1;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (decode_code(middle) <= magnitude ? low : high) = middle;
  }
  if (low == largest + 1) return low;
  const double below = magnitude - decode_code(low);
  const double above = decode_code(low + 1) - magnitude;
  if (below == above) return low + (low & 1);
  return below < above ? low : low + 1;
}

double e4m3_magnitude(int code) {
  return small_float(code, 3, 7);
}
double e5m2_magnitude(int code) {
  return small_float(code, 2, 15);
}

uint8_t signed_code(int code, double value) {
  return static_cast<uint8_t>(code | (std::signbit(value) ? 0x80 : 0));
}

}  // namespace

double double_from_e4m3(uint8_t code) {
  const int magnitude = code & 0x7F;
  if (magnitude == 0x7F) return std::numeric_limits<double>::quiet_NaN();
  return std::copysign(e4m3_magnitude(magnitude), (code & 0x80) != 0 ? -1.0 : 1.0);
}

double double_from_e5m2(uint8_t code) {
  const int magnitude = code & 0x7F;
  if (magnitude > 0x7C) return std::numeric_limits<double>::quiet_NaN();
  const double value =
      magnitude == 0x7C ? std::numeric_limits<double>::infinity() : e5m2_magnitude(magnitude);
  return std::copysign(value, (code & 0x80) != 0 ? -1.0 : 1.0);
}

double double_from_e2m1(uint8_t code) {
  return std::copysign(kE2m1.at(code & 7), (code & 8) != 0 ? -1.0 : 1.0);
}

uint8_t e4m3_from_double(double value, bool saturates) {
  if (std::isnan(value)) return signed_code(0x7F, value);
  // 0x7F stands for 480 here: what rounds to it or beyond has no code.
  const int code = nearest_code(std::min(std::fabs(value), 480.0), 0x7E, e4m3_magnitude);
  return signed_code(code > 0x7E && saturates ? 0x7E : code, value);
}

uint8_t e5m2_from_double(double value, bool saturates) {
  if (std::isnan(value)) return signed_code(0x7F, value);
  const int code = nearest_code(std::min(std::fabs(value), 65536.0), 0x7B, e5m2_magnitude);
  return signed_code(code > 0x7B && saturates ? 0x7B : code, value);
}

double double_from_float8(DType dtype, uint8_t code) {
  RLX_CHECK(is_float8(dtype), "8-bit float of " + std::string(name_of(dtype)));
  return dtype == DType::f8e4m3 ? double_from_e4m3(code) : double_from_e5m2(code);
}

uint8_t float8_from_double(DType dtype, double value, bool saturates) {
  RLX_CHECK(is_float8(dtype), "8-bit float of " + std::string(name_of(dtype)));
  return dtype == DType::f8e4m3 ? e4m3_from_double(value, saturates)
                                : e5m2_from_double(value, saturates);
}

double BlockElement::magnitude() const {
  return std::fabs(product) + std::fabs(offset);
}

BlockElement decode_block_element(DType dtype, std::span<const std::byte> bytes, int64_t index) {
  const auto elements = static_cast<int64_t>(block_elements(dtype));
  RLX_CHECK(elements > 1, "blocks of " + std::string(name_of(dtype)));
  const auto size = static_cast<size_t>(block_bytes(dtype));
  const auto first = static_cast<size_t>(index / elements) * size;
  return decode(dtype, Block(bytes.subspan(first, size)), static_cast<size_t>(index % elements));
}

}  // namespace rlx
