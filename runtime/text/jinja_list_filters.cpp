// SPDX-License-Identifier: Apache-2.0
// Filters of lists and dicts.
#include <algorithm>
#include <array>
#include <numeric>

#include "runtime/base/text.h"
#include "runtime/text/jinja_builtin.h"
#include "runtime/text/jinja_math.h"

namespace rlx::jinja {
namespace {

std::vector<Value> items(const Call& call) {
  return call.values().items_of(call.subject());
}

Value length(const Call& call) {
  return length_of(call.values(), call.subject());
}

Value first_item(const Call& call) {
  const std::vector<Value> all = items(call);
  return all.empty() ? Value() : all.front();
}

Value last_item(const Call& call) {
  const std::vector<Value> all = items(call);
  return all.empty() ? Value() : all.back();
}

Value list(const Call& call) {
  return call.values().list(items(call));
}

Value reverse(const Call& call) {
  std::vector<Value> all = items(call);
  std::reverse(all.begin(), all.end());
  const Values& values = call.values();
  if (!call.subject().is(Kind::Text)) return values.list(std::move(all));
  return values.text(joined(values, all, {}));
}

Value join(const Call& call) {
  std::vector<Value> all = items(call);
  if (const Value* path = call.argument(1)) {
    for (Value& item : all) item = path_of(call.values(), item, *path);
  }
  const Value* between = call.argument(0);
  return call.values().text(
      joined(call.values(), all, between == nullptr ? MarkedText() : call.values().str(*between)));
}

Value pairs(const Call& call) {
  if (call.subject().is(Kind::Undefined)) return call.values().list({});
  if (!call.subject().is(Kind::Dict)) {
    throw Fault{text_of("\"items\" wants a dict, got ", kind_text(call.subject()))};
  }
  std::vector<Value> out;
  for (const Member& member : call.subject().dict().members) {
    out.push_back(call.values().tuple({member.key, member.value}));
  }
  return call.values().list(std::move(out));
}

// What is compared where texts of any case are equal.
Value fold(const Call& call, const Value& value, bool is_exact) {
  if (is_exact || !value.is(Kind::Text)) return value;
  return call.values().text(with_case(value.text(), Case::Lower));
}

struct Keyed {
  Value key;
  Value item;
};

std::vector<Keyed> keyed(const Call& call, std::vector<Value> all, const Value* path,
                         bool is_exact) {
  std::vector<Keyed> out;
  for (Value& item : all) {
    const bool has_path = path != nullptr && !path->is(Kind::None);
    Value key = has_path ? path_of(call.values(), item, *path) : item;
    out.push_back({.key = fold(call, key, is_exact), .item = std::move(item)});
  }
  return out;
}

Value sorted(const Call& call, std::vector<Keyed> all, bool is_reversed) {
  std::stable_sort(all.begin(), all.end(), [&](const Keyed& a, const Keyed& b) {
    return is_reversed ? call.values().is_less(b.key, a.key) : call.values().is_less(a.key, b.key);
  });
  std::vector<Value> out;
  for (Keyed& entry : all) out.push_back(std::move(entry.item));
  return call.values().list(std::move(out));
}

Value sort(const Call& call) {
  return sorted(call, keyed(call, items(call), call.argument(2), call.flag(1, false)),
                call.flag(0, false));
}

Value dictsort(const Call& call) {
  if (!call.subject().is(Kind::Dict)) {
    throw Fault{text_of("\"dictsort\" wants a dict, got ", kind_text(call.subject()))};
  }
  const std::string_view by = call.argument(1) == nullptr ? "key" : call.text(1).bytes();
  if (by != "key" && by != "value") throw Fault{"\"dictsort\" sorts by \"key\" or by \"value\""};
  const std::vector<Value> all = pairs(call).list().items;
  const Value index(int64_t{by == "value"});
  return sorted(call, keyed(call, all, &index, call.flag(0, false)), call.flag(2, false));
}

Value unique(const Call& call) {
  std::vector<Value> seen;
  std::vector<Value> out;
  for (Keyed& entry : keyed(call, items(call), call.argument(1), call.flag(0, false))) {
    const bool is_new = std::none_of(seen.begin(), seen.end(), [&](const Value& other) {
      return call.values().are_equal(other, entry.key);
    });
    if (!is_new) continue;
    seen.push_back(entry.key);
    out.push_back(std::move(entry.item));
  }
  return call.values().list(std::move(out));
}

template <class IsBetter>
Value best(const Call& call, const IsBetter& is_better) {
  std::vector<Keyed> all = keyed(call, items(call), call.argument(1), call.flag(0, false));
  if (all.empty()) return {};
  const auto* found = &all.front();
  for (const Keyed& entry : all) {
    if (is_better(entry.key, found->key)) found = &entry;
  }
  return found->item;
}

Value min(const Call& call) {
  return best(call, [&](const Value& a, const Value& b) { return call.values().is_less(a, b); });
}

Value max(const Call& call) {
  return best(call, [&](const Value& a, const Value& b) { return call.values().is_less(b, a); });
}

Value sum(const Call& call) {
  Value total = call.argument(1) == nullptr ? Value(int64_t{0}) : *call.argument(1);
  for (const Value& item : items(call)) {
    const bool has_path = call.argument(0) != nullptr && !call.argument(0)->is(Kind::None);
    total = calculate(call.values(), Operator::Add, total,
                      has_path ? path_of(call.values(), item, *call.argument(0)) : item);
  }
  return total;
}

const Value* named_argument(const Arguments& arguments, std::string_view name) {
  const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                  [&](const NamedValue& named) { return named.name == name; });
  return found == arguments.named.end() ? nullptr : &found->value;
}

// The builtin named by argument `index`, and the arguments behind it.
struct Inner {
  const Builtin* builtin = nullptr;  // NULL: none is named
  Arguments arguments;
};

Inner inner_of(const Call& call, size_t index, const Builtin* (*find)(std::string_view),
               std::string_view what) {
  const std::vector<Value>& given = call.arguments().positional;
  if (given.size() <= index) return {};
  if (!given[index].is(Kind::Text)) {
    throw Fault{text_of(quoted(call.builtin().name), " wants the name of a ", what)};
  }
  const std::string_view name = given[index].text().bytes();
  Inner inner{.builtin = find(name), .arguments = {}};
  if (inner.builtin == nullptr) throw Fault{text_of("there is no ", what, " ", quoted(name))};
  const auto behind = given.begin() + static_cast<std::ptrdiff_t>(index) + 1;
  inner.arguments.positional.assign(behind, given.end());
  inner.arguments.named = call.arguments().named;
  return inner;
}

Value map(const Call& call) {
  const Value* path = named_argument(call.arguments(), "attribute");
  const Value* otherwise = named_argument(call.arguments(), "default");
  const Inner inner = path == nullptr ? inner_of(call, 0, find_filter, "filter") : Inner{};
  if (path == nullptr && inner.builtin == nullptr) {
    throw Fault{"\"map\" wants the name of a filter, or attribute="};
  }
  std::vector<Value> out;
  for (const Value& item : items(call)) {
    out.push_back(path != nullptr
                      ? path_of(call.values(), item, *path)
                      : run_builtin(call.environment(), *inner.builtin, item, inner.arguments));
    if (otherwise != nullptr && out.back().is(Kind::Undefined)) out.back() = *otherwise;
  }
  return call.values().list(std::move(out));
}

// Items of which a test (or their truth, where none is named) is as wanted; with `attribute`, a
// test of that attribute of theirs, which is the first argument.
struct Choice {
  bool wanted = true;
  bool has_attribute = false;
};

Value choose(const Call& call, Choice choice) {
  const std::vector<Value>& given = call.arguments().positional;
  if (choice.has_attribute && given.empty()) {
    throw Fault{text_of(quoted(call.builtin().name), " wants the name of an attribute")};
  }
  const Inner inner = inner_of(call, choice.has_attribute ? 1 : 0, find_test, "test");
  std::vector<Value> out;
  for (Value& item : items(call)) {
    const Value tested = choice.has_attribute ? path_of(call.values(), item, given[0]) : item;
    const bool is_chosen =
        inner.builtin == nullptr
            ? is_true(tested)
            : is_true(run_builtin(call.environment(), *inner.builtin, tested, inner.arguments));
    if (is_chosen == choice.wanted) out.push_back(std::move(item));
  }
  return call.values().list(std::move(out));
}

Value select(const Call& call) {
  return choose(call, {});
}
Value reject(const Call& call) {
  return choose(call, {.wanted = false});
}
Value selectattr(const Call& call) {
  return choose(call, {.has_attribute = true});
}
Value rejectattr(const Call& call) {
  return choose(call, {.wanted = false, .has_attribute = true});
}

constexpr std::array kListFilters = {
    Builtin{"count", "", length},
    Builtin{"dictsort", "case_sensitive,by,reverse", dictsort},
    Builtin{"first", "", first_item},
    Builtin{"items", "", pairs},
    Builtin{"join", "d,attribute", join},
    Builtin{"last", "", last_item},
    Builtin{"length", "", length},
    Builtin{"list", "", list},
    Builtin{"map", "*", map},
    Builtin{"max", "case_sensitive,attribute", max},
    Builtin{"min", "case_sensitive,attribute", min},
    Builtin{"reject", "*", reject},
    Builtin{"rejectattr", "*", rejectattr},
    Builtin{"reverse", "", reverse},
    Builtin{"select", "*", select},
    Builtin{"selectattr", "*", selectattr},
    Builtin{"sort", "reverse,case_sensitive,attribute", sort},
    Builtin{"sum", "attribute,start", sum},
    Builtin{"unique", "case_sensitive,attribute", unique},
};

}  // namespace

std::span<const Builtin> list_filters() {
  return kListFilters;
}

}  // namespace rlx::jinja
