// SPDX-License-Identifier: Apache-2.0
// libFuzzer entry over every parser of the importer. The first byte picks the parser, the rest is
// its input:
//   clang++ -std=c++20 -fsanitize=fuzzer,address,undefined -I. -I<build>/generated
//   tests/fuzz/fuzz_import.cpp <import sources>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "compiler/import/import.h"
#include "compiler/import/npy.h"
#include "compiler/import/safetensors.h"
#include "compiler/support/check.h"

namespace {

// Binds to a folder that does not exist, so that no file is opened; every symbol gets its smallest
// value.
void bind(const rlx::SourceGraph& graph) {
  rlx::Diagnostics diagnostics;
  rlx::DimBindings dims;
  for (const rlx::SourceSymbol& symbol : graph.symbols) dims[symbol.name] = symbol.minimum;
  static_cast<void>(rlx::bind_module(graph, dims, "/nonexistent", diagnostics));
}

// A graph that was read must come back unchanged from both forms.
void round_trip(const rlx::SourceGraph& graph) {
  rlx::Diagnostics diagnostics;
  const std::string json = rlx::write_json_graph(graph);
  const auto from_json = rlx::read_json_graph(json, "again.json", diagnostics);
  RLX_CHECK(from_json, "reading back JSON: " + diagnostics.text());
  RLX_CHECK(rlx::write_json_graph(*from_json) == json, "JSON differs after a round trip");
  const auto bytes = rlx::write_rlxg_graph(graph, diagnostics);
  RLX_CHECK(bytes, diagnostics.text());
  auto owner = std::make_shared<const std::string>(*bytes);
  const auto view = std::as_bytes(std::span(*owner));
  const auto from_rlxg = rlx::read_rlxg_graph({owner, view}, "again.rlxg", diagnostics);
  RLX_CHECK(from_rlxg, "reading back the flatbuffer: " + diagnostics.text());
  RLX_CHECK(rlx::write_json_graph(*from_rlxg) == json, "the flatbuffer differs after a round trip");
}

void fuzz_graph(const rlx::GraphBytes& input) {
  rlx::Diagnostics diagnostics;
  const auto graph = rlx::read_graph(input, "fuzz", diagnostics);
  RLX_CHECK(graph.has_value() != diagnostics.has_errors(),
            "a refusal without an error, or the reverse");
  if (!graph) return;
  round_trip(*graph);
  bind(*graph);
}

void fuzz_npy(const rlx::GraphBytes& input) {
  const auto parsed = rlx::parse_npy(input.bytes);
  const auto* view = std::get_if<rlx::NpyView>(&parsed);
  if (view == nullptr) return;
  RLX_CHECK(rlx::npy_bytes(*view, input.owner).bytes.size() == rlx::byte_size(view->type),
            "size of an npy");
}

void fuzz_safetensors(const rlx::GraphBytes& input) {
  const auto parsed = rlx::parse_safetensors(input.bytes);
  const auto* view = std::get_if<rlx::SafetensorsView>(&parsed);
  if (view == nullptr) return;
  size_t covered = 0;
  for (const auto& [name, tensor] : *view) covered += tensor.bytes.size();
  RLX_CHECK(covered <= input.bytes.size(), "tensors that overlap");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  auto owner =
      std::make_shared<const std::string>(reinterpret_cast<const char*>(data) + 1, size - 1);
  const rlx::GraphBytes input{.owner = owner, .bytes = std::as_bytes(std::span(*owner))};
  switch (data[0] % 3) {
    case 0:
      fuzz_graph(input);
      break;
    case 1:
      fuzz_npy(input);
      break;
    default:
      fuzz_safetensors(input);
      break;
  }
  return 0;
}
