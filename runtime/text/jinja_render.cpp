// SPDX-License-Identifier: Apache-2.0
// Statements of a template that runs. Expressions are in jinja_evaluate.cpp.
#include "runtime/text/jinja_render.h"

#include <algorithm>
#include <exception>

#include "runtime/base/text.h"

namespace rlx::jinja {

void Scope::set(std::string_view name, Value value) {
  const auto found = std::find_if(names_.begin(), names_.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  if (found == names_.end()) {
    names_.emplace_back(name, std::move(value));
  } else {
    found->second = std::move(value);
  }
}

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->around_.get()) {
    for (const auto& [known, value] : scope->names_) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

Renderer::Deeper::Deeper(Renderer& renderer, Place at)
    : renderer_(renderer), outer_(renderer.at_), exceptions_(std::uncaught_exceptions()) {
  renderer_.at_ = at;
  renderer_.environment_.budget.step();
  const uint32_t most = renderer_.environment_.budget.limits().depth;
  if (renderer_.depth_ >= most) {
    throw Fault{text_of("more than ", most,
                        " parts of the template inside each other: does a macro "
                        "call itself?")};
  }
  ++renderer_.depth_;
}

Renderer::Deeper::~Deeper() {
  --renderer_.depth_;
  if (std::uncaught_exceptions() == exceptions_) renderer_.at_ = outer_;
}

MarkedText Renderer::run(const std::vector<NamedValue>& variables) {
  TextBuilder out(&environment_.budget);
  out_ = &out;
  scope_ = std::make_shared<Scope>();
  for (const NamedValue& variable : variables) scope_->set(variable.name, variable.value);
  run_body(tree_.body);
  return out.text();
}

void Renderer::write(const Value& value) {
  environment_.values.write_str(*out_, value);
  const uint64_t most = environment_.budget.limits().output_bytes;
  if (out_->text().size() > most) {
    throw Fault{text_of("the template writes more than ", bytes_text(most))};
  }
}

Renderer::Flow Renderer::run_body(const Body& body) {
  for (const Statement& statement : body) {
    const Flow flow = run_statement(statement);
    if (flow != Flow::Next) return flow;
  }
  return Flow::Next;
}

Renderer::Flow Renderer::run_inside(const Body& body) {
  scope_ = std::make_shared<Scope>(scope_);
  const Flow flow = run_body(body);
  scope_ = scope_->around();
  return flow;
}

Value Renderer::captured(const Body& body) {
  TextBuilder out(&environment_.budget);
  TextBuilder* outer = std::exchange(out_, &out);
  run_inside(body);
  out_ = outer;
  return environment_.values.text(out.text());
}

Renderer::Flow Renderer::run_statement(const Statement& statement) {
  const Deeper deeper(*this, statement.at);
  switch (statement.kind) {
    case StatementKind::Text:
      out_->append(statement.text);
      write(Value());
      return Flow::Next;
    case StatementKind::Output:
      write(evaluate(*statement.expressions[0]));
      return Flow::Next;
    case StatementKind::If:
      return run_if(statement);
    case StatementKind::For:
      return run_for(statement);
    case StatementKind::With:
      return run_with(statement);
    case StatementKind::Scope:
      return run_inside(statement.bodies[0]);
    case StatementKind::Break:
      return Flow::Break;
    case StatementKind::Continue:
      return Flow::Continue;
    case StatementKind::Set:
      run_set(statement);
      return Flow::Next;
    case StatementKind::SetBlock:
      run_set_block(statement);
      return Flow::Next;
    case StatementKind::Macro:
      run_macro(statement);
      return Flow::Next;
    case StatementKind::CallBlock:
      run_call(statement);
      return Flow::Next;
    case StatementKind::Filter:
      run_filter(statement);
      return Flow::Next;
    case StatementKind::Unsupported:
      throw Fault{statement.text};
  }
  return Flow::Next;
}

Renderer::Flow Renderer::run_if(const Statement& statement) {
  size_t branch = 0;
  while (branch < statement.expressions.size() &&
         !is_true(evaluate(*statement.expressions[branch]))) {
    ++branch;
  }
  return branch < statement.bodies.size() ? run_body(statement.bodies[branch]) : Flow::Next;
}

std::vector<Value> Renderer::chosen_items(const Statement& statement) {
  std::vector<Value> items = environment_.values.items_of(evaluate(*statement.expressions[0]));
  const Expr* condition = statement.expressions[1].get();
  if (condition == nullptr) return items;
  std::vector<Value> chosen;
  for (Value& item : items) {
    scope_ = std::make_shared<Scope>(scope_);
    assign(statement.targets, item);
    if (is_true(evaluate(*condition))) chosen.push_back(std::move(item));
    scope_ = scope_->around();
  }
  return chosen;
}

// As Jinja has it, `else` is for loops of which no pass came to its end: all were left by
// `continue`, or the first by `break`.
Renderer::Flow Renderer::run_for(const Statement& statement) {
  const auto loop = std::make_shared<Loop>(chosen_items(statement), &environment_.budget);
  const std::shared_ptr<Scope> around = scope_;
  bool has_ended_one = false;
  for (; loop->index < loop->items.size(); ++loop->index) {
    scope_ = std::make_shared<Scope>(around);
    scope_->set("loop", loop);
    assign(statement.targets, loop->items[loop->index]);
    const Flow flow = run_body(statement.bodies[0]);
    if (flow == Flow::Break) break;
    has_ended_one = has_ended_one || flow == Flow::Next;
  }
  scope_ = around;
  const bool has_else = statement.bodies.size() > 1;
  return !has_ended_one && has_else ? run_inside(statement.bodies[1]) : Flow::Next;
}

void Renderer::run_set(const Statement& statement) {
  assign(statement.targets, evaluate(*statement.expressions[0]));
}

void Renderer::run_set_block(const Statement& statement) {
  Value text = captured(statement.bodies[0]);
  if (statement.expressions[0] != nullptr) {
    block_text_ = std::move(text);
    text = evaluate(*statement.expressions[0]);
  }
  assign(statement.targets, text);
}

void Renderer::run_macro(const Statement& statement) {
  scope_->set(statement.name,
              Value(std::make_shared<const Function>(&statement, scope_, &environment_.budget)));
}

void Renderer::run_call(const Statement& statement) {
  const Expr& expr = *statement.expressions[0];
  Arguments arguments = arguments_of(expr);
  arguments.named.push_back({.name = "caller",
                             .value = Value(std::make_shared<const Function>(
                                 statement.macro.get(), scope_, &environment_.budget))});
  write(call(expr, std::move(arguments)));
}

void Renderer::run_filter(const Statement& statement) {
  block_text_ = captured(statement.bodies[0]);
  write(evaluate(*statement.expressions[0]));
}

// Values see what is around, not each other.
Renderer::Flow Renderer::run_with(const Statement& statement) {
  const auto inner = std::make_shared<Scope>(scope_);
  for (size_t i = 0; i < statement.targets.size(); ++i) {
    inner->set(statement.targets[i].name, evaluate(*statement.expressions[i]));
  }
  scope_ = inner;
  const Flow flow = run_body(statement.bodies[0]);
  scope_ = scope_->around();
  return flow;
}

void Renderer::assign(const std::vector<Target>& targets, const Value& value) {
  if (targets.size() == 1) return assign_one(targets[0], value);
  const std::vector<Value> items = environment_.values.items_of(value);
  if (items.size() != targets.size()) {
    throw Fault{text_of("cannot give ", items.size(), " values to ", targets.size(), " names")};
  }
  for (size_t i = 0; i < targets.size(); ++i) assign_one(targets[i], items[i]);
}

void Renderer::assign_one(const Target& target, const Value& value) {
  if (target.member.empty()) return scope_->set(target.name, value);
  constexpr uint64_t kBytes = 256;
  const Value* space = scope_->find(target.name);
  if (space == nullptr || !space->is(Kind::Namespace)) {
    throw Fault{text_of("cannot set ", quoted(target.member), " of ", quoted(target.name),
                        ", which is no namespace")};
  }
  auto& members = space->space().members;
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const auto& entry) { return entry.first == target.member; });
  if (found != members.end()) {
    found->second = value;
    return;
  }
  environment_.budget.take_bytes(kBytes);  // until the end, as the namespace
  members.emplace_back(target.member, value);
}

}  // namespace rlx::jinja
