// SPDX-License-Identifier: Apache-2.0
// Which sentences are embedded in one run.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace search {

// The largest sizes that the plan takes.
struct Limits {
  size_t rows = 0;  // sentences of a run
  size_t tokens = 0;
};

// Sentences of one length, which need no padding.
struct Batch {
  size_t tokens = 0;
  std::vector<size_t> sentences;
};

// Sentences (by their counts of tokens) in batches, the shortest first: those of one length
// together, as many at once as the plan takes. Throws std::runtime_error where a sentence is too
// long.
std::vector<Batch> make_batches(std::span<const size_t> token_counts, const Limits& limits);

}  // namespace search
