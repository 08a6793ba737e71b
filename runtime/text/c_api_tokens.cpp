// SPDX-License-Identifier: Apache-2.0
// rlx_text.h: a plan's text, and its tokens.
#include <new>

#include "runtime/text/handles.h"
#include "runtime/text/stream.h"

struct rlx_text_stream {
  rlx::TokenStream stream;
};

namespace rlx {

LastError& text_error() noexcept {
  thread_local LastError error;
  return error;
}

namespace {

Status open_text(std::span<const std::byte> section, rlx_text** text) {
  auto opened = std::make_unique<rlx_text>();
  RLX_RETURN_IF_ERROR(TextModel::open(section, opened->model));
  *text = opened.release();
  return {};
}

Status read_section(const rlx_plan* plan, std::vector<std::byte>& section) {
  const uint64_t size_bytes = rlx_plan_text_bytes(plan);
  if (size_bytes == 0) {
    return {RLX_INVALID_ARGUMENT,
            "the plan has no text section: its model's file had no tokenizer that is read; rlxc "
            "--tokenizer FILE gives a plan one"};
  }
  section.resize(size_bytes);
  const rlx_status code = rlx_plan_read_text(plan, section.data(), section.size());
  return code == RLX_OK ? Status() : Status(code, rlx_last_error());
}

Status check_token(const rlx_text* text, int32_t id) {
  if (text == nullptr) return null_argument("text");
  const Vocabulary& vocabulary = text->model->vocabulary();
  if (vocabulary.has(id)) return {};
  return {RLX_INVALID_ARGUMENT,
          text_of("there is no token ", id, ", the text has ", vocabulary.size())};
}

// Gives a text that lives as long as its owner does.
Status give_text(std::string_view found, const char** utf8, size_t* size_bytes) {
  *utf8 = found.data();
  *size_bytes = found.size();
  return {};
}

Status check_shown(const void* owner, std::string_view name, const char** utf8,
                   const size_t* size_bytes) {
  if (owner == nullptr) return null_argument(name);
  if (utf8 == nullptr) return null_argument("utf8");
  return size_bytes == nullptr ? null_argument("size_bytes") : Status();
}

rlx_text_info info_of(const TextModel& model) {
  const TextFacts& facts = model.facts();
  return {.struct_size = sizeof(rlx_text_info),
          .token_count = model.vocabulary().size(),
          .context_tokens = facts.context_tokens,
          .begin = facts.begin.value_or(-1),
          .end = facts.end.value_or(-1),
          .add_begin = facts.add_begin ? 1U : 0U,
          .add_end = facts.add_end ? 1U : 0U,
          .template_count = static_cast<uint32_t>(facts.templates.size()),
          .stop_count = static_cast<uint32_t>(facts.stop_ids.size())};
}

Status encode(const rlx_text* text, std::string_view utf8, uint32_t flags,
              std::vector<int32_t>& ids) {
  constexpr uint32_t kKnownFlags = RLX_TEXT_ADD_SPECIAL | RLX_TEXT_PARSE_SPECIAL;
  if (text == nullptr) return null_argument("text");
  if (utf8.data() == nullptr && !utf8.empty()) return null_argument("utf8");
  if ((flags & ~kKnownFlags) != 0)
    return {RLX_INVALID_ARGUMENT, text_of("flags are ", flags, ", at most ", kKnownFlags)};
  const TextPiece piece = {.text = utf8, .is_trusted = (flags & RLX_TEXT_PARSE_SPECIAL) != 0};
  return text->model->encode_pieces({&piece, 1}, flags, ids);
}

}  // namespace
}  // namespace rlx

using rlx::guarded;
using rlx::null_argument;
using rlx::Status;
using rlx::text_error;

const char* rlx_text_last_error(void) {
  return text_error().text();
}

rlx_status rlx_text_open(const rlx_plan* plan, rlx_text** text) {
  return guarded(text_error(), [&]() -> Status {
    if (text == nullptr) return null_argument("text");
    *text = nullptr;
    if (plan == nullptr) return null_argument("plan");
    std::vector<std::byte> section;
    RLX_RETURN_IF_ERROR(rlx::read_section(plan, section));
    return rlx::open_text(section, text);
  });
}

rlx_status rlx_text_open_memory(const void* data, size_t size_bytes, rlx_text** text) {
  return guarded(text_error(), [&]() -> Status {
    if (text == nullptr) return null_argument("text");
    *text = nullptr;
    if (data == nullptr) return null_argument("data");
    return rlx::open_text({static_cast<const std::byte*>(data), size_bytes}, text);
  });
}

void rlx_text_close(rlx_text* text) {
  delete text;
}

rlx_status rlx_text_get_info(const rlx_text* text, rlx_text_info* info) {
  return guarded(text_error(), [&]() -> Status {
    if (text == nullptr) return null_argument("text");
    RLX_RETURN_IF_ERROR(rlx::check_room(info, "info"));
    rlx::give_struct(rlx::info_of(*text->model), info);
    return {};
  });
}

uint32_t rlx_text_is_stop(const rlx_text* text, int32_t id) {
  return text != nullptr && text->model->is_stop(id) ? 1 : 0;
}

rlx_status rlx_text_encode(const rlx_text* text, const char* utf8, size_t size_bytes,
                           uint32_t flags, int32_t* ids, size_t capacity, size_t* count) {
  return guarded(text_error(), [&]() -> Status {
    std::vector<int32_t> found;
    RLX_RETURN_IF_ERROR(rlx::encode(text, {utf8, size_bytes}, flags, found));
    return rlx::give_all<int32_t>(found, "ids", ids, capacity, count);
  });
}

rlx_status rlx_text_token(const rlx_text* text, int32_t id, const char** bytes,
                          size_t* size_bytes) {
  return guarded(text_error(), [&]() -> Status {
    if (bytes == nullptr) return null_argument("bytes");
    if (size_bytes == nullptr) return null_argument("size_bytes");
    RLX_RETURN_IF_ERROR(rlx::check_token(text, id));
    const std::string_view token = text->model->vocabulary().bytes(static_cast<uint32_t>(id));
    return rlx::give_text(token, bytes, size_bytes);
  });
}

rlx_status rlx_text_stream_create(const rlx_text* text, uint32_t show_control,
                                  rlx_text_stream** stream) {
  return guarded(text_error(), [&]() -> Status {
    if (stream == nullptr) return null_argument("stream");
    *stream = nullptr;
    if (text == nullptr) return null_argument("text");
    if (show_control > 1)
      return {RLX_INVALID_ARGUMENT,
              rlx::text_of("show_control is ", show_control, ", it must be 0 or 1")};
    const auto control = show_control == 1 ? rlx::ControlTokens::Shown : rlx::ControlTokens::Hidden;
    *stream = new rlx_text_stream{rlx::TokenStream(text->model, control)};
    return {};
  });
}

void rlx_text_stream_close(rlx_text_stream* stream) {
  delete stream;
}

rlx_status rlx_text_stream_put(rlx_text_stream* stream, int32_t id, const char** utf8,
                               size_t* size_bytes) {
  return guarded(text_error(), [&]() -> Status {
    RLX_RETURN_IF_ERROR(rlx::check_shown(stream, "stream", utf8, size_bytes));
    std::string_view shown;
    RLX_RETURN_IF_ERROR(stream->stream.put(id, shown));
    return rlx::give_text(shown, utf8, size_bytes);
  });
}

rlx_status rlx_text_stream_end(rlx_text_stream* stream, const char** utf8, size_t* size_bytes) {
  return guarded(text_error(), [&]() -> Status {
    RLX_RETURN_IF_ERROR(rlx::check_shown(stream, "stream", utf8, size_bytes));
    return rlx::give_text(stream->stream.end(), utf8, size_bytes);
  });
}
