// SPDX-License-Identifier: Apache-2.0
// Characters that no name or text of a graph or plan holds, since they steer what shows them.
#pragma once

#include <cstdint>

namespace rlx {

// Control characters (C0, DEL, C1), line and paragraph separators, and what changes the direction
// of the text behind it (Unicode 15, Bidi_Control of the embedding, override and isolate kinds).
constexpr bool is_control_character(uint32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point <= 0x9F) ||
         (code_point >= 0x2028 && code_point <= 0x202E) ||
         (code_point >= 0x2066 && code_point <= 0x2069);
}

}  // namespace rlx
