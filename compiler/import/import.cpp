// SPDX-License-Identifier: Apache-2.0
// Graph files by path: detect the form, read, load, convert.
#include "compiler/import/import.h"

#include <algorithm>
#include <filesystem>

#include "compiler/import/checkpoint/checkpoint_reader.h"
#include "compiler/import/const_input.h"
#include "compiler/import/gguf/gguf_file.h"
#include "compiler/import/gguf/gguf_reader.h"
#include "compiler/import/model_files.h"
#include "compiler/import/names.h"
#include "compiler/import/onnx/onnx_reader.h"
#include "compiler/import/reference_ir/graph_reader.h"
#include "compiler/import/state_inputs.h"
#include "schema/plan_header.h"

namespace rlx {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr char kOnnxFirstTag = 8;  // ir_version, field 1 of ModelProto, a varint

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Every graph's first field.
bool is_rlx_graph(std::string_view json) {
  return json.find("\"rlx_graph\"") != std::string_view::npos;
}

// A checkpoint's config.json and no graph.
bool is_config(std::string_view json) {
  return !is_rlx_graph(json) && json.find("\"model_type\"") != std::string_view::npos;
}

// The form that a file name asks for.
std::optional<GraphFormat> format_of_name(const std::string& path) {
  if (path.ends_with(".json")) return GraphFormat::Json;
  if (path.ends_with(".rlxg")) return GraphFormat::Rlxg;
  return std::nullopt;
}

// --input-shape, --max-iterations and --max-count for a format whose inputs have their shapes and
// whose loops and lists their bounds.
bool refuse_shapes(const std::string& file, const ImportOptions& options,
                   Diagnostics& diagnostics) {
  if (options.max_iterations) {
    diagnostics.error(DiagCode::BadOption, {file, ""},
                      "--max-iterations is for ONNX models; loops of this graph have an attribute "
                      "max_iterations");
    return true;
  }
  if (!options.max_counts.empty()) {
    diagnostics.error(DiagCode::BadOption, {file, ""},
                      "--max-count is for ONNX models; nodes of this graph whose result depends on "
                      "data have an attribute max_count");
    return true;
  }
  if (options.input_shapes.empty()) return false;
  diagnostics.error(DiagCode::BadOption, {file, ""},
                    "--input-shape is for ONNX models; this graph gives the shapes of its inputs",
                    "bind its symbols with --dim");
  return true;
}

// --ctx, --chunks and --verify for what is no language model.
bool refuse_language(const std::string& file, const ImportOptions& options,
                     Diagnostics& diagnostics) {
  const LanguageOptions& language = options.language;
  if (!language.context && language.chunks.empty() && !language.verify) return false;
  diagnostics.error(
      DiagCode::BadOption, {file, ""},
      "--ctx, --chunks and --verify are for language models (GGUF files and checkpoints)",
      "entries of other models are made by --entry, their sizes bound by --dim");
  return true;
}

// What the bytes say; a config.json that is no graph is a checkpoint's, were it a broken one.
std::optional<GraphFormat> format_of(std::span<const std::byte> bytes, const std::string& file) {
  const std::optional<GraphFormat> format = detect_format(bytes);
  const bool is_named_so = std::filesystem::path(file).filename() == "config.json";
  const bool may_be = !format || format == GraphFormat::Json;
  if (may_be && is_named_so && !is_rlx_graph(text_of(bytes))) return GraphFormat::Checkpoint;
  return format;
}

bool is_onnx(std::span<const std::byte> bytes, const std::string& file) {
  const std::optional<GraphFormat> format = detect_format(bytes);
  return format == GraphFormat::Onnx || (!format && !bytes.empty() && file.ends_with(".onnx"));
}

std::optional<SourceGraph> read_form(GraphFormat format, const GraphBytes& bytes,
                                     const std::string& file, Diagnostics& diagnostics,
                                     const ImportOptions& options) {
  if (format == GraphFormat::Gguf)
    return read_gguf_graph(bytes, file, options.language, diagnostics);
  if (format == GraphFormat::Checkpoint)
    return read_checkpoint(bytes, file, options.language, diagnostics);
  if (format == GraphFormat::Json && reference_ir::is_reference_graph(text_of(bytes.bytes)))
    return reference_ir::read_reference_graph(text_of(bytes.bytes), file, diagnostics);
  return format == GraphFormat::Json ? read_json_graph(text_of(bytes.bytes), file, diagnostics)
                                     : read_rlxg_graph(bytes, file, diagnostics);
}

struct ReadFile {
  SourceGraph graph;
  DimBindings open_dims;  // of symbols that the graph still has
};

std::optional<ReadFile> read_file(const std::string& given, const ImportOptions& options,
                                  Diagnostics& diagnostics) {
  const std::string path = model_file(given);
  FileResult file = map_file(path);
  if (const auto* fault = std::get_if<FileFault>(&file)) {
    diagnostics.error(fault->code, {path, ""}, "the file " + fault->message,
                      path == given ? "" : "a folder is read as a language model's checkpoint");
    return std::nullopt;
  }
  const auto mapped = std::get<std::shared_ptr<const MappedFile>>(std::move(file));
  auto graph = read_graph({mapped, mapped->bytes()}, path, diagnostics, options);
  if (!graph) return std::nullopt;
  return ReadFile{.graph = std::move(*graph),
                  .open_dims = is_onnx(mapped->bytes(), path) ? DimBindings() : options.dims};
}

bool has_file_references(const SourceGraph& graph) {
  const auto is_file = [](const SourceTensor& tensor) {
    return tensor.data && (std::holds_alternative<NpyFile>(*tensor.data) ||
                           std::holds_alternative<SafetensorsFile>(*tensor.data) ||
                           std::holds_alternative<RawFile>(*tensor.data));
  };
  return std::any_of(graph.params.begin(), graph.params.end(), is_file) ||
         std::any_of(graph.constants.begin(), graph.constants.end(), is_file) ||
         std::any_of(graph.states.begin(), graph.states.end(), is_file);
}

bool is_same_folder(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::equivalent(folder_of(a), folder_of(b), error);
}

void refuse_format(const GraphBytes& bytes, const std::string& file, Diagnostics& diagnostics) {
  const auto* const text = reinterpret_cast<const char*>(bytes.bytes.data());
  if (std::string_view(text, bytes.bytes.size())
          .starts_with(std::string_view(kPlanMagic, sizeof kPlanMagic))) {
    diagnostics.error(DiagCode::FileFormat, {file, ""}, "the file is a plan, wanted a model",
                      "rlxrun runs a plan, rlxc inspect shows it; to compile anew (for other "
                      "targets or dims, or with --embed) give the model that it was made of");
    return;
  }
  diagnostics.error(
      DiagCode::FileFormat, {file, ""},
      bytes.bytes.empty() ? "the file is empty" : "the file is not a graph that rlx reads",
      "graph files are JSON (.json, beginning with '{'), flatbuffers (.rlxg, with \"RLXG\" at "
      "byte 4), ONNX models (.onnx) or language models (.gguf, beginning with \"GGUF\", or a "
      "folder with config.json and safetensors)");
}

}  // namespace

std::optional<GraphFormat> detect_format(std::span<const std::byte> bytes) {
  std::string_view text = text_of(bytes);
  if (gguf::has_magic(bytes)) return GraphFormat::Gguf;
  if (text.substr(0, 8).substr(std::min<size_t>(4, text.size())) == "RLXG")
    return GraphFormat::Rlxg;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{')
    return is_config(text) ? GraphFormat::Checkpoint : GraphFormat::Json;
  if (text.starts_with(kOnnxFirstTag)) return GraphFormat::Onnx;
  return std::nullopt;
}

std::optional<SourceGraph> read_graph(const GraphBytes& bytes, const std::string& file,
                                      Diagnostics& diagnostics, const ImportOptions& options) {
  const std::optional<GraphFormat> format = format_of(bytes.bytes, file);
  const bool is_language = format == GraphFormat::Gguf || format == GraphFormat::Checkpoint;
  if (!is_language && refuse_language(file, options, diagnostics)) return std::nullopt;
  if (is_onnx(bytes.bytes, file)) {
    const OnnxOptions onnx = {.dims = options.dims,
                              .shapes = options.input_shapes,
                              .fixed_inputs = {options.constants.begin(), options.constants.end()},
                              .folder = folder_of(file),
                              .keep_symbols = options.keep_symbols || !options.free_dims.empty(),
                              .max_iterations = options.max_iterations,
                              .max_counts = options.max_counts};
    std::optional<SourceGraph> graph = read_onnx_graph(bytes, file, onnx, diagnostics).graph;
    if (!graph || !make_states(*graph, options.states, diagnostics)) return std::nullopt;
    return graph;
  }
  if (refuse_shapes(file, options, diagnostics)) return std::nullopt;
  if (format) {
    std::optional<SourceGraph> graph = read_form(*format, bytes, file, diagnostics, options);
    if (!graph || !fix_inputs(*graph, options.constants, diagnostics) ||
        !make_states(*graph, options.states, diagnostics))
      return std::nullopt;
    return graph;
  }
  refuse_format(bytes, file, diagnostics);
  return std::nullopt;
}

std::optional<SourceGraph> read_graph_file(const std::string& path, Diagnostics& diagnostics,
                                           const ImportOptions& options) {
  std::optional<ReadFile> file = read_file(path, options, diagnostics);
  if (!file) return std::nullopt;
  return std::move(file->graph);
}

std::optional<Module> load_module(const std::string& path, const ImportOptions& options,
                                  Diagnostics& diagnostics) {
  std::optional<ReadFile> file = read_file(path, options, diagnostics);
  if (!file) return std::nullopt;
  file->graph.auto_promote = file->graph.auto_promote || options.auto_promote;
  return bind_module(file->graph, file->open_dims, folder_of(model_file(path)), diagnostics,
                     options.free_dims);
}

std::optional<std::string> convert_graph(const std::string& input, const std::string& output,
                                         Diagnostics& diagnostics, const ImportOptions& options) {
  const std::optional<GraphFormat> format = format_of_name(output);
  if (!format) {
    diagnostics.error(DiagCode::BadOption, {output, ""},
                      "the output's name ends in neither .json nor .rlxg, so its form is unknown");
    return std::nullopt;
  }
  ImportOptions open = options;
  open.keep_symbols = true;
  const std::optional<SourceGraph> graph = read_graph_file(input, diagnostics, open);
  if (!graph) return std::nullopt;
  if (!graph->text.empty()) {
    diagnostics.warning(DiagCode::BadOption, {output, ""},
                        "the model's tokenizer and chat templates are left out: a graph file has "
                        "no place for them",
                        "compile " + input + " itself for a plan that has them");
  }
  std::optional<std::string> text = format == GraphFormat::Json
                                        ? std::optional(write_json_graph(*graph))
                                        : write_rlxg_graph(*graph, diagnostics);
  if (text && has_file_references(*graph) && !is_same_folder(model_file(input), output)) {
    diagnostics.warning(
        DiagCode::FileMissing, {output, ""},
        "the graph refers to weight files by paths relative to its folder, which were kept",
        "copy those files from the folder of " + input);
  }
  return text;
}

}  // namespace rlx
