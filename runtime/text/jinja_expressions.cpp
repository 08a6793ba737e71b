// SPDX-License-Identifier: Apache-2.0
// Expressions of a template, by Jinja's precedences.
#include <algorithm>
#include <array>

#include "runtime/base/text.h"
#include "runtime/text/jinja_builtin.h"
#include "runtime/text/jinja_parser.h"

namespace rlx::jinja {
namespace {

constexpr uint32_t kMostDepth = 100;  // of what stands in each other

constexpr std::array<std::string_view, 8> kWords = {"and", "or", "not",  "in",
                                                    "is",  "if", "else", "elif"};

struct OperatorRow {
  std::string_view symbol;
  Operator meaning;
};
constexpr std::array<OperatorRow, 7> kArithmetic = {{{"+", Operator::Add},
                                                     {"-", Operator::Subtract},
                                                     {"*", Operator::Multiply},
                                                     {"/", Operator::Divide},
                                                     {"//", Operator::FloorDivide},
                                                     {"%", Operator::Remainder},
                                                     {"**", Operator::Power}}};
constexpr std::array<OperatorRow, 6> kComparisons = {{{"==", Operator::Equal},
                                                      {"!=", Operator::Unequal},
                                                      {"<", Operator::Less},
                                                      {"<=", Operator::LessOrEqual},
                                                      {">", Operator::Greater},
                                                      {">=", Operator::GreaterOrEqual}}};

template <size_t N>
const OperatorRow* find_operator(const std::array<OperatorRow, N>& rows, const Token& token) {
  if (token.kind != TokenKind::Symbol) return nullptr;
  const auto* row = std::find_if(rows.begin(), rows.end(), [&](const OperatorRow& other) {
    return other.symbol == token.text;
  });
  return row == rows.end() ? nullptr : row;
}

ExprPtr make(ExprKind kind, Place at) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->at = at;
  return expr;
}

// Long chains are deep on their left side, though no function called itself to read them.
void adopt(Expr& expr, ExprPtr child) {
  if (child != nullptr) expr.depth = std::max(expr.depth, child->depth + 1);
  if (expr.depth > kMostDepth) {
    fail(expr.at, text_of("an expression of more than ", kMostDepth, " parts in each other"));
  }
  expr.children.push_back(std::move(child));
}

template <class... Children>
ExprPtr make(ExprKind kind, Place at, Children... children) {
  ExprPtr expr = make(kind, at);
  (adopt(*expr, std::move(children)), ...);
  return expr;
}

ExprPtr constant(Place at, Value value) {
  ExprPtr expr = make(ExprKind::Constant, at);
  expr->constant = std::move(value);
  return expr;
}

std::string token_text(const Token& token) {
  switch (token.kind) {
    case TokenKind::End:
      return "the template's end";
    case TokenKind::BlockEnd:
      return "the tag's end";
    case TokenKind::OutputEnd:
      return "the output's end";
    case TokenKind::String:
      return text_of("the string ", quoted(token.text));
    case TokenKind::Integer:
    case TokenKind::Float:
      return "a number";
    default:
      return quoted(token.text);
  }
}

}  // namespace

Parser::Deeper::Deeper(Parser& parser) : parser_(parser) {
  if (++parser_.depth_ > kMostDepth) {
    --parser_.depth_;
    fail(parser_.token().at,
         text_of("tags and expressions stand more than ", kMostDepth, " deep in each other"));
  }
}

void Parser::fail_here(std::string_view wanted) const {
  fail(token().at, text_of("expected ", wanted, ", got ", token_text(token())));
}

bool Parser::is_symbol(std::string_view symbol) const {
  return token().kind == TokenKind::Symbol && token().text == symbol;
}

bool Parser::is_word(std::string_view word) const {
  return token().kind == TokenKind::Name && token().text == word;
}

void Parser::expect(TokenKind kind) {
  if (token().kind != kind) {
    fail_here(kind == TokenKind::BlockEnd    ? "the tag's end"
              : kind == TokenKind::OutputEnd ? "the output's end"
                                             : "a tag");
  }
  next();
}

void Parser::expect_symbol(std::string_view symbol) {
  if (!take_symbol(symbol)) fail_here(quoted(symbol));
}

void Parser::expect_word(std::string_view word) {
  if (!take_word(word)) fail_here(quoted(word));
}

bool Parser::take_symbol(std::string_view symbol) {
  const bool is_there = is_symbol(symbol);
  if (is_there) next();
  return is_there;
}

bool Parser::take_word(std::string_view word) {
  const bool is_there = is_word(word);
  if (is_there) next();
  return is_there;
}

std::string Parser::name(std::string_view what) {
  if (token().kind != TokenKind::Name) fail_here(what);
  return take().text;
}

std::string Parser::variable() {
  const bool is_word = std::find(kWords.begin(), kWords.end(), token().text) != kWords.end();
  if (token().kind != TokenKind::Name || is_word) fail_here("a name");
  return take().text;
}

void Parser::targets(std::vector<Target>& targets, bool takes_members) {
  const bool is_bracketed = take_symbol("(");
  do {
    if (!targets.empty() && token().kind != TokenKind::Name) break;
    targets.push_back({.name = variable(), .member = {}});
    defines(targets.back().name);
    if (takes_members && take_symbol(".")) targets.back().member = name("a member's name");
  } while (take_symbol(","));
  if (is_bracketed) expect_symbol(")");
}

void Parser::unsupported(Place at, std::string what) {
  unsupported_.push_back({.at = at, .message = what + " is not supported"});
}

void Parser::check_functions() {
  for (const CalledName& call : called_) {
    if (find_function(call.name) != nullptr || defined_.count(call.name) > 0) continue;
    unsupported(call.at, text_of("the function ", quoted(call.name)));
  }
}

ExprPtr Parser::tuple_of(ExprPtr (Parser::*item)()) {
  const Place at = token().at;
  ExprPtr first = (this->*item)();
  if (!is_symbol(",")) return first;
  ExprPtr tuple = make(ExprKind::Tuple, at, std::move(first));
  while (take_symbol(",")) {
    const TokenKind kind = token().kind;
    const bool is_end = kind == TokenKind::BlockEnd || kind == TokenKind::OutputEnd ||
                        is_symbol(")") || is_word("if");
    if (is_end) break;
    adopt(*tuple, (this->*item)());
  }
  return tuple;
}

ExprPtr Parser::tuple() {
  return tuple_of(&Parser::expression);
}

ExprPtr Parser::tuple_without_condition() {
  return tuple_of(&Parser::either);
}

ExprPtr Parser::expression() {
  const Deeper deeper(*this);
  ExprPtr value = either();
  while (is_word("if")) {
    const Place at = take().at;
    ExprPtr condition = either();
    ExprPtr otherwise = take_word("else") ? expression() : nullptr;
    value = make(ExprKind::Conditional, at, std::move(value), std::move(condition),
                 std::move(otherwise));
  }
  return value;
}

ExprPtr Parser::either() {
  ExprPtr value = both();
  while (is_word("or")) {
    const Place at = take().at;
    value = make(ExprKind::Or, at, std::move(value), both());
  }
  return value;
}

ExprPtr Parser::both() {
  ExprPtr value = negation();
  while (is_word("and")) {
    const Place at = take().at;
    value = make(ExprKind::And, at, std::move(value), negation());
  }
  return value;
}

ExprPtr Parser::negation() {
  if (!is_word("not")) return comparison();
  const Deeper deeper(*this);
  const Place at = take().at;
  return make(ExprKind::Not, at, negation());
}

ExprPtr Parser::comparison() {
  const Place at = token().at;
  ExprPtr value = sum();
  ExprPtr compare;
  while (true) {
    Operator meaning = Operator::In;
    if (const OperatorRow* row = find_operator(kComparisons, token())) {
      meaning = row->meaning;
    } else if (is_word("not") && tokens_[at_ + 1].kind == TokenKind::Name &&
               tokens_[at_ + 1].text == "in") {
      next();
      meaning = Operator::NotIn;
    } else if (!is_word("in")) {
      break;
    }
    next();
    if (compare == nullptr) compare = make(ExprKind::Compare, at, std::move(value));
    adopt(*compare, sum());
    compare->operators.push_back(meaning);
  }
  return compare == nullptr ? std::move(value) : std::move(compare);
}

ExprPtr Parser::sum() {
  ExprPtr value = concatenation();
  while (is_symbol("+") || is_symbol("-")) {
    const OperatorRow* row = find_operator(kArithmetic, token());
    const Place at = take().at;
    value = make(ExprKind::Arithmetic, at, std::move(value), concatenation());
    value->operators.push_back(row->meaning);
  }
  return value;
}

ExprPtr Parser::concatenation() {
  ExprPtr first = product();
  if (!is_symbol("~")) return first;
  ExprPtr value = make(ExprKind::Concat, token().at, std::move(first));
  while (take_symbol("~")) adopt(*value, product());
  return value;
}

ExprPtr Parser::product() {
  ExprPtr value = power();
  while (is_symbol("*") || is_symbol("/") || is_symbol("//") || is_symbol("%")) {
    const OperatorRow* row = find_operator(kArithmetic, token());
    const Place at = take().at;
    value = make(ExprKind::Arithmetic, at, std::move(value), power());
    value->operators.push_back(row->meaning);
  }
  return value;
}

// From the left, as Jinja has it.
ExprPtr Parser::power() {
  ExprPtr value = unary();
  while (is_symbol("**")) {
    const Place at = take().at;
    value = make(ExprKind::Arithmetic, at, std::move(value), unary());
    value->operators.push_back(Operator::Power);
  }
  return value;
}

ExprPtr Parser::unary() {
  return filters_and_tests(signed_value());
}

ExprPtr Parser::signed_value() {
  if (!is_symbol("-") && !is_symbol("+")) return postfix(primary());
  const Deeper deeper(*this);
  const ExprKind kind = is_symbol("-") ? ExprKind::Negative : ExprKind::Positive;
  const Place at = take().at;
  return postfix(make(kind, at, signed_value()));
}

ExprPtr Parser::primary() {
  const Deeper deeper(*this);
  const Token& first = token();
  switch (first.kind) {
    case TokenKind::Name:
      return named();
    case TokenKind::String:
      return string();
    case TokenKind::Integer:
      return constant(first.at, Value(take().integer));
    case TokenKind::Float:
      return constant(first.at, Value(take().real));
    default:
      break;
  }
  if (is_symbol("(")) return parenthesised();
  if (is_symbol("[")) return list();
  if (is_symbol("{")) return dict();
  fail_here("an expression");
}

ExprPtr Parser::named() {
  const Place at = token().at;
  std::string name = variable();
  if (name == "true" || name == "True") return constant(at, Value(true));
  if (name == "false" || name == "False") return constant(at, Value(false));
  if (name == "none" || name == "None") return constant(at, Value(None{}));
  ExprPtr expr = make(ExprKind::Name, at);
  expr->name = std::move(name);
  return expr;
}

// Strings in a row are one.
ExprPtr Parser::string() {
  const Place at = token().at;
  std::string text = take().text;
  while (token().kind == TokenKind::String) text += take().text;
  return constant(at, Values(nullptr).text(text));
}

ExprPtr Parser::parenthesised() {
  const Place at = take().at;
  if (take_symbol(")")) return make(ExprKind::Tuple, at);
  ExprPtr value = tuple();
  expect_symbol(")");
  return value;
}

ExprPtr Parser::list() {
  ExprPtr list = make(ExprKind::List, take().at);
  while (!take_symbol("]")) {
    if (!list->children.empty()) expect_symbol(",");
    if (take_symbol("]")) break;
    adopt(*list, expression());
  }
  return list;
}

ExprPtr Parser::dict() {
  ExprPtr dict = make(ExprKind::Dict, take().at);
  while (!take_symbol("}")) {
    if (!dict->children.empty()) expect_symbol(",");
    if (take_symbol("}")) break;
    adopt(*dict, expression());
    expect_symbol(":");
    adopt(*dict, expression());
  }
  return dict;
}

ExprPtr Parser::postfix(ExprPtr value) {
  while (true) {
    if (take_symbol(".")) {
      value = attribute(std::move(value));
    } else if (take_symbol("[")) {
      value = subscript(std::move(value));
    } else if (is_symbol("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExprPtr Parser::filters_and_tests(ExprPtr value) {
  while (true) {
    if (take_symbol("|")) {
      value = filter(std::move(value));
    } else if (is_word("is")) {
      value = test(std::move(value));
    } else if (is_symbol("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExprPtr Parser::attribute(ExprPtr value) {
  const Place at = token().at;
  if (token().kind == TokenKind::Integer) {
    return make(ExprKind::Item, at, std::move(value), constant(at, Value(take().integer)));
  }
  ExprPtr expr = make(ExprKind::Attribute, at, std::move(value));
  expr->name = name("the name of an attribute");
  return expr;
}

ExprPtr Parser::subscript(ExprPtr value) {
  const Place at = token().at;
  const auto bound = [&]() -> ExprPtr {
    return is_symbol(":") || is_symbol("]") ? nullptr : expression();
  };
  ExprPtr first = bound();
  if (first != nullptr && take_symbol("]")) {
    return make(ExprKind::Item, at, std::move(value), std::move(first));
  }
  ExprPtr slice = make(ExprKind::Slice, at, std::move(value), std::move(first));
  expect_symbol(":");
  adopt(*slice, bound());
  adopt(*slice, take_symbol(":") ? bound() : nullptr);
  expect_symbol("]");
  return slice;
}

void Parser::arguments(Expr& call) {
  expect_symbol("(");
  bool is_first = true;
  while (!take_symbol(")")) {
    if (!std::exchange(is_first, false)) expect_symbol(",");
    if (take_symbol(")")) break;
    if (is_symbol("*") || is_symbol("**"))
      fail(token().at, "arguments by * and ** are not supported");
    const bool is_named = token().kind == TokenKind::Name &&
                          tokens_[at_ + 1].kind == TokenKind::Symbol &&
                          tokens_[at_ + 1].text == "=";
    std::string name = is_named ? take().text : std::string();
    if (is_named) next();
    const bool follows_named = !call.argument_names.empty() && !call.argument_names.back().empty();
    if (!is_named && follows_named)
      fail(token().at, "an argument without a name behind one that has one");
    adopt(call, expression());
    call.argument_names.push_back(std::move(name));
  }
}

ExprPtr Parser::call(ExprPtr function) {
  ExprPtr expr = make(ExprKind::Call, token().at);
  if (function->kind == ExprKind::Name) called_.push_back({function->name, function->at});
  if (function->kind == ExprKind::Attribute && !is_method_name(function->name)) {
    unsupported(function->at, text_of("the method ", quoted(function->name)));
  }
  adopt(*expr, std::move(function));
  arguments(*expr);
  return expr;
}

std::string Parser::dotted_name() {
  std::string out = name("a name");
  while (take_symbol(".")) out += "." + name("a name");
  return out;
}

ExprPtr Parser::filter(ExprPtr value) {
  ExprPtr expr = make(ExprKind::Filter, token().at);
  expr->name = dotted_name();
  expr->builtin = find_filter(expr->name);
  if (expr->builtin == nullptr) unsupported(expr->at, text_of("the filter ", quoted(expr->name)));
  adopt(*expr, std::move(value));
  if (is_symbol("(")) arguments(*expr);
  return expr;
}

ExprPtr Parser::filters(ExprPtr value) {
  while (take_symbol("|")) value = filter(std::move(value));
  return value;
}

ExprPtr Parser::block_filters() {
  return filters(filter(nullptr));
}

bool Parser::begins_test_argument() const {
  switch (token().kind) {
    case TokenKind::Name:
      return !is_word("else") && !is_word("or") && !is_word("and") && !is_word("if") &&
             !is_word("in") && !is_word("not") && !is_word("is");
    case TokenKind::String:
    case TokenKind::Integer:
    case TokenKind::Float:
      return true;
    default:
      return is_symbol("[") || is_symbol("{");
  }
}

ExprPtr Parser::test(ExprPtr value) {
  const Place at = take().at;
  const bool is_negated = take_word("not");
  ExprPtr expr = make(ExprKind::Test, token().at);
  expr->name = dotted_name();
  expr->builtin = find_test(expr->name);
  if (expr->builtin == nullptr) unsupported(expr->at, text_of("the test ", quoted(expr->name)));
  adopt(*expr, std::move(value));
  if (is_symbol("(")) {
    arguments(*expr);
  } else if (begins_test_argument()) {
    adopt(*expr, postfix(primary()));
    expr->argument_names.emplace_back();
  }
  if (is_word("is")) fail(token().at, "a test of a test: put the first into parentheses");
  return is_negated ? make(ExprKind::Not, at, std::move(expr)) : std::move(expr);
}

}  // namespace rlx::jinja
