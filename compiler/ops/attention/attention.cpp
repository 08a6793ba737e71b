// SPDX-License-Identifier: Apache-2.0
// attention (ops.md 5.1): interface and shape rule.
#include <algorithm>

#include "compiler/ops/attention/attention_problem.h"
#include "compiler/ops/gradient.h"
#include "compiler/ops/op_def.h"
#include "compiler/support/blocks.h"

namespace rlx {

namespace {

// Caches of keys and values may be 8-bit floats.
bool check_heads_dtype(InferContext& ctx, size_t input, const char* name) {
  if (!ctx.has_input(input) || is_float(ctx.dtype(input))) return true;
  const bool may_be_float8 = input != kAttentionQ;
  if (may_be_float8 && is_float8(ctx.dtype(input))) return true;
  return ctx.fail(DiagCode::BadDtype, std::string(name) + " is " +
                                          std::string(name_of(ctx.dtype(input))) +
                                          ", wanted f32, f16, bf16" +
                                          (may_be_float8 ? ", f8e4m3, f8e5m2" : "") + " or f64");
}

bool check_mask(InferContext& ctx, const AttentionProblem& problem) {
  if (!ctx.has_input(kAttentionMask)) return true;
  const TensorType& mask = ctx.input(kAttentionMask);
  const DTypeKind kind = kind_of(mask.dtype);
  if (kind == DTypeKind::Storage || kind == DTypeKind::Complex) {
    return ctx.fail(DiagCode::BadDtype, "mask is " + std::string(name_of(mask.dtype)) +
                                            ", wanted bool or a number type");
  }
  const Shape per_key = {problem.batch, problem.kv_tokens};
  const Shape per_query = {problem.batch, problem.q_tokens, problem.kv_tokens};
  const Shape per_head = {problem.batch, problem.heads, problem.q_tokens, problem.kv_tokens};
  const size_t rank = mask.shape.size();
  if (rank < 2 || rank > 4) {
    return ctx.fail(DiagCode::BadRank, "mask is " + to_string(mask) + ", wanted rank 2, 3 or 4");
  }
  const bool fits = rank == 2   ? mask.shape == per_key
                    : rank == 3 ? mask.shape == per_query
                                : broadcast_shapes(mask.shape, per_head) == per_head;
  if (fits) return true;
  const Shape& wanted = rank == 2 ? per_key : rank == 3 ? per_query : per_head;
  return ctx.fail(DiagCode::BadShape,
                  "mask is " + to_string(mask) + ", wanted " + to_string(wanted) +
                      (rank == 4 ? " or a shape that broadcasts to it" : ""),
                  "rank 2 is [batch, keys], rank 3 is [batch, queries, keys]");
}

bool check_bias(InferContext& ctx, const AttentionProblem& problem) {
  if (!ctx.has_input(kAttentionBias)) return true;
  const TensorType& bias = ctx.input(kAttentionBias);
  if (!is_float(bias.dtype)) {
    return ctx.fail(DiagCode::BadDtype,
                    "bias is " + std::string(name_of(bias.dtype)) + ", wanted a float type");
  }
  if (bias.shape.size() != 4) {
    return ctx.fail(DiagCode::BadRank, "bias is " + to_string(bias) + ", wanted rank 4");
  }
  const Shape wanted = {problem.batch, problem.heads, problem.q_tokens, problem.kv_tokens};
  if (broadcast_shapes(bias.shape, wanted) == wanted) return true;
  return ctx.fail(
      DiagCode::BadShape,
      "bias is " + to_string(bias) + ", wanted a shape that broadcasts to " + to_string(wanted));
}

bool check_per_batch(InferContext& ctx, size_t input, const char* name, const Dim& batch) {
  if (!ctx.has_input(input)) return true;
  const TensorType& type = ctx.input(input);
  if (!is_integer(type.dtype)) {
    return ctx.fail(
        DiagCode::BadDtype,
        std::string(name) + " is " + std::string(name_of(type.dtype)) + ", wanted an integer type");
  }
  if (type.shape.empty() || type.shape == Shape{batch}) return true;
  return ctx.fail(DiagCode::BadShape, std::string(name) + " is " + to_string(type) +
                                          ", wanted a scalar or [" + to_string(batch) + "]");
}

// A sink is one more score of its query head's softmax, which no value belongs to: the weights of
// the keys sum to less than 1, and lse counts it. A query without keys gives 0, and lse is the
// sink.
bool check_sinks(InferContext& ctx, int64_t heads) {
  if (!ctx.has_input(kAttentionSinks)) return true;
  const TensorType& sinks = ctx.input(kAttentionSinks);
  if (!is_float(sinks.dtype)) {
    return ctx.fail(DiagCode::BadDtype,
                    "sinks is " + std::string(name_of(sinks.dtype)) + ", wanted a float type");
  }
  if (sinks.shape == Shape{heads}) return true;
  return ctx.fail(DiagCode::BadShape, "sinks is " + to_string(sinks) + ", wanted [" +
                                          std::to_string(heads) + "], one score per query head");
}

bool infer_attention(InferContext& ctx) {
  std::vector<std::optional<TensorType>> inputs;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    inputs.push_back(ctx.has_input(i) ? std::optional(ctx.input(i)) : std::nullopt);
  }
  if (!check_heads_dtype(ctx, kAttentionQ, "q") || !check_heads_dtype(ctx, kAttentionK, "k") ||
      !check_heads_dtype(ctx, kAttentionV, "v")) {
    return false;
  }
  const std::optional<AttentionProblem> problem = attention_problem(ctx, inputs);
  if (!problem) return false;
  if (!check_mask(ctx, *problem) || !check_bias(ctx, *problem) ||
      !check_per_batch(ctx, kAttentionKvLen, "kv_len", problem->batch) ||
      !check_per_batch(ctx, kAttentionQStart, "q_start", problem->batch) ||
      !check_sinks(ctx, problem->heads)) {
    return false;
  }
  ctx.set_output(0, {.dtype = ctx.dtype(kAttentionQ), .shape = attention_output_shape(*problem)});
  if (ctx.node().outputs.size() > 1) {
    ctx.set_output(
        1, {.dtype = DType::f32, .shape = {problem->batch, problem->heads, problem->q_tokens}});
  }
  return true;
}

constexpr uint32_t kAttentionOptional[] = {kAttentionK,    kAttentionV,     kAttentionMask,
                                           kAttentionBias, kAttentionKvLen, kAttentionQStart,
                                           kAttentionSinks};
constexpr std::string_view kAttentionLayouts[] = {"bshd", "bhsd", "bsd"};
constexpr std::string_view kPackings[] = {"none", "3hd", "gqa"};
constexpr std::string_view kAttentionAlignments[] = {"end", "start"};

bool attention_gradient(GradientContext& ctx) {
  if (ctx.has_gradient(1)) {
    return ctx.fail(DiagCode::UnknownOp, "its second output has no gradient",
                    "stop it: stop_gradient");
  }
  if (ctx.attrs().text("packed") != "none") {
    return ctx.fail(DiagCode::UnknownOp, "with packed q, k, v it has no gradient",
                    "cut them by slice");
  }
  NodeBuilder::Inputs inputs = ctx.node().inputs;
  if (inputs.size() > kAttentionSinks && inputs[kAttentionSinks]) {
    return ctx.fail(DiagCode::UnknownOp, "with sinks it has no gradient",
                    "write them out, as a column beside the scores that is dropped behind softmax");
  }
  // Behind q, k and v. (For insert() g++ 13 warns of a vector without memory.)
  inputs.push_back(ctx.gradient());
  std::rotate(inputs.begin() + kAttentionMask, inputs.end() - 1, inputs.end());
  const std::vector<ValueId> gradients = ctx.emit_all(
      "attention_backward", std::move(inputs), ctx.attributes(), ctx.wants(kAttentionBias) ? 4 : 3);
  for (const uint32_t input : {kAttentionQ, kAttentionK, kAttentionV})
    ctx.give(input, gradients[input]);
  if (ctx.wants(kAttentionBias)) ctx.give(kAttentionBias, gradients[3]);
  return true;
}

constexpr AttrSpec kAttentionAttrs[] = {
    {.name = "num_heads", .type = AttrType::Int, .required = true, .minimum = 1},
    {.name = "num_kv_heads", .type = AttrType::Int, .minimum = 1},
    {.name = "head_dim", .type = AttrType::Int, .required = true, .minimum = 1, .maximum = 512},
    {.name = "v_head_dim", .type = AttrType::Int, .minimum = 1, .maximum = 512},
    {.name = "q_layout",
     .type = AttrType::String,
     .default_text = "\"bshd\"",
     .choices = kAttentionLayouts},
    {.name = "kv_layout",
     .type = AttrType::String,
     .default_text = "\"bshd\"",
     .choices = kAttentionLayouts},
    {.name = "out_layout", .type = AttrType::String, .choices = kAttentionLayouts},
    {.name = "packed", .type = AttrType::String, .default_text = "\"none\"", .choices = kPackings},
    {.name = "causal", .type = AttrType::Bool, .default_text = "false"},
    {.name = "causal_align",
     .type = AttrType::String,
     .default_text = "\"end\"",
     .choices = kAttentionAlignments},
    {.name = "window_left", .type = AttrType::Int, .default_text = "-1", .minimum = -1},
    {.name = "window_right", .type = AttrType::Int, .default_text = "-1", .minimum = -1},
    {.name = "scale", .type = AttrType::Float},
    {.name = "softcap", .type = AttrType::Float, .default_text = "0", .minimum = 0},
};

constexpr OpDef kAttentionOps[] = {
    {.name = "attention",
     .signature =
         "attention(q, k, v, [mask], [bias], [kv_len], [q_start], [sinks]; num_heads, "
         "num_kv_heads=num_heads, head_dim, v_head_dim=head_dim, q_layout=bshd, "
         "kv_layout=bshd, out_layout=q_layout, packed=none, causal=false, causal_align=end, "
         "window_left=-1, window_right=-1, scale=1/sqrt(head_dim), softcap=0) -> y, [lse]",
     .inputs = {1, 8},
     .outputs = {1, 2},
     .attrs = kAttentionAttrs,
     .infer = infer_attention,
     .evaluate = evaluate_attention,
     .gradient = attention_gradient,
     .lower = lower_attention,
     .optional_inputs = kAttentionOptional,
     .keeps_f32 = ~31u},
};

}  // namespace

std::span<const OpDef> attention_ops() {
  return kAttentionOps;
}

}  // namespace rlx
