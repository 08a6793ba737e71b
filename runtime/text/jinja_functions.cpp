// SPDX-License-Identifier: Apache-2.0
// Functions that templates may call.
#include <array>

#include "runtime/base/text.h"
#include "runtime/text/jinja_builtin.h"

namespace rlx::jinja {
namespace {

Value raise_exception(const Call& call) {
  const std::string said(call.values().str(call.wanted(0)).bytes());
  throw Fault{text_of("the template says: ", is_plain_text(said) ? said : quoted(said))};
}

Value strftime_now(const Call& call) {
  return call.values().text(time_text(call.environment().now_unix_seconds, call.text(0).bytes()));
}

// range(stop), range(start, stop), range(start, stop, step), as a list.
Value range(const Call& call) {
  const bool has_start = call.argument(1) != nullptr;
  static_cast<void>(call.wanted(0));
  const int64_t start = has_start ? call.integer(0, 0) : 0;
  const int64_t stop = call.integer(has_start ? 1 : 0, 0);
  const int64_t step = call.integer(2, 1);
  if (step == 0) throw Fault{"\"range\" wants a step other than 0"};
  const uint32_t most = call.environment().budget.limits().range_items;
  std::vector<Value> items;
  for (int64_t at = start; step > 0 ? at < stop : at > stop;) {
    if (items.size() == most) throw Fault{text_of("\"range\" gives more than ", most, " numbers")};
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return call.values().list(std::move(items));
}

// What dict() and namespace() are given: perhaps a dict, then members by name.
std::vector<Member> given_members(const Call& call) {
  std::vector<Member> members;
  for (const Value& value : call.arguments().positional) {
    if (!value.is(Kind::Dict)) {
      throw Fault{text_of(quoted(call.builtin().name), " wants a dict, got ", kind_text(value))};
    }
    const std::vector<Member>& all = value.dict().members;
    members.insert(members.end(), all.begin(), all.end());
  }
  for (const NamedValue& named : call.arguments().named) {
    members.push_back({.key = call.values().text(named.name), .value = named.value});
  }
  return members;
}

Value make_dict(const Call& call) {
  return call.values().dict(given_members(call));
}

Value make_namespace(const Call& call) {
  constexpr uint64_t kBytes = 256;
  auto made = std::make_shared<Namespace>();
  Budget& budget = call.environment().budget;
  budget.take_bytes(kBytes);  // until the end: it is kept
  const Value given = make_dict(call);
  for (const Member& member : given.dict().members) {
    if (!member.key.is(Kind::Text)) throw Fault{"a member of a namespace is named by a text"};
    budget.take_bytes(kBytes + member.key.text().size());
    made->members.emplace_back(member.key.text().bytes(), member.value);
  }
  call.environment().namespaces.push_back(made);
  return made;
}

constexpr std::array kFunctions = {
    Builtin{"dict", "*", make_dict},
    Builtin{"namespace", "*", make_namespace},
    Builtin{"raise_exception", "message", raise_exception},
    Builtin{"range", "start,stop,step", range},
    Builtin{"strftime_now", "format", strftime_now},
};

}  // namespace

std::span<const Builtin> function_table() {
  return kFunctions;
}

}  // namespace rlx::jinja
