// SPDX-License-Identifier: Apache-2.0
// Cases of expand.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> expand_cases() {
  std::vector<Case> cases;
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16,
                  DType::i32, DType::u32, DType::i64, DType::bool_}) {
    cases.push_back({.name = "T90 -1 keeps, 1 grows",
                     .op = "expand",
                     .inputs = {tensor(t, {5, 1})},
                     .attributes = R"({"shape": [-1, 3]})"});
  }
  cases.push_back({.name = "T90 requested 1 against 5",
                   .op = "expand",
                   .inputs = {tensor(DType::f32, {5, 1})},
                   .attributes = R"({"shape": [1, 4]})"});
  cases.push_back({.name = "T90 new leading dim",
                   .op = "expand",
                   .inputs = {tensor(DType::f32, {3})},
                   .attributes = R"({"shape": [2, 3]})"});
  cases.push_back({.name = "T22 middle axis",
                   .op = "expand",
                   .inputs = {tensor(DType::f32, {2, 1, 3})},
                   .attributes = R"({"shape": [2, 4, 3]})"});
  cases.push_back({.name = "scalar",
                   .op = "expand",
                   .inputs = {tensor(DType::f32, {})},
                   .attributes = R"({"shape": [3, 2]})"});
  cases.push_back({.name = "T19 to zero size",
                   .op = "expand",
                   .inputs = {tensor(DType::f32, {1, 3})},
                   .attributes = R"({"shape": [0, 3]})"});
  cases.push_back({.name = "T20 rank 8",
                   .op = "expand",
                   .inputs = {tensor(DType::f32, {1, 2, 1, 3, 1, 1, 2, 1})},
                   .attributes = R"({"shape": [2, 2, 2, 3, 1, 2, 2, 3]})"});
  cases.push_back({.name = "T90 fewer dims than x",
                   .op = "expand",
                   .inputs = {tensor(DType::f32, {2, 3})},
                   .attributes = R"({"shape": [1]})"});
  return cases;
}

}  // namespace rlx::test
