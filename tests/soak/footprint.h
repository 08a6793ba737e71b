// SPDX-License-Identifier: Apache-2.0
// What a process holds, to show that it stays flat.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace rlx::soak {

struct Footprint {
  uint64_t resident_bytes = 0;
  // Objects that a run could leave behind, as the system counts them: file descriptors (fences,
  // exported memory) and threads.
  uint32_t descriptors = 0;
  uint32_t threads = 0;

  [[nodiscard]] uint32_t objects() const { return descriptors + threads; }
};

// Resident bytes at the ends of equally long spans of a run, and where the first begins.
inline constexpr size_t kSpans = 4;
using ResidentMarks = std::array<uint64_t, kSpans + 1>;

// What the spans have grown by where each grew like the least of them: drivers and malloc take
// memory in steps of MiB, once, while a leak shows in every span.
constexpr int64_t steady_growth(const ResidentMarks& marks) {
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < kSpans; ++i)
    least = std::min(least, static_cast<int64_t>(marks[i + 1]) - static_cast<int64_t>(marks[i]));
  return least * static_cast<int64_t>(kSpans);
}

// Of this process, now. Throws std::runtime_error where /proc does not say.
Footprint footprint_now();

}  // namespace rlx::soak
