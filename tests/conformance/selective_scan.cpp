// SPDX-License-Identifier: Apache-2.0
// Cases of selective_scan.
#include <string>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

struct SelectiveForm {
  int64_t batch = 2;
  int64_t steps = 7;
  int64_t channels = 5;
  int64_t states = 16;
  int64_t groups = 0;    // 0: Bm and Cm have no such axis
  bool options = false;  // D, z, delta_bias and delta_softplus
  bool state0 = true;
  size_t outputs = 2;
  std::optional<DType> parameters = std::nullopt;  // their dtype, if not that of x
};

Case selective_case(const std::string& law, DType dtype, const SelectiveForm& form) {
  const Shape x = {form.batch, form.steps, form.channels};
  const Shape vectors = form.groups == 0 ? Shape{form.batch, form.steps, form.states}
                                         : Shape{form.batch, form.steps, form.groups, form.states};
  const DType state = dtype == DType::f64 ? DType::f64 : DType::f32;
  const DType parameters = form.parameters.value_or(dtype);
  Case made{.name = law + " " + to_string(TensorType{dtype, x}),
            .op = "selective_scan",
            .inputs = {tensor(dtype, x), tensor(dtype, x).uniform(0.01, 0.5),
                       tensor(parameters, {form.channels, form.states}).uniform(-4, -0.05),
                       tensor(dtype, vectors), tensor(dtype, vectors)},
            .tolerance = Tolerance::Norm,
            .outputs = form.outputs};
  if (form.options) {
    made.attributes = R"({"delta_softplus": true})";
    made.inputs.resize(8);
    made.inputs[1] = tensor(dtype, x).uniform(-4, 0.5);
    made.inputs[5] = tensor(parameters, {form.channels});
    made.inputs[6] = tensor(dtype, x);
    made.inputs[7] = tensor(parameters, {form.channels}).uniform(-0.5, 0.5);
  }
  if (form.state0) {
    made.inputs.resize(9);
    made.inputs[8] = tensor(state, {form.batch, form.channels, form.states});
  }
  return made;
}

void add_selective_values(std::vector<Case>& cases) {
  cases.push_back({.name = "two steps",
                   .op = "selective_scan",
                   .inputs = {tensor(DType::f32, {1, 2, 1}).of({1, 2}),
                              tensor(DType::f32, {1, 2, 1}).of({0.5, 0.1}),
                              tensor(DType::f32, {1, 2}).of({-1, -0.5}),
                              tensor(DType::f32, {1, 2, 2}).of({1, 2, 0, 1}),
                              tensor(DType::f32, {1, 2, 2}).of({1, 1, 2, -1})},
                   .tolerance = Tolerance::Norm,
                   .outputs = 2,
                   .golden = {{1.5, -0.246392}, {0.4524187, 1.151229}}});
  // From NumPy.
  cases.push_back({.name = "T120 D, z, delta_bias, delta_softplus and groups",
                   .op = "selective_scan",
                   .inputs = {tensor(DType::f32, {1, 2, 2}).of({1, -2, 0.5, 3}),
                              tensor(DType::f32, {1, 2, 2}).of({0.5, 0.1, -1, 0.25}),
                              tensor(DType::f32, {2, 2}).of({-1, -0.5, -2, 0.25}),
                              tensor(DType::f32, {1, 2, 2, 2}).of({1, 2, -1, 0.5, 0, 1, 3, -2}),
                              tensor(DType::f32, {1, 2, 2, 2}).of({1, 1, 2, -1, 0.5, 1, -1, 0.5}),
                              tensor(DType::f32, {2}).of({0.5, -1}),
                              tensor(DType::f32, {1, 2, 2}).of({1, -1, 2, 0.5}),
                              tensor(DType::f32, {2}).of({0.1, -0.2}),
                              tensor(DType::f32, {1, 2, 2}).of({1, -1, 0.5, 2})},
                   .attributes = R"({"delta_softplus": true})",
                   .tolerance = Tolerance::Norm,
                   .outputs = 2,
                   .golden = {{2.464793, -0.8466232, 3.810320, -3.404915},
                              {0.9895220, 1.418235, 6.805180, -2.270041}}});
}

}  // namespace

std::vector<Case> selective_scan_cases() {
  std::vector<Case> cases;
  add_selective_values(cases);
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    cases.push_back(selective_case("every dtype", t, {}));
    cases.push_back(selective_case("T120 every dtype, all inputs", t,
                                   {.steps = 37, .channels = 67, .options = true}));
    cases.push_back(selective_case("T120 one step", t,
                                   {.batch = 3, .steps = 1, .channels = 130, .options = true}));
  }
  for (const DType t : {DType::f16, DType::bf16}) {
    cases.push_back(selective_case("parameters of f32", t,
                                   {.steps = 19, .options = true, .parameters = DType::f32}));
  }
  for (const int64_t states : {1, 2, 3, 17, 64, 130, 300}) {
    cases.push_back(selective_case("T120 " + std::to_string(states) + " states", DType::f32,
                                   {.steps = 11, .states = states}));
  }
  cases.push_back(selective_case("T120 300 states of halves", DType::f16,
                                 {.steps = 9, .states = 300, .options = true}));
  cases.push_back(selective_case("groups within a workgroup", DType::f32,
                                 {.steps = 19, .channels = 24, .states = 5, .groups = 4}));
  cases.push_back(selective_case("a group to each workgroup", DType::f32,
                                 {.steps = 19, .channels = 96, .states = 16, .groups = 3}));
  cases.push_back(selective_case("T120 4096 steps, in chunks", DType::f32,
                                 {.batch = 1, .steps = 4096, .channels = 33, .options = true}));
  cases.push_back(selective_case("T120 T116 4099 steps of halves, in chunks", DType::f16,
                                 {.batch = 2, .steps = 4099, .channels = 40, .states = 8}));
  cases.push_back(selective_case("in chunks from zero, the last one short", DType::f32,
                                 {.batch = 1, .steps = 1031, .channels = 3, .state0 = false}));
  cases.push_back(selective_case("in chunks, the state not wanted", DType::f32,
                                 {.batch = 1, .steps = 1024, .channels = 7, .outputs = 1}));
  cases.push_back(selective_case("without a state", DType::f32, {.state0 = false, .outputs = 1}));
  cases.push_back(selective_case("T116 T19 no steps: the state stays", DType::f32, {.steps = 0}));
  cases.push_back(
      selective_case("T116 T19 no steps and no state", DType::f32, {.steps = 0, .state0 = false}));
  cases.push_back(selective_case("T19 no batch", DType::f32, {.batch = 0}));
  cases.push_back(selective_case("T19 no channels", DType::f32, {.channels = 0}));
  return cases;
}

}  // namespace rlx::test
