// SPDX-License-Identifier: Apache-2.0
// Graph files by path: detect the form, read, load, convert.
#include "compiler/import/import.h"

#include <algorithm>
#include <filesystem>

#include "compiler/import/const_input.h"
#include "compiler/import/model_files.h"
#include "compiler/import/names.h"
#include "compiler/import/onnx/onnx_reader.h"

namespace rlx {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr char kOnnxFirstTag = 8;  // ir_version, field 1 of ModelProto, a varint

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The form that a file name asks for.
std::optional<GraphFormat> format_of_name(const std::string& path) {
  if (path.ends_with(".json")) return GraphFormat::Json;
  if (path.ends_with(".rlxg")) return GraphFormat::Rlxg;
  return std::nullopt;
}

// --input-shape for a format whose inputs have their shapes.
bool refuse_shapes(const std::string& file, const ImportOptions& options,
                   Diagnostics& diagnostics) {
  if (options.input_shapes.empty()) return false;
  diagnostics.error(DiagCode::BadOption, {file, ""},
                    "--input-shape is for ONNX models; this graph gives the shapes of its inputs",
                    "bind its symbols with --dim");
  return true;
}

bool is_onnx(std::span<const std::byte> bytes, const std::string& file) {
  const std::optional<GraphFormat> format = detect_format(bytes);
  return format == GraphFormat::Onnx || (!format && !bytes.empty() && file.ends_with(".onnx"));
}

struct ReadFile {
  SourceGraph graph;
  DimBindings open_dims;  // of symbols that the graph still has
};

std::optional<ReadFile> read_file(const std::string& path, const ImportOptions& options,
                                  Diagnostics& diagnostics) {
  FileResult file = map_file(path);
  if (const auto* fault = std::get_if<FileFault>(&file)) {
    diagnostics.error(fault->code, {path, ""}, "the file " + fault->message);
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

}  // namespace

std::optional<GraphFormat> detect_format(std::span<const std::byte> bytes) {
  std::string_view text = text_of(bytes);
  if (text.substr(0, 8).substr(std::min<size_t>(4, text.size())) == "RLXG")
    return GraphFormat::Rlxg;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return GraphFormat::Json;
  if (text.starts_with(kOnnxFirstTag)) return GraphFormat::Onnx;
  return std::nullopt;
}

std::optional<SourceGraph> read_graph(const GraphBytes& bytes, const std::string& file,
                                      Diagnostics& diagnostics, const ImportOptions& options) {
  if (is_onnx(bytes.bytes, file)) {
    const OnnxOptions onnx = {.dims = options.dims,
                              .shapes = options.input_shapes,
                              .fixed_inputs = {options.constants.begin(), options.constants.end()},
                              .folder = folder_of(file),
                              .keep_symbols = options.keep_symbols};
    return read_onnx_graph(bytes, file, onnx, diagnostics).graph;
  }
  if (refuse_shapes(file, options, diagnostics)) return std::nullopt;
  const std::optional<GraphFormat> format = detect_format(bytes.bytes);
  if (format) {
    std::optional<SourceGraph> graph =
        format == GraphFormat::Json ? read_json_graph(text_of(bytes.bytes), file, diagnostics)
                                    : read_rlxg_graph(bytes, file, diagnostics);
    if (!graph || !fix_inputs(*graph, options.constants, diagnostics)) return std::nullopt;
    return graph;
  }
  diagnostics.error(
      DiagCode::FileFormat, {file, ""},
      bytes.bytes.empty() ? "the file is empty" : "the file is not a graph that rlx reads",
      "graph files are JSON (.json, beginning with '{'), flatbuffers (.rlxg, with \"RLXG\" at "
      "byte 4) or ONNX models (.onnx)");
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
  return bind_module(file->graph, file->open_dims, folder_of(path), diagnostics);
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
  std::optional<std::string> text = format == GraphFormat::Json
                                        ? std::optional(write_json_graph(*graph))
                                        : write_rlxg_graph(*graph, diagnostics);
  if (text && has_file_references(*graph) && !is_same_folder(input, output)) {
    diagnostics.warning(
        DiagCode::FileMissing, {output, ""},
        "the graph refers to weight files by paths relative to its folder, which were kept",
        "copy those files from the folder of " + input);
  }
  return text;
}

}  // namespace rlx
