// SPDX-License-Identifier: Apache-2.0
// Text of attributes.
#include "compiler/ir/attributes.h"

#include <array>
#include <charconv>
#include <cmath>

namespace rlx {
namespace {

constexpr std::array<std::string_view, 8> kTypeNames = {
    "int", "float", "bool", "string", "list of int", "list of float", "list of string", "dtype"};

// Shortest text that reads back as the same f64, always recognisable as a real number.
std::string real_text(double value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

template <typename List, typename Element>
std::string list_text(const List& list, Element element_text) {
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) text += ", ";
    text += element_text(list[i]);
  }
  return text + "]";
}

struct ValueText {
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return real_text(value); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(const std::string& value) const { return quoted(value); }
  std::string operator()(const Ints& value) const {
    return list_text(value, [](const Dim& element) { return to_string(element); });
  }
  std::string operator()(const Floats& value) const { return list_text(value, real_text); }
  std::string operator()(const Strings& value) const { return list_text(value, quoted); }
};

}  // namespace

std::string_view name_of(AttrType type) {
  return kTypeNames.at(static_cast<size_t>(type));
}

std::string to_string(const AttributeValue& value) {
  return std::visit(ValueText{}, value);
}

}  // namespace rlx
