// SPDX-License-Identifier: Apache-2.0
// Unicode's normalisation forms C and D, over utf8proc's tables.
#include "runtime/text/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <new>
#include <vector>

#include "runtime/text/utf8.h"

namespace rlx {
namespace {

// No code decomposes into more at once.
constexpr size_t kMostParts = 64;

bool is_mark(utf8proc_int32_t code) {
  return utf8proc_get_property(code)->combining_class != 0;
}

void append_decomposed(std::vector<utf8proc_int32_t>& codes, char32_t code) {
  std::array<utf8proc_int32_t, kMostParts> parts{};
  int boundary = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts.data(), parts.size(),
                              UTF8PROC_DECOMPOSE, &boundary);
  codes.insert(codes.end(), parts.begin(), parts.begin() + std::max<utf8proc_ssize_t>(count, 0));
}

// Marks behind a character stand by their class. utf8proc's own ordering takes the square of their
// count.
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  for (auto begin = codes.begin(); begin != codes.end();) {
    begin = std::find_if(begin, codes.end(), is_mark);
    const auto end = std::find_if_not(begin, codes.end(), is_mark);
    std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return utf8proc_get_property(a)->combining_class < utf8proc_get_property(b)->combining_class;
    });
    begin = end;
  }
}

std::string utf8_of(const std::vector<utf8proc_int32_t>& codes, size_t count) {
  std::string text;
  std::array<utf8proc_uint8_t, 4> bytes{};
  for (size_t i = 0; i < count; ++i) {
    const utf8proc_ssize_t length = utf8proc_encode_char(codes[i], bytes.data());
    text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length));
  }
  return text;
}

std::vector<utf8proc_int32_t> decomposed(std::string_view text) {
  std::vector<utf8proc_int32_t> codes;
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    append_decomposed(codes, step.code);
    text.remove_prefix(step.bytes);
  }
  order_marks(codes);
  return codes;
}

}  // namespace

std::string in_form_d(std::string_view text) {
  const std::vector<utf8proc_int32_t> codes = decomposed(text);
  return utf8_of(codes, codes.size());
}

std::optional<std::string> in_form_c(std::string_view text) {
  // Below U+0300 nothing composes or decomposes; its first byte would be 0xCC.
  const bool is_plain = std::all_of(
      text.begin(), text.end(), [](char byte) { return static_cast<unsigned char>(byte) < 0xCC; });
  if (is_plain) return std::nullopt;
  std::vector<utf8proc_int32_t> codes = decomposed(text);
  const utf8proc_ssize_t count =
      utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  return utf8_of(codes, static_cast<size_t>(std::max<utf8proc_ssize_t>(count, 0)));
}

}  // namespace rlx
