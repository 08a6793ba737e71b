// SPDX-License-Identifier: Apache-2.0
// UTF-8, right or not.
#include "runtime/text/utf8.h"

namespace rlx {
namespace {

// What the first byte of a character says.
struct Lead {
  uint32_t bytes;  // of the character; 0: none begins so
  uint32_t bits;   // of its code
  uint32_t least;  // of the second byte
  uint32_t most;
};

Lead lead_of(uint32_t byte) {
  constexpr uint32_t kLeast = 0x80;
  constexpr uint32_t kMost = 0xBF;
  if (byte < 0x80) return {1, byte, 0, 0};
  if (byte < 0xC2 || byte > 0xF4) return {0, 0, 0, 0};
  if (byte < 0xE0) return {2, byte & 0x1Fu, kLeast, kMost};
  if (byte < 0xF0) {  // no overlong forms, no surrogates
    return {3, byte & 0x0Fu, byte == 0xE0 ? 0xA0 : kLeast, byte == 0xED ? 0x9F : kMost};
  }
  return {4, byte & 0x07u, byte == 0xF0 ? 0x90 : kLeast, byte == 0xF4 ? 0x8F : kMost};
}

}  // namespace

Utf8Step next_utf8(std::string_view text) {
  Lead lead = lead_of(static_cast<unsigned char>(text.front()));
  if (lead.bytes == 0) return {Utf8Step::Kind::Broken, 1, 0};
  for (uint32_t i = 1; i < lead.bytes; ++i) {
    if (i == text.size()) return {Utf8Step::Kind::Incomplete, i, 0};
    const uint32_t byte = static_cast<unsigned char>(text[i]);
    if (byte < lead.least || byte > lead.most) return {Utf8Step::Kind::Broken, i, 0};
    lead = {lead.bytes, lead.bits << 6u | (byte & 0x3Fu), 0x80, 0xBF};
  }
  return {Utf8Step::Kind::Character, lead.bytes, lead.bits};
}

}  // namespace rlx
