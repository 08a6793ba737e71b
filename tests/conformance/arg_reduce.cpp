// SPDX-License-Identifier: Apache-2.0
// Conformance of argmax and argmin (ops.md 7.3).
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {

namespace {

Case arg_case(const std::string& law, const std::string& op, const CaseTensor& x,
              const std::string& attributes, std::vector<std::vector<double>> golden = {}) {
  return {.name = law + " " + to_string(x.type),
          .op = op,
          .inputs = {x},
          .attributes = attributes,
          .tolerance = Tolerance::Exact,
          .golden = std::move(golden)};
}

}  // namespace

std::vector<Case> arg_reduce_cases() {
  std::vector<Case> cases;
  const CaseTensor with_nan = tensor(DType::f32, {4}).of({1, kNan, 3, kNan});
  const CaseTensor tied = tensor(DType::f32, {1, 5}).of({2, 5, 5, 1, 1});
  const CaseTensor zeros = tensor(DType::f32, {1, 3}).of({-0.0, 0.0, -0.0});
  cases.push_back(arg_case("T97 the first NaN wins", "argmax", with_nan, R"({"axis": 0})", {{1}}));
  cases.push_back(arg_case("T97 the first NaN wins", "argmin", with_nan, R"({"axis": 0})", {{1}}));
  cases.push_back(arg_case("T97 the first NaN wins with select_last", "argmax", with_nan,
                           R"({"axis": 0, "select_last": true})", {{1}}));
  cases.push_back(
      arg_case("T97 ties give the lowest index", "argmax", tied, R"({"axis": 1})", {{1}}));
  cases.push_back(
      arg_case("T97 select_last", "argmax", tied, R"({"axis": 1, "select_last": true})", {{2}}));
  cases.push_back(
      arg_case("T97 select_last", "argmin", tied, R"({"axis": 1, "select_last": true})", {{4}}));
  cases.push_back(arg_case("-0 equals +0", "argmax", zeros, R"({"axis": 1})", {{0}}));
  cases.push_back(
      arg_case("-0 equals +0", "argmin", zeros, R"({"axis": 1, "select_last": true})", {{2}}));
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8,
                            DType::i16, DType::i32, DType::u32, DType::i64}) {
    cases.push_back(arg_case("T97 axis 0", "argmax", tensor(dtype, {5, 3}), R"({"axis": 0})"));
    cases.push_back(arg_case("last axis", "argmin", tensor(dtype, {7, 131}), R"({"axis": -1})"));
  }
  for (const char* index_dtype : {"i32", "i64", "u32", "f32"}) {
    cases.push_back(arg_case(
        "index dtype", "argmax", tensor(DType::f32, {3, 17}),
        R"({"axis": 1, "keep_dims": true, "index_dtype": ")" + std::string(index_dtype) + "\"}"));
  }
  const CaseTensor f32 = tensor(DType::f32, {3, 5, 7});
  cases.push_back(arg_case("axis absent is flattened", "argmax", f32, "{}"));
  cases.push_back(
      arg_case("axis absent is flattened and keeps dims", "argmin", f32, R"({"keep_dims": true})"));
  cases.push_back(arg_case("middle axis", "argmax", f32, R"({"axis": -2})"));
  cases.push_back(arg_case("rank 0", "argmax", tensor(DType::f32, {}), "{}"));
  cases.push_back(
      arg_case("T19 empty output", "argmax", tensor(DType::f32, {0, 3}), R"({"axis": 1})"));
  cases.push_back(arg_case("T97 axis longer than 65536", "argmax", tensor(DType::f32, {2, 70001}),
                           R"({"axis": 1})"));
  cases.push_back(arg_case("T97 axis longer than 65536", "argmin", tensor(DType::f32, {70001, 2}),
                           R"({"axis": 0})"));
  cases.push_back(arg_case("T20 more rows than a grid axis holds", "argmax",
                           tensor(DType::u8, {70001, 3}), R"({"axis": 1})"));
  cases.push_back(
      arg_case("many ties", "argmax", tensor(DType::i32, {9, 1000}).range(0, 3), R"({"axis": 1})"));
  cases.push_back(arg_case("many ties, last", "argmax", tensor(DType::i32, {1000, 9}).range(0, 3),
                           R"({"axis": 0, "select_last": true})"));
  cases.push_back(
      arg_case("special values", "argmin", tensor(DType::f32, {20, 30}).edges(), R"({"axis": 1})"));
  return cases;
}

}  // namespace rlx::test
