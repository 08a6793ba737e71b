// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of the importer, of text sections and of chat templates.
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
#include "runtime/base/text.h"
#include "runtime/include/rlx_text.h"
#include "runtime/text/jinja.h"
#include "runtime/text/jinja_json.h"
#include "runtime/text/stream.h"
#include "runtime/text/text.h"

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

// Tokens of a text, each of which is one and has a text again.
void encode_and_decode(const std::shared_ptr<const TextModel>& model, std::string_view text) {
  std::vector<int32_t> ids;
  const TextPiece pieces[] = {{.text = text.substr(0, text.size() / 2), .is_trusted = true},
                              {.text = text.substr(text.size() / 2), .is_trusted = false}};
  const Status status = model->encode_pieces(pieces, RLX_TEXT_ADD_SPECIAL, ids);
  RLX_CHECK(status.ok(), status.message());
  TokenStream stream(model, ControlTokens::Shown);
  for (const int32_t id : ids) {
    std::string_view shown;
    RLX_CHECK(stream.put(id, shown).ok(), "an id that is no token");
    RLX_CHECK(is_utf8(shown), "a stream shows what is no UTF-8");
  }
  static_cast<void>(stream.end());
}

// A conversation and all that a template may look at.
std::vector<jinja::NamedValue> template_variables() {
  constexpr std::string_view kJson =
      R"({"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "ä <|x|>\n"},
          {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]}],
          "tools": [{"function": {"name": "f", "description": "\"d\"", "parameters": {"required": ["x"]}}}],
          "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "documents": null, "x": 2.5})";
  const auto read = jinja::read_json(kJson);
  std::vector<jinja::NamedValue> variables;
  for (const jinja::Member& member : std::get<jinja::Value>(read).dict().members) {
    variables.push_back({.name = std::string(member.key.text().bytes()), .value = member.value});
  }
  return variables;
}

void check_rendered(const jinja::MarkedText& text, const jinja::Limits& limits) {
  RLX_CHECK(text.size() <= limits.output_bytes, "an output above its limit");
  RLX_CHECK(is_utf8(text.bytes()), "an output that is no UTF-8");
  size_t end = 0;
  for (const jinja::MarkedText::Run& run : text.runs()) {
    RLX_CHECK(run.end > end, "an empty run");
    end = run.end;
  }
  RLX_CHECK(end == text.size(), "runs that are not the text");
}

constexpr std::array kTargets = {
    Target{"json", fuzz_json},         Target{"rlxg", fuzz_rlxg},
    Target{"onnx", fuzz_onnx},         Target{"safetensors", fuzz_safetensors},
    Target{"npy", fuzz_npy},           Target{"text", fuzz_text},
    Target{"template", fuzz_template}, Target{"gguf", fuzz_gguf},
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

void fuzz_gguf(const GraphBytes& input) {
  fuzz_graph(input, std::string(kNowhere) + "/fuzz.gguf");
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

void fuzz_text(const GraphBytes& input) {
  std::shared_ptr<const TextModel> model;
  const Status status = TextModel::open(input.bytes, model);
  RLX_CHECK(status.ok() == (model != nullptr), "a section neither opened nor refused");
  if (model == nullptr) return;
  encode_and_decode(model,
                    "the <|end|>  it's A\u0301\u0327 123\u00A0\u4E16Ab\r\n\uFB01 \xFF <tool>");
  encode_and_decode(model, std::string(2000, 'a'));
  // Its own bytes hold the names of its tokens.
  encode_and_decode(model, {reinterpret_cast<const char*>(input.bytes.data()), input.bytes.size()});
}

void fuzz_template(const GraphBytes& input) {
  const std::string_view source(reinterpret_cast<const char*>(input.bytes.data()),
                                input.bytes.size());
  static_cast<void>(jinja::check_template(source));
  const jinja::RenderOptions options = {
      .limits = {.steps = 50'000, .output_bytes = 1u << 20u, .memory_bytes = 8u << 20u}};
  jinja::MarkedText text;
  const Status status = jinja::render("", source, template_variables(), options, text);
  RLX_CHECK(status.ok() == status.message().empty(), "a refusal without a sentence");
  if (status.ok()) check_rendered(text, options.limits);
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
