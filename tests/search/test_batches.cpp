// SPDX-License-Identifier: Apache-2.0
// Sentences into buckets, as examples/search does it.
#include <stdexcept>

#include "examples/search/batches.h"
#include "tests/support/catch.h"

namespace {

using search::Batch;
using search::Bucket;
using search::make_batches;

const std::vector<Bucket> kBuckets = {{.entry = 0, .rows = 8, .tokens = 32},
                                      {.entry = 1, .rows = 1, .tokens = 16},
                                      {.entry = 2, .rows = 8, .tokens = 16},
                                      {.entry = 3, .rows = 1, .tokens = 32},
                                      {.entry = 4, .rows = 4, .tokens = 64}};

// The entries of the batches, in order.
std::vector<uint32_t> entries_of(const std::vector<size_t>& counts) {
  std::vector<uint32_t> entries;
  for (const Batch& batch : make_batches(counts, kBuckets)) entries.push_back(batch.bucket.entry);
  return entries;
}

}  // namespace

TEST_CASE("a sentence goes into the shortest bucket that holds it") {
  CHECK(entries_of({16}) == std::vector<uint32_t>{1});
  CHECK(entries_of({17}) == std::vector<uint32_t>{3});
  CHECK(entries_of({2, 32}) == std::vector<uint32_t>{1, 3});
  CHECK(entries_of({33}) ==
        std::vector<uint32_t>{4});  // less than half used, but there is no other
  CHECK(entries_of({}).empty());
  CHECK_THROWS_AS(entries_of({65}), std::runtime_error);
}

TEST_CASE("sentences fill large buckets, and what remains takes one only where it half fills it") {
  CHECK(entries_of(std::vector<size_t>(17, 9)) == std::vector<uint32_t>{2, 2, 1});
  CHECK(entries_of(std::vector<size_t>(12, 9)) == std::vector<uint32_t>{2, 2});
  CHECK(entries_of(std::vector<size_t>(11, 9)) == std::vector<uint32_t>{2, 1, 1, 1});
}

TEST_CASE("every sentence is in one batch, within its rows and tokens") {
  std::vector<size_t> counts;
  for (size_t i = 0; i < 101; ++i) counts.push_back(2 + i * 37 % 62);
  std::vector<int> seen(counts.size(), 0);
  for (const Batch& batch : make_batches(counts, kBuckets)) {
    REQUIRE(!batch.sentences.empty());
    CHECK(batch.sentences.size() <= batch.bucket.rows);
    for (const size_t sentence : batch.sentences) {
      ++seen[sentence];
      CHECK(counts[sentence] <= batch.bucket.tokens);
    }
  }
  CHECK(seen == std::vector<int>(counts.size(), 1));
}
