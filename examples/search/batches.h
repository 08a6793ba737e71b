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

// Sentences of about one length; shorter ones are filled up to `tokens`.
struct Batch {
  size_t tokens = 0;
  std::vector<size_t> sentences;
};

// Sentences (by their counts of tokens) in batches, the shortest first: neighbours in length, as
// many as the plan takes, but no sentence joins where more than an eighth of the batch would be
// filled up. A device takes about as long for one sentence as for some, so filling up pays as long
// as there is little of it. And of lengths above 16 only eight up to each power of two are used, so
// that a session keeps what it has made ready for them.
// Throws std::runtime_error where a sentence is too long.
std::vector<Batch> make_batches(std::span<const size_t> token_counts, const Limits& limits);

}  // namespace search
