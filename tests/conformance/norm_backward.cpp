// SPDX-License-Identifier: Apache-2.0
// Conformance of the gradients of norms (ops.md 16.2). Golden values of ops.md 17.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> norm_backward_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](std::string name, std::string op,
                            std::vector<std::optional<CaseTensor>> inputs, std::string attributes,
                            std::vector<std::vector<double>> golden = {}) {
    cases.push_back({.name = std::move(name),
                     .op = std::move(op),
                     .inputs = std::move(inputs),
                     .attributes = std::move(attributes),
                     .tolerance = Tolerance::Norm,
                     .outputs = 3,
                     .golden = std::move(golden)});
  };
  const std::string layer = "layer_norm_backward";
  const std::string rms = "rms_norm_backward";
  for (const int64_t columns : {65, 768}) {
    const CaseTensor x = tensor(DType::f32, {9, columns});
    const CaseTensor gamma = tensor(DType::f32, {columns}).uniform(0.5, 1.5);
    add("T158 " + std::to_string(columns), layer, {x, gamma, x}, "{}");
    add("T159 " + std::to_string(columns), rms, {x, gamma, x}, "{}");
  }
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    const CaseTensor x = tensor(dtype, {6, 40});
    const CaseTensor gamma = tensor(dtype, {40}).uniform(0.5, 1.5);
    add("rows", layer, {x, gamma, x}, "{}");
    add("rows", rms, {x, gamma, x}, R"({"gamma_offset": 1})");
  }
  const CaseTensor deep = tensor(DType::f32, {4, 3, 5, 6});
  add("two axes, no gamma", layer, {deep, std::nullopt, deep}, R"({"axis": 2, "eps": 0.001})");
  add("gamma that broadcasts", layer, {deep, tensor(DType::f32, {5, 1}), deep}, R"({"axis": -2})");
  add("statistics of the forward", layer,
      {deep, tensor(DType::f32, {6}), deep, tensor(DType::f32, {4, 3, 5, 1}),
       tensor(DType::f32, {4, 3, 5, 1}).uniform(0.5, 2)},
      "{}");
  add("no gamma", rms, {deep, std::nullopt, deep, tensor(DType::f32, {4, 3, 5, 1}).uniform(0.5, 2)},
      "{}");
  const CaseTensor golden_x = tensor(DType::f32, {1, 4}).of({1, 2, 4, -3});
  const CaseTensor golden_gamma = tensor(DType::f32, {4}).of({1, 2, 0.5, -1});
  const CaseTensor golden_dy = tensor(DType::f32, {1, 4}).of({1, -1, 2, 0.5});
  add("T159 golden", rms, {golden_x, golden_gamma, golden_dy}, "{}",
      {{0.3347192, -0.7911542, 0.2434322, -0.09128715},
       {0.3651481, -0.7302963, 2.921185, -0.5477222},
       {1, -1, 2, 0.5}});
  add("T158 golden", layer, {golden_x, golden_gamma, golden_dy}, "{}",
      {{0.441261, -0.7806924, 0.3054886, 0.03394287},
       {0, -0.3922321, 2.3533924, -0.7844641},
       {1, -1, 2, 0.5}});
  const CaseTensor image = tensor(DType::f32, {2, 6, 5, 7});
  const CaseTensor gamma = tensor(DType::f32, {6}).uniform(0.5, 1.5);
  add("groups", "group_norm_backward", {image, gamma, image}, R"({"num_groups": 3})");
  add("groups without gamma", "group_norm_backward", {image, std::nullopt, image},
      R"({"num_groups": 2})");
  add("instances", "instance_norm_backward", {image, gamma, image}, "{}");
  add("channels", "layer_norm2d_backward", {image, gamma, image}, "{}");
  const CaseTensor mean = tensor(DType::f32, {6});
  const CaseTensor inv_std = tensor(DType::f32, {6}).uniform(0.5, 2);
  for (const char* training : {"false", "true"}) {
    add(std::string("training ") + training, "batch_norm_backward",
        {image, gamma, image, mean, inv_std}, std::string(R"({"training": )") + training + "}");
  }
  return cases;
}

}  // namespace rlx::test
