// SPDX-License-Identifier: Apache-2.0
// What templates may call by name: filters, tests, methods and functions, one row each in a table.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/text/jinja_value.h"

namespace rlx::jinja {

// What a run of a template shares.
struct Environment {
  explicit Environment(const Limits& limits) : budget(limits) {}
  // Namespaces may hold each other.
  ~Environment() {
    for (const auto& space : namespaces) space->members.clear();
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  Budget budget;
  Values values{&budget};
  int64_t now_unix_seconds = 0;
  std::vector<std::shared_ptr<Namespace>> namespaces;  // all that were made
};

struct Builtin;

// One call of a builtin: what it is applied to, and arguments by its parameters.
class Call {
 public:
  // A Fault where the arguments are not those of the builtin.
  Call(Environment& environment, const Builtin& builtin, const Value& subject,
       const Arguments& arguments);

  [[nodiscard]] const Value& subject() const { return subject_; }
  // Argument `index` of the parameters; NULL: not given.
  [[nodiscard]] const Value* argument(size_t index) const { return bound_[index]; }
  [[nodiscard]] const Value& wanted(size_t index) const;
  [[nodiscard]] bool flag(size_t index, bool otherwise) const;
  [[nodiscard]] int64_t integer(size_t index, int64_t otherwise) const;
  [[nodiscard]] const MarkedText& text(size_t index) const;
  // The argument's bytes; nothing where it is not given or none.
  [[nodiscard]] std::optional<std::string_view> bytes(size_t index) const;
  // As they stand, for builtins that take any.
  [[nodiscard]] const Arguments& arguments() const { return arguments_; }
  [[nodiscard]] Environment& environment() const { return environment_; }
  [[nodiscard]] const Values& values() const { return environment_.values; }
  [[nodiscard]] const Builtin& builtin() const { return builtin_; }

 private:
  static constexpr size_t kMostParameters = 6;
  Environment& environment_;
  const Builtin& builtin_;
  const Value& subject_;
  const Arguments& arguments_;
  std::array<const Value*, kMostParameters> bound_{};
};

struct Builtin {
  std::string_view name;
  std::string_view parameters;  // "a,b"; "*": any, which the builtin looks at itself
  Value (*run)(const Call& call);
};

// NULL: there is none of that name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_function(std::string_view name);
const Builtin* find_method(const Value& value, std::string_view name);
// Whether any kind of value has a method of that name.
bool is_method_name(std::string_view name);

// The tables, one per file.
std::span<const Builtin> text_filters();
std::span<const Builtin> list_filters();
std::span<const Builtin> test_table();
std::span<const Builtin> text_methods();
std::span<const Builtin> dict_methods();
std::span<const Builtin> list_methods();
std::span<const Builtin> loop_methods();
std::span<const Builtin> function_table();

Value run_builtin(Environment& environment, const Builtin& builtin, const Value& subject,
                  const Arguments& arguments);

// What texts, lists and filters share.

// value[key], by the key of a dict or the index of a list or a text; Undefined where there is none.
Value item_of(const Values& values, const Value& value, const Value& key);
// The member of a path "a.b.0", as the filters' `attribute` has it.
Value path_of(const Values& values, const Value& value, const Value& path);
// An index from the end if negative; nothing if outside of [0, count).
std::optional<size_t> index_within(int64_t index, size_t count);
// "a" in "abc", an item in a list, a key in a dict; a Fault for others.
bool is_in(const Values& values, const Value& item, const Value& container);
// How many characters, items or keys; a Fault for others.
int64_t length_of(const Values& values, const Value& value);
// Texts of the items, `between` between them.
MarkedText joined(const Values& values, const std::vector<Value>& items, const MarkedText& between);
MarkedText replaced(const Values& values, const MarkedText& text, std::string_view old,
                    const MarkedText& by, std::optional<int64_t> most);
// "%s and %d" % values.
MarkedText formatted(const Values& values, const MarkedText& format,
                     const std::vector<Value>& arguments);
// Lines as Python's str.splitlines has them, without their ends.
std::vector<MarkedText> lines_of(const MarkedText& text);
MarkedText json_of(const Values& values, const Value& value, std::optional<int64_t> indent,
                   bool ascii_only, bool sort_keys);
// strftime of a second since 1970, UTC, in English.
std::string time_text(int64_t unix_seconds, std::string_view format);

}  // namespace rlx::jinja
