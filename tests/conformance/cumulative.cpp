// SPDX-License-Identifier: Apache-2.0
// Conformance of cumsum, cumprod, cummax and cummin (ops.md 7.4).
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {

namespace {

Case total(const std::string& law, const std::string& op, const CaseTensor& x,
           const std::string& attributes, std::vector<std::vector<double>> golden = {}) {
  return {.name = law + " " + to_string(x.type),
          .op = op,
          .inputs = {x},
          .attributes = attributes,
          .tolerance = Tolerance::Sum,
          .golden = std::move(golden)};
}

Case extreme(const std::string& law, const std::string& op, const CaseTensor& x,
             const std::string& attributes, std::vector<std::vector<double>> golden = {}) {
  return {.name = law + " " + to_string(x.type),
          .op = op,
          .inputs = {x},
          .attributes = attributes,
          .tolerance = Tolerance::Exact,
          .outputs = 2,
          .golden = std::move(golden)};
}

// Values near 1, so that long products stay finite.
CaseTensor factors(DType dtype, Shape shape) {
  return tensor(dtype, std::move(shape)).uniform(0.9, 1.11);
}

void add_shapes(std::vector<Case>& cases) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    cases.push_back(
        total("T98 16 bytes at a time", "cumsum", tensor(dtype, {5, 4096}), R"({"axis": 1})"));
    cases.push_back(total("T98 16 bytes at a time, reverse and exclusive", "cumsum",
                          tensor(dtype, {3, 2056}),
                          R"({"axis": -1, "exclusive": true, "reverse": true})"));
    cases.push_back(total("T98 prime row", "cumsum", tensor(dtype, {7, 1031}), R"({"axis": 1})"));
    cases.push_back(
        total("T98 middle axis", "cumsum", tensor(dtype, {3, 131, 37}), R"({"axis": 1})"));
    cases.push_back(total("prime row", "cumprod", factors(dtype, {7, 67}), R"({"axis": 1})"));
  }
  cases.push_back(
      total("T98 T10 length 1e6", "cumsum", tensor(DType::f32, {1000000}), R"({"axis": 0})"));
  cases.push_back(total("T98 length 1e6, not aligned", "cumsum", tensor(DType::f32, {1, 1000003}),
                        R"({"axis": 1, "reverse": true, "exclusive": true})"));
  cases.push_back(total("T98 long column in chunks", "cumsum", tensor(DType::f32, {40013, 5}),
                        R"({"axis": 0})"));
  cases.push_back(total("T98 long column in chunks, reverse", "cumsum",
                        tensor(DType::f16, {20011, 33}), R"({"axis": 0, "reverse": true})"));
  cases.push_back(total("T10 70000 f16 ones", "cumsum", tensor(DType::f16, {70000}).uniform(1, 1),
                        R"({"axis": 0})"));
  cases.push_back(total("T20 rank 8", "cumsum", tensor(DType::f32, {2, 1, 3, 2, 1, 2, 3, 2}),
                        R"({"axis": 4, "exclusive": true})"));
  cases.push_back(total("T20 rank 8", "cumsum", tensor(DType::f32, {2, 1, 3, 2, 5, 2, 3, 2}),
                        R"({"axis": -4})"));
  cases.push_back(total("T19 empty", "cumsum", tensor(DType::f32, {0, 5}), R"({"axis": 1})"));
  cases.push_back(total("T19 empty axis", "cumsum", tensor(DType::f32, {5, 0}), R"({"axis": 1})"));
  cases.push_back(total("axis of size 1", "cumsum", tensor(DType::f32, {5, 1, 3}),
                        R"({"axis": 1, "exclusive": true})"));
  cases.push_back(total("T20 more rows than a grid axis holds", "cumsum",
                        tensor(DType::f32, {70001, 260}), R"({"axis": 1})"));
  cases.push_back(total("short rows", "cumsum", tensor(DType::f32, {5000, 3}), R"({"axis": 1})"));
}

void add_values(std::vector<Case>& cases) {
  const CaseTensor three_by_four =
      tensor(DType::f32, {3, 4}).of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  cases.push_back(total("T98 axis 0", "cumsum", three_by_four, R"({"axis": 0})",
                        {{1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 21, 24}}));
  cases.push_back(total("T98 exclusive and reverse", "cumsum", three_by_four,
                        R"({"axis": 1, "exclusive": true, "reverse": true})",
                        {{9, 7, 4, 0, 21, 15, 8, 0, 33, 23, 12, 0}}));
  cases.push_back(total("exclusive starts at 1", "cumprod", three_by_four,
                        R"({"axis": 1, "exclusive": true})",
                        {{1, 1, 2, 6, 1, 5, 30, 210, 1, 9, 90, 990}}));
  cases.push_back(total("reverse", "cumprod", three_by_four, R"({"axis": 0, "reverse": true})",
                        {{45, 120, 231, 384, 45, 60, 77, 96, 9, 10, 11, 12}}));
  cases.push_back(total("T98 i32 wraps", "cumsum",
                        tensor(DType::i32, {4}).of({2147483647, 1, 5, -7}), R"({"axis": 0})",
                        {{2147483647, -2147483648.0, -2147483643.0, 2147483646}}));
  cases.push_back(total("i8 wraps", "cumsum", tensor(DType::i8, {3}).of({100, 100, 100}),
                        R"({"axis": 0})", {{100, -56, 44}}));
  cases.push_back(total("u8 wraps", "cumprod", tensor(DType::u8, {4}).of({16, 15, 2, 3}),
                        R"({"axis": 0})", {{16, 240, 224, 160}}));
  const CaseTensor special =
      tensor(DType::f32, {2, 4}).of({1, kInfinity, -kInfinity, 2, 3, kNan, 4, 5});
  cases.push_back(total("T14 infinities and NaN", "cumsum", special, R"({"axis": 1})",
                        {{1, kInfinity, kNan, kNan, 3, kNan, kNan, kNan}}));
  cases.push_back(total("T14 infinities and NaN, exclusive", "cumsum", special,
                        R"({"axis": 1, "exclusive": true})",
                        {{0, 1, kInfinity, kNan, 0, 3, kNan, kNan}}));
  for (const DType dtype :
       {DType::f64, DType::i8, DType::u8, DType::i16, DType::i32, DType::u32, DType::i64}) {
    cases.push_back(total("T98 dtypes", "cumsum", tensor(dtype, {3, 1000}), R"({"axis": 1})"));
    cases.push_back(extreme("dtypes", "cummax", tensor(dtype, {67, 5}), R"({"axis": 0})"));
  }
  for (const DType dtype : {DType::i32, DType::i64}) {
    cases.push_back(total("T98 wraps in chunks", "cumsum", tensor(dtype, {50000}).edges(),
                          R"({"axis": 0, "reverse": true})"));
    cases.push_back(total("wraps", "cumprod", tensor(dtype, {3, 5000}).edges(), R"({"axis": 1})"));
  }
}

void add_extremes(std::vector<Case>& cases) {
  const CaseTensor x = tensor(DType::f32, {9}).of({2, 5, -0.0, 5, 0.0, kNan, 9, kNan, 1});
  cases.push_back(extreme("the first of equals, NaN stays", "cummax", x, R"({"axis": 0})",
                          {{2, 5, 5, 5, 5, kNan, kNan, kNan, kNan}, {0, 1, 1, 1, 1, 5, 5, 5, 5}}));
  cases.push_back(extreme("the first of equals, NaN stays", "cummin", x, R"({"axis": 0})",
                          {{2, 2, 0, 0, 0, kNan, kNan, kNan, kNan}, {0, 0, 2, 2, 2, 5, 5, 5, 5}}));
  cases.push_back(extreme("reverse", "cummax", tensor(DType::f32, {5}).of({3, 7, 7, 2, 4}),
                          R"({"axis": 0, "reverse": true})", {{7, 7, 7, 4, 4}, {2, 2, 2, 4, 4}}));
  cases.push_back(extreme("row of -inf", "cummax",
                          tensor(DType::f32, {3}).of({-kInfinity, -kInfinity, 1}), R"({"axis": 0})",
                          {{-kInfinity, -kInfinity, 1}, {0, 0, 2}}));
  for (const char* op : {"cummax", "cummin"}) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      cases.push_back(
          extreme("special values", op, tensor(dtype, {20, 300}).edges(), R"({"axis": 1})"));
      cases.push_back(extreme("16 bytes at a time", op, tensor(dtype, {3, 2048}),
                              R"({"axis": 1, "reverse": true})"));
    }
    cases.push_back(extreme("in chunks", op, tensor(DType::f32, {200003}), R"({"axis": 0})"));
    cases.push_back(extreme("ties in chunks", op, tensor(DType::i32, {3, 100000}).range(0, 100000),
                            R"({"axis": 1, "index_dtype": "i64"})"));
    cases.push_back(extreme("long column", op, tensor(DType::f32, {30011, 3}),
                            R"({"axis": 0, "index_dtype": "f32"})"));
  }
  cases.push_back(extreme("middle axis", "cummin", tensor(DType::f32, {3, 50, 7}),
                          R"({"axis": 1, "index_dtype": "u32"})"));
}

}  // namespace

std::vector<Case> cumulative_cases() {
  std::vector<Case> cases;
  add_shapes(cases);
  add_values(cases);
  add_extremes(cases);
  return cases;
}

}  // namespace rlx::test
