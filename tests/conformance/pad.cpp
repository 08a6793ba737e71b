// SPDX-License-Identifier: Apache-2.0
// Cases of pad.
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
  return cases;
}

}  // namespace rlx::test
