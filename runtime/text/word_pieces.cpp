// SPDX-License-Identifier: Apache-2.0
// BERT's tokenizer: how it normalises text, cuts it into words, and these into tokens.
#include "runtime/text/word_pieces.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "runtime/text/characters.h"
#include "runtime/text/normal_form.h"
#include "runtime/text/section.h"
#include "runtime/text/token_index.h"
#include "runtime/text/utf8.h"

namespace rlx {
namespace {

// The one character whose lower case is two.
constexpr char32_t kDottedI = 0x130;
constexpr std::string_view kDottedLower = "i\xCC\x87";

void append(std::string& text, utf8proc_int32_t code) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const utf8proc_ssize_t length = utf8proc_encode_char(code, bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length));
}

utf8proc_category_t category_of(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

// Controls but those of lines and tabs, formats, private use, the replacement character.
bool is_dropped(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  const utf8proc_category_t category = category_of(code);
  return code == 0xFFFD || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

// The blocks that BERT's training took for Chinese, neither kana nor hangul, as Hugging Face's
// tokenizers has them: without the 256 codes from U+2B820 on, which BERT's own list has as well.
bool is_ideograph(char32_t code) {
  struct Block {
    char32_t first;
    char32_t last;
  };
  static constexpr std::array kBlocks = {Block{0x4E00, 0x9FFF},   Block{0x3400, 0x4DBF},
                                         Block{0x20000, 0x2A6DF}, Block{0x2A700, 0x2B73F},
                                         Block{0x2B740, 0x2B81F}, Block{0x2B920, 0x2CEAF},
                                         Block{0xF900, 0xFAFF},   Block{0x2F800, 0x2FA1F}};
  return std::ranges::any_of(
      kBlocks, [code](const Block& block) { return code >= block.first && code <= block.last; });
}

bool is_punctuation(const Character& character) {
  const bool is_ascii = character.code < 0x80;
  return character.is(kPunctuation) || (is_ascii && character.is(kSymbol));
}

class WordPieces : public Tokenizer {
 public:
  WordPieces(const fb::Text& section, const Vocabulary& vocabulary)
      : cleans_(section.cleans_text()),
        separates_ideographs_(section.separates_ideographs()),
        strips_accents_(section.strips_accents()),
        lowers_(section.lower_case()),
        most_characters_(section.most_word_characters()),
        unknown_(section.unknown()),
        tokens_(vocabulary, [](TokenKind kind) { return kind == TokenKind::Normal; }) {}

  void encode(std::string_view text, TextPlace, std::vector<int32_t>& ids) const override {
    const std::string normal = normalized(text);
    Word word;
    for (const Character& character : characters_of(normal)) {
      const bool stands_alone = is_punctuation(character);
      if (stands_alone || character.is(kSpace)) finish(word, ids);
      if (character.is(kSpace)) continue;
      word.text += std::string_view(normal).substr(character.begin, character.bytes);
      ++word.characters;
      if (stands_alone) finish(word, ids);
    }
    finish(word, ids);
  }

 private:
  // As tokens have it: behind a space.
  struct Word {
    std::string text = " ";
    size_t characters = 0;
  };

  [[nodiscard]] std::string normalized(std::string_view text) const {
    std::string out = cleaned(text);
    if (strips_accents_) out = without_marks(in_form_d(out));
    return lowers_ ? lowered(out) : out;
  }

  [[nodiscard]] std::string cleaned(std::string_view text) const {
    std::string out;
    for (const Character& character : characters_of(text)) {
      if (cleans_ && is_dropped(character.code)) continue;
      const bool stands_alone = separates_ideographs_ && is_ideograph(character.code);
      if (stands_alone) out += ' ';
      out += cleans_ && character.is(kSpace) ? " " : text.substr(character.begin, character.bytes);
      if (stands_alone) out += ' ';
    }
    return out;
  }

  static std::string without_marks(std::string_view text) {
    std::string out;
    for (const Character& character : characters_of(text)) {
      if (category_of(character.code) == UTF8PROC_CATEGORY_MN) continue;
      out += text.substr(character.begin, character.bytes);
    }
    return out;
  }

  static std::string lowered(std::string_view text) {
    std::string out;
    for (const Character& character : characters_of(text)) {
      if (character.code == kDottedI) {
        out += kDottedLower;
      } else {
        append(out, utf8proc_tolower(static_cast<utf8proc_int32_t>(character.code)));
      }
    }
    return out;
  }

  // Appends the word's tokens, or the one for unknown words, and begins the next.
  void finish(Word& word, std::vector<int32_t>& ids) const {
    if (word.characters == 0) return;
    const size_t count_before = ids.size();
    bool is_known = word.characters <= most_characters_;
    size_t least_bytes = 2;  // the space and more
    for (std::string_view rest = word.text; is_known && !rest.empty();) {
      size_t taken = 0;
      tokens_.for_each_prefix(rest, [&](uint32_t id, size_t bytes) {
        if (bytes < least_bytes) return;
        if (taken != 0) ids.pop_back();
        ids.push_back(static_cast<int32_t>(id));
        taken = bytes;
      });
      is_known = taken != 0;
      rest.remove_prefix(taken);
      least_bytes = 1;
    }
    if (!is_known) {
      ids.resize(count_before);
      ids.push_back(unknown_);
    }
    word = Word();
  }

  bool cleans_;
  bool separates_ideographs_;
  bool strips_accents_;
  bool lowers_;
  size_t most_characters_;
  int32_t unknown_;
  TokenIndex tokens_;
};

}  // namespace

Status make_word_pieces(const fb::Text& section, const Vocabulary& vocabulary,
                        std::unique_ptr<const Tokenizer>& tokenizer) {
  if (!vocabulary.has(section.unknown()))
    return section_fault("its token for unknown words is ", section.unknown(), ", there are ",
                         vocabulary.size());
  if (section.most_word_characters() == 0)
    return section_fault("its words are to have at most 0 characters, wanted 1 or more");
  tokenizer = std::make_unique<const WordPieces>(section, vocabulary);
  return {};
}

}  // namespace rlx
