// SPDX-License-Identifier: Apache-2.0
// Convolutions of f16, bf16 and f32 as products of matmul_coop over windows (ops.md 9.1; traps T14,
// T112): channels in whole pieces of 16 bytes and not, edges of tiles, windows and images, split k,
// epilogues.
#include <array>
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

// As a model has it: w and bias are weights.
Case conv(std::string name, DType dtype, const Shape& x, const Shape& w,
          std::string attributes = "{}") {
  return {
      .name = "coop " + std::move(name) + " " + std::string(name_of(dtype)),
      .op = "conv",
      .inputs = {tensor(dtype, x), tensor(dtype, w).param(), tensor(DType::f32, {w[0]}).param()},
      .attributes = std::move(attributes),
      .tolerance = Tolerance::Sum};
}

Case with_residual(Case test, const Shape& y) {
  test.inputs.push_back(tensor(test.inputs[0]->type.dtype, y));
  return test;
}

// Channels in whole pieces.
void add_pieces(std::vector<Case>& cases, DType dtype) {
  cases.push_back(conv("3x3, a panel of depth lies in one tap", dtype, {1, 64, 13, 11},
                       {72, 64, 3, 3}, R"({"pads": [1, 1], "activation": "relu"})"));
  cases.push_back(conv("3x3, a panel of depth spans taps", dtype, {2, 24, 10, 9}, {33, 24, 3, 3},
                       R"({"pads": [1, 1]})"));
  cases.push_back(conv("T112 pads [0, 1, 2, 0], dilation [1, 2], stride [2, 1]", dtype,
                       {2, 40, 11, 9}, {16, 40, 3, 3},
                       R"({"pads": [0, 1, 2, 0], "dilation": [1, 2], "stride": [2, 1]})"));
  cases.push_back(conv("T112 5x4 stride 3", dtype, {1, 8, 17, 19}, {5, 8, 5, 4},
                       R"({"stride": [3, 3], "pads": [2, 1]})"));
  cases.push_back(conv("T112 windows larger than the image", dtype, {3, 16, 2, 1}, {24, 16, 5, 5},
                       R"({"pads": [2, 2]})"));
  cases.push_back(conv("one pixel", dtype, {1, 48, 1, 1}, {40, 48, 3, 3}, R"({"pads": [1, 1]})"));
  cases.push_back(
      conv("1x1 stride 2", dtype, {2, 64, 15, 13}, {136, 64, 1, 1}, R"({"stride": [2, 2]})"));
  cases.push_back(
      conv("1x1 with pads", dtype, {1, 16, 6, 5}, {24, 16, 1, 1}, R"({"pads": [1, 0, 2, 1]})"));
  cases.push_back(conv("1x1, pixels in no whole pieces", dtype, {1, 136, 7, 7}, {64, 136, 1, 1},
                       R"({"activation": "silu"})"));
  cases.push_back(
      conv("1x1 on one pixel", dtype, {2, 96, 1, 1}, {56, 96, 1, 1}, R"({"activation": "relu"})"));
}

// Groups in bundles: channels of a group that fill a piece, a half of one, a quarter, or several.
void add_bundles(std::vector<Case>& cases, DType dtype) {
  cases.push_back(conv("bundles of 4 channels", dtype, {2, 128, 9, 10}, {128, 4, 3, 3},
                       R"({"groups": 32, "pads": [1, 1], "activation": "relu"})"));
  cases.push_back(conv("bundles of 2 channels, 3 filters", dtype, {1, 80, 7, 8}, {120, 2, 3, 3},
                       R"({"groups": 40, "stride": [2, 2], "pads": [1, 1]})"));
  cases.push_back(conv("bundles of 12 channels, 5 filters", dtype, {1, 48, 9, 9}, {20, 12, 3, 3},
                       R"({"groups": 4, "pads": [0, 2]})"));
  cases.push_back(conv("bundles of 96 channels, 1x1", dtype, {2, 192, 5, 5}, {160, 96, 1, 1},
                       R"({"groups": 2})"));
  cases.push_back(with_residual(conv("bundles, residual", dtype, {2, 64, 9, 10}, {96, 16, 3, 3},
                                     R"({"groups": 4, "pads": [1, 1], "activation": "silu"})"),
                                {2, 96, 9, 10}));
  // What is not finite stays in its group.
  Case test = conv("bundles, infinity and NaN", dtype, {1, 32, 6, 7}, {32, 4, 3, 3},
                   R"({"groups": 8, "pads": [1, 1]})");
  std::vector<double> values(size_t{32} * 6 * 7, 0.5);
  values[5 * 42 + 17] = kInfinity;
  values[20 * 42 + 3] = kNan;
  test.inputs[0] = tensor(dtype, {1, 32, 6, 7}).of(values);
  cases.push_back(test);
}

// Channels in no whole pieces.
void add_elements(std::vector<Case>& cases, DType dtype) {
  cases.push_back(conv("7x7 stride 2 of 3 channels", dtype, {2, 3, 37, 41}, {64, 3, 7, 7},
                       R"({"stride": [2, 2], "pads": [3, 3], "activation": "relu"})"));
  cases.push_back(conv("3x3 of 20 channels", dtype, {1, 20, 9, 10}, {30, 20, 3, 3},
                       R"({"pads": [1, 1], "dilation": [2, 1]})"));
  cases.push_back(conv("4x4 of 4 channels, filters in whole pieces", dtype, {1, 4, 12, 13},
                       {16, 4, 4, 4}, R"({"pads": [0, 1, 2, 0]})"));
  cases.push_back(conv("1x1 of 12 channels", dtype, {2, 12, 7, 5}, {20, 12, 1, 1}));
  cases.push_back(
      conv("3x3 of one channel", dtype, {1, 1, 8, 9}, {9, 1, 3, 3}, R"({"pads": [1, 1]})"));
}

// Residuals, and depth split over workgroups.
void add_epilogues(std::vector<Case>& cases, DType dtype) {
  cases.push_back(
      with_residual(conv("the residual comes before the activation,", dtype, {2, 32, 9, 7},
                         {40, 32, 3, 3}, R"({"pads": [1, 1], "activation": "relu"})"),
                    {2, 40, 9, 7}));
  cases.push_back(
      with_residual(conv("1x1, the residual comes before the activation,", dtype, {1, 64, 9, 9},
                         {72, 64, 1, 1}, R"({"activation": "clamp", "min": 0, "max": 6})"),
                    {1, 72, 9, 9}));
  cases.push_back(conv("depth split over workgroups", dtype, {1, 512, 7, 7}, {64, 512, 3, 3},
                       R"({"pads": [1, 1], "activation": "gelu"})"));
  cases.push_back(with_residual(conv("split depth, residual, relu", dtype, {1, 520, 5, 7},
                                     {24, 520, 3, 3}, R"({"pads": [1, 1], "activation": "relu"})"),
                                {1, 24, 5, 7}));
  cases.push_back(with_residual(
      conv("residual without activation", dtype, {1, 16, 6, 6}, {24, 16, 3, 3}), {1, 24, 4, 4}));
}

// Tiles of every size of the table, with edges.
void add_conv_tiles(std::vector<Case>& cases) {
  cases.push_back(
      conv("64 lines", DType::f16, {1, 256, 14, 14}, {256, 256, 3, 3}, R"({"pads": [1, 1]})"));
  cases.push_back(conv("many pixels, 64 filters", DType::f16, {2, 16, 150, 151}, {64, 16, 3, 3},
                       R"({"pads": [1, 1], "activation": "relu"})"));
  cases.push_back(conv("many pixels, 520 filters", DType::f16, {2, 8, 61, 60}, {520, 8, 3, 3},
                       R"({"pads": [1, 1]})"));
  cases.push_back(conv("96 pixels by 128 filters", DType::f16, {2, 8, 56, 56}, {250, 8, 3, 3},
                       R"({"pads": [1, 1]})"));
  cases.push_back(
      conv("64 lines", DType::f32, {1, 256, 14, 14}, {256, 256, 3, 3}, R"({"pads": [1, 1]})"));
  cases.push_back(conv("many pixels, 130 filters", DType::f32, {2, 24, 75, 75}, {130, 24, 3, 3},
                       R"({"pads": [1, 1], "activation": "silu"})"));
  cases.push_back(conv("96 pixels by 128 filters, deep", DType::bf16, {2, 16, 56, 56},
                       {250, 16, 3, 3}, R"({"pads": [1, 1], "activation": "relu"})"));
  cases.push_back(
      with_residual(conv("few pixels, 508 filters, residual", DType::f16, {2, 24, 28, 28},
                         {508, 24, 3, 3}, R"({"pads": [1, 1], "activation": "relu"})"),
                    {2, 508, 28, 28}));
  cases.push_back(conv("many pixels, 130 filters", DType::f16, {1, 32, 99, 101}, {130, 32, 3, 3},
                       R"({"stride": [1, 2]})"));
}

// Rows of pixels, long enough to be worth copies.
void add_rows(std::vector<Case>& cases) {
  cases.push_back(conv("1-d, stride 2, pads [1, 2]", DType::f16, {2, 128, 301}, {264, 128, 11},
                       R"({"stride": [2], "pads": [1, 2], "activation": "relu"})"));
  cases.push_back(conv("1-d, dilation 3", DType::bf16, {1, 96, 700}, {136, 96, 13},
                       R"({"dilation": [3], "pads": [18]})"));
  cases.push_back(
      conv("1-d, 20 channels", DType::f16, {1, 20, 1203}, {90, 20, 50}, R"({"pads": [25, 24]})"));
  cases.push_back(
      with_residual(conv("1-d, the residual comes before the activation,", DType::f16,
                         {1, 128, 509}, {256, 128, 7}, R"({"pads": [3], "activation": "relu"})"),
                    {1, 256, 509}));
}

void add_specials(std::vector<Case>& cases) {
  Case no_bias = conv("without bias", DType::f16, {1, 16, 5, 5}, {16, 16, 3, 3});
  no_bias.inputs.pop_back();
  cases.push_back(no_bias);
  Case run_time = conv("filters that are no weight", DType::f16, {1, 16, 6, 6}, {16, 16, 3, 3});
  run_time.inputs[1] = tensor(DType::f16, {16, 16, 3, 3});
  cases.push_back(run_time);

  // The windows of stride 3 read columns 0, 1, 3, 4, 6 and 7 alone.
  Case beside = conv("pixels beside the windows are infinite or NaN", DType::f16, {1, 8, 3, 9},
                     {16, 8, 3, 2}, R"({"stride": [1, 3]})");
  std::vector<double> pixels(8 * 27, 0.5);
  for (size_t row = 0; row < 24; ++row) {
    pixels[row * 9 + 2] = kInfinity;
    pixels[row * 9 + 5] = kNan;
  }
  beside.inputs[0] = tensor(DType::f16, {1, 8, 3, 9}).of(pixels);
  cases.push_back(beside);

  Case beyond = conv("pixels and filters beyond the range of halves", DType::f32, {1, 8, 5, 6},
                     {8, 8, 3, 3}, R"({"pads": [1, 1]})");
  std::vector<double> far(8 * 30, 0x1.234566p-90);
  far[5] = 0x1.fffffep127;
  far[50] = kInfinity;
  far[77] = kNan;
  beyond.inputs[0] = tensor(DType::f32, {1, 8, 5, 6}).of(far);
  cases.push_back(beyond);

  for (const int64_t channels : {8, 3}) {
    Case zeros = conv("T14 zero pads and pixels meet NaN and infinite weights, " +
                          std::to_string(channels) + " channels",
                      DType::f16, {1, channels, 4, 4}, {3, channels, 3, 3}, R"({"pads": [1, 1]})");
    zeros.inputs[0] = tensor(DType::f16, {1, channels, 4, 4})
                          .of(std::vector<double>(static_cast<size_t>(channels * 16), 0.0));
    std::vector<double> weights(static_cast<size_t>(3 * channels * 9), 1.0);
    weights[4] = kNan;
    weights[static_cast<size_t>(channels * 9)] = kInfinity;
    zeros.inputs[1] = tensor(DType::f16, {3, channels, 3, 3}).of(weights).param();
    cases.push_back(zeros);
  }
  Case values = conv("infinite pixels", DType::f16, {1, 8, 5, 6}, {8, 8, 3, 3},
                     R"({"pads": [1, 1], "activation": "relu"})");
  std::vector<double> image(8 * 30, 0.25);
  image[7] = kInfinity;
  image[8 * 30 - 1] = -kInfinity;
  image[40] = kNan;
  values.inputs[0] = tensor(DType::f16, {1, 8, 5, 6}).of(image);
  cases.push_back(values);
}

}  // namespace

std::vector<Case> cooperative_conv_cases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    add_pieces(cases, dtype);
    add_bundles(cases, dtype);
    add_elements(cases, dtype);
    add_epilogues(cases, dtype);
  }
  add_conv_tiles(cases);
  add_rows(cases);
  add_specials(cases);
  return cases;
}

}  // namespace rlx::test
