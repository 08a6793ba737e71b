// SPDX-License-Identifier: Apache-2.0
// Cases of narrow, slice, reverse, split.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> slice_cases() {
  std::vector<Case> cases;
  const CaseTensor line = tensor(DType::f32, {11});
  const auto slice = [&cases](const std::string& name, const CaseTensor& x,
                              const std::string& attributes) {
    cases.push_back({.name = name, .op = "slice", .inputs = {x}, .attributes = attributes});
  };
  slice("T91 whole line backwards", line,
        R"({"starts": [-1], "ends": [-9223372036854775808], "steps": [-1]})");
  slice("T91 5:1:-2", line, R"({"starts": [5], "ends": [1], "steps": [-2]})");
  slice("T91 -100:100", line, R"({"starts": [-100], "ends": [100]})");
  slice("T91 empty range with a step", line, R"({"starts": [7], "ends": [2], "steps": [3]})");
  slice("T91 100:-100:-3", line, R"({"starts": [100], "ends": [-100], "steps": [-3]})");
  slice("ends at the far end", line,
        R"({"starts": [2], "ends": [9223372036854775807], "steps": [4]})");
  slice("two axes, one negative", tensor(DType::i64, {5, 6, 7}),
        R"({"axes": [-1, 0], "starts": [1, -2], "ends": [6, 5], "steps": [2, 1]})");
  slice("f16 inner step", tensor(DType::f16, {4, 9}),
        R"({"axes": [1], "starts": [8], "ends": [0], "steps": [-3]})");
  for (DType t : {DType::f32, DType::bf16, DType::u8, DType::bool_, DType::f64}) {
    cases.push_back({.name = "T25 negative start",
                     .op = "narrow",
                     .inputs = {tensor(t, {3, 7})},
                     .attributes = R"({"axis": 1, "start": -4, "len": 3})"});
  }
  cases.push_back({.name = "T19 nothing",
                   .op = "narrow",
                   .inputs = {line},
                   .attributes = R"({"axis": 0, "start": 4, "len": 0})"});
  cases.push_back({.name = "both axes",
                   .op = "reverse",
                   .inputs = {tensor(DType::f32, {3, 5})},
                   .attributes = R"({"axes": [0, -1]})"});
  cases.push_back({.name = "middle axis",
                   .op = "reverse",
                   .inputs = {tensor(DType::i16, {2, 4, 3})},
                   .attributes = R"({"axes": [1]})"});
  cases.push_back({.name = "by sizes",
                   .op = "split",
                   .inputs = {tensor(DType::f32, {2, 7})},
                   .attributes = R"({"axis": 1, "sizes": [3, 0, 4]})",
                   .outputs = 3});
  cases.push_back({.name = "last part smaller",
                   .op = "split",
                   .inputs = {tensor(DType::f32, {7, 2})},
                   .attributes = R"({"axis": 0, "num": 3})",
                   .outputs = 3});
  return cases;
}

}  // namespace rlx::test
