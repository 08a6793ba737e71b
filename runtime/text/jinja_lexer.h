// SPDX-License-Identifier: Apache-2.0
// A template's text cut into what stands outside of tags and the tokens inside, with Hugging Face's
// settings: trim_blocks (the line end behind a block tag goes) and lstrip_blocks (so do the blanks
// before one that begins a line).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/jinja_tree.h"

namespace rlx::jinja {

enum class TokenKind : uint8_t {
  Text,         // outside of tags
  OutputBegin,  // {{
  OutputEnd,
  BlockBegin,  // {%
  BlockEnd,
  Name,
  String,   // text: its value
  Integer,  // integer
  Float,    // real
  Symbol,   // text: "==", "("
  End
};

struct Token {
  TokenKind kind = TokenKind::End;
  Place at = 0;
  std::string text;
  int64_t integer = 0;
  double real = 0;
};

inline constexpr size_t kMostTemplateBytes = size_t{1} << 18;

// Thrown by lexer and parser; parse() returns it.
[[noreturn]] void fail(Place at, std::string message);

// Precondition: a normalised source of at most kMostTemplateBytes.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace rlx::jinja
