// SPDX-License-Identifier: Apache-2.0
// rlx_text.h: a plan's text, encoding, decoding as tokens come.
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/include/rlx_text.h"
#include "tests/support/catch.h"
#include "tests/support/plan_fixture.h"
#include "tests/support/text_fixture.h"

using namespace rlx::test;

namespace {

struct Closer {
  void operator()(rlx_plan* plan) const { rlx_plan_close(plan); }
  void operator()(rlx_text* text) const { rlx_text_close(text); }
  void operator()(rlx_text_stream* stream) const { rlx_text_stream_close(stream); }
};
template <class Handle>
using Owned = std::unique_ptr<Handle, Closer>;

Owned<rlx_text> open_small(const TextSpec& spec = small_text()) {
  const std::vector<std::byte> section = serialise(spec);
  rlx_text* text = nullptr;
  REQUIRE(rlx_text_open_memory(section.data(), section.size(), &text) == RLX_OK);
  return Owned<rlx_text>(text);
}

Owned<rlx_text_stream> stream_of(const rlx_text* text, uint32_t show_control = 0) {
  rlx_text_stream* stream = nullptr;
  REQUIRE(rlx_text_stream_create(text, show_control, &stream) == RLX_OK);
  return Owned<rlx_text_stream>(stream);
}

std::string put(rlx_text_stream* stream, int32_t id) {
  const char* utf8 = nullptr;
  size_t size_bytes = 0;
  REQUIRE(rlx_text_stream_put(stream, id, &utf8, &size_bytes) == RLX_OK);
  return {utf8, size_bytes};
}

std::string end(rlx_text_stream* stream) {
  const char* utf8 = nullptr;
  size_t size_bytes = 0;
  REQUIRE(rlx_text_stream_end(stream, &utf8, &size_bytes) == RLX_OK);
  return {utf8, size_bytes};
}

}  // namespace

TEST_CASE("a plan's text section is opened, and outlives the plan") {
  PlanSpec spec = small_plan();
  spec.text = serialise(small_text());
  const std::vector<std::byte> bytes = serialise(spec);
  rlx_plan* opened = nullptr;
  REQUIRE(rlx_plan_open_memory(bytes.data(), bytes.size(), nullptr, &opened) == RLX_OK);
  Owned<rlx_plan> plan(opened);
  rlx_text* handle = nullptr;
  REQUIRE(rlx_text_open(plan.get(), &handle) == RLX_OK);
  const Owned<rlx_text> text(handle);
  plan.reset();
  rlx_text_info info = RLX_INIT(rlx_text_info);
  REQUIRE(rlx_text_get_info(text.get(), &info) == RLX_OK);
  CHECK(info.token_count == 262);
  CHECK(info.context_tokens == 64);
  CHECK(info.begin == 256);
  CHECK(info.end == 257);
  CHECK(info.stop_count == 1);
  CHECK(rlx_text_is_stop(text.get(), 257) == 1);
  CHECK(rlx_text_is_stop(text.get(), 256) == 0);
  CHECK(rlx_text_is_stop(text.get(), -1) == 0);
}

TEST_CASE("a plan without text says so") {
  const std::vector<std::byte> bytes = serialise(small_plan());
  rlx_plan* opened = nullptr;
  REQUIRE(rlx_plan_open_memory(bytes.data(), bytes.size(), nullptr, &opened) == RLX_OK);
  const Owned<rlx_plan> plan(opened);
  auto* text = reinterpret_cast<rlx_text*>(&opened);
  CHECK(rlx_text_open(plan.get(), &text) == RLX_INVALID_ARGUMENT);
  CHECK(text == nullptr);
  CHECK(std::string(rlx_text_last_error()).starts_with("the plan has no text section"));
}

TEST_CASE("ids are given whole or not at all, their count always") {
  const Owned<rlx_text> text = open_small();
  size_t count = 0;
  REQUIRE(rlx_text_encode(text.get(), " the<|end|>", 11, RLX_TEXT_PARSE_SPECIAL, nullptr, 0,
                          &count) == RLX_OK);
  CHECK(count == 2);
  std::vector<int32_t> ids = {-7, -7};
  CHECK(rlx_text_encode(text.get(), " the<|end|>", 11, RLX_TEXT_PARSE_SPECIAL, ids.data(), 1,
                        &count) == RLX_INVALID_ARGUMENT);
  CHECK(std::string(rlx_text_last_error()) ==
        "there are 2 ids, and room for 1; ask for their count first");
  CHECK(ids == std::vector{-7, -7});
  REQUIRE(rlx_text_encode(text.get(), " the<|end|>", 11, RLX_TEXT_PARSE_SPECIAL, ids.data(), 2,
                          &count) == RLX_OK);
  CHECK(ids == std::vector{261, 257});
  CHECK(std::string(rlx_text_last_error()).empty());
  REQUIRE(rlx_text_encode(text.get(), nullptr, 0, 0, nullptr, 0, &count) == RLX_OK);
  CHECK(count == 0);
}

TEST_CASE("wrong use is refused with a sentence") {
  const Owned<rlx_text> text = open_small();
  size_t count = 0;
  CHECK(rlx_text_encode(text.get(), "a", 1, 8, nullptr, 0, &count) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_text_encode(text.get(), nullptr, 1, 0, nullptr, 0, &count) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_text_encode(nullptr, "a", 1, 0, nullptr, 0, &count) == RLX_INVALID_ARGUMENT);
  CHECK(std::string(rlx_text_last_error()) == "argument text is NULL");
  const char* bytes = nullptr;
  size_t size_bytes = 0;
  CHECK(rlx_text_token(text.get(), 262, &bytes, &size_bytes) == RLX_INVALID_ARGUMENT);
  CHECK(std::string(rlx_text_last_error()) == "there is no token 262, the text has 262");
  const Owned<rlx_text_stream> stream = stream_of(text.get());
  CHECK(rlx_text_stream_put(stream.get(), -1, &bytes, &size_bytes) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_text_stream_put(stream.get(), 1, nullptr, &size_bytes) == RLX_INVALID_ARGUMENT);
  CHECK(bytes == nullptr);
  const std::string many((size_t{1} << 26) + 1, ' ');
  CHECK(rlx_text_encode(text.get(), many.data(), many.size(), 0, nullptr, 0, &count) ==
        RLX_INVALID_ARGUMENT);
}

TEST_CASE("a token's bytes may be part of a character") {
  const Owned<rlx_text> text = open_small();
  const char* bytes = nullptr;
  size_t size_bytes = 0;
  REQUIRE(rlx_text_token(text.get(), 0xE2, &bytes, &size_bytes) == RLX_OK);
  CHECK(std::string_view(bytes, size_bytes) == "\xE2");
  REQUIRE(rlx_text_token(text.get(), 261, &bytes, &size_bytes) == RLX_OK);
  CHECK(std::string_view(bytes, size_bytes) == " the");
}

TEST_CASE("a stream holds back what is no whole character yet") {
  Owned<rlx_text> text = open_small();
  const Owned<rlx_text_stream> stream = stream_of(text.get());
  text.reset();  // the stream keeps what it needs
  CHECK(put(stream.get(), 0xE2).empty());
  CHECK(put(stream.get(), 0x82).empty());
  CHECK(put(stream.get(), 0xAC) == "\u20AC");
  CHECK(put(stream.get(), 0xE2).empty());
  CHECK(put(stream.get(), 'z') == "\uFFFDz");
  CHECK(put(stream.get(), 0xFF) == "\uFFFD");
  CHECK(put(stream.get(), 0xF0).empty());
  CHECK(end(stream.get()) == "\uFFFD");
  CHECK(end(stream.get()).empty());
  CHECK(put(stream.get(), 261) == " the");
}

TEST_CASE("control tokens are shown on request") {
  const Owned<rlx_text> text = open_small();
  CHECK(put(stream_of(text.get()).get(), 257).empty());
  CHECK(put(stream_of(text.get(), 1).get(), 257) == "<|end|>");
  CHECK(put(stream_of(text.get()).get(), 258) == "<tool>");
}

TEST_CASE("threads encode with one text") {
  const Owned<rlx_text> text = open_small();
  const std::string words = "the end of the text, the\u0301 \u4E16\u754C";
  size_t wanted = 0;
  REQUIRE(rlx_text_encode(text.get(), words.data(), words.size(), 0, nullptr, 0, &wanted) ==
          RLX_OK);
  std::vector<size_t> counts(4);
  std::vector<std::thread> threads;
  for (size_t& count : counts) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        rlx_text_encode(text.get(), words.data(), words.size(), 0, nullptr, 0, &count);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(counts == std::vector<size_t>(4, wanted));
}
