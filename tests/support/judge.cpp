// SPDX-License-Identifier: Apache-2.0
// The tolerance table of ops.md 0.5.
#include "tests/support/judge.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "compiler/support/blocks.h"
#include "compiler/support/complex_bits.h"

namespace rlx::test {
namespace {

struct Format {
  double unit;          // u: of the arithmetic
  double half_ulp;      // u_out
  double largest;       // finite
  double least_normal;  // below it the grid is absolute
  double grid;          // spacing of subnormals
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {0x1p-24, 0x1p-11, 65504, 0x1p-14, 0x1p-24};
    case DType::bf16:
      return {0x1p-24, 0x1p-8, 0x1.fep127, 0x1p-126, 0x1p-133};
    case DType::f64:
      return {0x1p-53, 0x1p-53, 0x1.fffffffffffffp1023, 0x1p-1022, 0x1p-1074};
    default:
      return {0x1p-24, 0x1p-24, 0x1.fffffep127, 0x1p-126, 0x1p-149};
  }
}

// Largest finite magnitude of the row (last axis) that holds each element, for class norm.
std::vector<double> row_maxima(const Tensor& reference) {
  const int64_t row =
      reference.type.shape.empty() ? 1 : std::max<int64_t>(reference.type.shape.back(), 1);
  std::vector<double> maxima(reference.floats.size());
  for (size_t first = 0; first < maxima.size(); first += static_cast<size_t>(row)) {
    double largest = 0;
    for (size_t i = first; i < first + static_cast<size_t>(row); ++i) {
      if (std::isfinite(reference.floats[i]))
        largest = std::max(largest, std::fabs(reference.floats[i]));
    }
    std::fill_n(maxima.begin() + static_cast<int64_t>(first), row, largest);
  }
  return maxima;
}

class Judge {
 public:
  Judge(const Tensor& reference, Tolerance tolerance)
      : reference_(reference), tolerance_(tolerance), format_(format_of(reference.type.dtype)) {
    if (tolerance == Tolerance::Norm || tolerance == Tolerance::NormDouble ||
        tolerance == Tolerance::AttentionHalf) {
      maxima_ = row_maxima(reference);
    }
  }

  // Largest allowed |got - reference| of element i.
  [[nodiscard]] double bound(size_t i) const {
    const double magnitude = std::fabs(reference_.floats[i]);
    const double u = format_.unit;
    // Rounding to the output: half an ulp, or half the grid of subnormals; f32 subnormals may be
    // flushed (0.4-8).
    const double rounding = std::max(format_.half_ulp * magnitude, format_.grid / 2);
    const double flush = reference_.type.dtype == DType::f16 ? 0 : format_.least_normal;
    return rounding + flush + class_bound(i, magnitude, u);
  }

 private:
  [[nodiscard]] double class_bound(size_t i, double magnitude, double u) const {
    switch (tolerance_) {
      case Tolerance::Exact:
        return 0;
      case Tolerance::Arith:
        return u * magnitude;
      case Tolerance::ArithDiv:
        return 6 * u * magnitude;
      case Tolerance::Transc:
        return 4 * u + 32 * u * magnitude;
      case Tolerance::TranscOfTerms:
        return 4 * u + 32 * u * terms(i, magnitude);
      // |y ln x| is |ln(x^y)|, known from the result itself.
      case Tolerance::Pow:
        return 4 * u + (32 + 2 * std::fabs(std::log(std::max(magnitude, 1e-300)))) * u * magnitude;
      case Tolerance::Sum: {
        return terms(i, magnitude) * u * (8 + 2 * std::sqrt(static_cast<double>(reference_.terms)));
      }
      case Tolerance::Norm:
        return 1e-5 * maxima_[i] + 1e-6 + 2e-5 * magnitude;
      // As many units of f64 as Norm has of f32, and 8 times as many for what the reference's own
      // long sums lose.
      case Tolerance::NormDouble:
        return (1e-5 * maxima_[i] + 1e-6 + 2e-5 * magnitude) * 0x1p-26;
      case Tolerance::AttentionHalf:
        return (1e-5 + 4 * format_.half_ulp) * maxima_[i] + 1e-6 + 2e-5 * magnitude;
    }
    return 0;
  }

  // The sizes of the terms of element i, its own where the reference does not tell.
  [[nodiscard]] double terms(size_t i, double magnitude) const {
    return reference_.magnitudes.empty() ? magnitude : reference_.magnitudes[i];
  }

  const Tensor& reference_;
  Tolerance tolerance_;
  Format format_;
  std::vector<double> maxima_;
};

std::string described(size_t index, double got, double wanted, double bound) {
  std::ostringstream text;
  text.precision(9);
  text << "element " << index << ": got " << got << ", wanted " << wanted << " within " << bound;
  return text.str();
}

// True where infinities, NaN and overflow make the usual bound meaningless and the values agree.
bool agrees_specially(double got, double wanted, double bound, double largest) {
  if (std::isnan(wanted)) return std::isnan(got);
  if (std::isinf(wanted)) return got == wanted;
  // Values within the bound of the largest finite number may round to infinity.
  return std::isinf(got) && std::signbit(got) == std::signbit(wanted) &&
         std::fabs(wanted) + bound > largest;
}

// The parts of c64 as f32, one behind the other along a new last axis.
Tensor parts_of(const Tensor& tensor) {
  Tensor parts = Tensor::zeros({DType::f32, tensor.type.shape});
  parts.type.shape.push_back(2);
  parts.floats.clear();
  for (const int64_t bits : tensor.integers) {
    const std::complex<double> z = complex_from_bits(bits);
    parts.floats.insert(parts.floats.end(), {z.real(), z.imag()});
  }
  parts.magnitudes = tensor.magnitudes;
  parts.terms = tensor.terms;
  return parts;
}

// The sign of a NaN that a conversion makes is free (ops.md 0.4-7), of 8-bit floats too.
bool both_nan(DType dtype, int64_t got, int64_t reference) {
  if (!is_float8(dtype)) return false;
  const auto is_nan = [dtype](int64_t code) {
    return std::isnan(double_from_float8(dtype, static_cast<uint8_t>(code)));
  };
  return is_nan(got) && is_nan(reference);
}

Verdict judge_exact(const Tensor& got, const Tensor& reference) {
  for (size_t i = 0; i < got.floats.size(); ++i) {
    const double wanted = round_to(reference.type.dtype, reference.floats[i]);
    const bool both_nan = std::isnan(wanted) && std::isnan(got.floats[i]);
    const bool same =
        got.floats[i] == wanted && std::signbit(got.floats[i]) == std::signbit(wanted);
    if (!both_nan && !same) {
      return {.good = false, .worst_ratio = 0, .fault = described(i, got.floats[i], wanted, 0)};
    }
  }
  for (size_t i = 0; i < got.integers.size(); ++i) {
    if (got.integers[i] == reference.integers[i]) continue;
    return {.good = false,
            .worst_ratio = 0,
            .fault = "element " + std::to_string(i) + ": got " + std::to_string(got.integers[i]) +
                     ", wanted " + std::to_string(reference.integers[i])};
  }
  if (got.blocks != reference.blocks) {
    return {.good = false, .worst_ratio = 0, .fault = "blocks of other bytes"};
  }
  return {};
}

Verdict judge_codes(const Tensor& got, const Tensor& reference) {
  Tensor same = got;
  for (size_t i = 0; i < same.integers.size(); ++i) {
    if (both_nan(got.type.dtype, got.integers[i], reference.integers[i]))
      same.integers[i] = reference.integers[i];
  }
  return judge_exact(same, reference);
}

}  // namespace

Verdict judge(const Tensor& got, const Tensor& reference, Tolerance tolerance) {
  if (got.type.dtype == DType::c64 && tolerance != Tolerance::Exact)
    return judge(parts_of(got), parts_of(reference), tolerance);
  if (is_float8(got.type.dtype) && tolerance != Tolerance::Exact)
    return judge_codes(got, reference);
  if (tolerance == Tolerance::Exact || !got.is_float()) return judge_exact(got, reference);
  const Judge rules(reference, tolerance);
  const double largest = format_of(reference.type.dtype).largest;
  Verdict verdict;
  for (size_t i = 0; i < got.floats.size(); ++i) {
    const double wanted = reference.floats[i];
    const double bound = rules.bound(i);
    if (agrees_specially(got.floats[i], wanted, bound, largest)) continue;
    const double error = std::fabs(got.floats[i] - wanted);
    const double ratio = error / bound;
    if (std::isfinite(ratio)) verdict.worst_ratio = std::max(verdict.worst_ratio, ratio);
    if (!(error <= bound) && verdict.good) {
      verdict.good = false;
      verdict.fault = described(i, got.floats[i], wanted, bound);
    }
  }
  return verdict;
}

}  // namespace rlx::test
