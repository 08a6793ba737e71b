// SPDX-License-Identifier: Apache-2.0
// A parsed template.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/text/jinja_value.h"

namespace rlx::jinja {

// Byte of the template's text, its line ends being \n alone.
using Place = uint32_t;

enum class ExprKind : uint8_t {
  Constant,
  Name,         // name
  List,         // children
  Tuple,        // children
  Dict,         // children: key, value, key, value..
  Attribute,    // children[0].name
  Item,         // children[0][children[1]]
  Slice,        // children[0][children[1] : children[2] : children[3]], NULL where left out
  Call,         // children[0](children[1]..)
  Filter,       // children[0] | name(children[1]..)
  Test,         // children[0] is name(children[1]..)
  Negative,     // children[0]
  Positive,     // children[0]
  Not,          // children[0]
  And,          // children[0], children[1]
  Or,           // children[0], children[1]
  Conditional,  // children[0] if children[1] else children[2], which is NULL where left out
  Arithmetic,   // children[0] operators[0] children[1]
  Compare,      // children[0] operators[0] children[1] operators[1] children[2]..
  Concat,       // children
};

enum class Operator : uint8_t {
  Add,
  Subtract,
  Multiply,
  Divide,
  FloorDivide,
  Remainder,
  Power,
  Equal,
  Unequal,
  Less,
  LessOrEqual,
  Greater,
  GreaterOrEqual,
  In,
  NotIn
};

struct Expr {
  ExprKind kind = ExprKind::Constant;
  Place at = 0;
  uint32_t depth = 1;  // of expressions in each other
  std::string name;
  Value constant;
  std::vector<std::unique_ptr<Expr>> children;
  std::vector<Operator> operators;
  std::vector<std::string> argument_names;  // of the arguments, "" for one without a name
  const Builtin* builtin = nullptr;         // of Filter and Test; NULL: there is none of that name
};
using ExprPtr = std::unique_ptr<Expr>;

enum class StatementKind : uint8_t {
  Text,       // text
  Output,     // expressions[0]
  If,         // bodies[i] where expressions[i] is the first that is true, else the body behind
  For,        // targets in expressions[0] if expressions[1] (or NULL): bodies[0] else bodies[1]
  Set,        // targets = expressions[0]
  SetBlock,   // targets = bodies[0], through the filters of expressions[0] (or NULL)
  Macro,      // name, targets as parameters with expressions as their defaults (or NULL), bodies[0]
  CallBlock,  // expressions[0], a call whose caller() is `macro`
  Filter,     // bodies[0] through the filters of expressions[0]
  With,       // targets[i] = expressions[i] for bodies[0]
  Scope,      // bodies[0], whose variables end with it
  Break,
  Continue,
  Unsupported  // a tag whose place nothing can take: text says why
};

// What is set: a variable, or a member of a namespace.
struct Target {
  std::string name;
  std::string member;  // "": the variable itself
};

struct Statement {
  StatementKind kind = StatementKind::Text;
  Place at = 0;
  std::string text;
  std::string name;
  std::vector<Target> targets;
  std::vector<ExprPtr> expressions;
  std::vector<std::vector<Statement>> bodies;
  std::unique_ptr<Statement> macro;
};
using Body = std::vector<Statement>;

// A filter's own input where it stands in a block: the expression that is put in its place.
struct Problem {
  Place at = 0;
  std::string message;
};

struct Tree {
  std::string source;  // as it was parsed
  Body body;
  std::vector<Problem> unsupported;  // by name; what uses one fails when it is reached
};

// A template's text: UTF-8 with line ends \n, without one at its end.
std::string normalised_source(std::string_view source);
// Parses a normalised source; a Problem where it is no template.
std::variant<Tree, Problem> parse(std::string source);

// "line 3, column 14" of a place.
std::string place_text(std::string_view source, Place at);

}  // namespace rlx::jinja
