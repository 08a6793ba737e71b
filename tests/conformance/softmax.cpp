// SPDX-License-Identifier: Apache-2.0
// Conformance of softmax and log_softmax (ops.md 7.2).
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {

namespace {

Case softmax_case(const std::string& law, const std::string& op, const CaseTensor& x, int64_t axis,
                  std::vector<std::vector<double>> golden = {}) {
  return {.name = law + " " + to_string(x.type),
          .op = op,
          .inputs = {x},
          .attributes = R"({"axis": )" + std::to_string(axis) + "}",
          .tolerance = Tolerance::Norm,
          .golden = std::move(golden)};
}

}  // namespace

std::vector<Case> softmax_cases() {
  std::vector<Case> cases;
  for (const char* op : {"softmax", "log_softmax"}) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      cases.push_back(softmax_case("prime row", op, tensor(dtype, {5, 197}), -1));
      cases.push_back(softmax_case("four at a time", op, tensor(dtype, {7, 128}), -1));
      cases.push_back(softmax_case("T95 axis 1 of rank 4", op, tensor(dtype, {3, 7, 5, 11}), 1));
    }
    for (const Shape& shape : {Shape{5, 197}, Shape{3, 20011}}) {
      cases.push_back(softmax_case("row of doubles", op, tensor(DType::f64, shape), -1));
    }
    cases.push_back(
        softmax_case("T95 middle axis of doubles", op, tensor(DType::f64, {3, 7, 5}), 1));
    cases.push_back(
        softmax_case("T96 edges in doubles", op, tensor(DType::f64, {9, 16}).edges(), 1));
    cases.push_back(softmax_case("T96 doubles beyond the range of floats", op,
                                 tensor(DType::f64, {4, 37}).uniform(-1e300, 1e300), 1));
    cases.push_back(softmax_case("T95 T64 axis 0", op, tensor(DType::f32, {13, 3, 5, 7}), 0));
    cases.push_back(softmax_case("T64 axis -2", op, tensor(DType::f32, {3, 300, 5}), -2));
    cases.push_back(softmax_case("long strided axis", op, tensor(DType::f32, {3000, 3}), 0));
    cases.push_back(softmax_case("many short rows", op, tensor(DType::f16, {17003, 48}), -1));
    cases.push_back(softmax_case("many short prime rows", op, tensor(DType::f32, {17003, 49}), -1));
    cases.push_back(softmax_case("long row read twice", op, tensor(DType::f32, {2, 20011}), 1));
    cases.push_back(
        softmax_case("long aligned row read twice", op, tensor(DType::f32, {2, 16384}), 1));
    cases.push_back(softmax_case("rank 1", op, tensor(DType::f32, {1000}), 0));
    cases.push_back(softmax_case("short rows", op, tensor(DType::f32, {1000, 3}), 1));
    cases.push_back(softmax_case("T19 empty", op, tensor(DType::f32, {0, 3}), 1));
    cases.push_back(softmax_case("T19 empty axis", op, tensor(DType::f32, {3, 0}), 1));
    cases.push_back(
        softmax_case("T96 large logits", op, tensor(DType::f32, {4, 37}).uniform(-1e4, 1e4), 1));
  }
  cases.push_back(softmax_case("T96 row of 200000", "softmax", tensor(DType::f32, {1, 200000}), 1));
  cases.push_back(softmax_case("T20 more rows than a grid axis holds", "softmax",
                               tensor(DType::f16, {70001, 2}), 1));
  cases.push_back(softmax_case("T95 axis of size 1", "softmax",
                               tensor(DType::f32, {3, 1}).of({1, -2, 3}), 1, {{1, 1, 1}}));
  cases.push_back(softmax_case("T95 axis of size 1", "log_softmax",
                               tensor(DType::f32, {3, 1}).of({1, -2, 3}), 1, {{0, 0, 0}}));
  cases.push_back(softmax_case(
      "T96 infinities and NaN", "softmax",
      tensor(DType::f32, {4, 3})
          .of({0, -kInfinity, 0, -kInfinity, -kInfinity, -kInfinity, 1, kInfinity, 2, 1, kNan, 2}),
      1, {{0.5, 0, 0.5, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan}}));
  cases.push_back(
      softmax_case("T96 infinities and NaN", "log_softmax",
                   tensor(DType::f32, {3, 2}).of({0, -kInfinity, 1, kInfinity, kNan, 1}), 1,
                   {{0, -kInfinity, kNan, kNan, kNan, kNan}}));
  for (const double bad : {kInfinity, kNan, -kInfinity}) {
    std::vector<double> row(20001, bad == -kInfinity ? bad : 1.0);
    row[7777] = bad;
    for (const char* op : {"softmax", "log_softmax"}) {
      cases.push_back(softmax_case("T96 a long row with " + std::to_string(bad), op,
                                   tensor(DType::f32, {1, 20001}).of(row), 1));
    }
  }
  std::vector<double> masked(20001, -kInfinity);
  masked[12345] = 3;
  cases.push_back(softmax_case("T96 one finite logit in a long row", "softmax",
                               tensor(DType::f32, {1, 20001}).of(masked), 1));
  return cases;
}

}  // namespace rlx::test
