// SPDX-License-Identifier: Apache-2.0
// The parser's hold on a template's tokens, and the expressions.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/jinja_lexer.h"
#include "runtime/text/jinja_tree.h"

namespace rlx::jinja {

class Parser;
// All of a template.
Body parse_template(Parser& parser);

// Throws a Problem where the tokens are no template. What is one and unsupported goes on a list.
class Parser {
 public:
  // One more level of what stands in each other, for as long as it lives.
  class Deeper {
   public:
    explicit Deeper(Parser& parser);
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Parser& parser_;
  };

  Parser(std::vector<Token> tokens, std::vector<Problem>& unsupported)
      : tokens_(std::move(tokens)), unsupported_(unsupported) {}

  [[nodiscard]] const Token& token() const { return tokens_[at_]; }
  // The token that was taken last. Precondition: there is one.
  [[nodiscard]] const Token& previous() const { return tokens_[at_ - 1]; }
  [[nodiscard]] bool is_symbol(std::string_view symbol) const;
  void next() { ++at_; }
  Token& take() { return tokens_[at_++]; }
  void expect(TokenKind kind);
  void expect_symbol(std::string_view symbol);
  void expect_word(std::string_view word);
  bool take_symbol(std::string_view symbol);
  bool take_word(std::string_view word);
  std::string name(std::string_view what);
  // A name that is none of the language's own words.
  std::string variable();
  // What a loop or `set` assigns to.
  void targets(std::vector<Target>& targets, bool takes_members = false);

  ExprPtr expression();
  // Expressions with commas between them are a tuple.
  ExprPtr tuple();
  // The same where an `if` behind it is not its own.
  ExprPtr tuple_without_condition();
  // "| name | name": filters of `value`; NULL: of what a block renders.
  ExprPtr filters(ExprPtr value);
  // "name | name" of {% filter %}.
  ExprPtr block_filters();

  void unsupported(Place at, std::string what);
  // A function may have the name.
  void defines(const std::string& name) { defined_.insert(name); }
  // Names that are called must be functions, or defined somewhere.
  void check_functions();

 private:
  ExprPtr tuple_of(ExprPtr (Parser::*item)());
  ExprPtr either();
  ExprPtr both();
  ExprPtr negation();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr signed_value();
  ExprPtr unary();
  ExprPtr primary();
  ExprPtr named();
  ExprPtr string();
  ExprPtr parenthesised();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr value);
  ExprPtr attribute(ExprPtr value);
  ExprPtr subscript(ExprPtr value);
  ExprPtr call(ExprPtr function);
  ExprPtr filter(ExprPtr value);
  ExprPtr test(ExprPtr value);
  ExprPtr filters_and_tests(ExprPtr value);
  void arguments(Expr& call);
  std::string dotted_name();
  [[nodiscard]] bool begins_test_argument() const;
  [[nodiscard]] bool is_word(std::string_view word) const;
  [[noreturn]] void fail_here(std::string_view wanted) const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t depth_ = 0;
  std::vector<Problem>& unsupported_;
  struct CalledName {
    std::string name;
    Place at = 0;
  };
  std::vector<CalledName> called_;
  std::set<std::string, std::less<>> defined_ = {"caller"};
};

}  // namespace rlx::jinja
