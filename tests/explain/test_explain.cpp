// SPDX-License-Identifier: Apache-2.0
// Laws of the explanations of codes. That each code has one, the compiler sees to.
#include <set>

#include "compiler/support/diagnostics.h"
#include "runtime/verify/verify.h"
#include "tests/support/catch.h"
#include "tools/explain/explain.h"

namespace rlx::test {
namespace {

TEST_CASE("every_code_of_the_compiler_and_of_the_verifier_is_explained_once") {
  std::set<std::string> codes;
  for (const Explanation& explanation : explanations()) {
    INFO(explanation.code);
    CHECK(codes.insert(explanation.code).second);
    for (const std::string& text : {explanation.cause, explanation.cure}) {
      CHECK(text.size() > 20);
      CHECK(text.back() == '.');
    }
    CHECK_FALSE(explanation.example.empty());
  }
  size_t wanted = all_verify_rules().size();
  for (const VerifyRuleText& rule : all_verify_rules())
    CHECK(codes.contains(std::string(rule.code)));
#define RLX_DIAG(name, code) \
  ++wanted;                  \
  CHECK(codes.contains(std::string(diag_code_text(DiagCode::name))));
#include "compiler/support/diag_codes.def"
#undef RLX_DIAG
  CHECK(codes.size() == wanted);
}

TEST_CASE("an_example_carries_its_code_where_messages_do") {
  for (const Explanation& explanation : explanations()) {
    INFO(explanation.example);
    if (explanation.law.empty()) {
      CHECK(explanation.example.ends_with("[" + explanation.code + "]"));
    } else {
      CHECK(explanation.example.starts_with(explanation.code + ": "));
    }
  }
}

TEST_CASE("a_code_is_found_as_it_stands_in_a_message") {
  CHECK(find_explanation("[bad-axis]")->code == "bad-axis");
  CHECK(find_explanation("v7.4:")->code == "V7.4");
  CHECK(find_explanation("V7.4")->law == "a relocation's range lies in its value");
  CHECK_FALSE(find_explanation("V7").has_value());
  CHECK_FALSE(find_explanation("").has_value());
}

}  // namespace
}  // namespace rlx::test
