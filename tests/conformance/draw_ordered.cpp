// SPDX-License-Identifier: Apache-2.0
// Cases of draw_ordered: what sample's filters leave, in their order.
#include <string>
#include <vector>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

void add(std::vector<Case>& cases, const std::string& law, const CaseTensor& scores,
         const CaseTensor& index, const std::string& attributes,
         std::vector<std::vector<double>> golden = {}) {
  cases.push_back({.name = law,
                   .op = "draw_ordered",
                   .inputs = {scores, index, tensor(DType::i64, {}).of_integers({7}),
                              tensor(DType::u32, {}).of_integers({2})},
                   .attributes = R"({"stream": 1)" + attributes + "}",
                   .tolerance = Tolerance::Norm,
                   .outputs = 2,
                   .golden = std::move(golden)});
}

// Rows that fall from 3 on, each a little faster than the one before it.
CaseTensor falling(int64_t rows, int64_t count) {
  std::vector<double> scores;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < count; ++i)
      scores.push_back(3 - static_cast<double>(i) * (0.0625 + 0.03125 * static_cast<double>(row)));
  }
  return tensor(DType::f32, {rows, count}).of(scores);
}

CaseTensor numbers(int64_t rows, int64_t count) {
  return tensor(DType::i32, {rows, count}).range(0, 128255);
}

}  // namespace

std::vector<Case> draw_ordered_cases() {
  std::vector<Case> cases;
  for (const int64_t count : {1, 2, 7, 33, 40, 64, 200, 1024}) {
    const std::string law = std::to_string(count) + " candidates";
    add(cases, law, falling(3, count), numbers(3, count), "");
    add(cases, law, falling(5, count), numbers(5, count), R"(, "top_p": 0.9, "min_p": 0.05)");
  }
  for (const DType t : {DType::f16, DType::bf16}) {
    CaseTensor scores = falling(3, 40);
    scores.type.dtype = t;
    add(cases, "temperature", scores, numbers(3, 40), R"(, "temperature": 0.7, "top_p": 0.9)");
  }
  add(cases, "temperature", falling(3, 40), numbers(3, 40), R"(, "temperature": 1.7)");
  add(cases, "NaN is never drawn", tensor(DType::f32, {1, 3}).of({1, kNan, kNan}),
      tensor(DType::i32, {1, 3}).of_integers({8, 4, 6}), "", {{8}, {0}});
  add(cases, "more rows than a workgroup", falling(70, 40), numbers(70, 40), R"(, "top_p": 0.5)");
  add(cases, "indices of i64", falling(2, 12), numbers(2, 12), R"(, "index_dtype": "i64")");
  add(cases, "T19 no rows", falling(0, 5), numbers(0, 5), "");
  const CaseTensor three = tensor(DType::i32, {1, 3}).of_integers({8, 4, 6});
  add(cases, "a prefix of no length keeps the first", tensor(DType::f32, {1, 3}).of({2, 1, 0}),
      three, R"(, "top_p": 0)", {{8}, {0}});
  add(cases, "T134 a row of -inf",
      tensor(DType::f32, {1, 3}).of({-kInfinity, -kInfinity, -kInfinity}), three,
      R"(, "top_p": 0.5, "min_p": 0.1)", {{8}, {kNan}});
  add(cases, "+inf alone remains", tensor(DType::f32, {1, 3}).of({kInfinity, 5, -kInfinity}), three,
      R"(, "top_p": 0.9)", {{8}, {0}});
  return cases;
}

}  // namespace rlx::test
