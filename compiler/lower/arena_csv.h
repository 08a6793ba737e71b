// SPDX-License-Identifier: Apache-2.0
// Packing problems as CSV in the format of the MiniMalloc benchmarks: a header line that names the
// columns id, lower, upper, size (or buffer, start, end, size) in any order, and alignment where
// there is one; others are refused. Then one item per line, live during lower <= t < upper.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/lower/arena.h"

namespace rlx {

struct ArenaCsv {
  std::vector<ArenaItem> items;  // in the order of the file
  uint64_t alignment_bytes = 1;  // of every item: a file with different ones is refused
};

// The problem, or one sentence that says which line is wrong and why.
std::variant<ArenaCsv, std::string> parse_arena_csv(std::string_view text);

}  // namespace rlx
