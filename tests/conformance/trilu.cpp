// SPDX-License-Identifier: Apache-2.0
// Cases of trilu and one_hot.
#include <limits>
#include <string>

#include "tests/conformance/elementwise.h"

namespace rlx::test {
namespace {

void add_trilu(std::vector<Case>& cases) {
  const auto trilu = [&cases](const std::string& law, const CaseTensor& x,
                              const std::string& attributes, std::vector<double> golden = {}) {
    cases.push_back({.name = law, .op = "trilu", .inputs = {x}, .attributes = attributes});
    if (!golden.empty()) cases.back().golden = {std::move(golden)};
  };
  const CaseTensor six = tensor(DType::i32, {2, 3}).of({1, 2, 3, 4, 5, 6});
  trilu("upper", six, "{}", {1, 2, 3, 0, 5, 6});
  trilu("lower", six, R"({"upper": false})", {1, 0, 0, 4, 5, 0});
  trilu("upper above", six, R"({"k": 1})", {0, 2, 3, 0, 0, 6});
  trilu("lower below", six, R"({"upper": false, "k": -1})", {0, 0, 0, 4, 0, 0});
  trilu("k beyond the corners", six, R"({"k": -9223372036854775807})", {1, 2, 3, 4, 5, 6});
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16,
                  DType::u32, DType::i64, DType::bool_}) {
    trilu("every dtype, NaN and infinities stay", edges_of(t, {3, 17, 12}), R"({"k": -2})");
  }
  trilu("four columns at a time", tensor(DType::f32, {5, 9, 64}), R"({"upper": false, "k": 3})");
  trilu("T20 rank 8", tensor(DType::f32, {1, 2, 1, 2, 1, 2, 3, 4}), R"({"k": 1})");
  trilu("T19 nothing", tensor(DType::f32, {2, 0, 3}), "{}");
  trilu("one row", tensor(DType::f32, {1, 9}), R"({"k": 3})");
  trilu("one column", tensor(DType::f32, {9, 1}), R"({"k": -3})");
}

void add_one_hot(std::vector<Case>& cases) {
  const auto hot = [&cases](const std::string& law, const CaseTensor& index,
                            const std::string& attributes, std::vector<double> golden = {}) {
    cases.push_back({.name = law, .op = "one_hot", .inputs = {index}, .attributes = attributes});
    if (!golden.empty()) cases.back().golden = {std::move(golden)};
  };
  for (DType t : {DType::i32, DType::i64, DType::i8, DType::i16, DType::f32, DType::f16}) {
    hot("T25 negative wraps, beyond is all off", tensor(t, {4}).of({1, -1, 3, -4}),
        R"({"depth": 3})", {0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0});
  }
  hot("unsigned", tensor(DType::u8, {3}).of({2, 255, 0}), R"({"depth": 3})",
      {0, 0, 1, 0, 0, 0, 1, 0, 0});
  hot("unsigned of 32 bits is never negative", tensor(DType::u32, {2}).of_integers({4294967295, 1}),
      R"({"depth": 2})", {0, 0, 0, 1});
  hot("the ends of i64",
      tensor(DType::i64, {2})
          .of_integers({std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}),
      R"({"depth": 2})", {0, 0, 0, 0});
  hot("outer axis", tensor(DType::i32, {3}).of({0, 2, 1}), R"({"depth": 3, "axis": 0})",
      {1, 0, 0, 0, 0, 1, 0, 1, 0});
  hot("middle axis", tensor(DType::i32, {5, 7}).range(-2, 11), R"({"depth": 9, "axis": 1})");
  for (const char* t : {"f16", "bf16", "f64", "i8", "u8", "i16", "i32", "u32", "i64", "bool"}) {
    hot("every dtype with values of its own", tensor(DType::i32, {37}).range(0, 12),
        R"({"depth": 13, "on": 3, "off": 0, "dtype": ")" + std::string(t) + R"("})");
  }
  hot("label smoothing", tensor(DType::i64, {64}).range(0, 99),
      R"({"depth": 100, "on": 0.9, "off": 0.001})");
  hot("rank 0", tensor(DType::i32, {}).of({1}), R"({"depth": 3})", {0, 1, 0});
  hot("T20 to rank 8", tensor(DType::i32, {1, 2, 1, 2, 1, 2, 1}), R"({"depth": 2, "axis": 3})");
  hot("T19 no indices", tensor(DType::i32, {0}), R"({"depth": 3})");
  hot("T19 no depth", tensor(DType::i32, {3}), R"({"depth": 0})");
}

}  // namespace

std::vector<Case> trilu_cases() {
  std::vector<Case> cases;
  add_trilu(cases);
  add_one_hot(cases);
  return cases;
}

}  // namespace rlx::test
