// SPDX-License-Identifier: Apache-2.0
// Characters of texts from files: their lengths, and which of them may be shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rlx {

// Bytes of the UTF-8 character at the start of `text`, which is not empty; 0 where there is none:
// overlong forms, surrogates and values beyond U+10FFFF are not UTF-8 (Unicode 15, table 3-7).
size_t utf8_character_bytes(std::string_view text);
// Of a character that utf8_character_bytes() measured.
uint32_t code_point_of(std::string_view character);

// The text with "?" for each control character (schema/control_characters.h) and for each byte that
// is no UTF-8, but for those in `kept`.
std::string without_controls(std::string_view text, std::string_view kept = {});

}  // namespace rlx
