// SPDX-License-Identifier: Apache-2.0
// batch_norm (ops.md 4; trap T67).
#include <array>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

Case normalise(std::string name, DType x_dtype, const Shape& x, int64_t channels,
               std::string attributes, DType statistics = DType::f32, bool params = true) {
  const auto vector_of = [&](double low, double high) {
    const CaseTensor t = tensor(statistics, {channels}).uniform(low, high);
    return params ? t.param() : t;
  };
  return {.name = std::move(name),
          .op = "batch_norm",
          .inputs = {tensor(x_dtype, x), vector_of(-2, 2), vector_of(-1, 1), vector_of(-1, 1),
                     vector_of(0.5, 2)},
          .attributes = std::move(attributes),
          .tolerance = Tolerance::Norm};
}

Case train(std::string name, DType x_dtype, const Shape& x, int64_t channels,
           const std::string& more = "", DType statistics = DType::f32) {
  Case result = normalise(std::move(name), x_dtype, x, channels,
                          R"({"training": true)" + more + "}", statistics, false);
  result.outputs = 5;
  return result;
}

void add_training(std::vector<Case>& cases) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const std::string text(name_of(dtype));
    cases.push_back(train("T67 training, axis 1, " + text, dtype, {3, 5, 4, 7}, 5));
    cases.push_back(
        train("T67 training, axis -1, " + text, dtype, {3, 4, 7, 5}, 5, R"(, "axis": -1)"));
    cases.push_back(train("training, running statistics of " + text, DType::f32, {2, 3, 8}, 3,
                          R"(, "momentum": 0.75, "eps": 0.1)", dtype));
  }
  cases.push_back(train("T67 training, biased running variance", DType::f32, {4, 3, 5}, 3,
                        R"(, "unbiased": false)"));
  cases.push_back(train("T67 training, one element a channel keeps the biased variance", DType::f32,
                        {1, 4, 1}, 4));
  cases.push_back(train("training, channels in parts", DType::f32, {4, 2, 70, 80}, 2));
  cases.push_back(train("training, rank 2", DType::f32, {600, 33}, 33));
  cases.push_back(train("training, empty batch", DType::f32, {0, 3, 2}, 3));
  Case far = train("T62 training far from zero", DType::f32, {4, 3, 64}, 3);
  far.inputs[0] = tensor(DType::f32, {4, 3, 64}).uniform(9999, 10001);
  cases.push_back(far);
  Case two = train("training, result and mean alone", DType::f32, {4, 3, 6}, 3);
  two.outputs = 2;
  cases.push_back(two);
  // numpy: x = [[1, 5], [3, 9]] by columns; mean 2, 7; var 1, 4; unbiased 2, 8.
  Case golden{.name = "T67 training against the formula",
              .op = "batch_norm",
              .inputs = {tensor(DType::f32, {2, 2}).of({1, 5, 3, 9}),
                         tensor(DType::f32, {2}).of({1, 2}), tensor(DType::f32, {2}).of({0, 1}),
                         tensor(DType::f32, {2}).of({0, 1}), tensor(DType::f32, {2}).of({1, 1})},
              .attributes = R"({"training": true, "eps": 0.0, "momentum": 0.25})",
              .tolerance = Tolerance::Norm,
              .outputs = 5};
  golden.golden = {{-1, -1, 1, 3}, {0.5, 2.5}, {1.25, 2.75}, {2, 7}, {1, 0.5}};
  cases.push_back(golden);
}

}  // namespace

std::vector<Case> batch_norm_cases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const std::string text(name_of(dtype));
    cases.push_back(normalise("T67 axis 1, " + text, dtype, {2, 5, 4, 3}, 5, "{}"));
    cases.push_back(normalise("T67 axis -1, " + text, dtype, {2, 4, 3, 5}, 5, R"({"axis": -1})"));
    cases.push_back(
        normalise("statistics of " + text, DType::f32, {2, 5, 4}, 5, R"({"eps": 0.01})", dtype));
  }
  cases.push_back(
      normalise("statistics at run time", DType::f32, {3, 6, 7}, 6, "{}", DType::f32, false));
  cases.push_back(normalise("rank 2", DType::f32, {3, 6}, 6, "{}"));
  cases.push_back(normalise("axis 0", DType::f32, {6, 5}, 6, R"({"axis": 0})"));
  cases.push_back(normalise("one element per channel", DType::f32, {1, 6, 1, 1}, 6, "{}"));
  cases.push_back(normalise("empty batch", DType::f32, {0, 6, 2, 2}, 6, "{}"));
  Case golden{.name = "against the formula",
              .op = "batch_norm",
              .inputs = {tensor(DType::f32, {1, 2, 2}).of({1, 2, 3, 4}),
                         tensor(DType::f32, {2}).of({2, -1}), tensor(DType::f32, {2}).of({0.5, 1}),
                         tensor(DType::f32, {2}).of({1, 2}), tensor(DType::f32, {2}).of({3, 0})},
              .attributes = R"({"eps": 1.0})",
              .tolerance = Tolerance::Norm};
  golden.golden = {{0.5, 1.5, 0, -1}};
  cases.push_back(golden);
  Case far = normalise("inference far from zero", DType::f32, {2, 3, 50}, 3, "{}");
  far.inputs[0] = tensor(DType::f32, {2, 3, 50}).uniform(9999, 10001);
  far.inputs[3] = tensor(DType::f32, {3}).of({10000, 10000.25, 9999.5}).param();
  cases.push_back(far);
  add_training(cases);
  return cases;
}

}  // namespace rlx::test
