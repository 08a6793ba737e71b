// SPDX-License-Identifier: Apache-2.0
// conv (ops.md 9.1; golden values of section 17; traps T111, T112, T14).
#include <array>
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

constexpr std::array kFloats = {DType::f32, DType::f16, DType::bf16};

Case conv(std::string name, const CaseTensor& x, const CaseTensor& w, std::string attributes = "{}",
          std::optional<CaseTensor> bias = std::nullopt) {
  Case test{.name = std::move(name),
            .op = "conv",
            .inputs = {x, w},
            .attributes = std::move(attributes),
            .tolerance = Tolerance::Sum};
  if (bias) test.inputs.push_back(std::move(bias));
  return test;
}

Case conv_of(std::string name, const Shape& x, const Shape& w, std::string attributes = "{}",
             DType dtype = DType::f32) {
  return conv(std::move(name), tensor(dtype, x), tensor(dtype, w), std::move(attributes),
              tensor(dtype, {w[0]}));
}

void add_golden(std::vector<Case>& cases) {
  const CaseTensor x = tensor(DType::f32, {1, 1, 5}).of({1, 2, 3, 4, 5});
  const CaseTensor w = tensor(DType::f32, {1, 1, 3}).of({1, 0, -2});
  Case strided = conv("1-d stride 2, pads [1, 2], bias", x, w, R"({"stride": [2], "pads": [1, 2]})",
                      tensor(DType::f32, {1}).of({0.5}));
  strided.golden = {{-3.5, -5.5, 4.5}};
  cases.push_back(strided);
  Case dilated = conv("1-d pads [1, 1], dilation 2", x, w, R"({"pads": [1, 1], "dilation": [2]})");
  dilated.golden = {{-8, -9, 2}};
  cases.push_back(dilated);
}

void add_ranks_and_windows(std::vector<Case>& cases) {
  cases.push_back(conv_of("T111 1-d", {2, 3, 19}, {5, 3, 4}, R"({"pads": [1]})"));
  cases.push_back(conv_of("T111 2-d", {2, 3, 9, 11}, {5, 3, 3, 2}, R"({"pads": [1, 1]})"));
  cases.push_back(conv_of("T111 3-d", {2, 2, 5, 6, 7}, {3, 2, 2, 3, 2},
                          R"({"stride": [1, 2, 1], "pads": [1, 0, 1, 0, 1, 0]})"));
  cases.push_back(
      conv_of("T112 pads [0, 1, 2, 0]", {1, 3, 7, 8}, {4, 3, 3, 3}, R"({"pads": [0, 1, 2, 0]})"));
  cases.push_back(
      conv_of("T112 dilation 2", {1, 3, 9, 9}, {4, 3, 3, 3}, R"({"dilation": [2, 2]})"));
  cases.push_back(conv_of("T112 stride larger than kernel", {1, 3, 13, 13}, {4, 3, 2, 2},
                          R"({"stride": [3, 4]})"));
  cases.push_back(conv_of("T112 kernel larger than input with padding", {1, 3, 3, 3}, {4, 3, 5, 5},
                          R"({"pads": [2, 2]})"));
  cases.push_back(conv_of("kernel attribute that agrees with w", {1, 2, 5, 5}, {3, 2, 3, 3},
                          R"({"kernel": [3, 3]})"));
  cases.push_back(
      conv("without bias", tensor(DType::f32, {1, 2, 5, 5}), tensor(DType::f32, {3, 2, 3, 3})));
}

void add_groups(std::vector<Case>& cases) {
  cases.push_back(
      conv_of("T112 groups = 2", {2, 6, 7, 7}, {10, 3, 3, 3}, R"({"groups": 2, "pads": [1, 1]})"));
  cases.push_back(
      conv_of("T112 depthwise", {2, 6, 9, 10}, {6, 1, 3, 3}, R"({"groups": 6, "pads": [1, 1]})"));
  cases.push_back(
      conv_of("depthwise with multiplier 2", {1, 5, 9, 9}, {10, 1, 3, 3}, R"({"groups": 5})"));
  cases.push_back(
      conv_of("depthwise stride 2, dilation 2, pads [0, 1, 2, 0]", {1, 4, 13, 12}, {4, 1, 3, 3},
              R"({"groups": 4, "stride": [2, 2], "dilation": [2, 2], "pads": [0, 1, 2, 0]})"));
  cases.push_back(
      conv_of("depthwise 1-d", {2, 4, 600}, {4, 1, 7}, R"({"groups": 4, "pads": [3]})"));
  cases.push_back(conv_of("depthwise 3-d", {1, 3, 4, 5, 6}, {3, 1, 2, 2, 2}, R"({"groups": 3})"));
  cases.push_back(conv_of("depthwise with many filters per channel is a product", {1, 2, 9, 9},
                          {12, 1, 3, 3}, R"({"groups": 2})"));
  cases.push_back(
      conv_of("depthwise 7x7", {1, 3, 12, 12}, {3, 1, 7, 7}, R"({"groups": 3, "pads": [3, 3]})"));
  cases.push_back(conv_of("depthwise over several tiles", {1, 2, 37, 41}, {2, 1, 5, 5},
                          R"({"groups": 2, "pads": [2, 2]})"));
  cases.push_back(conv_of("depthwise whose patch exceeds shared memory", {1, 2, 7, 7}, {2, 1, 2, 2},
                          R"({"groups": 2, "dilation": [100, 100], "pads": [50, 50]})"));
  cases.push_back(conv_of("one channel in, one out", {1, 1, 8, 8}, {1, 1, 3, 3}));
}

void add_pointwise(std::vector<Case>& cases) {
  cases.push_back(
      conv_of("1x1 as a product", {2, 12, 7, 8}, {20, 12, 1, 1}, R"({"activation": "relu"})"));
  cases.push_back(conv_of("1x1 with groups", {2, 12, 5, 5}, {10, 6, 1, 1}, R"({"groups": 2})"));
  cases.push_back(conv_of("1x1 with few filters", {2, 12, 5, 5}, {3, 12, 1, 1}));
  cases.push_back(conv_of("1x1 on one pixel", {3, 12, 1, 1}, {20, 12, 1, 1}));
  cases.push_back(conv_of("1x1 with stride is no plain product", {1, 12, 7, 7}, {8, 12, 1, 1},
                          R"({"stride": [2, 2]})"));
  cases.push_back(conv_of("1x1 with pads is no plain product", {1, 12, 5, 5}, {8, 12, 1, 1},
                          R"({"pads": [1, 1]})"));
}

void add_sizes(std::vector<Case>& cases) {
  struct Size {
    int64_t channels;
    int64_t filters;
    int64_t side;
  };
  for (const Size size :
       {Size{1, 16, 28}, Size{16, 31, 8}, Size{7, 33, 9}, Size{8, 64, 8}, Size{5, 65, 7}}) {
    cases.push_back(conv_of("3x3, " + std::to_string(size.channels) + " to " +
                                std::to_string(size.filters) + " on " + std::to_string(size.side),
                            {2, size.channels, size.side, size.side},
                            {size.filters, size.channels, 3, 3},
                            R"({"pads": [1, 1], "activation": "relu"})"));
  }
}

void add_dtypes(std::vector<Case>& cases) {
  for (const DType dtype : kFloats) {
    const std::string text(name_of(dtype));
    cases.push_back(conv_of("T111 " + text + " with activation", {2, 4, 8, 8}, {6, 4, 3, 3},
                            R"({"pads": [1, 1], "activation": "gelu"})", dtype));
    cases.push_back(conv_of("depthwise " + text, {1, 4, 8, 8}, {4, 1, 3, 3},
                            R"({"groups": 4, "activation": "silu"})", dtype));
    cases.push_back(conv("f32 activations with " + text + " weights",
                         tensor(DType::f32, {1, 4, 6, 6}), tensor(dtype, {5, 4, 3, 3}).param(),
                         "{}", tensor(dtype, {5}).param()));
  }
  cases.push_back(conv_of("f64", {1, 3, 7, 7}, {4, 3, 3, 3}, "{}", DType::f64));
  cases.push_back(
      conv_of("f64 depthwise", {1, 3, 7, 7}, {3, 1, 3, 3}, R"({"groups": 3})", DType::f64));
}

void add_edges(std::vector<Case>& cases) {
  cases.push_back(conv_of("empty batch", {0, 3, 5, 5}, {4, 3, 3, 3}));
  cases.push_back(conv_of("no filters", {1, 3, 5, 5}, {0, 3, 3, 3}));
  cases.push_back(conv_of("no channels leave the bias", {1, 0, 5, 5}, {4, 0, 3, 3}));
  Case nan = conv("T14 zero pads and pixels meet NaN weights",
                  tensor(DType::f32, {1, 1, 4, 4}).of(std::vector<double>(16, 0)),
                  tensor(DType::f32, {2, 1, 3, 3}), R"({"pads": [1, 1]})");
  std::vector<double> weights(18, 1);
  weights[4] = std::numeric_limits<double>::quiet_NaN();
  weights[9] = std::numeric_limits<double>::infinity();
  nan.inputs[1] = tensor(DType::f32, {2, 1, 3, 3}).of(weights);
  cases.push_back(nan);
}

}  // namespace

std::vector<Case> conv_cases() {
  std::vector<Case> cases;
  add_golden(cases);
  add_ranks_and_windows(cases);
  add_groups(cases);
  add_pointwise(cases);
  add_sizes(cases);
  add_dtypes(cases);
  add_edges(cases);
  return cases;
}

}  // namespace rlx::test
