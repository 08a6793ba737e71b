// SPDX-License-Identifier: Apache-2.0
// Cases of draw_topk: draws from the first elements of short rows and of long ones.
#include <string>
#include <vector>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

void add(std::vector<Case>& cases, const std::string& law, const CaseTensor& logits, int64_t k,
         const std::string& attributes, std::vector<std::vector<double>> golden = {}) {
  const bool has_rows = static_cast<int64_t>(logits.type.shape[0]) > 0;
  cases.push_back({.name = law,
                   .op = "draw_topk",
                   .inputs = {logits, tensor(DType::i64, {}).of_integers({7}),
                              tensor(DType::u32, {}).of_integers({2})},
                   .attributes = R"({"stream": 1, "k": )" + std::to_string(k) + attributes + "}",
                   .tolerance = Tolerance::Norm,
                   .outputs = has_rows ? size_t{3} : size_t{2},
                   .golden = std::move(golden)});
}

// Rows that fall from 3 on, each a little faster than the one before it, in another order.
CaseTensor falling(int64_t rows, int64_t length) {
  std::vector<double> logits;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < length; ++i) {
      const int64_t place = (i * 7919 + row) % length;
      logits.push_back(3 -
                       static_cast<double>(place) * (0.0625 + 0.03125 * static_cast<double>(row)));
    }
  }
  return tensor(DType::f32, {rows, length}).of(logits);
}

}  // namespace

std::vector<Case> draw_topk_cases() {
  std::vector<Case> cases;
  // One tile of a row, or of several rows; parts of a row; counting; the rest in one step or two.
  struct Size {
    int64_t k, length;
  };
  for (const Size& size : {Size{1, 1},
                           {2, 2},
                           {7, 7},
                           {5, 40},
                           {33, 33},
                           {40, 100},
                           {64, 64},
                           {200, 200},
                           {40, 600},
                           {200, 1500},
                           {1024, 1024},
                           {1024, 5000},
                           {40, 9001},
                           {1, 4097},
                           {100, 20011},
                           {300, 9001},
                           {512, 30011}}) {
    const std::string law = std::to_string(size.k) + " of " + std::to_string(size.length);
    add(cases, law, falling(3, size.length), size.k, "");
    add(cases, law, falling(1, size.length), size.k, R"(, "top_p": 0.9, "min_p": 0.05)");
  }
  for (const DType t : {DType::f16, DType::bf16}) {
    for (const int64_t length : {100, 9001}) {
      CaseTensor logits = falling(3, length);
      logits.type.dtype = t;
      add(cases, "temperature", logits, 40, R"(, "temperature": 0.7, "top_p": 0.9)");
    }
  }
  add(cases, "temperature", falling(3, 40), 40, R"(, "temperature": 1.7)");
  add(cases, "NaN is never drawn", tensor(DType::f32, {1, 3}).of({kNan, 1, kNan}), 3, "",
      {{1}, {0}, {3}});
  add(cases, "more rows than a workgroup", falling(70, 40), 40, R"(, "top_p": 0.5)");
  CaseTensor apart = falling(6, 9001);
  apart.type.shape = {3, 2, 9001};
  add(cases, "rows of two axes", apart, 40, R"(, "top_p": 0.9)");
  CaseTensor row = falling(1, 50);
  row.type.shape = {50};
  add(cases, "a row alone", row, 40, "");
  add(cases, "long rows", falling(70, 9001), 40, R"(, "top_p": 0.5)");
  add(cases, "rows of two", falling(2000, 2), 2, "");
  add(cases, "indices of i64", falling(2, 12), 12, R"(, "index_dtype": "i64")");
  add(cases, "T19 no rows", falling(0, 5), 5, "");
  add(cases, "a prefix of no length keeps the first", tensor(DType::f32, {1, 3}).of({0, 2, 1}), 3,
      R"(, "top_p": 0)", {{1}, {0}, {3}});
  add(cases, "T134 a row of -inf",
      tensor(DType::f32, {1, 3}).of({-kInfinity, -kInfinity, -kInfinity}), 3,
      R"(, "top_p": 0.5, "min_p": 0.1)", {{0}, {kNan}, {3}});
  add(cases, "T134 a long row of -inf",
      tensor(DType::f32, {1, 9001}).of(std::vector<double>(9001, -kInfinity)), 40,
      R"(, "top_p": 0.5)", {{0}, {kNan}, {3}});
  add(cases, "+inf alone remains", tensor(DType::f32, {1, 3}).of({5, kInfinity, -kInfinity}), 3,
      R"(, "top_p": 0.9)", {{1}, {0}, {3}});
  return cases;
}

}  // namespace rlx::test
