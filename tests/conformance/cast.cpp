// SPDX-License-Identifier: Apache-2.0
// Conformance of cast between every pair of dtypes, and bitcast.
#include <cmath>
#include <limits>
#include <string>

#include "compiler/support/blocks.h"
#include "tests/conformance/elementwise.h"

namespace rlx::test {
namespace {

constexpr DType kAll[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8,   DType::u8,
                          DType::i16, DType::i32, DType::u32,  DType::i64, DType::bool_};

Case cast(const std::string& law, CaseTensor x, DType to,
          const std::string& overflow = "saturate") {
  const std::string name(name_of(to));
  const bool keeps_bits = x.type.dtype == to || !is_float8(to);
  return {.name = law + " " + to_string(x.type) + " to " + name + ", " + overflow,
          .op = "cast",
          .inputs = {std::move(x)},
          .attributes = R"({"to": ")" + name + R"(", "overflow": ")" + overflow + R"("})",
          .tolerance = keeps_bits ? Tolerance::Exact : Tolerance::Arith};
}

void add_pairs(std::vector<Case>& cases) {
  for (DType from : kAll) {
    for (DType to : kAll) {
      cases.push_back(cast("T2 edges", edges_of(from, {515}), to));
      if (!is_float(from) && !is_float(to))
        cases.push_back(cast("T3 edges", edges_of(from, {515}), to, "wrap"));
    }
  }
  for (DType to : kAll)
    cases.push_back(
        cast("T2 values beyond 32 bits", tensor(DType::f32, {515}).uniform(-1e10, 1e10), to));
}

void add_rounding(std::vector<Case>& cases) {
  std::vector<int64_t> wide;
  for (int shift = 0; shift < 63; ++shift) {
    for (int64_t low : {-1, 0, 1})
      wide.push_back((int64_t{1} << shift) + (int64_t{1} << (shift / 2)) + low);
    wide.push_back(-(int64_t{0x1010101010101010} >> (62 - shift)) - 1);
  }
  const auto count = static_cast<int64_t>(wide.size());
  for (DType to : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    cases.push_back(
        cast("T3 one rounding from 64 bits", tensor(DType::i64, {count}).of_integers(wide), to));
  }
  std::vector<int64_t> words;
  for (int64_t value : wide) words.push_back(value & 0xFFFFFFFF);
  for (DType to : {DType::f32, DType::f16, DType::bf16}) {
    cases.push_back(
        cast("one rounding from 32 bits", tensor(DType::u32, {count}).of_integers(words), to));
  }
  // Ties of the 16-bit formats, a little more and a little less.
  std::vector<double> ties;
  for (double base : {1.0, 3.0, 1000.0, 65504.0, 1e-5, 6e-8, 1e-7, 3.3e38}) {
    for (double step : {0x1p-11, 0x1p-8, 0x1p-9, 3 * 0x1p-11, 3 * 0x1p-8}) {
      for (double off : {-0x1p-22, 0.0, 0x1p-22}) ties.push_back(base * (1 + step + off));
    }
  }
  const auto tie_count = static_cast<int64_t>(ties.size());
  for (DType to : {DType::f16, DType::bf16}) {
    cases.push_back(cast("nearest even", tensor(DType::f32, {tie_count}).of(ties), to));
    cases.push_back(cast("nearest even, once", tensor(DType::f64, {tie_count}).of(ties), to));
  }
}

Case golden(const std::string& law, CaseTensor x, DType to, std::vector<double> y,
            const std::string& overflow = "saturate") {
  Case test = cast(law, std::move(x), to, overflow);
  test.golden = {std::move(y)};
  return test;
}

void add_cast_traps(std::vector<Case>& cases) {
  cases.push_back(golden("T2", tensor(DType::f32, {4}).of({1.9, -1.9, 3e9, kNan}), DType::i32,
                         {1, -1, 2147483647, 0}));
  cases.push_back(
      golden("T2", tensor(DType::f32, {4}).of({0, -0.0, 0.3, kNan}), DType::bool_, {0, 0, 1, 1}));
  cases.push_back(golden("T2", tensor(DType::f32, {1}).of({1 + 0x1p-12}), DType::f16, {1}));
  cases.push_back(golden("T2", tensor(DType::f32, {1}).of({-1.7}), DType::u8, {0}));
  cases.push_back(golden("T3", tensor(DType::i16, {1}).of({200}), DType::i8, {127}));
  cases.push_back(golden("T3", tensor(DType::i16, {1}).of({200}), DType::i8, {-56}, "wrap"));
  cases.push_back(
      golden("T3",
             tensor(DType::i64, {2})
                 .of_integers({(int64_t{1} << 53) + 1, std::numeric_limits<int64_t>::max()}),
             DType::f32, {9007199254740992.0, 9.223372036854775808e18}));
  cases.push_back(golden("T3", tensor(DType::i32, {1}).of({-1}), DType::u32, {0}));
  cases.push_back(
      golden("T3", tensor(DType::i32, {1}).of({-1}), DType::u32, {4294967295.0}, "wrap"));
  cases.push_back(cast("T19 nothing to do", tensor(DType::f32, {0, 3}), DType::i8));
  cases.push_back(cast("rank 8", tensor(DType::f32, {1, 2, 3, 1, 2, 3, 2, 1}), DType::f16));
}

constexpr DType kFloat8[] = {DType::f8e4m3, DType::f8e5m2};

// Around every code: the codes' values, the middles between them, a little more and a little less.
std::vector<double> float8_neighbours(DType dtype) {
  std::vector<double> values;
  for (int code = 0; code < 0x7F; ++code) {
    const double low = double_from_float8(dtype, static_cast<uint8_t>(code));
    const double next = double_from_float8(dtype, static_cast<uint8_t>(code + 1));
    const double high = std::isfinite(next) ? next : dtype == DType::f8e4m3 ? 480 : 65536;
    if (!std::isfinite(low)) continue;
    const double middle = (low + high) / 2;
    for (double value : {low, middle, middle * (1 - 0x1p-23), middle * (1 + 0x1p-23)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  for (double value : {500.0, 1e5, 3e38, std::numeric_limits<double>::infinity(), kNan}) {
    values.insert(values.end(), {value, -value});
  }
  return values;
}

void add_float8(std::vector<Case>& cases) {
  for (DType to : kFloat8) {
    const std::vector<double> values = float8_neighbours(to);
    const auto count = static_cast<int64_t>(values.size());
    for (const char* overflow : {"saturate", "wrap"}) {
      cases.push_back(
          cast("T2 around every code,", tensor(DType::f32, {count}).of(values), to, overflow));
      cases.push_back(
          cast("T2 one rounding,", tensor(DType::f64, {count}).of(values), to, overflow));
      cases.push_back(cast("T2 edges", edges_of(DType::f16, {515}), to, overflow));
      cases.push_back(cast("T2 edges", edges_of(DType::i64, {515}), to, overflow));
      cases.push_back(cast("T2", tensor(DType::i32, {515}).range(-70000, 70000), to, overflow));
    }
    for (DType from : {DType::bf16, DType::i8, DType::u8, DType::i16, DType::u32, DType::bool_})
      cases.push_back(cast("T2 edges", edges_of(from, {515}), to));
    for (DType wide : kAll) cases.push_back(cast("T2 every code,", edges_of(to, {515}), wide));
    for (DType other : kFloat8) cases.push_back(cast("T2 every code,", edges_of(to, {515}), other));
  }
  cases.push_back(golden("T2 saturates", tensor(DType::f32, {5}).of({449, -1e9, 464, 465, 0.3}),
                         DType::f8e4m3, {0x7E, 0xFE, 0x7E, 0x7E, 0x2A}));
  cases.push_back(golden("T2 wraps to NaN", tensor(DType::f32, {4}).of({449, -1e9, 464, 465}),
                         DType::f8e4m3, {0x7E, 0xFF, 0x7E, 0x7F}, "wrap"));
  cases.push_back(golden("T2 wraps to infinity",
                         tensor(DType::f32, {4}).of({57344, 61439, 61440, -1e9}), DType::f8e5m2,
                         {0x7B, 0x7B, 0x7C, 0xFC}, "wrap"));
}

void add_complex_casts(std::vector<Case>& cases) {
  for (DType from : kAll) {
    cases.push_back(cast("real to complex", edges_of(from, {515}), DType::c64));
    cases.back().tolerance = Tolerance::Arith;
  }
  for (DType to : kAll) cases.push_back(cast("T2 real part", edges_of(DType::c64, {515}), to));
  cases.push_back(cast("to 8 bits", edges_of(DType::c64, {515}), DType::f8e4m3));
  cases.push_back(cast("from 8 bits", edges_of(DType::f8e5m2, {515}), DType::c64));
  cases.back().tolerance = Tolerance::Arith;
  cases.push_back(
      golden("golden", tensor(DType::c64, {3}).of({2.5, 7, -1, 0, 0, 3}), DType::bool_, {1, 1, 1}));
}

void add_bitcasts(std::vector<Case>& cases) {
  const auto add = [&](CaseTensor x, const char* to) {
    cases.push_back({.name = "bits of " + to_string(x.type) + " as " + to,
                     .op = "bitcast",
                     .inputs = {std::move(x)},
                     .attributes = std::string(R"({"to": ")") + to + R"("})"});
  };
  add(tensor(DType::f32, {64}), "i32");
  add(tensor(DType::i32, {64}).range(0x3F000000, 0x40000000), "f32");
  add(tensor(DType::f16, {64}), "i16");
  add(tensor(DType::f64, {64}), "i64");
  add(tensor(DType::u8, {64}).edges(), "i8");
  add(tensor(DType::bool_, {64}), "u8");
  add(tensor(DType::f8e4m3, {64}).edges(), "u8");
  add(tensor(DType::u8, {64}), "f8e5m2");
  add(tensor(DType::c64, {64}), "i64");
}

}  // namespace

std::vector<Case> cast_cases() {
  std::vector<Case> cases;
  add_pairs(cases);
  add_rounding(cases);
  add_cast_traps(cases);
  add_float8(cases);
  add_complex_casts(cases);
  add_bitcasts(cases);
  return cases;
}

}  // namespace rlx::test
