// SPDX-License-Identifier: Apache-2.0
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> leaves_cases() { return {}; }

}  // namespace rlx::test
