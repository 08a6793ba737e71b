// SPDX-License-Identifier: Apache-2.0
// JSON from callers, and the filter tojson.
#include "runtime/text/jinja_json.h"

#include <algorithm>
#include <charconv>

#include "runtime/base/text.h"
#include "runtime/text/jinja_builtin.h"

namespace rlx::jinja {
namespace {

constexpr size_t kMostMembers = 10'000;  // of an object: each is compared with the others
constexpr std::string_view kHex = "0123456789abcdef";

class Reader {
 public:
  explicit Reader(std::string_view json) : json_(json) {}

  Value run() {
    Value value = read_value();
    skip_space();
    if (at_ < json_.size()) fail("nothing behind the value");
    return value;
  }

 private:
  [[noreturn]] void fail(std::string_view wanted) const {
    throw Fault{text_of("byte ", at_, ": expected ", wanted)};
  }

  void skip_space() { at_ = std::min(json_.find_first_not_of(" \t\r\n", at_), json_.size()); }

  bool take(std::string_view text) {
    if (json_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }

  void expect(std::string_view text) {
    skip_space();
    if (!take(text)) fail(text);
  }

  Value read_value() {
    if (++depth_ > kMostNesting) fail(text_of("at most ", kMostNesting, " values in each other"));
    skip_space();
    Value value = read_one();
    --depth_;
    return value;
  }

  Value read_one() {
    if (take("{")) return read_object();
    if (take("[")) return read_array();
    if (take("\"")) return read_string();
    if (take("true")) return true;
    if (take("false")) return false;
    if (take("null")) return None{};
    return read_number();
  }

  Value read_object() {
    std::vector<Member> members;
    skip_space();
    while (!take("}")) {
      if (!members.empty()) expect(",");
      expect("\"");
      Value key = read_string();
      expect(":");
      if (members.size() == kMostMembers) fail(text_of("at most ", kMostMembers, " members"));
      members.push_back({.key = std::move(key), .value = read_value()});
      skip_space();
    }
    return values_.dict(std::move(members));
  }

  Value read_array() {
    std::vector<Value> items;
    skip_space();
    while (!take("]")) {
      if (!items.empty()) expect(",");
      items.push_back(read_value());
      skip_space();
    }
    return values_.list(std::move(items));
  }

  Value read_number() {
    const size_t end = std::min(json_.find_first_not_of("+-.0123456789eE", at_), json_.size());
    const std::string_view text = json_.substr(at_, end - at_);
    const char* last = text.data() + text.size();
    int64_t whole = 0;
    double real = 0;
    const auto read_whole = std::from_chars(text.data(), last, whole);
    const bool is_whole = !text.empty() && read_whole.ec == std::errc() && read_whole.ptr == last;
    const auto read_real = std::from_chars(text.data(), last, real);
    if (!is_whole && (text.empty() || read_real.ec != std::errc() || read_real.ptr != last))
      fail("a value");
    at_ = end;
    return is_whole ? Value(whole) : Value(real);
  }

  Value read_string() {
    std::string raw;
    while (!take("\"")) {
      const size_t plain = std::min(json_.find_first_of("\"\\", at_), json_.size());
      raw += json_.substr(at_, plain - at_);
      at_ = plain;
      if (at_ == json_.size()) fail("the string's end");
      if (take("\\")) read_escape(raw);
    }
    return values_.text(MarkedText(repaired_utf8(raw), Origin::Input));
  }

  void read_escape(std::string& out) {
    static constexpr std::string_view kLetters = "\"\\/bfnrt";
    static constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
    const size_t known = at_ < json_.size() ? kLetters.find(json_[at_]) : std::string_view::npos;
    if (known != std::string_view::npos) {
      out += kMeant[known];
      ++at_;
    } else if (take("u")) {
      append_code(out, read_code());
    } else {
      fail("an escape of JSON");
    }
  }

  uint32_t read_code() {
    uint32_t code = 0;
    const std::string_view digits = json_.substr(at_, 4);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() < 4 || read.ptr != digits.data() + 4) fail("four hexadecimal digits");
    at_ += 4;
    return code;
  }

  // Halves of a pair make one character; half of one is none.
  void append_code(std::string& out, uint32_t code) {
    const bool is_high = code >= 0xD800 && code < 0xDC00;
    const size_t back = at_;
    if (is_high && take("\\u")) {
      const uint32_t low = read_code();
      if (low >= 0xDC00 && low < 0xE000) {
        return append_character(out, 0x10000 + ((code - 0xD800) << 10u) + (low - 0xDC00));
      }
      at_ = back;
    }
    const bool is_half = code >= 0xD800 && code < 0xE000;
    append_character(out, is_half ? 0xFFFD : code);
  }

  std::string_view json_;
  size_t at_ = 0;
  uint32_t depth_ = 0;
  Values values_{nullptr};
};

struct JsonStyle {
  std::optional<int64_t> indent;
  bool ascii_only = false;
  bool sort_keys = false;
};

// As Python's json.dumps writes.
class Writer {
 public:
  Writer(const Values& values, const JsonStyle& style) : values_(values), style_(style) {}

  void write(const Value& value) {
    switch (value.kind()) {
      case Kind::None:
        return out_.append("null");
      case Kind::Bool:
        return out_.append(value.boolean() ? "true" : "false");
      case Kind::Integer:
        return out_.append(std::to_string(value.integer()));
      case Kind::Float:
        return out_.append(real(value.real()));
      case Kind::Text:
        return write_text(value.text());
      case Kind::List:
        return write_list(value.list());
      case Kind::Dict:
        return write_dict(value.dict());
      default:
        throw Fault{text_of(kind_text(value), " has no JSON")};
    }
  }

  [[nodiscard]] const MarkedText& text() const { return out_.text(); }

 private:
  static std::string real(double value) {
    const std::string text = real_text(value);
    if (text == "nan") return "NaN";
    if (text == "inf") return "Infinity";
    return text == "-inf" ? "-Infinity" : text;
  }

  void write_list(const List& list) {
    if (list.items.empty()) return out_.append("[]");
    out_.append("[");
    ++depth_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      next_line(i == 0);
      write(list.items[i]);
    }
    close("]");
  }

  void write_dict(const Dict& dict) {
    if (dict.members.empty()) return out_.append("{}");
    out_.append("{");
    ++depth_;
    bool is_first = true;
    for (const Member& member : in_order(dict)) {
      next_line(std::exchange(is_first, false));
      write_key(member.key);
      out_.append(": ");
      write(member.value);
    }
    close("}");
  }

  [[nodiscard]] std::vector<Member> in_order(const Dict& dict) const {
    std::vector<Member> members = dict.members;
    if (!style_.sort_keys) return members;
    std::stable_sort(members.begin(), members.end(), [&](const Member& a, const Member& b) {
      return values_.is_less(a.key, b.key);
    });
    return members;
  }

  void write_key(const Value& key) {
    if (key.is(Kind::Text)) return write_text(key.text());
    if (key.is(Kind::List)) throw Fault{"a list is no key in JSON"};
    out_.append("\"");
    write(key);
    out_.append("\"");
  }

  void next_line(bool is_first) {
    if (!is_first) out_.append(style_.indent ? "," : ", ");
    if (style_.indent) break_line();
  }

  void break_line() {
    const int64_t width = std::clamp<int64_t>(*style_.indent, 0, 100);
    out_.append("\n" + std::string(depth_ * static_cast<size_t>(width), ' '));
  }

  void close(std::string_view bracket) {
    --depth_;
    if (style_.indent) break_line();
    out_.append(bracket);
  }

  void write_text(const MarkedText& text) {
    out_.append("\"");
    size_t at = 0;
    for (const MarkedText::Run& run : text.runs()) {
      std::string part;
      for (; at < run.end; at += character_bytes(text.bytes(), at)) {
        write_character(part, character_at(text.bytes(), at));
      }
      out_.append(part, run.origin);
    }
    out_.append("\"");
  }

  void write_character(std::string& out, char32_t character) const {
    static constexpr std::string_view kMeant = "\"\\\b\f\n\r\t";
    static constexpr std::string_view kLetters = "\"\\bfnrt";
    const size_t known =
        character < 0x80 ? kMeant.find(static_cast<char>(character)) : std::string_view::npos;
    if (known != std::string_view::npos) {
      out += '\\';
      out += kLetters[known];
    } else if (character < 0x20 || (character >= 0x7F && style_.ascii_only)) {
      write_escape(out, character);
    } else {
      append_character(out, character);
    }
  }

  static void write_escape(std::string& out, char32_t character) {
    if (character == 0x7F) {
      out += '\x7F';
    } else if (character > 0xFFFF) {
      write_escape(out, 0xD800 + ((character - 0x10000) >> 10u));
      write_escape(out, 0xDC00 + ((character - 0x10000) & 0x3FFu));
    } else {
      out += "\\u";
      for (int digit = 3; digit >= 0; --digit) out += kHex[character >> (4 * digit) & 15u];
    }
  }

  const Values& values_;
  const JsonStyle style_;
  TextBuilder out_{values_.budget()};
  size_t depth_ = 0;
};

}  // namespace

MarkedText json_of(const Values& values, const Value& value, std::optional<int64_t> indent,
                   bool ascii_only, bool sort_keys) {
  Writer writer(values, {.indent = indent, .ascii_only = ascii_only, .sort_keys = sort_keys});
  writer.write(value);
  return writer.text();
}

std::variant<Value, std::string> read_json(std::string_view json) {
  try {
    return Reader(json).run();
  } catch (Fault& fault) {
    return std::move(fault.message);
  }
}

}  // namespace rlx::jinja
