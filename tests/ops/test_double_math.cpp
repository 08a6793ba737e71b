// SPDX-License-Identifier: Apache-2.0
// The functions of doubles (shaders/lib/math64.inc) against libm in long double: class transc of
// ops.md 0.5 with u = 2^-53.
#include <functional>
#include <string>

#include "compiler/support/special_functions.h"
#include "tests/ops/glsl_math.h"
#include "tests/support/catch.h"

namespace rlx {
namespace {

using Wide = long double;
constexpr double kDoubleUnit = 0x1p-53;

// Pseudo-random doubles: of all exponents, or of exponents near 1.
class DoubleStream {
 public:
  double next() {
    const auto value = std::bit_cast<double>(bits());
    return std::isfinite(value) ? value : next();
  }
  double next_moderate() {
    const double significand = 1 + static_cast<double>(bits() >> 12) * 0x1p-52;
    const auto exponent = static_cast<int>(bits() % 40) - 30;
    return std::ldexp(bits() % 2 == 0 ? significand : -significand, exponent);
  }

 private:
  uint64_t bits() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t state_ = 1;
};

// Error in units of `relative` roundings of the reference and four of one; 0 where both are NaN,
// equal, or beyond the range of doubles.
double error_of(double got, Wide reference, double relative) {
  const auto rounded = static_cast<double>(reference);
  if (std::isnan(rounded) || std::isnan(got))
    return std::isnan(rounded) && std::isnan(got) ? 0 : 1e9;
  if (got == rounded) return 0;
  if (std::isinf(got) || std::isinf(rounded)) return std::fabs(reference) > 1.79e308L ? 0 : 1e9;
  const double bound = kDoubleUnit * (4 + relative * std::fabs(rounded)) + 0x1p-1022;
  return static_cast<double>(std::fabs(static_cast<Wide>(got) - reference)) / bound;
}

struct DoubleFunction {
  const char* name;
  double (*device)(double);
  Wide (*reference)(Wide);
};

const DoubleFunction kDoubleFunctions[] = {
    {"exp", glsl::rlx_exp, std::exp},
    {"exp2", glsl::rlx_exp2, std::exp2},
    {"expm1", glsl::rlx_expm1, std::expm1},
    {"log", glsl::rlx_log, std::log},
    {"log2", glsl::rlx_log2, std::log2},
    {"log10", glsl::rlx_log10, std::log10},
    {"log1p", glsl::rlx_log1p, std::log1p},
    {"sin", glsl::rlx_sin, std::sin},
    {"cos", glsl::rlx_cos, std::cos},
    {"tan", glsl::rlx_tan, std::tan},
    {"asin", glsl::rlx_asin, std::asin},
    {"acos", glsl::rlx_acos, std::acos},
    {"atan", glsl::rlx_atan, std::atan},
    {"sinh", glsl::rlx_sinh, std::sinh},
    {"cosh", glsl::rlx_cosh, std::cosh},
    {"tanh", glsl::rlx_tanh, std::tanh},
    {"asinh", glsl::rlx_asinh, std::asinh},
    {"acosh", glsl::rlx_acosh, std::acosh},
    {"atanh", glsl::rlx_atanh, std::atanh},
    {"erf", glsl::rlx_erf, std::erf},
    {"gelu", glsl::rlx_gelu,
     [](Wide x) -> Wide { return x < -1e4L ? 0 : x * std::erfc(-x / std::sqrt(2.0L)) / 2; }},
    {"sigmoid", glsl::rlx_sigmoid, [](Wide x) -> Wide { return 1 / (1 + std::exp(-x)); }},
    {"log_sigmoid", glsl::rlx_log_sigmoid,
     [](Wide x) -> Wide { return std::min(x, 0.0L) - std::log1p(std::exp(-std::fabs(x))); }},
    {"mish", glsl::rlx_mish,
     [](Wide x) -> Wide { return x > 1e4L ? x : x * std::tanh(std::log1p(std::exp(x))); }},
};

}  // namespace

TEST_CASE("functions of doubles stay within class transc over all of f64") {
  for (const DoubleFunction& function : kDoubleFunctions) {
    DoubleStream stream;
    double worst = 0;
    double worst_at = 0;
    for (int i = 0; i < 100000; ++i) {
      const double x = i % 2 == 0 ? stream.next_moderate() : stream.next();
      const double error = error_of(function.device(x), function.reference(x), 33);
      if (error <= worst) continue;
      worst = error;
      worst_at = x;
    }
    INFO(function.name << " at " << worst_at << ": " << function.device(worst_at));
    CHECK(worst < 0.5);
  }
}

TEST_CASE("functions of probability stay within class transc over doubles") {
  struct Function {
    const char* name;
    double (*device)(double);
    double (*reference)(double);
    double (*terms)(double);
  };
  const Function functions[] = {{"lgamma", glsl::rlx_lgamma, log_gamma, log_gamma},
                                {"digamma", glsl::rlx_digamma, digamma, digamma_terms},
                                {"trigamma", glsl::rlx_trigamma, trigamma, trigamma},
                                {"erfinv", glsl::rlx_erfinv, inverse_erf, inverse_erf},
                                {"erfcx", glsl::rlx_erfcx, scaled_erfc, scaled_erfc},
                                {"ndtri", glsl::rlx_ndtri, inverse_normal, inverse_normal},
                                {"i0e", glsl::rlx_i0e, scaled_bessel_i0, scaled_bessel_i0},
                                {"i1e", glsl::rlx_i1e, scaled_bessel_i1, scaled_bessel_i1}};
  for (const Function& function : functions) {
    DoubleStream stream;
    double worst = 0;
    double worst_at = 0;
    for (int i = 0; i < 20000; ++i) {
      // Also where the arguments of probabilities and of factorials lie.
      const double x =
          i % 3 == 0 ? stream.next() : (i % 3 == 1 ? 1 : 1e-3) * stream.next_moderate();
      const double got = function.device(x);
      const double reference = function.reference(x);
      const bool is_ordinary = std::isfinite(got) && std::isfinite(reference);
      const double bound = kDoubleUnit * (4 + 33 * std::fabs(function.terms(x))) + 0x1p-1022;
      const double error =
          is_ordinary ? std::fabs(got - reference) / bound : error_of(got, reference, 33);
      if (error <= worst) continue;
      worst = error;
      worst_at = x;
    }
    INFO(function.name << " at " << worst_at << ": " << function.device(worst_at));
    CHECK(worst < 0.5);
  }
}

TEST_CASE("pow of doubles stays within its class") {
  DoubleStream stream;
  double worst = 0;
  for (int i = 0; i < 100000; ++i) {
    const double x = std::fabs(stream.next_moderate());
    const double y = stream.next_moderate() * (i % 3 == 0 ? 100 : 1);
    const double relative = 33 + 2 * std::fabs(y * std::log(x));
    worst = std::max(worst, error_of(glsl::rlx_pow(x, y), std::pow(Wide{x}, Wide{y}), relative));
  }
  CHECK(worst < 0.5);
  CHECK(glsl::rlx_pow(-2.0, 3.0) == -8);
  CHECK(std::isnan(glsl::rlx_pow(-2.0, 0.5)));
  CHECK(glsl::rlx_pow(-0.5, int64_t{-3}) == -8);
}

TEST_CASE("remainders of doubles are exact and angles of two doubles right") {
  DoubleStream stream;
  for (int i = 0; i < 100000; ++i) {
    const double a = i % 2 == 0 ? stream.next_moderate() : stream.next();
    const double b = i % 3 == 0 ? stream.next_moderate() : stream.next();
    INFO(a << " and " << b);
    REQUIRE(glsl::rlx_fmod(a, b) == std::fmod(a, b));
    REQUIRE(error_of(glsl::rlx_atan2(a, b), std::atan2(Wide{a}, Wide{b}), 33) < 0.5);
  }
}

}  // namespace rlx
