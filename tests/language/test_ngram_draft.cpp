// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "tests/support/catch.h"
#include "tools/language/ngram_draft.h"

namespace rlx::language {
namespace {

using Ids = std::vector<int32_t>;

Ids draft(const Ids& tokens, uint32_t longest, size_t most) {
  const auto found = draft_by_ngram(tokens, longest, most);
  return {found.begin(), found.end()};
}

}  // namespace

TEST_CASE("a_draft_is_what_followed_the_last_tokens_before") {
  CHECK(draft({1, 2, 3, 4, 5, 1, 2}, 3, 2) == Ids{3, 4});
  CHECK(draft({1, 2, 3, 4, 5, 1, 2}, 3, 9) == Ids{3, 4, 5, 1, 2});
  CHECK(draft({7, 7}, 3, 4) == Ids{7});
}

TEST_CASE("longer_likeness_goes_first_and_then_the_later_place") {
  CHECK(draft({8, 2, 3, 9, 2, 4, 8, 2}, 3, 1) == Ids{3});  // 8, 2 rather than the later 2
  CHECK(draft({8, 2, 3, 9, 2, 4, 8, 2}, 1, 1) == Ids{4});
  CHECK(draft({1, 2, 5, 1, 2, 6, 1, 2}, 2, 1) == Ids{6});
}

TEST_CASE("no_likeness_is_no_draft") {
  CHECK(draft({}, 3, 4).empty());
  CHECK(draft({1}, 3, 4).empty());
  CHECK(draft({1, 2, 3}, 3, 4).empty());
  CHECK(draft({1, 1}, 3, 0).empty());
}

}  // namespace rlx::language
