// SPDX-License-Identifier: Apache-2.0
#include "batches.h"

#include <map>
#include <stdexcept>
#include <string>

namespace search {

std::vector<Batch> make_batches(std::span<const size_t> token_counts, const Limits& limits) {
  std::map<size_t, std::vector<size_t>> by_length;
  for (size_t i = 0; i < token_counts.size(); ++i) {
    if (token_counts[i] > limits.tokens)
      throw std::runtime_error("the plan takes " + std::to_string(limits.tokens) +
                               " tokens of a sentence, got " + std::to_string(token_counts[i]));
    by_length[token_counts[i]].push_back(i);
  }
  std::vector<Batch> batches;
  for (const auto& [tokens, sentences] : by_length) {
    for (const size_t sentence : sentences) {
      const bool is_full = batches.empty() || batches.back().tokens != tokens ||
                           batches.back().sentences.size() == limits.rows;
      if (is_full) batches.push_back({.tokens = tokens, .sentences = {}});
      batches.back().sentences.push_back(sentence);
    }
  }
  return batches;
}

}  // namespace search
