// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/gguf/decoder.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "compiler/ops/lowering/block_weights.h"

namespace rlx::gguf {
namespace {

using Attributes = std::map<std::string, SourceAttribute>;
using Inputs = std::vector<std::optional<std::string>>;

// Values that all entries share.
constexpr const char* kRope = "rope";             // tables of cos and sin
constexpr const char* kLocalRope = "rope.local";  // of layers with windows
constexpr const char* kQueryRope = "rope.query";  // with the temperature of q
// States of the entry `step`.
constexpr const char* kToken = "step.token";
constexpr const char* kPosition = "step.position";
constexpr const char* kRing = "step.ring";

std::shared_ptr<const std::vector<float>> shared(std::vector<float> values) {
  return std::make_shared<const std::vector<float>>(std::move(values));
}

SourceTensor constant(const std::string& name, std::vector<SourceDim> shape,
                      std::vector<float> values) {
  const auto owner = shared(std::move(values));
  return {.place = {},
          .name = name,
          .dtype = DType::f32,
          .shape = std::move(shape),
          .data = HostBytes{.owner = owner, .bytes = std::as_bytes(std::span(*owner))}};
}

// Whether queries of any position are scaled by another number than 1.
bool has_temperature(const Hyperparameters& model, int64_t context) {
  return model.temperature_scale != 0 && static_cast<double>(context) > model.temperature_length;
}

// What an entry is for: a prompt's tokens, of which the host wants what follows one; drafts, behind
// each of which it wants that; or the token that a state holds.
enum class Use : uint8_t { Prompt, Verify, Step };

// The nodes of one entry.
class EntryBuilder {
 public:
  EntryBuilder(const Hyperparameters& model, const DecoderOptions& options, int64_t tokens, Use use,
               const std::string& file, WeightSet& weights)
      : place_{file, ""},
        model_(model),
        architecture_(*model.architecture),
        tokens_(tokens),
        use_(use),
        is_warm_(has_temperature(model, options.context)),
        weights_(weights) {}

  SourceEntry build() {
    if (use_ == Use::Step) {
      entry_.name = "step";
      node("fill", {}, "count",
           {{"shape", Ints{}}, {"value", int64_t{1}}, {"dtype", std::string("i32")}});
    } else {
      const bool verifies = use_ == Use::Verify;
      const std::string several = (verifies ? "verify_" : "prefill_") + std::to_string(tokens_);
      entry_.name = tokens_ == 1 ? "decode" : several;
      entry_.inputs = {input("ids", {1, tokens_}), input("position", {}), input("count", {})};
      if (!verifies) entry_.inputs.push_back(input("last", {1}));
    }
    entry_.outputs = {"logits", "next"};
    if (use_ == Use::Verify) entry_.outputs = {"next"};
    node("add", {position(), "count"}, "held");
    std::string x = embed();
    for (int64_t i = 0; i < model_.layers; ++i) x = layer(i, x);
    head(x);
    if (use_ == Use::Step) keep_token();
    return std::move(entry_);
  }

 private:
  SourceTensor input(const std::string& name, std::vector<SourceDim> shape) const {
    return {.place = place_,
            .name = name,
            .dtype = DType::i32,
            .shape = std::move(shape),
            .data = std::nullopt};
  }

  [[nodiscard]] std::string ids() const { return use_ == Use::Step ? kToken : "ids"; }
  [[nodiscard]] std::string position() const { return use_ == Use::Step ? kPosition : "position"; }

  // The next token, its position, and its place in the ring, for the step behind this one.
  void keep_token() {
    const std::string token = node("reshape", {"next"}, "token", {{"shape", Ints{1, 1}}});
    const std::string ring = node("kv_append", {kRing, token, kPosition}, "ring",
                                  {{"axis", int64_t{1}}, {"mode", std::string("circular")}});
    node("state_write", {kRing, ring}, "ring.new");
    node("state_write", {kToken, token}, "token.new");
    node("state_write", {kPosition, "held"}, "position.new");
  }

  std::string node(const std::string& op, Inputs inputs, const std::string& output,
                   Attributes attributes = {}) {
    entry_.nodes.push_back({.place = place_,
                            .name = output,
                            .op = op,
                            .inputs = std::move(inputs),
                            .outputs = {output},
                            .attributes = std::move(attributes),
                            .source = {}});
    return output;
  }

  // `values` times a factor; themselves where it is 1.
  std::string scaled(const std::string& values, double factor, const std::string& output) {
    return factor == 1 ? values : node("affine", {values}, output, {{"mul", factor}});
  }

  std::string norm(const std::string& x, const std::string& name, int64_t size) {
    weights_.vector(name + ".weight", size);
    Attributes attributes = {{"eps", model_.eps}};
    if (architecture_.norm_offset != 0) attributes["gamma_offset"] = architecture_.norm_offset;
    return node("rms_norm", {x, name + ".weight"}, name, std::move(attributes));
  }

  // x times the rows of `name`.weight, with the bias that the file may have.
  std::string product(const std::string& x, const std::string& name, int64_t rows,
                      int64_t columns) {
    return product(x, name, weights_.matrix(name + ".weight", {rows, columns}));
  }

  std::string product(const std::string& x, const std::string& name, const Tensor* w) {
    if (w == nullptr) return x;
    const std::optional<std::string> bias = bias_of(name, w->shape.front());
    if (is_block_type(w->dtype)) {
      return node("dequant_matmul", {x, w->name, std::nullopt, std::nullopt, bias}, name,
                  {{"scheme", std::string(name_of(w->dtype))}});
    }
    const std::string y =
        node("matmul", {x, w->name}, bias ? name + ".unbiased" : name, {{"trans_b", true}});
    return bias ? node("add", {y, bias}, name) : y;
  }

  // As f32, which products give; nullopt where the file has none.
  std::optional<std::string> bias_of(const std::string& name, int64_t size) {
    const Tensor* bias = weights_.optional_vector(name + ".bias", size);
    if (bias == nullptr) return std::nullopt;
    if (bias->dtype == DType::f32) return bias->name;
    return node("cast", {bias->name}, bias->name + ".f32", to(DType::f32));
  }

  std::string embed() {
    const Tensor* table = weights_.rows_of("token_embd.weight", model_.width);
    if (table == nullptr) return ids();
    vocabulary_ = table->shape.front();
    const std::string rows = node("embedding", {table->name, ids()}, "token_embd");
    const bool is_wide = is_block_type(table->dtype) || table->dtype == DType::f32;
    const std::string x = is_wide ? rows : node("cast", {rows}, "token_embd.f32", to(DType::f32));
    return scaled(x, model_.embedding_scale, "token_embd.scaled");
  }

  static Attributes to(DType dtype) { return {{"to", std::string(name_of(dtype))}}; }

  // The residual with a block's result added to it.
  std::string joined(const std::string& x, const std::string& y, const std::string& norm_name,
                     const std::string& output) {
    const bool has_norm = architecture_.norms != NormPlaces::Before;
    const std::string normed = has_norm ? norm(y, norm_name, model_.width) : y;
    return node("add", {x, scaled(normed, model_.residual_scale, output + ".added")}, output);
  }

  std::string before_block(const std::string& x, const std::string& norm_name) {
    return architecture_.norms == NormPlaces::After ? x : norm(x, norm_name, model_.width);
  }

  std::string layer(int64_t index, const std::string& x) {
    const std::string p = "blk." + std::to_string(index) + ".";
    const std::string h = before_block(x, p + "attn_norm");
    const std::string attended =
        joined(x, attention(index, p, h), p + "post_attention_norm", p + "attended");
    const std::string f = before_block(attended, p + std::string(architecture_.ffn_norm));
    const std::string y = model_.experts > 0 ? expert_ffn(p, f) : ffn(p, f);
    return joined(attended, y, p + "post_ffw_norm", p + "out");
  }

  // ---- attention ----

  struct Heads {
    std::string q, k, v;
  };

  int64_t query_rows() const { return model_.heads * model_.key_dim; }
  int64_t key_rows() const { return model_.kv_heads * model_.key_dim; }
  int64_t value_rows() const { return model_.kv_heads * model_.value_dim; }

  Heads projections(const std::string& p, const std::string& h) {
    if (!architecture_.is_packed) {
      return {product(h, p + "attn_q", query_rows(), model_.width),
              product(h, p + "attn_k", key_rows(), model_.width),
              product(h, p + "attn_v", value_rows(), model_.width)};
    }
    const int64_t rows = query_rows() + key_rows() + value_rows();
    const std::string all = product(h, p + "attn_qkv", rows, model_.width);
    const Heads parts = {p + "attn_q", p + "attn_k", p + "attn_v"};
    node("split", {all}, parts.q,
         {{"axis", int64_t{2}}, {"sizes", Ints{query_rows(), key_rows(), value_rows()}}});
    entry_.nodes.back().outputs = {parts.q, parts.k, parts.v};
    return parts;
  }

  std::string as_heads(const std::string& rows, int64_t heads, int64_t dim) {
    return node("reshape", {rows}, rows + ".heads", {{"shape", Ints{1, tokens_, heads, dim}}});
  }

  // q or k as heads, normed where the architecture norms them.
  std::string normed_heads(const std::string& rows, const std::string& norm_name, int64_t heads) {
    const int64_t dim = model_.key_dim;
    if (architecture_.qk_norm == QkNorm::Rows)
      return as_heads(norm(rows, norm_name, heads * dim), heads, dim);
    const std::string y = as_heads(rows, heads, dim);
    return architecture_.qk_norm == QkNorm::Heads ? norm(y, norm_name, dim) : y;
  }

  bool is_local(int64_t index) const { return model_.is_local[static_cast<size_t>(index)]; }

  bool has_rope(int64_t index) const {
    const int64_t period = architecture_.rope_free_period;
    return model_.rope.rotated > 0 && (period == 0 || (index + 1) % period != 0);
  }

  std::string rotated(int64_t index, const std::string& heads, const std::string& tables,
                      const std::string& output) {
    if (!has_rope(index)) return heads;
    const bool is_neox = architecture_.pairs == RopePairs::Halves;
    Attributes attributes = {{"head_dim", model_.key_dim},
                             {"style", std::string(is_neox ? "neox" : "gptj")}};
    if (model_.rope.rotated != model_.key_dim) attributes["n_rot"] = model_.rope.rotated;
    return node("rope", {heads, tables + ".cos", tables + ".sin", position()}, output,
                std::move(attributes));
  }

  // The cache with the new rows in it, as a state that was written.
  std::string appended(const std::string& cache, const std::string& heads) {
    const std::string rows =
        node("transpose", {heads}, cache + ".rows", {{"perm", Ints{0, 2, 1, 3}}});
    const std::string filled =
        node("kv_append", {cache, rows, position()}, cache + ".filled", {{"axis", int64_t{2}}});
    return node("state_write", {cache, filled}, cache + ".new");
  }

  Attributes attention_attributes(int64_t index) const {
    Attributes attributes = {{"num_heads", model_.heads},        {"num_kv_heads", model_.kv_heads},
                             {"head_dim", model_.key_dim},       {"q_layout", std::string("bshd")},
                             {"kv_layout", std::string("bhsd")}, {"causal", true},
                             {"scale", model_.attention_scale}};
    if (model_.value_dim != model_.key_dim) attributes["v_head_dim"] = model_.value_dim;
    if (model_.attention_softcap > 0) attributes["softcap"] = model_.attention_softcap;
    if (is_local(index)) attributes["window_left"] = model_.window - 1;
    return attributes;
  }

  // A score of each head's softmax that no value belongs to; none in most architectures.
  std::optional<std::string> sinks(const std::string& p) {
    if (!architecture_.has_sinks) return std::nullopt;
    weights_.vector(p + "attn_sinks.weight", model_.heads);
    return p + "attn_sinks.weight";
  }

  std::string attention(int64_t index, const std::string& p, const std::string& h) {
    const Heads rows = projections(p, h);
    const std::string q_heads = normed_heads(rows.q, p + "attn_q_norm", model_.heads);
    const std::string k_heads = normed_heads(rows.k, p + "attn_k_norm", model_.kv_heads);
    const std::string tables = is_local(index) ? kLocalRope : kRope;
    const std::string q = rotated(index, q_heads, is_warm_ ? kQueryRope : tables, p + "q");
    const std::string k = appended(p + "k_cache", rotated(index, k_heads, tables, p + "k"));
    const std::string v =
        appended(p + "v_cache", as_heads(rows.v, model_.kv_heads, model_.value_dim));
    const std::string y =
        node("attention", {q, k, v, std::nullopt, std::nullopt, "held", position(), sinks(p)},
             p + "attn", attention_attributes(index));
    const int64_t width = model_.heads * model_.value_dim;
    const std::string flat =
        node("reshape", {y}, p + "attn.rows", {{"shape", Ints{1, tokens_, width}}});
    return product(flat, p + "attn_output", model_.width, width);
  }

  // ---- what follows attention ----

  // min(gate, 7) * sigmoid(1.702 min(gate, 7)) * (clamp(up, -7, 7) + 1)
  std::string clamped_gated(const std::string& gate, const std::string& up,
                            const std::string& output) {
    constexpr double kLimit = 7;
    constexpr double kSlope = 1.702;
    const std::string g = node("clamp", {gate}, gate + ".clamped", {{"max", kLimit}});
    const std::string u = node("clamp", {up}, up + ".clamped", {{"min", -kLimit}, {"max", kLimit}});
    const std::string open = node("sigmoid", {scaled(g, kSlope, gate + ".steep")}, gate + ".open");
    const std::string active = node("mul", {g, open}, gate + ".active");
    const std::string raised = node("affine", {u}, up + ".raised", {{"add", 1.0}});
    return node("mul", {active, raised}, output);
  }

  std::string gated(const std::string& gate, const std::string& up, const std::string& output) {
    if (architecture_.activation == Activation::ClampedSilu) return clamped_gated(gate, up, output);
    const bool is_silu = architecture_.activation == Activation::Silu;
    const std::string active = node(is_silu ? "silu" : "gelu_tanh", {gate}, gate + ".active");
    return node("mul", {active, up}, output);
  }

  std::string packed_gate(const std::string& p, const std::string& both) {
    return node("fused_swiglu", {both}, p + "ffn_gated", {{"gate_first", true}});
  }

  std::string ffn(const std::string& p, const std::string& h) {
    const Tensor* up = weights_.rows_of(p + "ffn_up.weight", model_.width);
    if (up == nullptr) return h;
    const int64_t rows = up->shape.front() / (architecture_.is_packed ? 2 : 1);
    const std::string risen = product(h, p + "ffn_up", up);
    const std::string y =
        architecture_.is_packed
            ? packed_gate(p, risen)
            : gated(product(h, p + "ffn_gate", rows, model_.width), risen, p + "ffn_gated");
    return product(y, p + "ffn_down", model_.width, rows);
  }

  // Of each expert; nullopt where the file has none.
  std::optional<std::string> expert_bias(const std::string& name, int64_t rows) {
    if (!weights_.has(name + ".bias")) return std::nullopt;
    const Tensor* bias = weights_.matrix(name + ".bias", {model_.experts, rows});
    if (bias == nullptr || bias->dtype == DType::f32) return name + ".bias";
    return node("cast", {bias->name}, bias->name + ".f32", to(DType::f32));
  }

  // Rows of x [tokens, used, K] times the matrix of the expert that `chosen` names for each.
  std::string expert_product(const std::string& x, const std::string& name, const Tensor* w,
                             const std::string& chosen) {
    if (w == nullptr) return x;
    const std::optional<std::string> bias = expert_bias(name, w->shape[1]);
    if (is_block_type(w->dtype)) {
      return node("dequant_grouped_matmul", {x, w->name, chosen, bias}, name,
                  {{"scheme", std::string(name_of(w->dtype))}});
    }
    return node("grouped_matmul", {x, w->name, chosen, bias}, name, {{"trans_w", true}});
  }

  // Shares of the chosen experts [tokens, used, 1]: a softmax over all, of which the best are
  // brought to a sum of 1 again.
  std::string expert_shares(const std::string& p, const std::string& logits) {
    const int64_t used = model_.experts_used;
    const std::string shares = node("softmax", {logits}, p + "expert_shares");
    node("topk", {shares}, p + "expert_best", {{"k", used}});
    entry_.nodes.back().outputs.push_back(p + "experts");
    const std::string sum = node("reduce_sum", {p + "expert_best"}, p + "expert_sum",
                                 {{"axes", Ints{-1}}, {"keep_dims", true}});
    // The least sum is llama.cpp's: of f16's smallest normal number.
    const std::string least = node("clamp", {sum}, p + "expert_least", {{"min", 6.103515625e-5}});
    const std::string even = node("div", {p + "expert_best", least}, p + "expert_even");
    const std::string weighed = scaled(even, model_.expert_scale, p + "expert_weighed");
    return node("reshape", {weighed}, p + "expert_weights", {{"shape", Ints{tokens_, used, 1}}});
  }

  std::string expert_ffn(const std::string& p, const std::string& h) {
    const int64_t width = model_.width;
    const int64_t used = model_.experts_used;
    const std::string logits = product(h, p + "ffn_gate_inp", model_.experts, width);
    const std::string flat =
        node("reshape", {logits}, p + "expert_logits", {{"shape", Ints{tokens_, model_.experts}}});
    const std::string shares = expert_shares(p, flat);
    const std::string one =
        node("reshape", {h}, p + "expert_row", {{"shape", Ints{tokens_, 1, width}}});
    const std::string x =
        node("expand", {one}, p + "expert_rows", {{"shape", Ints{tokens_, used, width}}});
    const std::string chosen = p + "experts";
    const Tensor* gate = weights_.rows_of(p + "ffn_gate_exps.weight", model_.experts, width);
    if (gate == nullptr) return h;
    const int64_t rows = gate->shape[1];
    const Tensor* up = weights_.matrix(p + "ffn_up_exps.weight", {model_.experts, rows, width});
    const Tensor* down = weights_.matrix(p + "ffn_down_exps.weight", {model_.experts, width, rows});
    const std::string y = gated(expert_product(x, p + "ffn_gate_exps", gate, chosen),
                                expert_product(x, p + "ffn_up_exps", up, chosen), p + "ffn_gated");
    const std::string each = node(
        "mul", {expert_product(y, p + "ffn_down_exps", down, chosen), shares}, p + "expert_out");
    const std::string sum = node("reduce_sum", {each}, p + "expert_total", {{"axes", Ints{1}}});
    return node("reshape", {sum}, p + "ffn_out", {{"shape", Ints{1, tokens_, width}}});
  }

  // ---- the head ----

  void head(const std::string& x) {
    const std::string rows = node("reshape", {x}, "rows", {{"shape", Ints{tokens_, model_.width}}});
    const std::string row =
        use_ == Use::Prompt ? node("gather", {rows, "last"}, "row", {{"axis", int64_t{0}}}) : rows;
    const std::string normed = norm(row, "output_norm", model_.width);
    const bool is_tied = !weights_.has("output.weight");
    const Tensor* w = weights_.matrix(is_tied ? "token_embd.weight" : "output.weight",
                                      {vocabulary_, model_.width});
    std::string logits = scaled(product(normed, "output", w), 1 / model_.logit_divisor, "scaled");
    if (model_.logit_softcap > 0) {
      const double cap = model_.logit_softcap;
      const std::string bent = node("tanh", {scaled(logits, 1 / cap, "uncapped")}, "bent");
      logits = scaled(bent, cap, "capped");
    }
    entry_.nodes.back().name = "logits";
    entry_.nodes.back().outputs = {"logits"};
    node("argmax", {"logits"}, "next", {{"axis", int64_t{-1}}});
  }

  SourcePlace place_;
  const Hyperparameters& model_;
  const Architecture& architecture_;
  int64_t tokens_;
  Use use_;
  bool is_warm_;  // queries rotate by tables of their own
  WeightSet& weights_;
  SourceEntry entry_;
  int64_t vocabulary_ = 1;
};

// ---- what entries share ----

void add_tables(const std::string& name, const RopeAngles& angles, int64_t context,
                const std::vector<double>& position_scale, SourceGraph& graph) {
  RopeTables tables = rope_tables(angles, context, position_scale);
  const std::vector<SourceDim> shape = {context, angles.rotated / 2};
  graph.constants.push_back(constant(name + ".cos", shape, std::move(tables.cos)));
  graph.constants.push_back(constant(name + ".sin", shape, std::move(tables.sin)));
}

// What the file's tensors divide the angles by. Of two sets the one for long contexts holds where
// the caches are longer than the model's original context.
std::vector<double> rope_factors(const Hyperparameters& model, int64_t context,
                                 WeightSet& weights) {
  const int64_t pairs = model.rope.rotated / 2;
  const bool is_long = static_cast<double>(context) > model.original_context;
  std::vector<double> long_factors = weights.optional_values("rope_factors_long.weight", pairs);
  std::vector<double> short_factors = weights.optional_values("rope_factors_short.weight", pairs);
  std::vector<double> factors = weights.optional_values("rope_freqs.weight", pairs);
  if (!factors.empty()) return factors;
  return is_long ? long_factors : short_factors;
}

// Of each position.
std::vector<double> temperatures(const Hyperparameters& model, int64_t context) {
  std::vector<double> scales;
  for (int64_t position = 0; position < context; ++position) {
    const double steps = std::floor(static_cast<double>(position) / model.temperature_length);
    scales.push_back(1 + model.temperature_scale * std::log(steps + 1));
  }
  return scales;
}

void add_rope(const Hyperparameters& model, int64_t context, WeightSet& weights,
              SourceGraph& graph) {
  RopeAngles angles = model.rope;
  angles.factors = rope_factors(model, context, weights);
  if (angles.rotated == 0) return;
  bool has_local = false;
  for (const bool is_local : model.is_local) has_local = has_local || is_local;
  add_tables(kRope, angles, context, {}, graph);
  RopeAngles local = model.local_rope;
  if (model.architecture->scales_local_rope) local.factors = angles.factors;
  if (has_local) add_tables(kLocalRope, local, context, {}, graph);
  if (has_temperature(model, context))
    add_tables(kQueryRope, angles, context, temperatures(model, context), graph);
}

void add_caches(const Hyperparameters& model, const DecoderOptions& options, SourceGraph& graph) {
  for (int64_t i = 0; i < model.layers; ++i) {
    const std::string p = "blk." + std::to_string(i) + ".";
    const auto add = [&](const std::string& name, int64_t dim) {
      graph.states.push_back({.place = {},
                              .name = p + name,
                              .dtype = options.cache,
                              .shape = {int64_t{1}, model.kv_heads, options.context, dim},
                              .data = std::nullopt});
    };
    add("k_cache", model.key_dim);
    add("v_cache", model.value_dim);
  }
}

// The token that comes next, how many are held, and the newest of those that steps chose.
void add_step_states(SourceGraph& graph) {
  const auto add = [&](const char* name, std::vector<SourceDim> shape) {
    graph.states.push_back({.place = {},
                            .name = name,
                            .dtype = DType::i32,
                            .shape = std::move(shape),
                            .data = std::nullopt});
  };
  add(kToken, {int64_t{1}, int64_t{1}});
  add(kPosition, {});
  add(kRing, {int64_t{1}, kRingTokens});
}

}  // namespace

void add_decoder(const Hyperparameters& model, const DecoderOptions& options, WeightSet& weights,
                 SourceGraph& graph) {
  add_rope(model, options.context, weights, graph);
  add_caches(model, options, graph);
  const auto add_entry = [&](int64_t tokens, Use use) {
    if (weights.is_broken()) return;  // each entry would say the same
    if (use == Use::Step) add_step_states(graph);
    graph.entries.push_back(EntryBuilder(model, options, tokens, use, graph.file, weights).build());
  };
  for (const int64_t tokens : options.chunks) add_entry(tokens, Use::Prompt);
  if (std::ranges::find(options.chunks, 1) != options.chunks.end()) add_entry(1, Use::Step);
  if (options.verify) add_entry(*options.verify, Use::Verify);
}

}  // namespace rlx::gguf
