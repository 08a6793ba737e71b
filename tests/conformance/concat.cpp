// SPDX-License-Identifier: Apache-2.0
// Cases of concat.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> concat_cases() {
  std::vector<Case> cases;
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::u8, DType::i64, DType::bool_}) {
    cases.push_back({.name = "outer axis",
                     .op = "concat",
                     .inputs = {tensor(t, {2, 3}), tensor(t, {4, 3})},
                     .attributes = R"({"axis": 0})"});
    cases.push_back({.name = "inner axis",
                     .op = "concat",
                     .inputs = {tensor(t, {2, 3}), tensor(t, {2, 5})},
                     .attributes = R"({"axis": -1})"});
  }
  const CaseTensor x = tensor(DType::f32, {3, 4, 5});
  cases.push_back({.name = "T19 empty part",
                   .op = "concat",
                   .inputs = {x, tensor(DType::f32, {3, 0, 5}), x},
                   .attributes = R"({"axis": 1})"});
  cases.push_back(
      {.name = "one input", .op = "concat", .inputs = {x}, .attributes = R"({"axis": 2})"});
  cases.push_back({.name = "T20 rank 8",
                   .op = "concat",
                   .inputs = {tensor(DType::f32, {1, 2, 1, 2, 1, 2, 1, 2}),
                              tensor(DType::f32, {1, 2, 1, 2, 3, 2, 1, 2})},
                   .attributes = R"({"axis": 4})"});
  return cases;
}

}  // namespace rlx::test
