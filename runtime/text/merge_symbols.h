// SPDX-License-Identifier: Apache-2.0
// The merging that byte pairs and scores share: the best pair of neighbours becomes one symbol,
// over and over.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

namespace rlx {

// A part of what is merged. Symbols follow upon each other without gaps.
struct MergedPart {
  uint32_t begin;
  uint32_t end;
  std::optional<uint32_t> token;
};

// What two neighbours would become.
struct Joined {
  uint32_t rank;  // less is better
  uint32_t token;
};

// `find(left, right)` tells what two symbols make, as optional<Joined>. Pairs join by rank, the
// leftmost first among equals; the symbols that stay are returned. n symbols ask for n log n steps,
// whatever they are.
template <class Find>
std::vector<MergedPart> merge_symbols(std::vector<MergedPart> symbols, const Find& find) {
  struct Candidate {
    Joined joined;
    uint32_t left;    // index of the symbol
    uint32_t middle;  // where the right one begins, and ends: both as they were found
    uint32_t end;

    bool operator<(const Candidate& other) const {  // the largest is the next to come
      if (joined.rank != other.joined.rank) return joined.rank > other.joined.rank;
      return left > other.left;
    }
  };
  const auto count = static_cast<uint32_t>(symbols.size());
  // Neighbours of a symbol that is still there; one that went into its left neighbour is empty.
  std::vector<uint32_t> next(count);
  std::vector<uint32_t> previous(count);
  std::priority_queue<Candidate> candidates;
  const auto consider = [&](uint32_t left, uint32_t right) {
    if (const std::optional<Joined> joined = find(symbols[left], symbols[right]))
      candidates.push({*joined, left, symbols[right].begin, symbols[right].end});
  };
  for (uint32_t i = 0; i < count; ++i) {
    previous[i] = i - 1;  // of the first: never used, as its begin is the text's
    next[i] = i + 1;
    if (i + 1 < count) consider(i, i + 1);
  }
  const uint32_t text_begin = count == 0 ? 0 : symbols.front().begin;
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    MergedPart& left = symbols[best.left];
    const uint32_t right = next[best.left];
    if (left.begin == left.end || left.end != best.middle) continue;
    if (right == count || symbols[right].end != best.end) continue;
    left = {left.begin, best.end, best.joined.token};
    symbols[right].begin = symbols[right].end;
    next[best.left] = next[right];
    if (next[right] < count) {
      previous[next[right]] = best.left;
      consider(best.left, next[right]);
    }
    if (left.begin > text_begin) consider(previous[best.left], best.left);
  }
  std::erase_if(symbols, [](const MergedPart& symbol) { return symbol.begin == symbol.end; });
  return symbols;
}

}  // namespace rlx
