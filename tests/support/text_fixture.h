// SPDX-License-Identifier: Apache-2.0
// Text sections for tests: a plain description that a test edits, and the bytes that it stands for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schema/text_generated.h"

namespace rlx::test {

struct SpecToken {
  std::string bytes;
  fb::TokenKind kind = fb::TokenKind::Normal;
  float score = 0;
};

struct SpecTemplate {
  std::string name;
  std::string source;
};

// The fields of schema/text.fbs.
struct TextSpec {
  fb::TokenizerKind kind = fb::TokenizerKind::BytePairs;
  fb::WordSplit split = fb::WordSplit::Gpt2;
  std::vector<SpecToken> tokens;
  std::vector<fb::Merge> merges;
  std::string charsmap;
  bool ignore_merges = false;
  bool nfc = false;
  bool add_space_prefix = false;
  bool space_prefix_once = false;
  bool space_prefix_at_start = false;
  bool white_space_is_space = false;
  bool remove_extra_spaces = false;
  bool add_begin = false;
  bool add_end = false;
  int32_t begin = -1;
  int32_t end = -1;
  int32_t unknown = -1;
  std::vector<uint32_t> stop_ids;
  std::vector<uint32_t> strips_left;
  std::vector<uint32_t> strips_right;
  std::vector<SpecTemplate> templates;
  uint32_t context_tokens = 0;
  bool cleans_text = false;
  bool separates_ideographs = false;
  bool strips_accents = false;
  bool lower_case = false;
  uint32_t most_word_characters = 0;
  bool joins_punctuation = false;

  // Appends a token; returns its id.
  uint32_t add(std::string_view bytes, fb::TokenKind kind = fb::TokenKind::Normal, float score = 0);
  // Appends the token that two others make, and the merge that makes it.
  uint32_t merge(uint32_t left, uint32_t right);
};

// Byte-level BPE: token b is the byte b.
TextSpec byte_text();
// byte_text() with <|begin|>, <|end|> (control; begin, end and stop tokens), <tool> (user-defined),
// and the merges that make "the" and " the".
TextSpec small_text();

std::vector<std::byte> serialise(const TextSpec& spec);

}  // namespace rlx::test
