// SPDX-License-Identifier: Apache-2.0
// BERT's tokenizer: words, each of the longest tokens from its front on.
#pragma once

#include <memory>

#include "runtime/base/status.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/vocabulary.h"

namespace rlx {

// RLX_INVALID_PLAN where the section names no token for unknown words, or words of no
// length. Refers to `vocabulary`.
Status make_word_pieces(const fb::Text& section, const Vocabulary& vocabulary,
                        std::unique_ptr<const Tokenizer>& tokenizer);

}  // namespace rlx
