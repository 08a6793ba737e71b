// SPDX-License-Identifier: Apache-2.0
// Opening a text section, and encoding: special tokens are cut out, what lies between goes to the
// tokenizer.
#include "runtime/text/text.h"

#include <algorithm>

#include "runtime/include/rlx_text.h"
#include "runtime/text/characters.h"
#include "runtime/text/section.h"
#include "runtime/text/token_index.h"
#include "runtime/text/utf8.h"

namespace rlx {
namespace {

struct Range {
  size_t begin;
  size_t end;
};

// Pieces as one text.
struct JoinedText {
  std::string text;
  std::vector<Range> trusted;  // ascending, no two touch

  void append(std::string_view part, bool is_trusted) {
    const size_t begin = text.size();
    text += part;
    if (!is_trusted || part.empty()) return;
    if (!trusted.empty() && trusted.back().end == begin) {
      trusted.back().end = text.size();
    } else {
      trusted.push_back({begin, text.size()});
    }
  }
};

// Tells what of a text is trusted, from front to back.
class TrustedWalk {
 public:
  explicit TrustedWalk(std::span<const Range> ranges) : ranges_(ranges) {}

  // Whether all of these bytes are trusted; `begin` never goes back.
  bool covers(size_t begin, size_t end) {
    while (!ranges_.empty() && ranges_.front().end <= begin) ranges_ = ranges_.subspan(1);
    return !ranges_.empty() && ranges_.front().begin <= begin && end <= ranges_.front().end;
  }

 private:
  std::span<const Range> ranges_;
};

// With U+FFFD for what is no UTF-8.
JoinedText repaired(const JoinedText& joined) {
  JoinedText result;
  TrustedWalk trusted(joined.trusted);
  const std::string_view text = joined.text;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text.substr(at));
    result.append(step.kind == Utf8Step::Kind::Character ? text.substr(at, step.bytes)
                                                         : kReplacementCharacter,
                  trusted.covers(at, at + step.bytes));
    at += step.bytes;
  }
  return result;
}

JoinedText joined(std::span<const TextPiece> pieces) {
  JoinedText result;
  for (const TextPiece& piece : pieces) result.append(piece.text, piece.is_trusted);
  return is_utf8(result.text) ? result : repaired(result);
}

struct FoundToken {
  size_t at;
  size_t bytes;
  uint32_t id;
};

// Finds the special tokens of a text from front to back: the first, the longest of those that begin
// there.
class SpecialSearch {
 public:
  SpecialSearch(const TokenIndex& specials, const Vocabulary& vocabulary, const JoinedText& joined)
      : specials_(specials),
        vocabulary_(vocabulary),
        text_(joined.text),
        trusted_(joined.trusted) {}

  // From `at` on, which never goes back.
  std::optional<FoundToken> next(size_t at) {
    std::optional<FoundToken> found;
    for (; at < text_.size() && !found; ++at) {
      specials_.for_each_prefix(text_.substr(at), [&](uint32_t id, size_t bytes) {
        const bool is_control = vocabulary_.kind(id) == TokenKind::Control;
        if (!is_control || trusted_.covers(at, at + bytes)) found = FoundToken{at, bytes, id};
      });
    }
    return found;
  }

 private:
  const TokenIndex& specials_;
  const Vocabulary& vocabulary_;
  std::string_view text_;
  TrustedWalk trusted_;
};

bool is_listed(const std::vector<uint32_t>& ids, uint32_t id) {
  return std::binary_search(ids.begin(), ids.end(), id);
}

// The bytes of white space that a text begins with: no more of it is looked at than one character.
size_t space_in_front(std::string_view text) {
  size_t bytes = 0;
  while (bytes < text.size()) {
    const std::string_view rest = text.substr(bytes);
    const Character first = characters_of(rest.substr(0, next_utf8(rest).bytes)).front();
    if (!first.is(kSpace)) break;
    bytes += first.bytes;
  }
  return bytes;
}

// Its bytes without the white space that it ends in.
size_t without_space_behind(std::string_view text) {
  size_t bytes = 0;
  for (const Character& character : characters_of(text)) {
    if (!character.is(kSpace)) bytes = character.begin + size_t{character.bytes};
  }
  return bytes;
}

bool is_special(TokenKind kind) {
  return kind == TokenKind::Control || kind == TokenKind::UserDefined;
}

}  // namespace

TextModel::TextModel() = default;
TextModel::~TextModel() = default;

Status TextModel::open(std::span<const std::byte> section,
                       std::shared_ptr<const TextModel>& model) {
  const std::vector<std::byte> aligned(section.begin(), section.end());
  const fb::Text* content = nullptr;
  RLX_RETURN_IF_ERROR(open_section(aligned, content));
  const std::shared_ptr<TextModel> opened(new TextModel());
  RLX_RETURN_IF_ERROR(read_vocabulary(*content, opened->vocabulary_));
  RLX_RETURN_IF_ERROR(read_facts(*content, opened->vocabulary_, opened->facts_));
  RLX_RETURN_IF_ERROR(make_tokenizer(*content, opened->vocabulary_, opened->tokenizer_));
  opened->specials_ = std::make_unique<const TokenIndex>(opened->vocabulary_, is_special);
  model = opened;
  return {};
}

bool TextModel::is_stop(int32_t id) const {
  return std::binary_search(facts_.stop_ids.begin(), facts_.stop_ids.end(), id);
}

Status TextModel::encode_pieces(std::span<const TextPiece> pieces, uint32_t flags,
                                std::vector<int32_t>& ids) const {
  size_t size_bytes = 0;
  for (const TextPiece& piece : pieces) {
    size_bytes += piece.text.size();
    if (size_bytes > kMostTextBytes)
      return {RLX_INVALID_ARGUMENT, text_of("a text of ", bytes_text(size_bytes), ", at most ",
                                            bytes_text(kMostTextBytes), " are encoded at once")};
  }
  const JoinedText whole = joined(pieces);
  const std::string_view text = whole.text;
  const bool adds_special = (flags & RLX_TEXT_ADD_SPECIAL) != 0;
  if (adds_special && facts_.add_begin) ids.push_back(*facts_.begin);
  SpecialSearch search(*specials_, vocabulary_, whole);
  for (size_t at = 0; at < text.size();) {
    const std::optional<FoundToken> found = search.next(at);
    size_t end = found ? found->at : text.size();
    if (found && is_listed(facts_.strips_left, found->id))
      end = at + without_space_behind(text.substr(at, end - at));
    const TextPlace place = at == 0 ? TextPlace::AtStart : TextPlace::BehindSpecial;
    if (end > at) tokenizer_->encode(text.substr(at, end - at), place, ids);
    if (!found) break;
    ids.push_back(static_cast<int32_t>(found->id));
    at = found->at + found->bytes;
    if (is_listed(facts_.strips_right, found->id)) at += space_in_front(text.substr(at));
  }
  if (adds_special && facts_.add_end) ids.push_back(*facts_.end);
  return {};
}

}  // namespace rlx
