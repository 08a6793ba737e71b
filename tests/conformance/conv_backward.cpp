// SPDX-License-Identifier: Apache-2.0
// Conformance of conv_backward_input and conv_backward_weight (ops.md 16.6).
#include "tests/support/case.h"

namespace rlx::test {

namespace {

struct Conv {
  std::string name;
  Shape x;
  Shape w;
  Shape y;
  std::string attributes;
};

}  // namespace

std::vector<Case> conv_backward_cases() {
  std::vector<Case> cases;
  const std::array kConvs = {
      Conv{"plain", {3, 4, 9, 8}, {5, 4, 3, 3}, {3, 5, 7, 6}, ""},
      Conv{"T163 stride 2 over odd sizes",
           {2, 3, 9, 11},
           {4, 3, 3, 2},
           {2, 4, 5, 6},
           R"(, "stride": [2, 2], "pads": [1, 1, 1, 0])"},
      Conv{"T163 rows that no window reaches",
           {2, 3, 10, 10},
           {4, 3, 2, 2},
           {2, 4, 3, 3},
           R"(, "stride": [4, 4])"},
      Conv{"T163 dilation",
           {2, 3, 9, 9},
           {4, 3, 3, 3},
           {2, 4, 7, 7},
           R"(, "dilation": [2, 2], "pads": [1, 1, 1, 1])"},
      Conv{"T163 groups, stride 2",
           {2, 6, 8, 7},
           {4, 3, 3, 3},
           {2, 4, 4, 4},
           R"(, "groups": 2, "stride": [2, 2], "pads": [1, 1, 1, 1])"},
      Conv{"T163 depthwise",
           {2, 5, 8, 7},
           {5, 1, 3, 3},
           {2, 5, 8, 7},
           R"(, "groups": 5, "pads": [1, 1, 1, 1])"},
      Conv{"T163 one axis", {2, 4, 17}, {6, 4, 5}, {2, 6, 8}, R"(, "stride": [2], "pads": [1, 1])"},
      Conv{"T163 three axes", {2, 2, 5, 6, 4}, {3, 2, 2, 3, 2}, {2, 3, 4, 4, 3}, ""},
      Conv{"points", {2, 8, 5, 5}, {6, 8, 1, 1}, {2, 6, 5, 5}, ""},
  };
  const auto add = [&cases](const Conv& conv, DType dtype) {
    cases.push_back({.name = conv.name,
                     .op = "conv_backward_input",
                     .inputs = {tensor(dtype, conv.y), tensor(dtype, conv.w)},
                     .attributes = "{\"x_shape\": " + to_string(conv.x) + conv.attributes + "}",
                     .tolerance = Tolerance::Sum});
    cases.push_back({.name = conv.name,
                     .op = "conv_backward_weight",
                     .inputs = {tensor(dtype, conv.x), tensor(dtype, conv.y)},
                     .attributes = "{\"w_shape\": " + to_string(conv.w) + conv.attributes + "}",
                     .tolerance = Tolerance::Sum});
  };
  for (const Conv& conv : kConvs) add(conv, DType::f32);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) add(kConvs[1], dtype);
  return cases;
}

}  // namespace rlx::test
