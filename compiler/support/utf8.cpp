// SPDX-License-Identifier: Apache-2.0
// Characters of texts from files.
#include "compiler/support/utf8.h"

#include <algorithm>

#include "schema/control_characters.h"

namespace rlx {

size_t utf8_character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) > 0x9f) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

uint32_t code_point_of(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(character[i]); };
  if (character.size() == 1) return byte(0);
  uint32_t code_point = byte(0) & (0x7Fu >> character.size());
  for (size_t i = 1; i < character.size(); ++i) code_point = code_point << 6 | (byte(i) & 0x3Fu);
  return code_point;
}

std::string without_controls(std::string_view text, std::string_view kept) {
  std::string shown;
  while (!text.empty()) {
    const size_t length = utf8_character_bytes(text);
    const std::string_view character = text.substr(0, std::max<size_t>(length, 1));
    const bool plain = length > 0 && (!is_control_character(code_point_of(character)) ||
                                      kept.find(character) != std::string_view::npos);
    shown += plain ? character : "?";
    text.remove_prefix(character.size());
  }
  return shown;
}

}  // namespace rlx
