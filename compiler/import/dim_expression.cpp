// SPDX-License-Identifier: Apache-2.0
// Dims computed from symbols.
#include "compiler/import/dim_expression.h"

#include <algorithm>
#include <charconv>

namespace rlx {
namespace {

constexpr int kMaxDepth = 32;  // of parentheses

bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool continues_name(char c) {
  return starts_name(c) || (c >= '0' && c <= '9') || c == '.';
}

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

// Recursive descent; a fault ends it by an exception that evaluate_dim catches.
class Parser {
 public:
  Parser(std::string_view text, const SymbolLookup& lookup) : text_(text), lookup_(lookup) {}

  int64_t parse() {
    const int64_t value = sum(0);
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

  int64_t sum(int depth) {
    int64_t value = product(depth);
    for (char c = peek(); c == '+' || c == '-'; c = peek()) {
      ++at_;
      const int64_t right = product(depth);
      const bool wraps = c == '+' ? __builtin_add_overflow(value, right, &value)
                                  : __builtin_sub_overflow(value, right, &value);
      if (wraps) fail("exceeds 64 bits");
    }
    return value;
  }

  int64_t product(int depth) {
    int64_t value = factor(depth);
    for (char c = peek(); c == '*' || c == '/'; c = peek()) {
      ++at_;
      const int64_t right = factor(depth);
      if (c == '/') {
        if (right <= 0) fail("divides by " + std::to_string(right));
        value = floor_div(value, right);
      } else if (__builtin_mul_overflow(value, right, &value)) {
        fail("exceeds 64 bits");
      }
    }
    return value;
  }

  int64_t factor(int depth) {
    if (depth > kMaxDepth) fail("nests more than 32 parentheses");
    const char c = peek();
    if (c == '(') {
      ++at_;
      const int64_t value = sum(depth + 1);
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

  int64_t symbol(std::string name) const {
    if (const std::optional<int64_t> value = lookup_(name)) return *value;
    throw DimFault{.symbol = std::move(name), .message = {}};
  }

  std::string_view text_;
  const SymbolLookup& lookup_;
  size_t at_ = 0;
};

}  // namespace

std::variant<int64_t, DimFault> evaluate_dim(std::string_view text, const SymbolLookup& lookup) {
  if (const std::optional<int64_t> whole = lookup(std::string(text))) return *whole;
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
