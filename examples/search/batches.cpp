// SPDX-License-Identifier: Apache-2.0
#include "batches.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <string>

namespace search {
namespace {

constexpr size_t kFilledPart = 8;  // one of so many tokens of neighbours may stand for none

// The next of eight lengths between a power of two and the next: runs soon meet those again.
size_t length_for(size_t tokens, size_t most) {
  const size_t step = std::max<size_t>(std::bit_floor(tokens) / 8, 1);
  return std::min(((tokens - 1) | (step - 1)) + 1, most);  // a step is a power of two
}

}  // namespace

std::vector<Batch> make_batches(std::span<const size_t> token_counts, const Limits& limits) {
  std::vector<size_t> by_length(token_counts.size());
  std::iota(by_length.begin(), by_length.end(), size_t{0});
  std::ranges::stable_sort(by_length, {}, [&](size_t sentence) { return token_counts[sentence]; });
  std::vector<Batch> batches;
  size_t own_tokens = 0;  // of the last batch's sentences
  for (const size_t sentence : by_length) {
    const size_t tokens = token_counts[sentence];
    if (tokens > limits.tokens)
      throw std::runtime_error("the plan takes " + std::to_string(limits.tokens) +
                               " tokens of a sentence, got " + std::to_string(tokens));
    const size_t rows = batches.empty() ? limits.rows : batches.back().sentences.size();
    const size_t all_tokens = (rows + 1) * tokens;
    const size_t filled = all_tokens - own_tokens - tokens;
    if (rows == limits.rows || filled * kFilledPart > all_tokens) {
      batches.push_back({.tokens = tokens, .sentences = {}});
      own_tokens = 0;
    }
    batches.back().tokens = tokens;
    batches.back().sentences.push_back(sentence);
    own_tokens += tokens;
  }
  for (Batch& batch : batches) batch.tokens = length_for(batch.tokens, limits.tokens);
  return batches;
}

}  // namespace search
