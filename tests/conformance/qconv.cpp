// SPDX-License-Identifier: Apache-2.0
// Cases of qconv2d and conv_integer (T57).
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> qconv_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](std::string name, std::string op,
                            std::vector<std::optional<CaseTensor>> inputs, std::string attributes,
                            std::vector<double> golden = {}) {
    Case test{.name = std::move(name),
              .op = std::move(op),
              .inputs = std::move(inputs),
              .attributes = std::move(attributes)};
    if (!golden.empty()) test.golden = {std::move(golden)};
    cases.push_back(std::move(test));
  };
  const auto bytes = [](DType dtype, Shape shape) {
    const bool is_signed = dtype == DType::i8;
    return tensor(dtype, std::move(shape)).range(is_signed ? -128 : 0, is_signed ? 127 : 255);
  };
  // (x - 10) = 1, 2, 3 under w - 1 = 1, 1, 1; pads add nothing.
  add("T57 padded taps contribute nothing", "qconv2d",
      {tensor(DType::u8, {1, 1, 3}).of({11, 12, 13}), tensor(DType::i8, {1, 1, 3}).of({2, 2, 2})},
      R"({"pads": [1, 1], "x_zp": 10, "w_zp": [1], "mult": [0.5], "out_zp": 1})", {3, 4, 3});
  add("T57 2-d, channels and groups", "qconv2d",
      {bytes(DType::u8, {2, 4, 9, 7}), bytes(DType::i8, {6, 2, 3, 3}).param(),
       tensor(DType::i32, {6}).range(-3000, 3000)},
      R"({"pads": [1, 0, 1, 2], "stride": [2, 1], "groups": 2, "x_zp": 120, "w_zp": [3, -5, 0, 9, 1, 2],
          "mult": [0.0004, 0.0005, 0.0006, 0.0004, 0.0005, 0.0003], "out_zp": -3})");
  add("3-d to u8, dilated", "qconv2d",
      {bytes(DType::i8, {1, 3, 5, 6, 4}), bytes(DType::u8, {4, 3, 2, 2, 2})},
      R"({"dilation": [2, 1, 1], "x_zp": -4, "w_zp": [128], "mult": [0.0005], "out_zp": 99,
          "out_dtype": "u8"})");
  add("depthwise", "qconv2d", {bytes(DType::i8, {1, 8, 12, 12}), bytes(DType::i8, {8, 1, 3, 3})},
      R"({"groups": 8, "pads": [1, 1], "mult": [0.002]})");
  add("1x1", "qconv2d",
      {bytes(DType::u8, {2, 16, 5, 5}), bytes(DType::i8, {24, 16, 1, 1}).param(),
       tensor(DType::i32, {24}).range(-3000, 3000)},
      R"({"x_zp": 127, "mult": [0.0009]})");
  add("no images", "qconv2d", {tensor(DType::i8, {0, 2, 4}), tensor(DType::i8, {3, 2, 2})},
      R"({"mult": [1]})");
  add("exact products", "conv_integer",
      {bytes(DType::i8, {1, 40, 8, 8}), bytes(DType::u8, {20, 40, 3, 3}),
       tensor(DType::i32, {20}).range(-9, 9)},
      "{}");
  return cases;
}

}  // namespace rlx::test
