// SPDX-License-Identifier: Apache-2.0
// Helpers of the import tests: a folder of files, graphs from text, and assertions on diagnostics.
#pragma once

#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "compiler/import/import.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rlx::test {

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Converts a graph file into a file of this name in the folder.
inline bool convert_to(const TemporaryFolder& folder, const std::string& from,
                       const std::string& name, Diagnostics& diagnostics) {
  const auto graph = convert_graph(from, folder.path(name), diagnostics);
  if (graph) folder.write(name, *graph);
  return graph.has_value();
}

inline GraphBytes bytes_of(const std::string& text) {
  auto owner = std::make_shared<const std::string>(text);
  const auto view = std::as_bytes(std::span(*owner));
  return {.owner = std::move(owner), .bytes = view};
}

template <typename T>
std::string raw_bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A graph with one relu "y" of input "x" (f32[2]), and `extra` fields (each followed by a comma)
// before its nodes.
inline std::string relu_graph(const std::string& extra = {}) {
  return R"({"rlx_graph": 1, )" + extra +
         R"("inputs": [{"name": "x", "dtype": "f32", "shape": [2]}],
            "nodes": [{"op": "relu", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]})";
}

inline SourceGraph read_good(const std::string& json) {
  Diagnostics diagnostics;
  std::optional<SourceGraph> graph = read_json_graph(json, "model.json", diagnostics);
  INFO(diagnostics.text());
  REQUIRE(graph.has_value());
  return *graph;
}

// Diagnostics of reading and binding a JSON graph that is expected to fail.
inline Diagnostics bind_bad(const std::string& json, const DimBindings& dims = {},
                            const std::string& folder = ".") {
  Diagnostics diagnostics;
  const std::optional<SourceGraph> graph = read_json_graph(json, "model.json", diagnostics);
  if (graph) {
    CHECK_FALSE(bind_module(*graph, dims, folder, diagnostics).has_value());
  }
  CHECK(diagnostics.has_errors());
  return diagnostics;
}

inline Module bind_good(const std::string& json, const DimBindings& dims = {},
                        const std::string& folder = ".") {
  Diagnostics diagnostics;
  const std::optional<SourceGraph> graph = read_json_graph(json, "model.json", diagnostics);
  std::optional<Module> module;
  if (graph) module = bind_module(*graph, dims, folder, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  return std::move(*module);
}

// One of the diagnostics has the code, and its full text holds `part`.
inline void check_error(const Diagnostics& diagnostics, DiagCode code, const std::string& part) {
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    if (diagnostic.code == code && to_string(diagnostic).find(part) != std::string::npos) return;
  }
  FAIL("no " << diag_code_text(code) << " error with \"" << part << "\" in:\n"
             << diagnostics.text());
}

// The only diagnostic.
inline void check_only_error(const Diagnostics& diagnostics, DiagCode code,
                             const std::string& part) {
  check_error(diagnostics, code, part);
  INFO(diagnostics.text());
  CHECK(diagnostics.all().size() == 1);
}

inline std::span<const std::byte> data_of(const Module& module, const std::string& name) {
  for (const Weight& weight : module.weights) {
    if (weight.name == name) return std::get<HostBytes>(weight.data).bytes;
  }
  FAIL("no weight " << name);
  return {};
}

template <typename T>
std::vector<T> values_of(const Module& module, const std::string& name) {
  const auto bytes = data_of(module, name);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace rlx::test
