// SPDX-License-Identifier: Apache-2.0
// Cases of reshape, squeeze, unsqueeze, flatten.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> reshape_cases() {
  std::vector<Case> cases;
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16,
                  DType::i32, DType::u32, DType::i64, DType::bool_}) {
    cases.push_back({.name = "infers one dim",
                     .op = "reshape",
                     .inputs = {tensor(t, {2, 3, 4})},
                     .attributes = R"({"shape": [4, -1]})"});
    cases.push_back({.name = "to rank 0",
                     .op = "reshape",
                     .inputs = {tensor(t, {1, 1})},
                     .attributes = R"({"shape": []})"});
  }
  cases.push_back({.name = "T20 rank 8",
                   .op = "reshape",
                   .inputs = {tensor(DType::f32, {6, 7})},
                   .attributes = R"({"shape": [1, 2, 1, 3, 1, 7, 1, 1]})"});
  cases.push_back({.name = "zero copies a dim",
                   .op = "reshape",
                   .inputs = {tensor(DType::f32, {5, 6})},
                   .attributes = R"({"shape": [0, 2, 3], "zero_copies_dim": true})"});
  cases.push_back({.name = "T19 zero-size dim",
                   .op = "reshape",
                   .inputs = {tensor(DType::f32, {0, 6})},
                   .attributes = R"({"shape": [3, 0]})"});
  cases.push_back(
      {.name = "drops all ones", .op = "squeeze", .inputs = {tensor(DType::f32, {1, 3, 1, 2})}});
  cases.push_back({.name = "drops a listed one",
                   .op = "squeeze",
                   .inputs = {tensor(DType::i32, {1, 3, 1, 2})},
                   .attributes = R"({"axes": [-2]})"});
  cases.push_back({.name = "axes of the output rank",
                   .op = "unsqueeze",
                   .inputs = {tensor(DType::f32, {3, 2})},
                   .attributes = R"({"axes": [0, -1]})"});
  cases.push_back({.name = "from axis 2",
                   .op = "flatten",
                   .inputs = {tensor(DType::f32, {2, 3, 4})},
                   .attributes = R"({"axis": 2})"});
  cases.push_back({.name = "from axis 0",
                   .op = "flatten",
                   .inputs = {tensor(DType::f32, {2, 3})},
                   .attributes = R"({"axis": 0})"});
  cases.push_back({.name = "from a negative axis",
                   .op = "flatten",
                   .inputs = {tensor(DType::f32, {2, 3, 4})},
                   .attributes = R"({"axis": -1})"});
  cases.push_back({.name = "T20 rank 0",
                   .op = "flatten",
                   .inputs = {tensor(DType::f32, {})},
                   .attributes = R"({"axis": 0})"});
  cases.push_back({.name = "T20 rank 8 to rank 0",
                   .op = "squeeze",
                   .inputs = {tensor(DType::f32, {1, 1, 1, 1, 1, 1, 1, 1})}});
  cases.push_back({.name = "T20 rank 0 to rank 8",
                   .op = "unsqueeze",
                   .inputs = {tensor(DType::f32, {})},
                   .attributes = R"({"axes": [0, 1, 2, 3, 4, 5, 6, -1]})"});
  cases.push_back({.name = "T19 infers a dim of 0",
                   .op = "reshape",
                   .inputs = {tensor(DType::f32, {0, 6})},
                   .attributes = R"({"shape": [2, -1]})"});
  return cases;
}

}  // namespace rlx::test
