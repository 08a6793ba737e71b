// SPDX-License-Identifier: Apache-2.0
// BERT's tokenizer for lower-case models. Unicode's tables are utf8proc's.
#include "wordpiece.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>

namespace search {
namespace {

using CodePoint = utf8proc_int32_t;

constexpr size_t kMaxWordCharacters = 100;
constexpr CodePoint kReplacement = 0xFFFD;

// The next code point of a UTF-8 text, which loses it; the replacement character for a byte that
// begins none.
CodePoint take_character(std::string_view& text) {
  CodePoint character = -1;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto length = static_cast<utf8proc_ssize_t>(text.size());
  const utf8proc_ssize_t taken = utf8proc_iterate(bytes, length, &character);
  text.remove_prefix(taken > 0 ? static_cast<size_t>(taken) : 1);
  return taken > 0 ? character : kReplacement;
}

void append(std::string& text, CodePoint character) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const utf8proc_ssize_t length = utf8proc_encode_char(character, bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length));
}

bool is_space(CodePoint character) {
  if (character == '\t' || character == '\n' || character == '\r') return true;
  switch (utf8proc_category(character)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    default:
      return false;
  }
}

// Control and format characters, private use, what is no character at all.
bool is_dropped(CodePoint character) {
  if (character == 0 || character == kReplacement) return true;
  switch (utf8proc_category(character)) {
    case UTF8PROC_CATEGORY_CC:
      return !is_space(character);
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CS:
      return true;
    default:
      return false;
  }
}

// ASCII's symbols count as punctuation, whatever their category.
bool is_punctuation(CodePoint character) {
  if ((character >= 33 && character <= 47) || (character >= 58 && character <= 64) ||
      (character >= 91 && character <= 96) || (character >= 123 && character <= 126)) {
    return true;
  }
  switch (utf8proc_category(character)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return true;
    default:
      return false;
  }
}

// The blocks of CJK ideographs (not kana, not hangul), as BERT's training took them.
bool is_ideograph(CodePoint character) {
  struct Block {
    CodePoint first;
    CodePoint last;
  };
  static constexpr std::array kBlocks = {Block{0x4E00, 0x9FFF},   Block{0x3400, 0x4DBF},
                                         Block{0x20000, 0x2A6DF}, Block{0x2A700, 0x2B73F},
                                         Block{0x2B740, 0x2B81F}, Block{0x2B820, 0x2CEAF},
                                         Block{0xF900, 0xFAFF},   Block{0x2F800, 0x2FA1F}};
  return std::any_of(kBlocks.begin(), kBlocks.end(), [character](const Block& block) {
    return character >= block.first && character <= block.last;
  });
}

// Without what is dropped, white space as spaces, ideographs between spaces.
std::string cleaned(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const CodePoint character = take_character(text);
    if (is_dropped(character)) continue;
    const bool stands_alone = is_ideograph(character);
    if (stands_alone) result += ' ';
    append(result, is_space(character) ? ' ' : character);
    if (stands_alone) result += ' ';
  }
  return result;
}

// Canonical decomposition of valid UTF-8.
std::string decomposed(const std::string& text) {
  utf8proc_uint8_t* bytes = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &bytes,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE));
  if (length < 0) throw std::runtime_error(utf8proc_errmsg(length));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(bytes, &std::free);
  return {reinterpret_cast<const char*>(bytes), static_cast<size_t>(length)};
}

// Bytes of the character that ends at `end` in valid UTF-8.
size_t last_character_bytes(std::string_view text, size_t end) {
  size_t start = end - 1;
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0u) == 0x80u) --start;
  return end - start;
}

size_t character_count(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u;
  }));
}

}  // namespace

std::vector<std::string> basic_tokens(std::string_view text) {
  const std::string plain = decomposed(cleaned(text));
  std::vector<std::string> words;
  bool in_word = false;
  for (std::string_view rest = plain; !rest.empty();) {
    const CodePoint character = take_character(rest);
    if (utf8proc_category(character) == UTF8PROC_CATEGORY_MN) continue;
    const bool stands_alone = is_punctuation(character);
    if (is_space(character)) {
      in_word = false;
      continue;
    }
    if (!in_word || stands_alone) words.emplace_back();
    append(words.back(), utf8proc_tolower(character));
    in_word = !stands_alone;
  }
  return words;
}

WordPiece::WordPiece(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  int64_t id = 0;
  for (std::string piece; std::getline(file, piece); ++id) {
    if (!piece.empty() && piece.back() == '\r') piece.pop_back();
    if (!ids_.emplace(piece, id).second)
      throw std::runtime_error(path + ": line " + std::to_string(id + 1) + ": \"" + piece +
                               "\" stands there twice");
  }
  unknown_ = special(path, "[UNK]");
  begin_ = special(path, "[CLS]");
  end_ = special(path, "[SEP]");
}

int64_t WordPiece::special(const std::string& path, const char* piece) const {
  const auto found = ids_.find(piece);
  if (found == ids_.end())
    throw std::runtime_error(path + " is no vocabulary of BERT's: it has no piece " + piece);
  return found->second;
}

std::vector<int64_t> WordPiece::encode(std::string_view text, size_t max_tokens) const {
  if (max_tokens < 2) throw std::runtime_error("a sentence has at least two tokens");
  std::vector<int64_t> ids = {begin_};
  for (const std::string& word : basic_tokens(text)) {
    if (ids.size() >= max_tokens) break;
    add_pieces(word, ids);
  }
  ids.resize(std::min(ids.size(), max_tokens - 1));
  ids.push_back(end_);
  return ids;
}

// The longest piece that the rest of the word begins with, again and again.
void WordPiece::add_pieces(std::string_view word, std::vector<int64_t>& ids) const {
  const size_t count_before = ids.size();
  bool is_known = character_count(word) <= kMaxWordCharacters;
  for (size_t start = 0; is_known && start < word.size();) {
    is_known = false;
    for (size_t end = word.size(); end > start; end -= last_character_bytes(word, end)) {
      const std::string piece =
          (start == 0 ? "" : "##") + std::string(word.substr(start, end - start));
      const auto found = ids_.find(piece);
      if (found == ids_.end()) continue;
      ids.push_back(found->second);
      start = end;
      is_known = true;
      break;
    }
  }
  if (is_known) return;
  ids.resize(count_before);
  ids.push_back(unknown_);
}

}  // namespace search
