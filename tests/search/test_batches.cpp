// SPDX-License-Identifier: Apache-2.0
// Sentences into batches, as examples/search does it.
#include <stdexcept>

#include "examples/search/batches.h"
#include "tests/support/catch.h"

namespace {

using search::Batch;
using search::Limits;
using search::make_batches;

constexpr Limits kLimits = {.rows = 3, .tokens = 64};

std::vector<std::vector<size_t>> sentences_of(const std::vector<size_t>& counts) {
  std::vector<std::vector<size_t>> sentences;
  for (const Batch& batch : make_batches(counts, kLimits)) sentences.push_back(batch.sentences);
  return sentences;
}

}  // namespace

TEST_CASE("neighbours in length share a batch, the shortest first") {
  using Sentences = std::vector<std::vector<size_t>>;
  CHECK(sentences_of({9, 4, 9, 4, 5}) == Sentences{{1, 3}, {4}, {0, 2}});
  CHECK(sentences_of({7, 7, 7, 7}) == Sentences{{0, 1, 2}, {3}});
  // Filled up by 1 of 16, by 2 of 18, by 3 of 24.
  CHECK(sentences_of({7, 8}) == Sentences{{0, 1}});
  CHECK(sentences_of({9, 7}) == Sentences{{1, 0}});
  CHECK(sentences_of({8, 7, 6}) == Sentences{{2, 1, 0}});
  CHECK(sentences_of({8, 6, 6}) == Sentences{{1, 2}, {0}});
  CHECK(sentences_of({64}) == Sentences{{0}});
  CHECK(sentences_of({}).empty());
}

TEST_CASE("batches of long sentences have few lengths") {
  const auto length_of = [](size_t tokens, size_t most) {
    return make_batches(std::vector<size_t>{tokens}, {.rows = 3, .tokens = most}).front().tokens;
  };
  CHECK(length_of(15, 256) == 15);
  CHECK(length_of(17, 256) == 18);
  CHECK(length_of(63, 256) == 64);
  CHECK(length_of(65, 256) == 72);
  CHECK(length_of(256, 256) == 256);
  CHECK(length_of(245, 250) == 250);
}

TEST_CASE("a sentence of more tokens than the plan takes is refused") {
  CHECK_THROWS_AS(sentences_of({2, 65}), std::runtime_error);
}

TEST_CASE("every sentence is in one batch, of whose tokens few stand for none") {
  std::vector<size_t> counts;
  for (size_t i = 0; i < 101; ++i) counts.push_back(2 + i * 37 % 62);
  std::vector<int> seen(counts.size(), 0);
  for (const Batch& batch : make_batches(counts, kLimits)) {
    REQUIRE(!batch.sentences.empty());
    CHECK(batch.sentences.size() <= kLimits.rows);
    size_t own = 0;
    for (const size_t sentence : batch.sentences) {
      ++seen[sentence];
      own += counts[sentence];
      CHECK(counts[sentence] <= batch.tokens);
    }
    const size_t all = batch.tokens * batch.sentences.size();
    CHECK((all - own) * 4 <= all);
  }
  CHECK(seen == std::vector<int>(counts.size(), 1));
}
