// SPDX-License-Identifier: Apache-2.0
// rlx_text.h: conversations, and the next token.
#include <memory>
#include <string>
#include <vector>

#include "runtime/include/rlx_text.h"
#include "tests/support/catch.h"
#include "tests/support/text_fixture.h"

using namespace rlx::test;

namespace {

struct ChatCloser {
  void operator()(rlx_text* text) const { rlx_text_close(text); }
  void operator()(rlx_text_sampler* sampler) const { rlx_text_sampler_close(sampler); }
};
template <class Handle>
using Opened = std::unique_ptr<Handle, ChatCloser>;

Opened<rlx_text> chat_text() {
  TextSpec spec = small_text();
  spec.templates = {
      {"",
       "{{ bos_token }}{% for m in messages %}<|begin|>{{ m.role }}:{{ m.content }}<|end|>"
       "{% endfor %}{% if add_generation_prompt %}>{% endif %}"},
      {"shows", "{{ tools is none }}{{ x }}{{ strftime_now('%Y') }}{{ messages|length }}"}};
  const std::vector<std::byte> section = serialise(spec);
  rlx_text* text = nullptr;
  REQUIRE(rlx_text_open_memory(section.data(), section.size(), &text) == RLX_OK);
  return Opened<rlx_text>(text);
}

rlx_text_chat_options options_of(const char* name = nullptr, const char* variables = nullptr) {
  rlx_text_chat_options options = RLX_INIT(rlx_text_chat_options);
  options.template_name = name;
  options.variables_json = variables;
  return options;
}

std::string render(const rlx_text* text, const std::vector<rlx_text_message>& messages,
                   const rlx_text_chat_options& options) {
  size_t size = 0;
  REQUIRE(rlx_text_render(text, messages.data(), messages.size(), &options, nullptr, 0, &size) ==
          RLX_OK);
  std::string out(size, ' ');
  REQUIRE(rlx_text_render(text, messages.data(), messages.size(), &options, out.data(), size,
                          &size) == RLX_OK);
  return out;
}

void check_refused(const rlx_text* text, const std::vector<rlx_text_message>& messages,
                   const rlx_text_chat_options& options, const std::string& message) {
  size_t size = 5;
  CHECK(rlx_text_render(text, messages.data(), messages.size(), &options, nullptr, 0, &size) ==
        RLX_INVALID_ARGUMENT);
  CHECK(rlx_text_last_error() == message);
  CHECK(size == 5);
}

}  // namespace

TEST_CASE("a conversation becomes ids whose control tokens are the template's alone") {
  const Opened<rlx_text> text = chat_text();
  rlx_text_chat_options options = options_of();
  options.add_reply_start = 1;
  const std::string typed = "<|end|>";
  const std::vector<rlx_text_message> messages = {{"user", typed.data(), typed.size()}};
  const std::string rendered = render(text.get(), messages, options);
  CHECK(rendered == "<|begin|><|begin|>user:<|end|><|end|>>");
  std::vector<int32_t> ids(rendered.size());
  size_t count = 0;
  REQUIRE(rlx_text_chat(text.get(), messages.data(), 1, &options, ids.data(), ids.size(), &count) ==
          RLX_OK);
  rlx_text_info info = RLX_INIT(rlx_text_info);
  REQUIRE(rlx_text_get_info(text.get(), &info) == RLX_OK);
  // Two that begin, "user:", seven bytes that were typed, one that ends, ">".
  REQUIRE(count == 2 + 5 + 7 + 1 + 1);
  CHECK(ids[0] == info.begin);
  CHECK(ids[1] == info.begin);
  CHECK(ids[7] == '<');
  CHECK(ids[13] == '>');
  CHECK(ids[14] == info.end);
  CHECK(ids[15] == '>');
}

TEST_CASE("a template sees the caller's variables and the caller's time") {
  const Opened<rlx_text> text = chat_text();
  rlx_text_chat_options options = options_of("shows", R"({"x": [1, "ä"]})");
  options.now_unix_seconds = 1753440896;
  CHECK(render(text.get(), {}, options) == "True[1, 'ä']20250");
  CHECK(render(text.get(), {}, options_of("shows", R"({"messages": [1, 2], "tools": 3})")) ==
        "False19702");
  const std::vector<rlx_text_message> broken = {{"user", "a\xFF", 2}};
  CHECK(render(text.get(), broken, options_of()) == "<|begin|><|begin|>user:a\uFFFD<|end|>");
}

TEST_CASE("options of a conversation that mean nothing are refused") {
  const Opened<rlx_text> text = chat_text();
  const std::vector<rlx_text_message> one = {{"user", "a", 1}};
  check_refused(text.get(), one, options_of("tool_use"),
                "the plan has no chat template \"tool_use\", it has: \"\" and \"shows\"");
  check_refused(text.get(), one, options_of(nullptr, "[1]"),
                "variables_json is a list, wanted an object");
  check_refused(text.get(), one, options_of(nullptr, "{"), "variables_json, byte 1: expected \"");
  check_refused(text.get(), one, options_of(nullptr, R"({"messages": []})"),
                "variables_json sets messages, and there are messages beside it: give one of them");
  check_refused(text.get(), one, options_of(nullptr, R"({"add_generation_prompt": true})"),
                "variables_json sets add_generation_prompt: set add_reply_start instead");
  check_refused(text.get(), {{nullptr, "a", 1}}, options_of(), "argument messages[0].role is NULL");
  check_refused(text.get(), {{"user", nullptr, 1}}, options_of(),
                "argument messages[0].content is NULL");
  rlx_text_chat_options options = options_of();
  options.now_unix_seconds = INT64_MAX;
  check_refused(text.get(), one, options,
                "argument options has now_unix_seconds 9223372036854775807, wanted a time of the "
                "years 1 to 9999");
  options = options_of();
  options.add_reply_start = 2;
  check_refused(text.get(), one, options,
                "argument options has add_reply_start 2, it must be 0 or 1");
}

TEST_CASE("a sampler outlives the text it is of, and repeats its draws") {
  Opened<rlx_text> text = chat_text();
  rlx_text_info info = RLX_INIT(rlx_text_info);
  REQUIRE(rlx_text_get_info(text.get(), &info) == RLX_OK);
  rlx_text_sampling sampling = RLX_INIT(rlx_text_sampling);
  sampling.temperature = 1;
  sampling.seed = 5;
  rlx_text_sampler* made = nullptr;
  REQUIRE(rlx_text_sampler_create(text.get(), &sampling, &made) == RLX_OK);
  const Opened<rlx_text_sampler> sampler(made);
  text.reset();
  const std::vector<float> logits(info.token_count);
  std::vector<int32_t> chosen(4);
  for (int32_t& id : chosen) {
    REQUIRE(rlx_text_sampler_choose(made, logits.data(), logits.size(), &id) == RLX_OK);
  }
  CHECK(chosen[0] != chosen[1]);
  REQUIRE(rlx_text_sampler_reset(made, 2) == RLX_OK);
  REQUIRE(rlx_text_sampler_accept(made, chosen[0]) == RLX_OK);
  int32_t again = -1;
  REQUIRE(rlx_text_sampler_choose(made, logits.data(), logits.size(), &again) == RLX_OK);
  CHECK(again == chosen[2]);
  CHECK(rlx_text_sampler_choose(made, logits.data(), 3, &again) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_text_sampler_choose(made, nullptr, 3, &again) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_text_sampler_accept(made, -1) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_text_sampler_accept(nullptr, 1) == RLX_INVALID_ARGUMENT);
  CHECK(again == chosen[2]);
}
