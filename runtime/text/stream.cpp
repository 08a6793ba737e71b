// SPDX-License-Identifier: Apache-2.0
// Turns tokens into text as they come.
#include "runtime/text/stream.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/text/utf8.h"

namespace rlx {
namespace {

// What stands close to the word before it: Hugging Face's clean-up of BERT's tokens, each of which
// has one space at most.
bool joins_word_before(std::string_view text) {
  static constexpr std::string_view kJoined[] = {" .",  " ?",  " !",   " ,",  " n't",
                                                 " 'm", " 's", " 've", " 're"};
  return std::ranges::any_of(kJoined, [text](auto joined) { return text.starts_with(joined); });
}

}  // namespace

std::string_view TokenStream::text_of_token(uint32_t id) {
  const TokenKind kind = model_->vocabulary().kind(id);
  const std::string_view bytes = model_->vocabulary().bytes(id);
  const bool is_special = kind == TokenKind::Control || kind == TokenKind::UserDefined;
  const bool drops_space = drops_space_ && model_->facts().adds_space && !is_special;
  // A control token may be what encoding put in front of the text.
  const bool is_begin = drops_space_ && kind == TokenKind::Control;
  drops_space_ = is_special && (is_begin || model_->facts().adds_space_behind_special);
  if (control_ == ControlTokens::Hidden) {
    if (kind == TokenKind::Control) return {};
    if (kind == TokenKind::Unknown) return kReplacementCharacter;
  }
  return drops_space && bytes.starts_with(' ') ? bytes.substr(1) : bytes;
}

std::string TokenStream::text_of_word(uint32_t id) {
  const TokenKind kind = model_->vocabulary().kind(id);
  if (control_ == ControlTokens::Hidden && kind == TokenKind::Control) return {};
  std::string text(kind == TokenKind::Normal ? "" : " ");
  text += model_->vocabulary().bytes(id);
  const bool is_joined = model_->facts().joins_punctuation && joins_word_before(text);
  if ((drops_space_ || is_joined) && text.starts_with(' ')) text.erase(0, 1);
  drops_space_ = false;
  return text;
}

Status TokenStream::put(int32_t id, std::string_view& shown) {
  if (!model_->vocabulary().has(id)) {
    return {RLX_INVALID_ARGUMENT,
            text_of("there is no token ", id, ", the text has ", model_->vocabulary().size())};
  }
  const auto token = static_cast<uint32_t>(id);
  if (model_->facts().shows_words) {
    held_ += text_of_word(token);
  } else {
    held_ += text_of_token(token);
  }
  shown_.clear();
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Utf8Step step = next_utf8(rest);
    if (step.kind == Utf8Step::Kind::Incomplete) break;
    shown_ +=
        step.kind == Utf8Step::Kind::Character ? rest.substr(0, step.bytes) : kReplacementCharacter;
    rest.remove_prefix(step.bytes);
  }
  held_.erase(0, held_.size() - rest.size());
  shown = shown_;
  return {};
}

std::string_view TokenStream::end() {
  shown_ = held_.empty() ? std::string_view() : kReplacementCharacter;  // it began a character
  held_.clear();
  drops_space_ = true;
  return shown_;
}

}  // namespace rlx
