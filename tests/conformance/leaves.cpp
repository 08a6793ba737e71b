// SPDX-License-Identifier: Apache-2.0
// Cases of identity, stop_gradient, shape_of, size_of. state_write needs a state: see
// tests/compile.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> leaves_cases() {
  std::vector<Case> cases;
  for (DType t : {DType::f32, DType::f16, DType::i64, DType::bool_}) {
    cases.push_back(
        {.name = "T35 input as output", .op = "identity", .inputs = {tensor(t, {3, 5})}});
    cases.push_back(
        {.name = "T35 param as output", .op = "identity", .inputs = {tensor(t, {7}).param()}});
  }
  cases.push_back(
      {.name = "copies", .op = "stop_gradient", .inputs = {tensor(DType::f32, {2, 2}).edges()}});
  cases.push_back({.name = "is known before a run",
                   .op = "shape_of",
                   .inputs = {tensor(DType::f32, {3, 0, 5})},
                   .golden = {{3, 0, 5}}});
  cases.push_back(
      {.name = "rank 0", .op = "size_of", .inputs = {tensor(DType::u8, {})}, .golden = {{1}}});
  return cases;
}

}  // namespace rlx::test
