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
  for (DType t : {DType::i32, DType::i64, DType::i16, DType::i8, DType::u8, DType::u32, DType::f32,
                  DType::f16}) {
    cases.push_back({.name = "T91 rank-0 start input of any type",
                     .op = "narrow",
                     .inputs = {tensor(DType::f32, {3, 7}), tensor(t, {}).of({2})},
                     .attributes = R"({"axis": 1, "len": 3})"});
  }
  const CaseTensor seven = tensor(DType::f32, {7}).of({0, 1, 2, 3, 4, 5, 6});
  const auto window = [&](const std::string& name, double start, std::vector<double> golden) {
    cases.push_back({.name = name,
                     .op = "narrow",
                     .inputs = {seven, tensor(DType::i32, {}).of({start})},
                     .attributes = R"({"axis": 0, "len": 3})",
                     .golden = {std::move(golden)}});
  };
  window("T25 T91 start input counts from the end", -4, {3, 4, 5});
  window("T91 start input is moved down to fit", 6, {4, 5, 6});
  window("T91 start input far below", -100, {0, 1, 2});
  window("T91 start input far above", 2147483647, {4, 5, 6});
  cases.push_back({.name = "T91 start input on the outer axis of halves",
                   .op = "narrow",
                   .inputs = {tensor(DType::f16, {9, 4, 8}), tensor(DType::i64, {}).of({5})},
                   .attributes = R"({"axis": -3, "len": 2})"});
  cases.push_back({.name = "T19 T91 start input, nothing taken",
                   .op = "narrow",
                   .inputs = {seven, tensor(DType::i32, {}).of({2})},
                   .attributes = R"({"axis": 0, "len": 0})"});
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
  for (DType t : {DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i32, DType::u32,
                  DType::i64, DType::bool_}) {
    cases.push_back({.name = "every dtype",
                     .op = "reverse",
                     .inputs = {tensor(t, {3, 5})},
                     .attributes = R"({"axes": [1]})"});
    slice("every dtype", tensor(t, {4, 9}),
          R"({"axes": [1], "starts": [7], "ends": [0], "steps": [-2]})");
  }
  cases.push_back(
      {.name = "no axes", .op = "reverse", .inputs = {line}, .attributes = R"({"axes": []})"});
  slice("T20 rank 8", tensor(DType::f32, {2, 3, 1, 2, 3, 2, 1, 3}),
        R"({"axes": [7, 1, 4], "starts": [2, 1, -1], "ends": [-9, 3, -4], "steps": [-1, 1, -2]})");
  slice("T91 the lowest step takes one", line,
        R"({"starts": [-1], "ends": [-100], "steps": [-9223372036854775808]})");
  slice("T19 of an empty axis", tensor(DType::f32, {0, 3}),
        R"({"starts": [-1], "ends": [-9223372036854775808], "steps": [-1]})");
  cases.push_back({.name = "more parts than elements",
                   .op = "split",
                   .inputs = {tensor(DType::i64, {2, 5})},
                   .attributes = R"({"axis": 1, "num": 4})",
                   .outputs = 4});
  const auto diagonal = [&cases](const std::string& name, const CaseTensor& x,
                                 const std::string& attributes, std::vector<double> golden = {}) {
    cases.push_back({.name = name, .op = "diagonal", .inputs = {x}, .attributes = attributes});
    if (!golden.empty()) cases.back().golden = {std::move(golden)};
  };
  const CaseTensor six = tensor(DType::f32, {2, 3}).of({1, 2, 3, 4, 5, 6});
  diagonal("main", six, "{}", {1, 5});
  diagonal("above", six, R"({"offset": 1})", {2, 6});
  diagonal("below", six, R"({"offset": -1})", {4});
  diagonal("T19 beyond the corner", six, R"({"offset": 3})");
  diagonal("axes swapped", six, R"({"offset": 1, "axis1": 1, "axis2": 0})", {4});
  diagonal("is the last axis", tensor(DType::i64, {4, 3, 5}),
           R"({"offset": -2, "axis1": 0, "axis2": -1})");
  diagonal("T20 rank 8", tensor(DType::f16, {2, 3, 1, 2, 3, 2, 1, 3}),
           R"({"axis1": 4, "axis2": 1})");
  return cases;
}

}  // namespace rlx::test
