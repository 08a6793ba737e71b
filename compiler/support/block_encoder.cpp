// SPDX-License-Identifier: Apache-2.0
// The table of encoders, and those of blocks with one scale.
#include "compiler/support/block_encoder.h"

#include <algorithm>

#include "compiler/support/block_fit.h"
#include "compiler/support/check.h"

namespace rlx {
namespace blocks {
namespace {

constexpr size_t kShortBlock = 32;
using ShortCodes = std::array<uint8_t, kShortBlock>;

// The low byte of the number without its fraction: 0 of what an i32 cannot hold.
int low_byte(float value) {
  if (!(std::fabs(value) < 2147483648.0F)) return 0;
  return static_cast<int8_t>(static_cast<int32_t>(value));
}

// Codes about a middle, under a scale that takes the extreme to the end which both signs share.
ShortCodes signed_codes(std::span<const float> values, std::span<std::byte> block, int middle) {
  const float scale = extreme_of(values) / static_cast<float>(-middle);
  const float inverse = inverse_of(scale);
  const float shift = static_cast<float>(middle) + 0.5F;
  put_half(block, 0, scale);
  ShortCodes codes{};
  for (size_t i = 0; i < codes.size(); ++i) {
    const int code = std::min(2 * middle - 1, low_byte(values[i] * inverse + shift));
    codes.at(i) = static_cast<uint8_t>(code);
  }
  return codes;
}

// Codes from 0 to `most` above the least number.
ShortCodes codes_above_least(std::span<const float> values, std::span<std::byte> block, int most) {
  const float least = *std::ranges::min_element(values);
  const float scale = (*std::ranges::max_element(values) - least) / static_cast<float>(most);
  const float inverse = inverse_of(scale);
  put_half(block, 0, scale);
  put_half(block, 2, least);
  ShortCodes codes{};
  for (size_t i = 0; i < codes.size(); ++i) {
    const int code = std::min(most, low_byte((values[i] - least) * inverse + 0.5F));
    codes.at(i) = static_cast<uint8_t>(code);
  }
  return codes;
}

void put_fifth_bits(std::span<std::byte> block, size_t at, const ShortCodes& codes) {
  uint32_t bits = 0;
  for (size_t i = 0; i < codes.size(); ++i) bits |= (codes.at(i) >> 4 & 1U) << i;
  std::memcpy(block.data() + at, &bits, sizeof(bits));
}

void encode_q4_0(std::span<const float> values, std::span<std::byte> block) {
  put_nibbles(block, 2, signed_codes(values, block, 8));
}

void encode_q4_1(std::span<const float> values, std::span<std::byte> block) {
  put_nibbles(block, 4, codes_above_least(values, block, 15));
}

void encode_q5_0(std::span<const float> values, std::span<std::byte> block) {
  const ShortCodes codes = signed_codes(values, block, 16);
  put_fifth_bits(block, 2, codes);
  put_nibbles(block, 6, codes);
}

void encode_q5_1(std::span<const float> values, std::span<std::byte> block) {
  const ShortCodes codes = codes_above_least(values, block, 31);
  put_fifth_bits(block, 4, codes);
  put_nibbles(block, 8, codes);
}

void encode_q8_0(std::span<const float> values, std::span<std::byte> block) {
  const float scale = std::fabs(extreme_of(values)) / 127;
  const float inverse = inverse_of(scale);
  put_half(block, 0, scale);
  for (size_t i = 0; i < values.size(); ++i)
    put_byte(block, 2 + i, static_cast<unsigned>(low_byte(std::round(values[i] * inverse))));
}

struct Encoder {
  DType dtype;
  Encode encode;
  std::array<int, 2> halves;  // where its scales in f16 are; -1: none
};
constexpr std::array kEncoders = {
    Encoder{DType::q4_0, encode_q4_0, {0, -1}},     Encoder{DType::q4_1, encode_q4_1, {0, 2}},
    Encoder{DType::q5_0, encode_q5_0, {0, -1}},     Encoder{DType::q5_1, encode_q5_1, {0, 2}},
    Encoder{DType::q8_0, encode_q8_0, {0, -1}},     Encoder{DType::q2_k, encode_q2_k, {80, 82}},
    Encoder{DType::q3_k, encode_q3_k, {108, -1}},   Encoder{DType::q4_k, encode_q4_k, {0, 2}},
    Encoder{DType::q5_k, encode_q5_k, {0, 2}},      Encoder{DType::q6_k, encode_q6_k, {208, -1}},
    Encoder{DType::iq4_nl, encode_iq4_nl, {0, -1}}, Encoder{DType::iq4_xs, encode_iq4_xs, {0, -1}}};

const Encoder* find_encoder(DType dtype) {
  const auto* const found = std::ranges::find(kEncoders, dtype, &Encoder::dtype);
  return found == kEncoders.end() ? nullptr : found;
}

// Whether squares and cubes of the numbers are finite. No type holds larger ones.
bool are_small(std::span<const float> values) {
  constexpr float kMost = 0x1p30F;
  return std::ranges::all_of(values, [](float value) { return std::fabs(value) < kMost; });
}

bool has_finite_scales(const Encoder& encoder, std::span<const std::byte> blocks) {
  const size_t bytes = block_bytes(encoder.dtype);
  for (size_t first = 0; first < blocks.size(); first += bytes) {
    for (const int at : encoder.halves) {
      if (at >= 0 && !std::isfinite(half_at(blocks, first + static_cast<size_t>(at)))) return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace blocks

bool can_encode(DType dtype) {
  return blocks::find_encoder(dtype) != nullptr;
}

bool encode_blocks(DType dtype, std::span<const float> values, std::span<std::byte> blocks) {
  const blocks::Encoder* encoder = blocks::find_encoder(dtype);
  const size_t elements = block_elements(dtype);
  const size_t bytes = block_bytes(dtype);
  const size_t count = values.size() / elements;
  RLX_CHECK(
      encoder != nullptr && values.size() == count * elements && blocks.size() == count * bytes,
      "whole blocks of a type that is encoded");
  for (size_t i = 0; i < count; ++i)
    encoder->encode(values.subspan(i * elements, elements), blocks.subspan(i * bytes, bytes));
  return blocks::are_small(values) && blocks::has_finite_scales(*encoder, blocks);
}

}  // namespace rlx
