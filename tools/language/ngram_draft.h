// SPDX-License-Identifier: Apache-2.0
// Drafts of what comes next without a model: what followed the last time that the text was like
// this.
#pragma once

#include <cstdint>
#include <span>

namespace rlx::language {

// Of the places where the last tokens, as many of them as possible up to `longest`, stood before,
// the latest: what followed them there, at most `most` tokens; empty where there is no such place.
// Looks through all tokens, and allocates nothing.
std::span<const int32_t> draft_by_ngram(std::span<const int32_t> tokens, uint32_t longest,
                                        size_t most);

}  // namespace rlx::language
