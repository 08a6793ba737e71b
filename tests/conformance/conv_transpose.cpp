// SPDX-License-Identifier: Apache-2.0
// conv_transpose (ops.md 9.2; golden values of section 17; traps T14, T113).
#include <array>
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

Case transposed(std::string name, const CaseTensor& x, const CaseTensor& w,
                std::string attributes = "{}", std::optional<CaseTensor> bias = std::nullopt) {
  Case test{.name = std::move(name),
            .op = "conv_transpose",
            .inputs = {x, w},
            .attributes = std::move(attributes),
            .tolerance = Tolerance::Sum};
  if (bias) test.inputs.push_back(std::move(bias));
  return test;
}

Case with_bias(std::string name, const Shape& x, const Shape& w, std::string attributes,
               int64_t groups = 1, DType dtype = DType::f32) {
  return transposed(std::move(name), tensor(dtype, x), tensor(dtype, w), std::move(attributes),
                    tensor(dtype, {w[1] * groups}));
}

void add_transpose_golden(std::vector<Case>& cases) {
  const CaseTensor x = tensor(DType::f32, {1, 1, 3}).of({1, 2, 3});
  const CaseTensor w = tensor(DType::f32, {1, 1, 3}).of({1, 10, 100});
  Case test = transposed("T113 stride 2, pads [1, 1], output_padding 1", x, w,
                         R"({"stride": [2], "pads": [1, 1], "output_padding": [1]})");
  test.golden = {{10, 102, 20, 203, 30, 300}};
  cases.push_back(test);
  test = transposed("T113 output_shape, the larger half off the begin", x, w,
                    R"({"stride": [2], "output_shape": [4]})");
  test.golden = {{102, 20, 203, 30}};
  cases.push_back(test);
  test = transposed("T113 output_shape beyond all taps leaves the bias at the end", x, w,
                    R"({"stride": [2], "output_shape": [9]})", tensor(DType::f32, {1}).of({0.5}));
  test.golden = {{1.5, 10.5, 102.5, 20.5, 203.5, 30.5, 300.5, 0.5, 0.5}};
  cases.push_back(test);
  test = transposed("T113 dilation 2, stride 3: places that no tap reaches", x, w,
                    R"({"stride": [3], "dilation": [2]})", tensor(DType::f32, {1}).of({-1}));
  test.golden = {{0, -1, 9, 1, 99, 19, 2, 199, 29, -1, 299}};
  cases.push_back(test);
}

void add_windows(std::vector<Case>& cases) {
  cases.push_back(with_bias("T113 k 3 s 2 p 1 output_padding 1", {2, 5, 6, 7}, {5, 4, 3, 3},
                            R"({"stride": [2, 2], "pads": [1, 1], "output_padding": [1, 1]})"));
  cases.push_back(with_bias("T113 dilation 2", {1, 3, 5, 6}, {3, 4, 3, 3},
                            R"({"stride": [2, 3], "dilation": [2, 2], "pads": [1, 0, 2, 1]})"));
  cases.push_back(with_bias("T113 groups 2", {2, 6, 5, 5}, {6, 3, 4, 4},
                            R"({"groups": 2, "stride": [2, 2], "pads": [1, 1]})", 2));
  cases.push_back(
      with_bias("depthwise", {1, 5, 6, 6}, {5, 1, 3, 3}, R"({"groups": 5, "stride": [2, 2]})", 5));
  cases.push_back(with_bias("1-d, as a vocoder has it", {1, 12, 19}, {12, 6, 16},
                            R"({"stride": [8], "pads": [4]})"));
  cases.push_back(with_bias("3-d", {1, 3, 3, 4, 3}, {3, 2, 3, 2, 2},
                            R"({"stride": [2, 1, 2], "pads": [1, 0, 0]})"));
  cases.push_back(with_bias("stride 1 is a plain convolution turned", {1, 3, 7, 7}, {3, 4, 3, 3},
                            R"({"pads": [1, 1], "kernel": [3, 3]})"));
  cases.push_back(with_bias("stride larger than the kernel", {1, 3, 4, 4}, {3, 2, 2, 2},
                            R"({"stride": [3, 4]})"));
  cases.push_back(with_bias("pads that cut whole pixels off", {1, 2, 6}, {2, 3, 2},
                            R"({"stride": [2], "pads": [3, 4]})"));
  cases.push_back(with_bias("output_padding below the dilation", {1, 2, 5}, {2, 2, 2},
                            R"({"dilation": [3], "output_padding": [2]})"));
  cases.push_back(with_bias("many channels", {2, 40, 9, 9}, {40, 72, 4, 4},
                            R"({"stride": [2, 2], "pads": [1, 1]})"));
}

void add_tiles(std::vector<Case>& cases) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    cases.push_back(with_bias("kernel = stride, " + std::string(name_of(dtype)), {2, 16, 5, 6},
                              {16, 8, 2, 2}, R"({"stride": [2, 2]})", 1, dtype));
  }
  cases.push_back(with_bias("kernel = stride, groups", {1, 6, 5, 4}, {6, 2, 2, 3},
                            R"({"stride": [2, 3], "groups": 3})", 3));
  cases.push_back(with_bias("kernel = stride, 1-d", {2, 4, 7}, {4, 3, 4}, R"({"stride": [4]})"));
  cases.push_back(with_bias("kernel = stride, 3-d", {1, 3, 2, 3, 4}, {3, 2, 2, 1, 2},
                            R"({"stride": [2, 1, 2]})"));
  cases.push_back(transposed("kernel = stride, weights, no bias", tensor(DType::f16, {1, 32, 8, 8}),
                             tensor(DType::f16, {32, 16, 2, 2}).param(), R"({"stride": [2, 2]})"));
  cases.push_back(with_bias("kernel = stride with pads is gathered", {1, 3, 5, 5}, {3, 2, 2, 2},
                            R"({"stride": [2, 2], "pads": [1, 0, 0, 1]})"));
}

void add_dtypes_and_edges(std::vector<Case>& cases) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    cases.push_back(with_bias("gathered " + std::string(name_of(dtype)), {1, 7, 6, 5}, {7, 9, 3, 3},
                              R"({"stride": [2, 2], "pads": [1, 1]})", 1, dtype));
  }
  cases.push_back(transposed("f32 activations with f16 weights", tensor(DType::f32, {1, 4, 5}),
                             tensor(DType::f16, {4, 3, 3}).param(), R"({"stride": [2]})"));
  cases.push_back(with_bias("T19 empty batch", {0, 3, 5}, {3, 2, 3}, R"({"stride": [2]})"));
  cases.push_back(
      with_bias("no channels leave the bias", {1, 0, 5}, {0, 2, 3}, R"({"stride": [2]})"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  // A corner tap of NaN and an edge tap of infinity: outputs that those do not reach stay finite,
  // those that they reach through zeros of x do not.
  for (const DType dtype : {DType::f32, DType::f16}) {
    for (const char* attributes :
         {R"({"stride": [2, 2], "pads": [1, 1], "output_padding": [1, 1]})",
          R"({"stride": [3, 1], "dilation": [1, 2], "pads": [2, 0, 0, 3]})",
          R"({"stride": [3, 3]})"}) {
      std::vector<double> weights(2 * 5 * 9, 0.5);
      std::vector<double> pixels(2 * 7 * 9, 0.25);
      for (size_t filter = 0; filter < 10; filter += 3) weights[filter * 9] = nan;
      for (size_t filter = 0; filter < 10; filter += 4) weights[filter * 9 + 5] = infinity;
      for (size_t i = 0; i < pixels.size(); i += 2) pixels[i] = 0;
      cases.push_back(transposed(std::string("T14 NaN and infinite taps at the border, ") +
                                     attributes + " " + std::string(name_of(dtype)),
                                 tensor(dtype, {1, 2, 7, 9}).of(pixels),
                                 tensor(dtype, {2, 5, 3, 3}).of(weights), attributes));
    }
  }
  cases.push_back(transposed("T14 zeros meet NaN weights",
                             tensor(DType::f32, {1, 1, 4}).of({0, 0, 0, 0}),
                             tensor(DType::f32, {1, 2, 3}).of({nan, nan, nan, 1, 1, 1}),
                             R"({"stride": [2], "pads": [1]})"));
}

}  // namespace

std::vector<Case> conv_transpose_cases() {
  std::vector<Case> cases;
  add_transpose_golden(cases);
  add_windows(cases);
  add_tiles(cases);
  add_dtypes_and_edges(cases);
  return cases;
}

}  // namespace rlx::test
