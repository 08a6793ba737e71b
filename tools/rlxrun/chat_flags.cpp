// SPDX-License-Identifier: Apache-2.0
// Flags for language models, and with which others they go.
#include "tools/rlxrun/chat_flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>
#include <system_error>

#include "tools/describe/choice.h"
#include "tools/describe/id_list.h"

namespace rlx::tool {
namespace {

constexpr const char* kGroup = "Language models";

// Of a single run: they mean nothing in a loop over two entries.
constexpr const char* kRunFlags[] = {
    "--entry",      "--dim",       "--inputs",   "--seeded",     "--seeded-max", "--state",
    "--dump-state", "--outputs",   "--expected", "--rtol",       "--atol",       "--repeat",
    "--warmup",     "--profile",   "--trace",    "--dump-after", "--poison",     "--first-nan",
    "--against",    "--self-test", "--report",   "--nvtx"};
constexpr const char* kChatFlags[] = {"--system", "--tokens",   "--temperature",    "--top-k",
                                      "--top-p",  "--min-p",    "--sampling-order", "--logits",
                                      "--cache",  "--overflow", "--draft"};
constexpr const char* kDrawFlags[] = {"--top-k", "--top-p", "--min-p", "--sampling-order",
                                      "--seed"};

void add_prompt_flags(CLI::App& app, ChatOptions& chat) {
  app.add_option("--chat", chat.message, "What a user says to the plan's model; prints its reply")
      ->type_name("TEXT")
      ->group(kGroup);
  app.add_flag("-i,--interactive", chat.interactive,
               "A conversation: each line of standard input is a message")
      ->group(kGroup);
  app.add_option("--system", chat.system, "What the model is told before a conversation")
      ->type_name("TEXT")
      ->group(kGroup);
  add_id_list(app, "--prompt-ids", chat.prompt_ids, "A prompt as tokens, without a template: 1,2,3")
      ->group(kGroup);
  app.add_option("-n,--tokens", chat.most_tokens,
                 "Most tokens of a reply; 256 unless given, with --logits none")
      ->type_name("N")
      ->group(kGroup);
  app.add_option("--logits", chat.logits_path, "Write the logits behind the prompt")
      ->type_name("FILE.npy")
      ->group(kGroup);
}

// The library takes 0 for no cut, who says it for the narrowest one.
std::string top_p_fault(const std::string& text) {
  float share = 0;
  const bool is_zero = CLI::detail::lexical_cast(text, share) && share == 0;
  return is_zero ? "0 leaves no token; --temperature 0 takes the likeliest one" : "";
}

void add_sampling_flags(CLI::App& app, ChatOptions& chat) {
  rlx_text_sampling& sampling = chat.sampling;
  app.add_option("--temperature", sampling.temperature, "0, unless given: the likeliest token")
      ->check(CLI::Range(0.0, 100.0))
      ->group(kGroup);
  app.add_option("--top-k", sampling.top_k, "Draw from the K likeliest tokens")->group(kGroup);
  app.add_option("--top-p", sampling.top_p, "Draw from the likeliest tokens of that probability")
      ->check(CLI::Range(0.0, 1.0))
      ->check(CLI::Validator(top_p_fault, ""))
      ->group(kGroup);
  app.add_option("--min-p", sampling.min_p,
                 "Draw from tokens with at least this share of the largest probability")
      ->check(CLI::Range(0.0, 1.0))
      ->group(kGroup);
  const Choices<rlx_text_order> orders = {{"temperature-first", RLX_TEXT_TEMPERATURE_FIRST},
                                          {"temperature-last", RLX_TEXT_TEMPERATURE_LAST}};
  add_choice(app, "--sampling-order", sampling.order, orders,
             "Where the temperature stands among the cuts: temperature-first (as in Hugging "
             "Face's, unless given) or temperature-last (as in llama.cpp)")
      ->group(kGroup);
}

constexpr uint32_t kUsualNgram = 3;
constexpr uint32_t kLongestNgram = 16;

// "ngram" or "ngram:4".
uint32_t ngram_of(const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  if (name != "ngram")
    throw CLI::ValidationError("--draft",
                               "\"" + text + "\" is no way to draft; there is ngram, or ngram:N");
  if (name == text) return kUsualNgram;
  uint32_t longest = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + name.size() + 1, end, longest);
  if (read.ec != std::errc() || read.ptr != end || longest < 1 || longest > kLongestNgram)
    throw CLI::ValidationError("--draft", "\"" + text + "\" wants 1 to " +
                                              std::to_string(kLongestNgram) + " behind the colon");
  return longest;
}

void add_draft_flag(CLI::App& app, ChatOptions& chat) {
  app.add_option_function<std::string>(
         "--draft", [&chat](const std::string& text) { chat.draft_ngram = ngram_of(text); },
         "Guess tokens by what followed the last N (3, unless given) before, and verify them "
         "several "
         "at once by the plan's entry verify_N (rlxc --verify)")
      ->type_name("ngram[:N]")
      ->group(kGroup);
}

void add_cache_flags(CLI::App& app, ChatOptions& chat) {
  const Choices<language::Reuse> reuses = {{"exact", language::Reuse::Exact},
                                           {"rows", language::Reuse::Rows},
                                           {"fast", language::Reuse::Fast}};
  add_choice(app, "--cache", chat.reuse, reuses,
             "What a conversation's next turn keeps of the caches: exact, unless given: whole "
             "chunks that it would be cut into itself, which changes no bit of its reply; rows: "
             "every row that prompts made, which changes none where chunks of all sizes add alike; "
             "fast: the reply's own rows too")
      ->group(kGroup);
  const Choices<Overflow> overflows = {{"refuse", Overflow::Refuse}, {"shift", Overflow::Shift}};
  add_choice(app, "--overflow", chat.overflow, overflows,
             "Where the context is full: refuse, unless given, or shift: forget its oldest half")
      ->group(kGroup);
}

template <size_t kCount>
void refuse_given(const CLI::App& app, const char* const (&names)[kCount], const std::string& why) {
  for (const char* name : names) {
    if (app.get_option(name)->count() > 0) throw CLI::ValidationError(std::string(name) + why);
  }
}

}  // namespace

void add_chat_flags(CLI::App& app, Options& options) {
  add_prompt_flags(app, options.chat);
  add_sampling_flags(app, options.chat);
  add_draft_flag(app, options.chat);
  add_cache_flags(app, options.chat);
}

void check_chat_flags(const CLI::App& app, const Options& options) {
  const ChatOptions& chat = options.chat;
  if (!chat.is_wanted()) {
    refuse_given(app, kChatFlags, " needs --chat, -i or --prompt-ids");
    return;
  }
  refuse_given(app, kRunFlags, " does not go with --chat, -i and --prompt-ids");
  const int prompts =
      (chat.message ? 1 : 0) + (chat.interactive ? 1 : 0) + (chat.prompt_ids.empty() ? 0 : 1);
  if (prompts > 1)
    throw CLI::ValidationError("--chat, -i and --prompt-ids do not go together; give one");
  if (chat.system && !chat.prompt_ids.empty())
    throw CLI::ValidationError("--system does not go with --prompt-ids, which have no template");
  if (!chat.logits_path.empty() && chat.interactive)
    throw CLI::ValidationError("--logits does not go with -i, which has several prompts");
  if (chat.draft_ngram && chat.sampling.temperature > 0)
    throw CLI::ValidationError(
        "--draft does not go with a --temperature above 0: drafts are verified by the likeliest "
        "tokens");
  if (chat.sampling.temperature == 0)
    refuse_given(app, kDrawFlags, " needs a --temperature above 0: at 0 nothing is drawn");
}

}  // namespace rlx::tool
