// SPDX-License-Identifier: Apache-2.0
// Graph files in: read, bind, load and convert. Every fault of a file becomes a diagnostic; nothing
// throws for bad input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/source_graph.h"
#include "compiler/ir/graph.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

// What a graph file's bytes say that it is.
enum class GraphFormat : uint8_t { Json, Rlxg, Onnx, Gguf, Checkpoint };

// By content: the identifier "RLXG" at byte 4, '{' as the first character after white space, the
// tag of a ModelProto's first field, or "GGUF" at byte 0. JSON that speaks of "model_type" and not
// of "rlx_graph" is the config.json of a checkpoint.
std::optional<GraphFormat> detect_format(std::span<const std::byte> bytes);

// Bytes of a file together with what keeps them alive; inline weights of an .rlxg stay views of
// them.
struct GraphBytes {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

// Readers: `file` is the name used in messages. nullopt after at least one error.
std::optional<SourceGraph> read_json_graph(std::string_view text, const std::string& file,
                                           Diagnostics& diagnostics);
std::optional<SourceGraph> read_rlxg_graph(const GraphBytes& bytes, const std::string& file,
                                           Diagnostics& diagnostics);

// Values of symbols by name, as given by --dim.
using DimBindings = std::map<std::string, int64_t>;

// The values that a run may give a symbol: minimum, minimum + multiple_of, ... up to maximum, where
// the first that is a multiple is the least.
struct SymbolRange {
  int64_t minimum = 1;
  int64_t maximum = 1;
  int64_t multiple_of = 1;
};
// Of the symbols that stay free, by name.
using FreeDims = std::map<std::string, SymbolRange>;
// Symbols with several ranges, each of which gets a program of its own: ascending, at least two,
// apart from each other.
using RangedDims = std::map<std::string, std::vector<SymbolRange>>;

// The most rows of results whose size depends on data, by the name of a node or of an output of it;
// "" is for all that have no row of their own.
using MaxCounts = std::map<std::string, int64_t>;

// Of language models (GGUF files and checkpoints).
struct LanguageOptions {
  std::optional<int64_t> context;      // rows of the caches; none: the model's own, at most 4096
  std::vector<int64_t> chunks;         // tokens of each entry; none: 1, 8, 32, 128 and 512
  std::optional<int64_t> verify = {};  // tokens of an entry that gives what follows each, if any
  DType cache = DType::f32;            // element type of the caches
};

struct ImportOptions {
  DimBindings dims = {};
  FreeDims free_dims = {};
  RangedDims ranged_dims = {};                        // for load_entries
  std::map<std::string, Shape> input_shapes = {};     // of inputs of ONNX models
  std::map<std::string, std::string> constants = {};  // inputs with their values (const_input.h)
  // Inputs that become states, with the outputs that are their next values (state_inputs.h).
  std::map<std::string, std::string> states = {};
  // Of a loop of an ONNX model whose end only the run knows, the most trips.
  std::optional<int64_t> max_iterations = std::nullopt;
  MaxCounts max_counts = {};  // of ONNX models
  bool auto_promote = false;  // as if the file asked for it
  bool keep_symbols = false;  // symbols of ONNX models that are not bound stay open
  LanguageOptions language = {};
};

// Detects the format. Options bind the symbols of ONNX models, which other formats keep; what an
// ONNX model refers to is looked for beside `file`.
std::optional<SourceGraph> read_graph(const GraphBytes& bytes, const std::string& file,
                                      Diagnostics& diagnostics, const ImportOptions& options = {});
// A path may be that of a checkpoint's folder, or of its safetensors file or index: its config.json
// is meant.
std::optional<SourceGraph> read_graph_file(const std::string& path, Diagnostics& diagnostics,
                                           const ImportOptions& options = {});

// Writers: one text or byte string per graph, so a round trip through either form gives the same
// graph. Precondition: the graph came from a reader or keeps its limits. The flatbuffer writer
// reports a graph whose inline data is too big for one.
std::string write_json_graph(const SourceGraph& graph);
std::optional<std::string> write_rlxg_graph(const SourceGraph& graph, Diagnostics& diagnostics);

// Binds symbols, reads the weights (mapped where no conversion is needed), resolves names, sorts
// the nodes and infers every type. `folder` is where file references start. Reports as many errors
// as is safe; nullopt where there was one.
std::optional<Module> bind_module(const SourceGraph& source, const DimBindings& dims,
                                  const std::string& folder, Diagnostics& diagnostics,
                                  const FreeDims& free_dims = {});

// read_graph_file, then bind_module with the file's own folder.
std::optional<Module> load_module(const std::string& path, const ImportOptions& options,
                                  Diagnostics& diagnostics);

// A graph file in the form that `output`, the file where it is to go, ends in (.json or .rlxg).
// References to weight files are kept as they are; a warning says so when the output lies in
// another folder. Options are for ONNX models: symbols that they do not bind are kept.
std::optional<std::string> convert_graph(const std::string& input, const std::string& output,
                                         Diagnostics& diagnostics,
                                         const ImportOptions& options = {});

}  // namespace rlx
