// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of the importer.
#include "tests/fuzz/import_targets.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "compiler/import/npy.h"
#include "compiler/import/safetensors.h"
#include "compiler/ir/tensor.h"
#include "compiler/passes/pass.h"
#include "compiler/support/check.h"

namespace rlx::fuzz {
namespace {

constexpr const char* kNowhere = "/nonexistent";  // so that no file is opened

// A graph that was read must come back unchanged from both forms.
void round_trip(const SourceGraph& graph) {
  Diagnostics diagnostics;
  const std::string json = write_json_graph(graph);
  const auto from_json = read_json_graph(json, "again.json", diagnostics);
  RLX_CHECK(from_json, "reading back JSON: " + diagnostics.text());
  RLX_CHECK(write_json_graph(*from_json) == json, "JSON differs after a round trip");
  const auto bytes = write_rlxg_graph(graph, diagnostics);
  RLX_CHECK(bytes, diagnostics.text());
  auto owner = std::make_shared<const std::string>(*bytes);
  const auto view = std::as_bytes(std::span(*owner));
  const auto from_rlxg = read_rlxg_graph({owner, view}, "again.rlxg", diagnostics);
  RLX_CHECK(from_rlxg, "reading back the flatbuffer: " + diagnostics.text());
  RLX_CHECK(write_json_graph(*from_rlxg) == json, "the flatbuffer differs after a round trip");
}

// Binds every symbol to a legal value near `wanted`, and compiles as far as no target matters.
void bind_and_compile(const SourceGraph& graph, int64_t wanted) {
  Diagnostics diagnostics;
  DimBindings dims;
  for (const SourceSymbol& symbol : graph.symbols) {
    const int64_t value = std::clamp(wanted, symbol.minimum, symbol.maximum);
    dims[symbol.name] = value - value % symbol.multiple_of;
  }
  auto module = bind_module(graph, dims, kNowhere, diagnostics);
  RLX_CHECK(module.has_value() != diagnostics.has_errors(),
            "binding refused without an error, or the reverse");
  if (!module) return;
  std::vector<std::string> log;
  static_cast<void>(run_passes(*module, PassStage::Neutral, {}, diagnostics, log));
}

void fuzz_graph(const GraphBytes& input, const std::string& file) {
  Diagnostics diagnostics;
  const auto graph = read_graph(input, file, diagnostics, {.keep_symbols = true});
  RLX_CHECK(graph.has_value() != diagnostics.has_errors(),
            "a refusal without an error, or the reverse");
  if (!graph) return;
  round_trip(*graph);
  bind_and_compile(*graph, 1);
  if (!graph->symbols.empty()) bind_and_compile(*graph, 6);
}

constexpr std::array kTargets = {
    Target{"json", fuzz_json}, Target{"rlxg", fuzz_rlxg},
    Target{"onnx", fuzz_onnx}, Target{"safetensors", fuzz_safetensors},
    Target{"npy", fuzz_npy},
};

}  // namespace

void fuzz_json(const GraphBytes& input) {
  fuzz_graph(input, std::string(kNowhere) + "/fuzz.json");
}

void fuzz_rlxg(const GraphBytes& input) {
  fuzz_graph(input, std::string(kNowhere) + "/fuzz.rlxg");
}

void fuzz_onnx(const GraphBytes& input) {
  fuzz_graph(input, std::string(kNowhere) + "/fuzz.onnx");
}

void fuzz_npy(const GraphBytes& input) {
  const auto parsed = parse_npy(input.bytes);
  const auto* view = std::get_if<NpyView>(&parsed);
  if (view == nullptr) return;
  const HostBytes dense = npy_bytes(*view, input.owner);
  RLX_CHECK(dense.bytes.size() == byte_size(view->type), "size of an npy");
  const Tensor values = Tensor::from_bytes(view->type, dense.bytes);
  RLX_CHECK(values.to_bytes().size() == dense.bytes.size(), "size of an npy's values");
}

void fuzz_safetensors(const GraphBytes& input) {
  const auto parsed = parse_safetensors(input.bytes);
  const auto* view = std::get_if<SafetensorsView>(&parsed);
  if (view == nullptr) return;
  size_t covered = 0;
  for (const auto& [name, tensor] : *view) {
    covered += tensor.bytes.size();
    if (!tensor.dtype) continue;
    uint64_t count = 1;
    for (const uint64_t dim : tensor.shape) count *= dim;
    RLX_CHECK(count * block_bytes(*tensor.dtype) == tensor.bytes.size(),
              "shape and bytes of a tensor differ");
  }
  RLX_CHECK(covered <= input.bytes.size(), "tensors that overlap");
}

std::span<const Target> all_targets() {
  return kTargets;
}

void run_on_copy(void (*target)(const GraphBytes&), std::span<const std::byte> bytes) {
  // Aligned as a mapped file is.
  constexpr std::align_val_t kAlignment{64};
  auto* copy = static_cast<std::byte*>(::operator new(bytes.size(), kAlignment));
  const std::shared_ptr<const void> owner(
      copy, [](const void* memory) { ::operator delete(const_cast<void*>(memory), kAlignment); });
  if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
  target({.owner = owner, .bytes = {copy, bytes.size()}});
}

}  // namespace rlx::fuzz
