// SPDX-License-Identifier: Apache-2.0
// Dims computed from symbols.
#include "compiler/support/dim_expression.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace rlx {
namespace {

constexpr int kMaxDepth = 32;  // of parentheses

bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool continues_name(char c) {
  return starts_name(c) || (c >= '0' && c <= '9') || c == '.';
}

Dim floor_div(const Dim& a, int64_t b) {
  if (a.is_free()) return a / b;
  return a.bound() / b - (a.bound() % b < 0 ? 1 : 0);
}

// Whether the operation stays within 64 bits at the ends of the operands' ranges, so everywhere
// between.
template <typename Overflows>
bool fits(const Dim& a, const Dim& b, const Overflows& overflows) {
  for (const int64_t x : {a.range().least, a.range().most}) {
    for (const int64_t y : {b.range().least, b.range().most}) {
      int64_t result = 0;
      if (overflows(x, y, &result)) return false;
    }
  }
  return true;
}
bool add_overflows(int64_t a, int64_t b, int64_t* result) {
  return __builtin_add_overflow(a, b, result);
}
bool subtract_overflows(int64_t a, int64_t b, int64_t* result) {
  return __builtin_sub_overflow(a, b, result);
}

// Recursive descent; a fault ends it by an exception that evaluate_dim catches.
class Parser {
 public:
  Parser(std::string_view text, const SymbolLookup& lookup) : text_(text), lookup_(lookup) {}

  Dim parse() {
    Dim value = sum(0);
    if (peek() != '\0' || at_ != text_.size()) fail_here();
    return value;
  }

 private:
  [[noreturn]] static void fail(std::string message) {
    throw DimFault{.symbol = {}, .message = std::move(message)};
  }
  [[noreturn]] void fail_here() const {
    fail("is no expression of symbols at byte " + std::to_string(at_));
  }

  // The next character that is no space, or 0.
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  static std::string may_be(const Dim& size) {
    if (!size.is_free()) return {};
    return ", which may be " + std::to_string(size.range().least);
  }

  Dim sum(int depth) {
    Dim value = product(depth);
    for (char c = peek(); c == '+' || c == '-'; c = peek()) {
      ++at_;
      const Dim right = product(depth);
      if (!fits(value, right, c == '+' ? add_overflows : subtract_overflows))
        fail("exceeds 64 bits");
      value = c == '+' ? value + right : value - right;
    }
    return value;
  }

  Dim product(int depth) {
    Dim value = factor(depth);
    for (char c = peek(); c == '*' || c == '/'; c = peek()) {
      ++at_;
      const Dim right = factor(depth);
      if (c == '/') {
        if (right.range().least <= 0) fail("divides by " + to_string(right) + may_be(right));
        if (right.is_free() && value.range().least < 0)
          fail("divides " + to_string(value) + may_be(value));
        value = right.is_free() ? value / right : floor_div(value, right.bound());
      } else if (std::optional<Dim> product = checked_product(value, right)) {
        value = std::move(*product);
      } else {
        fail("exceeds 64 bits");
      }
    }
    return value;
  }

  Dim factor(int depth) {
    if (depth > kMaxDepth) fail("nests more than 32 parentheses");
    const char c = peek();
    if (c == '(') {
      ++at_;
      Dim value = sum(depth + 1);
      if (peek() != ')') fail_here();
      ++at_;
      return value;
    }
    if (c >= '0' && c <= '9') return number();
    if (c == '\'') return symbol(quoted_name());
    if (starts_name(c)) return symbol(plain_name());
    fail_here();
  }

  int64_t number() {
    int64_t value = 0;
    const char* end = text_.data() + text_.size();
    const auto [next, error] = std::from_chars(text_.data() + at_, end, value);
    if (error != std::errc()) fail("exceeds 64 bits");
    at_ = static_cast<size_t>(next - text_.data());
    return value;
  }

  std::string plain_name() {
    const size_t first = at_;
    while (at_ < text_.size() && continues_name(text_[at_])) ++at_;
    return std::string(text_.substr(first, at_ - first));
  }

  std::string quoted_name() {
    const size_t end = text_.find('\'', at_ + 1);
    if (end == std::string_view::npos) fail_here();
    std::string name(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return name;
  }

  Dim symbol(std::string name) const {
    if (std::optional<Dim> value = lookup_(name)) return std::move(*value);
    throw DimFault{.symbol = std::move(name), .message = {}};
  }

  std::string_view text_;
  const SymbolLookup& lookup_;
  size_t at_ = 0;
};

}  // namespace

std::variant<Dim, DimFault> evaluate_dim(std::string_view text, const SymbolLookup& lookup) {
  if (std::optional<Dim> whole = lookup(std::string(text))) return std::move(*whole);
  try {
    return Parser(text, lookup).parse();
  } catch (DimFault& fault) {
    return std::move(fault);
  }
}

std::optional<std::string> symbol_in_expression(std::string_view name) {
  const bool is_plain = !name.empty() && starts_name(name.front()) &&
                        std::all_of(name.begin(), name.end(), continues_name);
  if (is_plain) return std::string(name);
  if (name.find('\'') != std::string_view::npos) return std::nullopt;
  return "'" + std::string(name) + "'";
}

}  // namespace rlx
