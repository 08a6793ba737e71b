// SPDX-License-Identifier: Apache-2.0
// Text whose bytes know where they come from.
#include "runtime/text/jinja_text.h"

#include <utf8proc.h>

#include <algorithm>

#include "runtime/text/utf8.h"

namespace rlx::jinja {
namespace {

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80;
}

// The first run that ends behind `byte`.
auto run_of(const std::vector<MarkedText::Run>& runs, size_t byte) {
  return std::upper_bound(
      runs.begin(), runs.end(), byte,
      [](size_t wanted, const MarkedText::Run& run) { return wanted < run.end; });
}

bool is_in(std::optional<std::string_view> set, std::string_view text, size_t at) {
  if (!set) return is_space(character_at(text, at));
  return set->find(text.substr(at, character_bytes(text, at))) != std::string_view::npos;
}

size_t start_of_last_character(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && is_continuation(text[at])) --at;
  return at;
}

}  // namespace

void MarkedText::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  bytes_ += bytes;
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({.end = bytes_.size(), .origin = origin});
  }
}

void MarkedText::append_part(const MarkedText& text, size_t begin, size_t size) {
  const size_t end = begin + size;
  for (auto run = run_of(text.runs_, begin); begin < end; ++run) {
    const size_t run_end = std::min(run->end, end);
    append(text.bytes().substr(begin, run_end - begin), run->origin);
    begin = run_end;
  }
}

MarkedText MarkedText::part(size_t begin, size_t size) const {
  MarkedText out;
  out.append_part(*this, begin, size);
  return out;
}

Origin MarkedText::origin_of(size_t byte) const {
  return run_of(runs_, byte)->origin;
}

size_t character_bytes(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && is_continuation(text[end])) ++end;
  return end - at;
}

size_t count_characters(std::string_view text) {
  return text.size() -
         static_cast<size_t>(std::count_if(text.begin(), text.end(), is_continuation));
}

size_t byte_of_character(std::string_view text, size_t character) {
  size_t at = 0;
  while (character > 0 && at < text.size()) {
    at += character_bytes(text, at);
    --character;
  }
  return at;
}

char32_t character_at(std::string_view text, size_t at) {
  return next_utf8(text.substr(at)).code;
}

void append_character(std::string& out, char32_t character) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

std::string repaired_utf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const Utf8Step step = next_utf8(bytes);
    out += step.kind == Utf8Step::Kind::Character ? bytes.substr(0, step.bytes)
                                                  : kReplacementCharacter;
    bytes.remove_prefix(step.bytes);
  }
  return out;
}

bool is_space(char32_t character) {
  if (character < 0x80) {
    return character == ' ' || (character >= 0x09 && character <= 0x0D) ||
           (character >= 0x1C && character <= 0x1F);
  }
  if (character == 0x85) return true;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool is_printable(char32_t character) {
  if (character == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_letter(char32_t character) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

MarkedText strip(const MarkedText& text, std::optional<std::string_view> set, Sides sides) {
  const std::string_view bytes = text.bytes();
  size_t begin = 0;
  size_t end = bytes.size();
  while (sides.left && begin < end && is_in(set, bytes, begin)) {
    begin += character_bytes(bytes, begin);
  }
  while (sides.right && begin < end) {
    const size_t last = start_of_last_character(bytes, end);
    if (!is_in(set, bytes, last)) break;
    end = last;
  }
  return text.part(begin, end - begin);
}

char32_t with_case(char32_t character, Case wanted) {
  const auto code = static_cast<utf8proc_int32_t>(character);
  return static_cast<char32_t>(wanted == Case::Upper ? utf8proc_toupper(code)
                                                     : utf8proc_tolower(code));
}

MarkedText with_case(const MarkedText& text, Case wanted) {
  MarkedText out;
  size_t at = 0;
  for (const MarkedText::Run& run : text.runs()) {
    std::string changed;
    for (; at < run.end; at += character_bytes(text.bytes(), at)) {
      append_character(changed, with_case(character_at(text.bytes(), at), wanted));
    }
    out.append(changed, run.origin);
  }
  return out;
}

}  // namespace rlx::jinja
