// SPDX-License-Identifier: Apache-2.0
// Text whose bytes know where they come from: a template, or the caller's messages. A control token
// is made of the template's own bytes alone, so the mark stays through everything that a template
// does to text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::jinja {

enum class Origin : uint8_t { Template, Input };

// UTF-8, well formed; positions and sizes are of bytes and lie between characters.
class MarkedText {
 public:
  // The bytes before `end`, from the end of the run before.
  struct Run {
    size_t end = 0;
    Origin origin = Origin::Template;
  };

  MarkedText() = default;
  MarkedText(std::string_view bytes, Origin origin) { append(bytes, origin); }

  [[nodiscard]] std::string_view bytes() const { return bytes_; }
  [[nodiscard]] size_t size() const { return bytes_.size(); }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  // Neighbours differ in origin; none is empty.
  [[nodiscard]] const std::vector<Run>& runs() const { return runs_; }

  void append(std::string_view bytes, Origin origin);
  void append(const MarkedText& text) { append_part(text, 0, text.size()); }
  // The bytes [begin, begin + size) of `text`, which is another.
  void append_part(const MarkedText& text, size_t begin, size_t size);
  [[nodiscard]] MarkedText part(size_t begin, size_t size) const;
  // The origin of a byte that there is.
  [[nodiscard]] Origin origin_of(size_t byte) const;

 private:
  std::string bytes_;
  std::vector<Run> runs_;
};

// Bytes of the character that starts at `at`.
size_t character_bytes(std::string_view text, size_t at);
size_t count_characters(std::string_view text);
// Byte position of a character; the size of the text where it has no more than `character`.
size_t byte_of_character(std::string_view text, size_t character);
// The character at `at`, which is in the text.
char32_t character_at(std::string_view text, size_t at);
void append_character(std::string& out, char32_t character);

// Well-formed UTF-8 of any bytes: what is none becomes U+FFFD, as Python's errors="replace" has it.
std::string repaired_utf8(std::string_view bytes);

// White space as Python's str.strip has it.
bool is_space(char32_t character);
// What Python's repr() shows as it is.
bool is_printable(char32_t character);
bool is_letter(char32_t character);
// A text without the characters of `set` at its ends; without white space where there is no `set`.
struct Sides {
  bool left = true;
  bool right = true;
};
MarkedText strip(const MarkedText& text, std::optional<std::string_view> set, Sides sides = {});

enum class Case : uint8_t { Upper, Lower };
MarkedText with_case(const MarkedText& text, Case wanted);
char32_t with_case(char32_t character, Case wanted);

}  // namespace rlx::jinja
