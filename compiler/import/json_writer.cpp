// SPDX-License-Identifier: Apache-2.0
// SourceGraph to the JSON form: one line per symbol, tensor and node, fields in a fixed order,
// defaults left out.
#include <cmath>
#include <type_traits>

#include "compiler/import/import.h"
#include "compiler/import/inline_data.h"
#include "compiler/import/json_value.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

// Inline data up to this size is written as a list of values, above as base64.
constexpr size_t kMaxValuesBytes = 4096;

class GraphWriter {
 public:
  std::string write(const SourceGraph& graph) {
    out_ = "{\n  \"rlx_graph\": 1";
    if (!graph.name.empty()) text_field("\n  ", "name", graph.name);
    if (!graph.producer.empty()) text_field("\n  ", "producer", graph.producer);
    if (graph.auto_promote) out_ += ",\n  \"auto_promote\": true";
    section("  ", "symbols", graph.symbols, [&](const SourceSymbol& item) { symbol(item); });
    section("  ", "params", graph.params, [&](const SourceTensor& item) { tensor(item, "data"); });
    section("  ", "constants", graph.constants,
            [&](const SourceTensor& item) { tensor(item, "data"); });
    section("  ", "states", graph.states, [&](const SourceTensor& item) { state(item); });
    if (graph.entries.size() == 1 && graph.entries.front().name == "main") {
      entry_fields("  ", graph.entries.front());
    } else {
      entries(graph.entries);
    }
    if (!graph.text.empty()) {
      out_ += ",\n  \"text\": {\"base64\": \"" + encode_base64(graph.text) + "\"}";
    }
    return std::move(out_) + "\n}\n";
  }

 private:
  // `,` and a field whose value is a string.
  void text_field(const char* gap, const char* key, const std::string& text) {
    out_ += std::string(",") + gap + "\"" + key + "\": ";
    append_json_string(out_, text);
  }

  // A field that is an array, one item per line; left out where it is empty, unless it is required.
  template <typename Item, typename Write>
  void section(const std::string& indent, const char* key, const std::vector<Item>& items,
               Write write, bool is_required = false) {
    if (items.empty() && !is_required) return;
    out_ += ",\n" + indent + "\"" + key + "\": [";
    for (size_t i = 0; i < items.size(); ++i) {
      out_ += (i > 0 ? ",\n" : "\n") + indent + "  ";
      write(items[i]);
    }
    out_ += items.empty() ? "]" : "\n" + indent + "]";
  }

  // A list on one line.
  template <typename Item, typename Write>
  void list(const std::vector<Item>& items, Write write) {
    out_ += "[";
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ", ";
      write(items[i]);
    }
    out_ += "]";
  }

  void texts(const std::vector<std::string>& texts) {
    list(texts, [&](const std::string& text) { append_json_string(out_, text); });
  }

  void dims(const SourceDims& dims) {
    list(dims, [&](const SourceDim& dim) {
      if (const auto* size = std::get_if<int64_t>(&dim)) {
        out_ += std::to_string(*size);
      } else {
        append_json_string(out_, std::get<std::string>(dim));
      }
    });
  }

  void symbol(const SourceSymbol& symbol) {
    out_ += "{\"name\": ";
    append_json_string(out_, symbol.name);
    out_ += ", \"min\": " + std::to_string(symbol.minimum) +
            ", \"max\": " + std::to_string(symbol.maximum);
    if (symbol.multiple_of != 1) out_ += ", \"multiple_of\": " + std::to_string(symbol.multiple_of);
    out_ += "}";
  }

  void tensor_fields(const SourceTensor& tensor) {
    out_ += "{\"name\": ";
    append_json_string(out_, tensor.name);
    out_ += ", \"dtype\": \"" + std::string(name_of(tensor.dtype)) + "\", \"shape\": ";
    dims(tensor.shape);
  }

  void tensor(const SourceTensor& tensor, const char* data_field) {
    tensor_fields(tensor);
    if (tensor.data) {
      out_ += std::string(", \"") + data_field + "\": ";
      std::visit([&](const auto& value) { data(tensor.dtype, value); }, *tensor.data);
    }
    out_ += "}";
  }

  void state(const SourceTensor& state) {
    const auto* splat = state.data ? std::get_if<SplatData>(&*state.data) : nullptr;
    if (splat == nullptr || splat->value != 1.0) {
      tensor(state, "init");
      return;
    }
    tensor_fields(state);
    out_ += ", \"init\": \"ones\"}";
  }

  void data(DType dtype, const HostBytes& inline_bytes) {
    if (inline_bytes.bytes.size() <= kMaxValuesBytes) {
      if (const auto text = values_text(dtype, inline_bytes.bytes)) {
        out_ += "{\"values\": " + *text + "}";
        return;
      }
    }
    out_ += "{\"base64\": \"" + encode_base64(inline_bytes.bytes) + "\"}";
  }
  void data(DType, const NpyFile& file) {
    out_ += "{\"npy\": ";
    append_json_string(out_, file.path);
    out_ += "}";
  }
  void data(DType, const SafetensorsFile& file) {
    out_ += "{\"safetensors\": ";
    append_json_string(out_, file.path);
    text_field(" ", "tensor", file.tensor);
    out_ += "}";
  }
  void data(DType, const RawFile& file) {
    out_ += "{\"raw\": ";
    append_json_string(out_, file.path);
    out_ += ", \"offset\": " + std::to_string(file.offset_bytes) + "}";
  }
  void data(DType, const SplatData& splat) {
    out_ += "{\"splat\": " + any_real_json(splat.value) + "}";
  }
  void data(DType, const RandomData& random) {
    const bool is_normal = random.distribution == RandomData::Distribution::Normal;
    out_ += std::string("{\"random\": {\"distribution\": ") +
            (is_normal ? "\"normal\", \"mean\": " : "\"uniform\", \"low\": ") +
            any_real_json(random.a) + (is_normal ? ", \"std\": " : ", \"high\": ") +
            any_real_json(random.b) + ", \"seed\": " + std::to_string(random.seed) +
            ", \"stream\": " + std::to_string(random.stream) + "}}";
  }

  void node(const SourceNode& node) {
    out_ += "{\"name\": ";
    append_json_string(out_, node.name);
    text_field(" ", "op", node.op);
    out_ += ", \"inputs\": ";
    list(node.inputs, [&](const std::optional<std::string>& input) {
      if (input) {
        append_json_string(out_, *input);
      } else {
        out_ += "null";
      }
    });
    out_ += ", \"outputs\": ";
    texts(node.outputs);
    if (!node.attributes.empty()) attributes(node);
    if (!node.source.empty()) text_field(" ", "source", node.source);
    if (!node.bodies.empty()) bodies(node);
    out_ += "}";
  }

  void bodies(const SourceNode& parent) {
    const std::string outer = indent_;
    indent_ += "    ";
    out_ += ", \"bodies\": {";
    for (size_t i = 0; i < parent.bodies.size(); ++i) {
      const SourceBody& body = parent.bodies[i];
      out_ += (i > 0 ? ",\n" : "\n") + indent_;
      append_json_string(out_, body.name);
      out_ += ": {\"inputs\": ";
      texts(body.inputs);
      section(
          indent_, "nodes", body.nodes, [&](const SourceNode& item) { node(item); }, true);
      out_ += ",\n" + indent_ + "\"outputs\": ";
      texts(body.outputs);
      out_ += "}";
    }
    out_ += "}";
    indent_ = outer;
  }

  void attributes(const SourceNode& node) {
    out_ += ", \"attributes\": {";
    bool is_first = true;
    for (const auto& [name, value] : node.attributes) {
      if (!is_first) out_ += ", ";
      is_first = false;
      append_json_string(out_, name);
      out_ += ": ";
      std::visit([&](const auto& typed) { attribute(typed); }, value);
    }
    out_ += "}";
  }

  void attribute(int64_t value) { out_ += std::to_string(value); }
  void attribute(double value) {
    out_ += std::isfinite(value) ? real_text(value) : "{\"float\": " + any_real_json(value) + "}";
  }
  void attribute(bool value) { out_ += value ? "true" : "false"; }
  void attribute(const std::string& value) { append_json_string(out_, value); }
  void attribute(const Ints& ints) {
    list(ints, [&](int64_t value) { out_ += std::to_string(value); });
  }
  void attribute(const Floats& floats) {
    bool is_plain = !floats.empty();
    for (const double value : floats) is_plain = is_plain && std::isfinite(value);
    if (!is_plain) out_ += "{\"floats\": ";
    list(floats, [&](double value) { out_ += any_real_json(value); });
    if (!is_plain) out_ += "}";
  }
  void attribute(const Strings& strings) {
    if (strings.empty()) {
      out_ += "{\"strings\": []}";
    } else {
      texts(strings);
    }
  }
  void attribute(const SourceDims& list) {
    size_t symbols = 0;
    for (const SourceDim& dim : list) symbols += std::holds_alternative<std::string>(dim) ? 1 : 0;
    const bool is_plain =
        symbols > 0 && symbols < list.size();  // else it reads back as Strings or Ints
    if (!is_plain) out_ += "{\"dims\": ";
    dims(list);
    if (!is_plain) out_ += "}";
  }

  void entry_fields(const std::string& indent, const SourceEntry& entry) {
    section(indent, "inputs", entry.inputs, [&](const SourceTensor& item) { tensor(item, ""); });
    section(
        indent, "nodes", entry.nodes, [&](const SourceNode& item) { node(item); }, true);
    out_ += ",\n" + indent + "\"outputs\": ";
    texts(entry.outputs);
  }

  void entries(const std::vector<SourceEntry>& entries) {
    out_ += ",\n  \"entries\": [";
    for (size_t i = 0; i < entries.size(); ++i) {
      out_ += i > 0 ? ",\n    {\"name\": " : "\n    {\"name\": ";
      append_json_string(out_, entries[i].name);
      entry_fields("      ", entries[i]);
      out_ += "\n    }";
    }
    out_ += "\n  ]";
  }

  std::string out_;
  std::string indent_ = "    ";  // of what stands inside the node being written
};

}  // namespace

std::string write_json_graph(const SourceGraph& graph) {
  return GraphWriter().write(graph);
}

}  // namespace rlx
