// SPDX-License-Identifier: Apache-2.0
// Which entry of the plan embeds which sentences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace search {

// An entry that embeds `rows` sentences of up to `tokens` tokens in one run.
struct Bucket {
  uint32_t entry = 0;
  size_t rows = 0;
  size_t tokens = 0;
};

// Sentences that one run of a bucket embeds, at most its rows.
struct Batch {
  Bucket bucket;
  std::vector<size_t> sentences;
};

// Puts each sentence (by its count of tokens) into a bucket of the fewest tokens that hold it.
// Those of one length fill the largest buckets; what remains goes into the smallest that holds all
// of it, or into smaller ones where less than half of that would be used. Throws std::runtime_error
// where a sentence is longer than every bucket.
std::vector<Batch> make_batches(std::span<const size_t> token_counts,
                                std::span<const Bucket> buckets);

}  // namespace search
