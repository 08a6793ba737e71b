// SPDX-License-Identifier: Apache-2.0
// One use of rlxrun with a language model: a prompt or a conversation, and what it took.
#pragma once

#include <string>
#include <vector>

#include "tools/rlxrun/opening.h"
#include "tools/rlxrun/options.h"

namespace rlx::tool {

enum class ReplyEnd : uint8_t {
  Stop,    // the model ended it
  Length,  // as many tokens as were asked for
  Refused,
};

struct ChatTurn {
  std::vector<int32_t> prompt_ids;
  std::vector<int32_t> ids;  // of the reply, with the one that ended it
  std::string text;          // empty where the plan has none
  ReplyEnd end = ReplyEnd::Length;
  std::string refusal;       // why, where it was refused
  uint32_t kept_tokens = 0;  // of the prompt, whose rows were there
  uint32_t prompt_runs = 0;
  uint32_t shifts = 0;  // how often the oldest half was forgotten
  uint32_t drafted_tokens = 0;
  uint32_t accepted_tokens = 0;  // of those that were drafted
  double prompt_milliseconds = 0;
  std::vector<double> token_microseconds;  // of the tokens behind the first one

  [[nodiscard]] double tokens_per_second() const;
};

struct ChatReport {
  DeviceFacts device;
  PlanFacts plan;
  double open_milliseconds = 0;
  double load_milliseconds = 0;
  std::vector<ChatTurn> turns;

  [[nodiscard]] bool was_refused() const;  // any of them
};

// Throws a Failure where something is refused; of a conversation a message that is refused is a
// turn that says so, and the next ones go on without it. Prints replies as they come, and a line
// about each to standard error, unless the report is wanted as JSON.
ChatReport run_chat(const Options& options);

std::string chat_json(const ChatReport& report);

}  // namespace rlx::tool
