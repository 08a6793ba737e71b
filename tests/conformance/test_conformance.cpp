// SPDX-License-Identifier: Apache-2.0
// Every op family's table of cases, on the evaluator and on every device present.
#include <iostream>

#include "tests/support/catch.h"
#include "tests/support/harness.h"

namespace rlx::test {

#define RLX_OPS(family) std::vector<Case> family##_cases();
#include "compiler/ops/ops.def"
#undef RLX_OPS
std::vector<Case> cooperative_matrix_cases();

namespace {

void check_family(const std::vector<Case>& cases, const std::string& target = {}) {
  std::map<std::string, Tally> tallies;
  check_cases(cases, tallies, target);
  for (const auto& [key, tally] : tallies) {
    std::cout << "  " << key << ": " << tally.cases << " cases, " << tally.failed
              << " failed, worst ratio " << tally.worst_ratio;
    if (tally.skipped > 0) std::cout << "; SKIPPED for want of features: " << tally.skipped;
    std::cout << "\n";
  }
  const std::vector<std::string> said = validation_messages();
  INFO(said.size() << " validation messages, the first: " << (said.empty() ? "" : said[0]));
  CHECK(said.empty());
}

}  // namespace

#define RLX_OPS(family)                                   \
  TEST_CASE("conformance of " #family, "[" #family "]") { \
    check_family(family##_cases());                       \
  }
#include "compiler/ops/ops.def"
#undef RLX_OPS

// Every table's cases of halves that hold a product, by code for cooperative matrices.
TEST_CASE("conformance on cooperative matrices", "[coop]") {
  std::vector<Case> halves;
  for (const std::vector<Case>& cases :
       {matmul_cases(), norm_matmul_cases(), cooperative_matrix_cases()}) {
    for (const Case& test : cases) {
      if (test.inputs[0] && test.inputs[0]->type.dtype == DType::f16) halves.push_back(test);
    }
  }
  check_family(halves, "vulkan-nvidia");
}

}  // namespace rlx::test
