// SPDX-License-Identifier: Apache-2.0
// From the graph of an extension and one node to a module, and that module in the node's place.
#include "compiler/extension/extension_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "compiler/import/import.h"
#include "compiler/ir/constants.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

// ---- JSON ----

void append_json(std::string& out, const JsonValue& value);

void append_number(std::string& out, double number) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.17g", number);
  out += text.data();
  if (out.find_first_of(".eE", out.size() - std::string_view(text.data()).size()) ==
      std::string::npos)
    out += ".0";
}

// Appends the items with commas between.
template <typename Items, typename Append>
void append_items(std::string& out, const Items& items, const Append& append) {
  bool is_first = true;
  for (const auto& item : items) {
    if (!is_first) out += ",";
    is_first = false;
    append(item);
  }
}

struct JsonText {
  std::string& out;
  void operator()(std::monostate) const { out += "null"; }
  void operator()(bool flag) const { out += flag ? "true" : "false"; }
  void operator()(int64_t number) const { out += std::to_string(number); }
  void operator()(uint64_t number) const { out += std::to_string(number); }
  void operator()(double number) const { append_number(out, number); }
  void operator()(const std::string& text) const { append_json_string(out, text); }
  void operator()(const JsonArray& items) const {
    out += "[";
    append_items(out, items, [this](const JsonValue& item) { append_json(out, item); });
    out += "]";
  }
  void operator()(const JsonObject& members) const {
    out += "{";
    append_items(out, members, [this](const JsonMember& member) {
      append_json_string(out, member.key);
      out += ":";
      append_json(out, member.value);
    });
    out += "}";
  }
};

void append_json(std::string& out, const JsonValue& value) {
  std::visit(JsonText{out}, value.data);
}

JsonValue json_real(double value) {
  if (std::isfinite(value)) return {value};
  const char* name = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  return {JsonObject{{"float", {std::string(name)}}}};
}

JsonValue json_attribute(const AttrSpec& spec, const AttributeReader& attrs) {
  switch (spec.type) {
    case AttrType::Int:
      return {attrs.integer(spec.name)};
    case AttrType::Float:
      return json_real(attrs.real(spec.name));
    case AttrType::Bool:
      return {attrs.flag(spec.name)};
    case AttrType::String:
    case AttrType::DTypeName:
      return {attrs.text(spec.name)};
    case AttrType::IntList: {
      JsonArray items;
      for (const Dim& size : attrs.integers(spec.name))
        items.push_back({static_cast<int64_t>(size)});
      return {std::move(items)};
    }
    case AttrType::FloatList: {
      JsonArray items;
      for (const double real : attrs.reals(spec.name)) items.push_back(json_real(real));
      return {JsonObject{{"floats", {std::move(items)}}}};
    }
    case AttrType::StringList:
      break;
  }
  RLX_CHECK(false, "attribute " + std::string(spec.name) + " of an extension");
}

bool is_same(const JsonValue& a, const JsonValue& b) {
  std::string text_a;
  std::string text_b;
  append_json(text_a, a);
  append_json(text_b, b);
  return text_a == text_b;
}

// ---- one node's form of the graph ----

class Instance {
 public:
  using Word = std::pair<std::string, JsonValue>;

  Instance(const Extension& extension, const ExtensionBinding& binding,
           const std::vector<TensorType>& inputs, const AttributeReader& attrs)
      : extension_(extension), binding_(binding), inputs_(inputs) {
    for (const AttrSpec& spec : extension.attributes)
      words_.emplace_back(std::string(spec.name), json_attribute(spec, attrs));
    for (const auto& [name, size] : binding.sizes) {
      // Integer attributes stand here too.
      const bool is_new = std::ranges::find(words_, name, &Word::first) == words_.end();
      if (is_new) words_.emplace_back(name, JsonValue{static_cast<int64_t>(size)});
    }
    for (const auto& [name, dtype] : binding.types)
      words_.emplace_back(name, JsonValue{std::string(name_of(dtype))});
  }

  // The text of a complete graph file.
  std::string text(const JsonValue& graph) {
    std::string out = "{\"rlx_graph\":1,\"symbols\":[";
    append_items(out, symbols(), [&out](const std::string& symbol) { out += symbol; });
    out += "],\"inputs\":[";
    append_items(out, inputs(), [&out](const std::string& input) { out += input; });
    out += "]";
    for (const JsonMember& member : *graph.object()) {
      out += ",";
      append_json_string(out, member.key);
      out += ":";
      append_json(out, substituted(member.value));
    }
    return out + "}";
  }

 private:
  [[nodiscard]] std::vector<std::string> symbols() const {
    std::vector<std::string> texts;
    for (const auto& [name, size] : binding_.sizes) {
      // A negative attribute is no size; {"word": name} gives its value.
      const auto value = static_cast<int64_t>(size);
      if (value < 0 || value > kMaxDim) continue;
      const std::string number = std::to_string(value);
      texts.push_back("{\"name\":\"" + name + "\",\"min\":" + number + ",\"max\":" + number + "}");
    }
    return texts;
  }

  [[nodiscard]] std::vector<std::string> inputs() const {
    std::vector<std::string> texts;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      std::string dims;
      append_items(dims, inputs_[i].shape, [&dims](const Dim& size) {
        dims += std::to_string(static_cast<int64_t>(size));
      });
      texts.push_back("{\"name\":\"" + extension_.inputs[i].name + "\",\"dtype\":\"" +
                      std::string(name_of(inputs_[i].dtype)) + "\",\"shape\":[" + dims + "]}");
    }
    return texts;
  }

  // What {"word": name} stands for, or nullptr where the value is no such object or the name
  // unknown.
  [[nodiscard]] const JsonValue* word(const JsonValue& value) const {
    const JsonObject* object = value.object();
    if (object == nullptr || object->size() != 1 || object->front().key != "word") return nullptr;
    const std::string* name = object->front().value.string();
    const auto found = std::ranges::find_if(
        words_, [&](const auto& known) { return name != nullptr && known.first == *name; });
    return found == words_.end() ? nullptr : &found->second;
  }

  // Whether the attributes are what "when" of an item asks for: each one of the listed values, or
  // the only one.
  [[nodiscard]] bool is_meant(const JsonValue& item) const {
    const JsonValue* when = item.object() ? find_member(*item.object(), "when") : nullptr;
    if (when == nullptr || when->object() == nullptr) return true;
    return std::ranges::all_of(*when->object(), [this](const JsonMember& member) {
      const auto found = std::ranges::find_if(
          words_, [&](const auto& known) { return known.first == member.key; });
      if (found == words_.end()) return false;
      const JsonArray* list = member.value.array();
      if (list == nullptr) return is_same(found->second, member.value);
      return std::ranges::any_of(
          *list, [&](const JsonValue& choice) { return is_same(found->second, choice); });
    });
  }

  JsonValue substituted(const JsonValue& value) const {
    if (const JsonValue* meant = word(value)) return *meant;
    if (const JsonArray* items = value.array()) {
      JsonArray kept;
      for (const JsonValue& item : *items) {
        if (is_meant(item)) kept.push_back(substituted(item));
      }
      return {std::move(kept)};
    }
    if (const JsonObject* members = value.object()) {
      JsonObject kept;
      for (const JsonMember& member : *members) {
        if (member.key != "when") kept.push_back({member.key, substituted(member.value)});
      }
      return {std::move(kept)};
    }
    return value;
  }

  const Extension& extension_;
  const ExtensionBinding& binding_;
  const std::vector<TensorType>& inputs_;
  std::vector<Word> words_;  // attributes, sizes and types by name
};

// The graph of one extension.
struct Definition {
  const Extension& extension;
  ExtensionFiles files;
  std::string file;
  std::shared_ptr<const JsonValue> graph;

  // Its form for one node; reports as of that node.
  [[nodiscard]] std::optional<Module> instantiate(const std::vector<TensorType>& inputs,
                                                  NodeContext& ctx) const {
    const std::optional<ExtensionBinding> binding = bind_extension(extension, inputs, ctx);
    if (!binding) return std::nullopt;
    const std::string text = Instance(extension, *binding, inputs, ctx.attrs()).text(*graph);
    Diagnostics faults;
    const std::optional<SourceGraph> source = read_json_graph(text, file, faults);
    std::optional<Module> module;
    if (source) module = bind_module(*source, {}, files.folder, faults);
    if (!module) {
      const Diagnostic& first = faults.all().front();
      ctx.fail(first.code,
               "the graph of " + extension.name + " is wrong for it: " + to_string(first));
      return std::nullopt;
    }
    if (!agrees(*module, binding->outputs, ctx)) return std::nullopt;
    return module;
  }

  bool agrees(const Module& module, const std::vector<TensorType>& wanted, NodeContext& ctx) const {
    const Graph& made = module.entries.front();
    if (made.outputs().size() != wanted.size())
      return ctx.fail(DiagCode::BadArity, "the graph of " + extension.name + " has " +
                                              std::to_string(made.outputs().size()) +
                                              " outputs, its description " +
                                              std::to_string(wanted.size()));
    for (size_t i = 0; i < wanted.size(); ++i) {
      const TensorType& type = made.value(made.outputs()[i]).type;
      // A free size, which was read as a number, refuses the node by itself.
      const bool is_free =
          std::ranges::any_of(wanted[i].shape, [](const Dim& size) { return size.is_free(); });
      if (type == wanted[i] || is_free) continue;
      return ctx.fail(DiagCode::BadShape, "the graph of " + extension.name + " makes " +
                                              extension.outputs[i].name + " " + to_string(type) +
                                              ", its description " + to_string(wanted[i]));
    }
    return true;
  }

  bool expand(RewriteContext& ctx) const {
    std::vector<TensorType> inputs;
    for (size_t i = 0; i < ctx.input_count(); ++i) inputs.push_back(ctx.type(ctx.input(i)));
    const std::optional<Module> module = instantiate(inputs, ctx);
    if (!module) return false;
    const Graph& graph_of_node = module->entries.front();
    std::map<ValueId, ValueId> values;
    for (size_t i = 0; i < inputs.size(); ++i) values[graph_of_node.inputs[i]] = ctx.input(i);
    const auto mapped = [&](ValueId id) {
      const auto found = values.find(id);
      if (found != values.end()) return found->second;
      const Weight& weight = module->weight(*graph_of_node.value(id).weight);
      return values[id] = add_weight(ctx, weight);
    };
    for (const NodeId id : graph_of_node.order()) {
      const Node& node = graph_of_node.node(id);
      if (!node.bodies.empty() || !node.region.empty())
        return ctx.fail(DiagCode::UnsupportedOp, "the graph of " + extension.name + " has " +
                                                     node.op + " \"" + node.name +
                                                     "\", which only whole models may have");
      NodeBuilder::Inputs operands;
      for (const auto& input : node.inputs)
        operands.push_back(input ? std::optional(mapped(*input)) : std::nullopt);
      const std::vector<ValueId> results =
          ctx.emit_all(node.op, std::move(operands), node.attributes, node.outputs.size());
      for (size_t i = 0; i < results.size(); ++i) values[node.outputs[i]] = results[i];
    }
    const std::vector<ValueId> outputs = graph_of_node.outputs();
    for (size_t i = 0; i < ctx.node().outputs.size(); ++i)
      ctx.replace_output(i, mapped(outputs[i]));
    return true;
  }

  static ValueId add_weight(RewriteContext& ctx, Weight weight) {
    weight.name = fresh_weight_name(ctx.module(), ctx.graph(), ctx.node().name + "." + weight.name);
    const WeightId id = ctx.module().add_weight(std::move(weight));
    return ctx.graph().weight_value(id, ctx.module().weight(id));
  }

  bool evaluate(EvaluateContext& ctx) const {
    std::vector<TensorType> types;
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < ctx.input_count(); ++i) {
      types.push_back(ctx.input(i).type);
      inputs.push_back(ctx.input(i));
    }
    const std::optional<Module> module = instantiate(types, ctx);
    if (!module) return false;
    StateValues states;
    Diagnostics faults;
    auto outputs = evaluate_entry(*module, module->entries.front(), inputs, states, {}, faults);
    if (!outputs)
      return ctx.fail(DiagCode::UnsupportedOp,
                      "the graph of " + extension.name + " has no values: " + faults.text());
    for (size_t i = 0; i < ctx.output_count(); ++i) ctx.output(i) = std::move((*outputs)[i]);
    return true;
  }
};

}  // namespace

void define_by_graph(Extension& extension, const ExtensionFiles& files, const std::string& file,
                     std::shared_ptr<const JsonValue> graph, GraphUse use) {
  const auto definition = std::make_shared<const Definition>(
      Definition{.extension = extension, .files = files, .file = file, .graph = std::move(graph)});
  if (use == GraphUse::Both)
    extension.expand = [definition](RewriteContext& ctx) { return definition->expand(ctx); };
  extension.evaluate = [definition](EvaluateContext& ctx) { return definition->evaluate(ctx); };
}

}  // namespace rlx
