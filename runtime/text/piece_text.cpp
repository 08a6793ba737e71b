// SPDX-License-Identifier: Apache-2.0
// What SentencePiece's two tokenizers share: how text is normalised, and what becomes of characters
// that no token has.
#include "runtime/text/piece_text.h"

#include <algorithm>
#include <vector>

#include "runtime/text/characters.h"
#include "runtime/text/section.h"
#include "runtime/text/utf8.h"

namespace rlx {

Status PieceText::read(const fb::Text& section, const Vocabulary& vocabulary, PieceText& text) {
  text.adds_space_ = section.add_space_prefix();
  text.adds_space_once_ = section.space_prefix_once();
  text.adds_space_at_start_ = section.space_prefix_at_start();
  text.removes_spaces_ = section.remove_extra_spaces();
  text.takes_white_space_ = section.white_space_is_space();
  const int32_t unknown = section.unknown();
  const bool has_unknown = vocabulary.has(unknown);
  // Files call it a control token at times; typed text never makes one.
  if (has_unknown && vocabulary.kind(unknown) != TokenKind::Control) text.unknown_ = unknown;
  for (uint32_t id = vocabulary.size(); id-- > 0;) {
    if (vocabulary.kind(id) == TokenKind::Byte)
      text.byte_tokens_[static_cast<unsigned char>(vocabulary.bytes(id)[0])] = id;
  }
  if (!holds_any(section.charsmap())) return {};
  const auto* bytes = reinterpret_cast<const char*>(section.charsmap()->data());
  return Charsmap::read({bytes, section.charsmap()->size()}, text.charsmap_.emplace());
}

// What the text begins with, normalised.
Charsmap::Match PieceText::next(std::string_view text) const {
  if (charsmap_) {
    if (const std::optional<Charsmap::Match> match = charsmap_->match(text)) return *match;
  }
  const size_t bytes = next_utf8(text).bytes;
  return {bytes, text.substr(0, bytes)};
}

// Whether all of it becomes one space.
bool PieceText::is_space(std::string_view text) const {
  if (!takes_white_space_) return false;
  const std::vector<Character> characters = characters_of(text);
  return !characters.empty() &&
         std::all_of(characters.begin(), characters.end(),
                     [](const Character& character) { return character.is(kSpace); });
}

// Before a text that begins so.
bool PieceText::adds_space(std::string_view begin, TextPlace place) const {
  const bool has_space = begin.starts_with(' ') || begin.starts_with(kSpaceMark);
  return adds_space_ && !(adds_space_once_ && has_space) &&
         (place == TextPlace::AtStart || !adds_space_at_start_);
}

std::string PieceText::normalized(std::string_view text, TextPlace place) const {
  std::string out;
  bool is_behind_space = removes_spaces_;
  bool has_begun = false;
  while (!text.empty()) {
    const Charsmap::Match part = next(text);
    text.remove_prefix(part.bytes);
    std::string_view added = is_space(part.replacement) ? " " : part.replacement;
    if (is_behind_space) added.remove_prefix(std::min(added.find_first_not_of(' '), added.size()));
    if (added.empty()) continue;
    if (!has_begun && adds_space(added, place)) out += ' ';
    has_begun = true;
    out += added == kSpaceMark ? " " : added;
    is_behind_space = removes_spaces_ && added.ends_with(' ');
  }
  if (removes_spaces_) out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

bool PieceText::has_bytes(std::string_view character) const {
  return std::all_of(character.begin(), character.end(), [this](char byte) {
    return byte_tokens_[static_cast<unsigned char>(byte)].has_value();
  });
}

void PieceText::Writer::put(std::optional<uint32_t> token, std::string_view character) {
  const bool was_behind_unknown = is_behind_unknown_;
  is_behind_unknown_ = false;
  if (token) {
    ids_.push_back(static_cast<int32_t>(*token));
  } else if (text_.has_bytes(character)) {
    for (const char byte : character)
      ids_.push_back(static_cast<int32_t>(*text_.byte_tokens_[static_cast<unsigned char>(byte)]));
  } else {
    is_behind_unknown_ = true;
    if (text_.unknown_ && !was_behind_unknown)
      ids_.push_back(static_cast<int32_t>(*text_.unknown_));
  }
}

}  // namespace rlx
