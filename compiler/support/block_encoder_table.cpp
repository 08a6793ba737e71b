// SPDX-License-Identifier: Apache-2.0
// Encoders of blocks whose codes stand for the entries of iq4_nl's table.
#include <algorithm>

#include "compiler/support/block_fit.h"

namespace rlx::blocks {
namespace {

constexpr std::array<float, 16> kTable = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
constexpr size_t kGroup = 32;

// The entry nearest to a number, the upper one of two as near.
uint8_t code_of(float number) {
  const auto* const above = std::upper_bound(kTable.begin(), kTable.end(), number);
  if (above == kTable.begin()) return 0;
  if (above == kTable.end()) return kTable.size() - 1;
  const auto upper = static_cast<uint8_t>(above - kTable.begin());
  return number - kTable.at(upper - 1) < kTable.at(upper) - number ? upper - 1 : upper;
}

// The weight of a number is its square.
Fit fit_of(std::span<const float> values, float inverse) {
  Fit fit;
  for (const float value : values) {
    const float entry = kTable.at(code_of(inverse * value));
    const float weight = value * value;
    fit.by_code += weight * entry * value;
    fit.of_codes += weight * entry * entry;
  }
  return fit;
}

// Of scales about the one that takes the extreme to the table's first entry.
float best_scale_of(std::span<const float> values) {
  constexpr int kTries = 7;  // to either side
  const float extreme = extreme_of(values);
  if (std::fabs(extreme) < kLeastGroup) return 0;
  Fit fit = fit_of(values, 1 / (-extreme / kTable[0]));
  float scale = fit.scale();
  float best = scale * fit.by_code;
  for (int step = -kTries; step <= kTries; ++step) {
    fit = fit_of(values, (static_cast<float>(step) + kTable[0]) / extreme);
    if (!fit.is_better_than(best)) continue;
    scale = fit.scale();
    best = scale * fit.by_code;
  }
  return scale;
}

void put_codes(std::span<std::byte> block, size_t at, std::span<const float> values,
               float inverse) {
  std::array<uint8_t, kGroup> codes{};
  for (size_t i = 0; i < codes.size(); ++i) codes.at(i) = code_of(inverse * values[i]);
  put_nibbles(block, at, codes);
}

}  // namespace

void encode_iq4_nl(std::span<const float> values, std::span<std::byte> block) {
  const float scale = best_scale_of(values);
  put_half(block, 0, scale);
  put_codes(block, 2, values, inverse_of(scale));
}

void encode_iq4_xs(std::span<const float> values, std::span<std::byte> block) {
  constexpr size_t kGroups = kLongBlock / kGroup;
  std::array<float, kGroups> scales{};
  for (size_t g = 0; g < kGroups; ++g)
    scales.at(g) = best_scale_of(values.subspan(kGroup * g, kGroup));
  std::fill(block.begin(), block.begin() + 8, std::byte{0});
  const float scale = -extreme_of(scales) / 32;
  const float inverse = inverse_of(scale);
  put_half(block, 0, scale);
  for (size_t g = 0; g < kGroups; ++g) {
    const int code = std::clamp(nearest(inverse * scales.at(g)), -32, 31);
    const auto stored = static_cast<unsigned>(code + 32);
    add_bits(block, 4 + g / 2, (stored & 15) << (4 * (g % 2)));
    add_bits(block, 2 + g / 4, (stored >> 4) << (2 * (g % 4)));
    put_codes(block, 8 + 16 * g, values.subspan(kGroup * g, kGroup),
              inverse_of(scale * static_cast<float>(code)));
  }
}

}  // namespace rlx::blocks
