// SPDX-License-Identifier: Apache-2.0
// `rlxc tokenize` as a user would run it.
#include <nlohmann/json.hpp>

#include "tests/rlxc/tool_run.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_writer.h"
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
                           ": the plan has no text section: its model's file had no tokenizer that "
                           "is read; rlxc --tokenizer FILE gives a plan one\n");
  CHECK(place.rlxc({"tokenize", plan}).exit_code == 1);
  CHECK(place.rlxc({"tokenize", plan, "--text", "a", "--ids", "1"}).exit_code == 1);
}

TEST_CASE("any plan carries the tokenizer that it is given") {
  const Workplace place;
  const std::string model = place.write("m.json", small_model());
  const std::string words = place.write("words/tokenizer.json", R"({
      "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "work": 3, "##ing": 4, "!": 5}},
      "normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"},
      "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", 2]},
      "decoder": {"type": "WordPiece", "prefix": "##"}})");
  const std::string list = place.write("list/vocab.txt", "[UNK]\r\n[CLS]\n<end>\nwork\n##ing\n!");
  place.write("list/tokenizer_config.json", R"({"sep_token": {"content": "<end>"}})");
  for (const std::string& given : {words, place.path("words"), list, place.path("list")}) {
    const std::string plan = place.path("m.plan");
    const ToolResult made = place.rlxc(
        {model, "-o", plan, "--target", "vulkan", "--dim", "batch=2", "-q", "--tokenizer", given});
    INFO(made.errors);
    REQUIRE(made.exit_code == 0);
    const ToolResult ids =
        place.rlxc({"tokenize", plan, "--text", "W\u00D3rking! play", "--add-special", "--json"});
    CHECK(nlohmann::json::parse(ids.output)["ids"] == nlohmann::json({1, 3, 4, 5, 0, 2}));
    CHECK(place.rlxc({"tokenize", plan, "--ids", "3,4,5"}).output == "working!\n");
  }
  GgufWriter gguf;
  gguf.key("tokenizer.ggml.model", std::string("bert"));
  gguf.key("tokenizer.ggml.tokens",
           std::vector<std::string>{"[UNK]", "[CLS]", "[SEP]", "\u2581work", "ing"});
  const std::string given = place.write("words.gguf", gguf.bytes());
  const std::string plan = place.path("gguf.plan");
  REQUIRE(place
              .rlxc({model, "-o", plan, "--target", "vulkan", "--dim", "batch=2", "-q",
                     "--tokenizer", given})
              .exit_code == 0);
  const ToolResult ids =
      place.rlxc({"tokenize", plan, "--text", "Working x", "--add-special", "--json"});
  CHECK(nlohmann::json::parse(ids.output)["ids"] == nlohmann::json({1, 3, 4, 0, 2}));
  const auto refused = [&](const std::string& tokenizer) {
    const ToolResult result = place.rlxc({model, "-o", place.path("no.plan"), "--target", "vulkan",
                                          "--dim", "batch=2", "--tokenizer", tokenizer});
    CHECK(result.exit_code == 2);
    return result.errors;
  };
  CHECK(refused(place.write("twice.txt", "[UNK]\n[CLS]\n[SEP]\n[CLS]\n"))
            .find("a list of words that has \"[CLS]\" twice is not read") != std::string::npos);
  CHECK(refused(place.write("few.txt", "[UNK]\na\n"))
            .find("begins text with \"[CLS]\", which is no token") != std::string::npos);
  const auto has = [](const std::string& text, const std::string& part) {
    INFO(text);
    return text.find(part) != std::string::npos;
  };
  CHECK(has(refused(place.path("none.json")), "give a tokenizer.json"));
  CHECK(has(refused(place.write("level.json", R"({"model": {"type": "WordLevel"}})")),
            "a tokenizer of type \"WordLevel\" is not read"));
}
