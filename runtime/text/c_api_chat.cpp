// SPDX-License-Identifier: Apache-2.0
// rlx_text.h: conversations.
#include "runtime/text/chat.h"
#include "runtime/text/handles.h"

namespace rlx {
namespace {

// What the caller gives to both functions.
struct Conversation {
  const rlx_text* text;
  const rlx_text_message* messages;
  size_t count;
  const rlx_text_chat_options* options;
};

Status render(const Conversation& given, jinja::MarkedText& rendered) {
  if (given.text == nullptr) return null_argument("text");
  if (given.messages == nullptr && given.count > 0) return null_argument("messages");
  rlx_text_chat_options options = RLX_INIT(rlx_text_chat_options);
  RLX_RETURN_IF_ERROR(take_struct(given.options, "options", options));
  return render_chat(*given.text->model, {given.messages, given.count}, options, rendered);
}

}  // namespace
}  // namespace rlx

rlx_status rlx_text_chat(const rlx_text* text, const rlx_text_message* messages,
                         size_t message_count, const rlx_text_chat_options* options, int32_t* ids,
                         size_t capacity, size_t* count) {
  return rlx::guarded(rlx::text_error(), [&]() -> rlx::Status {
    rlx::jinja::MarkedText rendered;
    RLX_RETURN_IF_ERROR(rlx::render({text, messages, message_count, options}, rendered));
    std::vector<int32_t> found;
    RLX_RETURN_IF_ERROR(text->model->encode_pieces(rlx::pieces_of(rendered), 0, found));
    return rlx::give_all<int32_t>(found, "ids", ids, capacity, count);
  });
}

rlx_status rlx_text_render(const rlx_text* text, const rlx_text_message* messages,
                           size_t message_count, const rlx_text_chat_options* options, char* utf8,
                           size_t capacity, size_t* size_bytes) {
  return rlx::guarded(rlx::text_error(), [&]() -> rlx::Status {
    rlx::jinja::MarkedText rendered;
    RLX_RETURN_IF_ERROR(rlx::render({text, messages, message_count, options}, rendered));
    return rlx::give_all<char>(rendered.bytes(), "utf8", utf8, capacity, size_bytes);
  });
}
