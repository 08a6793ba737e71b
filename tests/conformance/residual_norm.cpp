// SPDX-License-Identifier: Apache-2.0
// Cases of fused_residual_ln and fused_residual_rms_norm.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> residual_norm_cases() {
  std::vector<Case> cases;
  cases.push_back(
      {.name = "layer norm of a sum with a bias, by numpy",
       .op = "fused_residual_ln",
       .inputs = {tensor(DType::f32, {2, 4})
                      .of({2.5, -2.1875, -0.75, 2.6875, -2.3125, -0.5625, 1.8125, -2.875}),
                  tensor(DType::f32, {2, 4})
                      .of({-2.5625, 2.5625, 1.125, -1.4375, -0.125, -1.5, 2.375, 2.6875}),
                  tensor(DType::f32, {4}).of({-0.875, 0.0625, -0.625, -0.1875}),
                  tensor(DType::f32, {4}).of({1.25, 1.1875, 0.6875, 0.8125}),
                  tensor(DType::f32, {4}).of({-0.125, -0.25, 0.375, 0.5625})},
       .tolerance = Tolerance::Norm,
       .outputs = 2,
       .golden = {{-1.8224889, 0.32061742, 0.07336928, 1.631918, -1.4712358, -0.92538684, 1.464846,
                   0.6116603},
                  {-0.9375, 0.4375, -0.25, 1.0625, -3.3125, -2, 3.5625, -0.375}}});
  cases.push_back(
      {.name = "T65 rms norm with gamma_offset, by numpy",
       .op = "fused_residual_rms_norm",
       .inputs = {tensor(DType::f32, {2, 4})
                      .of({2.5, -2.1875, -0.75, 2.6875, -2.3125, -0.5625, 1.8125, -2.875}),
                  tensor(DType::f32, {2, 4})
                      .of({-2.5625, 2.5625, 1.125, -1.4375, -0.125, -1.5, 2.375, 2.6875}),
                  std::nullopt, tensor(DType::f32, {4}).of({1.25, 1.1875, 0.6875, 0.8125})},
       .attributes = R"({"gamma_offset": 1})",
       .tolerance = Tolerance::Norm,
       .golden = {{-0.20690798, 1.2069632, 0.93108591, 3.3335175, -2.0816279, -1.7124503, 2.6820975,
                   -0.12898976}}});
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    for (const char* op : {"fused_residual_ln", "fused_residual_rms_norm"}) {
      const CaseTensor x = tensor(dtype, {3, 5, 64});
      const CaseTensor row = tensor(dtype, {64}).param();
      cases.push_back({.name = "T68 the sum is a result too",
                       .op = op,
                       .inputs = {x, x, row, row, row},
                       .attributes = R"({"eps": 0.001})",
                       .tolerance = Tolerance::Norm,
                       .outputs = 2});
    }
  }
  cases.push_back({.name = "T62 a large mean",
                   .op = "fused_residual_ln",
                   .inputs = {tensor(DType::f32, {4, 96}).uniform(9999, 10001),
                              tensor(DType::f32, {4, 96}).uniform(-0.01, 0.01)},
                   .tolerance = Tolerance::Norm});
  cases.push_back(
      {.name = "T65 rms norm with beta, gamma of another dtype",
       .op = "fused_residual_rms_norm",
       .inputs = {tensor(DType::f16, {4, 40}), tensor(DType::f16, {4, 40}), std::nullopt,
                  tensor(DType::f32, {40}).param(), tensor(DType::f32, {40}).param()},
       .tolerance = Tolerance::Norm});
  cases.push_back({.name = "T19 no rows",
                   .op = "fused_residual_ln",
                   .inputs = {tensor(DType::f32, {0, 8}), tensor(DType::f32, {0, 8})},
                   .tolerance = Tolerance::Norm});
  return cases;
}

}  // namespace rlx::test
