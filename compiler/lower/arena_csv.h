// SPDX-License-Identifier: Apache-2.0
// Packing problems as CSV in the format of the MiniMalloc benchmarks: a header line that names the
// columns id, lower, upper, size in any order (others are refused), then one item per line, live
// during lower <= t < upper.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/lower/arena.h"

namespace rlx {

// The items in the order of the file, or one sentence that says which line is wrong and why.
std::variant<std::vector<ArenaItem>, std::string> parse_arena_csv(std::string_view text);

}  // namespace rlx
