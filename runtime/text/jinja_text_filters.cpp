// SPDX-License-Identifier: Apache-2.0
// Filters of texts and of numbers.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "runtime/base/text.h"
#include "runtime/text/jinja_builtin.h"

namespace rlx::jinja {
namespace {

// Filters take what is no text by its text.
MarkedText subject_text(const Call& call) {
  return call.values().str(call.subject());
}

Value string(const Call& call) {
  return call.subject().is(Kind::Text) ? call.subject() : call.values().text(subject_text(call));
}

Value upper(const Call& call) {
  return call.values().text(with_case(subject_text(call), Case::Upper));
}

Value lower(const Call& call) {
  return call.values().text(with_case(subject_text(call), Case::Lower));
}

Value trim(const Call& call) {
  const MarkedText text = subject_text(call);
  call.values().step_search(text.bytes(), call.bytes(0).value_or(""));
  return call.values().text(strip(text, call.bytes(0)));
}

// First characters large, the others small; `is_start` says of a character whether the next one
// begins a word.
template <class IsStart>
MarkedText with_large_starts(const MarkedText& text, const IsStart& is_start) {
  MarkedText out;
  bool starts = true;
  size_t at = 0;
  for (const MarkedText::Run& run : text.runs()) {
    std::string part;
    for (; at < run.end; at += character_bytes(text.bytes(), at)) {
      const char32_t character = character_at(text.bytes(), at);
      append_character(part, with_case(character, starts ? Case::Upper : Case::Lower));
      starts = is_start(character);
    }
    out.append(part, run.origin);
  }
  return out;
}

Value capitalize(const Call& call) {
  return call.values().text(with_large_starts(subject_text(call), [](char32_t) { return false; }));
}

Value title(const Call& call) {
  return call.values().text(with_large_starts(subject_text(call), [](char32_t character) {
    return is_space(character) || character == '-' || character == '(' || character == '{' ||
           character == '[' || character == '<';
  }));
}

Value replace(const Call& call) {
  const Value* count = call.argument(2);
  const bool is_counted = count != nullptr && !count->is(Kind::None);
  const MarkedText old = call.values().str(call.wanted(0));
  return call.values().text(
      replaced(call.values(), subject_text(call), old.bytes(), call.values().str(call.wanted(1)),
               is_counted ? std::optional(call.integer(2, 0)) : std::nullopt));
}

MarkedText indentation(const Call& call) {
  const Value* width = call.argument(0);
  if (width != nullptr && width->is(Kind::Text)) return width->text();
  const int64_t count = std::max<int64_t>(0, call.integer(0, 4));
  const auto most = static_cast<int64_t>(call.environment().budget.limits().range_items);
  if (count > most) throw Fault{text_of("an indentation of ", count, ", at most ", most)};
  return {std::string(static_cast<size_t>(count), ' '), Origin::Template};
}

Value indent(const Call& call) {
  const MarkedText by = indentation(call);
  if (!call.subject().is(Kind::Text)) {
    throw Fault{text_of("\"indent\" wants a text, got ", kind_text(call.subject()))};
  }
  MarkedText subject = call.subject().text();
  subject.append("\n", Origin::Template);  // so that a line end at the end stays
  const std::vector<MarkedText> lines = lines_of(subject);
  TextBuilder out(call.values().budget());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n");
    const bool is_wanted = i == 0 ? call.flag(1, false) : call.flag(2, false) || !lines[i].empty();
    if (is_wanted) out.append(by);
    out.append(lines[i]);
  }
  return call.values().text(out.text());
}

Value format(const Call& call) {
  if (!call.arguments().named.empty()) throw Fault{"formats with names are not supported"};
  return call.values().text(
      formatted(call.values(), subject_text(call), call.arguments().positional));
}

Value tojson(const Call& call) {
  const Value* indent = call.argument(1);
  const Value* separators = call.argument(2);
  if (separators != nullptr && !separators->is(Kind::None)) {
    throw Fault{"\"tojson\" with separators is not supported"};
  }
  const bool is_indented = indent != nullptr && !indent->is(Kind::None);
  return call.values().text(json_of(call.values(), call.subject(),
                                    is_indented ? std::optional(call.integer(1, 0)) : std::nullopt,
                                    call.flag(0, false), call.flag(3, false)));
}

// A number that fills a text but for white space and single '_' between digits, as Python reads it.
std::optional<std::string> plain_number(std::string_view text) {
  const MarkedText stripped = strip(MarkedText(text, Origin::Template), std::nullopt);
  std::string out(stripped.bytes());
  if (!out.empty() && out[0] == '+') out.erase(0, 1);
  const bool is_plain = !out.empty() && out.find('+') != 0 && out.find("_") == std::string::npos;
  return is_plain ? std::optional(out) : std::nullopt;
}

std::optional<double> read_real(std::string_view text) {
  const auto number = plain_number(text);
  double value = 0;
  if (!number) return std::nullopt;
  const char* end = number->data() + number->size();
  const auto read = std::from_chars(number->data(), end, value);
  return read.ec == std::errc() && read.ptr == end ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> read_integer(std::string_view text, int base) {
  const auto number = plain_number(text);
  int64_t value = 0;
  if (!number) return std::nullopt;
  const char* end = number->data() + number->size();
  const auto read = std::from_chars(number->data(), end, value, base);
  return read.ec == std::errc() && read.ptr == end ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> whole_part(std::optional<double> value) {
  const bool fits = value && *value > -0x1p63 && *value < 0x1p63;
  return fits ? std::optional(static_cast<int64_t>(*value)) : std::nullopt;
}

void refuse_undefined_subject(const Call& call) {
  if (!call.subject().is(Kind::Undefined)) return;
  throw Fault{text_of(quoted(call.builtin().name), " of what is undefined")};
}

Value as_integer(const Call& call) {
  refuse_undefined_subject(call);
  const Value& subject = call.subject();
  const int64_t base = call.integer(1, 10);
  if (base < 2 || base > 36) throw Fault{text_of("\"int\" wants a base of 2 to 36, got ", base)};
  std::optional<int64_t> value;
  if (subject.is(Kind::Integer)) return subject;
  if (subject.is(Kind::Bool)) value = subject.boolean() ? 1 : 0;
  if (subject.is(Kind::Float)) value = whole_part(subject.real());
  if (subject.is(Kind::Text)) {
    value = read_integer(subject.text().bytes(), static_cast<int>(base));
    if (!value) value = whole_part(read_real(subject.text().bytes()));
  }
  if (value) return *value;
  return call.argument(0) == nullptr ? Value(int64_t{0}) : *call.argument(0);
}

Value as_float(const Call& call) {
  refuse_undefined_subject(call);
  const Value& subject = call.subject();
  if (is_number(subject)) return as_real(subject);
  const auto value = subject.is(Kind::Text) ? read_real(subject.text().bytes()) : std::nullopt;
  if (value) return *value;
  return call.argument(0) == nullptr ? Value(0.0) : *call.argument(0);
}

Value absolute(const Call& call) {
  const Value& subject = call.subject();
  if (subject.is(Kind::Float)) return std::fabs(subject.real());
  if (subject.is(Kind::Bool)) return int64_t{subject.boolean()};
  if (!subject.is(Kind::Integer))
    throw Fault{text_of(kind_text(subject), " has no absolute value")};
  if (subject.integer() == INT64_MIN) throw Fault{"a number leaves 64 bits"};
  return std::abs(subject.integer());
}

// To the nearest decimal of so many places, ties to even, of the exact value: as Python rounds.
double rounded(double value, int places) {
  if (!std::isfinite(value) || places > 300) return value;
  std::array<char, 700> digits;
  const double scale = places < 0 ? std::pow(10.0, -places) : 1;
  const auto made = std::to_chars(digits.data(), digits.data() + digits.size(), value / scale,
                                  std::chars_format::fixed, std::max(0, places));
  double out = value;
  std::from_chars(digits.data(), made.ptr, out);
  return out * scale;
}

Value round(const Call& call) {
  const Value& subject = call.subject();
  if (!is_number(subject)) throw Fault{text_of("cannot round ", kind_text(subject))};
  const int64_t places = call.integer(0, 0);
  if (places < -300 || places > 300) throw Fault{text_of("cannot round to ", places, " places")};
  const std::string_view method = call.argument(1) == nullptr ? "common" : call.text(1).bytes();
  const double scale = std::pow(10.0, static_cast<double>(places));
  if (method == "ceil") return std::ceil(as_real(subject) * scale) / scale;
  if (method == "floor") return std::floor(as_real(subject) * scale) / scale;
  if (method != "common") throw Fault{"\"round\" knows common, ceil and floor"};
  if (subject.is(Kind::Bool)) return int64_t{subject.boolean()};
  if (subject.is(Kind::Integer) && places >= 0) return subject;
  return rounded(as_real(subject), static_cast<int>(places));
}

Value default_value(const Call& call) {
  const bool is_wanted =
      call.subject().is(Kind::Undefined) || (call.flag(1, false) && !is_true(call.subject()));
  if (!is_wanted) return call.subject();
  return call.argument(0) == nullptr ? call.values().text("") : *call.argument(0);
}

constexpr std::array kTextFilters = {
    Builtin{"abs", "", absolute},
    Builtin{"capitalize", "", capitalize},
    Builtin{"d", "default_value,boolean", default_value},
    Builtin{"default", "default_value,boolean", default_value},
    Builtin{"float", "default", as_float},
    Builtin{"format", "*", format},
    Builtin{"indent", "width,first,blank", indent},
    Builtin{"int", "default,base", as_integer},
    Builtin{"lower", "", lower},
    Builtin{"replace", "old,new,count", replace},
    Builtin{"round", "precision,method", round},
    Builtin{"safe", "", string},
    Builtin{"string", "", string},
    Builtin{"title", "", title},
    Builtin{"tojson", "ensure_ascii,indent,separators,sort_keys", tojson},
    Builtin{"trim", "chars", trim},
    Builtin{"upper", "", upper},
};

}  // namespace

std::span<const Builtin> text_filters() {
  return kTextFilters;
}

}  // namespace rlx::jinja
