// SPDX-License-Identifier: Apache-2.0
// Conformance of max_pool_backward and mean_pool_backward (ops.md 16.6).
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> pool_backward_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](std::string name, std::string op,
                            std::vector<std::optional<CaseTensor>> inputs, std::string attributes,
                            std::vector<std::vector<double>> golden = {}) {
    cases.push_back({.name = std::move(name),
                     .op = std::move(op),
                     .inputs = std::move(inputs),
                     .attributes = std::move(attributes),
                     .tolerance = Tolerance::Sum,
                     .golden = std::move(golden)});
  };
  const std::string max = "max_pool_backward";
  const std::string mean = "mean_pool_backward";
  for (const DType dtype : {DType::f32, DType::f16, DType::f64}) {
    add("T164 windows side by side", max,
        {tensor(dtype, {2, 3, 8, 6}).range(-3, 3), tensor(dtype, {2, 3, 4, 3})},
        R"({"kernel": [2, 2], "stride": [2, 2]})");
    add("T164 windows that overlap", max,
        {tensor(dtype, {2, 3, 8, 7}).range(-3, 3), tensor(dtype, {2, 3, 4, 4})},
        R"({"kernel": [3, 3], "stride": [2, 2], "pads": [1, 1, 1, 1]})");
    add("windows side by side", mean, {tensor(dtype, {2, 3, 4, 3})},
        R"({"x_shape": [2, 3, 8, 6], "kernel": [2, 2], "stride": [2, 2]})");
    add("windows that overlap", mean, {tensor(dtype, {2, 3, 4, 4})},
        R"({"x_shape": [2, 3, 8, 7], "kernel": [3, 3], "stride": [2, 2], "pads": [1, 1, 1, 1]})");
  }
  add("T164 ties, NaN and -inf", max,
      {tensor(DType::f32, {1, 1, 8}).of({2, 2, kNan, 5, -kInfinity, -kInfinity, 0, 1}),
       tensor(DType::f32, {1, 1, 4}).of({1, 2, 4, 8})},
      R"({"kernel": [2], "stride": [2]})", {{1, 0, 2, 0, 4, 0, 0, 8}});
  add("T164 overlapping windows add", max,
      {tensor(DType::f32, {1, 1, 4}).of({1, 3, 2, 3}), tensor(DType::f32, {1, 1, 3}).of({1, 2, 4})},
      R"({"kernel": [2], "stride": [1]})", {{0, 3, 0, 4}});
  add("given indices", max,
      {tensor(DType::f32, {1, 2, 4}), tensor(DType::f32, {1, 2, 2}),
       tensor(DType::i64, {1, 2, 2}).of_integers({0, 3, 1, 2})},
      R"({"kernel": [2], "stride": [2]})");
  add("ceil mode and dilation", max,
      {tensor(DType::f32, {2, 2, 9, 10}), tensor(DType::f32, {2, 2, 4, 4})},
      R"({"kernel": [2, 3], "stride": [2, 2], "dilation": [2, 1], "ceil_mode": true})");
  add("T109 pads count", mean, {tensor(DType::f32, {1, 2, 4, 4})},
      R"({"x_shape": [1, 2, 4, 4], "kernel": [3, 3], "stride": [1, 1], "pads": [1, 1, 1, 1], "count_include_pad": true})");
  add("T110 overhang never counts", mean, {tensor(DType::f32, {2, 2, 3})},
      R"({"x_shape": [2, 2, 6], "kernel": [3], "stride": [2], "ceil_mode": true})");
  add("a divisor", mean, {tensor(DType::f32, {2, 2, 2})},
      R"({"x_shape": [2, 2, 7], "kernel": [3], "stride": [2], "dilation": [2], "divisor_override": 2})");
  add("three axes", mean, {tensor(DType::f32, {1, 2, 2, 3, 2})},
      R"({"x_shape": [1, 2, 4, 6, 4], "kernel": [2, 2, 2], "stride": [2, 2, 2]})");
  return cases;
}

}  // namespace rlx::test
