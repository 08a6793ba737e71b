// SPDX-License-Identifier: Apache-2.0
// What a description gives its kernel's text: words for operands, dims and attributes, in the
// common words of GLSL and CUDA C++ (shaders/README.md).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

#include "compiler/ops/extension/extension.h"

namespace rlx {
namespace {

// Every identifier of a text.
std::set<std::string, std::less<>> identifiers(std::string_view text) {
  std::set<std::string, std::less<>> names;
  const auto continues = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (size_t at = 0; at < text.size();) {
    if (!continues(text[at])) {
      ++at;
      continue;
    }
    const size_t first = at;
    while (at < text.size() && continues(text[at])) ++at;
    names.emplace(text.substr(first, at - first));
  }
  return names;
}

// The bits of an f32: no spelling of it reads differently in two languages.
std::string float_text(double value) {
  const auto narrow_value = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &narrow_value, sizeof bits);
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "(rlx_from_bits(0x%08Xu))", bits);
  return text.data();
}

class Words {
 public:
  explicit Words(const std::string& kernel) : used_(identifiers(kernel)) {}

  void define(const std::string& name, const std::string& text) {
    if (used_.contains(name)) text_ += "#define " + name + " " + text + "\n";
  }

  // x_count, x_type, and x_load(i) of an input, x_store(i, value) of an output.
  enum class Role : uint8_t { Input, Output };
  void operand(Role role, const std::string& name, const TensorType& type, size_t position) {
    const std::string dtype(name_of(type.dtype));
    const std::string count = "rlx_i64(" + size_text(element_count(type.shape)) + ")";
    const std::string place = "p.operands[" + std::to_string(position) + "]";
    const std::string outside =
        "  if (i < rlx_i64(0) || i >= " + count + ") {\n" + "    RLX_COUNT_OUTSIDE(1u);\n";
    define(name + "_count", "(" + count + ")");
    define(name + "_type", "rlx_t_" + dtype);
    if (role == Role::Input && used_.contains(name + "_load")) {
      text_ += "RLX_FN rlx_t_" + dtype + " rlx_checked_load_" + name +
               "(RLX_TAKE_P rlx_i64 i) {\n" + outside + "    return rlx_t_" + dtype +
               "(0);\n  }\n  return rlx_load_" + dtype + "(" + place + ", i);\n}\n";
      text_ +=
          "#define " + name + "_load(i) rlx_checked_load_" + name + "(RLX_GIVE_P rlx_place(i))\n";
    }
    if (role == Role::Output && used_.contains(name + "_store")) {
      text_ += "RLX_FN void rlx_checked_store_" + name + "(RLX_TAKE_P rlx_i64 i, rlx_t_" + dtype +
               " value) {\n" + outside + "    return;\n  }\n  rlx_store_" + dtype + "(" + place +
               ", i, value);\n}\n#define " + name + "_store(i, value) rlx_checked_store_" + name +
               "(RLX_GIVE_P rlx_place(i), value)\n";
    }
  }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::set<std::string, std::less<>> used_;
  std::string text_;
};

void add_attribute(const AttrSpec& spec, const AttributeReader& attrs, Words& words) {
  const std::string name = "attr_" + std::string(spec.name);
  if (spec.type == AttrType::Int)
    words.define(name, "(" + std::to_string(attrs.integer(spec.name)) + ")");
  if (spec.type == AttrType::Float) words.define(name, float_text(attrs.real(spec.name)));
  if (spec.type == AttrType::Bool) words.define(name, attrs.flag(spec.name) ? "1" : "0");
  if (spec.type != AttrType::String) return;
  for (const std::string_view choice : spec.choices)
    words.define(name + "_is_" + std::string(choice), attrs.text(spec.name) == choice ? "1" : "0");
}

}  // namespace

std::string extension_words(const Extension& extension, const ExtensionBinding& binding,
                            const std::vector<TensorType>& inputs, const AttributeReader& attrs) {
  Words words(extension.kernel->text);
  size_t position = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    words.operand(Words::Role::Input, extension.inputs[i].name, inputs[i], position++);
  for (size_t i = 0; i < binding.outputs.size(); ++i)
    words.operand(Words::Role::Output, extension.outputs[i].name, binding.outputs[i], position++);
  for (const auto& [name, size] : binding.sizes)
    words.define("dim_" + name, "(" + size_text(size) + ")");
  for (const AttrSpec& spec : extension.attributes) add_attribute(spec, attrs, words);
  return words.text();
}

}  // namespace rlx
