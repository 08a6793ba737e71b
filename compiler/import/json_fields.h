// SPDX-License-Identifier: Apache-2.0
// Typed access to the fields of one JSON object, with an error for every field that is unknown,
// missing or of a wrong type.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/json_value.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

// Where the errors of one file go.
struct JsonErrors {
  const std::string& file;
  Diagnostics& diagnostics;

  void add(DiagCode code, const std::string& pointer, std::string message, std::string hint = {}) {
    diagnostics.error(code, {file, pointer}, std::move(message), std::move(hint));
  }
};

// One object. `what` names it in messages ("param \"w\"", "node"); every getter reports at most one
// error and then returns a harmless default, so reading goes on and finds the next error.
class JsonFields {
 public:
  // Reports a value that is no object, and every field that is not in `known`.
  JsonFields(JsonErrors& errors, const JsonValue& value, std::string pointer, std::string what,
             std::initializer_list<std::string_view> known)
      : JsonFields(errors, value, std::move(pointer), std::move(what),
                   std::vector<std::string_view>(known)) {}
  JsonFields(JsonErrors& errors, const JsonValue& value, std::string pointer, std::string what,
             const std::vector<std::string_view>& known);

  [[nodiscard]] const JsonValue* find(std::string_view key) const;
  [[nodiscard]] const std::string& pointer() const { return pointer_; }

  // Required fields report their absence; the others return the default.
  std::string required_text(std::string_view key);
  std::string text(std::string_view key);
  std::optional<int64_t> required_integer(std::string_view key);
  int64_t integer(std::string_view key, int64_t absent);
  uint64_t unsigned_integer(std::string_view key, uint64_t absent);
  double real(std::string_view key, double absent);
  // nullptr where it is absent.
  const JsonValue* required(std::string_view key);
  bool flag(std::string_view key);  // absent: false
  const JsonArray& array(std::string_view key);
  const JsonArray& required_array(std::string_view key);
  // Items of an array of strings.
  std::vector<std::string> texts(std::string_view key);

  // A field of this object is wrong.
  void wrong_type(std::string_view key, const JsonValue& value, std::string_view wanted);
  void fail(DiagCode code, std::string message, std::string hint = {});

 private:
  JsonErrors& errors_;
  std::string pointer_;
  std::string what_;
  const JsonObject* object_ = nullptr;  // nullptr: already reported
};

}  // namespace rlx
