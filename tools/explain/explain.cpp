// SPDX-License-Identifier: Apache-2.0
// The texts stand in diagnostics.def and rules.def.
#include "tools/explain/explain.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "compiler/support/diagnostics.h"
#include "runtime/verify/verify.h"

namespace rlx {
namespace {

struct Texts {
  const char* cause;
  const char* example;
  const char* cure;
};

// By name, so that a code of diag_codes.def without a text, or a text without a code, does not
// compile.
namespace diagnostic_texts {
#define RLX_EXPLAIN(name, cause, example, cure) constexpr Texts name{cause, example, cure};
#include "tools/explain/diagnostics.def"
#undef RLX_EXPLAIN
}  // namespace diagnostic_texts

struct RuleTexts {
  const char* example;
  const char* cure;  // null: the group's
};

namespace rule_texts {
#define RLX_EXPLAIN_GROUP(number, cause, cure)
#define RLX_EXPLAIN_RULE(name, example, cure) constexpr RuleTexts name{example, cure};
#include "tools/explain/rules.def"
#undef RLX_EXPLAIN_RULE
#undef RLX_EXPLAIN_GROUP
}  // namespace rule_texts

struct GroupTexts {
  int number;
  const char* cause;
  const char* cure;
};

constexpr std::array kGroups = {
#define RLX_EXPLAIN_GROUP(number, cause, cure) GroupTexts{number, cause, cure},
#define RLX_EXPLAIN_RULE(name, example, cure)
#include "tools/explain/rules.def"
#undef RLX_EXPLAIN_RULE
#undef RLX_EXPLAIN_GROUP
};

constexpr const GroupTexts& group_of(std::string_view code) {
  int number = 0;
  for (size_t i = 1; i < code.size() && code[i] != '.'; ++i) number = number * 10 + (code[i] - '0');
  for (const GroupTexts& group : kGroups) {
    if (group.number == number) return group;
  }
  throw "a rule without a group";  // does not compile: every use is a constant
}

Explanation of_diagnostic(std::string_view code, const Texts& texts) {
  return {.code = std::string(code),
          .law = {},
          .cause = texts.cause,
          .example = std::string(texts.example) + " [" + std::string(code) + "]",
          .cure = texts.cure};
}

Explanation of_rule(std::string_view code, std::string_view law, const GroupTexts& group,
                    const RuleTexts& texts) {
  return {.code = std::string(code),
          .law = std::string(law),
          .cause = group.cause,
          .example = texts.example,
          .cure = texts.cure == nullptr ? group.cure : texts.cure};
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

}  // namespace

std::vector<Explanation> explanations() {
  std::vector<Explanation> all;
#define RLX_DIAG(name, code) all.push_back(of_diagnostic(code, diagnostic_texts::name));
#include "compiler/support/diag_codes.def"
#undef RLX_DIAG
#define RLX_VERIFY_RULE(name, code, law)                         \
  {                                                              \
    static constexpr const GroupTexts& kGroup = group_of(code);  \
    all.push_back(of_rule(code, law, kGroup, rule_texts::name)); \
  }
#include "runtime/verify/verify_rules.def"
#undef RLX_VERIFY_RULE
  return all;
}

std::optional<Explanation> find_explanation(std::string_view code) {
  if (code.starts_with('[') && code.ends_with(']') && code.size() > 2)
    code = code.substr(1, code.size() - 2);
  if (code.ends_with(':')) code.remove_suffix(1);
  for (Explanation& explanation : explanations()) {
    if (lower_case(explanation.code) == lower_case(code)) return std::move(explanation);
  }
  return std::nullopt;
}

std::string explanation_text(const Explanation& explanation) {
  std::string text = explanation.code + "\n";
  if (!explanation.law.empty()) text += "  law      " + explanation.law + "\n";
  return text + "  cause    " + explanation.cause + "\n  example  " + explanation.example +
         "\n  cure     " + explanation.cure + "\n";
}

std::string explanations_markdown() {
  std::string page =
      "# Codes of messages\n\n"
      "Made by `rlxc explain --markdown`; `rlxc explain CODE` tells one of them. Codes in words "
      "end "
      "messages of the compiler, codes with a V begin those of the verifier, which `rlxc` and "
      "every "
      "runtime ask before a plan is used.\n\n## The compiler's\n";
  bool in_rules = false;
  for (const Explanation& explanation : explanations()) {
    if (!explanation.law.empty() && !in_rules) page += "\n## The verifier's\n";
    in_rules = !explanation.law.empty();
    page += "\n### " + explanation.code + "\n\n";
    if (in_rules) page += "Of every good plan: " + explanation.law + ".\n\n";
    page += explanation.cause + "\n\n```\n" + explanation.example + "\n```\n\n" + explanation.cure +
            "\n";
  }
  return page;
}

}  // namespace rlx
