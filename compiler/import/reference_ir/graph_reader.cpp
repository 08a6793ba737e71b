// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/reference_ir/graph_reader.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "compiler/import/check_source.h"
#include "compiler/import/json_value.h"
#include "compiler/import/names.h"
#include "compiler/import/reference_ir/activations.h"
#include "compiler/import/reference_ir/words.h"
#include "compiler/support/dtype.h"

namespace rlx::reference_ir {
namespace reading {
namespace {

// A fault of the file; it never leaves read_reference_graph.
struct Fault {
  std::string pointer;
  std::string message;
  std::string hint;
};

[[noreturn]] void fail(std::string pointer, std::string message, std::string hint = {}) {
  throw Fault{std::move(pointer), std::move(message), std::move(hint)};
}

const JsonValue& member(const JsonValue& value, const char* key, const std::string& pointer) {
  const JsonObject* object = value.object();
  const JsonValue* found = object ? find_member(*object, key) : nullptr;
  if (found == nullptr) fail(pointer, std::string("field \"") + key + "\" is missing");
  return *found;
}

const JsonArray& array(const JsonValue& value, const std::string& pointer) {
  if (value.array() == nullptr)
    fail(pointer, "it is " + std::string(kind_text(value)) + ", wanted an array");
  return *value.array();
}

const std::string& text(const JsonValue& value, const std::string& pointer) {
  if (value.string() == nullptr)
    fail(pointer, "it is " + std::string(kind_text(value)) + ", wanted a string");
  return *value.string();
}

int64_t integer(const JsonValue& value, const std::string& pointer) {
  if (value.integer() == nullptr)
    fail(pointer, "it is " + std::string(kind_text(value)) + ", wanted an integer");
  return *value.integer();
}

// A variant: its name, and what it holds; a word holds nothing.
struct Variant {
  std::string name;
  const JsonValue* payload = nullptr;
};
Variant variant(const JsonValue& value, const std::string& pointer) {
  if (value.string() != nullptr) return {*value.string(), nullptr};
  if (value.object() == nullptr || value.object()->size() != 1)
    fail(pointer,
         "it is " + std::string(kind_text(value)) + ", wanted a word or an object of one member");
  return {value.object()->front().key, &value.object()->front().value};
}

DType dtype(const JsonValue& value, const std::string& pointer) {
  std::string word = text(value, pointer);
  std::ranges::transform(word, word.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  const std::optional<DType> found = dtype_from_name(word);
  if (!found) fail(pointer, "there is no element type " + in_quotes(word));
  return *found;
}

std::string symbol_name(int64_t number) {
  constexpr std::array kKnown = {"batch", "seq", "rows", "past_seq"};
  return number >= 0 && number < 4 ? kKnown[static_cast<size_t>(number)]
                                   : "s" + std::to_string(number);
}

bool is_graph(const JsonValue& value) {
  const JsonObject* object = value.object();
  return object != nullptr && find_member(*object, "nodes") != nullptr &&
         find_member(*object, "outputs") != nullptr;
}

// Inputs that a node overwrites, and the outputs that hold what it leaves there.
struct Overwritten {
  size_t input;
  size_t output;
};
std::vector<Overwritten> overwritten(const SourceNode& node) {
  const auto is_set = [&node](const char* name) {
    const auto found = node.attributes.find(name);
    return found != node.attributes.end() && found->second == SourceAttribute(true);
  };
  if (node.op == "GatedDeltaNet" && is_set("carry_state")) return {{5, 1}};
  if (node.op == "Lstm" && is_set("carry")) return {{4, 1}, {5, 2}};
  if (node.op == "Gru" && is_set("carry")) return {{5, 1}};
  if (node.op == "Rnn" && is_set("carry")) return {{4, 1}};
  const auto mode = node.attributes.find("scale_mode");
  if (node.op == "FakeQuantize" && mode != node.attributes.end() &&
      mode->second == SourceAttribute(std::string("EMA")))
    return {{1, 1}};
  return {};
}

class Reader {
 public:
  Reader(SourceGraph& graph, std::string stem) : graph_(graph), stem_(std::move(stem)) {}

  void read(const JsonValue& root, const std::string& pointer) {
    SourceEntry entry;
    entry.place = {graph_.file, pointer};
    entry.name = "main";
    if (const JsonValue& name = member(root, "name", pointer); name.string() != nullptr)
      graph_.name = *name.string();
    Level level;
    nodes(root, pointer, level, entry.nodes, &entry);
    for (const JsonValue& id : array(member(root, "outputs", pointer), pointer + "/outputs"))
      entry.outputs.push_back(
          value_of(level, integer(id, pointer + "/outputs"), pointer + "/outputs"));
    entry.outputs.insert(entry.outputs.end(), further_outputs_.begin(), further_outputs_.end());
    graph_.entries.push_back(std::move(entry));
    for (const int64_t number : symbols_) {
      graph_.symbols.push_back({.place = {graph_.file, pointer},
                                .name = symbol_name(number),
                                .minimum = 1,
                                .maximum = kMaxDim,
                                .multiple_of = 1});
    }
    graph_.auto_promote = true;  // there everything is computed as f32
  }

 private:
  // The graph itself or a sub-graph: what its nodes' values are called.
  struct Level {
    std::string prefix;
    std::map<int64_t, std::string> names;
    std::set<std::string> params;  // of leaves that stand at the top
    std::set<std::string> inputs;
  };

  std::string free_name(std::string stem) {
    while (!taken_.insert(stem).second) stem += "_";
    return stem;
  }

  const std::string& value_of(const Level& level, int64_t id, const std::string& pointer) {
    const auto found = level.names.find(id);
    if (found == level.names.end())
      fail(pointer, "node " + std::to_string(id) + " is not there, or stands behind its reader");
    return found->second;
  }

  SourceDims dims(const JsonValue& shape, const std::string& pointer) {
    SourceDims result;
    for (const JsonValue& dim : array(member(shape, "dims", pointer), pointer + "/dims")) {
      const Variant size = variant(dim, pointer + "/dims");
      if (size.payload == nullptr) fail(pointer + "/dims", "a size has no number");
      const int64_t number = integer(*size.payload, pointer + "/dims");
      if (size.name == "Static") {
        result.emplace_back(number);
      } else {
        symbols_.insert(number);
        result.emplace_back(symbol_name(number));
      }
    }
    return result;
  }

  void nodes(const JsonValue& graph, const std::string& pointer, Level& level,
             std::vector<SourceNode>& into, SourceEntry* entry) {
    const JsonArray& list = array(member(graph, "nodes", pointer), pointer + "/nodes");
    for (size_t i = 0; i < list.size(); ++i)
      node(list[i], pointer + "/nodes/" + std::to_string(i), level, into, entry);
  }

  void node(const JsonValue& from, const std::string& pointer, Level& level,
            std::vector<SourceNode>& into, SourceEntry* entry) {
    const int64_t id = integer(member(from, "id", pointer), pointer + "/id");
    const Variant op = variant(member(from, "op", pointer), pointer + "/op");
    const JsonValue& shape = member(from, "shape", pointer);
    SourceTensor tensor{
        .place = {graph_.file, pointer},
        .dtype = dtype(member(shape, "dtype", pointer + "/shape"), pointer + "/shape"),
        .shape = dims(shape, pointer + "/shape")};
    if (level.names.contains(id)) fail(pointer, "node " + std::to_string(id) + " is there twice");
    if (op.name == "Input" || op.name == "Param" || op.name == "Constant") {
      level.names[id] = leaf(op, std::move(tensor), id, pointer, level, entry);
      return;
    }
    SourceNode made{.place = {graph_.file, pointer}, .op = op.name};
    const JsonValue* name = from.object() ? find_member(*from.object(), "name") : nullptr;
    made.name = free_name(level.prefix +
                          (name != nullptr && name->string() != nullptr && !name->string()->empty()
                               ? *name->string()
                               : "n" + std::to_string(id)));
    made.outputs = {made.name};
    for (const JsonValue& input : array(member(from, "inputs", pointer), pointer + "/inputs"))
      made.inputs.emplace_back(
          value_of(level, integer(input, pointer + "/inputs"), pointer + "/inputs"));
    if (op.payload != nullptr) payload(*op.payload, pointer + "/op", made);
    made.attributes.emplace("shape", SourceAttribute(tensor.shape));
    made.attributes.emplace("dtype", std::string(name_of(tensor.dtype)));
    level.names[id] = made.name;
    const std::vector<Overwritten> changed = overwritten(made);
    for (const Overwritten& change : changed) carry(change, made, level, into, entry);
    into.push_back(std::move(made));
    for (SourceNode& write : writes_) into.push_back(std::move(write));
    writes_.clear();
  }

  // Whoever reads an overwritten value behind this node sees what the node left.
  void carry(const Overwritten& change, SourceNode& node, Level& level, std::vector<SourceNode>&,
             SourceEntry* entry) {
    if (change.input >= node.inputs.size()) return;  // which binding refuses
    const std::string old = *node.inputs[change.input];
    while (node.outputs.size() <= change.output) node.outputs.push_back(free_name(old + ".next"));
    const std::string next = node.outputs[change.output];
    for (auto& [id, name] : level.names) {
      if (name == old) name = next;
    }
    if (entry == nullptr) return;
    if (level.params.contains(old)) {
      const auto param = std::ranges::find(graph_.params, old, &SourceTensor::name);
      if (param != graph_.params.end()) {
        graph_.states.push_back(std::move(*param));
        graph_.params.erase(param);
      }
      const std::string kept = free_name(old + ".kept");
      writes_.push_back({.place = node.place,
                         .name = kept,
                         .op = "state_write",
                         .inputs = {old, next},
                         .outputs = {kept}});
    } else if (level.inputs.contains(old)) {
      further_outputs_.push_back(next);
    }
  }

  std::string leaf(const Variant& op, SourceTensor tensor, int64_t id, const std::string& pointer,
                   Level& level, SourceEntry* entry) {
    if (op.payload == nullptr) fail(pointer + "/op", op.name + " has no fields");
    if (op.name == "Constant") {
      tensor.name = free_name(level.prefix + "constant" + std::to_string(id));
      auto bytes = std::make_shared<std::vector<std::byte>>();
      for (const JsonValue& byte :
           array(member(*op.payload, "data", pointer + "/op"), pointer + "/op/data"))
        bytes->push_back(static_cast<std::byte>(integer(byte, pointer + "/op/data")));
      const std::span<const std::byte> view(*bytes);
      tensor.data = HostBytes{.owner = std::move(bytes), .bytes = view};
      graph_.constants.push_back(tensor);
      return tensor.name;
    }
    const std::string& name =
        text(member(*op.payload, "name", pointer + "/op"), pointer + "/op/name");
    if (op.name == "Param") {
      if (params_.contains(name)) return name;  // the same weight, in a sub-graph too
      params_.insert(name);
      level.params.insert(name);
      taken_.insert(name);
      tensor.name = name;
      tensor.data = SafetensorsFile{.path = stem_ + ".safetensors", .tensor = name};
      graph_.params.push_back(std::move(tensor));
      return name;
    }
    tensor.name = free_name(level.prefix + name);
    level.inputs.insert(tensor.name);
    if (entry != nullptr) entry->inputs.push_back(tensor);
    body_inputs_.push_back(tensor.name);
    return tensor.name;
  }

  void payload(const JsonValue& value, const std::string& pointer, SourceNode& node) {
    if (node.op == "Activation" || node.op == "Binary" || node.op == "Compare") {
      node.attributes.emplace("kind", text(value, pointer));
      return;
    }
    if (value.object() == nullptr)
      fail(pointer, node.op + " holds " + std::string(kind_text(value)) + ", wanted fields");
    for (const JsonMember& field : *value.object())
      attribute(field, pointer + pointer_step(field.key), *value.object(), node);
  }

  void attribute(const JsonMember& field, const std::string& pointer, const JsonObject& fields,
                 SourceNode& node) {
    const JsonValue& value = field.value;
    const std::string& name = field.key;
    if (std::holds_alternative<std::monostate>(value.data)) return;
    if (is_graph(value)) return body(field, pointer, node);
    if (name == "to" || name == "cast_to") {
      node.attributes.emplace(name, std::string(name_of(dtype(value, pointer))));
    } else if (const auto* flag = std::get_if<bool>(&value.data)) {
      node.attributes.emplace(name, *flag);
    } else if (value.integer() != nullptr) {
      node.attributes.emplace(name, *value.integer());
    } else if (const auto* large = std::get_if<uint64_t>(&value.data)) {
      node.attributes.emplace(name, static_cast<int64_t>(*large));  // its bits
    } else if (const auto* real = std::get_if<double>(&value.data)) {
      node.attributes.emplace(name, *real);
    } else if (value.string() != nullptr) {
      node.attributes.emplace(name, *value.string());
    } else if (value.array() != nullptr) {
      list(name, *value.array(), pointer, fields, node);
    } else {
      tagged(name, value, pointer, node);
    }
  }

  // A variant with numbers: its name is the attribute, what it holds are others.
  void tagged(const std::string& name, const JsonValue& value, const std::string& pointer,
              SourceNode& node) {
    const Variant word = variant(value, pointer);
    node.attributes.emplace(name, word.name);
    if (word.payload->object() != nullptr) {
      for (const JsonMember& field : *word.payload->object())
        attribute(field, pointer, *word.payload->object(), node);
      return;
    }
    const std::string key = word.name == "SlidingWindow" ? "window" : "value";
    attribute({.key = key, .value = *word.payload}, pointer, {}, node);
  }

  void list(const std::string& name, const JsonArray& items, const std::string& pointer,
            const JsonObject& fields, SourceNode& node) {
    if (name == "chain") return chain(items, pointer, fields, node);
    Ints ints;
    Floats floats;
    Strings words;
    for (const JsonValue& item : items) {
      if (item.integer() != nullptr) {
        ints.emplace_back(*item.integer());
        floats.push_back(static_cast<double>(*item.integer()));
      } else if (const auto* real = std::get_if<double>(&item.data)) {
        floats.push_back(*real);
      } else if (item.array() != nullptr) {
        for (const JsonValue& inner : *item.array()) ints.emplace_back(integer(inner, pointer));
      } else {
        words.push_back(variant(item, pointer).name);
      }
    }
    if (!words.empty()) {
      node.attributes.emplace(name, std::move(words));
    } else if (floats.size() > ints.size()) {
      node.attributes.emplace(name, std::move(floats));
    } else {
      node.attributes.emplace(name, std::move(ints));
    }
  }

  // Steps of a region as the catalogue writes them: operands are inputs, then steps.
  void chain(const JsonArray& steps, const std::string& pointer, const JsonObject& fields,
             SourceNode& node) {
    const JsonValue* inputs = find_member(fields, "num_inputs");
    const int64_t first_step =
        inputs != nullptr ? integer(*inputs, pointer) : 1;  // a batch: one tensor at a time
    Strings texts;
    for (const JsonValue& step : steps)
      texts.push_back(chain_step(variant(step, pointer), first_step, pointer));
    node.attributes.emplace("chain", std::move(texts));
  }

  std::string chain_step(const Variant& step, int64_t first_step, const std::string& pointer) {
    if (step.payload == nullptr) fail(pointer, "step " + in_quotes(step.name) + " has no operands");
    const JsonArray& parts = array(*step.payload, pointer);
    size_t next = 0;
    const auto word = [&]() -> const std::string& {
      if (parts.empty()) fail(pointer, "a step is empty");
      return text(parts[next++], pointer);
    };
    std::string op;
    std::string attributes;
    if (step.name == "Activation") {
      const Activation activation = activation_of(word());
      op = activation.op;
      for (const auto& [key, value] : activation.attributes)
        attributes += (attributes.empty() ? "; " : ", ") + key + "=" + to_string(value);
    } else if (step.name == "Binary") {
      op = binary_op(word());
    } else if (step.name == "Compare") {
      op = compare_op(word());
    } else if (step.name == "Cast") {
      if (parts.empty()) fail(pointer, "a step is empty");
      op = "cast";
      attributes = "; to=" + std::string(name_of(dtype(parts[next++], pointer)));
    } else if (step.name == "Where") {
      op = "where";
    }
    if (op.empty()) fail(pointer, "step " + in_quotes(step.name) + " is not known");
    std::string operands;
    for (; next < parts.size(); ++next) {
      const Variant operand = variant(parts[next], pointer);
      if (operand.payload == nullptr) fail(pointer, "an operand has no number");
      const int64_t number =
          integer(*operand.payload, pointer) + (operand.name == "Step" ? first_step : 0);
      operands += (operands.empty() ? "" : ", ") + std::to_string(number);
    }
    return op + "(" + operands + attributes + ")";
  }

  // A sub-graph knows its own inputs, in the order of their nodes.
  void body(const JsonMember& field, const std::string& pointer, SourceNode& node) {
    SourceBody made;
    made.place = {graph_.file, pointer};
    made.name = field.key;
    Level level;
    level.prefix = node.name + "." + field.key + ".";
    const std::vector<std::string> outer = std::exchange(body_inputs_, {});
    nodes(field.value, pointer, level, made.nodes, nullptr);
    made.inputs = std::exchange(body_inputs_, outer);
    for (const JsonValue& id : array(member(field.value, "outputs", pointer), pointer + "/outputs"))
      made.outputs.push_back(
          value_of(level, integer(id, pointer + "/outputs"), pointer + "/outputs"));
    node.bodies.push_back(std::move(made));
  }

  SourceGraph& graph_;
  std::string stem_;
  std::set<std::string> taken_;
  std::set<std::string> params_;
  std::set<int64_t> symbols_;
  std::vector<std::string> body_inputs_;  // of the sub-graph that is read
  std::vector<std::string> further_outputs_;
  std::vector<SourceNode> writes_;  // of the node that is read
};

// The graph of a module, at whichever level it is.
const JsonValue& graph_in(const JsonValue& root, std::string& pointer) {
  const JsonValue* at = &root;
  for (const char* key : {"mir", "inner"}) {
    const JsonObject* object = at->object();
    const JsonValue* inner = object ? find_member(*object, key) : nullptr;
    if (inner == nullptr) continue;
    at = inner;
    pointer += std::string("/") + key;
  }
  if (!is_graph(*at)) fail(pointer, "it is no graph: it has no nodes and outputs");
  return *at;
}

}  // namespace
}  // namespace reading

bool is_reference_graph(std::string_view json) {
  const auto has = [json](std::string_view word) {
    return json.find(word) != std::string_view::npos;
  };
  return !has("\"rlx_graph\"") && has("\"nodes\"") && has("\"outputs\"") && has("\"dims\"") &&
         has("\"id\"");
}

std::optional<SourceGraph> read_reference_graph(std::string_view json, const std::string& file,
                                                Diagnostics& diagnostics) {
  const std::optional<JsonValue> root = parse_json(json, file, diagnostics);
  if (!root) return std::nullopt;
  SourceGraph graph;
  graph.file = file;
  graph.producer = "reference IR";
  try {
    std::string pointer;
    const JsonValue& found = reading::graph_in(*root, pointer);
    reading::Reader(graph, std::filesystem::path(file).stem().string()).read(found, pointer);
  } catch (const reading::Fault& fault) {
    diagnostics.error(DiagCode::BadField, {file, fault.pointer}, fault.message, fault.hint);
    return std::nullopt;
  }
  if (!check_source(graph, diagnostics)) return std::nullopt;
  return graph;
}

}  // namespace rlx::reference_ir
