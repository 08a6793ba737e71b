// SPDX-License-Identifier: Apache-2.0
// Methods of texts, lists, dicts and loops: those that change nothing.
#include <algorithm>
#include <array>

#include "runtime/base/text.h"
#include "runtime/text/jinja_builtin.h"

namespace rlx::jinja {
namespace {

const MarkedText& self(const Call& call) {
  return call.subject().text();
}

// The filter of the same name does the same for texts.
template <const char* name>
Value as_filter(const Call& call) {
  return find_filter(name)->run(call);
}
constexpr char kUpper[] = "upper";
constexpr char kLower[] = "lower";
constexpr char kCapitalize[] = "capitalize";
constexpr char kItems[] = "items";

// Each letter large that stands behind none.
Value title_text(const Call& call) {
  MarkedText out;
  bool starts = true;
  size_t at = 0;
  for (const MarkedText::Run& run : self(call).runs()) {
    std::string part;
    for (; at < run.end; at += character_bytes(self(call).bytes(), at)) {
      const char32_t character = character_at(self(call).bytes(), at);
      append_character(part, with_case(character, starts ? Case::Upper : Case::Lower));
      starts = !is_letter(character);
    }
    out.append(part, run.origin);
  }
  return call.values().text(std::move(out));
}

Value stripped(const Call& call, Sides sides) {
  call.values().step_search(self(call).bytes(), call.bytes(0).value_or(""));
  return call.values().text(strip(self(call), call.bytes(0), sides));
}
Value strip_both(const Call& call) {
  return stripped(call, {});
}
Value strip_left(const Call& call) {
  return stripped(call, {.right = false});
}
Value strip_right(const Call& call) {
  return stripped(call, {.left = false});
}

// Whether a predicate holds for the text, or one of the texts of a tuple.
template <class Holds>
Value holds_for_any(const Call& call, const Holds& holds) {
  const Value& wanted = call.wanted(0);
  if (!wanted.is(Kind::List)) return holds(call.text(0).bytes());
  const std::vector<Value>& all = wanted.list().items;
  return std::any_of(all.begin(), all.end(), [&](const Value& item) {
    if (!item.is(Kind::Text)) {
      throw Fault{text_of(quoted(call.builtin().name), " wants texts, got ", kind_text(item))};
    }
    return holds(item.text().bytes());
  });
}

Value startswith(const Call& call) {
  const std::string_view text = self(call).bytes();
  return holds_for_any(
      call, [&](std::string_view wanted) { return text.substr(0, wanted.size()) == wanted; });
}

Value endswith(const Call& call) {
  const std::string_view text = self(call).bytes();
  return holds_for_any(call, [&](std::string_view wanted) {
    return text.size() >= wanted.size() && text.substr(text.size() - wanted.size()) == wanted;
  });
}

uint64_t most_splits(const Call& call) {
  const int64_t most = call.integer(1, -1);
  return most < 0 ? UINT64_MAX : static_cast<uint64_t>(most);
}

std::string_view separator(const Call& call, const char* otherwise) {
  const auto given = call.bytes(0);
  if (given && given->empty()) throw Fault{"cannot split a text at nothing"};
  return given.value_or(otherwise);
}

// At white space: none of it is kept.
std::vector<Value> words(const Call& call) {
  const MarkedText& text = self(call);
  std::vector<Value> out;
  MarkedText rest = strip(text, std::nullopt, {.right = false});
  for (uint64_t most = most_splits(call); !rest.empty(); --most) {
    size_t end = 0;
    while (end < rest.size() && !is_space(character_at(rest.bytes(), end))) {
      end += character_bytes(rest.bytes(), end);
    }
    if (most == 0) end = rest.size();
    const MarkedText word = rest.part(0, end);
    out.push_back(
        call.values().text(most == 0 ? strip(word, std::nullopt, {.left = false}) : word));
    rest = strip(rest.part(end, rest.size() - end), std::nullopt, {.right = false});
    call.values().step(1 + rest.size() / 256);
  }
  return out;
}

Value split(const Call& call) {
  const MarkedText& text = self(call);
  const Values& values = call.values();
  if (!call.bytes(0)) return values.list(words(call));
  const std::string_view at = separator(call, "");
  values.step_search(text.bytes(), at);
  std::vector<Value> out;
  size_t begin = 0;
  for (uint64_t most = most_splits(call); most > 0; --most) {
    const size_t found = text.bytes().find(at, begin);
    if (found == std::string_view::npos) break;
    out.push_back(values.text(text.part(begin, found - begin)));
    begin = found + at.size();
  }
  out.push_back(values.text(text.part(begin, text.size() - begin)));
  return values.list(std::move(out));
}

Value rsplit(const Call& call) {
  const MarkedText& text = self(call);
  const Values& values = call.values();
  if (!call.bytes(0) && call.argument(1) != nullptr) {
    throw Fault{"\"rsplit\" at white space with a limit is not supported"};
  }
  if (!call.bytes(0)) return values.list(words(call));
  const std::string_view at = separator(call, "");
  values.step_search(text.bytes(), at);
  std::vector<Value> out;
  size_t end = text.size();
  for (uint64_t most = most_splits(call); most > 0; --most) {
    const size_t found = text.bytes().substr(0, end).rfind(at);
    if (found == std::string_view::npos) break;
    out.push_back(values.text(text.part(found + at.size(), end - found - at.size())));
    end = found;
  }
  out.push_back(values.text(text.part(0, end)));
  std::reverse(out.begin(), out.end());
  return values.list(std::move(out));
}

Value splitlines(const Call& call) {
  std::vector<Value> out;
  for (MarkedText& line : lines_of(self(call))) out.push_back(call.values().text(std::move(line)));
  return call.values().list(std::move(out));
}

Value replace_text(const Call& call) {
  const bool is_counted = call.argument(2) != nullptr;
  return call.values().text(
      replaced(call.values(), self(call), call.text(0).bytes(), call.text(1),
               is_counted ? std::optional(call.integer(2, 0)) : std::nullopt));
}

Value join_texts(const Call& call) {
  const std::vector<Value> all = call.values().items_of(call.wanted(0));
  for (const Value& item : all) {
    if (!item.is(Kind::Text)) throw Fault{text_of("\"join\" wants texts, got ", kind_text(item))};
  }
  return call.values().text(joined(call.values(), all, self(call)));
}

// Characters before the place; -1: there is none.
int64_t characters_before(const Call& call, size_t found) {
  if (found == std::string_view::npos) return -1;
  return static_cast<int64_t>(count_characters(self(call).bytes().substr(0, found)));
}

// The text that is looked for.
std::string_view searched(const Call& call) {
  const std::string_view wanted = call.text(0).bytes();
  call.values().step_search(self(call).bytes(), wanted);
  return wanted;
}

Value find_text(const Call& call) {
  return characters_before(call, self(call).bytes().find(searched(call)));
}

Value rfind(const Call& call) {
  return characters_before(call, self(call).bytes().rfind(searched(call)));
}

Value count_text(const Call& call) {
  const std::string_view wanted = searched(call);
  const std::string_view text = self(call).bytes();
  if (wanted.empty()) return static_cast<int64_t>(count_characters(text)) + 1;
  int64_t out = 0;
  for (size_t at = text.find(wanted); at != std::string_view::npos;
       at = text.find(wanted, at + wanted.size())) {
    ++out;
  }
  return out;
}

Value removeprefix(const Call& call) {
  const size_t size = call.text(0).size();
  if (self(call).bytes().substr(0, size) != call.text(0).bytes()) return call.subject();
  return call.values().text(self(call).part(size, self(call).size() - size));
}

Value removesuffix(const Call& call) {
  const size_t size = call.text(0).size();
  const size_t all = self(call).size();
  if (size > all || self(call).bytes().substr(all - size) != call.text(0).bytes()) {
    return call.subject();
  }
  return call.values().text(self(call).part(0, all - size));
}

template <bool (*holds)(char32_t)>
Value all_characters(const Call& call) {
  const std::string_view text = self(call).bytes();
  for (size_t at = 0; at < text.size(); at += character_bytes(text, at)) {
    if (!holds(character_at(text, at))) return false;
  }
  return !text.empty();
}

bool is_decimal(char32_t character) {
  return character >= '0' && character <= '9';
}

Value get(const Call& call) {
  const Value* found = call.values().find(call.subject().dict(), call.wanted(0));
  if (found != nullptr) return *found;
  return call.argument(1) == nullptr ? Value(None{}) : *call.argument(1);
}

Value keys(const Call& call) {
  return call.values().list(call.values().items_of(call.subject()));
}

Value member_values(const Call& call) {
  std::vector<Value> out;
  for (const Member& member : call.subject().dict().members) out.push_back(member.value);
  return call.values().list(std::move(out));
}

Value count_items(const Call& call) {
  const std::vector<Value>& items = call.subject().list().items;
  return static_cast<int64_t>(std::count_if(items.begin(), items.end(), [&](const Value& item) {
    return call.values().are_equal(item, call.wanted(0));
  }));
}

Value index_of_item(const Call& call) {
  const std::vector<Value>& items = call.subject().list().items;
  const auto found = std::find_if(items.begin(), items.end(), [&](const Value& item) {
    return call.values().are_equal(item, call.wanted(0));
  });
  if (found == items.end()) throw Fault{"\"index\" finds no such item in the list"};
  return found - items.begin();
}

Value cycle(const Call& call) {
  const std::vector<Value>& all = call.arguments().positional;
  if (all.empty()) throw Fault{"\"cycle\" wants values to go through"};
  return all[call.subject().loop().index % all.size()];
}

constexpr std::array kTextMethods = {
    Builtin{"capitalize", "", as_filter<kCapitalize>},
    Builtin{"count", "sub", count_text},
    Builtin{"endswith", "suffix", endswith},
    Builtin{"find", "sub", find_text},
    Builtin{"isalpha", "", all_characters<is_letter>},
    Builtin{"isdigit", "", all_characters<is_decimal>},
    Builtin{"isspace", "", all_characters<is_space>},
    Builtin{"join", "iterable", join_texts},
    Builtin{"lower", "", as_filter<kLower>},
    Builtin{"lstrip", "chars", strip_left},
    Builtin{"removeprefix", "prefix", removeprefix},
    Builtin{"removesuffix", "suffix", removesuffix},
    Builtin{"replace", "old,new,count", replace_text},
    Builtin{"rfind", "sub", rfind},
    Builtin{"rsplit", "sep,maxsplit", rsplit},
    Builtin{"rstrip", "chars", strip_right},
    Builtin{"split", "sep,maxsplit", split},
    Builtin{"splitlines", "", splitlines},
    Builtin{"startswith", "prefix", startswith},
    Builtin{"strip", "chars", strip_both},
    Builtin{"title", "", title_text},
    Builtin{"upper", "", as_filter<kUpper>},
};

constexpr std::array kDictMethods = {
    Builtin{"get", "key,default", get},
    Builtin{"items", "", as_filter<kItems>},
    Builtin{"keys", "", keys},
    Builtin{"values", "", member_values},
};

constexpr std::array kListMethods = {
    Builtin{"count", "value", count_items},
    Builtin{"index", "value", index_of_item},
};

constexpr std::array kLoopMethods = {
    Builtin{"cycle", "*", cycle},
};

}  // namespace

std::span<const Builtin> text_methods() {
  return kTextMethods;
}
std::span<const Builtin> dict_methods() {
  return kDictMethods;
}
std::span<const Builtin> list_methods() {
  return kListMethods;
}
std::span<const Builtin> loop_methods() {
  return kLoopMethods;
}

}  // namespace rlx::jinja
