// SPDX-License-Identifier: Apache-2.0
// rlxrun with a language model, as its users meet it.
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/base/output_file.h"
#include "tests/language/language_fixture.h"
#include "tests/support/program_laws.h"
#include "tools/npy/npy.h"

using namespace rlx;
using namespace rlx::test;

namespace {

using Json = nlohmann::json;

// A folder with the tiny model, with its text and without; rlxrun in it. Gone afterwards.
class Workplace {
 public:
  Workplace() {
    std::string path = "/tmp/rlx_language_XXXXXX";
    REQUIRE(::mkdtemp(path.data()) != nullptr);
    folder_ = path;
    static const std::vector<std::byte> spoken =
        tiny_language_plan(std::vector<uint32_t>{1, 8, 16, 32}, TinyText::With, 4);
    static const std::vector<std::byte> mute = tiny_language_plan(std::vector<uint32_t>{1, 32});
    REQUIRE_OK(write_file(at("chat.plan"), spoken));
    REQUIRE_OK(write_file(at("mute.plan"), mute));
  }
  ~Workplace() { std::filesystem::remove_all(folder_); }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  [[nodiscard]] std::string at(const std::string& name) const { return folder_ + "/" + name; }

  // On the first device that the plan suits; errors among the text.
  [[nodiscard]] ShellResult run(const std::string& arguments, const std::string& input = "") const {
    const std::string sent = input.empty() ? "" : "printf '" + input + "' | ";
    return shell("cd " + folder_ + "; " + sent + "ASAN_OPTIONS=detect_leaks=0 " + bin_folder() +
                 "/rlxrun " + arguments + " 2>&1");
  }
  [[nodiscard]] Json turns(const std::string& arguments, const std::string& input = "") const {
    const ShellResult result = run(arguments + " --json", input);
    INFO(result.text);
    REQUIRE(result.code == 0);
    return Json::parse(result.text)["turns"];
  }
  void check_refused(const std::string& arguments, int code, const std::string& part,
                     const std::string& input = "") const {
    const ShellResult result = run(arguments, input);
    INFO(arguments << ": " << result.text);
    CHECK(result.code == code);
    CHECK(result.text.find(part) != std::string::npos);
  }

 private:
  std::string folder_;
};

bool is_no_device() {
  if (!present_devices().devices.empty()) return false;
  WARN("SKIPPED: no device: " + present_devices().note);
  return true;
}

const std::string kIds = "5,12,31,2,44,9,17";
const std::vector<int32_t> kIdValues = {5, 12, 31, 2, 44, 9, 17};

}  // namespace

TEST_CASE("rlxrun_gives_the_loops_tokens_and_logits") {
  if (is_no_device()) return;
  const Workplace place;
  rlx_device* const device = make_device_handle(present_devices().devices.front());
  {
    Rig rig(device, language::Reuse::Exact);
    const std::vector<float> logits = rig.read(kIdValues);
    const Json turns = place.turns("mute.plan --prompt-ids " + kIds + " -n 9 --logits l.npy");
    CHECK(turns[0]["prompt_ids"] == Json(kIdValues));
    CHECK(turns[0]["ids"] == Json(rig.greedy(9)));
    CHECK(turns[0]["end"] == "length");
    npy::Array written;
    REQUIRE_OK(npy::read_npy(place.at("l.npy"), written));
    REQUIRE(written.dims == std::vector<uint64_t>{1, kTinyVocabulary});
    CHECK(std::memcmp(written.data.data(), logits.data(), written.data.size()) == 0);
  }
  rlx_device_close(device);
  CHECK(place.turns("mute.plan --prompt-ids " + kIds + " --logits l.npy")[0]["ids"].empty());
}

TEST_CASE("rlxrun_refuses_what_the_context_cannot_hold_or_forgets_its_oldest_half") {
  if (is_no_device()) return;
  const Workplace place;
  const std::string plan = "mute.plan --prompt-ids " + kIds;
  place.check_refused(plan + " -n 91", 2,
                      "the context of 96 tokens is full: 7 of the prompt and 90 of the reply");
  CHECK(place.turns(plan + " -n 90")[0]["ids"].size() == 90);
  const Json shifted = place.turns(plan + " -n 120 --overflow shift");
  CHECK(shifted[0]["ids"].size() == 120);
  CHECK(shifted[0]["shifts"] == 1);
  std::string many = "1";
  for (int i = 0; i < 96; ++i) many += ",1";
  place.check_refused("mute.plan --prompt-ids " + many, 2,
                      "the prompt has 97 tokens, the plan's context holds 96");
  const Json cut = place.turns("mute.plan -n 2 --overflow shift --prompt-ids " + many);
  CHECK(cut[0]["prompt_ids"].size() == 48);
  place.check_refused("mute.plan --prompt-ids 1,61", 2, "the vocabulary has ids 0 to 60");
  for (const char* const ids : {",1", "1,,2", "1,2,"})
    place.check_refused(std::string("mute.plan --prompt-ids ") + ids, 1, "an id is empty");
  place.check_refused("mute.plan --prompt-ids 1,2x", 1, "\"2x\" is no id, number 2 of the list");
  place.check_refused("mute.plan --prompt-ids 1 --temperature 1", 2, "has no text section");
  place.check_refused("mute.plan --chat hi", 2, "has no text section");
}

TEST_CASE("rlxrun_streams_the_text_that_it_reports") {
  if (is_no_device()) return;
  const Workplace place;
  const Json turn = place.turns("chat.plan --chat abc --system Be -n 20")[0];
  const int32_t a = kTinyLetterA;
  CHECK(turn["prompt_ids"] == Json({0, a + 27, a + 4, 1, 0, a, a + 1, a + 2, 1, 0}));
  CHECK_FALSE(turn["text"].get<std::string>().empty());
  const ShellResult streamed = shell(bin_folder() + "/rlxrun " + place.at("chat.plan") +
                                     " --chat abc --system Be -n 20 2>&-");
  CHECK(streamed.text == turn["text"].get<std::string>() + "\n");
  place.check_refused("chat.plan --chat \"$(printf 'a\\377b')\"", 2,
                      "the message of the user is no UTF-8");
  check_unwritable_output(bin_folder() + "/rlxrun " + place.at("chat.plan") + " --chat abc -n 5");
}

TEST_CASE("rlxrun_draws_the_same_tokens_for_the_same_seed") {
  if (is_no_device()) return;
  const Workplace place;
  const auto ids = [&](const std::string& flags) {
    return place.turns("chat.plan --chat abc -n 12 --temperature 5 " + flags)[0]["ids"];
  };
  const Json drawn = ids("--seed 7");
  CHECK(ids("--seed 7") == drawn);
  CHECK(ids("--seed 8") != drawn);
  CHECK(ids("--top-k 1 --seed 8 --sampling-order temperature-last") ==
        place.turns("chat.plan --chat abc -n 12")[0]["ids"]);
}

TEST_CASE("rlxrun_replies_alike_with_drafts_and_counts_them") {
  if (is_no_device()) return;
  const Workplace place;
  const std::string prompt = "chat.plan --prompt-ids " + kIds + " -n 60 ";
  const Json plain = place.turns(prompt)[0];
  CHECK(plain["drafted_tokens"] == 0);
  for (const char* const way : {"ngram", "ngram:1"}) {
    const Json turn = place.turns(prompt + "--draft " + way)[0];
    CHECK(turn["ids"] == plain["ids"]);
    CHECK(turn["drafted_tokens"] > 0);
    CHECK(turn["accepted_tokens"] > 0);
    CHECK(turn["accepted_tokens"] <= turn["drafted_tokens"]);
  }
  // Near the end of the context there is no room for drafts.
  const std::string whole = "chat.plan --prompt-ids " + kIds + " -n 90 ";
  CHECK(place.turns(whole + "--draft ngram")[0]["ids"] == place.turns(whole)[0]["ids"]);
  place.check_refused("mute.plan --prompt-ids 1 --draft ngram", 2, "rlxc --verify");
  place.check_refused("chat.plan --prompt-ids 1 --draft model", 1, "no way to draft");
  place.check_refused("chat.plan --prompt-ids 1 --draft ngram:0", 1, "wants 1 to 16");
  place.check_refused("chat.plan --chat a --draft ngram --temperature 1", 1, "likeliest");
  place.check_refused("chat.plan --draft ngram", 1, "needs --chat");
}

TEST_CASE("rlxrun_goes_on_behind_a_message_that_is_refused") {
  if (is_no_device()) return;
  const Workplace place;
  const auto talk = [&](const std::string& lines, const std::string& flags) {
    return shell("printf '" + lines + "' | " + bin_folder() + "/rlxrun " + place.at("chat.plan") +
                 " -i " + flags + " 2>" + place.at("said"));
  };
  const ShellResult spoken = talk("a\\377b\nhello\n", "-n 8");
  CHECK(spoken.code == 2);
  CHECK(spoken.text == talk("hello\n", "-n 8").text);
  const Json turns = Json::parse(talk("a\\377b\nhello\n", "-n 8 --json").text)["turns"];
  CHECK(turns[0]["end"] == "refused");
  CHECK(turns[0]["refusal"].get<std::string>().find("is no UTF-8") != std::string::npos);
  CHECK(turns[1]["ids"].size() == 8);
  // In the middle of a reply: what was said of it stands, and is forgotten.
  const Json full = Json::parse(talk("abc\nabc\n", "-n 95 --json").text)["turns"];
  CHECK(full[0]["refusal"].get<std::string>().find("is full") != std::string::npos);
  CHECK(full[1] == full[0]);
}

TEST_CASE("rlxrun_keeps_what_a_conversation_has_said") {
  if (is_no_device()) return;
  const Workplace place;
  const std::string lines = "hello there\\nand then\\n";
  const Json exact = place.turns("chat.plan -i -n 8", lines);
  REQUIRE(exact.size() == 2);
  const size_t first = exact[0]["prompt_ids"].size();
  CHECK(exact[0]["kept_tokens"] == 0);
  const Json rows = place.turns("chat.plan -i -n 8 --cache rows", lines);
  CHECK(rows[1]["kept_tokens"] == first);
  CHECK(rows[1]["ids"] == exact[1]["ids"]);
  const Json fast = place.turns("chat.plan -i -n 8 --cache fast", lines);
  CHECK(fast[1]["kept_tokens"] > first);
  CHECK(fast[1]["ids"] == exact[1]["ids"]);
  const std::string prompt = exact[1]["prompt_ids"].dump();
  const Json cold =
      place.turns("chat.plan -n 8 --prompt-ids " + prompt.substr(1, prompt.size() - 2));
  CHECK(cold[0]["ids"] == exact[1]["ids"]);
}
