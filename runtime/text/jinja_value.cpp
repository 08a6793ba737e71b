// SPDX-License-Identifier: Apache-2.0
// What a template computes with.
#include "runtime/text/jinja_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "runtime/base/text.h"

namespace rlx::jinja {
namespace {

constexpr uint64_t kBytesPerStep = 256;
constexpr uint64_t kBytesOfACall = 32;  // whose time it takes to make none
constexpr uint64_t kBytesOfARow = 64;  // compared at once: as many rows of them as bytes are a step

constexpr uint64_t kPartsPerStep = 16;  // of what is only copied or compared
constexpr uint64_t kMostWeight = uint64_t{1} << 40;

bool are_equal(const Value& a, const Value& b);
bool is_less(const Value& a, const Value& b);
void write_repr(TextBuilder& out, const Value& value);

const Value* find_equal(const Dict& dict, const Value& key) {
  const auto found = std::find_if(dict.members.begin(), dict.members.end(),
                                  [&](const Member& member) { return are_equal(member.key, key); });
  return found == dict.members.end() ? nullptr : &found->value;
}

class Around {
 public:
  void add(const Value& value) {
    const Extent part = extent_of(value);
    extent_.nesting = std::max(extent_.nesting, part.nesting);
    add_weight(part.weight);
  }
  void add_weight(uint64_t weight) {
    extent_.weight = std::min(kMostWeight, extent_.weight + weight);
  }
  Extent close() {
    if (++extent_.nesting <= kMostNesting) return extent_;
    throw Fault{text_of("lists and dicts stand more than ", kMostNesting, " deep in each other")};
  }

 private:
  Extent extent_;
};

Extent extent_around(const std::vector<Value>& items) {
  Around around;
  for (const Value& item : items) around.add(item);
  return around.close();
}

// Comparing two dicts looks each member up.
Extent extent_around(const std::vector<Member>& members) {
  Around around;
  around.add_weight(members.size() * members.size() / kPartsPerStep);
  for (const Member& member : members) {
    around.add(member.key);
    around.add(member.value);
  }
  return around.close();
}

bool are_equal_lists(const List& a, const List& b) {
  return a.is_tuple == b.is_tuple &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), are_equal);
}

bool are_equal_dicts(const Dict& a, const Dict& b) {
  if (a.members.size() != b.members.size()) return false;
  return std::all_of(a.members.begin(), a.members.end(), [&](const Member& member) {
    const Value* other = find_equal(b, member.key);
    return other != nullptr && are_equal(member.value, *other);
  });
}

bool is_less_number(const Value& a, const Value& b) {
  if (a.is(Kind::Float) || b.is(Kind::Float)) return as_real(a) < as_real(b);
  const auto whole = [](const Value& v) {
    return v.is(Kind::Bool) ? int64_t{v.boolean()} : v.integer();
  };
  return whole(a) < whole(b);
}

bool is_less_list(const List& a, const List& b) {
  const size_t common = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < common; ++i) {
    if (!are_equal(a.items[i], b.items[i])) return is_less(a.items[i], b.items[i]);
  }
  return a.items.size() < b.items.size();
}

// 'a' of Python's repr(): quotes as it chooses them, and escapes.
void append_escape(std::string& out, char32_t character) {
  static constexpr char kHex[] = "0123456789abcdef";
  const bool is_long = character > 0xFFFF;
  const int digits = is_long ? 8 : character > 0xFF ? 4 : 2;
  out += is_long ? "\\U" : character > 0xFF ? "\\u" : "\\x";
  for (int digit = digits - 1; digit >= 0; --digit) out += kHex[character >> (4 * digit) & 15u];
}

void append_repr_character(std::string& out, char32_t character, char quote) {
  if (character == static_cast<char32_t>(quote) || character == '\\') {
    out += '\\';
    out += static_cast<char>(character);
  } else if (character == '\n') {
    out += "\\n";
  } else if (character == '\r') {
    out += "\\r";
  } else if (character == '\t') {
    out += "\\t";
  } else if (is_printable(character)) {
    append_character(out, character);
  } else {
    append_escape(out, character);
  }
}

void write_repr_of_text(TextBuilder& out, const MarkedText& text) {
  const std::string_view bytes = text.bytes();
  const bool has_single = bytes.find('\'') != std::string_view::npos;
  const bool has_double = bytes.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out.append(std::string_view(&quote, 1));
  size_t at = 0;
  for (const MarkedText::Run& run : text.runs()) {
    std::string shown;
    for (; at < run.end; at += character_bytes(bytes, at)) {
      append_repr_character(shown, character_at(bytes, at), quote);
    }
    out.append(shown, run.origin);
  }
  out.append(std::string_view(&quote, 1));
}

void write_repr_of_list(TextBuilder& out, const List& list) {
  out.append(list.is_tuple ? "(" : "[");
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(", ");
    write_repr(out, list.items[i]);
  }
  if (list.is_tuple && list.items.size() == 1) out.append(",");
  out.append(list.is_tuple ? ")" : "]");
}

void write_repr_of_dict(TextBuilder& out, const Dict& dict) {
  out.append("{");
  for (size_t i = 0; i < dict.members.size(); ++i) {
    if (i > 0) out.append(", ");
    write_repr(out, dict.members[i].key);
    out.append(": ");
    write_repr(out, dict.members[i].value);
  }
  out.append("}");
}

bool are_equal(const Value& a, const Value& b) {
  if (is_number(a) && is_number(b))
    return !is_less_number(a, b) && !is_less_number(b, a) && as_real(a) == as_real(b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::Undefined:
    case Kind::None:
      return true;
    case Kind::Text:
      return a.text().bytes() == b.text().bytes();
    case Kind::List:
      return are_equal_lists(a.list(), b.list());
    case Kind::Dict:
      return are_equal_dicts(a.dict(), b.dict());
    case Kind::Namespace:
      return &a.space() == &b.space();
    case Kind::Function:
      return &a.function() == &b.function();
    default:
      return &a.loop() == &b.loop();
  }
}

bool is_less(const Value& a, const Value& b) {
  if (is_number(a) && is_number(b)) return is_less_number(a, b);
  if (a.is(Kind::Text) && b.is(Kind::Text)) return a.text().bytes() < b.text().bytes();
  if (a.is(Kind::List) && b.is(Kind::List)) return is_less_list(a.list(), b.list());
  throw Fault{text_of("cannot compare ", kind_text(a), " with ", kind_text(b))};
}

void write_repr(TextBuilder& out, const Value& value) {
  switch (value.kind()) {
    case Kind::Undefined:
      return out.append("Undefined");
    case Kind::None:
      return out.append("None");
    case Kind::Bool:
      return out.append(value.boolean() ? "True" : "False");
    case Kind::Integer:
      return out.append(std::to_string(value.integer()));
    case Kind::Float:
      return out.append(real_text(value.real()));
    case Kind::Text:
      return write_repr_of_text(out, value.text());
    case Kind::List:
      return write_repr_of_list(out, value.list());
    case Kind::Dict:
      return write_repr_of_dict(out, value.dict());
    default:
      throw Fault{text_of(kind_text(value), " has no text")};
  }
}

}  // namespace

void Budget::step(uint64_t count) {
  steps_ += count;
  if (steps_ > limits_.steps) {
    throw Fault{
        text_of("the template takes more than ", limits_.steps, " steps: does it loop in loops?")};
  }
}

void Budget::take_bytes(uint64_t bytes) {
  if (bytes > limits_.memory_bytes - std::min(bytes_, limits_.memory_bytes)) {
    throw Fault{text_of("the template holds more than ", bytes_text(limits_.memory_bytes),
                        " of values at once")};
  }
  made_bytes_ += bytes + kBytesOfACall;
  step(made_bytes_ / kBytesPerStep);
  made_bytes_ %= kBytesPerStep;
  bytes_ += bytes;
}

List::List(std::vector<Value> values, bool tuple, Budget* budget)
    : items(std::move(values)),
      is_tuple(tuple),
      extent(extent_around(items)),
      charge(budget, sizeof(List) + items.size() * sizeof(Value)) {}

Dict::Dict(std::vector<Member> all, Budget* budget)
    : members(std::move(all)),
      extent(extent_around(members)),
      charge(budget, sizeof(Dict) + members.size() * sizeof(Member)) {}

Function::Function(const Builtin* function, Value of, Budget* budget)
    : builtin(function), subject(std::move(of)), charge(budget, sizeof(Function)) {}

Function::Function(const Statement* definition, std::weak_ptr<Scope> around, Budget* budget)
    : macro(definition), scope(std::move(around)), charge(budget, sizeof(Function)) {}

Loop::Loop(std::vector<Value> values, Budget* budget)
    : items(std::move(values)), charge(budget, sizeof(Loop) + items.size() * sizeof(Value)) {}

Extent extent_of(const Value& value) {
  if (value.is(Kind::Text)) return {.weight = 1 + value.text().size() / kBytesPerStep};
  if (value.is(Kind::List)) return value.list().extent;
  if (value.is(Kind::Function)) return extent_of(value.function().subject);
  return value.is(Kind::Dict) ? value.dict().extent : Extent{};
}

Value Values::text(MarkedText text) const {
  return std::make_shared<const TextBody>(std::move(text), budget_);
}

Value Values::list(std::vector<Value> items) const {
  return std::make_shared<const List>(std::move(items), false, budget_);
}

Value Values::tuple(std::vector<Value> items) const {
  return std::make_shared<const List>(std::move(items), true, budget_);
}

Value Values::distinct_dict(std::vector<Member> members) const {
  return std::make_shared<const Dict>(std::move(members), budget_);
}

Value Values::dict(std::vector<Member> members) const {
  std::vector<Member> distinct;
  for (Member& member : members) {
    step(1 + distinct.size() / kPartsPerStep);
    const auto same = std::find_if(distinct.begin(), distinct.end(), [&](const Member& other) {
      return jinja::are_equal(other.key, member.key);
    });
    if (same == distinct.end()) {
      distinct.push_back(std::move(member));
    } else {
      same->value = std::move(member.value);
    }
  }
  return distinct_dict(std::move(distinct));
}

bool Values::are_equal(const Value& a, const Value& b) const {
  step(std::min(extent_of(a).weight, extent_of(b).weight));
  return jinja::are_equal(a, b);
}

bool Values::is_less(const Value& a, const Value& b) const {
  step(std::min(extent_of(a).weight, extent_of(b).weight));
  return jinja::is_less(a, b);
}

const Value* Values::find(const Dict& dict, const Value& key) const {
  step((dict.members.size() + 1) * extent_of(key).weight / kPartsPerStep);
  return find_equal(dict, key);
}

const Value* Values::find(const Dict& dict, std::string_view key) const {
  step(dict.members.size() / kPartsPerStep);
  const auto found =
      std::find_if(dict.members.begin(), dict.members.end(), [&](const Member& member) {
        return member.key.is(Kind::Text) && member.key.text().bytes() == key;
      });
  return found == dict.members.end() ? nullptr : &found->value;
}

void Values::step_search(std::string_view text, std::string_view wanted) const {
  step(text.size() / kBytesOfARow * (wanted.size() / kBytesOfARow));
}

MarkedText Values::str(const Value& value) const {
  if (value.is(Kind::Text)) return value.text();
  return value.is(Kind::Undefined) ? MarkedText() : repr(value);
}

MarkedText Values::repr(const Value& value) const {
  TextBuilder out(budget_);
  write_repr(out, value);
  return out.text();
}

void Values::write_str(TextBuilder& out, const Value& value) const {
  if (value.is(Kind::Text)) return out.append(value.text());
  if (!value.is(Kind::Undefined)) jinja::write_repr(out, value);
}

void Values::write_repr(TextBuilder& out, const Value& value) const {
  jinja::write_repr(out, value);
}

std::string_view kind_text(const Value& value) {
  static constexpr std::array<std::string_view, 11> kNames = {
      "undefined", "none",   "a boolean",   "a whole number", "a number", "a text",
      "a list",    "a dict", "a namespace", "a function",     "a loop"};
  return kNames[static_cast<size_t>(value.kind())];
}

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::Undefined:
    case Kind::None:
      return false;
    case Kind::Bool:
      return value.boolean();
    case Kind::Integer:
      return value.integer() != 0;
    case Kind::Float:
      return value.real() != 0;
    case Kind::Text:
      return !value.text().empty();
    case Kind::List:
      return !value.list().items.empty();
    case Kind::Dict:
      return !value.dict().members.empty();
    default:
      return true;
  }
}

bool is_number(const Value& value) {
  return value.is(Kind::Bool) || value.is(Kind::Integer) || value.is(Kind::Float);
}

double as_real(const Value& value) {
  if (value.is(Kind::Float)) return value.real();
  return value.is(Kind::Bool) ? double{value.boolean() ? 1.0 : 0.0}
                              : static_cast<double>(value.integer());
}

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 64> digits;
  const double size = std::fabs(value);
  const bool is_plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto format = is_plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto made = std::to_chars(digits.data(), digits.data() + digits.size(), value, format);
  std::string out(digits.data(), made.ptr);
  if (is_plain && out.find('.') == std::string::npos) out += ".0";
  return out;
}

std::vector<Value> Values::items_of(const Value& value) const {
  step(extent_of(value).weight / kPartsPerStep);
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::Undefined:
      break;
    case Kind::List:
      return value.list().items;
    case Kind::Dict:
      for (const Member& member : value.dict().members) items.push_back(member.key);
      break;
    case Kind::Text: {
      const MarkedText& text = value.text();
      for (size_t at = 0; at < text.size();) {
        const size_t size = character_bytes(text.bytes(), at);
        items.push_back(this->text(text.part(at, size)));
        at += size;
      }
      break;
    }
    default:
      throw Fault{text_of(kind_text(value), " has no items to go through")};
  }
  return items;
}

}  // namespace rlx::jinja
