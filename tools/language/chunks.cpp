// SPDX-License-Identifier: Apache-2.0
// Cutting of prompts.
#include "tools/language/chunks.h"

#include <algorithm>

namespace rlx::language {
namespace {

uint32_t size_for(std::span<const uint32_t> sizes, uint32_t rest) {
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    if (rest >= sizes[i] || rest > 2 * sizes[i + 1]) return sizes[i];
  }
  return sizes.back();
}

}  // namespace

std::span<const uint32_t> row_exact_sizes(std::span<const uint32_t> sizes) {
  const auto few =
      std::find_if(sizes.begin(), sizes.end(), [](uint32_t tokens) { return tokens <= kFewRows; });
  return sizes.first(std::max<size_t>(1, static_cast<size_t>(few - sizes.begin())));
}

std::vector<Chunk> cut_into_chunks(std::span<const uint32_t> sizes, uint32_t first, uint32_t end,
                                   uint32_t context) {
  std::vector<Chunk> chunks;
  while (first < end) {
    const uint32_t size = size_for(sizes, end - first);
    const uint32_t position = std::min(first, context - size);
    const uint32_t count = std::min(size, end - position);
    chunks.push_back({.size = size, .position = position, .count = count});
    first = position + count;
  }
  return chunks;
}

}  // namespace rlx::language
