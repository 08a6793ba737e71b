// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/gguf/hyperparameters.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/import/inline_data.h"
#include "compiler/import/names.h"
#include "compiler/import/source_graph.h"

namespace rlx::gguf {
namespace {

constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeads = 1 << 16;
constexpr int64_t kMaxHeadDim = 512;  // of attention
constexpr int64_t kMaxContext = 1 << 24;

// Keys of other architectures, or of models that are not read: what they say where nothing has to
// be done. A file that says more is refused.
struct Refused {
  std::string_view key;
  int64_t harmless;  // this value, and false
};
constexpr Refused kRefused[] = {
    {"use_parallel_residual", 0},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
    {"nextn_predict_layers", 0},
    {"leading_dense_block_count", 0},
    {"expert_shared_count", 0},
    {"expert_shared_feed_forward_length", 0},
    {"expert_group_count", 0},
    {"expert_chunk_feed_forward_length", 0},
    {"pooling_type", 0},
    {"attention.kv_lora_rank", 0},
    {"attention.q_lora_rank", 0},
    {"ssm.state_size", 0},
};
// Of architectures without scales of their own.
constexpr Refused kScales[] = {{"embedding_scale", 1}, {"residual_scale", 1}, {"logit_scale", 1}};

// Keys that say nothing about the graph, or what tensors say, to which they are held later.
constexpr std::string_view kNotNeeded[] = {
    "vocab_size",         "feed_forward_length",    "expert_feed_forward_length",
    "tensor_data_layout", "rope.scaling.finetuned", "attention.layer_norm_epsilon"};

class Reader {
 public:
  Reader(const Architecture& architecture, Keys& keys) : architecture_(architecture), keys_(keys) {
    read_.architecture = &architecture;
  }

  Hyperparameters read() {
    read_.name = keys_.text("general.name").value_or(std::string(architecture_.name));
    read_sizes();
    read_attention();
    read_.eps = read_eps();
    read_windows();
    read_rope();
    read_temperature();
    read_scales();
    read_experts();
    refuse_others();
    return std::move(read_);
  }

 private:
  std::string key(std::string_view name) const {
    return std::string(architecture_.name) + "." + std::string(name);
  }
  double real_or(std::string_view name, double fallback) {
    return keys_.real(key(name)).value_or(fallback);
  }
  // A factor or divisor: zero and less make no sense.
  double positive_or(std::string_view name, double fallback) {
    const double value = real_or(name, fallback);
    if (value > 0) return value;
    keys_.fail(DiagCode::Limit,
               "key " + in_quotes(key(name)) + " is " + real_text(value) + ", wanted more than 0");
    return fallback;
  }

  void read_sizes() {
    read_.layers = keys_.integer_in(key("block_count"), 1, kMaxLayers);
    read_.width = keys_.integer_in(key("embedding_length"), 1, kMaxDim);
    read_.heads = keys_.integer_in(key("attention.head_count"), 1, kMaxHeads);
    read_.kv_heads = keys_.integer_in(key("attention.head_count_kv"), 1, kMaxHeads, read_.heads);
    const int64_t dim = std::clamp<int64_t>(read_.width / read_.heads, 1, kMaxHeadDim);
    read_.key_dim = keys_.integer_in(key("attention.key_length"), 1, kMaxHeadDim, dim);
    read_.value_dim = keys_.integer_in(key("attention.value_length"), 1, kMaxHeadDim, dim);
    read_.trained_context = keys_.integer_in(key("context_length"), 1, kMaxContext);
    if (keys_.has_errors()) {
      read_.key_dim = kMaxHeadDim;  // what is read by it is not to be told as well
      return;
    }
    if (read_.heads % read_.kv_heads == 0) return;
    keys_.fail(DiagCode::BadShape, "the model has " + std::to_string(read_.heads) + " heads over " +
                                       std::to_string(read_.kv_heads) +
                                       " of keys and values, wanted a multiple of them");
  }

  void read_attention() {
    const bool is_wide =
        architecture_.wide_scale_layers != 0 && read_.layers == architecture_.wide_scale_layers;
    const double per_head =
        is_wide ? static_cast<double>(read_.width) / static_cast<double>(read_.heads)
                : static_cast<double>(read_.key_dim);
    const double scale = real_or("attention.scale", 0);
    read_.attention_scale = scale != 0 ? scale : 1 / std::sqrt(per_head);
    read_.attention_softcap = real_or("attn_logit_softcapping", architecture_.attention_softcap);
    read_.logit_softcap = real_or("final_logit_softcapping", architecture_.logit_softcap);
    for (const double cap : {read_.attention_softcap, read_.logit_softcap}) {
      if (cap < 0) keys_.fail(DiagCode::Limit, "a soft cap of the model is less than 0");
    }
  }

  double read_eps() {
    const std::string name = key("attention.layer_norm_rms_epsilon");
    if (keys_.find(name) == nullptr)
      keys_.fail(DiagCode::BadField, "key " + in_quotes(name) + " is missing");
    const double eps = keys_.real(name).value_or(0);
    if (eps < 0) keys_.fail(DiagCode::BadField, "key " + in_quotes(name) + " is less than 0");
    return eps;
  }

  void read_windows() {
    read_.is_local.assign(static_cast<size_t>(read_.layers), false);
    const int64_t window = keys_.integer_in(key("attention.sliding_window"), 0, kMaxContext,
                                            architecture_.default_window);
    const std::string pattern = key("attention.sliding_window_pattern");
    const Value* given = keys_.find(pattern);
    if (architecture_.windows == Windows::None) {
      read_.ignored_window = window;
      return;
    }
    read_.window = window;
    if (window == 0) return;
    const auto* array = given ? std::get_if<Array>(given) : nullptr;
    if (array != nullptr) {
      read_window_list(pattern, *array);
    } else {
      set_period(keys_.integer_in(pattern, 0, kMaxContext, architecture_.window_period));
    }
  }

  void set_period(int64_t period) {
    for (int64_t i = 0; i < read_.layers; ++i)
      read_.is_local[static_cast<size_t>(i)] = period == 0 || i % period < period - 1;
  }

  void read_window_list(const std::string& name, const Array& array) {
    const auto items = numbers_of(array);
    bool fits = items && items->size() >= read_.is_local.size();
    for (size_t i = 0; fits && i < read_.is_local.size(); ++i) {
      const auto* flag = std::get_if<bool>(&(*items)[i]);
      const auto* number = std::get_if<int64_t>(&(*items)[i]);
      fits = flag != nullptr || number != nullptr;
      if (fits) read_.is_local[i] = flag ? *flag : *number != 0;
    }
    if (fits) return;
    keys_.fail(DiagCode::BadField, "key " + in_quotes(name) + " is " + kind_text(array) + " with " +
                                       std::to_string(array.count) + " items, wanted a bool for " +
                                       "each of " + std::to_string(read_.layers) + " layers");
  }

  void read_rope() {
    RopeAngles& rope = read_.rope;
    rope.rotated = keys_.integer_in(key("rope.dimension_count"), 0, read_.key_dim, read_.key_dim);
    if (rope.rotated % 2 != 0)
      keys_.fail(DiagCode::BadShape,
                 "an odd number of elements rotates: " + std::to_string(rope.rotated));
    rope.base = positive_or("rope.freq_base", 10000);
    read_.local_rope = rope;
    const double own_base =
        architecture_.local_rope_base > 0 ? architecture_.local_rope_base : rope.base;
    if (architecture_.windows != Windows::None)
      read_.local_rope.base = positive_or("rope.freq_base_swa", own_base);
    read_scaling();
    if (!architecture_.scales_local_rope) return;
    const double base = read_.local_rope.base;
    read_.local_rope = rope;
    read_.local_rope.base = base;
  }

  // Type, factor and magnitude of the scaling.
  void read_scaling() {
    constexpr std::array<std::string_view, 4> kTypes = {"none", "linear", "yarn", "longrope"};
    const std::string type = keys_.text(key("rope.scaling.type")).value_or("linear");
    if (std::ranges::find(kTypes, type) == kTypes.end()) {
      keys_.fail(DiagCode::UnsupportedOp, "rope scaling " + in_quotes(type) + " is not read",
                 "these are: " + list_names(kTypes));
    }
    RopeAngles& rope = read_.rope;
    const double old_factor = real_or("rope.scale_linear", 0);
    const double factor = real_or("rope.scaling.factor", old_factor);
    if (factor != 0 && type != "none") rope.stretch = positive_or("rope.scaling.factor", factor);
    read_.original_context = positive_or("rope.scaling.original_context_length",
                                         static_cast<double>(read_.trained_context));
    rope.magnitude = positive_or("rope.scaling.attn_factor", 1);
    read_yarn(type == "yarn");
  }

  // 0.1 ln of how much the context grew, as magnitudes count it.
  static double growth(double stretch, double weight) {
    return stretch <= 1 ? 1 : 1 + 0.1 * weight * std::log(stretch);
  }

  void read_yarn(bool is_yarn) {
    RopeAngles& rope = read_.rope;
    const double share = real_or("rope.scaling.yarn_ext_factor", -1);
    const double magnitude = positive_or("rope.scaling.yarn_attn_factor", 1);
    const double fast = positive_or("rope.scaling.yarn_beta_fast", 32);
    const double slow = positive_or("rope.scaling.yarn_beta_slow", 1);
    const double weight = real_or("rope.scaling.yarn_log_multiplier", 0);
    rope.extrapolation = share < 0 ? (is_yarn ? 1.0 : 0.0) : share;
    rope.is_yarn = rope.extrapolation != 0;
    if (!rope.is_yarn) {
      rope.magnitude *= magnitude;
      return;
    }
    rope.original_context = read_.original_context;
    rope.beta_fast = fast;
    rope.beta_slow = slow;
    rope.magnitude *= growth(rope.stretch, 1) / growth(rope.stretch, weight);
    if (rope.base == 1) keys_.fail(DiagCode::Limit, "yarn with a rope base of 1 has no angles");
  }

  void read_temperature() {
    if (!architecture_.has_temperature) return;
    read_.temperature_scale = real_or("attention.temperature_scale", 0);
    read_.temperature_length = positive_or("attention.temperature_length", read_.original_context);
    if (read_.temperature_scale == 0 || read_.rope.rotated == read_.key_dim) return;
    keys_.fail(DiagCode::UnsupportedOp,
               "a temperature of queries of which " + std::to_string(read_.rope.rotated) + " of " +
                   std::to_string(read_.key_dim) + " elements rotate is not read");
  }

  void read_scales() {
    read_.embedding_scale =
        architecture_.scales_embedding ? std::sqrt(static_cast<double>(read_.width)) : 1;
    if (!architecture_.has_scales) {
      for (const Refused& scale : kScales) refuse_unless(scale);
      return;
    }
    read_.embedding_scale = positive_or("embedding_scale", 1);
    read_.residual_scale = positive_or("residual_scale", 1);
    read_.logit_divisor = positive_or("logit_scale", 1);
    if (keys_.flag(key("rope.scaling.finetuned")) == false)
      keys_.fail(DiagCode::UnsupportedOp,
                 "a " + std::string(architecture_.name) + " model without rope is not read");
  }

  void read_experts() {
    const int64_t experts = keys_.integer_in(key("expert_count"), 0, kMaxHeads, 0);
    if (experts == 0) return;
    read_.experts = experts;
    read_.experts_used = keys_.integer_in(key("expert_used_count"), 1, experts);
    const double scale = real_or("expert_weights_scale", 0);
    if (scale != 0) read_.expert_scale = scale;
    // A softmax over the chosen experts is one over all that is brought to a sum of 1 again.
    constexpr int64_t kSoftmaxOfChosen = 3;
    const int64_t gate = keys_.integer_in(key("expert_gating_func"), 0, kMaxHeads, 1);
    const bool is_normed = keys_.flag(key("expert_weights_norm")).value_or(true);
    if (architecture_.may_have_experts && (gate == kSoftmaxOfChosen || (gate <= 1 && is_normed)))
      return;
    keys_.fail(DiagCode::UnsupportedOp,
               std::string(architecture_.name) + " with experts " +
                   (architecture_.may_have_experts
                        ? "that are chosen otherwise than by a softmax over all, the best of them "
                          "renormalised,"
                        : "") +
                   " is not read");
  }

  static bool is_harmless(const Value& value, int64_t harmless) {
    if (const auto* number = std::get_if<int64_t>(&value)) return *number == harmless;
    if (const auto* real = std::get_if<double>(&value))
      return *real == static_cast<double>(harmless);
    const auto* flag = std::get_if<bool>(&value);
    return flag != nullptr && !*flag;
  }

  void refuse_unless(const Refused& refused) {
    const Value* value = keys_.find(key(refused.key));
    if (value == nullptr || is_harmless(*value, refused.harmless)) return;
    keys_.fail(DiagCode::UnsupportedOp,
               "key " + in_quotes(key(refused.key)) + " asks for what is not read");
  }

  void refuse_others() {
    for (const Refused& refused : kRefused) refuse_unless(refused);
    if (keys_.flag(key("attention.causal")) == false)
      keys_.fail(DiagCode::UnsupportedOp, "attention without a causal mask is not read");
    for (const std::string_view name : kNotNeeded) keys_.find(key(name));
    const auto unread = keys_.unread(std::string(architecture_.name) + ".");
    if (!unread.empty())
      keys_.warn("keys that nothing reads: " + list_names(unread),
                 "the model may mean something by them that its plan does not do");
  }

  const Architecture& architecture_;
  Keys& keys_;
  Hyperparameters read_;
};

}  // namespace

Hyperparameters read_hyperparameters(const Architecture& architecture, Keys& keys) {
  return Reader(architecture, keys).read();
}

}  // namespace rlx::gguf
