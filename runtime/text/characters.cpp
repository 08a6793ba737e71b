// SPDX-License-Identifier: Apache-2.0
// Characters with what Unicode says of them, by utf8proc's tables.
#include "runtime/text/characters.h"

#include <utf8proc.h>

#include "runtime/text/utf8.h"

namespace rlx {
namespace {

uint16_t category_traits(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return kUpper;
    case UTF8PROC_CATEGORY_LL:
      return kLower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kOtherLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return kNumber;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return kPunctuation;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return kSymbol;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return kSpace;
    default:
      return 0;
  }
}

uint16_t traits_of(char32_t code) {
  if (code == '\r' || code == '\n') return kSpace | kLineEnd;
  // The controls among White_Space; all others of it are of category Z.
  if (code == '\t' || code == '\v' || code == '\f' || code == 0x85) return kSpace;
  return category_traits(code);
}

}  // namespace

std::vector<Character> characters_of(std::string_view text) {
  std::vector<Character> characters;
  characters.reserve(text.size());
  for (uint32_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text.substr(at));
    characters.push_back({.code = step.code,
                          .begin = at,
                          .traits = traits_of(step.code),
                          .bytes = static_cast<uint16_t>(step.bytes)});
    at += step.bytes;
  }
  return characters;
}

}  // namespace rlx
