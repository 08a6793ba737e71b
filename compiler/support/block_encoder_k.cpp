// SPDX-License-Identifier: Apache-2.0
// Encoders of K blocks: groups of 16 or 32 with a scale each, and scales of those scales. A group's
// scale is searched for; then all codes are chosen anew under the scale that a reader will see.
#include <algorithm>

#include "compiler/support/block_fit.h"

namespace rlx::blocks {
namespace {

constexpr size_t kGroups16 = 16;  // groups of 16 elements
constexpr size_t kGroups32 = 8;   // of 32

// ---- groups without a minimum ----

// Codes in [-middle, middle - 1], kept with `middle` added; the weight of a number is its square.
struct SignedGroup {
  std::span<const float> values;
  std::span<uint8_t> codes;
  int middle;

  [[nodiscard]] int clamped(float code) const {
    return std::clamp(nearest(code), -middle, middle - 1);
  }
  [[nodiscard]] int code_of(float value, float inverse) const { return clamped(inverse * value); }

  void add(Fit& fit, float value, int code) const {
    const auto real = static_cast<float>(code);
    const float weight = value * value;
    fit.by_code += weight * value * real;
    fit.of_codes += weight * real * real;
  }
  [[nodiscard]] Fit fit_of(float inverse) const {
    Fit fit;
    for (const float value : values) add(fit, value, code_of(value, inverse));
    return fit;
  }
  void choose_codes(float inverse) const {
    for (size_t i = 0; i < values.size(); ++i)
      codes[i] = static_cast<uint8_t>(code_of(values[i], inverse) + middle);
  }
};

// Of scales about the one that takes the extreme to its end, the one with the least error.
float best_scale(const SignedGroup& group) {
  constexpr int kTries = 9;  // to either side
  const float extreme = extreme_of(group.values);
  if (std::fabs(extreme) < kLeastGroup) {
    std::ranges::fill(group.codes, uint8_t{0});
    return 0;
  }
  const auto middle = static_cast<float>(group.middle);
  const float first = -middle / extreme;
  Fit fit = group.fit_of(first);
  group.choose_codes(first);
  float scale = fit.of_codes != 0 ? fit.scale() : 0.0F;
  float best = scale * fit.by_code;
  for (int step = -kTries; step <= kTries; ++step) {
    if (step == 0) continue;
    const float inverse = -(middle + 0.1F * static_cast<float>(step)) / extreme;
    fit = group.fit_of(inverse);
    if (!fit.is_better_than(best)) continue;
    group.choose_codes(inverse);
    scale = fit.scale();
    best = scale * fit.by_code;
  }
  return scale;
}

// Moves one code after another to where the scale of all others would have it, while that helps.
float refined_scale(const SignedGroup& group) {
  constexpr int kRounds = 5;
  const float extreme = extreme_of(group.values);
  if (std::fabs(extreme) < kLeastGroup) {
    std::ranges::fill(group.codes, uint8_t{0});
    return 0;
  }
  const float inverse = static_cast<float>(-group.middle) / extreme;
  group.choose_codes(inverse);
  Fit fit = group.fit_of(inverse);
  bool has_moved = true;
  for (int round = 0; round < kRounds && has_moved; ++round) {
    has_moved = false;
    for (size_t i = 0; i < group.values.size(); ++i) {
      const float value = group.values[i];
      const float weight = value * value;
      const auto old = static_cast<float>(group.codes[i] - group.middle);
      Fit moved{fit.by_code - weight * value * old, fit.of_codes};
      if (!(moved.by_code > 0)) continue;
      moved.of_codes -= weight * old * old;
      const int code = group.clamped(value * moved.of_codes / moved.by_code);
      if (code + group.middle == group.codes[i]) continue;
      group.add(moved, value, code);
      if (!(moved.of_codes > 0) || !(moved.by_code * moved.by_code * fit.of_codes >
                                     fit.by_code * fit.by_code * moved.of_codes))
        continue;
      group.codes[i] = static_cast<uint8_t>(code + group.middle);
      fit = moved;
      has_moved = true;
    }
  }
  return fit.of_codes > 0 ? fit.scale() : 0.0F;
}

// ---- groups with a minimum ----

// How far from the scale that spans the numbers others are looked for, and how errors count.
struct Search {
  float first;
  float step;
  int steps;
  bool counts_magnitudes;  // of errors; else their squares
};

struct GroupScale {
  float scale = 0;
  float minimum = 0;  // taken off: not below 0
};

class AffineGroup {
 public:
  AffineGroup(std::span<const float> values, std::span<const float> weights, int most)
      : values_(values), weights_(weights), most_(most) {
    sum_of_weights_ = weights[0];
    sum_ = weights[0] * values[0];
    for (size_t i = 1; i < values.size(); ++i) {
      sum_of_weights_ += weights[i];
      sum_ += weights[i] * values[i];
    }
    least_ = std::min(*std::ranges::min_element(values), 0.0F);
    largest_ = *std::ranges::max_element(values);
  }

  GroupScale search(const Search& search, std::span<uint8_t> codes) {
    if (largest_ == least_) {
      std::ranges::fill(codes, uint8_t{0});
      return {.scale = 0, .minimum = -least_};
    }
    const auto most = static_cast<float>(most_);
    const float span_inverse = most / (largest_ - least_);
    choose_codes(span_inverse, least_, codes);
    Line best{.slope = 1 / span_inverse, .start = least_};
    float best_error = error_of(best, codes, search);
    std::array<uint8_t, 32> tried{};
    const auto trial = std::span(tried).first(codes.size());
    for (int i = 0; i <= search.steps; ++i) {
      // From the best start so far, not from the least number.
      const float inverse =
          (search.first + search.step * static_cast<float>(i) + most) / (largest_ - best.start);
      choose_codes(inverse, best.start, trial);
      const Sums sums = sums_of(trial);
      const float divisor = sum_of_weights_ * sums.squares - sums.codes * sums.codes;
      if (!(divisor > 0)) continue;
      const Line line = line_of(sums, divisor);
      const float error = error_of(line, trial, search);
      if (!(error < best_error)) continue;
      std::ranges::copy(trial, codes.begin());
      best = line;
      best_error = error;
    }
    return {.scale = best.slope, .minimum = -best.start};
  }

 private:
  struct Line {
    float slope;
    float start;
  };
  struct Sums {  // weighted
    float codes = 0;
    float squares = 0;
    float by_value = 0;
  };

  void choose_codes(float inverse, float start, std::span<uint8_t> codes) const {
    for (size_t i = 0; i < values_.size(); ++i)
      codes[i] =
          static_cast<uint8_t>(std::clamp(nearest(inverse * (values_[i] - start)), 0, most_));
  }

  [[nodiscard]] Sums sums_of(std::span<const uint8_t> codes) const {
    Sums sums;
    for (size_t i = 0; i < values_.size(); ++i) {
      const float code = codes[i];
      sums.codes += weights_[i] * code;
      sums.squares += weights_[i] * code * code;
      sums.by_value += weights_[i] * code * values_[i];
    }
    return sums;
  }

  // Of least squares, through 0 where its start would lie above.
  [[nodiscard]] Line line_of(const Sums& sums, float divisor) const {
    const float start = (sums.squares * sum_ - sums.codes * sums.by_value) / divisor;
    if (start > 0) return {.slope = sums.by_value / sums.squares, .start = 0};
    return {.slope = (sum_of_weights_ * sums.by_value - sum_ * sums.codes) / divisor,
            .start = start};
  }

  [[nodiscard]] float error_of(const Line& line, std::span<const uint8_t> codes,
                               const Search& search) const {
    float error = 0;
    for (size_t i = 0; i < values_.size(); ++i) {
      const float off = line.slope * static_cast<float>(codes[i]) + line.start - values_[i];
      error += weights_[i] * (search.counts_magnitudes ? std::fabs(off) : off * off);
    }
    return error;
  }

  std::span<const float> values_;
  std::span<const float> weights_;
  int most_;
  float sum_of_weights_;
  float sum_;
  float least_;
  float largest_;
};

// What makes whole numbers up to `most` of positive scales, and the scale of those.
struct ScaleOfScales {
  float inverse = 0;
  float scale = 0;
};
ScaleOfScales scale_of(float largest, float most) {
  if (!(largest > 0)) return {};
  return {.inverse = most / largest, .scale = largest / most};
}

// The codes of a group under the scale and minimum that a reader sees; as they are where the scale
// is 0.
void choose_again(std::span<const float> values, std::span<uint8_t> codes, GroupScale seen,
                  int most) {
  if (seen.scale == 0) return;
  for (size_t i = 0; i < values.size(); ++i)
    codes[i] =
        static_cast<uint8_t>(std::clamp(nearest((values[i] + seen.minimum) / seen.scale), 0, most));
}

// Codes of 16 times 16 numbers about a middle under the scale of each group.
void choose_signed_again(std::span<const float> values, LongCodes& codes, size_t group, float scale,
                         int middle) {
  if (scale == 0) return;
  const SignedGroup chosen{values.subspan(16 * group, 16), std::span(codes).subspan(16 * group, 16),
                           middle};
  for (size_t i = 0; i < chosen.values.size(); ++i)
    chosen.codes[i] = static_cast<uint8_t>(chosen.clamped(chosen.values[i] / scale) + middle);
}

// Pairs of bits of groups 32 apart share a byte.
void put_pairs(std::span<std::byte> block, size_t at, const LongCodes& codes, unsigned shift) {
  for (size_t i = 0; i < kLongBlock / 4; ++i) {
    const size_t first = i / 32 * 128 + i % 32;
    unsigned byte = 0;
    for (size_t part = 0; part < 4; ++part)
      byte |= (codes.at(first + 32 * part) >> shift & 3U) << (2 * part);
    put_byte(block, at + i, byte);
  }
}

// Weights of numbers by their size against the block's: those of q4_k and q5_k.
std::array<float, 32> weights_of(std::span<const float> values) {
  float squares = 0;
  for (const float value : values) squares += value * value;
  const float root = std::sqrt(squares / 32);
  std::array<float, 32> weights{};
  for (size_t i = 0; i < weights.size(); ++i) weights.at(i) = root + std::fabs(values[i]);
  return weights;
}

// Where q4_k and q5_k keep 6 bits of scale and minimum of eight groups: the inverse of unpack6 of
// ops.md 0.10.
void put_6_bits(std::span<std::byte> block, size_t group, unsigned scale, unsigned minimum) {
  if (group < 4) {
    put_byte(block, 4 + group, scale);
    put_byte(block, 8 + group, minimum);
    return;
  }
  put_byte(block, 8 + group, (scale & 15) | (minimum & 15) << 4);
  add_bits(block, group, (scale >> 4) << 6);
  add_bits(block, 4 + group, (minimum >> 4) << 6);
}

// What q4_k and q5_k have in common: all but the places of the codes.
LongCodes encode_q45_k(std::span<const float> values, std::span<std::byte> block, int most,
                       const Search& search) {
  LongCodes codes{};
  const auto group_codes = [&](size_t g) { return std::span(codes).subspan(32 * g, 32); };
  std::array<GroupScale, kGroups32> scales{};
  GroupScale largest;
  for (size_t g = 0; g < kGroups32; ++g) {
    const auto group = values.subspan(32 * g, 32);
    const auto weights = weights_of(group);
    scales.at(g) = AffineGroup(group, weights, most).search(search, group_codes(g));
    largest.scale = std::max(largest.scale, scales.at(g).scale);
    largest.minimum = std::max(largest.minimum, scales.at(g).minimum);
  }
  const ScaleOfScales of_scales = scale_of(largest.scale, 63);
  const ScaleOfScales of_minima = scale_of(largest.minimum, 63);
  put_half(block, 0, of_scales.scale);
  put_half(block, 2, of_minima.scale);
  const auto six_bits = [](float value) {
    return std::min<unsigned>(63, static_cast<uint8_t>(nearest(value)));
  };
  for (size_t g = 0; g < kGroups32; ++g) {
    const unsigned scale = six_bits(of_scales.inverse * scales.at(g).scale);
    const unsigned minimum = six_bits(of_minima.inverse * scales.at(g).minimum);
    put_6_bits(block, g, scale, minimum);
    choose_again(values.subspan(32 * g, 32), group_codes(g),
                 {.scale = half_at(block, 0) * static_cast<float>(scale),
                  .minimum = half_at(block, 2) * static_cast<float>(minimum)},
                 most);
  }
  return codes;
}

// Nibbles of groups of 64.
void put_long_nibbles(std::span<std::byte> block, size_t at, const LongCodes& codes) {
  for (size_t g = 0; g < kLongBlock / 64; ++g)
    put_nibbles(block, at + 32 * g, std::span(codes).subspan(64 * g, 64));
}

// The scale of the largest magnitude, the first of equals.
float extreme_scale(const std::array<float, kGroups16>& scales) {
  return extreme_of(scales);
}

}  // namespace

void encode_q2_k(std::span<const float> values, std::span<std::byte> block) {
  constexpr Search kSearch{.first = -0.5F, .step = 0.1F, .steps = 15, .counts_magnitudes = true};
  LongCodes codes{};
  const auto group_codes = [&](size_t g) { return std::span(codes).subspan(16 * g, 16); };
  std::array<GroupScale, kGroups16> scales{};
  GroupScale largest;
  for (size_t g = 0; g < kGroups16; ++g) {
    const auto group = values.subspan(16 * g, 16);
    std::array<float, 16> weights{};
    for (size_t i = 0; i < weights.size(); ++i) weights.at(i) = std::fabs(group[i]);
    scales.at(g) = AffineGroup(group, weights, 3).search(kSearch, group_codes(g));
    largest.scale = std::max(largest.scale, scales.at(g).scale);
    largest.minimum = std::max(largest.minimum, scales.at(g).minimum);
  }
  const ScaleOfScales of_scales = scale_of(largest.scale, 15);
  const ScaleOfScales of_minima = scale_of(largest.minimum, 15);
  put_half(block, 80, of_scales.scale);
  put_half(block, 82, of_minima.scale);
  for (size_t g = 0; g < kGroups16; ++g) {
    const auto scale = static_cast<unsigned>(nearest(of_scales.inverse * scales.at(g).scale));
    const auto minimum = static_cast<unsigned>(nearest(of_minima.inverse * scales.at(g).minimum));
    const unsigned packed = (scale | minimum << 4) & 0xFF;
    put_byte(block, g, packed);
    choose_again(values.subspan(16 * g, 16), group_codes(g),
                 {.scale = half_at(block, 80) * static_cast<float>(packed & 15),
                  .minimum = half_at(block, 82) * static_cast<float>(packed >> 4)},
                 3);
  }
  put_pairs(block, 16, codes, 0);
}

void encode_q3_k(std::span<const float> values, std::span<std::byte> block) {
  LongCodes codes{};
  std::array<float, kGroups16> scales{};
  for (size_t g = 0; g < kGroups16; ++g)
    scales.at(g) =
        refined_scale({values.subspan(16 * g, 16), std::span(codes).subspan(16 * g, 16), 4});
  std::fill(block.begin(), block.end(), std::byte{0});
  const float extreme = extreme_scale(scales);
  const float inverse = extreme != 0 ? -32 / extreme : 0.0F;
  put_half(block, 108, extreme != 0 ? 1 / inverse : 0.0F);
  for (size_t g = 0; g < kGroups16; ++g) {
    const int scale = extreme != 0 ? std::clamp(nearest(inverse * scales.at(g)), -32, 31) : -32;
    const auto stored = static_cast<unsigned>(scale + 32);
    add_bits(block, 96 + g % 8, (stored & 15) << (4 * (g / 8)));
    add_bits(block, 104 + g % 4, (stored >> 4) << (2 * (g / 4)));
    choose_signed_again(values, codes, g, half_at(block, 108) * static_cast<float>(scale), 4);
  }
  for (size_t i = 0; i < kLongBlock; ++i) add_bits(block, i % 32, (codes.at(i) >> 2U) << (i / 32));
  put_pairs(block, 32, codes, 0);
}

void encode_q4_k(std::span<const float> values, std::span<std::byte> block) {
  constexpr Search kSearch{.first = -1, .step = 0.1F, .steps = 20, .counts_magnitudes = false};
  put_long_nibbles(block, 16, encode_q45_k(values, block, 15, kSearch));
}

void encode_q5_k(std::span<const float> values, std::span<std::byte> block) {
  constexpr Search kSearch{.first = -0.5F, .step = 0.1F, .steps = 15, .counts_magnitudes = false};
  const LongCodes codes = encode_q45_k(values, block, 31, kSearch);
  std::fill(block.begin() + 16, block.begin() + 48, std::byte{0});
  for (size_t i = 0; i < kLongBlock; ++i)
    add_bits(block, 16 + i % 32, (codes.at(i) >> 4U) << (i / 32));
  put_long_nibbles(block, 48, codes);
}

void encode_q6_k(std::span<const float> values, std::span<std::byte> block) {
  LongCodes codes{};
  std::array<float, kGroups16> scales{};
  for (size_t g = 0; g < kGroups16; ++g)
    scales.at(g) =
        best_scale({values.subspan(16 * g, 16), std::span(codes).subspan(16 * g, 16), 32});
  std::fill(block.begin(), block.end(), std::byte{0});
  const float extreme = extreme_scale(scales);
  if (std::fabs(extreme) < kLeastGroup) return;
  const float inverse = -128 / extreme;
  put_half(block, 208, 1 / inverse);
  for (size_t g = 0; g < kGroups16; ++g) {
    const auto scale = static_cast<int8_t>(std::min(127, nearest(inverse * scales.at(g))));
    put_byte(block, 192 + g, static_cast<unsigned>(scale));
    choose_signed_again(values, codes, g, half_at(block, 208) * static_cast<float>(scale), 32);
  }
  for (size_t i = 0; i < kLongBlock / 2; ++i) {
    const size_t first = i / 64 * 128 + i % 64;
    put_byte(block, i, (codes.at(first) & 15U) | (codes.at(first + 64) & 15U) << 4);
  }
  put_pairs(block, 128, codes, 4);
}

}  // namespace rlx::blocks
