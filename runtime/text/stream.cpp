// SPDX-License-Identifier: Apache-2.0
// Turns tokens into text as they come.
#include "runtime/text/stream.h"

#include "runtime/base/text.h"
#include "runtime/text/utf8.h"

namespace rlx {

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

Status TokenStream::put(int32_t id, std::string_view& shown) {
  if (!model_->vocabulary().has(id)) {
    return {RLX_INVALID_ARGUMENT,
            text_of("there is no token ", id, ", the text has ", model_->vocabulary().size())};
  }
  held_ += text_of_token(static_cast<uint32_t>(id));
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
