// SPDX-License-Identifier: Apache-2.0
#include "batches.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>

namespace search {
namespace {

// The bucket for `count` sentences, or for some of them. `buckets`: of one length, ascending rows.
const Bucket& pick(std::span<const Bucket> buckets, size_t count) {
  const Bucket* smaller = nullptr;
  for (const Bucket& bucket : buckets) {
    if (bucket.rows < count) {
      smaller = &bucket;
      continue;
    }
    const bool is_half_used = 2 * count >= bucket.rows;
    return is_half_used || smaller == nullptr ? bucket : *smaller;
  }
  return buckets.back();
}

}  // namespace

std::vector<Batch> make_batches(std::span<const size_t> token_counts,
                                std::span<const Bucket> buckets) {
  std::map<size_t, std::vector<Bucket>> by_length;
  for (const Bucket& bucket : buckets) by_length[bucket.tokens].push_back(bucket);
  for (auto& [tokens, same] : by_length)
    std::ranges::sort(same, {}, [](const Bucket& bucket) { return bucket.rows; });

  std::map<size_t, std::vector<size_t>> sentences_by_length;
  for (size_t i = 0; i < token_counts.size(); ++i) {
    const auto fitting = by_length.lower_bound(token_counts[i]);
    if (fitting == by_length.end())
      throw std::runtime_error("no entry of the plan holds " + std::to_string(token_counts[i]) +
                               " tokens");
    sentences_by_length[fitting->first].push_back(i);
  }

  std::vector<Batch> batches;
  for (const auto& [tokens, sentences] : sentences_by_length) {
    for (size_t done = 0; done < sentences.size();) {
      const Bucket& bucket = pick(by_length[tokens], sentences.size() - done);
      const size_t count = std::min(bucket.rows, sentences.size() - done);
      const auto first = sentences.begin() + static_cast<std::ptrdiff_t>(done);
      batches.push_back({bucket, {first, first + static_cast<std::ptrdiff_t>(count)}});
      done += count;
    }
  }
  return batches;
}

}  // namespace search
