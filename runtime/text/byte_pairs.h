// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE: text is cut into words, a word's bytes are merged by rank.
#pragma once

#include <memory>

#include "runtime/base/status.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/vocabulary.h"

namespace rlx {

// RLX_INVALID_PLAN where the section's merges do not fit its tokens. Refers to `vocabulary`.
Status make_byte_pairs(const fb::Text& section, const Vocabulary& vocabulary,
                       std::unique_ptr<const Tokenizer>& tokenizer);

}  // namespace rlx
