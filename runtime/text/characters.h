// SPDX-License-Identifier: Apache-2.0
// Characters with what Unicode says of them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace rlx {

// Bits of Character::traits; what \p{..} means by the letter.
enum Trait : uint16_t {
  kUpper = 1,         // Lu, Lt
  kLower = 2,         // Ll
  kOtherLetter = 4,   // Lm, Lo
  kMark = 8,          // M
  kNumber = 16,       // N
  kPunctuation = 32,  // P
  kSymbol = 64,       // S
  kSpace = 128,       // White_Space: \s
  kLineEnd = 256,     // \r, \n
  kLetter = kUpper | kLower | kOtherLetter,
};

struct Character {
  char32_t code;
  uint32_t begin;   // its first byte in the text
  uint16_t traits;  // Trait, together
  uint16_t bytes;

  [[nodiscard]] bool is(uint32_t wanted) const { return (traits & wanted) != 0; }
};

// Of UTF-8.
std::vector<Character> characters_of(std::string_view text);

}  // namespace rlx
