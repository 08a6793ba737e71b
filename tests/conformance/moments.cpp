// SPDX-License-Identifier: Apache-2.0
// What norms over channels are made of: moments, inverse_norm, standardise, scaled. Their use is
// covered by channel_norm and batch_norm.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> moments_cases() {
  std::vector<Case> cases;
  const DType f32 = DType::f32;
  const auto add = [&cases](const std::string& name, const std::string& op,
                            std::vector<std::optional<CaseTensor>> inputs,
                            const std::string& attributes, size_t outputs) {
    cases.push_back({.name = name,
                     .op = op,
                     .inputs = std::move(inputs),
                     .attributes = attributes,
                     .tolerance = Tolerance::Norm,
                     .outputs = outputs});
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    add("over batch and pixels, with the variance, " + std::string(name_of(dtype)), "moments",
        {tensor(dtype, {3, 5, 8, 9})}, R"({"axes": [0, 2, 3]})", 4);
  }
  add("over batch and pixels, in parts", "moments", {tensor(f32, {5, 2, 64, 40})},
      R"({"axes": [0, -1, -2]})", 4);
  add("by groups of channels, repeated", "moments", {tensor(f32, {2, 6, 5})}, R"({"groups": 2})",
      3);
  add("down columns, in parts", "moments", {tensor(f32, {3000, 33})}, R"({"axes": [0]})", 4);
  add("of single elements", "moments", {tensor(f32, {3, 4})}, R"({"axes": []})", 4);
  add("of everything", "moments", {tensor(f32, {3, 4, 5})}, R"({"axes": [0, 1, 2]})", 3);
  add("of nothing", "moments", {tensor(f32, {0, 4})}, R"({"axes": [0]})", 4);
  add("over two axes", "inverse_norm", {tensor(DType::f16, {3, 4, 5})}, R"({"axes": [0, 2]})", 1);
  for (const DType dtype : {DType::f32, DType::f16}) {
    add("x beside statistics of f32 and parameters of bf16, " + std::string(name_of(dtype)),
        "standardise",
        {tensor(dtype, {2, 3, 8}), tensor(f32, {2, 3, 1}), tensor(f32, {2, 1, 1}),
         tensor(f32, {3, 1}), tensor(DType::bf16, {3, 1}), tensor(DType::bf16, {3, 1})},
        "{}", 1);
  }
  add("without parameters", "standardise",
      {tensor(f32, {2, 7}), tensor(f32, {2, 1}), tensor(f32, {2, 1}), tensor(f32, {2, 1})}, "{}",
      1);
  add("gamma alone", "standardise",
      {tensor(DType::f64, {2, 7}), tensor(DType::f64, {2, 1}), tensor(DType::f64, {2, 1}),
       tensor(DType::f64, {2, 1}), tensor(f32, {7})},
      "{}", 1);
  add("factors of f32", "scaled", {tensor(DType::f16, {3, 16}), tensor(f32, {3, 1})}, "{}", 1);
  return cases;
}

}  // namespace rlx::test
