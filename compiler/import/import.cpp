// SPDX-License-Identifier: Apache-2.0
// Graph files by path: detect the form, read, load, convert.
#include "compiler/import/import.h"

#include <algorithm>
#include <filesystem>

#include "compiler/import/model_files.h"
#include "compiler/import/names.h"

namespace rlx {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The form that a file name asks for.
std::optional<GraphFormat> format_of_name(const std::string& path) {
  if (path.ends_with(".json")) return GraphFormat::Json;
  if (path.ends_with(".rlxg")) return GraphFormat::Rlxg;
  return std::nullopt;
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
  return std::nullopt;
}

std::optional<SourceGraph> read_graph(const GraphBytes& bytes, const std::string& file,
                                      Diagnostics& diagnostics) {
  const std::optional<GraphFormat> format = detect_format(bytes.bytes);
  if (format == GraphFormat::Json) return read_json_graph(text_of(bytes.bytes), file, diagnostics);
  if (format == GraphFormat::Rlxg) return read_rlxg_graph(bytes, file, diagnostics);
  diagnostics.error(
      DiagCode::FileFormat, {file, ""},
      bytes.bytes.empty() ? "the file is empty" : "the file is not a graph that rlx reads",
      "graph files are JSON (.json, beginning with '{') or flatbuffers (.rlxg, with \"RLXG\" at "
      "byte 4)");
  return std::nullopt;
}

std::optional<SourceGraph> read_graph_file(const std::string& path, Diagnostics& diagnostics) {
  FileResult file = map_file(path);
  if (const auto* fault = std::get_if<FileFault>(&file)) {
    diagnostics.error(fault->code, {path, ""}, "the file " + fault->message);
    return std::nullopt;
  }
  const auto mapped = std::get<std::shared_ptr<const MappedFile>>(std::move(file));
  return read_graph({mapped, mapped->bytes()}, path, diagnostics);
}

std::optional<Module> load_module(const std::string& path, const ImportOptions& options,
                                  Diagnostics& diagnostics) {
  std::optional<SourceGraph> source = read_graph_file(path, diagnostics);
  if (!source) return std::nullopt;
  source->auto_promote = source->auto_promote || options.auto_promote;
  return bind_module(*source, options.dims, folder_of(path), diagnostics);
}

bool convert_graph(const std::string& input, const std::string& output, Diagnostics& diagnostics) {
  const std::optional<GraphFormat> format = format_of_name(output);
  if (!format) {
    diagnostics.error(DiagCode::BadOption, {output, ""},
                      "the output's name ends in neither .json nor .rlxg, so its form is unknown");
    return false;
  }
  const std::optional<SourceGraph> graph = read_graph_file(input, diagnostics);
  if (!graph) return false;
  const std::optional<std::string> text = format == GraphFormat::Json
                                              ? std::optional(write_json_graph(*graph))
                                              : write_rlxg_graph(*graph, diagnostics);
  if (!text || !write_file_atomically(output, std::as_bytes(std::span(*text)), diagnostics))
    return false;
  if (has_file_references(*graph) && !is_same_folder(input, output)) {
    diagnostics.warning(
        DiagCode::FileMissing, {output, ""},
        "the graph refers to weight files by paths relative to its folder, which were kept",
        "copy those files from the folder of " + input);
  }
  return true;
}

}  // namespace rlx
