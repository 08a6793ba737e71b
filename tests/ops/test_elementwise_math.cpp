// SPDX-License-Identifier: Apache-2.0
// The scalar functions of the kernels against f64 libm, over all exponents: the bounds of ops.md
// 0.5.
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "compiler/support/special_functions.h"
#include "tests/ops/glsl_math.h"
#include "tests/support/catch.h"

namespace rlx {
namespace {

constexpr double kSingleUnit = 0x1p-24;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Error in units of the tolerance of class transc (4u + 32u |ref| + u |ref|); 0 where both are NaN
// or equal.
double transc_error(double got, double reference) {
  if (std::isnan(reference) || std::isnan(got))
    return std::isnan(reference) && std::isnan(got) ? 0 : 1e9;
  if (got == reference) return 0;
  const double rounded = static_cast<float>(reference);
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : 1e9;
  return std::fabs(got - reference) / (kSingleUnit * (4 + 33 * std::fabs(reference)));
}

double phi_gelu(double x) {
  return std::isinf(x) && x < 0 ? 0 : 0.5 * x * std::erfc(-x / std::sqrt(2.0));
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

struct SingleFunction {
  const char* name;
  float (*device)(float);
  double (*reference)(double);
};

const SingleFunction kSingleFunctions[] = {
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
    {"lgamma", glsl::rlx_lgamma, log_gamma},
    {"trigamma", glsl::rlx_trigamma, trigamma},
    {"erfinv", glsl::rlx_erfinv, inverse_erf},
    {"erfcx", glsl::rlx_erfcx, scaled_erfc},
    {"ndtri", glsl::rlx_ndtri, inverse_normal},
    {"i0e", glsl::rlx_i0e, scaled_bessel_i0},
    {"i1e", glsl::rlx_i1e, scaled_bessel_i1},
    {"sigmoid", glsl::rlx_sigmoid, sigmoid},
    {"gelu", glsl::rlx_gelu, phi_gelu},
    {"log_sigmoid", glsl::rlx_log_sigmoid,
     [](double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::fabs(x))); }},
    {"gelu_tanh", glsl::rlx_gelu_tanh,
     [](double x) {
       const double gate = sigmoid(2 * std::sqrt(2 / M_PI) * x * (1 + 0.044715 * x * x));
       return gate == 0 ? 0 : x * gate;
     }},
    {"silu", glsl::rlx_silu, [](double x) { return std::isinf(x) && x < 0 ? 0 : x * sigmoid(x); }},
    {"mish", glsl::rlx_mish,
     [](double x) {
       if (std::isinf(x)) return x < 0 ? 0 : x;
       return x * std::tanh(std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))));
     }},
    {"softsign", glsl::rlx_softsign,
     [](double x) { return std::isinf(x) ? std::copysign(1.0, x) : x / (1 + std::fabs(x)); }},
};

// Every `step`th bit pattern of f32: all signs and exponents, normals and NaNs; subnormals may be
// flushed and are left out.
void for_patterns(uint32_t step, const std::function<void(float)>& visit) {
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += step) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (value != 0 && std::fabs(value) < 0x1p-126f) continue;
    visit(value);
  }
}

// Pseudo-random floats of all exponents, and special values now and then.
class FloatStream {
 public:
  float next() {
    const uint32_t word = next_word();
    if (word % 16 == 0) return kSpecial[(word >> 8) % std::size(kSpecial)];
    const auto value = std::bit_cast<float>(next_word());
    return value != 0 && std::fabs(value) < 0x1p-126f ? 0.0f : value;
  }
  // Exponents near 1.
  float next_moderate() { return std::bit_cast<float>((next_word() & 0x87FFFFFFu) + 0x3C000000u); }
  uint32_t next_word() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 32);
  }

 private:
  static constexpr float kSpecial[] = {0.0f, -0.0f, 1.0f, -1.0f,     2.0f,       -2.0f, 0.5f,
                                       3.0f, -3.0f, 1e9f, kInfinity, -kInfinity, kNaN,  0x1p24f};
  uint64_t state_ = 1;
};

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

}  // namespace

TEST_CASE("scalar functions stay within class transc over all of f32") {
  for (const SingleFunction& function : kSingleFunctions) {
    double worst = 0;
    float worst_at = 0;
    for_patterns(9973, [&](float x) {
      const double error = transc_error(function.device(x), function.reference(x));
      if (error > worst) {
        worst = error;
        worst_at = x;
      }
    });
    INFO(function.name << " at " << worst_at << ": got " << function.device(worst_at) << " wanted "
                       << function.reference(worst_at));
    CHECK(worst < 0.5);
  }
}

TEST_CASE("digamma and the logarithm of gamma keep their accuracy beside poles and zeros") {
  double worst = 0;
  for (int whole = -40; whole <= 40; ++whole) {
    for (float rest = 0.5f; rest > 1e-7f; rest *= 0.97f) {
      for (const float x : {static_cast<float>(whole) + rest, static_cast<float>(whole) - rest}) {
        if (x <= 0 && std::nearbyint(x) == x) continue;
        worst = std::max(worst, transc_error(glsl::rlx_lgamma(x), log_gamma(x)));
        const double error = std::fabs(glsl::rlx_digamma(x) - digamma(x));
        worst = std::max(worst, error / (kSingleUnit * (4 + 33 * digamma_terms(x))));
      }
    }
  }
  CHECK(worst < 0.5);
  CHECK(glsl::rlx_lgamma(1.0f) == Approx(0).margin(2 * kSingleUnit));
  CHECK(glsl::rlx_digamma(0.0f) == -kInfinity);
  CHECK(std::isnan(glsl::rlx_digamma(-2.0f)));
}

TEST_CASE("functions without branches keep what they promise") {
  double worst_power = 0;
  double worst_size = 0;
  for (float x = -125.9f; x < 127.5f; x += 0.0137f) {
    const double power = std::exp2(double{x});
    worst_power = std::max(worst_power, std::fabs(glsl::rlx_exp2_straight(x) / power - 1));
    if (x < -80) continue;
    const double size = std::max(double{x}, 0.0) + std::log1p(std::exp(-std::fabs(double{x})));
    worst_size = std::max(worst_size, std::fabs(glsl::rlx_softplus_straight(x) / size - 1) /
                                          (4 + std::fabs(double{x})));
  }
  CHECK(worst_power < 2 * kSingleUnit);
  CHECK(worst_size < 1.5 * kSingleUnit);
  CHECK(glsl::rlx_exp2_straight(0.0f) == 1.0f);
  CHECK(glsl::rlx_exp2_straight(kInfinity) == kInfinity);
  CHECK(glsl::rlx_exp2_straight(-kInfinity) == 0x1p-126f);
  CHECK(glsl::rlx_softplus_straight(kInfinity) == kInfinity);
  CHECK(glsl::rlx_softplus_straight(-kInfinity) <= 0x1p-125f);
  CHECK(std::isnan(glsl::rlx_softplus_straight(std::nanf(""))));
}

TEST_CASE("gelu keeps its relative accuracy in the negative tail") {
  for (float x = -0.01f; x > -13.0f; x *= 1.01f) {
    const double reference = phi_gelu(x);
    INFO(x);
    CHECK(std::fabs(glsl::rlx_gelu(x) - reference) <= 64 * kSingleUnit * std::fabs(reference));
  }
  CHECK(glsl::rlx_gelu(-10.0f) == Approx(-7.6198530e-23).epsilon(1e-5));
  CHECK(glsl::rlx_gelu(-kInfinity) == 0.0f);
}

TEST_CASE("pow follows C and stays within its class") {
  FloatStream stream;
  double worst = 0;
  std::string worst_case;
  for (int i = 0; i < 400000; ++i) {
    const bool moderate = i % 2 == 0;
    const float x = moderate ? stream.next_moderate() : stream.next();
    const float y = moderate ? 30 * stream.next_moderate() : stream.next();
    const double reference = std::pow(double{x}, double{y});
    const double got = glsl::rlx_pow(x, y);
    if (got == reference || (std::isnan(got) && std::isnan(reference))) continue;
    const double rounded = static_cast<float>(reference);
    double error = 1e9;
    if (std::isinf(rounded) || std::isinf(got)) {
      error = std::isinf(got) && std::fabs(reference) > 3.4e38 &&
                      std::signbit(got) == std::signbit(reference)
                  ? 0
                  : 1e9;
    } else if (!std::isnan(got) && !std::isnan(reference)) {
      const double exponent = std::fabs(y * std::log(std::fabs(double{x})));
      error = std::fabs(got - reference) /
              (kSingleUnit * (4 + (33 + 2 * exponent) * std::fabs(reference)));
    }
    if (error > worst) {
      worst = error;
      worst_case = std::to_string(x) + " ^ " + std::to_string(y) + " = " + std::to_string(got) +
                   ", wanted " + std::to_string(reference);
    }
  }
  INFO(worst_case);
  CHECK(worst < 0.5);
  CHECK(glsl::rlx_pow(-2.0f, 3.0f) == -8.0f);
  CHECK(std::isnan(glsl::rlx_pow(-2.0f, 0.5f)));
  CHECK(glsl::rlx_pow(kNaN, 0.0f) == 1.0f);
  CHECK(glsl::rlx_pow(-1.0f, int64_t{16777217}) == -1.0f);
  CHECK(glsl::rlx_pow(2.0f, int64_t{-1}) == Approx(0.5f));
}

TEST_CASE("atan2 is quadrant aware for all pairs") {
  FloatStream stream;
  for (int i = 0; i < 200000; ++i) {
    const float y = stream.next();
    const float x = i % 3 == 0 ? y * stream.next_moderate() : stream.next();
    const double reference = std::atan2(double{y}, double{x});
    const float got = glsl::rlx_atan2(y, x);
    if (transc_error(got, reference) < 0.5) continue;
    INFO(y << " " << x << " got " << got << " wanted " << reference);
    REQUIRE(false);
  }
  CHECK(same(glsl::rlx_atan2(-0.0f, 1.0f), -0.0f));
  CHECK(glsl::rlx_atan2(-0.0f, -1.0f) == Approx(-3.14159265));
}

TEST_CASE("fmod is exact and mod takes the divisor's sign") {
  FloatStream stream;
  for (int i = 0; i < 200000; ++i) {
    const float a = i % 2 == 0 ? stream.next_moderate() : stream.next();
    const float b = i % 2 == 0 ? stream.next_moderate() : stream.next();
    INFO(a << " mod " << b);
    REQUIRE(same(glsl::rlx_fmod(a, b), std::fmod(a, b)));
    const float mod = glsl::rlx_mod(a, b);
    if (std::isnan(mod) || mod == 0) continue;
    REQUIRE(std::signbit(mod) == std::signbit(b));
    const double quotient = std::floor(double{a} / double{b});
    if (std::fabs(quotient) < 1e6 && !std::isinf(b)) {
      REQUIRE(glsl::rlx_floor_div(a, b) == static_cast<float>(quotient));
    }
  }
}

TEST_CASE("small quotients of integers are right, whatever the driver's last places are") {
  constexpr uint32_t kEnd = 1u << 21;
  for (const int units : {-3, 0, 3}) {
    glsl::quotient_error_units = units;
    for (uint32_t d = 1; d < kEnd; d += 1 + d / 7) {
      for (uint32_t n = 1; n < kEnd; n += 1 + kEnd / 97) {
        // Beside the multiples, where an error shows first.
        const uint32_t multiple = n - n % d;
        for (const uint32_t near : {n, multiple, multiple + d - 1, multiple - 1}) {
          if (near == 0 || near >= kEnd) continue;
          INFO("driver off by " << units << ": " << near << " / " << d);
          REQUIRE(glsl::rlx_small_quotient(near, d) == near / d);
        }
      }
    }
  }
  glsl::quotient_error_units = 0;
}

TEST_CASE("quotients are rounded to nearest, whatever the driver's last places are") {
  std::mt19937_64 random(11);
  const auto any = [&random] { return std::bit_cast<float>(static_cast<uint32_t>(random())); };
  const auto near_one = [&random] {
    return std::bit_cast<float>(0x3F000000u + static_cast<uint32_t>(random() % 0x01000000u));
  };
  for (const int units : {-3, -2, -1, 0, 1, 2, 3}) {
    glsl::quotient_error_units = units;
    for (int i = 0; i < 400'000; ++i) {
      const bool close = i % 2 == 0;
      const float a = close ? near_one() : any();
      const float b = close ? near_one() : any();
      const float wanted = a / b;
      // The driver's own: subnormal operands and results, and what is not finite.
      if (!std::isnormal(a) || !std::isnormal(b) || std::fpclassify(wanted) == FP_SUBNORMAL ||
          wanted == 0 || std::isinf(wanted) || std::abs(wanted) < 2.4e-38f)
        continue;
      INFO("driver off by " << units << ": " << a << " / " << b);
      REQUIRE(glsl::rlx_div(a, b) == wanted);
    }
    // A carry into the exponent, exact quotients, ends of the range.
    CHECK(glsl::rlx_div(0x1.fffffep0f, 0x1.fffffep0f) == 1.0f);
    CHECK(glsl::rlx_div(0x1.fffffep0f, 1.0f) == 0x1.fffffep0f);
    CHECK(glsl::rlx_div(-6.0f, 3.0f) == -2.0f);
    CHECK(glsl::rlx_div(0x1p-126f, 1.0f) == 0x1p-126f);
    CHECK(glsl::rlx_div(0x1.fffffep127f, 1.0f) == 0x1.fffffep127f);
    CHECK(glsl::rlx_div(1.0f, 0x1p-126f) == 0x1p126f);
  }
  glsl::quotient_error_units = 0;
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(glsl::rlx_div(1.0f, 0.0f) == infinity);
  CHECK(std::signbit(glsl::rlx_div(-0.0f, 3.0f)));
  CHECK(std::isnan(glsl::rlx_div(0.0f, 0.0f)));
  CHECK(std::isnan(glsl::rlx_div(infinity, infinity)));
  CHECK(glsl::rlx_div(3.0f, -infinity) == 0.0f);
  CHECK(glsl::rlx_div(0x1p127f, 0x1p-10f) == infinity);
}

TEST_CASE("fma rounds once") {
  FloatStream stream;
  for (int i = 0; i < 400000; ++i) {
    const float a = i % 4 == 3 ? stream.next() : stream.next_moderate();
    const float b = i % 4 == 3 ? stream.next() : stream.next_moderate();
    float c = i % 2 == 0 ? stream.next_moderate() : -a * b;
    if (i % 8 == 1) c = std::nextafter(c, kInfinity);
    if (i % 8 == 5) c *= 0x1p-25f;
    const float reference = std::fma(a, b, c);
    const float product = a * b;
    if (std::isinf(product) || (std::fabs(product) < 0x1p-100f && product != 0)) continue;
    INFO(a << " * " << b << " + " << c << " got " << glsl::rlx_fma(a, b, c) << " wanted "
           << reference);
    const float got = glsl::rlx_fma(a, b, c);
    REQUIRE((got == reference || (std::isnan(got) && std::isnan(reference))));
  }
}

TEST_CASE("fma of doubles rounds once") {
  FloatStream stream;
  const auto moderate = [&] {
    return stream.next_moderate() *
           (1 + stream.next_word() * 0x1p-32 + stream.next_word() * 0x1p-52);
  };
  for (int i = 0; i < 200000; ++i) {
    const double a = moderate();
    const double b = moderate();
    double c = i % 2 == 0 ? moderate() : -a * b;
    if (i % 8 == 1) c = std::nextafter(c, 1e300);
    if (i % 8 == 5) c *= 0x1p-54;
    REQUIRE(glsl::rlx_fma(a, b, c) == std::fma(a, b, c));
  }
}

TEST_CASE("casts between floats and integers are exact and saturate") {
  FloatStream stream;
  const auto saturated = [](double x, double low, double high) {
    return std::isnan(x) ? 0.0 : std::min(std::max(std::trunc(x), low), high);
  };
  for (int i = 0; i < 200000; ++i) {
    const float x = i % 2 == 0 ? stream.next() : stream.next_moderate() * 1e9f;
    INFO(x);
    REQUIRE(glsl::rlx_i32_from(x) == saturated(x, -0x1p31, 0x1p31 - 1));
    REQUIRE(glsl::rlx_u32_from(x) == saturated(x, 0, 0x1p32 - 1));
    if (std::fabs(x) < 0x1p62f) REQUIRE(glsl::rlx_i64_from(x) == static_cast<int64_t>(x));
    if (std::fabs(x) < 0x1p62f)
      REQUIRE(glsl::rlx_i64_from(double{x} / 3) == static_cast<int64_t>(double{x} / 3));
    const int64_t whole =
        static_cast<int64_t>(uint64_t{stream.next_word()} << 32 | stream.next_word()) >>
        (stream.next_word() % 64);
    REQUIRE(glsl::rlx_f32_from(whole) == static_cast<float>(whole));
    const int narrow = static_cast<int>(whole);
    REQUIRE(glsl::rlx_f32_odd_from(narrow) == glsl::rlx_f32_odd_from(int64_t{narrow}));
    REQUIRE(glsl::rlx_f64_from(whole) == static_cast<double>(whole));
    REQUIRE(glsl::rlx_f32_from(static_cast<int>(whole)) ==
            static_cast<float>(static_cast<int>(whole)));
    REQUIRE(glsl::rlx_f32_from(static_cast<uint32_t>(whole)) ==
            static_cast<float>(static_cast<uint32_t>(whole)));
  }
  CHECK(glsl::rlx_i64_from(1e30f) == std::numeric_limits<int64_t>::max());
  CHECK(glsl::rlx_i64_from(-kInfinity) == std::numeric_limits<int64_t>::min());
  CHECK(glsl::rlx_f32_from(std::numeric_limits<int64_t>::max()) == 9.223372e18f);
  CHECK(glsl::rlx_f32_from((int64_t{1} << 53) + 1) == 9007199254740992.0f);
}

TEST_CASE("integer division, shifts and powers have no undefined cases") {
  const int lowest = std::numeric_limits<int>::min();
  CHECK(glsl::rlx_div(5, 0) == 0);
  CHECK(glsl::rlx_div(lowest, -1) == lowest);
  CHECK(glsl::rlx_mod(-7, 3) == 2);
  CHECK(glsl::rlx_fmod(-7, 3) == -1);
  CHECK(glsl::rlx_floor_div(-7, 3) == -3);
  CHECK(glsl::rlx_floor_div(7, 0) == 0);
  CHECK(glsl::rlx_pow(2, -1) == 0);
  CHECK(glsl::rlx_pow(-1, -3) == -1);
  CHECK(glsl::rlx_pow(3, 21) == static_cast<int>(uint32_t{10460353203u & 0xFFFFFFFFu}));
  CHECK(glsl::rlx_shift_left(1, 32, 32) == 0);
  CHECK(glsl::rlx_shift_right(-8, 40, 32) == -1);
  CHECK(glsl::rlx_shift_right(0x80000000u, 31u, 32) == 1u);
  CHECK(glsl::rlx_shift_left(int64_t{1}, int64_t{40}, 64) == int64_t{1} << 40);
  CHECK(glsl::rlx_abs(lowest) == lowest);
}

TEST_CASE("rounding keeps signs and ties go to even") {
  CHECK(same(glsl::rlx_round(-0.5f), -0.0f));
  CHECK(glsl::rlx_round(2.5f) == 2.0f);
  CHECK(glsl::rlx_round(-2.5f) == -2.0f);
  CHECK(same(glsl::rlx_ceil(-0.5f), -0.0f));
  CHECK(same(glsl::rlx_floor(-0.0f), -0.0f));
  CHECK(std::isnan(glsl::rlx_max(kNaN, 1.0f)));
  CHECK(std::isnan(glsl::rlx_min(1.0f, kNaN)));
  CHECK(glsl::rlx_clamp(5.0f, 3.0f, 2.0f) == 2.0f);
  CHECK(glsl::rlx_sign(-0.0f) == 0.0f);
}

}  // namespace rlx
