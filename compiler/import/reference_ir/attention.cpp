// SPDX-License-Identifier: Apache-2.0
// Attention and rotations of the reference IR, its fused blocks, and the gradient of attention.
#include <array>

#include "compiler/import/names.h"
#include "compiler/import/reference_ir/activations.h"
#include "compiler/import/reference_ir/heads.h"

namespace rlx::reference_ir {

Heads heads_of(AliasNode& n, size_t i, int64_t heads, int64_t head_dim,
               std::optional<int64_t> batch) {
  const Shape& shape = n.shape(i);
  const ValueId x = n.input(i);
  const std::string what = "input " + std::to_string(i) + " is " + to_string(n.type(x));
  if (shape.size() == 3) {
    if (shape[2] == heads * head_dim || (batch && shape[2] != head_dim)) return {x, "bsd"};
    const int64_t rows = shape[0];
    if (shape[2] != head_dim || rows % heads != 0) {
      n.refuse(what + ", wanted [batch, tokens, " + std::to_string(heads * head_dim) +
               "] or [batch * heads, tokens, " + std::to_string(head_dim) + "]");
    }
    const int64_t count = batch ? *batch : rows / heads;
    if (count == 0 || rows % count != 0) n.refuse(what + ", which has no whole heads per sequence");
    return {n.reshape(x, {count, rows / count, shape[1], shape[2]}), "bhsd"};
  }
  if (shape.size() != 4) n.refuse(what + ", wanted rank 3 or 4");
  if (n.attrs().has("layout")) return {x, n.attrs().text("layout")};
  if (shape[2] == heads) return {x, "bshd"};
  if (shape[1] == heads) return {x, "bhsd"};
  n.refuse(what + ", of which no axis has " + std::to_string(heads) + " heads",
           "attribute \"layout\" is bshd or bhsd");
}

ValueId as_input(AliasNode& n, ValueId result, size_t i) {
  return n.reshape(result, n.shape(i));
}

namespace attention {
namespace {

using Results = std::vector<ValueId>;

constexpr std::array<std::string_view, 5> kMasks = {"None", "Causal", "SlidingWindow", "Custom",
                                                    "Bias"};
constexpr std::array<std::string_view, 2> kLayouts = {"bshd", "bhsd"};

struct Operands {
  Heads q, k, v;
  std::optional<ValueId> mask, bias;
  Attributes attributes;
};

// What attention and its gradient share; `extra` is where the mask may stand.
Operands operands(AliasNode& n, size_t extra) {
  const int64_t heads = n.attrs().integer("num_heads");
  const int64_t head_dim = n.attrs().integer("head_dim");
  Operands o{.q = heads_of(n, 0, heads, head_dim),
             .k = {},
             .v = {},
             .mask = {},
             .bias = {},
             .attributes = {}};
  const bool is_flat = o.q.layout == "bsd";
  const bool is_split = n.rank(0) == 3 && !is_flat;
  const std::optional<int64_t> batch =
      is_split ? std::optional<int64_t>(n.shape(0)[0] / heads) : std::nullopt;
  const auto keys = [&](size_t i) -> Heads {
    if (n.rank(i) == 4) return {n.input(i), o.q.layout};
    if (is_flat) return {n.input(i), "bsd"};
    return heads_of(n, i, n.shape(i)[0] / *batch, head_dim, batch);
  };
  if (n.rank(1) != n.rank(0) || n.rank(2) != n.rank(0))
    n.refuse("queries, keys and values have different ranks");
  o.k = keys(1);
  o.v = keys(2);
  const Shape& k = n.type(o.k.value).shape;
  const int64_t groups = is_flat ? static_cast<int64_t>(k[2]) / head_dim
                                 : static_cast<int64_t>(k[o.k.layout == "bshd" ? 2 : 1]);
  o.attributes = {{"num_heads", heads},
                  {"num_kv_heads", groups},
                  {"head_dim", head_dim},
                  {"q_layout", o.q.layout},
                  {"kv_layout", o.k.layout}};
  const std::string kind = n.attrs().text("mask_kind");
  const bool wants_extra = kind == "Custom" || kind == "Bias";
  if (n.has(extra) != wants_extra) {
    n.refuse("mask_kind " + kind + (wants_extra ? " wants" : " has no use for") + " input " +
             std::to_string(extra));
  }
  if (kind == "Causal" || kind == "SlidingWindow") o.attributes.emplace("causal", true);
  if (kind == "SlidingWindow") {
    if (!n.attrs().has("window")) n.refuse("mask_kind SlidingWindow wants attribute \"window\"");
    o.attributes.emplace("window_left", n.attrs().integer("window"));
  }
  if (kind == "Custom") o.mask = n.input(extra);
  if (kind == "Bias") o.bias = n.input(extra);
  return o;
}

Results attention(AliasNode& n) {
  Operands o = operands(n, 3);
  if (n.attrs().has("score_scale")) o.attributes.emplace("scale", n.attrs().real("score_scale"));
  if (n.attrs().has("attn_logit_softcap"))
    o.attributes.emplace("softcap", n.attrs().real("attn_logit_softcap"));
  return {as_input(n,
                   n.emit_all("attention", {o.q.value, o.k.value, o.v.value, o.mask, o.bias},
                              std::move(o.attributes), 1)
                       .front(),
                   0)};
}

// One gradient of three, in the layout of the forward node.
Results attention_backward(AliasNode& n) {
  Operands o = operands(n, 4);
  const std::string wrt = n.attrs().text("wrt");
  const size_t at = wrt == "Query" ? 0 : wrt == "Key" ? 1 : 2;
  const ValueId dy = n.reshape(n.input(3), n.type(o.q.value).shape);
  const Results all =
      n.emit_all("attention_backward", {o.q.value, o.k.value, o.v.value, dy, o.mask, o.bias},
                 std::move(o.attributes), 3);
  return {as_input(n, all[at], at)};
}

struct Rotation {
  Heads x;
  Attributes attributes;
};

// Tables have a row per position; where they have one per token of all sequences, that is meant.
Rotation rotation(AliasNode& n) {
  const int64_t head_dim = n.attrs().integer("head_dim");
  const Shape& shape = n.shape(0);
  Rotation r;
  if (shape.size() == 3) {
    r.x = {n.input(0), "bsd"};
  } else if (n.attrs().has("layout")) {
    r.x = {n.input(0), n.attrs().text("layout")};
  } else {
    r.x = {n.input(0), "bshd"};
  }
  const size_t tokens_axis = r.x.layout == "bhsd" ? 2 : 1;
  if (shape.size() < 3 || shape.size() > 4)
    n.refuse("input 0 is " + to_string(n.type(n.input(0))) + ", wanted rank 3 or 4");
  const int64_t tokens = shape[tokens_axis];
  const int64_t rows = n.shape(1).empty() ? 0 : static_cast<int64_t>(n.shape(1)[0]);
  const bool is_flat_table = n.rank(1) == 2;
  const bool per_token = is_flat_table && rows != tokens && rows == tokens * shape[0];
  if (is_flat_table && !per_token && rows < tokens) {
    n.refuse(
        "the table has " + std::to_string(rows) + " rows for " + std::to_string(tokens) + " tokens",
        "the reference IR begins anew behind the last row; here it must have all of them");
  }
  r.attributes = {{"head_dim", head_dim}, {"layout", r.x.layout}};
  if (n.attrs().has("n_rot")) r.attributes.emplace("n_rot", n.attrs().integer("n_rot"));
  if (per_token) r.attributes.emplace("table", std::string("token"));
  if (n.attrs().text("style") == "GptJ") r.attributes.emplace("style", std::string("gptj"));
  return r;
}

Results rope(AliasNode& n) {
  Rotation r = rotation(n);
  return {n.emit("rope", {r.x.value, n.input(1), n.input(2)}, std::move(r.attributes))};
}

Results rope_backward(AliasNode& n) {
  Rotation r = rotation(n);
  return {n.emit("rope_backward", {r.x.value, n.input(1), n.input(2)}, std::move(r.attributes))};
}

Results axial_rope(AliasNode& n) {
  Attributes attributes =
      n.same({"end_x", "end_y", "head_dim", "num_heads", "theta", "repeat_factor"});
  attributes.emplace("repeat_mode", std::string("interleave"));
  return {n.emit("axial_rope2d", {n.input(0)}, std::move(attributes))};
}

Results swiglu(AliasNode& n) {
  return {n.emit("fused_swiglu", {n.input(0)}, n.same({"gate_first", "cast_to"}))};
}

void want_inputs(AliasNode& n, size_t wanted) {
  if (n.input_count() == wanted) return;
  n.refuse("it has " + std::to_string(n.input_count()) + " inputs, wanted " +
           std::to_string(wanted) + " with these attributes");
}

// hidden, qkv_w, out_w, mask, then [qkv_b, out_b], then [cos, sin].
Results attention_block(AliasNode& n) {
  const bool has_bias = n.attrs().flag("has_bias");
  const bool has_rope = n.attrs().flag("has_rope");
  want_inputs(n, 4 + (has_bias ? 2 : 0) + (has_rope ? 2 : 0));
  const size_t rope_at = has_bias ? 6 : 4;
  const auto when = [&n](bool is_there, size_t i) {
    return is_there ? n.optional(i) : std::nullopt;
  };
  return {n.emit("fused_attention_block",
                 {n.input(0), n.input(1), n.input(2), n.optional(3), when(has_bias, 4),
                  when(has_bias, 5), when(has_rope, rope_at), when(has_rope, rope_at + 1)},
                 n.same({"num_heads", "head_dim"}))};
}

Results transformer_layer(AliasNode& n) {
  const bool has_bias = n.attrs().flag("has_bias");
  want_inputs(n, has_bias ? 14 : 10);
  Attributes attributes = n.same({"num_heads", "head_dim", "intermediate_size", "eps1", "eps2"});
  attributes.emplace("activation", std::string(activation_of(n.attrs().text("activation")).op));
  std::vector<std::optional<ValueId>> inputs;
  if (has_bias) {
    for (size_t i = 0; i < 14; ++i) inputs.push_back(n.optional(i));
  } else {
    // hidden, qkv_w, out_w, ln1_g, ln1_b, fc1_w, fc2_w, ln2_g, ln2_b, mask
    inputs = {n.input(0),    n.input(1),    std::nullopt,  n.input(2),   std::nullopt,
              n.optional(3), n.optional(4), n.input(5),    std::nullopt, n.input(6),
              std::nullopt,  n.optional(7), n.optional(8), n.optional(9)};
  }
  return {n.emit("fused_transformer_layer", std::move(inputs), std::move(attributes))};
}

constexpr AttrSpec kHeads{
    .name = "num_heads", .type = AttrType::Int, .required = true, .minimum = 1};
constexpr AttrSpec kHeadDim{
    .name = "head_dim", .type = AttrType::Int, .required = true, .minimum = 1};
constexpr AttrSpec kMaskKind{
    .name = "mask_kind", .type = AttrType::String, .default_text = "\"None\"", .choices = kMasks};
constexpr AttrSpec kWindow{.name = "window", .type = AttrType::Int, .minimum = 0};
constexpr AttrSpec kLayout{.name = "layout", .type = AttrType::String, .choices = kLayouts};
constexpr std::array kAttention = {kHeads,
                                   kHeadDim,
                                   kMaskKind,
                                   kWindow,
                                   kLayout,
                                   AttrSpec{.name = "score_scale", .type = AttrType::Float},
                                   AttrSpec{.name = "attn_logit_softcap", .type = AttrType::Float}};
constexpr std::array<std::string_view, 3> kWrt = {"Query", "Key", "Value"};
constexpr std::array kAttentionBackward = {
    kHeads,
    kHeadDim,
    kMaskKind,
    kWindow,
    kLayout,
    AttrSpec{.name = "wrt", .type = AttrType::String, .required = true, .choices = kWrt}};
constexpr std::array<std::string_view, 2> kStyles = {"NeoX", "GptJ"};
constexpr std::array kRope = {
    kHeadDim, AttrSpec{.name = "n_rot", .type = AttrType::Int, .minimum = 0}, kLayout,
    AttrSpec{
        .name = "style", .type = AttrType::String, .default_text = "\"NeoX\"", .choices = kStyles}};
constexpr AttrSpec whole(std::string_view name, bool required = true) {
  return {.name = name, .type = AttrType::Int, .required = required, .consumed_by_infer = true};
}
constexpr AttrSpec number(std::string_view name, bool required = true) {
  return {.name = name, .type = AttrType::Float, .required = required, .consumed_by_infer = true};
}
constexpr AttrSpec flag(std::string_view name) {
  return {.name = name, .type = AttrType::Bool, .default_text = "false"};
}
constexpr std::array kAxial = {whole("end_x"),         whole("end_y"),
                               whole("head_dim"),      whole("num_heads"),
                               number("theta", false), whole("repeat_factor", false)};
constexpr std::array kSwiglu = {
    AttrSpec{.name = "gate_first", .type = AttrType::Bool, .consumed_by_infer = true},
    AttrSpec{.name = "cast_to", .type = AttrType::DTypeName, .consumed_by_infer = true}};
constexpr std::array kBlock = {whole("num_heads"), whole("head_dim"), flag("has_bias"),
                               flag("has_rope")};
constexpr std::array kLayer = {whole("num_heads"),
                               whole("head_dim"),
                               whole("intermediate_size"),
                               number("eps1"),
                               number("eps2"),
                               AttrSpec{.name = "activation",
                                        .type = AttrType::String,
                                        .required = true,
                                        .choices = kActivationKinds},
                               flag("has_bias")};

constexpr std::array kAliases = {
    Alias{"Attention",
          kAll,
          "`attention`; `mask_kind` is `None`, `Causal`, `SlidingWindow` (with `window`), `Custom` "
          "(a mask) or `Bias`; `layout` tells bshd from bhsd where both fit",
          {3, 4},
          kAttention,
          attention},
    Alias{"AttentionBackward",
          kWgpu | kCuda,
          "`attention_backward`, the output that `wrt` names",
          {4, 5},
          kAttentionBackward,
          attention_backward},
    Alias{"Rope",
          kAll,
          "`rope`; a table of as many rows as all tokens is by token",
          {3, 3},
          kRope,
          rope},
    Alias{"RopeBackward", kWgpu | kCuda, "`rope_backward`", {3, 3}, kRope, rope_backward},
    Alias{"AxialRope2d", kNone, "`axial_rope2d`, repeats interleaved", {1, 1}, kAxial, axial_rope},
    Alias{"FusedSwiGLU", kAll, "`fused_swiglu`", {1, 1}, kSwiglu, swiglu},
    Alias{"FusedAttentionBlock", kAll, "`fused_attention_block`", {4, 8}, kBlock, attention_block},
    Alias{"FusedTransformerLayer",
          kAll,
          "`fused_transformer_layer`",
          {10, 14},
          kLayer,
          transformer_layer},
};

}  // namespace
}  // namespace attention

std::span<const Alias> attention_aliases() {
  return attention::kAliases;
}

}  // namespace rlx::reference_ir
