// SPDX-License-Identifier: Apache-2.0
// Cases of pad and roll.
#include <string>

#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> pad_cases() {
  std::vector<Case> cases;
  const auto pad = [&cases](const std::string& name, const CaseTensor& x,
                            const std::string& attributes,
                            std::vector<std::vector<double>> golden = {}) {
    cases.push_back({.name = name,
                     .op = "pad",
                     .inputs = {x},
                     .attributes = attributes,
                     .golden = std::move(golden)});
  };
  const CaseTensor three = tensor(DType::f32, {3}).of({1, 2, 3});
  pad("T92 reflect by 2", three, R"({"pads": [2, 2], "mode": "reflect"})", {{3, 2, 1, 2, 3, 2, 1}});
  pad("T92 edge", three, R"({"pads": [2, 1], "mode": "edge"})", {{1, 1, 1, 2, 3, 3}});
  pad("T92 wrap", three, R"({"pads": [2, 3], "mode": "wrap"})", {{2, 3, 1, 2, 3, 1, 2, 3}});
  pad("T92 negative pads crop first", tensor(DType::f32, {5}).of({1, 2, 3, 4, 5}),
      R"({"pads": [-1, 2], "mode": "reflect"})", {{2, 3, 4, 5, 4, 3}});
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16,
                  DType::i32, DType::u32, DType::i64, DType::bool_}) {
    pad("T92 constant in every dtype", tensor(t, {2, 3}), R"({"pads": [1, 0, 0, 2], "value": 1})");
  }
  pad("value beyond f16", tensor(DType::f16, {2}), R"({"pads": [1, 1], "value": 1e9})");
  pad("T92 batch axis", tensor(DType::f32, {2, 3, 4}),
      R"({"pads": [1, 1], "axes": [0], "value": -2.5})");
  pad("two axes of rank 4", tensor(DType::f32, {2, 3, 5, 7}),
      R"({"pads": [1, 2, 3, 0], "axes": [-1, 2], "mode": "edge"})");
  pad("T19 from an empty axis", tensor(DType::f32, {0, 3}),
      R"({"pads": [2, 0, 1, 0], "value": 4})");
  pad("T20 rank 8", tensor(DType::f32, {1, 2, 1, 2, 1, 2, 1, 2}),
      R"({"pads": [0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1, 0]})");
  pad("no pads", three, R"({"pads": [0, 0]})");
  pad("T92 crops alone", tensor(DType::f32, {4, 9}), R"({"pads": [-1, -2, 0, -3]})");
  pad("T92 crops to nothing", tensor(DType::f32, {4, 5}), R"({"pads": [-2, 0, -2, 0]})");
  pad("T92 i64 beyond 32 bits", tensor(DType::i64, {2}),
      R"({"pads": [1, 0], "value": 1099511627776})");
  pad("T92 special constants", tensor(DType::bf16, {2, 3}),
      R"({"pads": [0, 1, 1, 0], "value": -1e300})");
  for (const char* mode : {"reflect", "edge", "wrap"}) {
    for (DType t : {DType::f16, DType::f64, DType::u8, DType::bool_}) {
      pad("T92 every mode of images", tensor(t, {2, 3, 5, 7}),
          R"({"pads": [2, 3, 1, -2], "axes": [2, 3], "mode": ")" + std::string(mode) + R"("})");
    }
  }
  const auto roll = [&cases](const std::string& name, const CaseTensor& x,
                             const std::string& attributes, std::vector<double> golden = {}) {
    cases.push_back({.name = name, .op = "roll", .inputs = {x}, .attributes = attributes});
    if (!golden.empty()) cases.back().golden = {std::move(golden)};
  };
  const CaseTensor six = tensor(DType::f32, {2, 3}).of({1, 2, 3, 4, 5, 6});
  roll("up", six, R"({"shifts": [1], "axes": [1]})", {3, 1, 2, 6, 4, 5});
  roll("down, both axes", six, R"({"shifts": [-1, 1], "axes": [-1, 0]})", {5, 6, 4, 2, 3, 1});
  roll("more than once around", six, R"({"shifts": [-7], "axes": [1]})", {2, 3, 1, 5, 6, 4});
  roll("by nothing", six, R"({"shifts": [3, 0], "axes": [1, 0]})", {1, 2, 3, 4, 5, 6});
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16,
                  DType::i32, DType::u32, DType::i64, DType::bool_}) {
    roll("every dtype", tensor(t, {3, 5, 7}), R"({"shifts": [2, -3], "axes": [0, 2]})");
  }
  roll("the ends of i64", tensor(DType::i32, {11}),
       R"({"shifts": [-9223372036854775808], "axes": [0]})");
  roll("T19 nothing", tensor(DType::f32, {0, 3}), R"({"shifts": [1], "axes": [0]})");
  roll("T20 rank 8", tensor(DType::f32, {1, 2, 1, 3, 1, 2, 3, 2}),
       R"({"shifts": [1, 1, 1], "axes": [3, 6, 7]})");
  roll("T21 above 65535 groups", tensor(DType::u8, {2, 8400000}),
       R"({"shifts": [4200001], "axes": [1]})");
  return cases;
}

}  // namespace rlx::test
