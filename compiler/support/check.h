// SPDX-License-Identifier: Apache-2.0
// RLX_CHECK: our own mistakes. A failed check throws InternalError, which rlxc reports as exit
// code 70.
#pragma once

#include <stdexcept>
#include <string>

namespace rlx {

struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* condition, const char* file, int line,
                             const std::string& context);

}  // namespace rlx

// `context` is a std::string expression naming the node and what was being done; evaluated only on
// failure.
#define RLX_CHECK(condition, context)                                             \
  do {                                                                            \
    if (!(condition)) ::rlx::fail_check(#condition, __FILE__, __LINE__, context); \
  } while (false)
