// SPDX-License-Identifier: Apache-2.0
// Building of message texts.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rlx {

inline void append_text(std::string& out, std::string_view piece) {
  out += piece;
}
template <std::integral Number>
void append_text(std::string& out, Number number) {
  out += std::to_string(number);
}

// All pieces in a row; integers in decimal.
template <class... Pieces>
std::string text_of(const Pieces&... pieces) {
  std::string out;
  (append_text(out, pieces), ...);
  return out;
}

// A name from a file between double quotes: at most 256 bytes of it, control characters, quotes and
// bytes that are no UTF-8 shown as \xNN. An object, no function: where <iomanip> is included,
// lookup by the argument's namespace would find std::quoted for a std::string, and prefer it.
struct Quoted {
  std::string operator()(std::string_view name) const;
};
inline constexpr Quoted quoted;

// True for well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text);
// The same without control characters (schema/control_characters.h): what may be shown as it is.
bool is_plain_text(std::string_view text);

// "f32[2,128,384]"
std::string tensor_text(uint32_t dtype, std::span<const uint64_t> dims);

// "12,345 bytes" up to 64 KiB, else also as MiB: "12345678 bytes (11.8 MiB)".
std::string bytes_text(uint64_t bytes);

// "a", "b" and "c"; "none" if there are none. At most 32 are named.
std::string list_text(std::span<const std::string_view> names);

}  // namespace rlx
