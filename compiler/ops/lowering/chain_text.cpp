// SPDX-License-Identifier: Apache-2.0
// The steps of an elementwise chain as text.
#include "compiler/ops/lowering/chain_text.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace rlx {
namespace {

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '+' || c == '-';
}

class StepReader {
 public:
  StepReader(std::string_view text, std::string& fault) : text_(text), fault_(&fault) {}

  std::optional<RegionStep> read() {
    RegionStep step;
    step.op = std::string(word());
    if (step.op.empty()) return fail("no op");
    if (!take('(')) return fail("no \"(\" behind the op");
    if (!peek(')') && !peek(';') && !operands(step)) return std::nullopt;
    if (take(';') && !attributes(step)) return std::nullopt;
    if (!take(')')) return fail("no \")\" at the end");
    skip_spaces();
    if (!text_.empty()) return fail("something behind \")\"");
    return step;
  }

 private:
  bool operands(RegionStep& step) {
    do {
      const std::string_view number = word();
      uint32_t operand = 0;
      const auto [end, error] =
          std::from_chars(number.data(), number.data() + number.size(), operand);
      if (error != std::errc() || end != number.data() + number.size() || number.empty()) {
        fail("an operand is no number");
        return false;
      }
      step.operands.push_back(operand);
    } while (take(','));
    return true;
  }

  bool attributes(RegionStep& step) {
    do {
      const std::string name(word());
      if (name.empty() || !take('=')) {
        fail("an attribute is not name=value");
        return false;
      }
      const std::string_view written = word();
      if (written.empty() || !step.attributes.emplace(name, value(written)).second) {
        fail("attribute " + name + " has no value, or two");
        return false;
      }
    } while (take(','));
    return true;
  }

  static AttributeValue value(std::string_view text) {
    if (text == "true" || text == "false") return text == "true";
    if (text == "inf" || text == "-inf") {
      const double infinity = std::numeric_limits<double>::infinity();
      return text == "inf" ? infinity : -infinity;
    }
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    const char* end = text.data() + text.size();
    int64_t integer = 0;
    if (const auto read = std::from_chars(text.data(), end, integer);
        read.ec == std::errc() && read.ptr == end)
      return integer;
    double real = 0;
    if (const auto read = std::from_chars(text.data(), end, real);
        read.ec == std::errc() && read.ptr == end)
      return real;
    return std::string(text);
  }

  void skip_spaces() {
    while (!text_.empty() && text_.front() == ' ') text_.remove_prefix(1);
  }
  std::string_view word() {
    skip_spaces();
    size_t length = 0;
    while (length < text_.size() && is_word_character(text_[length])) ++length;
    const std::string_view found = text_.substr(0, length);
    text_.remove_prefix(length);
    return found;
  }
  bool peek(char c) {
    skip_spaces();
    return !text_.empty() && text_.front() == c;
  }
  bool take(char c) {
    if (!peek(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::nullopt_t fail(std::string what) {
    *fault_ = std::move(what);
    return std::nullopt;
  }

  std::string_view text_;
  std::string* fault_;
};

}  // namespace

std::optional<RegionStep> parse_step(std::string_view text, std::string& fault) {
  return StepReader(text, fault).read();
}

}  // namespace rlx
