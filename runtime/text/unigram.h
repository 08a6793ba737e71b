// SPDX-License-Identifier: Apache-2.0
// SentencePiece's unigram model: the split of a text whose scores have the largest sum.
#pragma once

#include <memory>

#include "runtime/base/status.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/vocabulary.h"

namespace rlx {

// RLX_INVALID_PLAN where the section's scores do not fit its tokens. Refers to `vocabulary`.
Status make_unigram(const fb::Text& section, const Vocabulary& vocabulary,
                    std::unique_ptr<const Tokenizer>& tokenizer);

}  // namespace rlx
