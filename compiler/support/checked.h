// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes that come from files: overflow is a value, not a surprise.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "compiler/support/check.h"

namespace rlx {

inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// True when [offset, offset + length) lies inside [0, size).
inline bool range_fits(uint64_t offset, uint64_t length, uint64_t size) {
  return length <= size && offset <= size - length;
}

// A narrowing that cannot lose: a value that does not fit is an internal error.
template <std::integral To, std::integral From>
To narrow(From value) {
  RLX_CHECK(std::in_range<To>(value), "narrowing " + std::to_string(value));
  return static_cast<To>(value);
}

}  // namespace rlx
