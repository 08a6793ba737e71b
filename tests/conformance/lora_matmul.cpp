// SPDX-License-Identifier: Apache-2.0
// Cases of lora_matmul.
#include <utility>

#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> lora_matmul_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](std::string name, std::vector<std::optional<CaseTensor>> inputs,
                            std::string attributes) {
    cases.push_back({.name = std::move(name),
                     .op = "lora_matmul",
                     .inputs = std::move(inputs),
                     .attributes = std::move(attributes),
                     .tolerance = Tolerance::Sum});
  };
  const auto adapters = [](DType dtype, int64_t k, int64_t r, int64_t n) {
    return std::pair{tensor(dtype, {k, r}).param(), tensor(dtype, {r, n}).param()};
  };
  const auto [a, b] = adapters(DType::f32, 40, 4, 24);
  add("f32", {tensor(DType::f32, {3, 40}), tensor(DType::f32, {40, 24}).param(), a, b}, "{}");
  add("f16 with f32 adapters, leading dims",
      {tensor(DType::f16, {2, 9, 40}), tensor(DType::f16, {40, 24}).param(), a, b},
      R"({"scale": 0.5})");
  const auto [wide_a, wide_b] = adapters(DType::f64, 7, 2, 5);
  add("f64", {tensor(DType::f64, {3, 7}), tensor(DType::f64, {7, 5}), wide_a, wide_b},
      R"({"scale": -2})");
  const auto [block_a, block_b] = adapters(DType::bf16, 256, 8, 12);
  add("blocks",
      {tensor(DType::f16, {11, 256}), tensor(DType::q4_k, {12, 256}).param(), block_a, block_b},
      R"({"scheme": "q4_k", "scale": 2})");
  return cases;
}

}  // namespace rlx::test
