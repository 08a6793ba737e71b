// SPDX-License-Identifier: Apache-2.0
// Expressions of a template that runs.
#include <algorithm>
#include <array>

#include "runtime/base/text.h"
#include "runtime/text/jinja_math.h"
#include "runtime/text/jinja_render.h"

namespace rlx::jinja {
namespace {

// "variable "x"", "messages[0]" cannot be named: what an expression looked for.
std::string description(const Expr* expr) {
  if (expr == nullptr) return "the value";
  if (expr->kind == ExprKind::Name) return text_of("the variable ", quoted(expr->name));
  if (expr->kind == ExprKind::Attribute) return text_of("the attribute ", quoted(expr->name));
  if (expr->kind != ExprKind::Item) return "the value";
  const Expr& key = *expr->children[1];
  const bool is_named = key.kind == ExprKind::Constant && key.constant.is(Kind::Text);
  return is_named ? text_of("the item ", quoted(key.constant.text().bytes())) : "the item";
}

void refuse_undefined(const Value& value) {
  if (value.is(Kind::Undefined)) throw Fault{description(value.found_by()) + " is undefined"};
}

// Undefined values remember who looked for them.
Value found_by(Value value, const Expr& expr) {
  const bool is_new = value.is(Kind::Undefined) && value.found_by() == nullptr;
  return is_new ? Value(Undefined{&expr}) : std::move(value);
}

// A slice's bounds on `count` items, as Python clamps them.
struct Range {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
};

int64_t clamped(int64_t bound, int64_t count, bool is_backward) {
  const int64_t low = is_backward ? -1 : 0;
  const int64_t high = is_backward ? count - 1 : count;
  if (bound < 0) bound = bound < -count ? low : bound + count;
  return std::clamp(bound, low, std::max(low, high));
}

Range range_of(const std::array<std::optional<int64_t>, 3>& bounds, int64_t count) {
  Range range{.step = bounds[2].value_or(1)};
  if (range.step == 0) throw Fault{"a slice wants a step other than 0"};
  const bool is_backward = range.step < 0;
  range.start = bounds[0] ? clamped(*bounds[0], count, is_backward) : is_backward ? count - 1 : 0;
  range.stop = bounds[1] ? clamped(*bounds[1], count, is_backward) : is_backward ? -1 : count;
  return range;
}

std::vector<Value> slice(const std::vector<Value>& items, const Range& range) {
  std::vector<Value> out;
  for (int64_t at = range.start; range.step > 0 ? at < range.stop : at > range.stop;) {
    out.push_back(items[static_cast<size_t>(at)]);
    if (__builtin_add_overflow(at, range.step, &at)) break;
  }
  return out;
}

Value slice_of_text(const Values& values, const MarkedText& text, const Range& range) {
  if (range.step != 1) {
    return values.text(joined(values, slice(values.items_of(values.text(text)), range), {}));
  }
  const size_t begin = byte_of_character(text.bytes(), static_cast<size_t>(range.start));
  const auto count = static_cast<size_t>(std::max<int64_t>(0, range.stop - range.start));
  const size_t size = byte_of_character(text.bytes().substr(begin), count);
  return values.text(text.part(begin, size));
}

}  // namespace

Value Renderer::evaluate(const Expr& expr) {
  const Deeper deeper(*this, expr.at);
  return evaluate_kind(expr);
}

Value Renderer::evaluate_kind(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::Constant:
      return expr.constant;
    case ExprKind::Name:
      return evaluate_name(expr);
    case ExprKind::List:
    case ExprKind::Tuple:
      return evaluate_list(expr);
    case ExprKind::Dict:
      return evaluate_dict(expr);
    case ExprKind::Attribute:
      return found_by(evaluate_attribute(expr), expr);
    case ExprKind::Item:
      return found_by(evaluate_item(expr), expr);
    case ExprKind::Slice:
      return evaluate_slice(expr);
    case ExprKind::Call:
      return call(expr, arguments_of(expr));
    case ExprKind::Filter:
    case ExprKind::Test:
      return evaluate_builtin(expr);
    case ExprKind::Not:
      return !is_true(evaluate(*expr.children[0]));
    case ExprKind::And:
    case ExprKind::Or: {
      Value left = evaluate(*expr.children[0]);
      return is_true(left) == (expr.kind == ExprKind::Or) ? left : evaluate(*expr.children[1]);
    }
    case ExprKind::Conditional:
      return evaluate_conditional(expr);
    case ExprKind::Concat:
      return evaluate_concat(expr);
    case ExprKind::Compare:
      return evaluate_compare(expr);
    default:
      return evaluate_arithmetic(expr);
  }
}

Value Renderer::evaluate_name(const Expr& expr) {
  if (const Value* found = scope_->find(expr.name)) return *found;
  const Builtin* builtin = find_function(expr.name);
  if (builtin == nullptr) return Undefined{&expr};
  return std::make_shared<const Function>(builtin, Value(), &environment_.budget);
}

Value Renderer::evaluate_list(const Expr& expr) {
  std::vector<Value> items;
  for (const ExprPtr& child : expr.children) items.push_back(evaluate(*child));
  return expr.kind == ExprKind::Tuple ? environment_.values.tuple(std::move(items))
                                      : environment_.values.list(std::move(items));
}

Value Renderer::evaluate_dict(const Expr& expr) {
  std::vector<Member> members;
  for (size_t i = 0; i < expr.children.size(); i += 2) {
    Value key = evaluate(*expr.children[i]);
    const bool is_key = is_number(key) || key.is(Kind::Text) || key.is(Kind::None) ||
                        (key.is(Kind::List) && key.list().is_tuple);
    if (!is_key) throw Fault{text_of(kind_text(key), " is no key of a dict")};
    members.push_back({.key = std::move(key), .value = evaluate(*expr.children[i + 1])});
  }
  return environment_.values.dict(std::move(members));
}

Value Renderer::method(const Value& value, std::string_view name) {
  const Builtin* builtin = find_method(value, name);
  if (builtin == nullptr) return {};
  return std::make_shared<const Function>(builtin, value, &environment_.budget);
}

Value Renderer::loop_field(const Loop& loop, std::string_view name) {
  const auto index = static_cast<int64_t>(loop.index);
  const auto count = static_cast<int64_t>(loop.items.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return count - index;
  if (name == "revindex0") return count - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == count;
  if (name == "length") return count;
  if (name == "depth") return int64_t{1};
  if (name == "depth0") return int64_t{0};
  if (name == "previtem") return index > 0 ? loop.items[loop.index - 1] : Value();
  if (name == "nextitem") return index + 1 < count ? loop.items[loop.index + 1] : Value();
  if (name == "changed") throw Fault{"\"loop.changed\" is not supported"};
  return {};
}

// Methods before members: as Jinja has it for a.b.
Value Renderer::evaluate_attribute(const Expr& expr) {
  const Value value = evaluate(*expr.children[0]);
  refuse_undefined(value);
  Value found = method(value, expr.name);
  if (!found.is(Kind::Undefined)) return found;
  if (value.is(Kind::Loop)) return loop_field(value.loop(), expr.name);
  if (value.is(Kind::Dict)) {
    const Value* member = environment_.values.find(value.dict(), expr.name);
    return member == nullptr ? Value() : *member;
  }
  if (!value.is(Kind::Namespace)) return {};
  for (const auto& [name, member] : value.space().members) {
    if (name == expr.name) return member;
  }
  return {};
}

// Members before methods: as Jinja has it for a["b"].
Value Renderer::evaluate_item(const Expr& expr) {
  const Value value = evaluate(*expr.children[0]);
  refuse_undefined(value);
  const Value key = evaluate(*expr.children[1]);
  Value found = item_of(environment_.values, value, key);
  if (!found.is(Kind::Undefined) || !key.is(Kind::Text)) return found;
  if (!value.is(Kind::Namespace)) return method(value, key.text().bytes());
  for (const auto& [name, member] : value.space().members) {
    if (name == key.text().bytes()) return member;
  }
  return {};
}

Value Renderer::evaluate_slice(const Expr& expr) {
  const Value value = evaluate(*expr.children[0]);
  refuse_undefined(value);
  std::array<std::optional<int64_t>, 3> bounds;
  for (size_t i = 0; i < bounds.size(); ++i) {
    if (expr.children[i + 1] == nullptr) continue;
    const Value bound = evaluate(*expr.children[i + 1]);
    if (bound.is(Kind::None)) continue;
    if (!bound.is(Kind::Integer)) {
      throw Fault{text_of("a slice wants whole numbers, got ", kind_text(bound))};
    }
    bounds[i] = bound.integer();
  }
  const Values& values = environment_.values;
  if (!value.is(Kind::Text) && !value.is(Kind::List)) {
    throw Fault{text_of("cannot take a slice of ", kind_text(value))};
  }
  const Range range = range_of(bounds, length_of(values, value));
  if (value.is(Kind::Text)) return slice_of_text(values, value.text(), range);
  values.step(value.list().items.size() / 16);
  std::vector<Value> items = slice(value.list().items, range);
  return value.list().is_tuple ? values.tuple(std::move(items)) : values.list(std::move(items));
}

Arguments Renderer::arguments_of(const Expr& expr) {
  Arguments arguments;
  for (size_t i = 0; i < expr.argument_names.size(); ++i) {
    Value value = evaluate(*expr.children[i + 1]);
    if (expr.argument_names[i].empty()) {
      arguments.positional.push_back(std::move(value));
    } else {
      arguments.named.push_back({.name = expr.argument_names[i], .value = std::move(value)});
    }
  }
  return arguments;
}

Value Renderer::call(const Expr& expr, Arguments arguments) {
  const Expr& callee = *expr.children[0];
  const Value function = evaluate(callee);
  if (function.is(Kind::Undefined) && callee.kind == ExprKind::Attribute) {
    throw Fault{text_of("there is no method ", quoted(callee.name), " here")};
  }
  refuse_undefined(function);
  if (!function.is(Kind::Function)) throw Fault{text_of("cannot call ", kind_text(function))};
  const Function& called = function.function();
  if (called.macro != nullptr) return call_macro(called, arguments);
  return run_builtin(environment_, *called.builtin, called.subject, arguments);
}

Value Renderer::call_macro(const Function& function, const Arguments& arguments) {
  const std::shared_ptr<Scope> defined_in = function.scope.lock();
  if (defined_in == nullptr) {
    throw Fault{text_of("the macro ", quoted(function.macro->name),
                        " is called where what it stood in has ended")};
  }
  const std::shared_ptr<Scope> caller = std::exchange(scope_, std::make_shared<Scope>(defined_in));
  bind(*function.macro, arguments);
  Value out = captured(function.macro->bodies[0]);
  scope_ = caller;
  return out;
}

void Renderer::bind(const Statement& macro, const Arguments& arguments) {
  if (arguments.positional.size() > macro.targets.size()) {
    throw Fault{text_of("the macro ", quoted(macro.name), " takes ", macro.targets.size(),
                        " arguments at most, got ", arguments.positional.size())};
  }
  for (const NamedValue& named : arguments.named) {
    const bool is_known =
        named.name == "caller" ||
        std::any_of(macro.targets.begin(), macro.targets.end(),
                    [&](const Target& target) { return target.name == named.name; });
    if (!is_known) {
      throw Fault{
          text_of("the macro ", quoted(macro.name), " takes no argument ", quoted(named.name))};
    }
    if (named.name == "caller") scope_->set("caller", named.value);
  }
  for (size_t i = 0; i < macro.targets.size(); ++i) {
    const std::string& name = macro.targets[i].name;
    const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const NamedValue& other) { return other.name == name; });
    if (i < arguments.positional.size()) {
      scope_->set(name, arguments.positional[i]);
    } else if (named != arguments.named.end()) {
      scope_->set(name, named->value);
    } else {
      const Expr* otherwise = macro.expressions[i].get();
      scope_->set(name, otherwise == nullptr ? Value() : evaluate(*otherwise));
    }
  }
}

Value Renderer::evaluate_builtin(const Expr& expr) {
  const Expr* input = expr.children[0].get();
  const Value subject = input == nullptr ? std::exchange(block_text_, Value()) : evaluate(*input);
  if (expr.builtin == nullptr) {
    throw Fault{text_of("the ", expr.kind == ExprKind::Filter ? "filter " : "test ",
                        quoted(expr.name), " is not supported")};
  }
  return run_builtin(environment_, *expr.builtin, subject, arguments_of(expr));
}

Value Renderer::evaluate_conditional(const Expr& expr) {
  if (is_true(evaluate(*expr.children[1]))) return evaluate(*expr.children[0]);
  return expr.children[2] == nullptr ? Value(Undefined{&expr}) : evaluate(*expr.children[2]);
}

Value Renderer::evaluate_arithmetic(const Expr& expr) {
  const Value left = evaluate(*expr.children[0]);
  refuse_undefined(left);
  if (expr.kind == ExprKind::Negative) return negated(left);
  if (expr.kind == ExprKind::Positive) {
    if (!is_number(left)) throw Fault{text_of("a sign before ", kind_text(left))};
    return left.is(Kind::Bool) ? Value(int64_t{left.boolean()}) : left;
  }
  const Value right = evaluate(*expr.children[1]);
  refuse_undefined(right);
  return calculate(environment_.values, expr.operators[0], left, right);
}

// a < b < c: each with its neighbour, as far as they hold.
Value Renderer::evaluate_compare(const Expr& expr) {
  Value left = evaluate(*expr.children[0]);
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    Value right = evaluate(*expr.children[i + 1]);
    if (!compare(environment_.values, expr.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Renderer::evaluate_concat(const Expr& expr) {
  TextBuilder out(&environment_.budget);
  for (const ExprPtr& child : expr.children) environment_.values.write_str(out, evaluate(*child));
  return environment_.values.text(out.text());
}

}  // namespace rlx::jinja
