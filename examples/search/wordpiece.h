// SPDX-License-Identifier: Apache-2.0
// BERT's tokenizer for lower-case models: basic tokenisation, then WordPiece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace search {

// The words and punctuation marks of a UTF-8 text, each normalised: control characters are dropped,
// letters lower-cased, accents (canonical decomposition, category Mn) taken off, and every
// punctuation mark and CJK ideograph is a word of its own. What is not UTF-8 is dropped too.
std::vector<std::string> basic_tokens(std::string_view text);

class WordPiece {
 public:
  // Reads a vocabulary: one piece per line, whose id is its line, counted from 0; pieces that
  // continue a word begin with "##". Throws std::runtime_error where the file cannot be read, lacks
  // [UNK], [CLS] or [SEP], or names a piece twice.
  explicit WordPiece(const std::string& path);

  // [CLS], the pieces of the text, [SEP]: at most max_tokens ids (at least 2), from the text's
  // beginning. A word of which some part is no piece, or that has more than 100 characters, is one
  // [UNK]. Special pieces written in the text are plain text.
  [[nodiscard]] std::vector<int64_t> encode(std::string_view text, size_t max_tokens) const;

 private:
  void add_pieces(std::string_view word, std::vector<int64_t>& ids) const;
  [[nodiscard]] int64_t special(const std::string& path, const char* piece) const;

  std::unordered_map<std::string, int64_t> ids_;
  int64_t unknown_ = 0;
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

}  // namespace search
