// SPDX-License-Identifier: Apache-2.0
// The JSON form of a graph (schema/README.md), text to SourceGraph.
#include <algorithm>
#include <array>

#include "compiler/import/check_source.h"
#include "compiler/import/import.h"
#include "compiler/import/inline_data.h"
#include "compiler/import/json_fields.h"
#include "compiler/import/json_tensor.h"
#include "compiler/import/names.h"

namespace rlx {
namespace {

constexpr size_t kMaxJsonBytes = size_t{1} << 28;
constexpr int64_t kVersion = 1;

// A list attribute by the kinds of its items.
struct ItemCounts {
  size_t integers = 0;
  size_t reals = 0;
  size_t strings = 0;
  size_t others = 0;
};

ItemCounts count_items(const JsonArray& items) {
  ItemCounts counts;
  for (const JsonValue& item : items) {
    if (item.integer()) {
      ++counts.integers;
    } else if (std::holds_alternative<double>(item.data)) {
      ++counts.reals;
    } else if (item.string()) {
      ++counts.strings;
    } else {
      ++counts.others;
    }
  }
  return counts;
}

class GraphReader {
 public:
  GraphReader(const std::string& file, Diagnostics& diagnostics) : errors_{file, diagnostics} {}

  SourceGraph read(const JsonValue& root) {
    SourceGraph graph;
    graph.file = errors_.file;
    if (!is_graph(root)) return graph;
    JsonFields fields(errors_, root, "", "graph",
                      {"rlx_graph", "name", "producer", "auto_promote", "symbols", "params",
                       "constants", "states", "inputs", "nodes", "outputs", "entries", "text"});
    graph.name = fields.text("name");
    graph.producer = fields.text("producer");
    graph.auto_promote = fields.flag("auto_promote");
    each(fields, "symbols", [&](const JsonValue& value, const std::string& pointer) {
      graph.symbols.push_back(symbol(value, pointer));
    });
    graph.params = tensors(fields, "params", TensorRole::Param);
    graph.constants = tensors(fields, "constants", TensorRole::Constant);
    graph.states = tensors(fields, "states", TensorRole::State);
    graph.text = text_data(fields);
    if (fields.find("entries") == nullptr) {
      graph.entries.push_back(entry(fields, "main"));
      return graph;
    }
    for (const char* key : {"inputs", "nodes", "outputs"}) {
      if (fields.find(key)) {
        fields.fail(DiagCode::BadField, "the graph has both \"entries\" and " + in_quotes(key),
                    "move it into an entry");
      }
    }
    each(fields, "entries", [&](const JsonValue& value, const std::string& pointer) {
      JsonFields inner(errors_, value, pointer, "entry", {"name", "inputs", "nodes", "outputs"});
      graph.entries.push_back(entry(inner, inner.required_text("name")));
    });
    return graph;
  }

 private:
  static std::vector<std::byte> decoded(JsonFields& fields) {
    InlineBytes bytes = decode_base64(fields.required_text("base64"));
    if (auto* found = std::get_if<std::vector<std::byte>>(&bytes)) return std::move(*found);
    fields.fail(DiagCode::BadField, std::get<std::string>(bytes));
    return {};
  }
  std::vector<std::byte> text_data(const JsonFields& fields) {
    const JsonValue* given = fields.find("text");
    if (given == nullptr) return {};
    JsonFields inner(errors_, *given, "/text", "text", {"base64"});
    return decoded(inner);
  }

  bool is_graph(const JsonValue& root) {
    const JsonObject* object = root.object();
    const JsonValue* version = object ? find_member(*object, "rlx_graph") : nullptr;
    if (version == nullptr || version->integer() == nullptr) {
      errors_.add(DiagCode::BadField, "",
                  "this JSON is not a graph: it has no integer field \"rlx_graph\"",
                  "the first field of a graph is \"rlx_graph\": 1");
      return false;
    }
    if (*version->integer() != kVersion) {
      errors_.add(DiagCode::UnsupportedVersion, "/rlx_graph",
                  "the graph has format version " + std::to_string(*version->integer()) +
                      ", this compiler reads version " + std::to_string(kVersion));
      return false;
    }
    return true;
  }

  // Calls `read` for each item of an array with its pointer; stops when there are too many errors.
  template <typename Read>
  void each(JsonFields& fields, const std::string& key, Read read) {
    const JsonArray& items = fields.array(key);
    const std::string base = fields.pointer() + "/" + key + "/";
    for (size_t i = 0; i < items.size(); ++i) {
      if (errors_.diagnostics.error_count() > kMaxErrors) return;
      read(items[i], base + std::to_string(i));
    }
  }

  SourceSymbol symbol(const JsonValue& value, const std::string& pointer) {
    JsonFields fields(errors_, value, pointer, "symbol", {"name", "min", "max", "multiple_of"});
    return {.place = {errors_.file, pointer},
            .name = fields.required_text("name"),
            .minimum = fields.integer("min", 1),
            .maximum = fields.required_integer("max").value_or(1),
            .multiple_of = fields.integer("multiple_of", 1)};
  }

  std::vector<SourceTensor> tensors(JsonFields& fields, const std::string& key, TensorRole role) {
    std::vector<SourceTensor> tensors;
    each(fields, key, [&](const JsonValue& value, const std::string& pointer) {
      tensors.push_back(read_json_tensor(errors_, value, pointer, role));
    });
    return tensors;
  }

  SourceEntry entry(JsonFields& fields, std::string name) {
    SourceEntry entry;
    entry.place = {errors_.file, fields.pointer()};
    entry.name = std::move(name);
    entry.inputs = tensors(fields, "inputs", TensorRole::Input);
    fields.required_array("nodes");
    each(fields, "nodes", [&](const JsonValue& value, const std::string& pointer) {
      entry.nodes.push_back(node(value, pointer));
    });
    fields.required_array("outputs");
    entry.outputs = fields.texts("outputs");
    return entry;
  }

  SourceNode node(const JsonValue& value, const std::string& pointer) {
    const JsonValue* name = value.object() ? find_member(*value.object(), "name") : nullptr;
    const std::string what =
        "node" + (name && name->string() ? " " + in_quotes(*name->string()) : "");
    JsonFields fields(errors_, value, pointer, what,
                      {"name", "op", "inputs", "outputs", "attributes", "source", "bodies"});
    SourceNode node;
    node.place = {errors_.file, pointer};
    node.op = fields.required_text("op");
    for (const JsonValue& input : fields.array("inputs")) {
      if (std::holds_alternative<std::monostate>(input.data)) {
        node.inputs.emplace_back(std::nullopt);
      } else if (input.string()) {
        node.inputs.emplace_back(*input.string());
      } else {
        fields.fail(DiagCode::BadField, "inputs of " + what + " hold " +
                                            std::string(kind_text(input)) +
                                            ", wanted names of values, or null for a missing one");
        break;
      }
    }
    fields.required_array("outputs");
    node.outputs = fields.texts("outputs");
    node.name = fields.text("name");
    if (name == nullptr && !node.outputs.empty()) node.name = node.outputs.front();
    node.source = fields.text("source");
    if (const JsonValue* attributes = fields.find("attributes")) {
      read_attributes(node, *attributes, pointer, what);
    }
    if (const JsonValue* bodies = fields.find("bodies")) read_bodies(node, *bodies, pointer, what);
    return node;
  }

  void read_bodies(SourceNode& node, const JsonValue& value, const std::string& pointer,
                   const std::string& what) {
    if (value.object() == nullptr) {
      errors_.add(DiagCode::BadField, pointer,
                  "bodies of " + what + " are " + std::string(kind_text(value)) +
                      ", wanted an object of their names");
      return;
    }
    for (const JsonMember& member : *value.object()) {
      JsonFields fields(errors_, member.value, pointer + "/bodies" + pointer_step(member.key),
                        "body " + in_quotes(member.key) + " of " + what,
                        {"inputs", "nodes", "outputs"});
      SourceBody& body = node.bodies.emplace_back();
      body.place = {errors_.file, fields.pointer()};
      body.name = member.key;
      body.inputs = fields.texts("inputs");
      each(fields, "nodes", [&](const JsonValue& inner, const std::string& inner_pointer) {
        body.nodes.push_back(this->node(inner, inner_pointer));
      });
      fields.required_array("outputs");
      body.outputs = fields.texts("outputs");
    }
  }

  void read_attributes(SourceNode& node, const JsonValue& value, const std::string& pointer,
                       const std::string& what) {
    if (value.object() == nullptr) {
      errors_.add(
          DiagCode::BadField, pointer,
          "attributes of " + what + " are " + std::string(kind_text(value)) + ", wanted an object");
      return;
    }
    for (const JsonMember& member : *value.object()) {
      const std::optional<SourceAttribute> read = attribute(member.value);
      if (read) {
        node.attributes.emplace(member.key, *read);
        continue;
      }
      errors_.add(
          DiagCode::BadAttribute, pointer + "/attributes" + pointer_step(member.key),
          "attribute " + in_quotes(member.key) + " of " + what +
              " is of no type that attributes have",
          "wanted an integer of 64 bits, a real, a boolean, a string, a list of integers and "
          "symbols, a list of numbers, a list of strings, or {\"float\": \"inf\"}, "
          "{\"floats\": [...]}, {\"strings\": [...]}, {\"dims\": [...]}");
    }
  }

  static std::optional<SourceAttribute> attribute(const JsonValue& value) {
    if (const auto* integer = value.integer()) return *integer;
    if (const auto* real = std::get_if<double>(&value.data)) return *real;
    if (const auto* flag = std::get_if<bool>(&value.data)) return *flag;
    if (const auto* text = value.string()) return *text;
    if (const auto* array = value.array()) return list(*array);
    if (const auto* object = value.object()) return typed(*object);
    return std::nullopt;
  }

  static std::optional<SourceAttribute> list(const JsonArray& items) {
    const ItemCounts counts = count_items(items);
    if (counts.others > 0 || (counts.strings > 0 && counts.reals > 0)) return std::nullopt;
    if (counts.reals > 0) return floats(items);
    if (counts.strings == 0) {
      Ints ints;
      for (const JsonValue& item : items) ints.push_back(*item.integer());
      return ints;
    }
    if (counts.integers == 0) return strings(items);
    return dims(items);
  }

  // {"floats": [...]}: the type named where the value alone does not tell it.
  static std::optional<SourceAttribute> typed(const JsonObject& object) {
    if (object.size() != 1) return std::nullopt;
    const JsonMember& member = object.front();
    if (member.key == "float") {
      const std::optional<double> real = real_from_json(member.value);
      return real ? std::optional<SourceAttribute>(*real) : std::nullopt;
    }
    const JsonArray* items = member.value.array();
    if (items == nullptr) return std::nullopt;
    if (member.key == "floats") return floats(*items);
    if (member.key == "strings") return strings(*items);
    if (member.key == "dims") return dims(*items);
    return std::nullopt;
  }

  static std::optional<SourceAttribute> floats(const JsonArray& items) {
    Floats floats;
    for (const JsonValue& item : items) {
      const std::optional<double> real = real_from_json(item);
      if (!real) return std::nullopt;
      floats.push_back(*real);
    }
    return floats;
  }
  static std::optional<SourceAttribute> strings(const JsonArray& items) {
    Strings strings;
    for (const JsonValue& item : items) {
      if (item.string() == nullptr) return std::nullopt;
      strings.push_back(*item.string());
    }
    return strings;
  }
  static std::optional<SourceAttribute> dims(const JsonArray& items) {
    SourceDims dims;
    for (const JsonValue& item : items) {
      if (item.integer()) {
        dims.emplace_back(*item.integer());
      } else if (item.string()) {
        dims.emplace_back(*item.string());
      } else {
        return std::nullopt;
      }
    }
    return dims;
  }

  JsonErrors errors_;
};

}  // namespace

std::optional<SourceGraph> read_json_graph(std::string_view text, const std::string& file,
                                           Diagnostics& diagnostics) {
  if (text.size() > kMaxJsonBytes) {
    diagnostics.error(DiagCode::Limit, {file, ""},
                      "the JSON text has " + std::to_string(text.size()) + " bytes, at most " +
                          std::to_string(kMaxJsonBytes) + " are read",
                      "keep the weights in .safetensors or .npy files");
    return std::nullopt;
  }
  const std::optional<JsonValue> root = parse_json(text, file, diagnostics);
  if (!root) return std::nullopt;
  const size_t errors_before = diagnostics.error_count();
  SourceGraph graph = GraphReader(file, diagnostics).read(*root);
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  if (!check_source(graph, diagnostics)) return std::nullopt;
  return graph;
}

}  // namespace rlx
