// SPDX-License-Identifier: Apache-2.0
// `rlxc tokenize` as a user would run it.
#include <nlohmann/json.hpp>

#include "tests/rlxc/tool_run.h"
#include "tests/support/catch.h"
#include "tests/support/plan_fixture.h"
#include "tests/support/text_fixture.h"

using namespace rlx::test;

namespace {

std::string write_plan(const Workplace& place, const PlanSpec& spec) {
  const std::vector<std::byte> bytes = serialise(spec);
  return place.write("a.plan", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

PlanSpec plan_with_text() {
  TextSpec text = small_text();
  text.add_begin = true;
  PlanSpec spec = small_plan();
  spec.text = serialise(text);
  return spec;
}

}  // namespace

TEST_CASE("tokenize shows ids and tokens of a text") {
  const Workplace place;
  const std::string plan = write_plan(place, plan_with_text());
  const ToolResult shown = place.rlxc({"tokenize", plan, "--text", "a the\u00E9"});
  CHECK(shown.errors.empty());
  CHECK(shown.exit_code == 0);
  CHECK(shown.output ==
        "     97  \"a\"\n    261  \" the\"\n    195  \"\\xc3\"\n    169  \"\\xa9\"\n");
  const auto json = nlohmann::json::parse(
      place.rlxc({"tokenize", plan, "--text", "a<|end|>", "--special", "--add-special", "--json"})
          .output);
  CHECK(json["ids"] == nlohmann::json({256, 97, 257}));
  CHECK(json["tokens"] == nlohmann::json({"<|begin|>", "a", "<|end|>"}));
  // What a user typed is text.
  CHECK(nlohmann::json::parse(place.rlxc({"tokenize", plan, "--text", "<|end|>", "--json"}).output)
            .at("ids")
            .size() == 7);
}

TEST_CASE("tokenize shows the text of ids") {
  const Workplace place;
  const std::string plan = write_plan(place, plan_with_text());
  CHECK(place.rlxc({"tokenize", plan, "--ids", "256,97,261,195,169"}).output == "a the\u00E9\n");
  CHECK(place.rlxc({"tokenize", plan, "--ids", "256,97", "--special"}).output == "<|begin|>a\n");
  const ToolResult wrong = place.rlxc({"tokenize", plan, "--ids", "262"});
  CHECK(wrong.exit_code == 2);
  CHECK(wrong.errors == "rlxc: error: there is no token 262, the text has 262\n");
}

TEST_CASE("tokenize says where a plan has no text") {
  const Workplace place;
  const std::string plan = write_plan(place, small_plan());
  const ToolResult none = place.rlxc({"tokenize", plan, "--text", "a"});
  CHECK(none.exit_code == 2);
  CHECK(none.errors == "rlxc: error: " + plan +
                           ": the plan has no text section: it was not compiled from a language "
                           "model's file with a tokenizer\n");
  CHECK(place.rlxc({"tokenize", plan}).exit_code == 1);
  CHECK(place.rlxc({"tokenize", plan, "--text", "a", "--ids", "1"}).exit_code == 1);
}
