// SPDX-License-Identifier: Apache-2.0
// Reads a plan's text section, which may be anybody's bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "runtime/text/text.h"
#include "runtime/text/tokenizer.h"

namespace rlx {

// SentencePiece's sign for a space, U+2581.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// The section's root, once the buffer is known to be well formed; refers to `bytes`, which are
// aligned to 8.
Status open_section(std::span<const std::byte> bytes, const fb::Text*& section);

Status read_vocabulary(const fb::Text& section, Vocabulary& vocabulary);
Status read_facts(const fb::Text& section, const Vocabulary& vocabulary, TextFacts& facts);
// The tokenizer of the section's kind, over the section's own `vocabulary`, which it refers to.
Status make_tokenizer(const fb::Text& section, const Vocabulary& vocabulary,
                      std::unique_ptr<const Tokenizer>& tokenizer);

// RLX_INVALID_PLAN unless there is a finite score per token.
Status check_scores(const fb::Text& section);

// A vector of the section that is there and not empty.
template <class Vector>
bool holds_any(const Vector* vector) {
  return vector != nullptr && vector->size() != 0;
}

// What is wrong with a section: RLX_INVALID_PLAN, "text section: ...".
template <class... Pieces>
Status section_fault(const Pieces&... pieces) {
  return {RLX_INVALID_PLAN, text_of("text section: ", pieces...)};
}

}  // namespace rlx
