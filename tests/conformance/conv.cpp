// SPDX-License-Identifier: Apache-2.0
// conv (ops.md 9.1; golden values of section 17; traps T111, T112, T14). What tensor cores compute
// where a target has them: f32, f16 and bf16 of one group, two spatial dims.
#include <array>
#include <bit>
#include <functional>
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

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

// Of channels in whole vectors and not: pads, strides and dilations that differ by axis, volumes
// that are smaller than a window, several, of a residual.
void add_volumes(std::vector<Case>& cases) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const std::string text = " " + std::string(name_of(dtype));
    cases.push_back(conv_of("3-d 3x3x3 of 8 channels" + text, {2, 8, 4, 5, 6}, {12, 8, 3, 3, 3},
                            R"({"pads": [1, 1, 1], "activation": "relu"})", dtype));
    cases.push_back(conv_of(
        "3-d strides, dilations, pads of each axis" + text, {1, 8, 5, 8, 9}, {8, 8, 2, 3, 4},
        R"({"stride": [2, 1, 3], "dilation": [1, 2, 1], "pads": [1, 0, 2, 0, 2, 1]})", dtype));
    cases.push_back(conv_of("3-d 1x1x1" + text, {1, 32, 3, 4, 5}, {40, 32, 1, 1, 1}, "{}", dtype));
    cases.push_back(conv_of("3-d 1x1x1 stride 2" + text, {1, 64, 3, 5, 5}, {72, 64, 1, 1, 1},
                            R"({"stride": [2, 2, 2]})", dtype));
    cases.push_back(conv_of("3-d 3x7x7 of 3 channels" + text, {1, 3, 4, 17, 19}, {16, 3, 3, 7, 7},
                            R"({"stride": [1, 2, 2], "pads": [1, 3, 3]})", dtype));
    cases.push_back(conv_of("3-d groups = 2" + text, {1, 16, 4, 5, 6}, {12, 8, 3, 3, 3},
                            R"({"groups": 2, "pads": [1, 1, 1]})", dtype));
  }
  cases.push_back(conv_of("3-d window larger than the volume", {3, 8, 1, 2, 1}, {8, 8, 3, 5, 3},
                          R"({"pads": [1, 2, 1]})"));
  cases.push_back(conv_of("3-d over several tiles", {2, 64, 5, 6, 7}, {136, 64, 3, 3, 3},
                          R"({"pads": [1, 1, 1]})", DType::f16));
  Case residual = conv_of("3-d residual", {1, 8, 3, 6, 5}, {8, 8, 3, 3, 3},
                          R"({"pads": [1, 1, 1], "activation": "silu"})", DType::f16);
  residual.inputs.push_back(tensor(DType::f16, {1, 8, 3, 6, 5}));
  cases.push_back(residual);
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
  for (const DType dtype : {DType::f32, DType::f16}) {
    const std::string text(name_of(dtype));
    cases.push_back(conv_of("1x1 of 5 channels to 4 over many pixels, " + text, {1, 5, 300, 448},
                            {4, 5, 1, 1}, R"({"activation": "relu"})", dtype));
    cases.push_back(conv_of("1x1 of 5 channels to 3 over an odd number of pixels, " + text,
                            {2, 5, 363, 187}, {3, 5, 1, 1}, "{}", dtype));
  }
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
  for (const DType dtype : kShortFloats) {
    const std::string text(name_of(dtype));
    cases.push_back(conv_of("T111 " + text + " with activation", {2, 4, 8, 8}, {6, 4, 3, 3},
                            R"({"pads": [1, 1], "activation": "gelu"})", dtype));
    cases.push_back(conv_of("depthwise " + text, {1, 4, 8, 8}, {4, 1, 3, 3},
                            R"({"groups": 4, "activation": "silu"})", dtype));
    cases.push_back(conv_of("clamp between 0 and 6 in the epilogue", {1, 8, 9, 9}, {16, 8, 3, 3},
                            R"({"activation": "clamp", "min": 0, "max": 6})", dtype));
    cases.push_back(conv("f32 activations with " + text + " weights",
                         tensor(DType::f32, {1, 4, 6, 6}), tensor(dtype, {5, 4, 3, 3}).param(),
                         "{}", tensor(dtype, {5}).param()));
  }
  cases.push_back(conv_of("f64", {1, 3, 7, 7}, {4, 3, 3, 3}, "{}", DType::f64));
  cases.push_back(conv_of("f64 with gelu", {1, 3, 7, 7}, {4, 3, 3, 3}, R"({"activation": "gelu"})",
                          DType::f64));
  cases.push_back(conv_of("f64 depthwise with silu", {1, 3, 7, 7}, {3, 1, 3, 3},
                          R"({"groups": 3, "activation": "silu"})", DType::f64));
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

// As a model has it: w and bias are weights.
Case model_conv(std::string name, DType dtype, const Shape& x, const Shape& w,
                std::string attributes) {
  return conv(std::move(name) + " " + std::string(name_of(dtype)), tensor(dtype, x),
              tensor(dtype, w).param(), std::move(attributes), tensor(DType::f32, {w[0]}).param());
}

// Whole and broken tiles of pixels, filters and depth; channels in pieces of 16 bytes.
void add_tensor_cores(std::vector<Case>& cases) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto add = [&](std::string name, const Shape& x, const Shape& w, std::string attributes) {
      cases.push_back(model_conv(std::move(name), dtype, x, w, std::move(attributes)));
    };
    add("3x3, 64 to 64", {1, 64, 14, 14}, {64, 64, 3, 3}, R"({"pads": [1, 1]})");
    add("3x3 stride 2, two images, relu", {2, 16, 9, 11}, {40, 16, 3, 3},
        R"({"stride": [2, 2], "pads": [1, 1], "activation": "relu"})");
    add("pads [0, 1, 2, 0], dilation [1, 2]", {2, 8, 7, 9}, {24, 8, 3, 3},
        R"({"pads": [0, 1, 2, 0], "dilation": [1, 2]})");
    add("filters that fill no unit", {1, 24, 6, 5}, {33, 24, 3, 3}, R"({"pads": [1, 1]})");
    add("depth split over workgroups", {1, 128, 7, 7}, {64, 128, 3, 3}, R"({"pads": [1, 1]})");
    add("1x1", {2, 72, 7, 6}, {48, 72, 1, 1}, R"({"activation": "gelu"})");
    add("1x1 stride 2", {1, 32, 9, 9}, {64, 32, 1, 1}, R"({"stride": [2, 2]})");
    add("one pixel", {3, 64, 1, 1}, {40, 64, 1, 1}, "{}");
    add("5x1", {1, 8, 12, 5}, {16, 8, 5, 1}, R"({"pads": [2, 0]})");
    add("many pixels", {2, 8, 40, 40}, {64, 8, 3, 3}, R"({"pads": [1, 1]})");
  }
  cases.push_back(conv_of("f16 filters that are no weight", {1, 16, 6, 6}, {16, 16, 3, 3},
                          R"({"pads": [1, 1]})", DType::f16));
}

// Products so large that warpgroups multiply (conv_mma_tiles.cpp); pixels, filters and depth do not
// fill their last tiles.
void add_warpgroups(std::vector<Case>& cases) {
  cases.push_back(model_conv("warpgroups, 128x128 tiles,", DType::bf16, {2, 192, 113, 113},
                             {65, 192, 1, 1}, R"({"activation": "relu"})"));
  Case residual = model_conv("warpgroups, 64x64 tiles, residual,", DType::f16, {2, 24, 115, 113},
                             {68, 24, 3, 3}, R"({"pads": [0, 1]})");
  residual.inputs.push_back(tensor(DType::f16, {2, 68, 113, 113}));
  cases.push_back(residual);
  Case windows = model_conv("warpgroups, windows, residual,", DType::f16, {4, 64, 57, 57},
                            {72, 64, 3, 3}, R"({"pads": [1, 1], "activation": "relu"})");
  windows.inputs.push_back(tensor(DType::f16, {4, 72, 57, 57}));
  cases.push_back(windows);
  Case parts = model_conv("warpgroups, k split, residual,", DType::f32, {8, 64, 28, 29},
                          {60, 64, 3, 3}, R"({"pads": [1, 1], "activation": "relu"})");
  parts.inputs.push_back(tensor(DType::f32, {8, 60, 28, 29}));
  cases.push_back(parts);
}

// Groups that matrix units multiply in bundles: channels of a group that fill a 16-byte piece, half
// of one, a quarter, several and a half; bundles that fill tiles or not.
void add_bundles(std::vector<Case>& cases) {
  const auto add = [&](const char* name, DType dtype, const Shape& x, const Shape& w,
                       const std::string& attributes) {
    cases.push_back(model_conv("bundles, " + std::string(name), dtype, x, w, attributes));
  };
  add("4 channels", DType::f16, {2, 128, 9, 10}, {128, 4, 3, 3},
      R"({"groups": 32, "pads": [1, 1], "activation": "relu"})");
  add("2 channels, 3 filters", DType::bf16, {1, 80, 7, 8}, {120, 2, 3, 3},
      R"({"groups": 40, "stride": [2, 2], "pads": [1, 1]})");
  add("12 channels, 5 filters", DType::f16, {1, 48, 9, 9}, {20, 12, 3, 3},
      R"({"groups": 4, "pads": [0, 2]})");
  add("24 channels, 40 filters", DType::f16, {1, 72, 8, 8}, {120, 24, 3, 3},
      R"({"groups": 3, "pads": [1, 1]})");
  add("96 channels, 1x1", DType::bf16, {2, 192, 5, 5}, {160, 96, 1, 1}, R"({"groups": 2})");
  add("8 channels, warpgroups", DType::f16, {2, 64, 113, 115}, {64, 8, 3, 3},
      R"({"groups": 8, "pads": [1, 1]})");
  add("rows of pixels", DType::f16, {1, 96, 1100}, {96, 12, 128}, R"({"groups": 8, "pads": [64]})");
  add("4 channels", DType::f32, {4, 32, 57, 56}, {32, 4, 3, 3}, R"({"groups": 8, "pads": [1, 1]})");
  add("2 channels, 6 filters", DType::f32, {4, 32, 57, 56}, {96, 2, 3, 3},
      R"({"groups": 16, "pads": [1, 1]})");
  Case residual =
      model_conv("bundles, residual before silu", DType::f16, {2, 64, 9, 10}, {96, 16, 3, 3},
                 R"({"groups": 4, "pads": [1, 1], "activation": "silu"})");
  residual.inputs.push_back(tensor(DType::f16, {2, 96, 9, 10}));
  cases.push_back(residual);
  // What is not finite stays in its group.
  std::vector<double> values(size_t{32} * 6 * 7, 0.5);
  values[5 * 42 + 17] = kInfinity;
  values[20 * 42 + 3] = kNan;
  cases.push_back(
      conv("bundles, infinity and NaN f16", tensor(DType::f16, {1, 32, 6, 7}).of(values),
           tensor(DType::f16, {32, 4, 3, 3}).param(), R"({"groups": 8, "pads": [1, 1]})"));
}

// f32 with work enough for matrix units, whole and broken tiles; few channels last.
void add_split_floats(std::vector<Case>& cases) {
  const auto add = [&](std::string name, const Shape& x, const Shape& w, std::string attributes) {
    cases.push_back(model_conv(std::move(name), DType::f32, x, w, std::move(attributes)));
  };
  add("3x3, 64 to 64", {1, 64, 14, 14}, {64, 64, 3, 3}, R"({"pads": [1, 1]})");
  add("3x3 stride 2, two images, relu", {2, 64, 9, 11}, {40, 64, 3, 3},
      R"({"stride": [2, 2], "pads": [1, 1], "activation": "relu"})");
  add("pads [0, 1, 2, 0], dilation [1, 2]", {2, 96, 7, 9}, {24, 96, 3, 3},
      R"({"pads": [0, 1, 2, 0], "dilation": [1, 2]})");
  add("filters that fill no unit", {1, 132, 6, 5}, {33, 132, 3, 3}, R"({"pads": [1, 1]})");
  add("depth split over workgroups", {1, 128, 7, 7}, {64, 128, 3, 3}, R"({"pads": [1, 1]})");
  add("1x1", {2, 516, 17, 16}, {48, 516, 1, 1}, R"({"activation": "gelu"})");
  add("many pixels, few products in a sum", {2, 16, 60, 61}, {64, 16, 3, 3}, R"({"pads": [1, 1]})");
  Case residual = model_conv("residual before relu", DType::f32, {1, 64, 12, 13}, {72, 64, 3, 3},
                             R"({"pads": [1, 1], "activation": "relu"})");
  residual.inputs.push_back(tensor(DType::f32, {1, 72, 12, 13}));
  cases.push_back(residual);
  add("7x7 stride 2 of 3 channels", {2, 3, 41, 37}, {64, 3, 7, 7},
      R"({"stride": [2, 2], "pads": [3, 3], "activation": "relu"})");
  add("5x5 of one channel, 70 filters", {4, 1, 40, 43}, {70, 1, 5, 5}, R"({"pads": [2, 2]})");
  add("11x11 stride 4 of 2 channels", {1, 2, 79, 79}, {32, 2, 11, 11}, R"({"stride": [4, 4]})");
}

// f32 in parts: what parts of a float cannot hold by themselves, sums that tensor cores cut off.
void add_extreme_floats(std::vector<Case>& cases) {
  using ValueAt = std::function<double(size_t)>;
  const auto filled = [](const Shape& shape, const ValueAt& at) {
    std::vector<double> values(static_cast<size_t>(element_count(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(at(i));
    return tensor(DType::f32, shape).of(values);
  };
  const auto add = [&](const std::string& name, const Shape& x, const Shape& w, const ValueAt& x_at,
                       const ValueAt& w_at, std::string attributes = R"({"pads": [1, 1]})") {
    cases.push_back(
        conv("f32 parts: " + name, filled(x, x_at), filled(w, w_at).param(), attributes));
  };
  const auto ratio = [](size_t i, size_t modulus) {
    return static_cast<double>(i * 37 % modulus) / static_cast<double>(modulus);
  };
  const auto third = [](size_t) { return 0.3; };
  // 1 and a unit, less a bit: all that a part of 11 bits leaves over.
  const auto worst = [](size_t) { return 1 + 0x1p-10 - 0x1p-23; };
  const auto positive = [&](size_t i) { return 0.5 + ratio(i, 1009); };
  for (const int64_t channels : {3, 32}) {
    const std::string text = std::to_string(channels) + " channels, ";
    const Shape x = {1, channels, 15, 16};
    const Shape w = channels == 3 ? Shape{36, 3, 7, 7} : Shape{20, channels, 3, 3};
    add(
        text + "infinities and NaN", x, w,
        [](size_t i) {
          return i == 11 ? kInfinity : i == 40 ? kNan : i == 66 ? -kInfinity : 1.0;
        },
        third);
    add(text + "infinite and NaN weights meet pads", x, w, positive, [](size_t i) {
      return i == 9 ? kInfinity : i == 100 ? kNan : 0.3;
    });
    add(
        text + "the largest float", x, w,
        [](size_t i) { return i == 30 ? std::numeric_limits<float>::max() : 0.0; },
        [](size_t) { return 0.5; });
    add(
        text + "small by large", x, w, [&](size_t i) { return (1 + ratio(i, 101)) * 0x1p-118; },
        [&](size_t i) { return (1 + ratio(i, 97)) * 0x1p100; });
    add(
        text + "large that cancel", x, w,
        [&](size_t i) { return (i % 2 == 0 ? 1e6 : -1e6) + ratio(i, 103); }, positive);
  }
  add("positive sums of 8192", {1, 8192, 5, 5}, {24, 8192, 1, 1}, positive, positive, "{}");
  add("positive sums of 2304", {1, 256, 17, 16}, {72, 256, 3, 3}, positive, positive);
  add("the worst of parts", {1, 64, 17, 16}, {64, 64, 3, 3}, worst, worst, "{}");
  add("the worst of parts, by warpgroups", {4, 64, 31, 32}, {130, 64, 3, 3}, worst, worst, "{}");
  add("the worst of parts, few channels", {1, 3, 30, 31}, {32, 3, 7, 7}, worst, worst, "{}");
  Case nan = conv("f32 parts: a NaN all of whose bits are ones", tensor(DType::f32, {1, 32, 9, 8}),
                  tensor(DType::f32, {20, 32, 3, 3}).param());
  std::vector<double> pixels(32 * 72, 1.0);
  pixels[77] = std::bit_cast<double>(~uint64_t{0} >> 1);
  nan.inputs[0] = tensor(DType::f32, {1, 32, 9, 8}).of(pixels);
  cases.push_back(nan);
}

// Images of few channels.
void add_patches(std::vector<Case>& cases) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto add = [&](std::string name, const Shape& x, const Shape& w, std::string attributes) {
      cases.push_back(model_conv(std::move(name), dtype, x, w, std::move(attributes)));
    };
    add("7x7 stride 2 of 3 channels", {2, 3, 41, 37}, {64, 3, 7, 7},
        R"({"stride": [2, 2], "pads": [3, 3], "activation": "relu"})");
    add("3x3 of 3 channels", {1, 3, 18, 21}, {32, 3, 3, 3}, R"({"pads": [1, 1]})");
    add("5x5 of one channel, 70 filters", {1, 1, 12, 30}, {70, 1, 5, 5}, R"({"pads": [2, 2]})");
    add("3x3 stride 2 of 7 channels, dilation 2", {1, 7, 20, 20}, {20, 7, 3, 3},
        R"({"stride": [2, 2], "dilation": [2, 2]})");
    add("11x11 stride 4", {1, 3, 47, 47}, {32, 3, 11, 11}, R"({"stride": [4, 4]})");
  }
  // Column 7 lies in no window of the 7 taps from column 0 on.
  Case infinite = model_conv("a pixel beside the window is infinite,", DType::f16, {1, 1, 7, 9},
                             {8, 1, 7, 7}, R"({"stride": [1, 2]})");
  std::vector<double> pixels(63, 0.5);
  for (size_t row = 0; row < 7; ++row)
    pixels[row * 9 + 7] = std::numeric_limits<double>::infinity();
  infinite.inputs[0] = tensor(DType::f16, {1, 1, 7, 9}).of(pixels);
  cases.push_back(infinite);
}

// Windows that stand side by side: patches of an image, pieces of a row, bricks; what is left over
// lies in none.
void add_side_by_side(std::vector<Case>& cases) {
  for (const DType dtype : kShortFloats) {
    const std::string text(name_of(dtype));
    cases.push_back(model_conv("16x16 patches with a rest,", dtype, {2, 3, 50, 33}, {24, 3, 16, 16},
                               R"({"stride": [16, 16], "activation": "relu"})"));
    cases.push_back(conv_of("2x3 patches of 20 channels " + text, {2, 20, 8, 9}, {7, 20, 2, 3},
                            R"({"stride": [2, 3]})", dtype));
    cases.push_back(
        conv_of("pieces of 4 pixels " + text, {2, 3, 39}, {5, 3, 4}, R"({"stride": [4]})", dtype));
    cases.push_back(conv_of("bricks of 2x3x2 " + text, {1, 2, 5, 6, 7}, {3, 2, 2, 3, 2},
                            R"({"stride": [2, 3, 2]})", dtype));
    Case residual = model_conv("14x14 patches, residual,", dtype, {2, 3, 28, 42}, {16, 3, 14, 14},
                               R"({"stride": [14, 14]})");
    residual.inputs.push_back(tensor(dtype, {2, 16, 2, 3}));
    cases.push_back(residual);
  }
  cases.push_back(
      conv_of("f64 patches", {1, 3, 8, 8}, {4, 3, 4, 4}, R"({"stride": [4, 4]})", DType::f64));
  Case infinite = conv_of("a pixel beside all patches is infinite", {1, 1, 5, 5}, {2, 1, 2, 2},
                          R"({"stride": [2, 2]})");
  std::vector<double> pixels(25, 0.5);
  pixels[24] = std::numeric_limits<double>::infinity();
  infinite.inputs[0] = tensor(DType::f32, {1, 1, 5, 5}).of(pixels);
  cases.push_back(infinite);
}

// Rows of pixels with work enough for matrix units.
void add_rows_of_pixels(std::vector<Case>& cases) {
  for (const DType dtype : kShortFloats) {
    cases.push_back(model_conv("rows of 531 pixels,", dtype, {1, 256, 531}, {260, 256, 3},
                               R"({"pads": [1, 1], "activation": "relu"})"));
    Case residual = model_conv("rows with stride, dilation and residual,", dtype, {2, 128, 705},
                               {256, 128, 5}, R"({"stride": [2], "pads": [3], "dilation": [2]})");
    residual.inputs.push_back(tensor(dtype, {2, 256, 352}));
    cases.push_back(residual);
  }
}

// One pixel per channel stands channels last, as images between transposes and matrix units do
// (tests/compile/test_product_views.cpp).
void add_channels(std::vector<Case>& cases) {
  for (const DType dtype : kShortFloats) {
    const std::string text(name_of(dtype));
    cases.push_back(conv_of("depthwise to one pixel " + text, {3, 8, 5, 4}, {8, 1, 5, 4},
                            R"({"groups": 8, "activation": "silu"})", dtype));
    Case residual =
        model_conv("depthwise to one pixel with pads and residual,", dtype, {2, 12, 3, 3},
                   {12, 1, 5, 5}, R"({"groups": 12, "pads": [1, 1], "activation": "relu"})");
    residual.inputs.push_back(tensor(dtype, {2, 12, 1, 1}));
    cases.push_back(residual);
  }
}

void add_residuals(std::vector<Case>& cases) {
  const auto with_residual = [](Case test, DType dtype, const Shape& shape) {
    test.inputs.push_back(tensor(dtype, shape));
    return test;
  };
  for (const DType dtype : kShortFloats) {
    const std::string attributes = R"({"pads": [1, 1], "activation": "relu"})";
    cases.push_back(with_residual(model_conv("the residual comes before the activation,", dtype,
                                             {2, 16, 7, 7}, {40, 16, 3, 3}, attributes),
                                  dtype, {2, 40, 7, 7}));
    cases.push_back(with_residual(
        model_conv("residual without activation,", dtype, {1, 16, 6, 6}, {24, 16, 1, 1}, "{}"),
        dtype, {1, 24, 6, 6}));
    cases.push_back(with_residual(model_conv("1x1, residual and activation,", dtype, {1, 16, 6, 6},
                                             {20, 16, 1, 1}, R"({"activation": "relu"})"),
                                  dtype, {1, 20, 6, 6}));
  }
  cases.push_back(
      with_residual(conv_of("depthwise with residual and activation", {1, 4, 7, 7}, {4, 1, 3, 3},
                            R"({"groups": 4, "pads": [1, 1], "activation": "relu"})"),
                    DType::f32, {1, 4, 7, 7}));
  Case no_bias = conv("residual without bias", tensor(DType::f16, {1, 16, 5, 5}),
                      tensor(DType::f16, {16, 16, 1, 1}).param());
  no_bias.inputs.emplace_back(std::nullopt);
  cases.push_back(with_residual(no_bias, DType::f16, {1, 16, 5, 5}));
}

}  // namespace

std::vector<Case> conv_cases() {
  std::vector<Case> cases;
  add_golden(cases);
  add_ranks_and_windows(cases);
  add_volumes(cases);
  add_groups(cases);
  add_pointwise(cases);
  add_sizes(cases);
  add_dtypes(cases);
  add_edges(cases);
  add_tensor_cores(cases);
  add_warpgroups(cases);
  add_bundles(cases);
  add_split_floats(cases);
  add_extreme_floats(cases);
  add_patches(cases);
  add_side_by_side(cases);
  add_rows_of_pixels(cases);
  add_channels(cases);
  add_residuals(cases);
  return cases;
}

// For matmul_wgmma's windows: tiles of 128 pixels over rows and images, channels and filters that
// fill no step and no tile, windows that begin in pads or within the image, taps apart, strides, 1
// x 1, a dim of the image smaller than the window.
std::vector<Case> conv_window_cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, DType dtype, const Shape& x, const Shape& w,
                       const std::string& attributes, bool same_size_residual = false) {
    Case test = model_conv("windows, " + name, dtype, x, w, attributes);
    if (same_size_residual) {
      test.inputs.push_back(tensor(dtype, {x[0], w[0], x[2], x[3]}));
    }
    cases.push_back(test);
  };
  add("rows of 17", DType::f16, {1, 64, 14, 17}, {64, 64, 3, 3}, R"({"pads": [1, 1]})");
  add("stride 2", DType::bf16, {2, 72, 31, 27}, {72, 72, 3, 3},
      R"({"stride": [2, 2], "pads": [1, 1], "activation": "relu"})");
  add("taps 2 apart", DType::f16, {3, 96, 9, 11}, {128, 96, 3, 3},
      R"({"pads": [2, 2], "dilation": [2, 2]})");
  add("taps 4 apart, beside each image", DType::f16, {1, 200, 15, 21}, {72, 200, 3, 3},
      R"({"pads": [4, 4], "dilation": [4, 4]})");
  add("1x1, stride [2, 1]", DType::f16, {2, 64, 29, 18}, {136, 64, 1, 1}, R"({"stride": [2, 1]})");
  add("5x1", DType::bf16, {1, 128, 23, 11}, {64, 128, 5, 1}, R"({"pads": [2, 0]})");
  add("pads [0, 1, 2, 0]", DType::f16, {2, 64, 16, 16}, {256, 64, 3, 3},
      R"({"pads": [0, 1, 2, 0]})");
  add("pads wider than the window", DType::f16, {1, 64, 40, 5}, {64, 64, 3, 3},
      R"({"pads": [3, 4], "activation": "gelu"})");
  add("inside the image alone", DType::f16, {4, 64, 12, 13}, {64, 64, 3, 3}, "{}");
  add("residual before relu", DType::f16, {5, 64, 8, 8}, {192, 64, 3, 3},
      R"({"pads": [1, 1], "activation": "relu"})", true);
  add("residual before silu", DType::bf16, {2, 128, 13, 15}, {64, 128, 3, 3},
      R"({"pads": [1, 1], "activation": "silu"})", true);
  add("rows of pixels", DType::f16, {2, 80, 300}, {80, 80, 7}, R"({"pads": [3]})");
  return cases;
}

}  // namespace rlx::test
