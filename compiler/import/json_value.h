// SPDX-License-Identifier: Apache-2.0
// JSON text as a tree, for graph files and safetensors headers: integers exact, keys unique, depth
// bounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/support/diagnostics.h"

namespace rlx {

struct JsonMember;
struct JsonValue;
using JsonArray = std::vector<JsonValue>;
using JsonObject = std::vector<JsonMember>;  // in file order, keys unique

struct JsonValue {
  // uint64_t holds only what int64_t cannot. monostate is null.
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, JsonArray, JsonObject>
      data;

  [[nodiscard]] const std::string* string() const { return std::get_if<std::string>(&data); }
  [[nodiscard]] const JsonArray* array() const { return std::get_if<JsonArray>(&data); }
  [[nodiscard]] const JsonObject* object() const { return std::get_if<JsonObject>(&data); }
  [[nodiscard]] const int64_t* integer() const { return std::get_if<int64_t>(&data); }
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

inline constexpr size_t kMaxJsonDepth = 64;

// What a value is, for messages: "a string", "an integer".
std::string_view kind_text(const JsonValue& value);

// The member of that key, or nullptr.
const JsonValue* find_member(const JsonObject& object, std::string_view key);

// Parses a whole text. On a fault adds one error: at "line:column" where the text is malformed, at
// a JSON pointer where a key is repeated, an integer does not fit 64 bits, or the nesting is too
// deep.
std::optional<JsonValue> parse_json(std::string_view text, const std::string& file,
                                    Diagnostics& diagnostics);

// One step of a JSON pointer: "/" and the key with "~" and "/" escaped.
std::string pointer_step(std::string_view key);

// Appends a JSON string literal.
void append_json_string(std::string& out, std::string_view text);

}  // namespace rlx
