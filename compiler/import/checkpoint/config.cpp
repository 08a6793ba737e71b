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

// Which layers see keys in a window alone.
enum class Window : uint8_t { Never, Everywhere, AsArchitecture };

struct Kind {
  std::string_view model_type;
  std::string_view architecture;  // the name of its row
  bool always_has_qkv_bias = false;
  int64_t default_head_dim = 0;  // 0: the width over the heads
  bool is_tied = false;          // where config.json does not say
  double norm_offset = 0;
  Window window = Window::Never;
  int64_t default_window = 0;
  int64_t default_attention_divisor = 0;  // query_pre_attn_scalar; 0: there is none
  std::string_view experts = {};          // the member that counts them; empty: there are none
  ExpertNames expert_names = {};
  std::string_view expert_size = {};  // the member that says how wide they are
  bool renormalises = true;  // shares of the chosen experts, where config.json does not say
};
constexpr Kind kKinds[] = {
    {.model_type = "llama", .architecture = "llama"},
    {.model_type = "mistral", .architecture = "llama", .window = Window::Everywhere},
    {.model_type = "mixtral",
     .architecture = "llama",
     .window = Window::Everywhere,
     .experts = "num_local_experts",
     .expert_names = {"block_sparse_moe", "w1", "w3", "w2"},
     .expert_size = "intermediate_size"},
    {.model_type = "qwen2", .architecture = "qwen2", .always_has_qkv_bias = true},
    {.model_type = "qwen3", .architecture = "qwen3", .default_head_dim = 128},
    {.model_type = "qwen3_moe",
     .architecture = "qwen3moe",
     .default_head_dim = 128,
     .experts = "num_experts",
     .expert_names = {"mlp", "gate_proj", "up_proj", "down_proj"},
     .expert_size = "moe_intermediate_size",
     .renormalises = false},
    {.model_type = "gemma2",
     .architecture = "gemma2",
     .default_head_dim = 256,
     .is_tied = true,
     .norm_offset = 1,
     .window = Window::AsArchitecture,
     .default_window = 4096,
     .default_attention_divisor = 256},
    {.model_type = "gemma3_text",
     .architecture = "gemma3",
     .default_head_dim = 256,
     .is_tied = true,
     .norm_offset = 1,
     .window = Window::AsArchitecture,
     .default_window = 4096,
     .default_attention_divisor = 256},
    {.model_type = "phi3", .architecture = "phi3", .window = Window::Everywhere},
    {.model_type = "granite", .architecture = "granite"},
    {.model_type = "olmo2", .architecture = "olmo2"},
    {.model_type = "smollm3", .architecture = "smollm3", .is_tied = true},
};

// Members that say nothing about the graph, or what its tensors say.
constexpr std::string_view kNotNeeded[] = {"architectures",
                                           "model_type",
                                           "router_aux_loss_coef",
                                           "router_jitter_noise",
                                           "output_router_logits",
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
                                           "cache_implementation",
                                           "embd_pdrop",
                                           "resid_pdrop",
                                           "auto_map",
                                           "output_attentions",
                                           "output_hidden_states",
                                           "return_dict",
                                           "id2label",
                                           "label2id",
                                           "rope_interleaved",
                                           "is_llama_config",
                                           "transformers.js_config",
                                           "_attn_implementation"};

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
    read_experts();
    read_windows();
    read_attention();
    read_scales();
    read_rope();
    read_ids();
    tell_unread();
    if (diagnostics_.has_errors()) return std::nullopt;
    return std::move(read_);
  }

 private:
  static constexpr int64_t kMost = int64_t{1} << 40;

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
    read_.architecture = *gguf::find_architecture(kind_->architecture);
    // Only converters to GGUF put rows of q and k into another order, and add to gammas.
    read_.architecture.pairs = gguf::RopePairs::Halves;
    read_.architecture.norm_offset = kind_->norm_offset;
    return true;
  }

  int64_t positive(std::string_view name, std::optional<int64_t> absent = std::nullopt) {
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
    vocabulary_ = claim("vocab_size", "vocab_size");
    claim("intermediate_size", "feed_forward_length");
    find("moe_intermediate_size");  // of the kinds whose experts have it
    if (!kind_->expert_size.empty()) claim(kind_->expert_size, "expert_feed_forward_length");
    const auto eps = real(config_, "rms_norm_eps");
    if (!eps) fail("\"rms_norm_eps\" is missing");
    made_.real(key("attention.layer_norm_rms_epsilon"), eps.value_or(0));
  }

  // What the tensors say as well, to which it is held.
  std::optional<int64_t> claim(std::string_view name, std::string_view ours) {
    const auto value = integer(name);
    if (value) made_.integer(key(ours), *value);
    return value;
  }

  // Of members that change the graph, those that are read; others are refused.
  void read_switches() {
    const bool has_bias = flag("attention_bias", false);
    read_.has_qkv_bias = has_bias || kind_->always_has_qkv_bias;
    read_.has_output_bias = has_bias;
    read_.has_ffn_bias = flag("mlp_bias", false);
    read_.is_tied = flag("tie_word_embeddings", kind_->is_tied);
    const bool is_silu = read_.architecture.activation == gguf::Activation::Silu;
    const std::string wanted = is_silu ? "silu" : "gelu_pytorch_tanh";
    const std::string act = text(config_, "hidden_activation", text(config_, "hidden_act", wanted));
    if (act != wanted)
      refuse("\"hidden_act\" is " + in_quotes(act) + ", of which " + wanted + " alone is read");
    if (flag("use_sliding_window", false)) refuse("\"use_sliding_window\" is true");
    if (find("quantization_config") != nullptr)
      refuse("the weights are quantized (\"quantization_config\")");
    read_rope_free();
  }

  void read_experts() {
    if (kind_->experts.empty()) return;
    read_.experts = positive(kind_->experts);
    read_.expert_names = kind_->expert_names;
    made_.integer(key("expert_count"), read_.experts);
    made_.integer(key("expert_used_count"), positive("num_experts_per_tok"));
    made_.flag(key("expert_weights_norm"), flag("norm_topk_prob", kind_->renormalises));
    if (positive("decoder_sparse_step", 1) != 1)
      refuse("\"decoder_sparse_step\" is not 1, so that some layers have no experts");
    const JsonValue* dense = find("mlp_only_layers");
    if (dense != nullptr && (dense->array() == nullptr || !dense->array()->empty()))
      refuse("\"mlp_only_layers\" names layers without experts");
  }

  // Layers without rope come in periods, in this architecture alone.
  void read_rope_free() {
    const JsonValue* given = find("no_rope_layers");
    find("no_rope_layer_interval");  // what the list says, again
    if (given == nullptr) return;
    const int64_t period = read_.architecture.rope_free_period;
    bool fits =
        given->array() != nullptr && static_cast<int64_t>(given->array()->size()) == read_.layers;
    for (size_t i = 0; fits && i < given->array()->size(); ++i) {
      const int64_t* has_rope = given->array()->at(i).integer();
      const bool wants = period == 0 || (static_cast<int64_t>(i) + 1) % period != 0;
      fits = has_rope != nullptr && (*has_rope != 0) == wants;
    }
    if (!fits) refuse("\"no_rope_layers\" names others than every fourth layer");
  }

  // One bool per layer; empty where config.json has no list. Refused where the kind has no windows.
  std::vector<int32_t> local_layers() {
    const JsonValue* types = find("layer_types");
    if (types == nullptr) return {};
    std::vector<int32_t> local;
    for (const JsonValue& item : types->array() ? *types->array() : JsonArray()) {
      const std::string* type = item.string();
      const bool is_local = type && *type == "sliding_attention";
      if (!is_local && (type == nullptr || *type != "full_attention"))
        refuse("\"layer_types\" has others than full_attention and sliding_attention");
      local.push_back(is_local ? 1 : 0);
    }
    if (static_cast<int64_t>(local.size()) != read_.layers)
      fail("\"layer_types\" is no list of one type per layer");
    return local;
  }

  // Windows are those of the architecture's row, of all layers, or none.
  void read_windows() {
    const std::vector<int32_t> local = local_layers();
    const bool has_local = std::ranges::find(local, 1) != local.end();
    const bool is_null = find("sliding_window") == nullptr;
    const bool is_absent = find_member(config_, "sliding_window") == nullptr;
    const int64_t window = !is_null    ? positive("sliding_window")
                           : is_absent ? kind_->default_window
                                       : 0;
    if (kind_->window == Window::Never) {
      // What is there without use_sliding_window says nothing.
      if (has_local) refuse("\"layer_types\" has others than full_attention");
      return;
    }
    made_.integer(key("attention.sliding_window"), window);
    if (kind_->window == Window::Everywhere) {
      read_.architecture.windows = gguf::Windows::Periods;
      read_.architecture.window_period = 0;
      read_.architecture.scales_local_rope = true;
    }
    if (!local.empty()) {
      made_.integers(key("attention.sliding_window_pattern"), local);
    } else if (find("sliding_window_pattern")) {
      made_.integer(key("attention.sliding_window_pattern"), positive("sliding_window_pattern"));
    }
  }

  void read_attention() {
    if (kind_->default_attention_divisor == 0) return;
    const int64_t divisor = positive("query_pre_attn_scalar", kind_->default_attention_divisor);
    made_.real(key("attention.scale"), 1 / std::sqrt(static_cast<double>(divisor)));
    const auto cap = [this](std::string_view name, std::string_view ours, double absent) {
      const bool is_absent = find_member(config_, name) == nullptr;
      made_.real(key(ours), real(config_, name).value_or(is_absent ? absent : 0));
    };
    cap("attn_logit_softcapping", "attn_logit_softcapping", read_.architecture.attention_softcap);
    cap("final_logit_softcapping", "final_logit_softcapping", read_.architecture.logit_softcap);
    if (flag("use_bidirectional_attention", false))
      refuse("\"use_bidirectional_attention\" is true");
  }

  void read_scales() {
    if (!read_.architecture.has_scales) return;
    const auto scale = [this](std::string_view name, std::string_view ours) {
      if (const auto value = real(config_, name)) made_.real(key(ours), *value);
    };
    scale("embedding_multiplier", "embedding_scale");
    scale("residual_multiplier", "residual_scale");
    scale("logits_scaling", "logit_scale");
    // Without a member of its own the scale is 1.
    made_.real(key("attention.scale"), real(config_, "attention_multiplier").value_or(1));
  }

  void refuse(const std::string& what) {
    fail(what + ": this is not read", "a GGUF file of the model may be", DiagCode::UnsupportedOp);
  }

  // ---- rope ----

  void read_rope() {
    const JsonValue* scaling = find("rope_scaling");
    const JsonValue* parameters = find("rope_parameters");  // of newer files: with the base
    const JsonValue* given = scaling ? scaling : parameters;
    given = of_full_layers(given);
    if (given != nullptr && given->object() == nullptr) {
      wrong_type(scaling ? "rope_scaling" : "rope_parameters", *given, "an object");
      return;
    }
    const JsonObject none;
    const JsonObject& rope = given ? *given->object() : none;
    base_ = real(rope, "rope_theta").value_or(real(config_, "rope_theta").value_or(10000));
    if (!(base_ > 0)) fail("\"rope_theta\" is not above 0");
    made_.real(key("rope.freq_base"), base_);
    read_local_rope();
    read_rotated(rope);
    const std::string type = text(rope, "rope_type", text(rope, "type", "default"));
    read_scaling(rope, type);
  }

  // Newest files have parameters for each type of layers.
  const JsonValue* of_full_layers(const JsonValue* given) {
    if (given == nullptr || given->object() == nullptr) return given;
    const JsonValue* full = find(*given->object(), "full_attention");
    if (full == nullptr) return given;
    const JsonValue* local = find(*given->object(), "sliding_attention");
    if (local && local->object()) local_base_ = real(*local->object(), "rope_theta");
    return full;
  }

  void read_local_rope() {
    if (read_.architecture.local_rope_base == 0) return;
    const auto base = local_base_ ? local_base_ : real(config_, "rope_local_base_freq");
    made_.real(key("rope.freq_base_swa"), base.value_or(read_.architecture.local_rope_base));
  }

  // How many elements of a head rotate.
  void read_rotated(const JsonObject& rope) {
    const double share = real(rope, "partial_rotary_factor")
                             .value_or(real(config_, "partial_rotary_factor").value_or(1));
    rotated_ = head_dim_;
    if (share != 1 && kind_->model_type != "phi3") {
      refuse("\"partial_rotary_factor\" is not 1");
    } else if (!(share > 0 && share <= 1)) {
      fail("\"partial_rotary_factor\" is not above 0 and at most 1");
    } else {
      rotated_ = static_cast<int64_t>(static_cast<double>(head_dim_) * share);
    }
    made_.integer(key("rope.dimension_count"), rotated_);
  }

  void read_scaling(const JsonObject& rope, const std::string& type) {
    std::set<std::string_view> known = {"rope_type", "type", "rope_theta", "partial_rotary_factor"};
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
    } else if ((type == "longrope" || type == "su") && kind_->model_type == "phi3") {
      made_.text(key("rope.scaling.type"), "longrope");
      read_longrope(rope);
      known.insert({"short_factor", "long_factor", "factor", "attention_factor",
                    "original_max_position_embeddings"});
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

  std::vector<double> factors_of(const JsonObject& rope, std::string_view name) {
    const JsonValue* list = find(rope, name);
    std::vector<double> factors;
    for (const JsonValue& item : list && list->array() ? *list->array() : JsonArray()) {
      const auto* number = std::get_if<double>(&item.data);
      const double value = number                      ? *number
                           : item.integer() != nullptr ? static_cast<double>(*item.integer())
                                                       : 0;
      if (!(value > 0)) fail("rope scaling wants numbers above 0 in " + in_quotes(name));
      factors.push_back(value);
    }
    if (static_cast<int64_t>(factors.size()) != rotated_ / 2)
      fail("rope scaling wants " + std::to_string(rotated_ / 2) + " numbers in " + in_quotes(name) +
           ", got " + std::to_string(factors.size()));
    return factors;
  }

  // Of two lists of factors the builder takes one by the context; both go with one magnitude.
  void read_longrope(const JsonObject& rope) {
    constexpr std::string_view kOriginal = "original_max_position_embeddings";
    read_.short_factors = factors_of(rope, "short_factor");
    read_.long_factors = factors_of(rope, "long_factor");
    const double context = static_cast<double>(context_);
    const double original = find(rope, kOriginal) ? factor_of(rope, kOriginal)
                                                  : real(config_, kOriginal).value_or(context);
    const double growth = find(rope, "factor") ? factor_of(rope, "factor") : context / original;
    made_.real(key("rope.scaling.original_context_length"), original);
    const double magnitude =
        growth <= 1 || original <= 1 ? 1 : std::sqrt(1 + std::log(growth) / std::log(original));
    made_.real(key("rope.scaling.attn_factor"),
               find(rope, "attention_factor") ? factor_of(rope, "attention_factor") : magnitude);
  }

  // ---- ids ----

  void read_ids() {
    read_.begin_id = integer("bos_token_id");
    if (read_.begin_id) check_id("bos_token_id", *read_.begin_id);
    const JsonValue* end = find("eos_token_id");
    if (end == nullptr) return;
    const JsonArray one = {*end};
    for (const JsonValue& item : end->array() ? *end->array() : one) {
      if (item.integer() != nullptr) {
        read_.end_ids.push_back(*item.integer());
        check_id("eos_token_id", *item.integer());
      } else {
        wrong_type("eos_token_id", item, "an integer or a list of them");
      }
    }
  }

  void check_id(std::string_view name, int64_t id) {
    if (id >= 0 && id < vocabulary_.value_or(kMost)) return;
    fail(in_quotes(name) + " is " + std::to_string(id) + ", wanted " +
         (vocabulary_ ? "0 to " + std::to_string(*vocabulary_ - 1) + ", as \"vocab_size\" says"
                      : std::string("0 to 2^40")));
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
  int64_t rotated_ = 1;               // elements of a head
  std::optional<double> local_base_;  // of layers with windows
  int64_t context_ = 1;
  std::optional<int64_t> vocabulary_;
  double base_ = 10000;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace

std::optional<Config> read_config(const JsonObject& config, const std::string& path, MadeFile& made,
                                  Diagnostics& diagnostics) {
  return Reader(config, path, made, diagnostics).read();
}

}  // namespace rlx::checkpoint
