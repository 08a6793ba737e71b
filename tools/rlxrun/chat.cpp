// SPDX-License-Identifier: Apache-2.0
// From messages to replies.
#include "tools/rlxrun/chat.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <numeric>
#include <optional>

#include "runtime/base/text.h"
#include "tools/language/ngram_draft.h"
#include "tools/language/token_loop.h"
#include "tools/npy/npy.h"
#include "tools/program/terminal.h"
#include "tools/rlxrun/chat_text.h"
#include "tools/rlxrun/errors.h"

namespace rlx::tool {
namespace {

constexpr uint32_t kMostTokens = 256;  // of a reply, unless the user says

// A reply on its way to the terminal, or only to the report.
class Teller {
 public:
  Teller(const rlx_text* text, bool prints) : text_(text), prints_(prints) {
    if (text == nullptr) return;
    rlx_text_stream* stream = nullptr;
    check_text(rlx_text_stream_create(text, 0, &stream));
    stream_.reset(stream);
  }

  void put(ChatTurn& turn, int32_t id) {
    if (stream_ == nullptr) {
      print((turn.ids.size() > 1 ? "," : "") + std::to_string(id));
      return;
    }
    const char* utf8 = nullptr;
    size_t size_bytes = 0;
    check_text(rlx_text_stream_put(stream_.get(), id, &utf8, &size_bytes));
    add(turn, {utf8, size_bytes});
  }

  void end(ChatTurn& turn) {
    if (stream_ != nullptr) {
      const char* utf8 = nullptr;
      size_t size_bytes = 0;
      check_text(rlx_text_stream_end(stream_.get(), &utf8, &size_bytes));
      add(turn, {utf8, size_bytes});
    }
    if (!turn.ids.empty()) print("\n");
  }

  [[nodiscard]] bool ends_reply(int32_t id) const {
    return text_ != nullptr && rlx_text_is_stop(text_, id) != 0;
  }

 private:
  void add(ChatTurn& turn, std::string_view piece) {
    turn.text += piece;
    print(piece);
  }

  void print(std::string_view piece) const {
    if (!prints_ || piece.empty()) return;
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  }

  const rlx_text* text_;
  bool prints_;
  StreamHandle stream_;
};

// Steps that are queued at once where the device chooses.
constexpr uint32_t kQueuedSteps = 4;

// Chooses the token that follows what the loop holds.
class Chooser {
 public:
  Chooser(language::TokenLoop& loop, const rlx_text* text, const Options& options)
      : loop_(loop),
        draws_(options.chat.sampling.temperature > 0),
        draft_ngram_(options.chat.draft_ngram) {
    if (draft_ngram_ && !loop.model().verify)
      throw Failure(ExitCode::InputRefused,
                    "the plan has no entry that verifies drafts, as --draft wants; compile the "
                    "model with rlxc --verify 4 or another number of tokens");
    if (text == nullptr && !draws_) return;
    if (text == nullptr)
      throw Failure(ExitCode::InputRefused,
                    "the plan has no text section, whose tokens --temperature draws from; without "
                    "one only the likeliest tokens can be had");
    rlx_text_sampling sampling = options.chat.sampling;
    sampling.seed = options.seed;
    rlx_text_sampler* sampler = nullptr;
    check_text(rlx_text_sampler_create(text, &sampling, &sampler));
    sampler_.reset(sampler);
    rlx_text_info info = RLX_INIT(rlx_text_info);
    check_text(rlx_text_get_info(text, &info));
    token_count_ = info.token_count;
    logits_.resize(loop.model().vocabulary);
  }

  // Of the logits no byte is read where the likeliest token is wanted, unless that is padding of
  // the model's vocabulary.
  int32_t next() {
    int32_t id = 0;
    if (!stepped_.empty()) {
      id = stepped_.front();
      stepped_.erase(stepped_.begin());
      if (is_token(id)) return last_ = id;
      // Its logits went with the steps behind it.
      const auto behind = static_cast<uint32_t>(stepped_.size());
      stepped_.clear();
      loop_.rewind(static_cast<uint32_t>(loop_.held().size()) - behind - 1);
      check(loop_.feed(last_));
    } else if (!draws_) {
      check(loop_.next(id));
      if (is_token(id)) return last_ = id;
    }
    check(loop_.read_logits(logits_));
    check_text(rlx_text_sampler_choose(sampler_.get(), logits_.data(), logits_.size(), &id));
    return last_ = id;
  }

  // Feeds the token that next() gave, and lets the device choose those behind it, as many as are
  // wanted; false where it cannot, and nothing was fed.
  bool step(int32_t id, size_t wanted) {
    if (!stepped_.empty()) return true;
    if (verify_drafts(id, wanted)) return true;
    const size_t room = loop_.model().context_tokens - loop_.held().size();
    const size_t count = std::min({size_t{loop_.most_steps()}, room, wanted});
    if (draws_ || count < 2) return false;
    stepped_.resize(count);
    check(loop_.step(id, stepped_));
    return true;
  }

  [[nodiscard]] uint32_t drafted_tokens() const { return drafted_tokens_; }
  [[nodiscard]] uint32_t accepted_tokens() const { return accepted_tokens_; }

  // Forgets what steps chose beyond the reply.
  void end() {
    if (!stepped_.empty())
      loop_.rewind(static_cast<uint32_t>(loop_.held().size() - stepped_.size()));
    stepped_.clear();
  }

 private:
  // The same as step(), with drafts, where what is held suggests some.
  bool verify_drafts(int32_t id, size_t wanted) {
    const size_t most = std::min<size_t>(loop_.most_drafts(), wanted - 1);
    if (!draft_ngram_ || most == 0) return false;
    tokens_.assign(loop_.held().begin(), loop_.held().end());
    tokens_.push_back(id);
    const auto drafts = language::draft_by_ngram(tokens_, *draft_ngram_, most);
    if (drafts.empty()) return false;
    uint32_t count = 0;
    stepped_.resize(drafts.size() + 1);
    check(loop_.verify(id, drafts, stepped_, count));
    stepped_.resize(count);
    drafted_tokens_ += static_cast<uint32_t>(drafts.size());
    accepted_tokens_ += count - 1;
    return true;
  }

  [[nodiscard]] bool is_token(int32_t id) const {
    return sampler_ == nullptr || static_cast<uint32_t>(id) < token_count_;
  }

  language::TokenLoop& loop_;
  std::vector<int32_t> stepped_;  // chosen by steps and drafts, not yet given
  std::vector<int32_t> tokens_;   // among which drafts are looked up
  int32_t last_ = 0;              // the token that was given last
  bool draws_;
  std::optional<uint32_t> draft_ngram_;
  uint32_t drafted_tokens_ = 0;
  uint32_t accepted_tokens_ = 0;
  SamplerHandle sampler_;
  uint32_t token_count_ = 0;
  std::vector<float> logits_;
};

// The newest half of what the context holds.
std::vector<int32_t> newest_half(std::span<const int32_t> ids, uint32_t context_tokens) {
  const std::span<const int32_t> kept = ids.last(std::min<size_t>(ids.size(), context_tokens / 2));
  return {kept.begin(), kept.end()};
}

class Replier {
 public:
  Replier(language::TokenLoop& loop, const rlx_text* text, const Options& options)
      : loop_(loop),
        options_(options),
        chooser_(loop, text, options),
        teller_(text, !options.json),
        most_tokens_(
            options.chat.most_tokens.value_or(options.chat.logits_path.empty() ? kMostTokens : 0)) {
  }

  // What was refused leaves the loop as a reply does: ready for the next prompt.
  ChatTurn reply(std::vector<int32_t> prompt_ids) {
    ChatTurn turn{.prompt_ids = std::move(prompt_ids)};
    try {
      speak(turn);
    } catch (const Failure& failure) {
      if (failure.code() != ExitCode::InputRefused) throw;
      chooser_.end();
      teller_.end(turn);
      throw;
    }
    return turn;
  }

 private:
  void speak(ChatTurn& turn) {
    turn.ids.reserve(most_tokens_);
    turn.token_microseconds.reserve(most_tokens_);
    read_prompt(turn);
    const uint32_t drafted = chooser_.drafted_tokens();
    const uint32_t accepted = chooser_.accepted_tokens();
    if (!options_.chat.logits_path.empty()) write_logits();
    Stopwatch watch;
    while (turn.ids.size() < most_tokens_) {
      const int32_t id = chooser_.next();
      if (!turn.ids.empty()) turn.token_microseconds.push_back(watch.microseconds());
      watch = {};
      turn.ids.push_back(id);
      if (teller_.ends_reply(id)) {
        turn.end = ReplyEnd::Stop;
        break;
      }
      // While the device computes the next one.
      const size_t wanted = most_tokens_ - turn.ids.size();
      if (wanted > 0 && !chooser_.step(id, wanted)) feed(turn, id);
      teller_.put(turn, id);
    }
    chooser_.end();
    turn.drafted_tokens = chooser_.drafted_tokens() - drafted;
    turn.accepted_tokens = chooser_.accepted_tokens() - accepted;
    teller_.end(turn);
  }

  [[nodiscard]] bool shifts() const { return options_.chat.overflow == Overflow::Shift; }

  void read_prompt(ChatTurn& turn) {
    const uint32_t context = loop_.model().context_tokens;
    if (shifts() && turn.prompt_ids.size() > context) {
      turn.prompt_ids = newest_half(turn.prompt_ids, context);
      ++turn.shifts;
    }
    const Stopwatch watch;
    check(loop_.read_prompt(turn.prompt_ids));
    turn.prompt_milliseconds = watch.milliseconds();
    turn.kept_tokens = loop_.kept_tokens();
    turn.prompt_runs = loop_.prompt_runs();
  }

  void write_logits() {
    std::vector<float> logits(loop_.model().vocabulary);
    check(loop_.read_logits(logits));
    const auto bytes = std::as_bytes(std::span(logits));
    check_written(
        npy::write_npy(options_.chat.logits_path, {.element = npy::Element::F32,
                                                   .dims = {1, logits.size()},
                                                   .data = {bytes.begin(), bytes.end()}}));
  }

  void feed(ChatTurn& turn, int32_t id) {
    const uint32_t context = loop_.model().context_tokens;
    if (loop_.held().size() < context) return check(loop_.feed(id));
    if (!shifts())
      throw Failure(
          ExitCode::InputRefused,
          text_of("the context of ", context, " tokens is full: ", turn.prompt_ids.size(),
                  " of the prompt and ", turn.ids.size(),
                  " of the reply; ask for fewer (-n), use --overflow shift, or compile the "
                  "model with a larger --ctx"));
    std::vector<int32_t> ids = newest_half(loop_.held(), context);
    ids.push_back(id);
    check(loop_.read_prompt(ids));
    ++turn.shifts;
  }

  language::TokenLoop& loop_;
  const Options& options_;
  Chooser chooser_;
  Teller teller_;
  uint32_t most_tokens_;
};

void tell_times(const ChatTurn& turn) {
  const std::string drafts =
      turn.drafted_tokens == 0
          ? ""
          : text_of("; ", turn.accepted_tokens, " of ", turn.drafted_tokens, " drafts were right");
  std::fprintf(stderr,
               "rlxrun: prompt of %zu tokens (%u kept) in %.1f ms; reply of %zu tokens, %.1f "
               "tokens/s%s%s\n",
               turn.prompt_ids.size(), turn.kept_tokens, turn.prompt_milliseconds, turn.ids.size(),
               turn.tokens_per_second(), drafts.c_str(),
               turn.shifts > 0 ? "; older tokens were forgotten" : "");
}

const rlx_text* need_text(const TextHandle& text, const PlanFacts& plan) {
  if (text == nullptr)
    throw Failure(ExitCode::InputRefused,
                  "plan " + rlx::quoted(plan.name) +
                      " has no text section: no tokenizer and no chat template; compile it from a "
                      ".gguf file that has them, or give tokens with --prompt-ids");
  return text.get();
}

std::vector<ChatMessage> begin_conversation(const ChatOptions& chat) {
  if (!chat.system) return {};
  return {{.role = "system", .content = *chat.system}};
}

bool read_message(std::string& line) {
  if (::isatty(STDIN_FILENO) != 0) std::fputs("> ", stderr);
  return static_cast<bool>(std::getline(std::cin, line));
}

// A message that is refused, alone, ends no conversation.
ChatTurn answer(Replier& replier, const rlx_text* text, std::vector<ChatMessage>& messages) {
  try {
    ChatTurn turn = replier.reply(chat_ids(text, messages));
    messages.push_back({.role = "assistant", .content = turn.text});
    return turn;
  } catch (const Failure& failure) {
    if (failure.code() != ExitCode::InputRefused) throw;
    messages.pop_back();
    return {.end = ReplyEnd::Refused, .refusal = failure.what()};
  }
}

void tell_turn(const ChatTurn& turn) {
  if (turn.end != ReplyEnd::Refused) return tell_times(turn);
  say_error("rlxrun", turn.refusal);
}

// Each line is a message.
void converse(Replier& replier, const rlx_text* text, const Options& options, ChatReport& report) {
  std::vector<ChatMessage> messages = begin_conversation(options.chat);
  for (std::string line; read_message(line);) {
    if (line.empty()) continue;
    messages.push_back({.role = "user", .content = line});
    ChatTurn turn = answer(replier, text, messages);
    if (!options.json) tell_turn(turn);
    report.turns.push_back(std::move(turn));
  }
}

void take_turns(language::TokenLoop& loop, const TextHandle& text, const Options& options,
                ChatReport& report) {
  const ChatOptions& chat = options.chat;
  const rlx_text* const spoken =
      chat.prompt_ids.empty() ? need_text(text, report.plan) : text.get();
  Replier replier(loop, spoken, options);
  if (chat.interactive) return converse(replier, spoken, options, report);
  std::vector<int32_t> ids = chat.prompt_ids;
  if (chat.message) {
    std::vector<ChatMessage> messages = begin_conversation(chat);
    messages.push_back({.role = "user", .content = *chat.message});
    ids = chat_ids(spoken, messages);
  }
  report.turns.push_back(replier.reply(std::move(ids)));
  if (!options.json) tell_times(report.turns.back());
}

}  // namespace

bool ChatReport::was_refused() const {
  return std::any_of(turns.begin(), turns.end(),
                     [](const ChatTurn& turn) { return turn.end == ReplyEnd::Refused; });
}

double ChatTurn::tokens_per_second() const {
  const double microseconds =
      std::accumulate(token_microseconds.begin(), token_microseconds.end(), 0.0);
  return microseconds > 0 ? static_cast<double>(token_microseconds.size()) * 1e6 / microseconds : 0;
}

ChatReport run_chat(const Options& options) {
  ChatReport report;
  const Stopwatch open_watch;
  const PlanHandle plan = open_plan(options);
  language::ModelPlan model;
  check(language::describe_model(plan.get(), model));
  const TextHandle text = open_text(plan.get());
  report.plan = facts_of(plan.get());
  if (options.chat.prompt_ids.empty()) need_text(text, report.plan);
  report.open_milliseconds = open_watch.milliseconds();
  const DeviceHandle device = open_wanted_device(options, plan.get(), report.device);
  const Stopwatch load_watch;
  // The loop looks at every id and every position itself.
  const bool queues = model.step && !options.check_indices.value_or(false);
  const uint32_t queue_depth = queues ? kQueuedSteps : 1;
  const SessionHandle session = create_session(plan.get(), device.get(), options, queue_depth);
  report.load_milliseconds = load_watch.milliseconds();
  language::TokenLoop loop(std::move(model), session.get(), options.chat.reuse, queue_depth);
  take_turns(loop, text, options, report);
  return report;
}

}  // namespace rlx::tool
