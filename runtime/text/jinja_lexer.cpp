// SPDX-License-Identifier: Apache-2.0
// A template's text cut into tokens.
#include "runtime/text/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "runtime/base/text.h"

namespace rlx::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

bool is_name_start(char32_t c) {
  return c == '_' || (c < 0x80 ? (c | 0x20u) >= 'a' && (c | 0x20u) <= 'z' : is_letter(c));
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::optional<uint32_t> digit_value(char c) {
  if (is_digit(c)) return static_cast<uint32_t>(c - '0');
  const auto letter = static_cast<char>(c | 0x20);
  if (letter < 'a' || letter > 'f') return std::nullopt;
  return static_cast<uint32_t>(letter - 'a') + 10;
}

// Longer ones first.
constexpr std::array<std::string_view, 26> kSymbols = {
    "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

char closing(char open) {
  return open == '(' ? ')' : open == '[' ? ']' : '}';
}

// Text of a string literal, its escapes read as Python reads them.
class Unescape {
 public:
  Unescape(std::string_view text, Place at) : text_(text), place_(at) {}

  std::string run() {
    while (at_ < text_.size()) {
      if (text_[at_] != '\\' || at_ + 1 == text_.size()) {
        out_ += text_[at_++];
      } else {
        at_ += 2;
        escape(text_[at_ - 1]);
      }
    }
    return std::move(out_);
  }

 private:
  void escape(char letter) {
    static constexpr std::string_view kLetters = "abfnrtv\\'\"";
    static constexpr std::string_view kMeant = "\a\b\f\n\r\t\v\\'\"";
    const size_t known = kLetters.find(letter);
    if (known != kNone) {
      out_ += kMeant[known];
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      append_code(digits(letter == 'x' ? 2 : letter == 'u' ? 4 : 8));
    } else if (letter >= '0' && letter <= '7') {
      --at_;
      append_code(octal());
    } else if (letter == 'N') {
      fail(place_, "characters by name (\\N{..}) are not supported");
    } else if (letter != '\n') {
      out_ += '\\';
      out_ += letter;
    }
  }

  uint32_t digits(size_t count) {
    uint32_t code = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto value = at_ < text_.size() ? digit_value(text_[at_]) : std::nullopt;
      if (!value) fail(place_, text_of("an escape in this string wants ", count, " digits"));
      code = code * 16 + *value;
      ++at_;
    }
    return code;
  }

  uint32_t octal() {
    uint32_t code = 0;
    for (size_t i = 0; i < 3 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7'; ++i) {
      code = code * 8 + static_cast<uint32_t>(text_[at_++] - '0');
    }
    return code;
  }

  void append_code(uint32_t code) {
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
      fail(place_, "an escape in this string is no character");
    }
    append_character(out_, code);
  }

  std::string_view text_;
  Place place_;
  size_t at_ = 0;
  std::string out_;
};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) outside();
    push(TokenKind::End, at_, {});
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] std::string_view rest() const { return source_.substr(at_); }
  [[nodiscard]] bool sees(std::string_view text) const {
    return rest().substr(0, text.size()) == text;
  }

  void push(TokenKind kind, size_t at, std::string text) {
    tokens_.push_back({.kind = kind, .at = static_cast<Place>(at), .text = std::move(text)});
  }

  // Text, and the tag behind it.
  void outside() {
    const size_t begin = at_;
    const size_t tag = next_tag();
    const size_t text_end = tag == kNone ? source_.size() : end_of_text(begin, tag);
    if (text_end > begin)
      push(TokenKind::Text, begin, std::string(source_.substr(begin, text_end - begin)));
    at_ = tag == kNone ? source_.size() : tag;
    if (tag == kNone) return;
    if (source_[tag + 1] == '#') return comment();
    if (source_[tag + 1] == '%' && raw()) return;
    inside(source_[tag + 1] == '%');
  }

  [[nodiscard]] size_t next_tag() const {
    for (size_t at = source_.find('{', at_); at != kNone; at = source_.find('{', at + 1)) {
      const char next = at + 1 < source_.size() ? source_[at + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return kNone;
  }

  // Where the text before a tag ends, whose '-' takes all white space, and which, if it is no
  // output and begins its line, takes the line's blanks.
  [[nodiscard]] size_t end_of_text(size_t begin, size_t tag) const {
    const std::string_view text = source_.substr(begin, tag - begin);
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    if (sign == '-') return begin + strip_right(text);
    if (sign == '+' || source_[tag + 1] == '{') return tag;
    const size_t line = text.rfind('\n') + 1;
    const bool begins_line = line > 0 || begin == 0 || source_[begin - 1] == '\n';
    return begins_line && strip_right(text.substr(line)) == 0 ? begin + line : tag;
  }

  static size_t strip_right(std::string_view text) {
    size_t end = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t size = character_bytes(text, at);
      if (!is_space(character_at(text, at))) end = at + size;
      at += size;
    }
    return end;
  }

  void skip_space() {
    while (at_ < source_.size() && is_space(character_at(source_, at_))) {
      at_ += character_bytes(source_, at_);
    }
  }

  // Behind a tag's end, at whose last two bytes `at_` stands; `sign` stood before them.
  void close_tag(char sign, bool trims_line_end) {
    at_ += 2;
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && trims_line_end && sees("\n")) {
      ++at_;
    }
  }

  void comment() {
    const size_t begin = at_;
    at_ = source_.find("#}", begin + 2);
    if (at_ == kNone) fail(static_cast<Place>(begin), "this comment has no end: #}");
    close_tag(at_ > begin + 2 ? source_[at_ - 1] : '\0', true);
  }

  // {% raw %}..{% endraw %} at `at_`; false: it is another tag.
  bool raw() {
    const size_t begin = at_;
    const auto sign = raw_tag(at_, "raw");
    if (!sign) return false;
    close_tag(*sign, false);
    const size_t text_begin = at_;
    for (size_t tag = source_.find("{%", at_); tag != kNone; tag = source_.find("{%", tag + 2)) {
      at_ = tag;
      const auto end_sign = raw_tag(at_, "endraw");
      if (!end_sign) continue;
      const size_t end = end_of_text(text_begin, tag);
      if (end > text_begin)
        push(TokenKind::Text, text_begin,
             std::string(source_.substr(text_begin, end - text_begin)));
      close_tag(*end_sign, true);
      return true;
    }
    fail(static_cast<Place>(begin), "this raw block has no end: {% endraw %}");
  }

  // The tag {% NAME %} at `at`, moved to its "%}": the sign before that, '\0' if none.
  std::optional<char> raw_tag(size_t& at, std::string_view name) {
    const size_t begin = at_;
    at_ = at + 2;
    if (sees("-") || sees("+")) ++at_;
    skip_space();
    const bool is_named = sees(name);
    if (is_named) at_ += name.size();
    skip_space();
    char sign = '\0';
    if (sees("-") || sees("+")) sign = source_[at_++];
    if (is_named && sees("%}")) return sign;
    at_ = begin;
    return std::nullopt;
  }

  // {{ .. }} or {% .. %} at `at_`.
  void inside(bool is_block) {
    const size_t begin = at_;
    push(is_block ? TokenKind::BlockBegin : TokenKind::OutputBegin, at_, {});
    at_ += 2;
    if (sees("-") || sees("+")) ++at_;
    open_.clear();
    while (true) {
      skip_space();
      if (at_ == source_.size()) {
        fail(static_cast<Place>(begin),
             is_block ? "this tag has no end: %}" : "this tag has no end: }}");
      }
      if (open_.empty() && end_of_tag(is_block)) return;
      token();
    }
  }

  bool end_of_tag(bool is_block) {
    const std::string_view end = is_block ? "%}" : "}}";
    const size_t begin = at_;
    const bool is_signed = sees("-") || (is_block && sees("+"));
    const char sign = is_signed ? source_[at_++] : '\0';
    if (!sees(end)) {
      at_ = begin;
      return false;
    }
    push(is_block ? TokenKind::BlockEnd : TokenKind::OutputEnd, begin, {});
    close_tag(sign, is_block);
    return true;
  }

  void token() {
    const char first = source_[at_];
    if (is_name_start(character_at(source_, at_))) return name();
    if (is_digit(first)) return number();
    if (first == '"' || first == '\'') return string();
    symbol();
  }

  void name() {
    const size_t begin = at_;
    while (at_ < source_.size() &&
           (is_name_start(character_at(source_, at_)) || is_digit(source_[at_]))) {
      at_ += character_bytes(source_, at_);
    }
    push(TokenKind::Name, begin, std::string(source_.substr(begin, at_ - begin)));
  }

  void string() {
    const size_t begin = at_;
    const char quote = source_[at_++];
    while (at_ < source_.size() && source_[at_] != quote) at_ += source_[at_] == '\\' ? 2 : 1;
    if (at_ >= source_.size()) fail(static_cast<Place>(begin), "this string has no end");
    const auto place = static_cast<Place>(begin);
    push(TokenKind::String, begin,
         Unescape(source_.substr(begin + 1, at_ - begin - 1), place).run());
    ++at_;
  }

  void symbol() {
    const auto found = std::find_if(kSymbols.begin(), kSymbols.end(),
                                    [&](std::string_view symbol) { return sees(symbol); });
    const auto place = static_cast<Place>(at_);
    if (found == kSymbols.end()) {
      fail(place, text_of(quoted(source_.substr(at_, character_bytes(source_, at_))),
                          " has no meaning in a tag"));
    }
    balance((*found)[0], place);
    push(TokenKind::Symbol, at_, std::string(*found));
    at_ += found->size();
  }

  // "}}" inside brackets ends no tag.
  void balance(char symbol, Place at) {
    if (symbol == '(' || symbol == '[' || symbol == '{') open_ += closing(symbol);
    if (symbol != ')' && symbol != ']' && symbol != '}') return;
    if (open_.empty())
      fail(at, text_of("this \"", std::string_view(&symbol, 1), "\" closes nothing"));
    if (open_.back() != symbol) {
      fail(at, text_of("expected \"", std::string_view(&open_.back(), 1), "\", got \"",
                       std::string_view(&symbol, 1), "\""));
    }
    open_.pop_back();
  }

  // Digits with single '_' between them.
  std::string digits() {
    std::string out;
    while (at_ < source_.size()) {
      const bool is_gap =
          source_[at_] == '_' && at_ + 1 < source_.size() && is_digit(source_[at_ + 1]);
      if (!is_gap && !is_digit(source_[at_])) break;
      if (!is_gap) out += source_[at_];
      ++at_;
    }
    return out;
  }

  void number() {
    const size_t begin = at_;
    std::string text = digits();
    bool is_real = false;
    if (sees(".") && at_ + 1 < source_.size() && is_digit(source_[at_ + 1])) {
      ++at_;
      text += '.' + digits();
      is_real = true;
    }
    if (const size_t skipped = exponent_start(); skipped > 0) {
      text += source_.substr(at_, skipped);
      at_ += skipped;
      text += digits();
      is_real = true;
    }
    push(is_real ? TokenKind::Float : TokenKind::Integer, begin, {});
    read_number(text, tokens_.back());
  }

  // Bytes of an exponent before its digits, 0: there is none.
  [[nodiscard]] size_t exponent_start() const {
    if (!sees("e") && !sees("E")) return 0;
    const size_t sign = at_ + 1;
    const bool is_signed = sign < source_.size() && (source_[sign] == '-' || source_[sign] == '+');
    const size_t digit = sign + (is_signed ? 1 : 0);
    return digit < source_.size() && is_digit(source_[digit]) ? digit - at_ : 0;
  }

  static void read_number(const std::string& text, Token& token) {
    const char* end = text.data() + text.size();
    const auto done = token.kind == TokenKind::Float
                          ? std::from_chars(text.data(), end, token.real)
                          : std::from_chars(text.data(), end, token.integer);
    if (done.ec != std::errc())
      fail(token.at, text_of("the number ", quoted(text), " is out of range"));
  }

  std::string_view source_;
  size_t at_ = 0;
  std::string open_;  // what the open brackets wait for
  std::vector<Token> tokens_;
};

}  // namespace

void fail(Place at, std::string message) {
  throw Problem{.at = at, .message = std::move(message)};
}

std::vector<Token> tokens_of(std::string_view source) {
  return Lexer(source).run();
}

std::string normalised_source(std::string_view source) {
  const std::string repaired = repaired_utf8(source);
  std::string out;
  for (size_t i = 0; i < repaired.size(); ++i) {
    const bool ends_pair = repaired[i] == '\n' && i > 0 && repaired[i - 1] == '\r';
    if (!ends_pair) out += repaired[i] == '\r' ? '\n' : repaired[i];
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::string place_text(std::string_view source, Place at) {
  const std::string_view before = source.substr(0, at);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const size_t line_start = before.rfind('\n') + 1;
  return text_of("line ", lines + 1, ", column ", count_characters(before.substr(line_start)) + 1);
}

}  // namespace rlx::jinja
