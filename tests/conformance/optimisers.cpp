// SPDX-License-Identifier: Apache-2.0
// Conformance of sgd, adam and clip_grad_norm (ops.md 16.9). Golden values by torch.optim in f64.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> optimisers_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](std::string name, std::string op,
                            std::vector<std::optional<CaseTensor>> inputs, std::string attributes,
                            size_t outputs, std::vector<std::vector<double>> golden = {}) {
    cases.push_back({.name = std::move(name),
                     .op = std::move(op),
                     .inputs = std::move(inputs),
                     .attributes = std::move(attributes),
                     .tolerance = Tolerance::Norm,
                     .outputs = outputs,
                     .golden = std::move(golden)});
  };
  const Shape shape = {7, 33};
  const CaseTensor f = tensor(DType::f32, shape);
  const CaseTensor positive = f.uniform(0, 2);
  const CaseTensor scalar = tensor(DType::f32, {});
  add("plain", "sgd", {f, f}, R"({"lr": 0.1})", 1);
  add("rate of the run", "sgd", {f, f, std::nullopt, scalar.of({0.25})},
      R"({"weight_decay": 0.1, "maximize": true})", 1);
  add("momentum", "sgd", {f, f, f}, R"({"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01})", 2);
  add("nesterov", "sgd", {f, f, f}, R"({"lr": 0.1, "momentum": 0.9, "nesterov": true})", 2);
  for (const int64_t t : {1, 2}) {
    add("dampening, step " + std::to_string(t), "sgd",
        {f, f, f, std::nullopt, tensor(DType::i32, {}).of_integers({t})},
        R"({"momentum": 0.9, "dampening": 0.5})", 2);
  }
  for (const DType dtype : {DType::f16, DType::bf16})
    add("moments of halves are f32", "sgd", {tensor(dtype, shape), tensor(dtype, shape), f},
        R"({"momentum": 0.5})", 2);
  const auto step = [](int64_t t) { return tensor(DType::i32, {}).of_integers({t}); };
  for (const int64_t t : {1, 2, 1000}) {
    add("step " + std::to_string(t), "adam", {f, f, f, positive, step(t)}, "{}", 3);
  }
  add("decoupled decay", "adam", {f, f, f, positive, step(3)},
      R"({"weight_decay": 0.1, "decoupled": true, "lr": 0.02})", 3);
  add("decay in the gradient", "adam", {f, f, f, positive, step(3)}, R"({"weight_decay": 0.1})", 3);
  add("rate of the run", "adam", {f, f, f, positive, scalar.of({4}), scalar.of({0.5})},
      R"({"maximize": true, "beta1": 0.8, "beta2": 0.95, "eps": 1e-6})", 3);
  const CaseTensor half = tensor(DType::bf16, shape);
  add("a master of f32 beside bf16", "adam", {half, half, f, positive, step(2), std::nullopt, f},
      "{}", 4);
  const CaseTensor wide = tensor(DType::f64, {5});
  add("doubles", "adam", {wide, wide, wide, wide.uniform(0, 1), step(5)}, "{}", 3);
  const CaseTensor two = tensor(DType::f32, {2});
  add("golden first step", "adam",
      {two.of({1, -2}), two.of({0.5, -0.25}), two.of({0, 0}), two.of({0, 0}), step(1)},
      R"({"lr": 0.1, "weight_decay": 0.5, "decoupled": true})", 3,
      {{0.85, -1.8}, {0.05, -0.025}, {0.00025, 0.0000625}});
  add("golden nesterov", "sgd", {two.of({1, -2}), two.of({0.5, -0.25}), two.of({1, 1})},
      R"({"lr": 0.1, "momentum": 0.9, "nesterov": true})", 2, {{0.824, -2.0335}, {1.4, 0.65}});
  add("gradients below the norm stay", "clip_grad_norm", {two.of({0.3, -0.4})},
      R"({"max_norm": 1})", 2, {{0.3, -0.4}, {0.5}});
  add("the norm of all", "clip_grad_norm",
      {tensor(DType::f32, {3, 50}), tensor(DType::f32, {7}), tensor(DType::f32, {})},
      R"({"max_norm": 1.5})", 4);
  add("halves", "clip_grad_norm", {tensor(DType::f16, {3, 50}), tensor(DType::bf16, {7})},
      R"({"max_norm": 0.5})", 2);
  return cases;
}

}  // namespace rlx::test
