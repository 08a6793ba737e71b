// SPDX-License-Identifier: Apache-2.0
// Cases of sample and add_gumbel.
#include <string>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

// Ids alone are exact; the log of the probability of an id is the row's to the bound of norms.
void add_draw(std::vector<Case>& cases, const std::string& law, const CaseTensor& logits,
              const std::string& attributes, std::vector<std::vector<double>> golden = {},
              int64_t seed = 7, int64_t step = 2, size_t outputs = 1) {
  cases.push_back({.name = law,
                   .op = "sample",
                   .inputs = {logits, tensor(DType::i64, {}).of_integers({seed}),
                              tensor(DType::u32, {}).of_integers({step})},
                   .attributes = R"({"stream": 1, )" + attributes + "}",
                   .tolerance = Tolerance::Norm,
                   .outputs = outputs,
                   .golden = std::move(golden)});
}

void add_known_draws(std::vector<Case>& cases) {
  const CaseTensor ramp = tensor(DType::f32, {5}).of({0, 1, 2, 3, 4});
  add_draw(cases, "17 temperature 1", ramp, R"("temperature": 1)", {{2}});
  add_draw(cases, "17 temperature 0.5", ramp, R"("temperature": 0.5)", {{2}});
  add_draw(cases, "17 rows are drawn apart",
           tensor(DType::f32, {2, 5}).of(std::vector<double>(10, 0.0)), R"("temperature": 1)",
           {{2, 1}});
  add_draw(cases, "temperature 0 is the first maximum",
           tensor(DType::f32, {2, 4}).of({1, 3, 3, 0, kNan, -2, -1, -1}), R"("temperature": 0)",
           {{1, 2}, {0, 0}}, 7, 2, 2);
  add_draw(cases, "T134 a row of -inf, and NaN is never drawn",
           tensor(DType::f32, {3, 3})
               .of({-kInfinity, -kInfinity, -kInfinity, kNan, kNan, kNan, kNan, 0, kNan}),
           R"("top_k": 0)", {{0, 0, 1}});
  add_draw(cases, "T134 a row of -inf under filters",
           tensor(DType::f32, {2, 3}).of({-kInfinity, -kInfinity, -kInfinity, kNan, -kInfinity, 0}),
           R"("top_k": 2, "top_p": 0.5, "min_p": 0.1)", {{0, 2}});
  add_draw(cases, "+inf alone remains", tensor(DType::f32, {4}).of({9, kInfinity, kNan, -1}),
           R"("top_p": 0.9)", {{1}});
  add_draw(cases, "T134 top_p 0 keeps one", ramp, R"("top_p": 0)", {{4}});
  add_draw(cases, "T134 ties at the cut: the first of them",
           tensor(DType::f32, {2, 6}).of({5, 5, 5, 5, 5, 5, 1, 2, 2, 2, 2, 2}), R"("top_k": 1)",
           {{0, 1}});
  add_draw(cases, "the entry that crosses top_p stays", tensor(DType::f32, {3}).of({0, 10, 20}),
           R"("top_p": 0.5)", {{2}});
  add_draw(cases, "min_p 1 keeps the greatest", ramp, R"("min_p": 1)", {{4}});
}

void add_filtered_draws(std::vector<Case>& cases) {
  for (const DType t : {DType::f32, DType::f16, DType::bf16}) {
    const CaseTensor logits = tensor(t, {5, 307});
    add_draw(cases, "no filter", logits, R"("temperature": 0.7)", {}, 99, 3, 2);
    add_draw(cases, "top_k", logits, R"("top_k": 40)", {}, 99, 4, 2);
    add_draw(cases, "top_k, top_p and min_p", logits,
             R"("temperature": 1.3, "top_k": 40, "top_p": 0.95, "min_p": 0.02)", {}, 99, 5, 2);
  }
  add_draw(cases, "top_p over all", tensor(DType::f32, {3, 2, 1031}), R"("top_p": 0.8)", {}, -5, 6,
           2);
  add_draw(cases, "top_k above the row takes all", tensor(DType::f32, {4, 33}), R"("top_k": 50)",
           {}, 1, 1, 2);
  add_draw(cases, "a vocabulary", tensor(DType::f32, {1, 128256}), R"("top_k": 40, "top_p": 0.95)");
  add_draw(cases, "indices of i64", tensor(DType::f32, {6, 65}), R"("index_dtype": "i64")");
  add_draw(cases, "T19 no rows", tensor(DType::f32, {0, 9}), R"("top_k": 3)");
  add_draw(cases, "one entry", tensor(DType::f32, {7, 1}), R"("temperature": 2)");
  // The step of the next run, which follows the last one again.
  const int64_t last = 0xFFFFFFFF;
  add_draw(cases, "the next step", tensor(DType::f32, {2, 9001}), R"("top_k": 40)", {}, 3, last, 3);
  add_draw(cases, "the next step, short rows", tensor(DType::f32, {9, 50}), R"("top_p": 0.9)", {},
           3, 8, 3);
  add_draw(cases, "the next step, no filter", tensor(DType::f32, {2, 307}), R"("min_p": 0.1)", {},
           3, last, 3);
  add_draw(cases, "the next step, greedy", tensor(DType::f32, {2, 307}), R"("temperature": 0)", {},
           3, 9, 3);
  add_draw(cases, "T19 the next step, no rows", tensor(DType::f32, {0, 9}), R"("top_k": 3)", {}, 3,
           9, 3);
}

void add_gumbel_noise(std::vector<Case>& cases) {
  const CaseTensor seed = tensor(DType::i64, {}).of_integers({7});
  const CaseTensor step = tensor(DType::u32, {}).of_integers({2});
  cases.push_back(
      {.name = "17 noise of a row",
       .op = "add_gumbel",
       .inputs = {tensor(DType::f32, {1, 5}).of({0, 0, 0, 0, 0}), std::nullopt, seed, step},
       .attributes = R"({"stream": 1})",
       .tolerance = Tolerance::Norm,
       .golden = {{1.192596, 0.1775219, 3.694404, -0.4223663, -1.044307}}});
  cases.push_back({.name = "by the index of each score",
                   .op = "add_gumbel",
                   .inputs = {tensor(DType::f32, {9, 70}),
                              tensor(DType::i32, {9, 70}).range(0, 128255), seed, step},
                   .attributes = R"({"stream": 3000000000})",
                   .tolerance = Tolerance::Norm});
}

}  // namespace

std::vector<Case> sample_cases() {
  std::vector<Case> cases;
  add_known_draws(cases);
  add_filtered_draws(cases);
  add_gumbel_noise(cases);
  return cases;
}

}  // namespace rlx::test
