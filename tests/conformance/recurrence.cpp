// SPDX-License-Identifier: Apache-2.0
// Cases of recurrence: sizes that choose between its kernels, and vectors that do not fit.
#include <string>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

Case layer_case(std::string law, const std::string& cell, int64_t gates, int64_t batch,
                int64_t steps, int64_t hidden, DType w, const std::string& dtype = "f32") {
  return {.name = std::move(law),
          .op = "recurrence",
          .inputs = {tensor(DType::f32, {batch, steps, gates * hidden}),
                     tensor(w, {1, gates * hidden, hidden}).uniform(-0.1, 0.1).param()},
          .attributes = R"({"cell": ")" + cell + R"(", "dtype": ")" + dtype + R"("})",
          .tolerance = Tolerance::Norm,
          .outputs = cell == "lstm" ? size_t{3} : size_t{2}};
}

}  // namespace

std::vector<Case> recurrence_cases() {
  std::vector<Case> cases;
  for (const DType w : {DType::f32, DType::f16, DType::bf16}) {
    cases.push_back(layer_case("a wide layer step by step", "lstm", 4, 3, 4, 512, w));
    cases.push_back(layer_case("units that do not fill a workgroup", "gru", 3, 5, 3, 333, w));
  }
  cases.push_back(layer_case("results of another type", "lstm", 4, 2, 3, 64, DType::f16, "f16"));
  cases.push_back(layer_case("one unit", "tanh", 1, 2, 6, 1, DType::f32));
  cases.push_back(layer_case("a reset before the product of many units", "gru_reset_first", 3, 2, 3,
                             300, DType::f32));
  Case nan = layer_case("NaN in a step stays in its sequence", "lstm", 4, 2, 3, 4, DType::f32);
  std::vector<double> values(2 * 3 * 16, 0.25);
  values[20] = kNan;
  nan.inputs[0]->fill = FillKind::Values;
  nan.inputs[0]->values = values;
  cases.push_back(nan);
  return cases;
}

}  // namespace rlx::test
