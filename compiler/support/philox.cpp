// SPDX-License-Identifier: Apache-2.0
// The mappings of ops.md 0.8 and 12.2 of Philox on the host.
#include "compiler/support/philox.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace rlx {
namespace {

// The next value of a 16-bit or 32-bit float format below `value`, which the format holds.
double next_below(DType dtype, double value) {
  if (dtype == DType::f32 || dtype == DType::f64) {
    return std::nextafter(static_cast<float>(value), -std::numeric_limits<float>::infinity());
  }
  const bool half = dtype == DType::f16;
  uint16_t bits = half ? f16_from_double(value) : bf16_from_double(value);
  if ((bits & 0x7FFF) == 0) {
    bits = 0x8001;
  } else {
    bits = static_cast<uint16_t>(bits & 0x8000 ? bits + 1 : bits - 1);
  }
  return half ? double_from_f16(bits) : double_from_bf16(bits);
}

uint64_t high_product(uint64_t a, uint64_t b) {
  const uint64_t a_low = a & 0xFFFFFFFFu;
  const uint64_t a_high = a >> 32;
  const uint64_t b_low = b & 0xFFFFFFFFu;
  const uint64_t b_high = b >> 32;
  const uint64_t middle = a_high * b_low + (a_low * b_low >> 32);
  const uint64_t other = a_low * b_high + (middle & 0xFFFFFFFFu);
  return a_high * b_high + (middle >> 32) + (other >> 32);
}

}  // namespace

PhiloxWords philox_block(uint64_t seed, uint32_t stream, uint32_t step, uint64_t block) {
  return philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), step, stream},
                philox_key(seed));
}

std::array<double, 4> philox_normals(const PhiloxWords& words) {
  std::array<double, 4> normals{};
  for (size_t pair = 0; pair < 4; pair += 2) {
    const double radius = std::sqrt(-2 * std::log(double{philox_open_uniform(words[pair])}));
    const double angle = 2 * M_PI * double{philox_uniform(words[pair + 1])};
    normals[pair] = radius * std::cos(angle);
    normals[pair + 1] = radius * std::sin(angle);
  }
  return normals;
}

UniformRange uniform_range(DType dtype, double low, double high) {
  UniformRange range{.low = static_cast<float>(low), .high = static_cast<float>(high)};
  range.span = range.high - range.low;
  const double held = round_to(dtype, range.high);
  const double below = held < range.high ? held : next_below(dtype, held);
  range.below = static_cast<float>(below);
  return range;
}

double uniform_value(DType dtype, const UniformRange& range, uint32_t word) {
  const float scaled = range.span * philox_uniform(word);
  const float sum = range.low + scaled;
  const double value = round_to(dtype, sum);
  return value >= range.high && range.high > range.low ? range.below : value;
}

IntegerSpan integer_span(DType dtype, double low, double high) {
  const IntegerRange held = integer_range(dtype);
  const auto clamp = [&](double value) {
    if (value >= static_cast<double>(held.highest)) return held.highest;
    if (value <= static_cast<double>(held.lowest)) return held.lowest;
    return static_cast<int64_t>(value);
  };
  const int64_t lowest = clamp(std::ceil(low));
  const int64_t highest = std::max(lowest, clamp(std::floor(high)));
  return {.low = lowest,
          .count_minus_one = static_cast<uint64_t>(highest) - static_cast<uint64_t>(lowest)};
}

int64_t integer_value(const IntegerSpan& span, uint64_t seed, uint32_t stream, uint32_t step,
                      uint64_t index) {
  uint64_t offset = 0;
  if (span.needs_pair()) {
    const PhiloxWords words = philox_block(seed, stream, step, index / 2);
    const uint64_t word = uint64_t{words[2 * (index % 2)]} << 32 | words[2 * (index % 2) + 1];
    offset =
        span.count_minus_one == ~uint64_t{0} ? word : high_product(word, span.count_minus_one + 1);
  } else {
    const uint32_t word = philox_block(seed, stream, step, index / 4)[index % 4];
    offset = (uint64_t{word} * (span.count_minus_one + 1)) >> 32;
  }
  return static_cast<int64_t>(static_cast<uint64_t>(span.low) + offset);
}

}  // namespace rlx
