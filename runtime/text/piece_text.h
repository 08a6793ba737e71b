// SPDX-License-Identifier: Apache-2.0
// What SentencePiece's two tokenizers share: how text is normalised, and what becomes of characters
// that no token has.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/charsmap.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/vocabulary.h"

namespace rlx {

// Its space mark, U+2581, is a space here, in text as in tokens.
class PieceText {
 public:
  static Status read(const fb::Text& section, const Vocabulary& vocabulary, PieceText& text);

  // Characters replaced by the charsmap; where the section says so, spaces at the ends and behind
  // spaces taken away, and one put before the text.
  [[nodiscard]] std::string normalized(std::string_view text, TextPlace place) const;

  // Collects the ids of a text.
  class Writer {
   public:
    Writer(const PieceText& text, std::vector<int32_t>& ids) : text_(text), ids_(ids) {}
    // A token, or without one the tokens of the character's bytes; where they have none, the
    // unknown token, once for several such characters in a row; where there is none, nothing.
    void put(std::optional<uint32_t> token, std::string_view character);

   private:
    const PieceText& text_;
    std::vector<int32_t>& ids_;
    bool is_behind_unknown_ = false;
  };

 private:
  [[nodiscard]] Charsmap::Match next(std::string_view text) const;
  [[nodiscard]] bool is_space(std::string_view text) const;
  [[nodiscard]] bool has_bytes(std::string_view character) const;

  [[nodiscard]] bool adds_space(std::string_view begin, TextPlace place) const;

  bool adds_space_ = false;
  bool adds_space_once_ = false;
  bool adds_space_at_start_ = false;
  bool removes_spaces_ = false;
  bool takes_white_space_ = false;
  std::optional<Charsmap> charsmap_;
  std::array<std::optional<uint32_t>, 256> byte_tokens_;
  std::optional<uint32_t> unknown_;
};

}  // namespace rlx
