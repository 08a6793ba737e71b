// SPDX-License-Identifier: Apache-2.0
// Division of counts, rounded up.
#pragma once

#include <cstdint>

namespace rlx {

// The least n with n * b >= a. Precondition: a >= 0, b > 0, a + b fits.
constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace rlx
