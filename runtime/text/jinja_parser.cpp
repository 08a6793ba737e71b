// SPDX-License-Identifier: Apache-2.0
// Statements of a template. Expressions are in jinja_expressions.cpp.
#include "runtime/text/jinja_parser.h"

#include <algorithm>
#include <array>

#include "runtime/base/text.h"

namespace rlx::jinja {
namespace {

// Tags that end or divide a block: where one stands alone, its beginning is missing.
constexpr std::array<std::string_view, 11> kInnerTags = {
    "elif",    "else",      "endif",   "endfor",        "endset", "endmacro",
    "endcall", "endfilter", "endwith", "endgeneration", "endraw"};

// Jinja's other tags: what they would do is not done, so a template that has one is refused.
constexpr std::array<std::string_view, 13> kOtherTags = {
    "include",    "import",        "from",  "extends",  "block",     "endblock", "do",
    "autoescape", "endautoescape", "trans", "endtrans", "pluralize", "debug"};

template <size_t N>
bool is_among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class StatementParser {
 public:
  explicit StatementParser(Parser& in) : in_(in) {}

  // Until one of `ends`, whose tag is opened and whose name is taken: which; the end of the
  // template where there are no `ends`.
  Body body(std::string_view opener, Place opened_at, std::initializer_list<std::string_view> ends,
            std::string* ended_by = nullptr) {
    const Parser::Deeper deeper(in_);
    Body out;
    while (in_.token().kind != TokenKind::End) {
      if (in_.token().kind != TokenKind::BlockBegin) {
        plain(out);
        continue;
      }
      in_.next();
      const std::string name = in_.name("a tag's name");
      if (std::find(ends.begin(), ends.end(), name) != ends.end()) {
        if (ended_by != nullptr) *ended_by = name;
        return out;
      }
      tag(name, out);
    }
    if (ends.size() > 0) {
      fail(opened_at, text_of("this {% ", opener, " %} has no end: {% ", *(ends.end() - 1), " %}"));
    }
    return out;
  }

 private:
  void plain(Body& out) {
    Statement statement{.at = in_.token().at};
    if (in_.token().kind == TokenKind::Text) {
      statement.text = in_.take().text;
    } else {
      in_.expect(TokenKind::OutputBegin);
      statement.kind = StatementKind::Output;
      statement.expressions.push_back(in_.tuple());
      in_.expect(TokenKind::OutputEnd);
    }
    out.push_back(std::move(statement));
  }

  void tag(const std::string& name, Body& out) {
    using Parse = void (StatementParser::*)(Statement&);
    struct Row {
      std::string_view name;
      StatementKind kind;
      Parse parse;
    };
    static constexpr std::array<Row, 10> kRows = {{
        {"if", StatementKind::If, &StatementParser::parse_if},
        {"for", StatementKind::For, &StatementParser::parse_for},
        {"set", StatementKind::Set, &StatementParser::parse_set},
        {"macro", StatementKind::Macro, &StatementParser::parse_macro},
        {"call", StatementKind::CallBlock, &StatementParser::parse_call},
        {"filter", StatementKind::Filter, &StatementParser::parse_filter},
        {"with", StatementKind::With, &StatementParser::parse_with},
        {"generation", StatementKind::Scope, &StatementParser::parse_generation},
        {"break", StatementKind::Break, &StatementParser::parse_loop_control},
        {"continue", StatementKind::Continue, &StatementParser::parse_loop_control},
    }};
    Statement statement{.at = in_.previous().at, .name = name};
    const auto* row = std::find_if(kRows.begin(), kRows.end(),
                                   [&](const Row& other) { return other.name == name; });
    if (row == kRows.end()) return other_tag(name, out);
    statement.kind = row->kind;
    (this->*row->parse)(statement);
    close();
    out.push_back(std::move(statement));
  }

  // Is named among what is unsupported, and fails where it is reached; what it holds is parsed like
  // the rest.
  void other_tag(const std::string& name, Body& out) {
    const Place at = in_.previous().at;
    if (is_among(kInnerTags, name))
      fail(at, text_of("{% ", name, " %} ends or divides nothing here"));
    if (!is_among(kOtherTags, name)) fail(at, text_of("there is no tag {% ", name, " %}"));
    if (name.substr(0, 3) != "end") {
      in_.unsupported(at, text_of("the tag {% ", name, " %}"));
      out.push_back({.kind = StatementKind::Unsupported,
                     .at = at,
                     .text = text_of("the tag {% ", name, " %} is not supported")});
    }
    while (in_.token().kind != TokenKind::BlockEnd && in_.token().kind != TokenKind::End)
      in_.next();
    close();
  }

  void close() { in_.expect(TokenKind::BlockEnd); }

  void parse_if(Statement& statement) {
    std::string ended_by = "elif";
    while (ended_by == "elif") {
      statement.expressions.push_back(in_.tuple());
      close();
      statement.bodies.push_back(body("if", statement.at, {"elif", "else", "endif"}, &ended_by));
    }
    if (ended_by == "endif") return;
    close();
    statement.bodies.push_back(body("if", statement.at, {"endif"}));
  }

  void parse_for(Statement& statement) {
    in_.targets(statement.targets);
    in_.expect_word("in");
    statement.expressions.push_back(in_.tuple_without_condition());
    statement.expressions.push_back(in_.take_word("if") ? in_.expression() : nullptr);
    if (in_.take_word("recursive")) in_.unsupported(in_.previous().at, "a recursive loop");
    close();
    std::string ended_by;
    ++loops_;
    statement.bodies.push_back(body("for", statement.at, {"else", "endfor"}, &ended_by));
    --loops_;
    if (ended_by == "endfor") return;
    close();
    statement.bodies.push_back(body("for", statement.at, {"endfor"}));
  }

  void parse_set(Statement& statement) {
    in_.targets(statement.targets, true);
    if (in_.take_symbol("=")) {
      statement.expressions.push_back(in_.tuple());
      return;
    }
    statement.kind = StatementKind::SetBlock;
    statement.expressions.push_back(in_.is_symbol("|") ? in_.filters(nullptr) : nullptr);
    close();
    statement.bodies.push_back(body("set", statement.at, {"endset"}));
  }

  void parameters(Statement& macro) {
    in_.expect_symbol("(");
    while (!in_.take_symbol(")")) {
      if (!macro.targets.empty()) in_.expect_symbol(",");
      macro.targets.push_back({.name = in_.variable(), .member = {}});
      const bool has_default = in_.take_symbol("=");
      const bool wants_default = !macro.expressions.empty() && macro.expressions.back() != nullptr;
      if (wants_default && !has_default) {
        fail(in_.previous().at, "a parameter without a default stands behind one that has one");
      }
      macro.expressions.push_back(has_default ? in_.expression() : nullptr);
    }
  }

  // Loops around a macro are not those of its body.
  void macro_body(Statement& macro, std::string_view opener, std::string_view end) {
    close();
    const uint32_t loops = std::exchange(loops_, 0);
    macro.bodies.push_back(body(opener, macro.at, {end}));
    loops_ = loops;
  }

  void parse_macro(Statement& statement) {
    statement.name = in_.variable();
    in_.defines(statement.name);
    parameters(statement);
    macro_body(statement, "macro", "endmacro");
  }

  void parse_call(Statement& statement) {
    statement.macro = std::make_unique<Statement>(
        Statement{.kind = StatementKind::Macro, .at = statement.at, .name = "caller"});
    if (in_.is_symbol("(")) parameters(*statement.macro);
    statement.expressions.push_back(in_.expression());
    if (statement.expressions[0]->kind != ExprKind::Call)
      fail(statement.at, "{% call %} wants a call");
    macro_body(*statement.macro, "call", "endcall");
  }

  void parse_filter(Statement& statement) {
    statement.expressions.push_back(in_.block_filters());
    close();
    statement.bodies.push_back(body("filter", statement.at, {"endfilter"}));
  }

  void parse_with(Statement& statement) {
    while (in_.token().kind != TokenKind::BlockEnd) {
      if (!statement.targets.empty()) in_.expect_symbol(",");
      statement.targets.push_back({.name = in_.variable(), .member = {}});
      in_.defines(statement.targets.back().name);
      in_.expect_symbol("=");
      statement.expressions.push_back(in_.expression());
    }
    close();
    statement.bodies.push_back(body("with", statement.at, {"endwith"}));
  }

  void parse_generation(Statement& statement) {
    close();
    const uint32_t loops = std::exchange(loops_, 0);
    statement.bodies.push_back(body("generation", statement.at, {"endgeneration"}));
    loops_ = loops;
  }

  void parse_loop_control(Statement& statement) {
    if (loops_ == 0) fail(statement.at, text_of("{% ", statement.name, " %} stands in no loop"));
  }

  Parser& in_;
  uint32_t loops_ = 0;
};

}  // namespace

Body parse_template(Parser& parser) {
  return StatementParser(parser).body("template", 0, {});
}

std::variant<Tree, Problem> parse(std::string source) {
  if (source.size() > kMostTemplateBytes) {
    return Problem{.message = text_of("the template has ", bytes_text(source.size()), ", at most ",
                                      bytes_text(kMostTemplateBytes), " are read")};
  }
  try {
    Tree tree{.source = std::move(source)};
    Parser parser(tokens_of(tree.source), tree.unsupported);
    tree.body = parse_template(parser);
    parser.check_functions();
    return tree;
  } catch (Problem& problem) {
    return std::move(problem);
  }
}

}  // namespace rlx::jinja
