// SPDX-License-Identifier: Apache-2.0
// Every op family's table of cases, on the evaluator and on every device present.
#include <iostream>

#include "tests/support/catch.h"
#include "tests/support/harness.h"

namespace rlx::test {

#define RLX_OPS(family) std::vector<Case> family##_cases();
#include "compiler/ops/ops.def"
#undef RLX_OPS

namespace {

void check_family(const std::vector<Case>& cases) {
  std::map<std::string, Tally> tallies;
  check_cases(cases, tallies);
  for (const auto& [key, tally] : tallies) {
    std::cout << "  " << key << ": " << tally.cases << " cases, " << tally.failed
              << " failed, worst ratio " << tally.worst_ratio << "\n";
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

}  // namespace rlx::test
