// SPDX-License-Identifier: Apache-2.0
// Runs a parsed template.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/jinja_builtin.h"
#include "runtime/text/jinja_tree.h"

namespace rlx::jinja {

// Variables of a block, and those around it.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> around = nullptr) : around_(std::move(around)) {}
  // Names live as long as the template and the caller's variables.
  void set(std::string_view name, Value value);
  // Of this scope or one around it; NULL: there is none.
  [[nodiscard]] const Value* find(std::string_view name) const;
  [[nodiscard]] const std::shared_ptr<Scope>& around() const { return around_; }

 private:
  std::shared_ptr<Scope> around_;
  std::vector<std::pair<std::string_view, Value>> names_;
};

// Throws a Fault; place() is then where.
class Renderer {
 public:
  Renderer(const Tree& tree, Environment& environment) : tree_(tree), environment_(environment) {}

  MarkedText run(const std::vector<NamedValue>& variables);
  [[nodiscard]] Place place() const { return at_; }

 private:
  enum class Flow : uint8_t { Next, Break, Continue };
  // Counts what is evaluated inside each other, and knows where.
  class Deeper;

  Flow run_body(const Body& body);
  Flow run_statement(const Statement& statement);
  // In a scope of its own.
  Flow run_inside(const Body& body);
  // What a body writes, in a scope of its own.
  Value captured(const Body& body);
  void write(const Value& value);
  Flow run_if(const Statement& statement);
  Flow run_for(const Statement& statement);
  std::vector<Value> chosen_items(const Statement& statement);
  void run_set(const Statement& statement);
  void run_set_block(const Statement& statement);
  void run_macro(const Statement& statement);
  void run_call(const Statement& statement);
  void run_filter(const Statement& statement);
  Flow run_with(const Statement& statement);
  void assign(const std::vector<Target>& targets, const Value& value);
  void assign_one(const Target& target, const Value& value);

  Value evaluate(const Expr& expr);
  Value evaluate_kind(const Expr& expr);
  Value evaluate_name(const Expr& expr);
  Value evaluate_list(const Expr& expr);
  Value evaluate_dict(const Expr& expr);
  Value evaluate_attribute(const Expr& expr);
  Value evaluate_item(const Expr& expr);
  Value evaluate_slice(const Expr& expr);
  Value evaluate_call(const Expr& expr);
  Value evaluate_builtin(const Expr& expr);
  Value evaluate_conditional(const Expr& expr);
  Value evaluate_arithmetic(const Expr& expr);
  Value evaluate_compare(const Expr& expr);
  Value evaluate_concat(const Expr& expr);
  Value call(const Expr& expr, Arguments arguments);
  Value call_macro(const Function& function, const Arguments& arguments);
  void bind(const Statement& macro, const Arguments& arguments);
  Arguments arguments_of(const Expr& expr);
  Value method(const Value& value, std::string_view name);
  Value loop_field(const Loop& loop, std::string_view name);

  const Tree& tree_;
  Environment& environment_;
  std::shared_ptr<Scope> scope_;
  TextBuilder* out_ = nullptr;
  Value block_text_;  // what a block rendered, for its filters
  Place at_ = 0;
  uint32_t depth_ = 0;
};

class Renderer::Deeper {
 public:
  Deeper(Renderer& renderer, Place at);
  // A Fault leaves the place where it happened.
  ~Deeper();
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Renderer& renderer_;
  const Place outer_;
  const int exceptions_;
};

}  // namespace rlx::jinja
