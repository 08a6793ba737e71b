// SPDX-License-Identifier: Apache-2.0
// Conformance of cast between every pair of dtypes, and bitcast.
#include <limits>
#include <string>

#include "tests/conformance/elementwise.h"

namespace rlx::test {
namespace {

const double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr DType kAll[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8,   DType::u8,
                          DType::i16, DType::i32, DType::u32,  DType::i64, DType::bool_};

Case cast(const std::string& law, CaseTensor x, DType to,
          const std::string& overflow = "saturate") {
  const std::string name(name_of(to));
  return {.name = law + " " + to_string(x.type) + " to " + name + ", " + overflow,
          .op = "cast",
          .inputs = {std::move(x)},
          .attributes = R"({"to": ")" + name + R"(", "overflow": ")" + overflow + R"("})"};
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

void add_traps(std::vector<Case>& cases) {
  cases.push_back(golden("T2", tensor(DType::f32, {4}).of({1.9, -1.9, 3e9, kNaN}), DType::i32,
                         {1, -1, 2147483647, 0}));
  cases.push_back(
      golden("T2", tensor(DType::f32, {4}).of({0, -0.0, 0.3, kNaN}), DType::bool_, {0, 0, 1, 1}));
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
}

}  // namespace

std::vector<Case> cast_cases() {
  std::vector<Case> cases;
  add_pairs(cases);
  add_rounding(cases);
  add_traps(cases);
  add_bitcasts(cases);
  return cases;
}

}  // namespace rlx::test
