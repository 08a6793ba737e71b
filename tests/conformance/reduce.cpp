// SPDX-License-Identifier: Apache-2.0
// Conformance of the reductions (ops.md 7.1).
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {

namespace {

Tolerance tolerance_of(const std::string& op, DType dtype) {
  const bool rounds = is_float(dtype) || dtype == DType::c64;
  const bool exact = op == "reduce_max" || op == "reduce_min" || !rounds;
  return exact ? Tolerance::Exact : Tolerance::Sum;
}

Case reduce_case(const std::string& law, const std::string& op, const CaseTensor& x,
                 const std::string& attributes) {
  return {.name = law + " " + to_string(x.type),
          .op = op,
          .inputs = {x},
          .attributes = attributes,
          .tolerance = tolerance_of(op, x.type.dtype)};
}

void add_axes(std::vector<Case>& cases) {
  const auto add = [&](const std::string& law, const std::string& op, Shape shape,
                       const std::string& attributes) {
    cases.push_back(reduce_case(law, op, tensor(DType::f32, std::move(shape)), attributes));
  };
  add("T93 axes 0 and 2 of rank 4", "reduce_sum", {3, 5, 7, 11}, R"({"axes": [0, 2]})");
  add("T93 negative and unsorted axes", "reduce_sum", {3, 5, 7, 11}, R"({"axes": [-1, 1]})");
  add("T93 negative and unsorted axes keep their dims", "reduce_mean", {3, 5, 7, 11},
      R"({"axes": [-1, 0], "keep_dims": true})");
  add("T93 all axes to rank 0", "reduce_sum", {3, 5, 7, 11}, "{}");
  add("T93 no axes are the identity", "reduce_sum", {3, 5}, R"({"axes": []})");
  add("no axes still take the magnitude", "reduce_l1", {3, 5}, R"({"axes": []})");
  add("middle axis", "reduce_max", {13, 17, 19}, R"({"axes": [1]})");
  add("leading axis", "reduce_min", {37, 41}, R"({"axes": [0]})");
  add("leading axis of three columns", "reduce_sum", {1000, 3}, R"({"axes": [0]})");
  add("all of rank 1", "reduce_mean", {1}, "{}");
  add("rank 0", "reduce_sum", {}, "{}");
  add("rank 8", "reduce_sum", {2, 3, 1, 2, 3, 2, 1, 2}, R"({"axes": [0, 3, 5]})");
  add("axis of size 1", "reduce_sum", {5, 1, 7}, R"({"axes": [1]})");
  add("one long row in chunks", "reduce_sum", {300007}, "{}");
  add("one long aligned row in chunks", "reduce_mean", {262144}, "{}");
  add("few long columns in chunks", "reduce_sum", {20011, 5}, R"({"axes": [0]})");
  add("few long columns in chunks", "reduce_max", {20011, 40}, R"({"axes": [0]})");
  add("T20 more rows than a grid axis holds", "reduce_sum", {70001, 4}, R"({"axes": [1]})");
  add("rows of one thread group each", "reduce_sum", {5, 1024}, R"({"axes": [1]})");
  add("two apart axes over long rows", "reduce_sum", {40, 9, 700}, R"({"axes": [0, 2]})");
}

void add_empty(std::vector<Case>& cases) {
  for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod",
                         "reduce_l2", "reduce_log_sum_exp", "variance"}) {
    cases.push_back(reduce_case("T19 identity of an empty axis", op, tensor(DType::f32, {3, 0}),
                                R"({"axes": [1]})"));
  }
  for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"}) {
    cases.push_back(reduce_case("T19 identity of an empty axis", op, tensor(DType::i32, {0, 3}),
                                R"({"axes": [0]})"));
  }
  cases.push_back(reduce_case("T19 identity of an empty axis", "reduce_max",
                              tensor(DType::i64, {2, 0}), R"({"axes": [1]})"));
  cases.push_back(reduce_case("T19 identity of an empty axis", "reduce_all",
                              tensor(DType::bool_, {2, 0}), R"({"axes": [1]})"));
  cases.push_back(reduce_case("T19 identity of an empty axis", "reduce_any",
                              tensor(DType::bool_, {2, 0}), R"({"axes": [1]})"));
  cases.push_back(reduce_case("T19 empty output", "reduce_sum", tensor(DType::f32, {0, 3}),
                              R"({"axes": [1]})"));
}

void add_reductions_of_kinds(std::vector<Case>& cases) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_l1",
                           "reduce_l2", "reduce_sum_square", "variance"}) {
      cases.push_back(reduce_case("last axis", op, tensor(dtype, {7, 193}), R"({"axes": [1]})"));
    }
    cases.push_back(reduce_case("last axis", "reduce_prod",
                                tensor(dtype, {7, 23}).uniform(0.8, 1.25), R"({"axes": [1]})"));
    cases.push_back(reduce_case("last axis", "reduce_log_sum_exp", tensor(dtype, {7, 193}),
                                R"({"axes": [1]})"));
    cases.push_back(reduce_case("last axis", "reduce_log_sum",
                                tensor(dtype, {7, 193}).uniform(0.1, 2), R"({"axes": [1]})"));
    cases.push_back(
        reduce_case("four at a time", "reduce_sum", tensor(dtype, {9, 256}), R"({"axes": [1]})"));
  }
  for (const DType dtype : {DType::i8, DType::u8, DType::i16, DType::i32, DType::u32, DType::i64}) {
    for (const char* op :
         {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"}) {
      cases.push_back(reduce_case("last axis", op, tensor(dtype, {7, 67}), R"({"axes": [1]})"));
    }
    cases.push_back(
        reduce_case("sums wrap", "reduce_sum", tensor(dtype, {5, 31}).edges(), R"({"axes": [1]})"));
    cases.push_back(
        reduce_case("extremes", "reduce_max", tensor(dtype, {5, 31}).edges(), R"({"axes": [0]})"));
    cases.push_back(
        reduce_case("extremes", "reduce_min", tensor(dtype, {5, 31}).edges(), R"({"axes": [0]})"));
  }
  for (const char* op : {"reduce_any", "reduce_all"}) {
    cases.push_back(
        reduce_case("last axis", op, tensor(DType::bool_, {50, 5}), R"({"axes": [1]})"));
    cases.push_back(
        reduce_case("leading axis", op, tensor(DType::bool_, {5, 50}), R"({"axes": [0]})"));
  }
}

void add_values(std::vector<Case>& cases) {
  const auto add = [&](const std::string& law, const std::string& op, const CaseTensor& x,
                       std::vector<double> golden,
                       const std::string& attributes = R"({"axes": [1]})") {
    Case made = reduce_case(law, op, x, attributes);
    made.golden = {std::move(golden)};
    cases.push_back(made);
  };
  add("T94 maximum of a row of -inf", "reduce_max",
      tensor(DType::f32, {2, 3}).of({-kInfinity, -kInfinity, -kInfinity, -1, -kInfinity, -2}),
      {-kInfinity, -1});
  add("T14 NaN anywhere", "reduce_max", tensor(DType::f32, {2, 3}).of({1, kNan, 3, 4, 5, 6}),
      {kNan, 6});
  add("T14 NaN anywhere", "reduce_min", tensor(DType::f16, {2, 3}).of({1, kNan, 3, 4, 5, 6}),
      {kNan, 4});
  add("T10 T94 mean of f16 whose sum exceeds 65504", "reduce_mean",
      tensor(DType::f16, {1, 2000}).of(std::vector<double>(2000, 40000)), {40000});
  add("integer mean truncates toward zero", "reduce_mean",
      tensor(DType::i32, {3, 2}).of({-3, -4, 3, 4, 2147483647, 2147483647}), {-3, 3, 2147483647});
  add("log_sum_exp of -inf", "reduce_log_sum_exp",
      tensor(DType::f32, {3, 2}).of({-kInfinity, -kInfinity, kInfinity, 1, 1000, 1000}),
      {-kInfinity, kInfinity, 1000.6931472});
  add("variance far from zero", "variance",
      tensor(DType::f32, {1, 4}).of({10000, 10001, 10002, 10003}), {1.6666667});
  add("population variance", "variance", tensor(DType::f32, {1, 4}).of({1, 2, 4, -3}), {6.5},
      R"({"axes": [1], "correction": 0})");
  add("variance of one element", "variance", tensor(DType::f32, {2, 1}).of({1, 2}), {kNan, kNan});
  add("variance over a leading axis", "variance", tensor(DType::f32, {2, 3}).of({1, 2, 3, 3, 6, 9}),
      {2, 8, 18}, R"({"axes": [0], "keep_dims": true})");
}

void add_complex(std::vector<Case>& cases) {
  for (const char* op : {"reduce_sum", "reduce_mean"}) {
    for (const char* attributes :
         {R"({"axes": [1]})", R"({"axes": [0], "keep_dims": true})", R"({})"}) {
      cases.push_back(reduce_case("complex", op, tensor(DType::c64, {37, 1030}), attributes));
    }
  }
  cases.push_back(reduce_case("complex, no rows", "reduce_sum", tensor(DType::c64, {0, 5}),
                              R"({"axes": [0]})"));
  // Against NumPy.
  const CaseTensor matrix = tensor(DType::c64, {2, 2}).of({1, 1, 2, -1, 0, -2, 3, 0});
  cases.push_back(reduce_case("complex", "reduce_sum", matrix, R"({"axes": [0]})"));
  cases.back().golden = {{1, -1, 5, -1}};
  cases.push_back(reduce_case("complex", "reduce_mean", matrix, R"({"axes": [1]})"));
  cases.back().golden = {{1.5, 0, 1.5, -1}};
}

}  // namespace

std::vector<Case> reduce_cases() {
  std::vector<Case> cases;
  add_axes(cases);
  add_empty(cases);
  add_reductions_of_kinds(cases);
  add_values(cases);
  add_complex(cases);
  return cases;
}

}  // namespace rlx::test
