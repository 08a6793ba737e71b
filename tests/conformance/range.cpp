// SPDX-License-Identifier: Apache-2.0
// Cases of range, ramp, fill, eye.
#include <limits>
#include <string>

#include "tests/conformance/elementwise.h"

namespace rlx::test {
namespace {

CaseTensor number(DType dtype, double value) {
  return tensor(dtype, {}).of({value});
}

// Bounds that the compiler knows.
Case range(std::string law, DType dtype, double start, double limit, double delta,
           std::vector<double> golden = {}) {
  Case test{.name = std::move(law),
            .op = "range",
            .inputs = {number(dtype, start).param(), number(dtype, limit).param(),
                       number(dtype, delta).param()},
            .tolerance = Tolerance::Arith};
  if (!golden.empty()) test.golden = {std::move(golden)};
  return test;
}

void add_ranges(std::vector<Case>& cases) {
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16,
                  DType::i32, DType::u32, DType::i64}) {
    cases.push_back(range("the limit is left out", t, 3, 18, 5, {3, 8, 13}));
    cases.push_back(range("a rest of a step counts", t, 2, 9, 3, {2, 5, 8}));
  }
  cases.push_back(range("downward", DType::i32, 10, 4, -2, {10, 8, 6}));
  cases.push_back(range("downward in reals", DType::f32, 1, 0, -0.25, {1, 0.75, 0.5, 0.25}));
  cases.push_back(range("T19 none", DType::f32, 3, 3, 1));
  cases.push_back(range("T19 the wrong way", DType::i64, 3, 9, -1));
  cases.push_back(range("one rounding", DType::f32, 0.1, 50, 0.1));
  cases.push_back(range("halves are computed in f32", DType::f16, 0.5, 800, 0.25));
  // The lowest and the highest number are further apart than an i64 can tell.
  Case far = range("from one end of i64 to the other", DType::i64, 0, 0, 0);
  const int64_t lowest = std::numeric_limits<int64_t>::min();
  far.inputs = {tensor(DType::i64, {}).of_integers({lowest}).param(),
                tensor(DType::i64, {}).of_integers({-(lowest + 1)}).param(),
                tensor(DType::i64, {}).of_integers({int64_t{1} << 62}).param()};
  cases.push_back(std::move(far));
}

// Bounds that the device reads.
void add_ramps(std::vector<Case>& cases) {
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16,
                  DType::i32, DType::u32, DType::i64}) {
    cases.push_back({.name = "start and delta of the run",
                     .op = "range",
                     .inputs = {number(t, 7), std::nullopt, number(t, 3)},
                     .attributes = R"({"count": 37})",
                     .tolerance = Tolerance::Arith});
  }
  cases.push_back({.name = "integers wrap",
                   .op = "ramp",
                   .inputs = {number(DType::i8, 100), number(DType::i8, 11)},
                   .attributes = R"({"count": 6})",
                   .golden = {{100, 111, 122, -123, -112, -101}}});
  cases.push_back({.name = "T19 none",
                   .op = "ramp",
                   .inputs = {number(DType::f32, 1), number(DType::f32, 1)},
                   .attributes = R"({"count": 0})"});
  cases.push_back({.name = "beyond 2^24 elements an f32 still rounds once",
                   .op = "ramp",
                   .inputs = {number(DType::f32, 1e6), number(DType::f32, -0.3)},
                   .attributes = R"({"count": 16777301})",
                   .tolerance = Tolerance::Arith});
}

void add_fills(std::vector<Case>& cases) {
  const auto fill = [&cases](const std::string& law, const std::string& attributes,
                             std::vector<double> golden = {}) {
    cases.push_back({.name = law, .op = "fill", .inputs = {}, .attributes = attributes});
    if (!golden.empty()) cases.back().golden = {std::move(golden)};
  };
  for (const char* t : {"f32", "f16", "bf16", "f64", "i8", "u8", "i16", "i32", "u32", "i64"}) {
    fill("T4 every dtype",
         R"({"shape": [2, 2], "value": 100, "dtype": ")" + std::string(t) + R"("})",
         {100, 100, 100, 100});
  }
  fill("a half rounds", R"({"shape": [1], "value": 0.1, "dtype": "f16"})", {0.0999755859375});
  fill("bool", R"({"shape": [3], "value": -0.5, "dtype": "bool"})", {1, 1, 1});
  fill("T4 u32 above 2^31", R"({"shape": [1], "value": 4294967295, "dtype": "u32"})",
       {4294967295.0});
  fill("zeros are the default", R"({"shape": [3]})", {0, 0, 0});
  fill("rank 0", R"({"shape": [], "value": 2})", {2});
  fill("T19 nothing", R"({"shape": [3, 0], "value": 2})");
  fill("T20 rank 8", R"({"shape": [1, 2, 1, 2, 1, 2, 1, 2], "value": -1.5})");
}

void add_eyes(std::vector<Case>& cases) {
  const auto eye = [&cases](const std::string& law, const std::string& attributes,
                            std::vector<double> golden = {}) {
    cases.push_back({.name = law, .op = "eye", .inputs = {}, .attributes = attributes});
    if (!golden.empty()) cases.back().golden = {std::move(golden)};
  };
  for (const char* t :
       {"f32", "f16", "bf16", "f64", "i8", "u8", "i16", "i32", "u32", "i64", "bool"}) {
    eye("every dtype", R"({"n": 2, "m": 3, "dtype": ")" + std::string(t) + R"("})",
        {1, 0, 0, 0, 1, 0});
  }
  eye("k above", R"({"n": 2, "m": 3, "k": 1})", {0, 1, 0, 0, 0, 1});
  eye("k below", R"({"n": 3, "m": 2, "k": -1})", {0, 0, 1, 0, 0, 1});
  eye("k beyond the corner", R"({"n": 2, "k": 9223372036854775807})", {0, 0, 0, 0});
  eye("too large for the plan", R"({"n": 130, "m": 256})");
  eye("T19 nothing", R"({"n": 0, "m": 4})");
}

}  // namespace

std::vector<Case> range_cases() {
  std::vector<Case> cases;
  add_ranges(cases);
  add_ramps(cases);
  add_fills(cases);
  add_eyes(cases);
  return cases;
}

}  // namespace rlx::test
