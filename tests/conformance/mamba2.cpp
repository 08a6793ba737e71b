// SPDX-License-Identifier: Apache-2.0
// Cases of mamba2.
#include <string>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

struct MambaForm {
  int64_t batch = 2;
  int64_t steps = 7;
  int64_t heads = 4;
  int64_t head_size = 8;
  int64_t groups = 2;
  int64_t states = 16;
  bool options = false;  // D, z, dt_bias and dt_softplus
  bool state0 = true;
  size_t outputs = 2;
  std::optional<DType> parameters = std::nullopt;  // their dtype and that of dt, if not that of x
};

Case mamba_case(const std::string& law, DType dtype, const MambaForm& form) {
  const Shape x = {form.batch, form.steps, form.heads, form.head_size};
  const Shape vectors = {form.batch, form.steps, form.groups, form.states};
  const Shape steps = {form.batch, form.steps, form.heads};
  const DType state = dtype == DType::f64 ? DType::f64 : DType::f32;
  const DType parameters = form.parameters.value_or(dtype);
  Case made{.name = law + " " + to_string(TensorType{dtype, x}),
            .op = "mamba2",
            .inputs = {tensor(dtype, x), tensor(parameters, steps).uniform(0.01, 0.5),
                       tensor(parameters, {form.heads}).uniform(-4, -0.05), tensor(dtype, vectors),
                       tensor(dtype, vectors)},
            .tolerance = Tolerance::Norm,
            .outputs = form.outputs};
  if (form.options) {
    made.attributes = R"({"dt_softplus": true})";
    made.inputs.resize(8);
    made.inputs[1] = tensor(parameters, steps).uniform(-4, 0.5);
    made.inputs[5] = tensor(parameters, {form.heads});
    made.inputs[6] = tensor(dtype, x);
    made.inputs[7] = tensor(parameters, {form.heads}).uniform(-0.5, 0.5);
  }
  if (form.state0) {
    made.inputs.resize(9);
    made.inputs[8] = tensor(state, {form.batch, form.heads, form.head_size, form.states});
  }
  return made;
}

void add_mamba_values(std::vector<Case>& cases) {
  cases.push_back(
      {.name = "two steps",
       .op = "mamba2",
       .inputs = {tensor(DType::f32, {1, 2, 1, 2}).of({1, -1, 2, 0}),
                  tensor(DType::f32, {1, 2, 1}).of({0.5, 1}), tensor(DType::f32, {1}).of({-0.7}),
                  tensor(DType::f32, {1, 2, 1, 2}).of({1, 2, 0, 1}),
                  tensor(DType::f32, {1, 2, 1, 2}).of({1, 1, 2, -1})},
       .tolerance = Tolerance::Norm,
       .outputs = 2,
       .golden = {{1.5, -1.5, -2, 0}, {0.2482927, 2.496585, -0.2482927, -0.4965853}}});
  // From NumPy.
  cases.push_back(
      {.name = "D, z, dt_bias and dt_softplus",
       .op = "mamba2",
       .inputs = {tensor(DType::f32, {1, 2, 2, 2}).of({1, -1, 2, 0, 0.5, 3, -2, 1}),
                  tensor(DType::f32, {1, 2, 2}).of({0.5, 1, -0.3, 0.2}),
                  tensor(DType::f32, {2}).of({-0.7, -1.5}),
                  tensor(DType::f32, {1, 2, 1, 2}).of({1, 2, -1, 0.5}),
                  tensor(DType::f32, {1, 2, 1, 2}).of({1, 1, 2, -1}),
                  tensor(DType::f32, {2}).of({0.5, -1}),
                  tensor(DType::f32, {1, 2, 2, 2}).of({1, -1, 0.5, 2, 0, 3, -2, 0.25}),
                  tensor(DType::f32, {2}).of({0.1, -0.2}),
                  tensor(DType::f32, {1, 2, 2, 2}).of({1, 0, -1, 2, 0.5, 0.25, -0.5, 1})},
       .attributes = R"({"dt_softplus": true})",
       .tolerance = Tolerance::Norm,
       .outputs = 2,
       .golden = {{2.994553, 0.8414478, 1.604722, 0.1520450, 0, -12.17108, -1.313976, -0.4012436},
                  {0.7017408, 1.514668, -2.795227, 0.1685615, 2.244903, 0.9782970, -0.7236627,
                   0.4076047}}});
}

}  // namespace

std::vector<Case> mamba2_cases() {
  std::vector<Case> cases;
  add_mamba_values(cases);
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    cases.push_back(mamba_case("every dtype", t, {}));
    cases.push_back(
        mamba_case("every dtype, all inputs", t, {.steps = 37, .head_size = 19, .options = true}));
    cases.push_back(
        mamba_case("T116 one step", t, {.batch = 3, .steps = 1, .head_size = 64, .options = true}));
  }
  for (const DType t : {DType::f16, DType::bf16}) {
    cases.push_back(mamba_case("parameters of f32", t,
                               {.steps = 19, .options = true, .parameters = DType::f32}));
  }
  cases.push_back(mamba_case("Mamba-2's sizes", DType::f32,
                             {.batch = 1,
                              .steps = 33,
                              .heads = 3,
                              .head_size = 64,
                              .groups = 1,
                              .states = 128,
                              .options = true}));
  cases.push_back(mamba_case("a group to each head", DType::f32, {.groups = 4, .states = 5}));
  cases.push_back(mamba_case("many states", DType::f16,
                             {.steps = 5, .heads = 1, .head_size = 3, .groups = 1, .states = 300}));
  cases.push_back(mamba_case("one state, one column", DType::f32,
                             {.heads = 2, .head_size = 1, .groups = 1, .states = 1}));
  cases.push_back(mamba_case("T116 a long sequence, in chunks", DType::f16,
                             {.batch = 1, .steps = 1027, .heads = 2}));
  cases.push_back(mamba_case(
      "in chunks, all inputs", DType::f32,
      {.batch = 1, .steps = 513, .heads = 2, .head_size = 19, .states = 9, .options = true}));
  for (const int64_t steps : {63, 64, 65, 200, 1000}) {
    cases.push_back(mamba_case("pairs of steps", DType::f16, {.batch = 1, .steps = steps}));
    cases.push_back(mamba_case("pairs of steps, all inputs", DType::bf16,
                               {.steps = steps, .head_size = 19, .options = true}));
  }
  cases.push_back(mamba_case("pairs of steps, parameters of f32", DType::f16,
                             {.batch = 1,
                              .steps = 150,
                              .heads = 3,
                              .head_size = 64,
                              .groups = 1,
                              .states = 128,
                              .options = true,
                              .parameters = DType::f32}));
  // More groups of columns than multiprocessors.
  for (const DType t : {DType::f16, DType::bf16}) {
    cases.push_back(
        mamba_case("pairs of steps, many groups", t,
                   {.batch = 5, .steps = 65, .heads = 15, .head_size = 32, .groups = 1}));
  }
  cases.push_back(mamba_case("from zero", DType::f32, {.state0 = false, .outputs = 1}));
  cases.push_back(mamba_case("T116 T19 no steps: the state stays", DType::f32, {.steps = 0}));
  cases.push_back(
      mamba_case("T19 no steps and no state", DType::f32, {.steps = 0, .state0 = false}));
  cases.push_back(mamba_case("T19 no batch", DType::f32, {.batch = 0}));
  cases.push_back(mamba_case("T19 heads of no columns", DType::f32, {.head_size = 0}));
  return cases;
}

}  // namespace rlx::test
