// SPDX-License-Identifier: Apache-2.0
// JSON text to tree, over the SAX interface of nlohmann::json.
#include "compiler/import/json_value.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace rlx {
namespace {

constexpr size_t kMaxQuotedBytes = 200;  // of the parser's message, which quotes the file

std::string line_and_column(std::string_view text, size_t offset_bytes) {
  const std::string_view before = text.substr(0, offset_bytes);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_start =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return std::to_string(line) + ":" + std::to_string(before.size() - line_start + 1);
}

// The library's sentence without its own prefix ("[json.exception...] parse error at line 1, column
// 2: "), made printable.
std::string plain_message(std::string message) {
  if (const size_t bracket = message.find("] "); bracket != std::string::npos) {
    message.erase(0, bracket + 2);
  }
  if (message.rfind("parse error at", 0) == 0) {
    if (const size_t colon = message.find(": "); colon != std::string::npos) {
      message.erase(0, colon + 2);
    }
  }
  if (message.size() > kMaxQuotedBytes) message = message.substr(0, kMaxQuotedBytes) + "...";
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return message;
}

// Builds the tree; every callback returns false after an error, which ends the parse.
class TreeBuilder {
 public:
  TreeBuilder(std::string_view text, const std::string& file, Diagnostics& diagnostics)
      : text_(text), file_(file), diagnostics_(diagnostics) {}

  JsonValue take_root() { return std::move(root_); }

  bool null() { return put({}); }
  bool boolean(bool value) { return put({value}); }
  bool number_integer(int64_t value) { return put({value}); }
  bool number_unsigned(uint64_t value) {
    if (value <= static_cast<uint64_t>(INT64_MAX)) return put({static_cast<int64_t>(value)});
    return put({value});
  }
  bool number_float(double value, const std::string& written) {
    // The library turns an integer beyond 64 bits into a float.
    if (written.find_first_of(".eE") == std::string::npos) {
      return fail(DiagCode::BadField,
                  "integer " + written.substr(0, kMaxQuotedBytes) + " does not fit 64 bits");
    }
    return put({value});
  }
  bool string(std::string& value) { return put({std::move(value)}); }
  bool binary(std::vector<uint8_t>&) { return false; }  // not in JSON text

  bool start_object(size_t) { return open({JsonObject{}}); }
  bool start_array(size_t) { return open({JsonArray{}}); }
  bool key(std::string& key) {
    open_.back().key = std::move(key);
    return true;
  }
  bool end_object() {
    JsonValue& value = open_.back().value;
    const std::optional<std::string> twice = repeated_key(std::get<JsonObject>(value.data));
    if (twice) {
      open_.back().key = *twice;
      return fail(DiagCode::Syntax, "key \"" + *twice + "\" appears twice in one object");
    }
    return close();
  }
  bool end_array() { return close(); }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    const size_t offset = position > 0 ? std::min(position - 1, text_.size()) : 0;
    diagnostics_.error(DiagCode::Syntax, {file_, line_and_column(text_, offset)},
                       "malformed JSON: " + plain_message(error.what()));
    return false;
  }

 private:
  struct Open {
    JsonValue value;
    std::string key;  // of the member being read
  };

  static std::optional<std::string> repeated_key(const JsonObject& object) {
    std::vector<std::string_view> keys;
    keys.reserve(object.size());
    for (const JsonMember& member : object) keys.push_back(member.key);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice == keys.end()) return std::nullopt;
    return std::string(*twice);
  }

  bool put(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (auto* array = std::get_if<JsonArray>(&open_.back().value.data)) {
      array->push_back(std::move(value));
    } else {
      std::get<JsonObject>(open_.back().value.data)
          .push_back({std::move(open_.back().key), std::move(value)});
    }
    return true;
  }
  bool open(JsonValue container) {
    if (open_.size() == kMaxJsonDepth) {
      return fail(DiagCode::Limit,
                  "JSON is nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
    }
    open_.push_back({std::move(container), {}});
    return true;
  }
  bool close() {
    JsonValue value = std::move(open_.back().value);
    open_.pop_back();
    return put(std::move(value));
  }
  bool fail(DiagCode code, std::string message) {
    std::string pointer;
    for (const Open& level : open_) {
      const auto* array = level.value.array();
      pointer += array ? "/" + std::to_string(array->size()) : pointer_step(level.key);
    }
    diagnostics_.error(code, {file_, pointer}, std::move(message));
    return false;
  }

  std::string_view text_;
  const std::string& file_;
  Diagnostics& diagnostics_;
  JsonValue root_;
  std::vector<Open> open_;
};

}  // namespace

std::string_view kind_text(const JsonValue& value) {
  constexpr std::array<std::string_view, 8> kTexts = {"null",       "a boolean",     "an integer",
                                                      "an integer", "a real number", "a string",
                                                      "an array",   "an object"};
  return kTexts.at(value.data.index());
}

const JsonValue* find_member(const JsonObject& object, std::string_view key) {
  for (const JsonMember& member : object) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

std::optional<JsonValue> parse_json(std::string_view text, const std::string& file,
                                    Diagnostics& diagnostics) {
  TreeBuilder builder(text, file, diagnostics);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return std::nullopt;
  return builder.take_root();
}

std::string pointer_step(std::string_view key) {
  std::string step = "/";
  for (const char c : key) {
    if (c == '~') {
      step += "~0";
    } else if (c == '/') {
      step += "~1";
    } else {
      step += c;
    }
  }
  return step;
}

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace rlx
