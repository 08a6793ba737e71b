// SPDX-License-Identifier: Apache-2.0
#include "compiler/support/special_functions.h"

#include <array>
#include <cmath>
#include <limits>

namespace rlx {
namespace {

using Wide = long double;
constexpr Wide kPi = 3.14159265358979323846264338327950288L;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Bernoulli numbers B_2, B_4, ...
constexpr std::array<Wide, 10> kBernoulli = {
    1.0L / 6,       -1.0L / 30, 1.0L / 42,      -1.0L / 30,     5.0L / 66,
    -691.0L / 2730, 7.0L / 6,   -3617.0L / 510, 43867.0L / 798, -174611.0L / 330};
constexpr Wide kSeriesFrom = 24;  // from here on ten terms of the asymptotic series are exact

bool is_whole(double x) {
  return std::nearbyint(x) == x;
}

// How far x lies from the nearest whole number: exact.
Wide rest_of_turn(double x) {
  return Wide{x} - std::nearbyint(x);
}

Wide digamma_above(Wide x) {
  Wide sum = 0;
  for (; x < kSeriesFrom; x += 1) sum -= 1 / x;
  sum += std::log(x) - 1 / (2 * x);
  Wide power = 1;
  for (size_t k = 1; k <= kBernoulli.size(); ++k) {
    power /= x * x;
    sum -= kBernoulli.at(k - 1) / static_cast<Wide>(2 * k) * power;
  }
  return sum;
}

Wide trigamma_above(Wide x) {
  Wide sum = 0;
  for (; x < kSeriesFrom; x += 1) sum += 1 / (x * x);
  sum += 1 / x + 1 / (2 * x * x);
  Wide power = 1 / x;
  for (const Wide number : kBernoulli) {
    power /= x * x;
    sum += number * power;
  }
  return sum;
}

Wide cotangent_of_turn(double x) {
  return kPi / std::tan(kPi * rest_of_turn(x));
}

// y > 0 of erfc(y) = tail <= 1, by a step of Halley's method until it moves no more.
Wide inverse_erfc(Wide tail) {
  const Wide w = -std::log(tail * (2 - tail));
  Wide y = w < 4 ? std::sqrt(kPi) / 2 * (1 - tail) : std::sqrt(w);
  constexpr int kMostSteps = 100;
  for (int i = 0; i < kMostSteps; ++i) {
    // Of ln erfc(y) = ln tail where the tail is thin, of erf(y) = 1 - tail elsewhere.
    const Wide density = 2 / std::sqrt(kPi) * std::exp(-y * y);
    const Wide miss = tail > 0.5L ? std::erf(y) - (1 - tail) : tail - std::erfc(y);
    const Wide step = miss / density;
    const Wide next = y - step / (1 + y * step);
    if (std::fabs(next - y) <= 0x1p-62L * y) return next;
    y = next;
  }
  return y;
}

// Of large x: 1 - (m - 1) / (8x) + (m - 1)(m - 9) / (2! (8x)^2) - ... over sqrt(2 pi x), m = 4
// order^2.
Wide bessel_far(Wide x, int order) {
  const auto m = static_cast<Wide>(4 * order * order);
  Wide sum = 0;
  Wide term = 1;
  for (int k = 1; std::fabs(term) > 0x1p-70L; ++k) {
    sum += term;
    const auto odd = static_cast<Wide>(2 * k - 1);
    term *= -(m - odd * odd) / (static_cast<Wide>(k) * 8 * x);
  }
  return sum / std::sqrt(2 * kPi * x);
}

// (x / 2)^order times the sum of (x^2 / 4)^k / (k! (k + order)!), times e^-x.
Wide bessel_near(Wide x, int order) {
  const Wide z = x * x / 4;
  Wide sum = 0;
  Wide term = order == 0 ? 1 : x / 2;
  for (int k = 1; term > 0x1p-70L * sum; ++k) {
    sum += term;
    term *= z / (static_cast<Wide>(k) * static_cast<Wide>(k + order));
  }
  return sum * std::exp(-x);
}

double scaled_bessel(double x, int order) {
  if (std::isnan(x)) return x;
  constexpr double kFar = 40;  // where the far series' smallest term is below 2^-100
  const double size = std::fabs(x);
  if (std::isinf(x)) return std::copysign(0.0, order == 0 ? 1.0 : x);
  const Wide y = size < kFar ? bessel_near(size, order) : bessel_far(size, order);
  return static_cast<double>(order == 1 && std::signbit(x) ? -y : y);
}

}  // namespace

double log_gamma(double x) {
  int sign = 0;
  return static_cast<double>(lgammal_r(x, &sign));
}

double digamma(double x) {
  if (std::isnan(x) || x == kInfinity) return x;
  if (x == 0) return std::signbit(x) ? kInfinity : -kInfinity;
  if (x > 0) return static_cast<double>(digamma_above(x));
  if (is_whole(x)) return kNaN;
  return static_cast<double>(digamma_above(1 - Wide{x}) - cotangent_of_turn(x));
}

double digamma_terms(double x) {
  if (!(x < 0) || is_whole(x)) return std::fabs(digamma(x));
  return static_cast<double>(std::fabs(digamma_above(1 - Wide{x})) +
                             std::fabs(cotangent_of_turn(x)));
}

double trigamma(double x) {
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return x > 0 ? 0 : kNaN;
  if (x > 0) return static_cast<double>(trigamma_above(x));
  if (is_whole(x)) return kInfinity;
  const Wide part = kPi / std::sin(kPi * rest_of_turn(x));
  return static_cast<double>(part * part - trigamma_above(1 - Wide{x}));
}

double inverse_erf(double x) {
  if (!(std::fabs(x) <= 1)) return kNaN;
  if (x == 0) return x;
  if (std::fabs(x) == 1) return std::copysign(kInfinity, x);
  constexpr double kLinear = 1e-9;  // below it erfinv(x) is sqrt(pi) / 2 x but for 2^-60 of it
  const Wide size = std::fabs(Wide{x});
  const Wide y = size < kLinear ? std::sqrt(kPi) / 2 * size : inverse_erfc(1 - size);
  return std::copysign(static_cast<double>(y), x);
}

double inverse_normal(double p) {
  if (!(p >= 0 && p <= 1)) return kNaN;
  if (p == 0 || p == 1) return p == 0 ? -kInfinity : kInfinity;
  if (p == 0.5) return 0;
  const Wide tail = 2 * (p < 0.5 ? Wide{p} : 1 - Wide{p});
  const auto y = static_cast<double>(std::sqrt(2.0L) * inverse_erfc(tail));
  return p < 0.5 ? -y : y;
}

double scaled_erfc(double x) {
  if (std::isnan(x)) return x;
  constexpr double kFar = 30;
  const Wide wide = x;
  if (x < kFar) return static_cast<double>(std::exp(wide * wide) * std::erfc(wide));
  Wide sum = 0;
  Wide term = 1;
  for (int k = 1; std::fabs(term) > 0x1p-70L; ++k) {
    sum += term;
    term *= -static_cast<Wide>(2 * k - 1) / (2 * wide * wide);
  }
  return static_cast<double>(sum / (wide * std::sqrt(kPi)));
}

double scaled_bessel_i0(double x) {
  return scaled_bessel(x, 0);
}

double scaled_bessel_i1(double x) {
  return scaled_bessel(x, 1);
}

}  // namespace rlx
