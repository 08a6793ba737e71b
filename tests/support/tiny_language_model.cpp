// SPDX-License-Identifier: Apache-2.0
// The tiny language model's graph.
#include "tests/support/tiny_language_model.h"

#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>

#include "compiler/import/entries.h"
#include "runtime/base/output_file.h"
#include "schema/text_generated.h"
#include "tests/support/harness.h"

namespace rlx::test {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kWidth = 32;
constexpr int kHeads = 4;
constexpr int kGroups = 2;
constexpr int kHeadDim = 8;
constexpr int kHidden = 48;
constexpr int kLayers = 2;

class Builder {
 public:
  std::string text() {
    param("table", {kTinyVocabulary, kWidth}, 1);
    param("cos", {kTinyContext, kHeadDim / 2}, 1);
    param("sin", {kTinyContext, kHeadDim / 2}, 1);
    Json inputs = {input("ids", {1, "tokens"}), input("position", Json::array()),
                   input("count", Json::array())};
    add_entry("verify", "rows", inputs, {"next"});
    inputs.push_back(input("last", Json::array({1})));
    add_entry("main", "row", inputs, {"logits", "next"});
    return graph_.dump();
  }

 private:
  // With the next token behind each of `rows`, or behind `row` alone. Entries share all params.
  void add_entry(const std::string& name, const std::string& wanted, const Json& inputs,
                 const Json& outputs) {
    nodes_ = Json::array();
    node("add", {"position", "count"}, "held");
    std::string x = node("embedding", {"table", "ids"}, "x");
    for (int i = 0; i < kLayers; ++i) x = layer(x, "l" + std::to_string(i) + ".");
    node("reshape", {x}, "rows", {{"shape", {"tokens", kWidth}}});
    if (wanted == "row") node("gather", {"rows", "last"}, "row", {{"axis", 0}});
    product(norm(wanted, "normed"), "head", {kTinyVocabulary, kWidth}, "logits");
    node("argmax", {"logits"}, "next", {{"axis", -1}});
    graph_["entries"].push_back(
        {{"name", name}, {"inputs", inputs}, {"nodes", nodes_}, {"outputs", outputs}});
  }

  void param(const std::string& name, Json shape, double bound) {
    if (!known_.insert(name).second) return;
    const Json random = {{"distribution", "uniform"},
                         {"low", -bound},
                         {"high", bound},
                         {"seed", 16},
                         {"stream", ++stream_}};
    graph_["params"].push_back({{"name", name},
                                {"dtype", "f32"},
                                {"shape", std::move(shape)},
                                {"data", {{"random", random}}}});
  }

  std::string node(const std::string& op, Json inputs, const std::string& output,
                   const Json& attributes = Json::object()) {
    nodes_.push_back({{"op", op},
                      {"inputs", std::move(inputs)},
                      {"outputs", Json::array({output})},
                      {"attributes", attributes}});
    return output;
  }

  std::string product(const std::string& x, const std::string& weight, Json shape,
                      const std::string& y) {
    param(weight, std::move(shape), 0.5);
    return node("matmul", {x, weight}, y, {{"trans_b", true}});
  }

  std::string norm(const std::string& x, const std::string& y) {
    param(y + ".weight", Json::array({kWidth}), 1);
    return node("rms_norm", {x, y + ".weight"}, y, {{"eps", 1e-5}});
  }

  std::string heads_of(const std::string& h, const std::string& name, int heads) {
    const std::string rows =
        product(h, name + ".weight", {heads * kHeadDim, kWidth}, name + ".rows");
    return node("reshape", {rows}, name, {{"shape", {1, "tokens", heads, kHeadDim}}});
  }

  std::string turned(const std::string& x) {
    return node("rope", {x, "cos", "sin", "position"}, x + ".turned",
                {{"head_dim", kHeadDim}, {"style", "gptj"}});
  }

  std::string cached(const std::string& x, const std::string& name) {
    if (known_.insert(name).second)
      graph_["states"].push_back(
          {{"name", name}, {"dtype", "f32"}, {"shape", {1, kGroups, kTinyContext, kHeadDim}}});
    const std::string rows = node("transpose", {x}, name + ".rows", {{"perm", {0, 2, 1, 3}}});
    const std::string grown =
        node("kv_append", {name, rows, "position"}, name + ".grown", {{"axis", 2}});
    return node("state_write", {name, grown}, name + ".kept");
  }

  std::string layer(const std::string& x, const std::string& p) {
    const std::string h = norm(x, p + "h");
    const std::string q = turned(heads_of(h, p + "q", kHeads));
    const std::string k = cached(turned(heads_of(h, p + "k", kGroups)), p + "k_cache");
    const std::string v = cached(heads_of(h, p + "v", kGroups), p + "v_cache");
    node("attention", {q, k, v, nullptr, nullptr, "held", "position"}, p + "heads",
         {{"num_heads", kHeads},
          {"num_kv_heads", kGroups},
          {"head_dim", kHeadDim},
          {"q_layout", "bshd"},
          {"kv_layout", "bhsd"},
          {"causal", true}});
    node("reshape", {p + "heads"}, p + "joined", {{"shape", {1, "tokens", kHeads * kHeadDim}}});
    product(p + "joined", p + "o.weight", {kWidth, kHeads * kHeadDim}, p + "o");
    const std::string y = node("add", {x, p + "o"}, p + "y");
    const std::string g = norm(y, p + "g");
    product(g, p + "gate.weight", {kHidden, kWidth}, p + "gate");
    product(g, p + "up.weight", {kHidden, kWidth}, p + "up");
    node("silu", {p + "gate"}, p + "open");
    node("mul", {p + "open", p + "up"}, p + "gated");
    product(p + "gated", p + "down.weight", {kWidth, kHidden}, p + "down");
    return node("add", {y, p + "down"}, p + "out");
  }

  static Json input(const std::string& name, Json shape) {
    return {{"name", name}, {"dtype", "i32"}, {"shape", std::move(shape)}};
  }

  int stream_ = 0;
  std::set<std::string> known_;  // params and states
  Json nodes_;                   // of the entry
  Json graph_ = {{"rlx_graph", 1},
                 {"name", "tiny"},
                 {"symbols", {{{"name", "tokens"}, {"min", 1}, {"max", kTinyContext}}}},
                 {"params", Json::array()},
                 {"states", Json::array()},
                 {"entries", Json::array()}};
};

// The importer reads files.
std::string write_graph() {
  std::string folder = "/tmp/rlx_tiny_XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no folder in /tmp");
  const std::string text = tiny_language_graph();
  const Status status = write_file(folder + "/tiny.json", std::as_bytes(std::span(text)));
  if (!status.ok()) throw std::runtime_error(status.message());
  return folder;
}

}  // namespace

std::string tiny_language_graph() {
  return Builder().text();
}

std::vector<std::byte> tiny_text() {
  std::string bytes = "<start><end>";
  std::vector<uint32_t> ends = {7, 12};
  std::vector<fb::TokenKind> kinds(2, fb::TokenKind::Control);
  std::string letters;
  for (char letter = 'a'; letter <= 'z'; ++letter) letters += letter;
  for (char letter = 'A'; letter <= 'Z'; ++letter) letters += letter;
  for (const char letter : letters + " \n.?01") {
    bytes += letter;
    ends.push_back(static_cast<uint32_t>(bytes.size()));
    kinds.push_back(fb::TokenKind::Normal);
  }
  flatbuffers::FlatBufferBuilder builder;
  const auto token_bytes =
      builder.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  const auto token_ends = builder.CreateVector(ends);
  const auto token_kinds = builder.CreateVector(kinds);
  const auto stops = builder.CreateVector(std::vector<uint32_t>{0, 1});
  const auto source = builder.CreateString(
      "{% for m in messages %}<start>{{ m.content }}<end>{% endfor %}"
      "{% if add_generation_prompt %}<start>{% endif %}");
  const std::vector<flatbuffers::Offset<fb::ChatTemplate>> made = {
      fb::CreateChatTemplate(builder, builder.CreateString(""), source)};
  const auto templates = builder.CreateVector(made);
  fb::TextBuilder text(builder);
  text.add_kind(fb::TokenizerKind::BytePairs);
  text.add_token_bytes(token_bytes);
  text.add_token_ends(token_ends);
  text.add_token_kinds(token_kinds);
  text.add_stop_ids(stops);
  text.add_templates(templates);
  text.add_context_tokens(kTinyContext);
  builder.Finish(text.Finish());
  const auto written = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return {written.begin(), written.end()};
}

std::vector<std::byte> tiny_language_plan(std::span<const uint32_t> tokens, TinyText text,
                                          std::optional<uint32_t> verify) {
  std::vector<EntryRequest> requests;
  for (const uint32_t count : tokens)
    requests.push_back({.name = count == 1 ? "decode" : "prefill_" + std::to_string(count),
                        .source = "main",
                        .dims = {{"tokens", count}}});
  if (verify)
    requests.push_back({.name = "verify_" + std::to_string(*verify),
                        .source = "verify",
                        .dims = {{"tokens", *verify}}});
  const std::string folder = write_graph();
  Diagnostics diagnostics;
  auto module = load_entries(folder + "/tiny.json", {}, requests, diagnostics);
  ::unlink((folder + "/tiny.json").c_str());
  ::rmdir(folder.c_str());
  if (!module) throw std::runtime_error(diagnostics.text());
  if (text == TinyText::With) module->text = tiny_text();
  auto plan = compile_to_bytes(std::move(*module), test_options(2), diagnostics);
  if (!plan) throw std::runtime_error(diagnostics.text());
  return std::move(*plan);
}

}  // namespace rlx::test
