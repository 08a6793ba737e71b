// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/import/checkpoint/checkpoint_files.h"
#include "compiler/import/checkpoint/config.h"
#include "compiler/import/checkpoint/tokenizer.h"
#include "compiler/import/gguf/language_graph.h"
#include "compiler/import/names.h"

namespace rlx {
namespace {

using checkpoint::Config;
using checkpoint::Shard;

constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxExperts = int64_t{1} << 18;  // of all layers together
constexpr const char* kHead = "lm_head.weight";
constexpr const char* kTable = "model.embed_tokens.weight";

// Where a checkpoint's tensor goes: a tensor of GGUF's name, or one matrix of such a stack.
struct Target {
  std::string name;
  std::optional<int64_t> expert;
};
// By the names in checkpoints.
using Names = std::map<std::string, Target>;

struct Projection {
  std::string_view theirs;
  std::string_view ours;
};

// Of a layer.
std::span<const Projection> norms_of(gguf::NormPlaces places) {
  static constexpr Projection kBefore[] = {{"input_layernorm", "attn_norm"},
                                           {"post_attention_layernorm", "ffn_norm"}};
  static constexpr Projection kAround[] = {{"input_layernorm", "attn_norm"},
                                           {"post_attention_layernorm", "post_attention_norm"},
                                           {"pre_feedforward_layernorm", "ffn_norm"},
                                           {"post_feedforward_layernorm", "post_ffw_norm"}};
  static constexpr Projection kAfter[] = {{"post_attention_layernorm", "post_attention_norm"},
                                          {"post_feedforward_layernorm", "post_ffw_norm"}};
  switch (places) {
    case gguf::NormPlaces::Before:
      return kBefore;
    case gguf::NormPlaces::BeforeAndAfter:
      return kAround;
    case gguf::NormPlaces::After:
      return kAfter;
  }
  return {};
}

// Of a layer's experts, whose names begin with `theirs`.
void add_experts(const Config& config, const std::string& theirs, const std::string& ours,
                 Names& names) {
  const checkpoint::ExpertNames& of = config.expert_names;
  const std::string place = theirs + std::string(of.place) + ".";
  names[place + "gate.weight"] = {ours + "ffn_gate_inp.weight", {}};
  const std::array<Projection, 3> matrices = {
      {{of.gate, "ffn_gate_exps"}, {of.up, "ffn_up_exps"}, {of.down, "ffn_down_exps"}}};
  for (int64_t expert = 0; expert < config.experts; ++expert) {
    const std::string one = place + "experts." + std::to_string(expert) + ".";
    for (const Projection& matrix : matrices) {
      names[one + std::string(matrix.theirs) + ".weight"] = {
          ours + std::string(matrix.ours) + ".weight", expert};
    }
  }
}

Names names_of(const Config& config) {
  Names names = {{kTable, {"token_embd.weight", {}}},
                 {"model.norm.weight", {"output_norm.weight", {}}}};
  if (!config.is_tied) names[kHead] = {"output.weight", {}};
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string theirs = "model.layers." + std::to_string(i) + ".";
    const std::string ours = "blk." + std::to_string(i) + ".";
    const auto add = [&](const Projection& name, bool has_bias) {
      for (const std::string_view part : {".weight", ".bias"}) {
        if (part == ".bias" && !has_bias) continue;
        names[theirs + std::string(name.theirs) + std::string(part)] = {
            ours + std::string(name.ours) + std::string(part), {}};
      }
    };
    for (const Projection& norm : norms_of(config.architecture.norms)) add(norm, false);
    const bool is_packed = config.architecture.is_packed;
    if (is_packed) {
      add({"self_attn.qkv_proj", "attn_qkv"}, config.has_qkv_bias);
      add({"mlp.gate_up_proj", "ffn_up"}, config.has_ffn_bias);
    } else {
      add({"self_attn.q_proj", "attn_q"}, config.has_qkv_bias);
      add({"self_attn.k_proj", "attn_k"}, config.has_qkv_bias);
      add({"self_attn.v_proj", "attn_v"}, config.has_qkv_bias);
    }
    add({"self_attn.o_proj", "attn_output"}, config.has_output_bias);
    if (config.experts > 0) {
      add_experts(config, theirs, ours, names);
    } else {
      if (!is_packed) add({"mlp.gate_proj", "ffn_gate"}, config.has_ffn_bias);
      if (!is_packed) add({"mlp.up_proj", "ffn_up"}, config.has_ffn_bias);
      add({"mlp.down_proj", "ffn_down"}, config.has_ffn_bias);
    }
    if (config.architecture.qk_norm == gguf::QkNorm::None) continue;
    add({"self_attn.q_norm", "attn_q_norm"}, false);
    add({"self_attn.k_norm", "attn_k_norm"}, false);
  }
  return names;
}

const SafetensorsTensor* find_tensor(const std::vector<Shard>& shards, const char* name) {
  for (const Shard& shard : shards) {
    const auto found = shard.tensors.find(name);
    if (found != shard.tensors.end()) return &found->second;
  }
  return nullptr;
}

// A head beside the table it is said to be, and unlike it, is one of its own: so Hugging Face's
// transformers take such a checkpoint.
void untie_own_head(const std::vector<Shard>& shards, const std::string& path, Config& config,
                    Diagnostics& diagnostics) {
  const SafetensorsTensor* head = find_tensor(shards, kHead);
  const SafetensorsTensor* table = find_tensor(shards, kTable);
  if (!config.is_tied || head == nullptr || table == nullptr) return;
  if (head->dtype_text == table->dtype_text && std::ranges::equal(head->bytes, table->bytes))
    return;
  config.is_tied = false;
  diagnostics.warning(DiagCode::BadField, {path, ""},
                      "\"tie_word_embeddings\" holds, and yet tensors " + in_quotes(kHead) +
                          " and " + in_quotes(kTable) + " differ: the head has its own",
                      "without the tensor it is the embedding's table");
}

// Tensors that old files have though they follow from others.
bool is_idle(const std::string& name, const Config& config) {
  return name.ends_with(".rotary_emb.inv_freq") || (config.is_tied && name == kHead);
}

class TensorReader {
 public:
  TensorReader(const Config& config, const std::string& path, Diagnostics& diagnostics)
      : config_(config), names_(names_of(config)), path_(path), diagnostics_(diagnostics) {}

  bool add(const Shard& shard, gguf::TensorTable& table) {
    gguf::File file;
    for (const auto& [name, tensor] : shard.tensors) {
      const auto known = names_.find(name);
      if (known == names_.end()) {
        if (!is_idle(name, config_)) unread_.push_back(name);
        continue;
      }
      if (auto made = make(known->second.name, name, tensor, shard)) {
        if (known->second.expert) {
          stack(*made, *known->second.expert, name, shard.name);
        } else {
          file.tensors.push_back(*made);
        }
      }
      names_.erase(known);
    }
    table.add(file, shard.name, {.owner = shard.owner, .bytes = {}});
    return !diagnostics_.has_errors();
  }

  // Stacks of experts; tensors that no file has, or that nothing reads.
  bool finish(gguf::TensorTable& table) {
    for (auto& [name, stack] : stacks_) {
      stack.tensor.bytes = *stack.bytes;
      table.add_made(stack.tensor, path_, stack.bytes);
    }
    tell("the checkpoint lacks tensors of a ", names_left(), DiagCode::BadField);
    tell("the checkpoint has tensors that are not read of a ", unread_, DiagCode::UnsupportedOp);
    return !diagnostics_.has_errors();
  }

 private:
  // Matrices of one shape and type, one for each expert.
  struct Stack {
    gguf::Tensor tensor;
    std::shared_ptr<std::vector<std::byte>> bytes;
  };

  // Copies an expert's matrix to its place.
  void stack(const gguf::Tensor& matrix, int64_t expert, const std::string& theirs,
             const std::string& file) {
    Stack& stack = stacks_[matrix.name];
    std::vector<int64_t> shape = matrix.shape;
    shape.insert(shape.begin(), config_.experts);
    const size_t matrix_bytes = matrix.bytes.size();
    if (!stack.bytes) {
      stack.tensor = {.name = matrix.name, .dtype = matrix.dtype, .shape = shape};
      stack.bytes = std::make_shared<std::vector<std::byte>>(matrix_bytes *
                                                             static_cast<size_t>(config_.experts));
    }
    if (stack.tensor.dtype != matrix.dtype || stack.tensor.shape != shape) {
      diagnostics_.error(DiagCode::BadShape, {folder_of(path_) + "/" + file, ""},
                         "tensor " + in_quotes(theirs) +
                             " is of another type or shape than those of other experts");
      return;
    }
    std::ranges::copy(matrix.bytes,
                      stack.bytes->begin() +
                          static_cast<std::ptrdiff_t>(matrix_bytes * static_cast<size_t>(expert)));
  }

  [[nodiscard]] std::vector<std::string> names_left() const {
    std::vector<std::string> left;
    for (const auto& [theirs, ours] : names_) left.push_back(theirs);
    return left;
  }

  void tell(const std::string& what, const std::vector<std::string>& names, DiagCode code) {
    if (names.empty()) return;
    const std::vector<std::string_view> views(names.begin(), names.end());
    diagnostics_.error(code, {path_, ""},
                       what + std::string(config_.architecture.name) + ": " + list_names(views),
                       "what config.json says decides which are wanted");
  }

  std::optional<gguf::Tensor> make(const std::string& name, const std::string& theirs,
                                   const SafetensorsTensor& tensor, const Shard& shard) {
    gguf::Tensor made{.name = name, .bytes = tensor.bytes};
    made.offset_bytes = static_cast<uint64_t>(tensor.bytes.data() - shard.owner->bytes().data());
    const std::string folder = folder_of(path_);
    const auto fail = [&](DiagCode code, const std::string& why) {
      diagnostics_.error(code, {folder + "/" + shard.name, ""},
                         "tensor " + in_quotes(theirs) + " " + why);
      return std::nullopt;
    };
    if (!tensor.dtype || !is_short_float(*tensor.dtype))
      return fail(DiagCode::BadDtype,
                  "is of type " + tensor.dtype_text + ", wanted F32, F16 or BF16");
    made.dtype = *tensor.dtype;
    for (const uint64_t dim : tensor.shape) {
      if (dim == 0 || dim > static_cast<uint64_t>(kMaxDim))
        return fail(DiagCode::Limit,
                    "has a dim of " + std::to_string(dim) + ", wanted 1 to 2^40 - 1");
      made.shape.push_back(static_cast<int64_t>(dim));
    }
    if (made.shape.empty() || made.shape.size() > 2)
      return fail(DiagCode::BadShape,
                  "is of rank " + std::to_string(made.shape.size()) + ", wanted 1 or 2");
    return made;
  }

  const Config& config_;
  Names names_;  // of tensors that no file had yet
  const std::string& path_;
  Diagnostics& diagnostics_;
  std::vector<std::string> unread_;
  std::map<std::string, Stack> stacks_;  // by GGUF's names
};

// Factors of rope's angles, as the tensor of that name that a GGUF file has them in.
void add_rope_factors(const std::vector<double>& factors, const std::string& name,
                      gguf::TensorTable& table) {
  if (factors.empty()) return;
  const auto values = std::make_shared<std::vector<float>>(factors.begin(), factors.end());
  gguf::File file;
  file.tensors.push_back({.name = name,
                          .dtype = DType::f32,
                          .shape = {static_cast<int64_t>(values->size())},
                          .bytes = std::as_bytes(std::span(*values))});
  table.add(file, "config.json", {.owner = values, .bytes = {}});
}

bool read_tensors(Config& config, const std::string& path, gguf::TensorTable& table,
                  Diagnostics& diagnostics) {
  const auto shards = checkpoint::open_shards(folder_of(path), diagnostics);
  if (!shards) return false;
  untie_own_head(*shards, path, config, diagnostics);
  TensorReader reader(config, path, diagnostics);
  for (const Shard& shard : *shards) {
    if (!reader.add(shard, table)) return false;
  }
  add_rope_factors(config.rope_factors, "rope_freqs.weight", table);
  add_rope_factors(config.short_factors, "rope_factors_short.weight", table);
  add_rope_factors(config.long_factors, "rope_factors_long.weight", table);
  return reader.finish(table);
}

std::optional<JsonObject> parse_config(const GraphBytes& bytes, const std::string& path,
                                       Diagnostics& diagnostics) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.bytes.data()),
                              bytes.bytes.size());
  auto value = parse_json(text, path, diagnostics);
  if (!value) return std::nullopt;
  if (const JsonObject* object = value->object()) return *object;
  diagnostics.error(DiagCode::BadField, {path, ""}, "the file is no JSON object");
  return std::nullopt;
}

}  // namespace

std::optional<SourceGraph> read_checkpoint(const GraphBytes& bytes, const std::string& path,
                                           const LanguageOptions& options,
                                           Diagnostics& diagnostics) {
  const auto json = parse_config(bytes, path, diagnostics);
  if (!json) return std::nullopt;
  checkpoint::MadeFile made;
  auto config = checkpoint::read_config(*json, path, made, diagnostics);
  if (!config) return std::nullopt;
  if (config->layers > kMaxLayers) {
    diagnostics.error(DiagCode::Limit, {path, ""},
                      "\"num_hidden_layers\" is " + std::to_string(config->layers) +
                          ", wanted 1 to " + std::to_string(kMaxLayers));
    return std::nullopt;
  }
  if (config->experts > kMaxExperts / config->layers) {
    diagnostics.error(DiagCode::Limit, {path, ""},
                      "the model has " + std::to_string(config->experts) + " experts in each of " +
                          std::to_string(config->layers) + " layers, wanted at most " +
                          std::to_string(kMaxExperts) + " in all");
    return std::nullopt;
  }
  gguf::TensorTable tensors;
  if (!read_tensors(*config, path, tensors, diagnostics)) return std::nullopt;
  checkpoint::read_tokenizer(folder_of(path), *config, made, diagnostics);
  gguf::Keys keys(made.file(), path, diagnostics);
  return gguf::build_language_graph(config->architecture, options, tensors, keys, made.file(), path,
                                    diagnostics);
}

}  // namespace rlx
