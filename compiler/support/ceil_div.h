// SPDX-License-Identifier: Apache-2.0
// Division of counts, rounded up.
#pragma once

#include <concepts>

namespace rlx {

// The least n with n * b >= a, in the type of a + b. Precondition: a >= 0, b > 0, a + b fits.
template <std::integral A, std::integral B>
constexpr auto ceil_div(A a, B b) {
  return (a + b - 1) / b;
}

}  // namespace rlx
