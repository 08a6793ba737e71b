// SPDX-License-Identifier: Apache-2.0
// Cases of assert that hold: what is told of others is in tests/compile/test_control_flow.cpp.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> assertion_cases() {
  return {
      {.name = "true",
       .op = "assert",
       .inputs = {tensor(DType::bool_, {}).of_integers({1})},
       .attributes = R"({"message": "m"})",
       .golden = {{1}}},
      {.name = "any word but 0",
       .op = "assert",
       .inputs = {tensor(DType::i32, {1, 1}).of_integers({-256})},
       .attributes = R"({"message": "m"})",
       .golden = {{1}}},
      {.name = "false is wanted",
       .op = "assert",
       .inputs = {tensor(DType::i32, {}).of_integers({0})},
       .attributes = R"({"message": "m", "wanted": false})",
       .golden = {{1}}},
  };
}

}  // namespace rlx::test
