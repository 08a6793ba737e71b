// SPDX-License-Identifier: Apache-2.0
// fused_attention_block and fused_transformer_layer (ops.md 5.4): compositions that models write as
// one node. The compiler takes them apart and fuses what its kernels fuse.
#include <array>

#include "compiler/ops/evaluate_op.h"
#include "compiler/ops/lowering/matmul_activation.h"
#include "compiler/ops/op_def.h"

namespace rlx {
namespace {

// Shapes that decompose would have to check again are left to the ops that it emits.
bool check_matrix(InferContext& ctx, size_t input, const char* name, int64_t rows,
                  int64_t columns) {
  if (ctx.shape(input) == Shape{rows, columns} && is_float(ctx.dtype(input))) return true;
  return ctx.fail(DiagCode::BadShape, std::string(name) + " is " + to_string(ctx.input(input)) +
                                          ", wanted floats [" + std::to_string(rows) + ", " +
                                          std::to_string(columns) + "]");
}

bool check_vector(InferContext& ctx, size_t input, const char* name, int64_t size) {
  if (!ctx.has_input(input)) return true;
  if (ctx.shape(input) == Shape{size} && is_float(ctx.dtype(input))) return true;
  return ctx.fail(DiagCode::BadShape, std::string(name) + " is " + to_string(ctx.input(input)) +
                                          ", wanted floats [" + std::to_string(size) + "]");
}

bool check_hidden(InferContext& ctx) {
  const TensorType& hidden = ctx.input(0);
  if (is_float(hidden.dtype) && hidden.shape.size() == 3) return true;
  return ctx.fail(DiagCode::BadShape,
                  "hidden is " + to_string(hidden) + ", wanted floats [batch, tokens, width]");
}

ValueId product(RewriteContext& ctx, ValueId x, ValueId w, std::optional<ValueId> bias,
                std::optional<ValueId> residual = {}, const Attributes& attributes = {}) {
  return ctx.emit("fused_matmul_bias_act", {x, w, bias, residual}, attributes);
}

std::optional<ValueId> optional_input(const RewriteContext& ctx, size_t i) {
  return ctx.has_input(i) ? std::optional(ctx.input(i)) : std::nullopt;
}

// ---- fused_attention_block ----

enum BlockInput : uint32_t { kHidden, kQkvW, kOutW, kMask, kQkvB, kOutB, kCos, kSin };

struct BlockHeads {
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t head_dim = 1;

  [[nodiscard]] int64_t q_columns() const { return heads * head_dim; }
  [[nodiscard]] int64_t kv_columns() const { return kv_heads * head_dim; }
};

BlockHeads heads_of(const NodeContext& ctx) {
  const int64_t heads = ctx.attrs().integer("num_heads");
  return {.heads = heads,
          .kv_heads = ctx.attrs().has("num_kv_heads") ? ctx.attrs().integer("num_kv_heads") : heads,
          .head_dim = ctx.attrs().integer("head_dim")};
}

bool infer_block(InferContext& ctx) {
  if (!check_hidden(ctx)) return false;
  const BlockHeads heads = heads_of(ctx);
  if (heads.heads % heads.kv_heads != 0) {
    return ctx.fail(DiagCode::BadAttribute, "num_heads " + std::to_string(heads.heads) +
                                                " is no multiple of num_kv_heads " +
                                                std::to_string(heads.kv_heads));
  }
  if (ctx.has_input(kCos) != ctx.has_input(kSin)) {
    return ctx.fail(DiagCode::BadArity, "one of cos and sin is given, wanted both or neither");
  }
  TensorType y = ctx.input(kHidden);
  const int64_t qkv_columns = heads.q_columns() + 2 * heads.kv_columns();
  const int64_t width = ctx.shape(kOutW).empty() ? 0 : ctx.shape(kOutW).back();
  if (!check_matrix(ctx, kQkvW, "qkv_w", y.shape[2], qkv_columns) ||
      !check_vector(ctx, kQkvB, "qkv_b", qkv_columns) ||
      !check_matrix(ctx, kOutW, "out_w", heads.q_columns(), width) ||
      !check_vector(ctx, kOutB, "out_b", width)) {
    return false;
  }
  y.shape[2] = width;
  ctx.set_output(0, y);
  return true;
}

constexpr std::string_view kAttentionAttributes[] = {"causal",       "causal_align", "window_left",
                                                     "window_right", "scale",        "softcap"};

ValueId rotated(RewriteContext& ctx, ValueId x) {
  if (!ctx.has_input(kCos)) return x;
  Attributes attributes = {{"head_dim", ctx.attrs().integer("head_dim")},
                           {"style", ctx.attrs().text("rope_style")},
                           {"layout", "bsd"}};
  if (ctx.attrs().has("n_rot")) attributes["n_rot"] = ctx.attrs().integer("n_rot");
  return ctx.emit("rope", {x, ctx.input(kCos), ctx.input(kSin)}, std::move(attributes));
}

bool decompose_block(RewriteContext& ctx) {
  const BlockHeads heads = heads_of(ctx);
  const ValueId qkv =
      product(ctx, ctx.input(kHidden), ctx.input(kQkvW), optional_input(ctx, kQkvB));
  const auto columns = [&](int64_t start, int64_t count) {
    return ctx.emit("narrow", {qkv}, {{"axis", int64_t{2}}, {"start", start}, {"len", count}});
  };
  const ValueId q = rotated(ctx, columns(0, heads.q_columns()));
  const ValueId k = rotated(ctx, columns(heads.q_columns(), heads.kv_columns()));
  const ValueId v = columns(heads.q_columns() + heads.kv_columns(), heads.kv_columns());
  Attributes attributes = {{"num_heads", heads.heads},
                           {"num_kv_heads", heads.kv_heads},
                           {"head_dim", heads.head_dim},
                           {"q_layout", "bsd"},
                           {"kv_layout", "bsd"}};
  for (const std::string_view name : kAttentionAttributes) {
    if (ctx.attrs().has(name)) attributes.insert(*ctx.node().attributes.find(name));
  }
  const ValueId heads_out =
      ctx.emit("attention", {q, k, v, optional_input(ctx, kMask)}, std::move(attributes));
  ctx.replace_output(0, product(ctx, heads_out, ctx.input(kOutW), optional_input(ctx, kOutB)));
  return true;
}

// ---- fused_transformer_layer ----

// Positions of the inputs in the node; absent ones are null. Two older forms have no biases and
// other orders: ten inputs, or eight without the norms' betas.
struct LayerInputs {
  static constexpr size_t kAbsent = 99;
  size_t qkv_w = 1, qkv_b = 2, out_w = 3, out_b = 4, ln1_g = 5, ln1_b = 6, fc1_w = 7, fc1_b = 8,
         fc2_w = 9, fc2_b = 10, ln2_g = 11, ln2_b = 12, mask = 13;
};

std::optional<LayerInputs> layer_inputs(NodeContext& ctx) {
  constexpr size_t kNone = LayerInputs::kAbsent;
  const size_t count = ctx.input_count();
  if (count >= 12) return LayerInputs{};
  if (count == 10) {
    return LayerInputs{.qkv_b = kNone,
                       .out_w = 2,
                       .out_b = kNone,
                       .ln1_g = 3,
                       .ln1_b = 4,
                       .fc1_w = 5,
                       .fc1_b = kNone,
                       .fc2_w = 6,
                       .fc2_b = kNone,
                       .ln2_g = 7,
                       .ln2_b = 8,
                       .mask = 9};
  }
  if (count == 8) {
    return LayerInputs{.qkv_b = kNone,
                       .out_w = 2,
                       .out_b = kNone,
                       .ln1_g = 3,
                       .ln1_b = kNone,
                       .fc1_w = 4,
                       .fc1_b = kNone,
                       .fc2_w = 5,
                       .fc2_b = kNone,
                       .ln2_g = 6,
                       .ln2_b = kNone,
                       .mask = 7};
  }
  ctx.fail(DiagCode::BadArity,
           "has " + std::to_string(count) +
               " inputs; wanted 12 to 14, or the forms without biases: 10, or 8 without betas");
  return std::nullopt;
}

bool require_inputs(InferContext& ctx, const LayerInputs& at) {
  for (const size_t i : {at.qkv_w, at.out_w, at.ln1_g, at.fc1_w, at.fc2_w, at.ln2_g}) {
    if (ctx.has_input(i)) continue;
    return ctx.fail(DiagCode::BadArity, "input " + std::to_string(i) + " is absent: a weight");
  }
  return true;
}

bool infer_layer(InferContext& ctx) {
  const std::optional<LayerInputs> at = layer_inputs(ctx);
  if (!at || !check_hidden(ctx) || !require_inputs(ctx, *at)) return false;
  if (!read_activation(ctx, false)) return false;
  const int64_t width = ctx.shape(0)[2];
  const int64_t heads = ctx.attrs().integer("num_heads") * ctx.attrs().integer("head_dim");
  const int64_t inner = ctx.attrs().integer("intermediate_size");
  const bool good = check_matrix(ctx, at->qkv_w, "qkv_w", width, 3 * heads) &&
                    check_vector(ctx, at->qkv_b, "qkv_b", 3 * heads) &&
                    check_matrix(ctx, at->out_w, "out_w", heads, width) &&
                    check_vector(ctx, at->out_b, "out_b", width) &&
                    check_vector(ctx, at->ln1_g, "ln1_g", width) &&
                    check_vector(ctx, at->ln1_b, "ln1_b", width) &&
                    check_matrix(ctx, at->fc1_w, "fc1_w", width, inner) &&
                    check_vector(ctx, at->fc1_b, "fc1_b", inner) &&
                    check_matrix(ctx, at->fc2_w, "fc2_w", inner, width) &&
                    check_vector(ctx, at->fc2_b, "fc2_b", width) &&
                    check_vector(ctx, at->ln2_g, "ln2_g", width) &&
                    check_vector(ctx, at->ln2_b, "ln2_b", width);
  if (!good) return false;
  ctx.set_output(0, ctx.input(0));
  return true;
}

bool decompose_layer(RewriteContext& ctx) {
  const std::optional<LayerInputs> at = layer_inputs(ctx);
  if (!at) return false;
  const auto given = [&ctx](size_t i) { return optional_input(ctx, i); };
  const ValueId hidden = ctx.input(0);
  const int64_t heads = ctx.attrs().integer("num_heads");
  const ValueId attended =
      ctx.emit("fused_attention_block",
               {hidden, ctx.input(at->qkv_w), ctx.input(at->out_w), given(at->mask),
                given(at->qkv_b), given(at->out_b)},
               {{"num_heads", heads}, {"head_dim", ctx.attrs().integer("head_dim")}});
  const auto norm = [&](ValueId x, size_t gamma, size_t beta, const char* eps) {
    return ctx.emit("layer_norm", {x, ctx.input(gamma), given(beta)},
                    {{"eps", ctx.attrs().real(eps)}});
  };
  const ValueId first = norm(ctx.emit("add", {hidden, attended}), at->ln1_g, at->ln1_b, "eps1");
  const ValueId inner = product(ctx, first, ctx.input(at->fc1_w), given(at->fc1_b), {},
                                {{"activation", ctx.attrs().text("activation")}});
  const ValueId outer = product(ctx, inner, ctx.input(at->fc2_w), given(at->fc2_b), first);
  ctx.replace_output(0, norm(outer, at->ln2_g, at->ln2_b, "eps2"));
  return true;
}

// ---- interfaces ----

constexpr std::string_view kAttentionBlockStyles[] = {"neox", "gptj"};
constexpr std::string_view kAttentionBlockAlignments[] = {"end", "start"};
constexpr AttrSpec kHeads{
    .name = "num_heads", .type = AttrType::Int, .required = true, .minimum = 1};
constexpr AttrSpec kHeadDim{
    .name = "head_dim", .type = AttrType::Int, .required = true, .minimum = 1, .maximum = 512};
constexpr std::array kBlockAttrs = {
    kHeads,
    AttrSpec{.name = "num_kv_heads", .type = AttrType::Int, .minimum = 1},
    kHeadDim,
    AttrSpec{.name = "rope_style",
             .type = AttrType::String,
             .default_text = "\"neox\"",
             .choices = kAttentionBlockStyles},
    AttrSpec{.name = "n_rot", .type = AttrType::Int, .minimum = 0},
    AttrSpec{.name = "causal", .type = AttrType::Bool, .default_text = "false"},
    AttrSpec{.name = "causal_align",
             .type = AttrType::String,
             .default_text = "\"end\"",
             .choices = kAttentionBlockAlignments},
    AttrSpec{.name = "window_left", .type = AttrType::Int, .default_text = "-1", .minimum = -1},
    AttrSpec{.name = "window_right", .type = AttrType::Int, .default_text = "-1", .minimum = -1},
    AttrSpec{.name = "scale", .type = AttrType::Float},
    AttrSpec{.name = "softcap", .type = AttrType::Float, .default_text = "0", .minimum = 0},
};
constexpr std::array kLayerAttrs = {
    kHeads,
    kHeadDim,
    AttrSpec{.name = "intermediate_size", .type = AttrType::Int, .required = true, .minimum = 1},
    AttrSpec{.name = "eps1", .type = AttrType::Float, .required = true, .minimum = 0},
    AttrSpec{.name = "eps2", .type = AttrType::Float, .required = true, .minimum = 0},
    AttrSpec{.name = "activation", .type = AttrType::String, .required = true},
};
constexpr std::array<uint32_t, 5> kBlockOptional = {kMask, kQkvB, kOutB, kCos, kSin};
constexpr std::array<uint32_t, 9> kLayerOptional = {2, 4, 6, 7, 8, 9, 10, 12, 13};

constexpr std::array kAttentionBlockOps = {
    OpDef{.name = "fused_attention_block",
          .signature = "fused_attention_block(hidden, qkv_w, out_w, [mask], [qkv_b], [out_b], "
                       "[cos], [sin]; num_heads, num_kv_heads=num_heads, head_dim, "
                       "rope_style=\"neox\", n_rot=head_dim, causal=false, causal_align=\"end\", "
                       "window_left=-1, window_right=-1, scale=1/sqrt(head_dim), softcap=0) -> y",
          .inputs = {3, 8},
          .attrs = kBlockAttrs,
          .infer = infer_block,
          .evaluate = evaluate_composition,
          .decompose = decompose_block,
          .optional_inputs = kBlockOptional},
    OpDef{.name = "fused_transformer_layer",
          .signature = "fused_transformer_layer(hidden, qkv_w, [qkv_b], out_w, [out_b], ln1_g, "
                       "[ln1_b], fc1_w, [fc1_b], fc2_w, [fc2_b], ln2_g, [ln2_b], [mask]; "
                       "num_heads, head_dim, intermediate_size, eps1, eps2, activation) -> y",
          .inputs = {8, 14},
          .attrs = kLayerAttrs,
          .infer = infer_layer,
          .evaluate = evaluate_composition,
          .decompose = decompose_layer,
          .optional_inputs = kLayerOptional},
};

}  // namespace

std::span<const OpDef> attention_block_ops() {
  return kAttentionBlockOps;
}

}  // namespace rlx
