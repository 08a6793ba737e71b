// SPDX-License-Identifier: Apache-2.0
// What the readers of tokenizer.json share: looking into it, and giving up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/json_value.h"

namespace rlx::checkpoint {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// The tokenizer is not one that is read: a warning, and no keys.
struct NotRead {
  std::string why;
};
[[noreturn]] void not_read(std::string why);

// The member of that name; nullptr where there is none, and where it is null.
const JsonValue* find(const JsonObject& object, std::string_view name);
// nullptr where it is no object.
const JsonObject* find_object(const JsonObject& object, std::string_view name);
bool is_true(const JsonObject& object, std::string_view name, bool absent = false);
std::string text_or_empty(const JsonObject& object, std::string_view name);
// A token of tokenizer_config.json: its text, or an object with it.
std::string named_token(const JsonObject& settings, std::string_view name);
// The pattern of a step that splits or replaces, by how it is given: "String" or "Regex"; empty
// where it is given otherwise.
std::string pattern_of(const JsonObject& step, std::string_view kind);

// The steps of a component that may be a Sequence of them under `list`; none where it is null.
std::vector<const JsonObject*> steps_of(const JsonObject& file, std::string_view component,
                                        std::string_view list);
// Whether one of them is of that type.
bool has_step(const JsonObject& file, std::string_view component, std::string_view list,
              std::string_view type);

}  // namespace rlx::checkpoint
