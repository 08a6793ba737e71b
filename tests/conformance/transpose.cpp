// SPDX-License-Identifier: Apache-2.0
// Cases of transpose: the view and the copy that a graph output needs.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> transpose_cases() {
  std::vector<Case> cases;
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16,
                  DType::i32, DType::u32, DType::i64, DType::bool_}) {
    cases.push_back(
        {.name = "2-d, off the tile edges", .op = "transpose", .inputs = {tensor(t, {33, 65})}});
    cases.push_back({.name = "moves the inner axis out",
                     .op = "transpose",
                     .inputs = {tensor(t, {3, 5, 7})},
                     .attributes = R"({"perm": [2, 0, 1]})"});
  }
  cases.push_back({.name = "NaN and infinity keep their bits",
                   .op = "transpose",
                   .inputs = {tensor(DType::f32, {7, 11}).edges()}});
  cases.push_back({.name = "batched",
                   .op = "transpose",
                   .inputs = {tensor(DType::f32, {3, 40, 37})},
                   .attributes = R"({"perm": [0, 2, 1]})"});
  cases.push_back({.name = "heads to the front",
                   .op = "transpose",
                   .inputs = {tensor(DType::f16, {2, 9, 4, 8})},
                   .attributes = R"({"perm": [0, 2, 1, 3]})"});
  cases.push_back({.name = "T20 rank 8",
                   .op = "transpose",
                   .inputs = {tensor(DType::f32, {2, 1, 3, 2, 1, 2, 3, 2})},
                   .attributes = R"({"perm": [7, 6, 5, 4, 3, 2, 1, 0]})"});
  cases.push_back({.name = "T20 rank 0", .op = "transpose", .inputs = {tensor(DType::f32, {})}});
  cases.push_back(
      {.name = "T19 zero-size", .op = "transpose", .inputs = {tensor(DType::f32, {0, 4})}});
  cases.push_back({.name = "T21 above 65535 groups of columns",
                   .op = "transpose",
                   .inputs = {tensor(DType::u8, {2, 1100000})}});
  return cases;
}

}  // namespace rlx::test
