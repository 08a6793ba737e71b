// SPDX-License-Identifier: Apache-2.0
// How a prompt is cut into runs of entries that each take a fixed number of tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rlx::language {

// One run: `count` tokens from `position` on, in an entry of `size` tokens; the rest is padding.
struct Chunk {
  uint32_t size = 0;
  uint32_t position = 0;
  uint32_t count = 0;

  [[nodiscard]] uint32_t end() const { return position + count; }
  bool operator==(const Chunk&) const = default;
};

// Products of at most so many rows have kernels of their own, which add in another order: the same
// row has other bits in an entry of no more tokens than this.
inline constexpr uint32_t kFewRows = 8;

// Of the sizes, most tokens first, those whose rows have equal bits whatever the size: those above
// kFewRows; where there are none, the largest alone.
std::span<const uint32_t> row_exact_sizes(std::span<const uint32_t> sizes);

// Runs for tokens [first, end), end <= context, by sizes of at most `context`, most tokens first:
// whole chunks, then a padded one, which is larger than the rest where more than two of the next
// size would be needed. No chunk reaches beyond the context: a padded one that would begins before
// `first` and computes again what is there.
std::vector<Chunk> cut_into_chunks(std::span<const uint32_t> sizes, uint32_t first, uint32_t end,
                                   uint32_t context);

}  // namespace rlx::language
