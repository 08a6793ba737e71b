// SPDX-License-Identifier: Apache-2.0
// Typed access to the fields of one JSON object.
#include "compiler/import/json_fields.h"

#include <algorithm>

#include "compiler/import/inline_data.h"
#include "compiler/import/names.h"

namespace rlx {
namespace {

const JsonArray kNoItems;

}  // namespace

JsonFields::JsonFields(JsonErrors& errors, const JsonValue& value, std::string pointer,
                       std::string what, const std::vector<std::string_view>& known)
    : errors_(errors),
      pointer_(std::move(pointer)),
      what_(std::move(what)),
      object_(value.object()) {
  if (object_ == nullptr) {
    fail(DiagCode::BadField, what_ + " is " + std::string(kind_text(value)) + ", wanted an object");
    return;
  }
  for (const JsonMember& member : *object_) {
    if (std::find(known.begin(), known.end(), member.key) != known.end()) continue;
    std::string hint = nearest_hint(member.key, known);
    if (hint.empty()) hint = "its fields are " + list_names(known);
    fail(DiagCode::BadField, what_ + " has an unknown field " + in_quotes(member.key),
         std::move(hint));
  }
}

const JsonValue* JsonFields::find(std::string_view key) const {
  return object_ ? find_member(*object_, key) : nullptr;
}

const JsonValue* JsonFields::required(std::string_view key) {
  const JsonValue* value = find(key);
  if (value == nullptr && object_ != nullptr) {
    fail(DiagCode::BadField, what_ + " has no field " + in_quotes(key));
  }
  return value;
}

std::string JsonFields::required_text(std::string_view key) {
  return required(key) ? text(key) : std::string();
}

std::string JsonFields::text(std::string_view key) {
  const JsonValue* value = find(key);
  if (value == nullptr) return {};
  if (value->string() == nullptr) {
    wrong_type(key, *value, "a string");
    return {};
  }
  return *value->string();
}

std::optional<int64_t> JsonFields::required_integer(std::string_view key) {
  if (required(key) == nullptr) return std::nullopt;
  return integer(key, 0);
}

int64_t JsonFields::integer(std::string_view key, int64_t absent) {
  const JsonValue* value = find(key);
  if (value == nullptr) return absent;
  if (value->integer() == nullptr) {
    wrong_type(key, *value, "an integer of 64 bits");
    return absent;
  }
  return *value->integer();
}

uint64_t JsonFields::unsigned_integer(std::string_view key, uint64_t absent) {
  const JsonValue* value = find(key);
  if (value == nullptr) return absent;
  if (const auto* large = std::get_if<uint64_t>(&value->data)) return *large;
  if (value->integer() == nullptr || *value->integer() < 0) {
    wrong_type(key, *value, "an integer from 0 to 2^64 - 1");
    return absent;
  }
  return static_cast<uint64_t>(*value->integer());
}

double JsonFields::real(std::string_view key, double absent) {
  const JsonValue* value = find(key);
  if (value == nullptr) return absent;
  const std::optional<double> real = real_from_json(*value);
  if (!real) {
    wrong_type(key, *value, "a number that f64 holds exactly, \"nan\", \"inf\" or \"-inf\"");
    return absent;
  }
  return *real;
}

bool JsonFields::flag(std::string_view key) {
  const JsonValue* value = find(key);
  if (value == nullptr) return false;
  const bool* flag = std::get_if<bool>(&value->data);
  if (flag == nullptr) wrong_type(key, *value, "true or false");
  return flag != nullptr && *flag;
}

const JsonArray& JsonFields::array(std::string_view key) {
  const JsonValue* value = find(key);
  if (value == nullptr) return kNoItems;
  if (value->array() == nullptr) {
    wrong_type(key, *value, "an array");
    return kNoItems;
  }
  return *value->array();
}

const JsonArray& JsonFields::required_array(std::string_view key) {
  return required(key) ? array(key) : kNoItems;
}

std::vector<std::string> JsonFields::texts(std::string_view key) {
  std::vector<std::string> texts;
  for (const JsonValue& item : array(key)) {
    if (item.string() == nullptr) {
      fail(DiagCode::BadField, "field " + in_quotes(key) + " of " + what_ + " holds " +
                                   std::string(kind_text(item)) + ", wanted only strings");
      return {};
    }
    texts.push_back(*item.string());
  }
  return texts;
}

void JsonFields::wrong_type(std::string_view key, const JsonValue& value, std::string_view wanted) {
  fail(DiagCode::BadField, "field " + in_quotes(key) + " of " + what_ + " is " +
                               std::string(kind_text(value)) + ", wanted " + std::string(wanted));
}

void JsonFields::fail(DiagCode code, std::string message, std::string hint) {
  errors_.add(code, pointer_, std::move(message), std::move(hint));
}

}  // namespace rlx
