// SPDX-License-Identifier: Apache-2.0
// deform_conv: golden values of torchvision 0.29.
#include <cmath>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

template <typename Curve>
std::vector<double> curve(size_t count, Curve value) {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(value(static_cast<double>(i)));
  return values;
}

}  // namespace

std::vector<Case> deform_conv_cases() {
  const DType f32 = DType::f32;
  Case golden{
      .name = "mask and bias, as torchvision",
      .op = "deform_conv",
      .inputs = {tensor(f32, {1, 2, 3, 3}).of(curve(18, [](double i) { return std::sin(i); })),
                 tensor(f32, {2, 2, 2, 2}).of(curve(16, [](double i) { return std::cos(i); })),
                 tensor(f32, {1, 8, 2, 2}).of(curve(32, [](double i) { return std::cos(3 * i); })),
                 tensor(f32, {1, 4, 2, 2})
                     .of(curve(16, [](double i) { return 0.5 + 0.25 * std::sin(i); })),
                 tensor(f32, {2}).of({0.5, -1})},
      .tolerance = Tolerance::Sum,
      .golden = {{0.0534810, -0.2296192, 0.8517339, 0.4044037, -0.9435075, -1.3551593, -0.8871525,
                  -0.4432806}}};
  Case groups{.name = "groups, offsets of groups, strides, pads, dilation",
              .op = "deform_conv",
              .inputs = {tensor(f32, {2, 4, 7, 9}), tensor(f32, {6, 2, 3, 2}),
                         tensor(f32, {2, 24, 4, 4}).uniform(-2, 2), std::nullopt, std::nullopt},
              .attributes = R"({"groups": 2, "offset_groups": 2, "stride": [2, 2],
                                "pads": [1, 0, 2, 1], "dilation": [1, 3]})",
              .tolerance = Tolerance::Sum};
  return {golden, groups};
}

}  // namespace rlx::test
