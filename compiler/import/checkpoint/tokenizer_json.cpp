// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/checkpoint/tokenizer_json.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace rlx::checkpoint {

void not_read(std::string why) {
  throw NotRead{std::move(why)};
}

const JsonValue* find(const JsonObject& object, std::string_view name) {
  const JsonValue* value = find_member(object, name);
  return value && std::holds_alternative<std::monostate>(value->data) ? nullptr : value;
}
const JsonObject* find_object(const JsonObject& object, std::string_view name) {
  const JsonValue* value = find(object, name);
  return value ? value->object() : nullptr;
}
bool is_true(const JsonObject& object, std::string_view name, bool absent) {
  const JsonValue* value = find(object, name);
  const bool* flag = value ? std::get_if<bool>(&value->data) : nullptr;
  return flag ? *flag : absent;
}
std::string text_or_empty(const JsonObject& object, std::string_view name) {
  const JsonValue* value = find(object, name);
  return value && value->string() ? *value->string() : std::string();
}

std::vector<const JsonObject*> steps_of(const JsonObject& file, std::string_view component,
                                        std::string_view list) {
  const JsonValue* value = find(file, component);
  if (value == nullptr) return {};
  const JsonObject* object = value->object();
  if (object == nullptr) not_read("a tokenizer whose " + std::string(component) + " is no object");
  if (text_or_empty(*object, "type") != "Sequence") return {object};
  const JsonValue* items = find(*object, list);
  std::vector<const JsonObject*> steps;
  if (items == nullptr || items->array() == nullptr)
    not_read("a tokenizer whose " + std::string(component) + " is a sequence of nothing");
  for (const JsonValue& item : *items->array()) {
    if (item.object() == nullptr)
      not_read("a tokenizer whose " + std::string(component) + " has a step that is no object");
    steps.push_back(item.object());
  }
  return steps;
}

std::string named_token(const JsonObject& settings, std::string_view name) {
  const JsonObject* object = find_object(settings, name);
  return object ? text_or_empty(*object, "content") : text_or_empty(settings, name);
}

std::string pattern_of(const JsonObject& step, std::string_view kind) {
  const JsonObject* pattern = find_object(step, "pattern");
  return pattern ? text_or_empty(*pattern, kind) : "";
}

bool has_step(const JsonObject& file, std::string_view component, std::string_view list,
              std::string_view type) {
  return std::ranges::any_of(steps_of(file, component, list), [type](const JsonObject* step) {
    return text_or_empty(*step, "type") == type;
  });
}

}  // namespace rlx::checkpoint
