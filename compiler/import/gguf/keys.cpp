// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/gguf/keys.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/import/inline_data.h"
#include "compiler/import/names.h"
#include "compiler/import/source_graph.h"

namespace rlx::gguf {
namespace {

// Models compute in f32, where others are infinite or 0.
bool is_f32_range(double value) {
  const double size = std::abs(value);
  return size == 0 || (size >= std::numeric_limits<float>::denorm_min() &&
                       size <= std::numeric_limits<float>::max());
}

}  // namespace

const Value* Keys::find(const std::string& key) {
  asked_.insert(key);
  const auto found = file_.keys.find(key);
  return found == file_.keys.end() ? nullptr : &found->second;
}

std::optional<int64_t> Keys::integer(const std::string& key) {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<int64_t>(value)) return *number;
  return wrong_type(key, *value, "an integer");
}

std::optional<double> Keys::real(const std::string& key) {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  const auto* number = std::get_if<double>(value);
  if (number == nullptr || !std::isfinite(*number)) return wrong_type(key, *value, "a finite real");
  if (is_f32_range(*number)) return *number;
  fail(DiagCode::Limit,
       "key " + in_quotes(key) + " is " + real_text(*number) + ", which f32 does not hold");
  return std::nullopt;
}

std::optional<bool> Keys::flag(const std::string& key) {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(value)) return *flag;
  return wrong_type(key, *value, "a bool");
}

std::optional<std::string> Keys::text(const std::string& key) {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* text = std::get_if<std::string_view>(value);
  if (text == nullptr) return wrong_type(key, *value, "a string");
  const auto fault = text_fault(*text, kMaxNoteBytes);
  if (!fault) return std::string(*text);
  fail(DiagCode::Limit, "the value of key " + in_quotes(key) + " " + *fault);
  return std::nullopt;
}

std::optional<int64_t> Keys::integer_of_layers(const std::string& key) {
  const Value* value = find(key);
  const auto* array = value ? std::get_if<Array>(value) : nullptr;
  if (array == nullptr) return integer(key);
  const auto items = numbers_of(*array);
  const auto* first = items && !items->empty() ? std::get_if<int64_t>(&items->front()) : nullptr;
  if (first == nullptr) return wrong_type(key, *value, "an integer or a list of them");
  const auto is_first = [first](const Value& item) {
    const auto* number = std::get_if<int64_t>(&item);
    return number != nullptr && *number == *first;
  };
  if (std::ranges::all_of(*items, is_first)) return *first;
  fail(DiagCode::UnsupportedOp,
       "key " + in_quotes(key) + " differs from layer to layer, which is not read");
  return std::nullopt;
}

int64_t Keys::integer_in(const std::string& key, int64_t least, int64_t most,
                         std::optional<int64_t> fallback) {
  const size_t errors_before = diagnostics_.error_count();
  const std::optional<int64_t> value = integer_of_layers(key);
  if (!value && (fallback || diagnostics_.error_count() > errors_before))
    return fallback.value_or(least);
  if (value && *value >= least && *value <= most) return *value;
  fail(value ? DiagCode::Limit : DiagCode::BadField,
       value ? "key " + in_quotes(key) + " is " + std::to_string(*value) + ", wanted " +
                   std::to_string(least) + " to " + std::to_string(most)
             : "key " + in_quotes(key) + " is missing");
  return least;
}

std::vector<std::string_view> Keys::unread(std::string_view prefix) const {
  std::vector<std::string_view> names;
  for (const auto& [key, value] : file_.keys) {
    if (key.starts_with(prefix) && !asked_.contains(key)) names.push_back(key);
  }
  return names;
}

void Keys::fail(DiagCode code, const std::string& message, const std::string& hint) {
  diagnostics_.error(code, place_, message, hint);
}

void Keys::warn(const std::string& message, const std::string& hint) {
  diagnostics_.warning(DiagCode::BadField, place_, message, hint);
}

std::nullopt_t Keys::wrong_type(const std::string& key, const Value& value,
                                std::string_view wanted) {
  fail(DiagCode::BadField,
       "key " + in_quotes(key) + " is " + kind_text(value) + ", wanted " + std::string(wanted));
  return std::nullopt;
}

}  // namespace rlx::gguf
