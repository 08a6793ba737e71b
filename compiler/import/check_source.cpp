// SPDX-License-Identifier: Apache-2.0
// Limits of graph files, one walk over a graph that was read.
#include "compiler/import/check_source.h"

#include <set>

#include "compiler/import/names.h"
#include "schema/text_generated.h"

namespace rlx {
namespace {

class SourceChecker {
 public:
  explicit SourceChecker(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  void graph(const SourceGraph& graph) {
    const SourcePlace place{graph.file, ""};
    text(place, "name of the graph", graph.name, kMaxNameBytes);
    text(place, "producer", graph.producer, kMaxNameBytes);
    symbols(graph.symbols);
    count(place, "params", graph.params.size());
    count(place, "constants", graph.constants.size());
    count(place, "states", graph.states.size());
    for (const SourceTensor& param : graph.params) weight("param", param);
    for (const SourceTensor& constant : graph.constants) weight("constant", constant);
    for (const SourceTensor& state : graph.states) tensor("state", state);
    if (graph.entries.empty()) {
      diagnostics_.error(DiagCode::BadField, place,
                         "the graph has no entries, wanted at least one");
    }
    count(place, "entries", graph.entries.size(), kMaxEntries);
    text_data(place, graph.text);
    entries(graph.entries, place);
  }

 private:
  // What the buffer says is for librlx_text to check, as of any plan.
  void text_data(const SourcePlace& place, const std::vector<std::byte>& bytes) {
    if (bytes.empty()) return;
    flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    if (bytes.size() >= sizeof(flatbuffers::uoffset_t) && fb::VerifyTextBuffer(verifier)) return;
    diagnostics_.error(DiagCode::BadField, place,
                       "\"text\", a language model's tokenizer and chat templates, is no buffer of "
                       "text.fbs: its " +
                           std::to_string(bytes.size()) + " bytes are not well formed",
                       "rlxc convert makes it of a language model's file");
  }

  void symbols(const std::vector<SourceSymbol>& symbols) {
    std::set<std::string_view> seen;
    for (const SourceSymbol& symbol : symbols) {
      name(symbol.place, "name of a symbol", symbol.name);
      if (!seen.insert(symbol.name).second) {
        diagnostics_.error(DiagCode::DuplicateName, symbol.place,
                           "symbol " + in_quotes(symbol.name) + " is declared twice");
      }
      if (symbol.minimum < 0 || symbol.maximum < symbol.minimum || symbol.maximum > kMaxDim ||
          symbol.multiple_of < 1) {
        diagnostics_.error(DiagCode::BadField, symbol.place,
                           "symbol " + in_quotes(symbol.name) + " has min " +
                               std::to_string(symbol.minimum) + ", max " +
                               std::to_string(symbol.maximum) + ", multiple_of " +
                               std::to_string(symbol.multiple_of) +
                               ", wanted 0 <= min <= max < 2^40 and multiple_of >= 1");
      }
    }
  }

  void entries(const std::vector<SourceEntry>& entries, const SourcePlace& place) {
    std::set<std::string_view> seen;
    for (const SourceEntry& entry : entries) {
      name(entry.place, "name of an entry", entry.name);
      if (!seen.insert(entry.name).second) {
        diagnostics_.error(DiagCode::DuplicateName, entry.place,
                           "entry " + in_quotes(entry.name) + " is defined twice");
      }
      count(entry.place, "inputs", entry.inputs.size());
      count(entry.place, "outputs", entry.outputs.size());
      for (const SourceTensor& input : entry.inputs) {
        tensor("input", input);
        if (input.data)
          fail(input.place,
               "input " + in_quotes(input.name) + " has data; only weights and states may");
      }
      for (const SourceNode& item : entry.nodes) node(item, 0);
      for (const std::string& output : entry.outputs)
        name(entry.place, "name of an output", output);
    }
    count(place, "nodes", node_count_);
  }

  void node(const SourceNode& node, size_t depth) {
    ++node_count_;
    if (diagnostics_.error_count() > kMaxErrors) return;
    name(node.place, "name of the node", node.name);
    name(node.place, "op", node.op);
    for (const auto& input : node.inputs) {
      if (input) name(node.place, "name of an input", *input);
    }
    for (const std::string& output : node.outputs) name(node.place, "name of an output", output);
    text(node.place, "source note", node.source, kMaxNoteBytes);
    for (const auto& [key, value] : node.attributes) {
      name(node.place, "name of an attribute", key);
      attribute(node, key, value);
    }
    bodies(node, depth);
  }

  void bodies(const SourceNode& parent, size_t depth) {
    if (!parent.bodies.empty() && depth == kMaxBodyDepth) {
      diagnostics_.error(
          DiagCode::Limit, parent.place,
          "bodies stand inside each other deeper than " + std::to_string(kMaxBodyDepth));
      return;
    }
    for (const SourceBody& body : parent.bodies) {
      name(body.place, "name of a body", body.name);
      count(body.place, "inputs", body.inputs.size());
      count(body.place, "outputs", body.outputs.size());
      for (const std::string& input : body.inputs) name(body.place, "name of an input", input);
      for (const SourceNode& item : body.nodes) node(item, depth + 1);
      for (const std::string& output : body.outputs) name(body.place, "name of an output", output);
    }
  }

  void attribute(const SourceNode& node, const std::string& key, const SourceAttribute& value) {
    const std::string what = "attribute " + in_quotes(key) + " of node " + in_quotes(node.name);
    if (const auto* string = std::get_if<std::string>(&value)) {
      text(node.place, what, *string, kMaxStringBytes);
    } else if (const auto* strings = std::get_if<Strings>(&value)) {
      list(node.place, what, strings->size());
      for (const std::string& item : *strings) text(node.place, what, item, kMaxStringBytes);
    } else if (const auto* dims = std::get_if<SourceDims>(&value)) {
      list(node.place, what, dims->size());
      for (const SourceDim& dim : *dims) {
        if (const auto* symbol = std::get_if<std::string>(&dim)) name(node.place, what, *symbol);
      }
    } else if (const auto* ints = std::get_if<Ints>(&value)) {
      list(node.place, what, ints->size());
    } else if (const auto* floats = std::get_if<Floats>(&value)) {
      list(node.place, what, floats->size());
    }
  }

  void weight(const char* role, const SourceTensor& weight) {
    tensor(role, weight);
    if (!weight.data)
      fail(weight.place, std::string(role) + " " + in_quotes(weight.name) + " has no data");
  }

  void tensor(const char* role, const SourceTensor& tensor) {
    if (diagnostics_.error_count() > kMaxErrors) return;
    const std::string what = std::string(role) + " " + in_quotes(tensor.name);
    name(tensor.place, std::string("name of the ") + role, tensor.name);
    if (tensor.shape.size() > kMaxRank) {
      diagnostics_.error(DiagCode::Limit, tensor.place,
                         what + " has rank " + std::to_string(tensor.shape.size()) + ", at most " +
                             std::to_string(kMaxRank) + " is allowed");
    }
    for (const SourceDim& dim : tensor.shape) {
      if (const auto* symbol = std::get_if<std::string>(&dim)) {
        name(tensor.place, "symbol in the shape of " + what, *symbol);
      } else if (const int64_t size = std::get<int64_t>(dim); size < 0 || size > kMaxDim) {
        diagnostics_.error(DiagCode::Limit, tensor.place,
                           what + " has dim " + std::to_string(size) + ", wanted 0 to 2^40 - 1");
      }
    }
    if (tensor.data) data(tensor, what);
  }

  void data(const SourceTensor& tensor, const std::string& what) {
    const auto path = [&](const std::string& path) {
      if (path.empty()) {
        fail(tensor.place, what + ": the path of its file is empty");
      } else {
        text(tensor.place, what + ": the path of its file", path, kMaxNoteBytes);
      }
    };
    if (const auto* npy = std::get_if<NpyFile>(&*tensor.data)) path(npy->path);
    if (const auto* raw = std::get_if<RawFile>(&*tensor.data)) path(raw->path);
    if (const auto* safetensors = std::get_if<SafetensorsFile>(&*tensor.data)) {
      path(safetensors->path);
      name(tensor.place, what + ": the tensor's name in its file", safetensors->tensor);
    }
  }

  void name(const SourcePlace& place, const std::string& what, const std::string& name) {
    if (const auto fault = name_fault(name)) limit(place, what, name, *fault);
  }
  void text(const SourcePlace& place, const std::string& what, const std::string& text,
            size_t max) {
    if (const auto fault = text_fault(text, max)) limit(place, what, text, *fault);
  }
  void limit(const SourcePlace& place, const std::string& what, const std::string& text,
             const std::string& fault) {
    diagnostics_.error(DiagCode::Limit, place,
                       what + ", " + in_quotes(text.substr(0, 40)) + ", " + fault);
  }
  void count(const SourcePlace& place, const char* what, size_t count, size_t most = kMaxNodes) {
    if (count <= most) return;
    diagnostics_.error(DiagCode::Limit, place,
                       "there are " + std::to_string(count) + " " + what + ", at most " +
                           std::to_string(most) + " are allowed");
  }
  void list(const SourcePlace& place, const std::string& what, size_t count) {
    if (count <= kMaxListItems) return;
    diagnostics_.error(DiagCode::Limit, place,
                       what + " has " + std::to_string(count) + " items, at most " +
                           std::to_string(kMaxListItems) + " are allowed");
  }
  void fail(const SourcePlace& place, std::string message) {
    diagnostics_.error(DiagCode::BadField, place, std::move(message));
  }

  Diagnostics& diagnostics_;
  size_t node_count_ = 0;  // with those of bodies
};

}  // namespace

bool check_source(const SourceGraph& graph, Diagnostics& diagnostics) {
  const size_t errors_before = diagnostics.error_count();
  SourceChecker(diagnostics).graph(graph);
  return diagnostics.error_count() == errors_before;
}

}  // namespace rlx
