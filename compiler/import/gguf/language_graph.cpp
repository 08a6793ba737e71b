// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/gguf/language_graph.h"

#include <algorithm>
#include <array>

#include "compiler/import/check_source.h"
#include "compiler/import/gguf/decoder.h"
#include "compiler/import/gguf/text.h"
#include "compiler/import/names.h"

namespace rlx::gguf {
namespace {

constexpr int64_t kMostRows = 1 << 20;
constexpr int64_t kDefaultContext = 4096;
constexpr size_t kMaxChunks = 16;
constexpr int64_t kMostVerified = 64;
constexpr std::array<int64_t, 5> kDefaultChunks = {1, 8, 32, 128, 512};

void refuse_option(const std::string& file, const std::string& message, Diagnostics& diagnostics) {
  diagnostics.error(DiagCode::BadOption, {file, ""}, message);
}

int64_t choose_context(const Hyperparameters& model, const LanguageOptions& options,
                       const std::string& file, Diagnostics& diagnostics) {
  if (!options.context) {
    const int64_t context = std::min(model.trained_context, kDefaultContext);
    if (context < model.trained_context) {
      diagnostics.add({.severity = Severity::Note,
                       .code = DiagCode::BadOption,
                       .place = {file, ""},
                       .message = "caches have " + std::to_string(context) +
                                  " rows; the model was made for " +
                                  std::to_string(model.trained_context) + " tokens",
                       .hint = "--ctx chooses"});
    }
    return context;
  }
  if (*options.context < 1 || *options.context > kMostRows)
    refuse_option(file, "--ctx is " + std::to_string(*options.context) + ", wanted 1 to 2^20",
                  diagnostics);
  if (*options.context > model.trained_context && !diagnostics.has_errors()) {
    diagnostics.warning(DiagCode::BadOption, {file, ""},
                        "--ctx is " + std::to_string(*options.context) +
                            ", the model was made for " + std::to_string(model.trained_context) +
                            " tokens");
  }
  return *options.context;
}

std::vector<int64_t> choose_chunks(int64_t context, const LanguageOptions& options,
                                   const std::string& file, Diagnostics& diagnostics) {
  if (options.chunks.empty()) {
    std::vector<int64_t> chunks;
    for (const int64_t chunk : kDefaultChunks) {
      if (chunk <= context) chunks.push_back(chunk);
    }
    return chunks;
  }
  std::vector<int64_t> chunks = options.chunks;
  std::sort(chunks.begin(), chunks.end());
  const bool has_twins = std::adjacent_find(chunks.begin(), chunks.end()) != chunks.end();
  if (has_twins || chunks.front() < 1 || chunks.back() > context || chunks.size() > kMaxChunks) {
    refuse_option(file,
                  "--chunks wants up to " + std::to_string(kMaxChunks) +
                      " different numbers of tokens from 1 to the caches' " +
                      std::to_string(context),
                  diagnostics);
  }
  return chunks;
}

void check_verify(int64_t context, const LanguageOptions& options, const std::string& file,
                  Diagnostics& diagnostics) {
  const int64_t most = std::min(context, kMostVerified);
  if (!options.verify || (*options.verify >= 2 && *options.verify <= most)) return;
  refuse_option(file,
                "--verify is " + std::to_string(*options.verify) + ", wanted 2 to " +
                    std::to_string(most) + ": a token and the drafts behind it",
                diagnostics);
}

// Before a node is made of any layer: each has tensors of its own.
void check_layers(const Hyperparameters& model, const TensorTable& tensors, Keys& keys) {
  if (static_cast<size_t>(model.layers) <= tensors.size()) return;
  keys.fail(DiagCode::BadField, "the model has " + std::to_string(model.layers) +
                                    " layers, its files have " + std::to_string(tensors.size()) +
                                    " tensors");
}

void warn_of_window(const Hyperparameters& model, int64_t context, Keys& keys) {
  if (model.ignored_window == 0 || model.ignored_window >= context) return;
  keys.warn("the file's sliding window of " + std::to_string(model.ignored_window) +
                " keys is not applied: every query sees all keys, as in llama.cpp",
            "--ctx " + std::to_string(model.ignored_window) + " leaves no difference");
}

// Sizes that follow from the tensors and are said once more: a file that says two things of one is
// refused.
void check_claims(const Architecture& architecture, const Hyperparameters& model,
                  TensorTable& tensors, Keys& keys) {
  const auto check = [&](const char* name, const std::string& tensor, bool is_rows) {
    const std::string key = std::string(architecture.name) + "." + name;
    if (keys.find(key) == nullptr || !tensors.contains(tensor)) return true;
    const std::vector<int64_t>& shape = tensors.read(tensor)->shape;
    const int64_t size = is_rows ? shape.front() : shape.back();
    const auto claim = keys.integer_of_layers(key);
    if (!claim || *claim == size) return claim.has_value();
    keys.fail(DiagCode::BadShape, "key " + in_quotes(key) + " is " + std::to_string(*claim) +
                                      ", tensor " + in_quotes(tensor) + " has " +
                                      std::to_string(size) + (is_rows ? " rows" : " columns"));
    return false;
  };
  check("vocab_size", "token_embd.weight", true);
  const bool has_experts = model.experts > 0;  // whose files say the other length of dense layers
  const char* hidden = has_experts ? "expert_feed_forward_length" : "feed_forward_length";
  const std::string down = has_experts ? ".ffn_down_exps.weight" : ".ffn_down.weight";
  for (int64_t i = 0; i < model.layers; ++i) {
    if (!check(hidden, "blk." + std::to_string(i) + down, false)) return;
  }
}

// Rows of the embedding's table.
int64_t vocabulary_of(TensorTable& tensors) {
  const Tensor* table = tensors.read("token_embd.weight");
  return table ? table->shape.front() : 0;
}

}  // namespace

std::optional<SourceGraph> build_language_graph(const Architecture& architecture,
                                                const LanguageOptions& options,
                                                TensorTable& tensors, Keys& keys, const File& first,
                                                const std::string& file, Diagnostics& diagnostics) {
  const Hyperparameters model = read_hyperparameters(architecture, keys);
  const int64_t context = choose_context(model, options, file, diagnostics);
  const std::vector<int64_t> chunks = choose_chunks(context, options, file, diagnostics);
  check_verify(context, options, file, diagnostics);
  check_layers(model, tensors, keys);
  SourceGraph graph;
  graph.file = file;
  graph.name = model.name;
  if (diagnostics.has_errors()) return std::nullopt;
  warn_of_window(model, context, keys);
  WeightSet weights(tensors, keys);
  add_decoder(
      model,
      {.context = context, .chunks = chunks, .verify = options.verify, .cache = options.cache},
      weights, graph);
  weights.finish(std::string(architecture.name));
  check_claims(architecture, model, tensors, keys);
  graph.params = tensors.params();
  graph.text = read_text(keys, first, {.vocabulary = vocabulary_of(tensors), .context = context});
  if (diagnostics.has_errors() || !check_source(graph, diagnostics)) return std::nullopt;
  return graph;
}

}  // namespace rlx::gguf
