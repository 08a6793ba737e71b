// SPDX-License-Identifier: Apache-2.0
#include "compiler/extension/read_description.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "compiler/import/json_fields.h"
#include "compiler/import/names.h"

namespace rlx {
namespace {

constexpr int64_t kVersion = 1;
constexpr size_t kMostOperands = RLX_EXTENSION_OPERANDS;
// Types that kernels load and store one by one.
constexpr std::array kOperandTypes = {DType::f32, DType::f16, DType::bf16, DType::f64,
                                      DType::i8,  DType::u8,  DType::i16,  DType::i32,
                                      DType::u32, DType::i64, DType::bool_};
constexpr std::array<std::pair<std::string_view, AttrType>, 7> kAttributeTypes = {{
    {"int", AttrType::Int},
    {"float", AttrType::Float},
    {"bool", AttrType::Bool},
    {"string", AttrType::String},
    {"dtype", AttrType::DTypeName},
    {"ints", AttrType::IntList},
    {"floats", AttrType::FloatList},
}};

// A word of JSON names, of expressions and of kernels' texts.
bool is_word(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && text.size() <= 64 && is_letter(text.front()) &&
         !text.starts_with("rlx_") && !text.starts_with("RLX_") && !text.starts_with("gl_") &&
         text.find("__") == std::string_view::npos &&
         std::ranges::all_of(text, [&](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

std::string number_text(const JsonValue& value) {
  if (const auto* integer = value.integer()) return std::to_string(*integer);
  const auto* real = std::get_if<double>(&value.data);
  return real != nullptr ? to_string(AttributeValue(*real)) : std::string();
}

class Reader {
 public:
  Reader(const ExtensionFiles& files, Diagnostics& diagnostics)
      : files_(files), file_(files.place("extension.json")), errors_{file_, diagnostics} {}

  Description read(const JsonValue& root) {
    Description description;
    JsonFields fields(errors_, root, "", "extension",
                      {"rlx_extension", "namespace", "ops", "cases"});
    const std::optional<int64_t> version = fields.required_integer("rlx_extension");
    if (version && *version != kVersion)
      fields.fail(DiagCode::UnsupportedVersion, "the description has version " +
                                                    std::to_string(*version) +
                                                    ", this compiler reads version 1");
    const std::string space = fields.required_text("namespace");
    check_word(space, "namespace", fields);
    description.cases = fields.text("cases");
    const JsonArray& ops = fields.required_array("ops");
    for (size_t i = 0; i < ops.size(); ++i)
      description.ops.push_back(op(ops[i], "/ops/" + std::to_string(i), space));
    if (ops.empty()) fields.fail(DiagCode::BadField, "the extension has no ops");
    return description;
  }

 private:
  void check_word(const std::string& name, const std::string& what, JsonFields& fields) {
    if (name.empty() || is_word(name)) return;  // an absent one was reported
    fields.fail(DiagCode::BadField,
                what + " is " + in_quotes(name) +
                    ", wanted letters, digits and single underscores, a letter first, and no "
                    "word of the compiler's own (rlx_, RLX_, gl_)");
  }

  DescribedOp op(const JsonValue& value, const std::string& pointer, const std::string& space) {
    JsonFields fields(errors_, value, pointer, "op",
                      {"name", "summary", "types", "inputs", "outputs", "attributes", "requires",
                       "kernel", "graph", "reference", "gradient"});
    DescribedOp described;
    described.pointer = pointer;
    described.extension = std::make_unique<Extension>();
    Extension& extension = *described.extension;
    const std::string name = fields.required_text("name");
    check_word(name, "name of the op", fields);
    extension.name = space + "." + name;
    extension.summary = fields.text("summary");
    if (const JsonValue* types = fields.find("types")) read_types(extension, *types, fields);
    read_attributes(extension, fields);
    extension.inputs = operands(fields, "inputs", false);
    extension.outputs = operands(fields, "outputs", true);
    check_counts(extension, fields);
    read_requirements(extension, fields);
    if (const JsonValue* kernel = fields.find("kernel"))
      extension.kernel = read_kernel(*kernel, pointer + "/kernel");
    described.graph = read_graph(fields, "graph");
    described.reference = read_graph(fields, "reference");
    if (const JsonValue* gradient = fields.find("gradient"))
      extension.gradient = read_gradient(*gradient, pointer + "/gradient", space);
    if (fields.find("kernel") == nullptr && fields.find("graph") == nullptr)
      fields.fail(DiagCode::BadField, extension.name + " has neither a kernel nor a graph",
                  "give the file of a kernel's text, or a graph of other ops");
    extension.signature = signature(extension);
    return described;
  }

  static void check_counts(const Extension& extension, JsonFields& fields) {
    const size_t count = extension.inputs.size() + extension.outputs.size();
    if (extension.outputs.empty())
      fields.fail(DiagCode::BadField, extension.name + " has no outputs");
    if (extension.inputs.empty())
      fields.fail(DiagCode::BadField, extension.name + " has no inputs");
    if (count > kMostOperands)
      fields.fail(DiagCode::Limit, extension.name + " has " + std::to_string(count) +
                                       " inputs and outputs, at most 15 are read");
  }

  void read_types(Extension& extension, const JsonValue& value, JsonFields& fields) {
    if (value.object() == nullptr) return fields.wrong_type("types", value, "an object");
    for (const JsonMember& member : *value.object()) {
      check_word(member.key, "name of a type", fields);
      if (dtype_from_name(member.key))
        fields.fail(DiagCode::DuplicateName,
                    in_quotes(member.key) + " of \"types\" is an element type already");
      std::vector<DType>& legal = extension.types[member.key];
      const JsonArray* list = member.value.array();
      for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
        const JsonValue& item = (*list)[i];
        const auto dtype = item.string() ? dtype_from_name(*item.string()) : std::nullopt;
        if (dtype && std::ranges::find(kOperandTypes, *dtype) != kOperandTypes.end()) {
          legal.push_back(*dtype);
        } else {
          fields.fail(DiagCode::UnknownDtype,
                      "type " + in_quotes(member.key) + " lists what is no element type of kernels",
                      "f32, f16, bf16, f64, i8, u8, i16, i32, u32, i64 and bool are");
        }
      }
      if (legal.empty())
        fields.fail(DiagCode::BadField,
                    "type " + in_quotes(member.key) + " lists no element types");
    }
  }

  std::vector<ExtensionOperand> operands(JsonFields& fields, const std::string& key,
                                         bool are_outputs) {
    std::vector<ExtensionOperand> list;
    const JsonArray& items = fields.required_array(key);
    for (size_t i = 0; i < items.size(); ++i) {
      const std::string pointer = fields.pointer() + "/" + key + "/" + std::to_string(i);
      JsonFields item(errors_, items[i], pointer, "operand", {"name", "dtype", "shape", "like"});
      ExtensionOperand& operand = list.emplace_back();
      operand.name = item.required_text("name");
      check_word(operand.name, "name of an operand", item);
      operand.dtype = item.required_text("dtype");
      operand.like = item.text("like");
      if (item.find("shape") != nullptr) operand.shape = sizes(item, "shape");
      if (are_outputs && operand.shape.has_value() == !operand.like.empty())
        item.fail(DiagCode::BadField, "output " + in_quotes(operand.name) +
                                          " wants either \"shape\" or \"like\", an input's name");
      if (!are_outputs && !operand.like.empty())
        item.fail(DiagCode::BadField, "input " + in_quotes(operand.name) + " has \"like\"",
                  "leave the shape away: any shape is taken then");
    }
    return list;
  }

  // Numbers and expressions.
  static std::string expression(const JsonValue& value) {
    if (value.string()) return *value.string();
    return value.integer() ? std::to_string(*value.integer()) : std::string();
  }

  std::vector<std::string> sizes(JsonFields& fields, const std::string& key) {
    std::vector<std::string> list;
    for (const JsonValue& item : fields.array(key)) {
      list.push_back(expression(item));
      if (list.back().empty())
        fields.fail(DiagCode::BadField, in_quotes(key) + " holds " + std::string(kind_text(item)) +
                                            ", wanted numbers and expressions");
    }
    return list;
  }

  void read_attributes(Extension& extension, JsonFields& fields) {
    const JsonArray& items = fields.array("attributes");
    extension.attributes.reserve(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      const std::string pointer = fields.pointer() + "/attributes/" + std::to_string(i);
      JsonFields item(errors_, items[i], pointer, "attribute",
                      {"name", "type", "default", "min", "max", "choices"});
      extension.attributes.push_back(attribute(extension, item));
    }
  }

  void read_requirements(Extension& extension, JsonFields& fields) {
    const JsonArray& items = fields.array("requires");
    for (size_t i = 0; i < items.size(); ++i) {
      JsonFields item(errors_, items[i], fields.pointer() + "/requires/" + std::to_string(i),
                      "requirement", {"not_negative", "why"});
      extension.requirements.push_back(
          {.not_negative = item.required_text("not_negative"), .why = item.required_text("why")});
    }
  }

  AttrSpec attribute(Extension& extension, JsonFields& fields) {
    AttrSpec spec;
    const std::string& name = extension.strings.emplace_back(fields.required_text("name"));
    check_word(name, "name of an attribute", fields);
    spec.name = name;
    spec.consumed_by_infer = true;  // that it is used is checked when the description is read
    const std::string type = fields.required_text("type");
    const auto known =
        std::ranges::find(kAttributeTypes, type, &std::pair<std::string_view, AttrType>::first);
    if (known == kAttributeTypes.end()) {
      if (!type.empty())
        fields.fail(DiagCode::BadField, "attribute " + in_quotes(name) + " has the type " +
                                            in_quotes(type) +
                                            ", wanted int, float, bool, string, dtype, ints or "
                                            "floats");
      return spec;
    }
    spec.type = known->second;
    if (spec.type == AttrType::Int) {  // kernels take 32 bits
      spec.minimum = -kLargestInt - 1;
      spec.maximum = kLargestInt;
    }
    spec.minimum = fields.real("min", spec.minimum);
    spec.maximum = fields.real("max", spec.maximum);
    read_choices(extension, spec, fields);
    read_default(extension, spec, fields);
    return spec;
  }

  void read_choices(Extension& extension, AttrSpec& spec, JsonFields& fields) {
    if (fields.find("choices") == nullptr) return;
    std::vector<std::string_view>& choices = extension.choices.emplace_back();
    for (std::string& word : fields.texts("choices")) {
      check_word(word, "a choice", fields);
      choices.push_back(extension.strings.emplace_back(std::move(word)));
    }
    if (spec.type != AttrType::String)
      fields.fail(DiagCode::BadField,
                  "attribute " + in_quotes(spec.name) + " has choices and is no string");
    spec.choices = choices;
  }

  // The text that OpDef's own defaults have.
  static std::optional<std::string> default_text(const AttrSpec& spec, const JsonValue& value) {
    switch (spec.type) {
      case AttrType::Int:
        return value.integer() ? std::optional(number_text(value)) : std::nullopt;
      case AttrType::Float: {
        std::string text = number_text(value);
        return text.empty() ? std::nullopt : std::optional(std::move(text));
      }
      case AttrType::Bool: {
        const auto* flag = std::get_if<bool>(&value.data);
        return flag ? std::optional<std::string>(*flag ? "true" : "false") : std::nullopt;
      }
      case AttrType::String:
        return value.string() ? std::optional("\"" + *value.string() + "\"") : std::nullopt;
      case AttrType::DTypeName:
        return value.string() && dtype_from_name(*value.string())
                   ? std::optional("\"" + *value.string() + "\"")
                   : std::nullopt;
      case AttrType::IntList:
      case AttrType::FloatList: {
        if (value.array() == nullptr) return std::nullopt;
        std::string text;
        for (const JsonValue& item : *value.array()) {
          const std::string number = number_text(item);
          if (number.empty() || (spec.type == AttrType::IntList && !item.integer()))
            return std::nullopt;
          text += (text.empty() ? "" : ",") + number;
        }
        return "[" + text + "]";
      }
      case AttrType::StringList:
        break;
    }
    return std::nullopt;
  }

  void read_default(Extension& extension, AttrSpec& spec, JsonFields& fields) {
    const JsonValue* value = fields.find("default");
    spec.required = value == nullptr;
    if (value == nullptr) return;
    std::optional<std::string> text = default_text(spec, *value);
    if (!text) return fields.wrong_type("default", *value, "one of the attribute's type");
    spec.default_text = extension.strings.emplace_back(std::move(*text));
    const auto* integer = value->integer();
    const auto* real = std::get_if<double>(&value->data);
    if (integer == nullptr && real == nullptr) {
      const std::string* word = value->string();
      if (word != nullptr && !spec.choices.empty() &&
          std::ranges::find(spec.choices, *word) == spec.choices.end())
        fields.fail(DiagCode::BadAttribute, "default " + in_quotes(*word) + " of attribute " +
                                                in_quotes(spec.name) + " is none of its choices");
      return;
    }
    const double number = integer != nullptr ? static_cast<double>(*integer) : *real;
    if (!(number >= spec.minimum && number <= spec.maximum))
      fields.fail(DiagCode::BadAttribute, "default " + number_text(*value) + " of attribute " +
                                              in_quotes(spec.name) + " is outside its range");
  }

  std::optional<std::string> read_file(const std::string& path, JsonFields& fields) {
    if (path.empty()) return std::nullopt;  // reported
    std::optional<std::string> text = files_.read(path);
    if (!text)
      fields.fail(DiagCode::FileMissing,
                  "file " + in_quotes(files_.place(path)) + " cannot be read",
                  "paths are relative to the extension's folder and stay inside it");
    return text;
  }

  std::optional<ExtensionKernel> read_kernel(const JsonValue& value, const std::string& pointer) {
    JsonFields fields(errors_, value, pointer, "kernel",
                      {"file", "workgroup", "groups", "defines"});
    ExtensionKernel kernel;
    kernel.file = fields.required_text("file");
    kernel.text = read_file(kernel.file, fields).value_or("");
    kernel.workgroup = {"64", "1", "1"};
    if (fields.find("workgroup") != nullptr) {
      const std::vector<std::string> extents = sizes(fields, "workgroup");
      if (extents.empty() || extents.size() > 3)
        fields.fail(DiagCode::BadField, "\"workgroup\" has " + std::to_string(extents.size()) +
                                            " extents, wanted 1 to 3");
      for (size_t i = 0; i < std::min<size_t>(extents.size(), 3); ++i)
        kernel.workgroup.at(i) = extents[i];
    }
    if (const JsonValue* groups = fields.required("groups")) {
      kernel.groups = expression(*groups);
      if (kernel.groups.empty()) fields.wrong_type("groups", *groups, "a number or an expression");
    }
    if (const JsonValue* defines = fields.find("defines")) {
      if (defines->object() == nullptr) fields.wrong_type("defines", *defines, "an object");
      for (const JsonMember& member : defines->object() ? *defines->object() : JsonObject{}) {
        check_word(member.key, "a define", fields);
        kernel.defines[member.key] = expression(member.value);
        if (kernel.defines[member.key].empty())
          fields.wrong_type("defines", member.value, "numbers and expressions");
      }
    }
    return kernel;
  }

  DescribedGraph read_graph(JsonFields& fields, const std::string& key) {
    DescribedGraph graph;
    const JsonValue* value = fields.find(key);
    if (value == nullptr) return graph;
    if (value->string() == nullptr) {
      fields.wrong_type(key, *value, "the name of a file");
      return graph;
    }
    graph.path = *value->string();
    graph.file = files_.place(graph.path);
    const std::optional<std::string> text = read_file(graph.path, fields);
    if (!text) return graph;
    std::optional<JsonValue> tree = parse_json(*text, graph.file, errors_.diagnostics);
    if (!tree) return graph;
    JsonErrors errors{graph.file, errors_.diagnostics};
    JsonFields parts(errors, *tree, "", "graph of an extension",
                     {"constants", "params", "nodes", "outputs"});
    parts.required_array("nodes");
    parts.required_array("outputs");
    graph.tree = std::make_shared<const JsonValue>(std::move(*tree));
    return graph;
  }

  ExtensionGradient read_gradient(const JsonValue& value, const std::string& pointer,
                                  const std::string& space) {
    JsonFields fields(errors_, value, pointer, "gradient", {"op", "inputs", "gives", "attributes"});
    ExtensionGradient gradient;
    gradient.op = fields.required_text("op");
    if (gradient.op.find('.') == std::string::npos) gradient.op = space + "." + gradient.op;
    fields.required_array("inputs");
    gradient.inputs = fields.texts("inputs");
    fields.required_array("gives");
    gradient.gives = fields.texts("gives");
    const JsonValue* attributes = fields.find("attributes");
    if (attributes != nullptr && attributes->object() == nullptr)
      fields.wrong_type("attributes", *attributes, "an object");
    for (const JsonMember& member :
         attributes && attributes->object() ? *attributes->object() : JsonObject{}) {
      const JsonValue& item = member.value;
      AttributeValue& to = gradient.attributes[member.key];
      if (const auto* integer = item.integer())
        to = *integer;
      else if (const auto* real = std::get_if<double>(&item.data))
        to = *real;
      else if (const auto* flag = std::get_if<bool>(&item.data))
        to = *flag;
      else if (item.string())
        to = *item.string();
      else
        fields.wrong_type("attributes", item, "numbers, booleans and strings");
    }
    return gradient;
  }

  // "blur.box(x; radius=1) -> y"
  static std::string signature(const Extension& extension) {
    std::string text = extension.name + "(";
    for (size_t i = 0; i < extension.inputs.size(); ++i)
      text += (i == 0 ? "" : ", ") + extension.inputs[i].name;
    for (size_t i = 0; i < extension.attributes.size(); ++i) {
      const AttrSpec& spec = extension.attributes[i];
      text += (i == 0 ? "; " : ", ") + std::string(spec.name);
      if (!spec.default_text.empty()) text += "=" + std::string(spec.default_text);
    }
    text += ") -> ";
    for (size_t i = 0; i < extension.outputs.size(); ++i)
      text += (i == 0 ? "" : ", ") + extension.outputs[i].name;
    return text;
  }

  const ExtensionFiles& files_;
  std::string file_;
  JsonErrors errors_;
};

}  // namespace

std::optional<Description> read_description(const ExtensionFiles& files, Diagnostics& diagnostics) {
  const std::string file = files.place("extension.json");
  const std::optional<std::string> text = files.read("extension.json");
  if (!text) {
    diagnostics.error(DiagCode::FileMissing, {file, ""},
                      "the extension's description cannot be read",
                      "give the folder that holds extension.json");
    return std::nullopt;
  }
  const std::optional<JsonValue> root = parse_json(*text, file, diagnostics);
  if (!root) return std::nullopt;
  const size_t before = diagnostics.error_count();
  Description description = Reader(files, diagnostics).read(*root);
  if (diagnostics.error_count() > before) return std::nullopt;
  return description;
}

}  // namespace rlx
