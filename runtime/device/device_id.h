// SPDX-License-Identifier: Apache-2.0
// Names of devices, as "vulkan:0".
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>

namespace rlx {

// The N of "<kind>:N", 0 for "<kind>". One device has one name: "vulkan:00" and "vulkan:+0" are
// none.
inline std::optional<size_t> device_number(std::string_view id, std::string_view kind) {
  if (id == kind) return 0;
  if (!id.starts_with(kind) || !id.substr(kind.size()).starts_with(':')) return std::nullopt;
  const std::string_view digits = id.substr(kind.size() + 1);
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  size_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

}  // namespace rlx
