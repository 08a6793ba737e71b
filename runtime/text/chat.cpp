// SPDX-License-Identifier: Apache-2.0
// Conversations.
#include "runtime/text/chat.h"

#include <algorithm>

#include "runtime/base/c_frame.h"
#include "runtime/base/text.h"
#include "runtime/text/jinja.h"
#include "runtime/text/jinja_json.h"

namespace rlx {
namespace {

using jinja::NamedValue;
using jinja::Origin;
using jinja::Value;

// The years of a calendar's four digits: 1 to 9999.
constexpr int64_t kFirstSecond = -62135596800;
constexpr int64_t kLastSecond = 253402300799;

const jinja::Values& values() {
  static const jinja::Values all(nullptr);
  return all;
}

Value caller_text(std::string_view utf8) {
  return values().text(jinja::MarkedText(jinja::repaired_utf8(utf8), Origin::Input));
}

Status find_template(const TextModel& model, const char* name, const ChatTemplateText*& found) {
  const std::vector<ChatTemplateText>& all = model.facts().templates;
  const std::string_view wanted = name == nullptr ? "" : name;
  const auto entry = std::find_if(
      all.begin(), all.end(), [&](const ChatTemplateText& other) { return other.name == wanted; });
  if (entry != all.end()) {
    found = &*entry;
    return {};
  }
  std::vector<std::string_view> names;
  for (const ChatTemplateText& other : all) names.push_back(other.name);
  return {RLX_INVALID_ARGUMENT, text_of("the plan has no chat template ", quoted(wanted),
                                        ", it has: ", list_text(names))};
}

Status check_message(const rlx_text_message& message, size_t index) {
  const std::string name = text_of("messages[", index, "]");
  if (message.role == nullptr) return null_argument(text_of(name, ".role"));
  if (message.content == nullptr && message.content_bytes > 0) {
    return null_argument(text_of(name, ".content"));
  }
  return {};
}

Status message_list(std::span<const rlx_text_message> messages, Value& list) {
  std::vector<Value> all;
  for (size_t i = 0; i < messages.size(); ++i) {
    const rlx_text_message& message = messages[i];
    RLX_RETURN_IF_ERROR(check_message(message, i));
    const std::string_view content = message.content_bytes == 0
                                         ? std::string_view()
                                         : std::string_view(message.content, message.content_bytes);
    all.push_back(
        values().distinct_dict({{.key = values().text("role"), .value = caller_text(message.role)},
                                {.key = values().text("content"), .value = caller_text(content)}}));
  }
  list = values().list(std::move(all));
  return {};
}

void set(std::vector<NamedValue>& variables, std::string_view name, Value value) {
  const auto found = std::find_if(variables.begin(), variables.end(),
                                  [&](const NamedValue& other) { return other.name == name; });
  if (found != variables.end()) {
    found->value = std::move(value);
  } else {
    variables.push_back({.name = std::string(name), .value = std::move(value)});
  }
}

// A token's name, which the template may write: the model's own text.
void set_token(std::vector<NamedValue>& variables, std::string_view name, const TextModel& model,
               std::optional<int32_t> id) {
  if (!id) return;
  const std::string_view bytes = model.vocabulary().bytes(static_cast<uint32_t>(*id));
  set(variables, name, values().text(jinja::repaired_utf8(bytes)));
}

// A caller's own variables. Messages with more than a role and a content (calls of tools) can only
// come so.
Status set_given(std::vector<NamedValue>& variables, const char* json, bool has_messages) {
  if (json == nullptr) return {};
  auto read = jinja::read_json(json);
  if (const auto* fault = std::get_if<std::string>(&read)) {
    return {RLX_INVALID_ARGUMENT, text_of("variables_json, ", *fault)};
  }
  const Value& given = std::get<Value>(read);
  if (!given.is(jinja::Kind::Dict)) {
    return {RLX_INVALID_ARGUMENT,
            text_of("variables_json is ", jinja::kind_text(given), ", wanted an object")};
  }
  for (const jinja::Member& member : given.dict().members) {
    const std::string_view name = member.key.text().bytes();
    if (name == "add_generation_prompt") {
      return {RLX_INVALID_ARGUMENT,
              "variables_json sets add_generation_prompt: set add_reply_start instead"};
    }
    if (name == "messages" && has_messages) {
      return {RLX_INVALID_ARGUMENT,
              "variables_json sets messages, and there are messages beside it: give one of them"};
    }
    set(variables, name, member.value);
  }
  return {};
}

Status variables_of(const TextModel& model, std::span<const rlx_text_message> messages,
                    const rlx_text_chat_options& options, std::vector<NamedValue>& variables) {
  Value list;
  RLX_RETURN_IF_ERROR(message_list(messages, list));
  set(variables, "messages", std::move(list));
  set(variables, "add_generation_prompt", options.add_reply_start == 1);
  set(variables, "tools", jinja::None{});
  set(variables, "documents", jinja::None{});
  set_token(variables, "bos_token", model, model.facts().begin);
  set_token(variables, "eos_token", model, model.facts().end);
  return set_given(variables, options.variables_json, !messages.empty());
}

Status check_options(const rlx_text_chat_options& options) {
  if (options.add_reply_start > 1) {
    return {RLX_INVALID_ARGUMENT, text_of("argument options has add_reply_start ",
                                          options.add_reply_start, ", it must be 0 or 1")};
  }
  if (options.reserved != 0) {
    return {RLX_INVALID_ARGUMENT, "argument options sets `reserved`, which must be 0"};
  }
  if (options.now_unix_seconds >= kFirstSecond && options.now_unix_seconds <= kLastSecond)
    return {};
  return {RLX_INVALID_ARGUMENT,
          text_of("argument options has now_unix_seconds ", options.now_unix_seconds,
                  ", wanted a time of the years 1 to 9999")};
}

}  // namespace

Status render_chat(const TextModel& model, std::span<const rlx_text_message> messages,
                   const rlx_text_chat_options& options, jinja::MarkedText& text) {
  RLX_RETURN_IF_ERROR(check_options(options));
  const ChatTemplateText* found = nullptr;
  RLX_RETURN_IF_ERROR(find_template(model, options.template_name, found));
  std::vector<NamedValue> variables;
  RLX_RETURN_IF_ERROR(variables_of(model, messages, options, variables));
  return jinja::render(found->name, found->source, variables,
                       {.now_unix_seconds = options.now_unix_seconds}, text);
}

std::vector<TextPiece> pieces_of(const jinja::MarkedText& text) {
  std::vector<TextPiece> pieces;
  size_t begin = 0;
  for (const jinja::MarkedText::Run& run : text.runs()) {
    pieces.push_back({.text = text.bytes().substr(begin, run.end - begin),
                      .is_trusted = run.origin == Origin::Template});
    begin = run.end;
  }
  return pieces;
}

}  // namespace rlx
