// SPDX-License-Identifier: Apache-2.0
// Cases of causal_conv1d.
#include <string>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

struct ConvSizes {
  int64_t batch = 2;
  int64_t channels = 5;
  int64_t steps = 7;
  int64_t taps = 4;
};

struct ConvForm {
  bool bias = true;
  bool state0 = true;
  size_t outputs = 2;
  std::string activation = "none";
};

Case causal_conv_case(const std::string& law, DType dtype, const ConvSizes& sizes,
                      const ConvForm& form = {}) {
  const auto [batch, channels, steps, taps] = sizes;
  const DType state = dtype == DType::f64 ? DType::f64 : DType::f32;
  Case made{.name = law + " " + to_string(TensorType{dtype, {batch, channels, steps}}),
            .op = "causal_conv1d",
            .inputs = {tensor(dtype, {batch, channels, steps}), tensor(dtype, {channels, 1, taps}),
                       std::nullopt, std::nullopt},
            .attributes = R"({"activation": ")" + form.activation + R"("})",
            .tolerance = Tolerance::Sum,
            .outputs = form.outputs};
  if (form.bias) made.inputs[2] = tensor(dtype, {channels});
  if (form.state0) made.inputs[3] = tensor(state, {batch, channels, taps - 1});
  return made;
}

// Values from NumPy: sums over a concatenation of state and inputs.
void add_causal_conv_values(std::vector<Case>& cases) {
  Case known{.name = "T116 a carried state, and what it becomes",
             .op = "causal_conv1d",
             .inputs = {tensor(DType::f32, {1, 2, 3}).of({1, 2, 3, -1, 0.5, 2}),
                        tensor(DType::f32, {2, 1, 3}).of({1, 10, 100, 2, -1, 0.5}),
                        tensor(DType::f32, {2}).of({0.25, -1}),
                        tensor(DType::f32, {1, 2, 2}).of({7, 9, 4, -2})},
             .tolerance = Tolerance::Sum,
             .outputs = 2,
             .golden = {{197.25, 219.25, 321.25, 8.5, -3.75, -2.5}, {2, 3, 0.5, 2}}};
  cases.push_back(known);
  known.name = "activation";
  known.attributes = R"({"activation": "silu"})";
  known.inputs[3] = std::nullopt;
  known.golden = {{100.25, 210.25, 321.25, -0.2736383, 0.1405441, -0.1896454}, {2, 3, 0.5, 2}};
  cases.push_back(known);
}

}  // namespace

std::vector<Case> causal_conv_cases() {
  std::vector<Case> cases;
  add_causal_conv_values(cases);
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    cases.push_back(causal_conv_case("every dtype", t, {}));
    cases.push_back(causal_conv_case("every dtype, silu", t,
                                     {.batch = 3, .channels = 37, .steps = 101},
                                     {.activation = "silu"}));
    cases.push_back(causal_conv_case("T116 one step", t, {.batch = 3, .channels = 67, .steps = 1}));
  }
  cases.push_back(
      causal_conv_case("without bias and state", DType::f32, {}, {.bias = false, .state0 = false}));
  cases.push_back(
      causal_conv_case("the state alone is not wanted", DType::f16, {}, {.outputs = 1}));
  cases.push_back(causal_conv_case("T116 fewer steps than the state holds", DType::f32,
                                   {.steps = 2, .taps = 6}));
  cases.push_back(causal_conv_case("many taps", DType::f32, {.steps = 50, .taps = 23}));
  cases.push_back(causal_conv_case("one tap has no state", DType::f32, {.taps = 1}));
  cases.push_back(
      causal_conv_case("a parameter's default", DType::f32, {.steps = 13}, {.activation = "gelu"}));
  cases.push_back(causal_conv_case("T116 T19 no steps: the state stays", DType::f32, {.steps = 0}));
  cases.push_back(
      causal_conv_case("T19 no steps and no state", DType::f32, {.steps = 0}, {.state0 = false}));
  cases.push_back(causal_conv_case("T19 no batch", DType::f32, {.batch = 0}));
  cases.push_back(causal_conv_case("T116 a long sequence", DType::f16,
                                   {.batch = 1, .channels = 131, .steps = 2050},
                                   {.activation = "silu"}));
  cases.push_back(causal_conv_case("T19 no channels", DType::f32, {.channels = 0}));
  return cases;
}

}  // namespace rlx::test
