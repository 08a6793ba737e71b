// SPDX-License-Identifier: Apache-2.0
// Nodes with bodies are no cases of one op on given inputs: tests/compile/test_control_flow.cpp has
// their laws, as graphs.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> control_cases() {
  return {};
}

}  // namespace rlx::test
