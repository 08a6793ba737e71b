// SPDX-License-Identifier: Apache-2.0
// exp and log of the same bits on every machine: IEEE additions, products and quotients of doubles
// in a fixed order, where libraries differ in the last bit. What includes this is compiled with
// -ffp-contract=off, as a fused product would round otherwise.
#pragma once

#include <cmath>

namespace rlx {

// e^x within 2 units in the last place, for x <= 0; 0 below -700, where e^x is about 1e-304.
inline double portable_exp(double x) {
  constexpr double kLn2High = 0x1.62e42feep-1;  // products with small whole numbers are exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr int kTerms = 14;  // (ln 2 / 2)^14 / 14! is below 2^-57
  if (!(x >= -700)) return 0;
  const double k = std::floor(x / (kLn2High + kLn2Low) + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 1;
  for (int n = kTerms; n > 0; --n) sum = 1 + sum * r / n;
  return std::ldexp(sum, static_cast<int>(k));
}

// ln x within 4 units in the last place, for normal x: of x = m 2^e, by the series of
// ln m = 2 atanh((m - 1) / (m + 1)), near 1 as exact as anywhere.
inline double portable_log(double x) {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  constexpr double kSqrtHalf = 0x1.6a09e667f3bcdp-1;
  constexpr int kTerms = 12;  // 0.0295^12 / 25 is below 2^-65
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < kSqrtHalf) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double sum = 0;
  for (int n = kTerms; n >= 0; --n) sum = sum * square + 1.0 / (2 * n + 1);
  return exponent * kLn2 + 2 * s * sum;
}

}  // namespace rlx
