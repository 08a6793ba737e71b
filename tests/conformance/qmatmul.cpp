// SPDX-License-Identifier: Apache-2.0
// Cases of qmatmul (T56).
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> qmatmul_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](std::string name, std::vector<std::optional<CaseTensor>> inputs,
                            std::string attributes, std::vector<double> golden = {}) {
    Case test{.name = std::move(name),
              .op = "qmatmul",
              .inputs = std::move(inputs),
              .attributes = std::move(attributes)};
    if (!golden.empty()) test.golden = {std::move(golden)};
    cases.push_back(std::move(test));
  };
  const CaseTensor one = tensor(DType::i8, {1, 1}).of({1});
  add("T56 half to even and both limits",
      {one, tensor(DType::i8, {1, 6}).of({3, 1, -1, -3, 127, -128}),
       tensor(DType::i32, {6}).of({0, 0, 0, 0, 200, -200})},
      R"({"mult": [0.5]})", {2, 0, 0, -2, 127, -128});
  add("T56 an accumulator above 2^24 is converted once",
      {one, tensor(DType::i8, {1, 2}).of({0, 1}), tensor(DType::i32, {2}).of({16777217, 16777218})},
      R"({"mult": [3.814697265625e-06]})", {64, 64});
  add("the accumulator wraps",
      {one, tensor(DType::i8, {1, 1}).of({1}), tensor(DType::i32, {1}).of({2147483647})},
      R"({"mult": [4.6566128730773926e-08]})", {-100});
  add("all zero points, leading dims",
      {tensor(DType::u8, {2, 3, 33}).range(0, 255),
       tensor(DType::i8, {33, 10}).range(-128, 127).param(),
       tensor(DType::i32, {10}).range(-5000, 5000)},
      R"({"x_zp": 128, "w_zp": [3], "out_zp": -7, "mult": [0.0007]})");
  add("zero points and factors per column, to u8",
      {tensor(DType::i8, {70, 64}).range(-128, 127), tensor(DType::u8, {64, 4}).range(0, 255)},
      R"({"x_zp": -3, "w_zp": [1, 128, 255, 0], "out_zp": 100, "out_dtype": "u8",
          "mult": [0.0003, 0.0005, 0.001, 0.0002]})");
  add("no zero points",
      {tensor(DType::i8, {5, 40}).range(-128, 127),
       tensor(DType::i8, {40, 9}).range(-128, 127).param()},
      R"({"mult": [0.002]})");
  add("T19 K = 0",
      {tensor(DType::i8, {2, 0}), tensor(DType::i8, {0, 3}),
       tensor(DType::i32, {3}).of({5, -4, 300})},
      R"({"mult": [1]})", {5, -4, 127, 5, -4, 127});
  return cases;
}

}  // namespace rlx::test
