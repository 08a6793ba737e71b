// SPDX-License-Identifier: Apache-2.0
// What a template computes with. Values are immutable and shared, namespaces aside, which the
// renderer empties at its end: so no value is its own part, and all are given back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/text/jinja_text.h"

namespace rlx::jinja {

// Thrown inside this folder's files alone: jinja.h gives it a place in the template and returns it.
struct Fault {
  std::string message;
};

// What a template may use: its text is a stranger's.
struct Limits {
  uint64_t steps = 5'000'000;  // parts of the template evaluated, 256 bytes of new text, an item
  uint64_t output_bytes = uint64_t{16} << 20;
  uint64_t memory_bytes = uint64_t{64} << 20;  // of values alive at once
  uint32_t depth = 400;                        // of what is evaluated inside each other
  uint32_t range_items = 100'000;
};

inline constexpr uint32_t kMostNesting = 64;  // lists in lists

// Counts what a template uses.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}
  [[nodiscard]] const Limits& limits() const { return limits_; }
  void step(uint64_t count = 1);
  void take_bytes(uint64_t bytes);
  void give_bytes(uint64_t bytes) { bytes_ -= bytes; }

 private:
  Limits limits_;
  uint64_t steps_ = 0;
  uint64_t bytes_ = 0;
  uint64_t made_bytes_ = 0;  // that no step counts yet
};

// Bytes of a budget for as long as it lives; of none for what a parsed template holds.
class Charge {
 public:
  Charge() = default;
  Charge(Budget* budget, uint64_t bytes) : budget_(budget), bytes_(bytes) {
    if (budget_ != nullptr) budget_->take_bytes(bytes_);
  }
  ~Charge() {
    if (budget_ != nullptr) budget_->give_bytes(bytes_);
  }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;

 private:
  Budget* budget_ = nullptr;
  uint64_t bytes_ = 0;
};

// A text that grows, charged as it does.
class TextBuilder {
 public:
  explicit TextBuilder(Budget* budget) : budget_(budget) {}
  ~TextBuilder() {
    if (budget_ != nullptr) budget_->give_bytes(text_.size());
  }
  TextBuilder(const TextBuilder&) = delete;
  TextBuilder& operator=(const TextBuilder&) = delete;
  void append(std::string_view bytes, Origin origin = Origin::Template) {
    grow(bytes.size());
    text_.append(bytes, origin);
  }
  void append(const MarkedText& text) { append_part(text, 0, text.size()); }
  void append_part(const MarkedText& text, size_t begin, size_t size) {
    grow(size);
    text_.append_part(text, begin, size);
  }
  [[nodiscard]] const MarkedText& text() const { return text_; }

 private:
  void grow(size_t bytes) {
    if (budget_ != nullptr) budget_->take_bytes(bytes);
  }
  Budget* budget_;
  MarkedText text_;
};

class Value;
class Scope;
struct List;
struct Dict;
struct Namespace;
struct Function;
struct Loop;
struct Expr;
struct Statement;
struct Builtin;

// What a value is made of, itself and what it holds; a value in two places counts twice, so that a
// few lists that hold each other may weigh more than a walk may take.
struct Extent {
  uint32_t nesting = 0;  // of lists and dicts
  uint64_t weight = 1;   // steps of a walk through all of it
};

struct Undefined {
  const Expr* found_by = nullptr;  // for messages; of the template that is rendered
};
struct None {};
struct TextBody {
  TextBody(MarkedText body, Budget* budget)
      : text(std::move(body)), charge(budget, sizeof(TextBody) + text.size()) {}
  MarkedText text;
  Charge charge;
};

// As in the variant below.
enum class Kind : uint8_t {
  Undefined,
  None,
  Bool,
  Integer,
  Float,
  Text,
  List,
  Dict,
  Namespace,
  Function,
  Loop
};

class Value {
 public:
  using Held = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const TextBody>,
                            std::shared_ptr<const List>, std::shared_ptr<const Dict>,
                            std::shared_ptr<Namespace>, std::shared_ptr<const Function>,
                            std::shared_ptr<Loop>>;
  Value() = default;
  template <class Any>
  requires(!std::is_same_v<std::remove_cvref_t<Any>, Value> && std::is_constructible_v<Held, Any>)
      Value(Any&& held)
      : held_(std::forward<Any>(held)) {}

  [[nodiscard]] Kind kind() const { return static_cast<Kind>(held_.index()); }
  [[nodiscard]] bool is(Kind kind) const { return this->kind() == kind; }
  // Precondition of all: the kind.
  [[nodiscard]] const Expr* found_by() const { return std::get<Undefined>(held_).found_by; }
  [[nodiscard]] bool boolean() const { return std::get<bool>(held_); }
  [[nodiscard]] int64_t integer() const { return std::get<int64_t>(held_); }
  [[nodiscard]] double real() const { return std::get<double>(held_); }
  [[nodiscard]] const MarkedText& text() const {
    return std::get<std::shared_ptr<const TextBody>>(held_)->text;
  }
  [[nodiscard]] const List& list() const { return *std::get<std::shared_ptr<const List>>(held_); }
  [[nodiscard]] const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(held_); }
  [[nodiscard]] Namespace& space() const { return *std::get<std::shared_ptr<Namespace>>(held_); }
  [[nodiscard]] const Function& function() const {
    return *std::get<std::shared_ptr<const Function>>(held_);
  }
  [[nodiscard]] Loop& loop() const { return *std::get<std::shared_ptr<Loop>>(held_); }
  [[nodiscard]] const Held& held() const { return held_; }

 private:
  Held held_;
};

struct List {
  List(std::vector<Value> values, bool tuple, Budget* budget);
  std::vector<Value> items;
  bool is_tuple = false;
  Extent extent;
  Charge charge;
};

struct Member {
  Value key;
  Value value;
};

// Keys differ; members stand in the order in which they came.
struct Dict {
  Dict(std::vector<Member> all, Budget* budget);
  std::vector<Member> members;
  Extent extent;
  Charge charge;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> members;
};

// A function of the language, perhaps bound to a value (a method), or a macro.
struct Function {
  Function(const Builtin* function, Value of, Budget* budget);
  Function(const Statement* definition, std::weak_ptr<Scope> around, Budget* budget);
  const Builtin* builtin = nullptr;
  Value subject;
  const Statement* macro = nullptr;
  std::weak_ptr<Scope> scope;  // in which the macro was defined: it would hold itself
  Charge charge;
};

// A `for` that runs.
struct Loop {
  Loop(std::vector<Value> values, Budget* budget);
  std::vector<Value> items;
  size_t index = 0;
  Charge charge;
};

struct NamedValue {
  std::string name;
  Value value;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<NamedValue> named;
};

// Makes values and walks through them, all of it charged to a budget; NULL: to none.
class Values {
 public:
  explicit Values(Budget* budget) : budget_(budget) {}
  [[nodiscard]] Value text(MarkedText text) const;
  [[nodiscard]] Value text(std::string_view bytes) const {
    return this->text(MarkedText(bytes, Origin::Template));
  }
  [[nodiscard]] Value list(std::vector<Value> items) const;
  [[nodiscard]] Value tuple(std::vector<Value> items) const;
  // A later member of an equal key takes the place of an earlier one.
  [[nodiscard]] Value dict(std::vector<Member> members) const;
  // One whose keys are known to differ.
  [[nodiscard]] Value distinct_dict(std::vector<Member> members) const;

  // Python's ==: 1 == 1.0 == true; a list is no tuple.
  [[nodiscard]] bool are_equal(const Value& a, const Value& b) const;
  // Python's <: numbers, texts, lists of such; a Fault for others.
  [[nodiscard]] bool is_less(const Value& a, const Value& b) const;
  // NULL: there is none.
  [[nodiscard]] const Value* find(const Dict& dict, const Value& key) const;
  [[nodiscard]] const Value* find(const Dict& dict, std::string_view key) const;
  // str() and repr() of Python, marks kept.
  [[nodiscard]] MarkedText str(const Value& value) const;
  [[nodiscard]] MarkedText repr(const Value& value) const;
  void write_str(TextBuilder& out, const Value& value) const;
  void write_repr(TextBuilder& out, const Value& value) const;
  // What `for` and the filters take one by one: items, keys, characters; a Fault for others.
  [[nodiscard]] std::vector<Value> items_of(const Value& value) const;
  void step(uint64_t count) const {
    if (budget_ != nullptr) budget_->step(count);
  }
  // Before one text is looked for all through another, which may take the product of their sizes.
  void step_search(std::string_view text, std::string_view wanted) const;
  [[nodiscard]] Budget* budget() const { return budget_; }

 private:
  Budget* budget_;
};

// "a text", "a list", for messages.
std::string_view kind_text(const Value& value);
bool is_true(const Value& value);
bool is_number(const Value& value);  // booleans are
// Precondition: is_number.
double as_real(const Value& value);
Extent extent_of(const Value& value);
// The shortest decimal that reads back the same, as Python shows it.
std::string real_text(double value);

}  // namespace rlx::jinja
