// SPDX-License-Identifier: Apache-2.0
// Texts in, tokens out.
#include "tools/rlxrun/chat_text.h"

#include <ctime>

#include "runtime/base/text.h"
#include "tools/rlxrun/errors.h"

namespace rlx::tool {

void check_text(rlx_status status) {
  if (status != RLX_OK) throw Failure(exit_code_for(status), rlx_text_last_error());
}

TextHandle open_text(const rlx_plan* plan) {
  if (rlx_plan_text_bytes(plan) == 0) return nullptr;
  rlx_text* text = nullptr;
  check_text(rlx_text_open(plan, &text));
  return TextHandle(text);
}

std::vector<int32_t> chat_ids(const rlx_text* text, const std::vector<ChatMessage>& messages) {
  std::vector<rlx_text_message> views;
  for (const ChatMessage& message : messages) {
    if (!is_utf8(message.content))
      throw Failure(ExitCode::InputRefused, "the message of the " + message.role +
                                                " is no UTF-8: " + rlx::quoted(message.content));
    views.push_back({.role = message.role.c_str(),
                     .content = message.content.data(),
                     .content_bytes = message.content.size()});
  }
  rlx_text_chat_options options = RLX_INIT(rlx_text_chat_options);
  options.add_reply_start = 1;
  options.now_unix_seconds = std::time(nullptr);
  size_t count = 0;
  check_text(rlx_text_chat(text, views.data(), views.size(), &options, nullptr, 0, &count));
  std::vector<int32_t> ids(count);
  check_text(
      rlx_text_chat(text, views.data(), views.size(), &options, ids.data(), ids.size(), &count));
  return ids;
}

}  // namespace rlx::tool
