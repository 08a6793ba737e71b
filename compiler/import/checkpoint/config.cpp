// SPDX-License-Identifier: Apache-2.0
// Members of config.json: names and defaults are those of Hugging Face's transformers.
#include "compiler/import/checkpoint/config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <string_view>

#include "compiler/import/names.h"

namespace rlx::checkpoint {
namespace {

struct Kind {
  std::string_view model_type;  // and the name of the architecture's row
  bool always_has_qkv_bias = false;
  int64_t default_head_dim = 0;  // 0: the width over the heads
};
constexpr Kind kKinds[] = {
    {.model_type = "llama"},
    {.model_type = "qwen2", .always_has_qkv_bias = true},
    {.model_type = "qwen3", .default_head_dim = 128},
};

// Members that say nothing about the graph, or what its tensors say.
constexpr std::string_view kNotNeeded[] = {"architectures",
                                           "model_type",
                                           "vocab_size",
                                           "intermediate_size",
                                           "torch_dtype",
                                           "dtype",
                                           "transformers_version",
                                           "use_cache",
                                           "initializer_range",
                                           "attention_dropout",
                                           "pad_token_id",
                                           "pretraining_tp",
                                           "_name_or_path",
                                           "max_window_layers",
                                           "output_attentions",
                                           "output_hidden_states",
                                           "return_dict",
                                           "id2label",
                                           "label2id",
                                           "rope_interleaved",
                                           "is_llama_config",
                                           "transformers.js_config",
                                           "_attn_implementation",
                                           "sliding_window"};

class Reader {
 public:
  Reader(const JsonObject& config, const std::string& path, MadeFile& made,
         Diagnostics& diagnostics)
      : config_(config), path_(path), made_(made), diagnostics_(diagnostics) {}

  std::optional<Config> read() {
    if (!choose_kind()) return std::nullopt;
    made_.text("general.architecture", std::string(read_.architecture.name));
    read_sizes();
    read_switches();
    read_rope();
    read_ids();
    tell_unread();
    if (diagnostics_.has_errors()) return std::nullopt;
    return std::move(read_);
  }

 private:
  void fail(const std::string& message, const std::string& hint = {},
            DiagCode code = DiagCode::BadField) {
    diagnostics_.error(code, {path_, ""}, message, hint);
  }

  // nullptr where it is absent or null.
  const JsonValue* find(const JsonObject& object, std::string_view name) {
    asked_.insert(std::string(name));
    const JsonValue* value = find_member(object, name);
    return value && std::holds_alternative<std::monostate>(value->data) ? nullptr : value;
  }
  const JsonValue* find(std::string_view name) { return find(config_, name); }

  std::nullopt_t wrong_type(std::string_view name, const JsonValue& value,
                            const std::string& wanted) {
    fail(in_quotes(name) + " is " + std::string(kind_text(value)) + ", wanted " + wanted);
    return std::nullopt;
  }

  std::optional<int64_t> integer(std::string_view name) {
    const JsonValue* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (value->integer() != nullptr) return *value->integer();
    return wrong_type(name, *value, "an integer");
  }

  std::optional<double> real(const JsonObject& object, std::string_view name) {
    const JsonValue* value = find(object, name);
    if (value == nullptr) return std::nullopt;
    if (value->integer() != nullptr) return static_cast<double>(*value->integer());
    if (const auto* number = std::get_if<double>(&value->data)) return *number;
    return wrong_type(name, *value, "a number");
  }

  bool flag(std::string_view name, bool absent) {
    const JsonValue* value = find(name);
    if (value == nullptr) return absent;
    if (const auto* flag = std::get_if<bool>(&value->data)) return *flag;
    wrong_type(name, *value, "a bool");
    return absent;
  }

  std::string text(const JsonObject& object, std::string_view name, const std::string& absent) {
    const JsonValue* value = find(object, name);
    if (value == nullptr) return absent;
    if (value->string() != nullptr) return *value->string();
    wrong_type(name, *value, "a string");
    return absent;
  }

  std::string key(std::string_view name) const {
    return std::string(read_.architecture.name) + "." + std::string(name);
  }

  bool choose_kind() {
    const std::string type = text(config_, "model_type", "");
    const auto* const found = std::ranges::find(kKinds, type, &Kind::model_type);
    if (found == std::end(kKinds)) {
      std::vector<std::string_view> known;
      for (const Kind& kind : kKinds) known.push_back(kind.model_type);
      fail(type.empty() ? "\"model_type\" is missing"
                        : "checkpoints of model type " + in_quotes(type) + " are not read",
           "these are: " + list_names(known) + "; GGUF files of more architectures are",
           DiagCode::UnsupportedOp);
      return false;
    }
    kind_ = found;
    read_.architecture = *gguf::find_architecture(type);
    // Only converters to GGUF put rows of q and k into another order.
    read_.architecture.pairs = gguf::RopePairs::Halves;
    return true;
  }

  int64_t positive(std::string_view name, std::optional<int64_t> absent = std::nullopt) {
    constexpr int64_t kMost = int64_t{1} << 40;
    const std::optional<int64_t> value = integer(name);
    if (!value && absent) return *absent;
    if (value && *value > 0 && *value < kMost) return *value;
    if (!value && find(name) != nullptr) return 1;  // told already
    fail(value ? in_quotes(name) + " is " + std::to_string(*value) + ", wanted 1 to 2^40"
               : in_quotes(name) + " is missing");
    return 1;
  }

  void read_sizes() {
    const int64_t width = positive("hidden_size");
    const int64_t heads = positive("num_attention_heads");
    const int64_t own_dim = kind_->default_head_dim != 0 ? kind_->default_head_dim
                                                         : std::max<int64_t>(1, width / heads);
    head_dim_ = positive("head_dim", own_dim);
    read_.layers = positive("num_hidden_layers");
    made_.integer(key("embedding_length"), width);
    made_.integer(key("block_count"), read_.layers);
    made_.integer(key("attention.head_count"), heads);
    made_.integer(key("attention.head_count_kv"), positive("num_key_value_heads", heads));
    made_.integer(key("attention.key_length"), head_dim_);
    made_.integer(key("attention.value_length"), head_dim_);
    context_ = positive("max_position_embeddings");
    made_.integer(key("context_length"), context_);
    const auto eps = real(config_, "rms_norm_eps");
    if (!eps) fail("\"rms_norm_eps\" is missing");
    made_.real(key("attention.layer_norm_rms_epsilon"), eps.value_or(0));
  }

  // Of members that change the graph, those that are read; others are refused.
  void read_switches() {
    const bool has_bias = flag("attention_bias", false);
    read_.has_qkv_bias = has_bias || kind_->always_has_qkv_bias;
    read_.has_output_bias = has_bias;
    read_.has_ffn_bias = flag("mlp_bias", false);
    read_.is_tied = flag("tie_word_embeddings", false);
    const std::string act = text(config_, "hidden_act", "silu");
    if (act != "silu")
      refuse("\"hidden_act\" is " + in_quotes(act) + ", of which silu alone is read");
    if (flag("use_sliding_window", false)) refuse("\"use_sliding_window\" is true");
    if (find("quantization_config") != nullptr)
      refuse("the weights are quantized (\"quantization_config\")");
    if (real(config_, "partial_rotary_factor").value_or(1) != 1)
      refuse("\"partial_rotary_factor\" is not 1");
    const JsonValue* types = find("layer_types");
    const auto is_full = [](const JsonValue& item) {
      return item.string() != nullptr && *item.string() == "full_attention";
    };
    if (types && (!types->array() || !std::ranges::all_of(*types->array(), is_full)))
      refuse("\"layer_types\" has others than full_attention");
  }

  void refuse(const std::string& what) {
    fail(what + ": this is not read", "a GGUF file of the model may be", DiagCode::UnsupportedOp);
  }

  // ---- rope ----

  void read_rope() {
    const JsonValue* scaling = find("rope_scaling");
    const JsonValue* parameters = find("rope_parameters");  // of newer files: with the base
    const JsonValue* given = scaling ? scaling : parameters;
    if (given != nullptr && given->object() == nullptr) {
      wrong_type(scaling ? "rope_scaling" : "rope_parameters", *given, "an object");
      return;
    }
    const JsonObject none;
    const JsonObject& rope = given ? *given->object() : none;
    base_ = real(rope, "rope_theta").value_or(real(config_, "rope_theta").value_or(10000));
    if (!(base_ > 0)) fail("\"rope_theta\" is not above 0");
    made_.real(key("rope.freq_base"), base_);
    made_.integer(key("rope.dimension_count"), head_dim_);
    const std::string type = text(rope, "rope_type", text(rope, "type", "default"));
    read_scaling(rope, type);
  }

  void read_scaling(const JsonObject& rope, const std::string& type) {
    std::set<std::string_view> known = {"rope_type", "type", "rope_theta"};
    if (type == "default") {
      made_.text(key("rope.scaling.type"), "none");
    } else if (type == "linear" || type == "yarn") {
      made_.text(key("rope.scaling.type"), type);
      made_.real(key("rope.scaling.factor"), factor_of(rope, "factor"));
      known.insert("factor");
      if (type == "yarn") read_yarn(rope, known);
    } else if (type == "llama3") {
      made_.text(key("rope.scaling.type"), "none");
      read_llama3(rope);
      known.insert(
          {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"});
    } else {
      refuse("rope scaling " + in_quotes(type));
      return;
    }
    for (const JsonMember& member : rope) {
      const bool is_null = std::holds_alternative<std::monostate>(member.value.data);
      if (!known.contains(member.key) && !is_null)
        refuse("rope scaling " + in_quotes(type) + " with " + in_quotes(member.key));
    }
  }

  double factor_of(const JsonObject& rope, std::string_view name) {
    const auto value = real(rope, name);
    if (value && *value > 0 && std::isfinite(*value)) return *value;
    fail("rope scaling wants " + in_quotes(name) + ", a number above 0");
    return 1;
  }

  void read_yarn(const JsonObject& rope, std::set<std::string_view>& known) {
    constexpr std::string_view kOriginal = "original_max_position_embeddings";
    known.insert({kOriginal, "beta_fast", "beta_slow"});
    const double original =
        find(rope, kOriginal) ? factor_of(rope, kOriginal) : static_cast<double>(context_);
    made_.real(key("rope.scaling.original_context_length"), original);
    if (const auto fast = real(rope, "beta_fast"))
      made_.real(key("rope.scaling.yarn_beta_fast"), *fast);
    if (const auto slow = real(rope, "beta_slow"))
      made_.real(key("rope.scaling.yarn_beta_slow"), *slow);
  }

  // Pairs that turn slowly are slowed by the factor, fast ones are not, those between by a share:
  // as Llama 3.1's model card has it.
  void read_llama3(const JsonObject& rope) {
    const double factor = factor_of(rope, "factor");
    const double low = factor_of(rope, "low_freq_factor");
    const double high = factor_of(rope, "high_freq_factor");
    const double original = factor_of(rope, "original_max_position_embeddings");
    if (!(low < high)) fail("\"low_freq_factor\" is not below \"high_freq_factor\"");
    if (diagnostics_.has_errors() || head_dim_ > 512) return;  // no head is larger: told later
    for (int64_t i = 0; i < head_dim_ / 2; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head_dim_);
      const double turns = original * std::pow(base_, exponent) / (2 * std::numbers::pi);
      const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
      read_.rope_factors.push_back(1 / ((1 - kept) / factor + kept));
    }
  }

  // ---- ids ----

  void read_ids() {
    read_.begin_id = integer("bos_token_id");
    const JsonValue* end = find("eos_token_id");
    if (end == nullptr) return;
    const JsonArray one = {*end};
    for (const JsonValue& item : end->array() ? *end->array() : one) {
      if (item.integer() != nullptr) {
        read_.end_ids.push_back(*item.integer());
      } else {
        wrong_type("eos_token_id", item, "an integer or a list of them");
      }
    }
  }

  void tell_unread() {
    std::vector<std::string_view> unread;
    for (const JsonMember& member : config_) {
      const bool is_needed = std::ranges::find(kNotNeeded, member.key) == std::end(kNotNeeded);
      if (is_needed && !asked_.contains(member.key)) unread.push_back(member.key);
    }
    if (unread.empty()) return;
    diagnostics_.warning(DiagCode::BadField, {path_, ""},
                         "members that nothing reads: " + list_names(unread));
  }

  const JsonObject& config_;
  const std::string& path_;
  MadeFile& made_;
  Diagnostics& diagnostics_;
  const Kind* kind_ = nullptr;
  Config read_;
  int64_t head_dim_ = 1;
  int64_t context_ = 1;
  double base_ = 10000;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace

std::optional<Config> read_config(const JsonObject& config, const std::string& path, MadeFile& made,
                                  Diagnostics& diagnostics) {
  return Reader(config, path, made, diagnostics).read();
}

}  // namespace rlx::checkpoint
