// SPDX-License-Identifier: Apache-2.0
// A plan's text section, read and checked: the tokens of a language model, how text becomes such
// tokens, and its chat templates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/vocabulary.h"

namespace rlx {

// Part of a text to encode. The names of control tokens are those tokens in trusted pieces only: a
// template's own text is trusted, what a user typed is not.
struct TextPiece {
  std::string_view text;
  bool is_trusted = false;
};

struct ChatTemplateText {
  std::string name;  // "" for the model's own
  std::string source;
};

// What stands beside the tokens.
struct TextFacts {
  std::optional<int32_t> begin;
  std::optional<int32_t> end;
  bool add_begin = false;  // encoding with RLX_TEXT_ADD_SPECIAL starts with `begin`, which is there
  bool add_end = false;
  bool adds_space = false;                 // the tokenizer puts a space before a text
  bool adds_space_behind_special = false;  // and behind special tokens
  bool shows_words = false;        // tokens are shown with a space before each that begins a word
  bool joins_punctuation = false;  // but before punctuation that ends a sentence, and short forms
  std::vector<uint32_t> strips_left;   // special tokens that take white space before them with them
  std::vector<uint32_t> strips_right;  // or behind them; ascending, each once
  std::vector<int32_t> stop_ids;       // ascending, each once
  std::vector<ChatTemplateText> templates;
  uint32_t context_tokens = 0;
};

class TokenIndex;
class Tokenizer;

inline constexpr size_t kMostTemplates = 64;
// Of one text to encode; places in it are 32-bit numbers, after normalisation too.
inline constexpr size_t kMostTextBytes = size_t{1} << 26;

// Immutable, shared by threads.
class TextModel {
 public:
  // Reads the section's bytes (schema/text.fbs), which may be anybody's: RLX_INVALID_PLAN with a
  // sentence where they do not hold together. Memory and time go with the section's size.
  static Status open(std::span<const std::byte> section, std::shared_ptr<const TextModel>& model);
  ~TextModel();

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  [[nodiscard]] const TextFacts& facts() const { return facts_; }
  [[nodiscard]] bool is_stop(int32_t id) const;

  // Appends the ids of the pieces, as if they were one text: words and merges go across their
  // borders. A control token is found where all its characters are trusted. `flags`:
  // RLX_TEXT_ADD_SPECIAL or 0; whether control tokens are parsed, each piece says. What is no UTF-8
  // is U+FFFD. More than kMostTextBytes are refused. Safe from any thread.
  Status encode_pieces(std::span<const TextPiece> pieces, uint32_t flags,
                       std::vector<int32_t>& ids) const;

 private:
  TextModel();

  Vocabulary vocabulary_;
  TextFacts facts_;
  std::unique_ptr<const TokenIndex> specials_;  // control and user-defined tokens
  std::unique_ptr<const Tokenizer> tokenizer_;
};

}  // namespace rlx
