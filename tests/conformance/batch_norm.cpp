// SPDX-License-Identifier: Apache-2.0
// batch_norm in inference form (ops.md 4; trap T67).
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
  return cases;
}

}  // namespace rlx::test
