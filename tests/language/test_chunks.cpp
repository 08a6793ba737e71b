// SPDX-License-Identifier: Apache-2.0
// Prompts of every length are cut into chunks that cover them once, inside the context.
#include "tests/support/catch.h"
#include "tools/language/chunks.h"

using namespace rlx::language;

namespace {

const std::vector<uint32_t> kSizes = {32, 16, 8};

// Token by token: nothing is left out, and only a padded chunk at the end computes again.
void check_cover(const std::vector<Chunk>& chunks, uint32_t first, uint32_t end, uint32_t context) {
  uint32_t done = first;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Chunk& chunk = chunks[i];
    REQUIRE(chunk.position <= done);
    REQUIRE(chunk.position + chunk.size <= context);
    REQUIRE(chunk.count <= chunk.size);
    if (chunk.position < done) REQUIRE(chunk.position + chunk.size == context);
    if (chunk.count < chunk.size) REQUIRE(i + 1 == chunks.size());
    REQUIRE(chunk.position + chunk.count > done);
    done = chunk.position + chunk.count;
  }
  REQUIRE(done == end);
}

}  // namespace

TEST_CASE("chunks cover every prompt inside the context") {
  for (uint32_t context : {32u, 61u, 96u}) {
    for (uint32_t end = 1; end <= context; ++end) {
      for (uint32_t first = 0; first < end; ++first)
        check_cover(cut_into_chunks(kSizes, first, end, context), first, end, context);
    }
  }
}

TEST_CASE("a rest of more than two of the next size takes one padded chunk") {
  const auto sizes_of = [](uint32_t tokens) {
    std::vector<uint32_t> sizes;
    for (const Chunk& chunk : cut_into_chunks(std::vector<uint32_t>{512, 128, 32}, 0, tokens, 2048))
      sizes.push_back(chunk.size);
    return sizes;
  };
  using Sizes = std::vector<uint32_t>;
  CHECK(sizes_of(1) == Sizes{32});
  CHECK(sizes_of(64) == Sizes{32, 32});
  CHECK(sizes_of(65) == Sizes{128});
  CHECK(sizes_of(200) == Sizes{128, 128});
  CHECK(sizes_of(300) == Sizes{512});
  CHECK(sizes_of(512 + 128 + 33) == Sizes{512, 128, 32, 32});
}

TEST_CASE("sizes of few rows are not mixed with the others") {
  using Sizes = std::vector<uint32_t>;
  const auto exact = [](const Sizes& sizes) {
    const auto kept = row_exact_sizes(sizes);
    return Sizes(kept.begin(), kept.end());
  };
  CHECK(exact({32, 16, 8, 4}) == Sizes{32, 16});
  CHECK(exact({32}) == Sizes{32});
  CHECK(exact({8, 4}) == Sizes{8});
  CHECK(exact({1}) == Sizes{1});
}
