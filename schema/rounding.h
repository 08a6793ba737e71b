// SPDX-License-Identifier: Apache-2.0
// Counts and sizes in whole units, rounded up.
#pragma once

#include <concepts>

namespace rlx {

// The least n with n * b >= a, in the type of a / b. Precondition: a >= 0, b > 0.
template <std::integral A, std::integral B>
constexpr auto ceil_div(A a, B b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

// The least multiple of b that is not below a. Precondition: a >= 0, b > 0, the multiple fits.
template <std::integral A, std::integral B>
constexpr auto round_up(A a, B b) {
  return ceil_div(a, b) * b;
}

}  // namespace rlx
