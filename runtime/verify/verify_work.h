// SPDX-License-Identifier: Apache-2.0
// What the verifier's work costs. A unit is about a sixteenth of a nanosecond on a core of 2024, so
// that 64 of them per byte of the index are 20 ms for 5 MB. The work of a regular plan is some
// percent of that; what a crafted one makes it do ends there.
#pragma once

#include <bit>
#include <cstdint>

namespace rlx {

inline constexpr uint64_t kWorkPerIndexByte = 64;  // of the index and of debug notes
inline constexpr uint64_t kWorkPerCodeByte = 32;   // more than hashing and reading it once take
inline constexpr uint64_t kWorkPerPlan = uint64_t{1} << 22;

// One record read where it lies beside the one before.
inline constexpr uint64_t kWorkPerRecord = 64;
// A table of the index, which is read through offsets.
inline constexpr uint64_t kWorkPerTable = 256;
// A number of a list.
inline constexpr uint64_t kWorkPerEdge = 16;
// A byte that SHA-256 goes over.
inline constexpr uint64_t kWorkPerHashedByte = 96;
// An item whose place in memory depends on another one.
inline constexpr uint64_t kWorkPerVisit = 192;

// A search in an ordered map or array of so many items: the larger, the further from the core.
constexpr uint64_t work_of_search(uint64_t items) {
  const auto levels = static_cast<uint64_t>(std::bit_width(items));
  return 128 + 8 * levels * levels;
}
// Sorting so many items.
constexpr uint64_t work_of_sort(uint64_t items) {
  return 48 * items * static_cast<uint64_t>(std::bit_width(items));
}

}  // namespace rlx
