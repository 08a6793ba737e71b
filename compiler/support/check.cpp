// SPDX-License-Identifier: Apache-2.0
// Reports a failed RLX_CHECK.
#include "compiler/support/check.h"

namespace rlx {

void fail_check(const char* condition, const char* file, int line, const std::string& context) {
  throw InternalError("internal error: " + context + ": check failed: " + condition + " (" + file +
                      ":" + std::to_string(line) + ")");
}

}  // namespace rlx
