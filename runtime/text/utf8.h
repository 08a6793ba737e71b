// SPDX-License-Identifier: Apache-2.0
// UTF-8, right or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rlx {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

struct Utf8Step {
  enum class Kind : uint8_t {
    Character,
    Broken,      // these bytes begin no character, whatever follows
    Incomplete,  // the text ends in what may begin a character
  };
  Kind kind;
  uint32_t bytes;
  char32_t code;  // of Character
};

// What a text that is not empty begins with. Broken takes the longest start of a character
// (Unicode 3.9, "maximal subpart"), else one byte: each is one U+FFFD.
Utf8Step next_utf8(std::string_view text);

}  // namespace rlx
