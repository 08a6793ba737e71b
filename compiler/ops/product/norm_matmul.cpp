// SPDX-License-Identifier: Apache-2.0
// fused_norm_matmul: rms_norm, a product or a gated pair of products, and the epilogue, in one
// step. Equals its composition, as which models' own nodes of this op are compiled; fuse-gated and
// fuse-norm make it again where the target has a kernel for it.
#include <array>

#include "compiler/ops/evaluate_op.h"
#include "compiler/ops/lowering/matmul_activation.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/product/product_offers.h"

namespace rlx {
namespace {

enum Input : uint32_t { kX, kW, kW2, kGamma, kBias, kBias2, kResidual };

bool normalises(const NodeContext& ctx) {
  return ctx.attrs().text("norm") == "rms";
}

std::optional<ValueId> value_or_null(const NodeContext& ctx, Input input) {
  return ctx.has_input(input) ? ctx.node().inputs[input] : std::nullopt;
}

// ---- shapes ----

bool check_vector(InferContext& ctx, Input input, const char* name, int64_t length) {
  if (!ctx.has_input(input) || ctx.shape(input) == Shape{length}) return true;
  return ctx.fail(DiagCode::BadShape, std::string(name) + " is " + to_string(ctx.input(input)) +
                                          ", wanted [" + std::to_string(length) + "]");
}

bool infer_norm_matmul(InferContext& ctx) {
  if (!read_activation(ctx, true)) return false;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    if (!ctx.has_input(i) || is_short_float(ctx.dtype(i))) continue;
    return ctx.fail(DiagCode::BadDtype, "input " + std::to_string(i) + " is " +
                                            to_string(ctx.input(i)) + ", wanted f32, f16 or bf16");
  }
  const Shape& x = ctx.shape(kX);
  const Shape& w = ctx.shape(kW);
  if (x.size() < 2 || w.size() != 2 || x.back() != w[1]) {
    return ctx.fail(DiagCode::BadShape, "x is " + to_string(x) + " and w " + to_string(w) +
                                            ", wanted [.., M, K] and [N, K]");
  }
  if (ctx.has_input(kW2) && ctx.input(kW2) != ctx.input(kW)) {
    return ctx.fail(DiagCode::BadShape, "w2 is " + to_string(ctx.input(kW2)) + ", wanted " +
                                            to_string(ctx.input(kW)) + " as w");
  }
  if (ctx.has_input(kBias2) && !ctx.has_input(kW2))
    return ctx.fail(DiagCode::BadArity, "bias2 is given without w2");
  if (ctx.has_input(kGamma) && !normalises(ctx))
    return ctx.fail(DiagCode::BadArity, "gamma is given with norm \"none\"");
  if (!check_vector(ctx, kGamma, "gamma", w[1]) || !check_vector(ctx, kBias, "bias", w[0]) ||
      !check_vector(ctx, kBias2, "bias2", w[0])) {
    return false;
  }
  TensorType y = ctx.input(kX);
  y.shape.back() = w[0];
  if (ctx.has_input(kResidual) && ctx.shape(kResidual) != y.shape) {
    return ctx.fail(DiagCode::BadShape, "residual is " + to_string(ctx.input(kResidual)) +
                                            ", wanted the result's shape " + to_string(y.shape));
  }
  ctx.set_output(0, y);
  return true;
}

// ---- the composition ----

Attributes norm_attributes(const NodeContext& ctx) {
  return {{"eps", ctx.attrs().real("eps")}, {"gamma_offset", ctx.attrs().real("gamma_offset")}};
}

Attributes product_attributes(const NodeContext& ctx, bool activated) {
  Attributes attributes = {{"trans_w", true}};
  if (!activated) return attributes;
  attributes["activation"] = ctx.attrs().text("activation");
  for (const std::string_view parameter : kActivationParameters) {
    const std::string name(parameter);
    if (ctx.attrs().has(name)) attributes[name] = ctx.attrs().real(name);
  }
  return attributes;
}

bool decompose_norm_matmul(RewriteContext& ctx) {
  ValueId x = ctx.input(kX);
  if (normalises(ctx))
    x = ctx.emit("rms_norm", {x, value_or_null(ctx, kGamma)}, norm_attributes(ctx));
  const std::optional<ValueId> residual = value_or_null(ctx, kResidual);
  const bool gated = ctx.has_input(kW2);
  const auto direct_residual = gated ? std::nullopt : residual;
  ValueId y = ctx.emit("fused_matmul_bias_act",
                       {x, ctx.input(kW), value_or_null(ctx, kBias), direct_residual},
                       product_attributes(ctx, true));
  if (gated) {
    const ValueId up =
        ctx.emit("fused_matmul_bias_act", {x, ctx.input(kW2), value_or_null(ctx, kBias2)},
                 product_attributes(ctx, false));
    y = ctx.emit("mul", {y, up});
    if (residual) {
      const DType dtype = ctx.type(y).dtype;
      const bool alike = ctx.type(*residual).dtype == dtype;
      const ValueId added =
          alike ? *residual : ctx.emit("cast", {residual}, {{"to", std::string(name_of(dtype))}});
      y = ctx.emit("add", {y, added});
    }
  }
  ctx.replace_output(0, y);
  return true;
}

bool evaluate_norm_matmul(EvaluateContext& ctx) {
  const auto given = [&ctx](Input input) { return input_or_null(ctx, input); };
  Tensor x = ctx.input(kX);
  if (normalises(ctx))
    x = evaluate_op("rms_norm", {&ctx.input(kX), given(kGamma)}, norm_attributes(ctx), {x.type})[0];
  const TensorType& type = ctx.output_type(0);
  Tensor y = evaluate_op("fused_matmul_bias_act", {&x, given(kW), given(kBias)},
                         product_attributes(ctx, true), {type})[0];
  if (ctx.has_input(kW2)) {
    const Tensor up = evaluate_op("fused_matmul_bias_act", {&x, given(kW2), given(kBias2)},
                                  product_attributes(ctx, false), {type})[0];
    for (size_t i = 0; i < y.floats.size(); ++i) y.floats[i] *= up.floats[i];
  }
  for (size_t i = 0; ctx.has_input(kResidual) && i < y.floats.size(); ++i)
    y.floats[i] += ctx.input(kResidual).floats[i];
  ctx.output(0).floats = std::move(y.floats);
  return true;
}

// ---- lowering ----

// A tensor's rows as lines of a product: as they stand, or a dense copy where they are no whole
// aligned pieces.
ProductOperand rows_operand(LowerContext& ctx, Input input) {
  TensorRef ref = ctx.dense_input(input);
  if (ctx.alignment(ref) < kWidestAccessBytes) {
    const TensorRef copy = ctx.scratch(ref.type, "aligned" + std::to_string(input));
    ctx.copy(ref, copy);
    ref = copy;
  }
  const int64_t columns = ref.shape().back();
  return {.ref = std::move(ref), .batch = {}, .line = columns, .depth = 1};
}

// An added tensor over y as [lines, n].
AddedOperand added_rows(LowerContext& ctx, Input input) {
  const TensorRef ref = ctx.dense_input(input);
  const int64_t columns = ref.shape().back();
  return {.ref = ref, .batch = {}, .m = ref.shape().size() == 1 ? 0 : columns, .n = 1};
}

bool lower_norm_matmul(LowerContext& ctx) {
  const TensorRef y = ctx.output(0);
  const int64_t n = y.shape().back();
  FusedProduct fused{.product = {.batch = {},
                                 .m = n == 0 ? 0 : element_count(y.shape()) / n,
                                 .n = n,
                                 .k = ctx.input_type(kX).shape.back(),
                                 .a = rows_operand(ctx, kX),
                                 .b = rows_operand(ctx, kW),
                                 .bias = {},
                                 .residual = {},
                                 .y = y,
                                 .activation = read_activation(ctx, true).value(),
                                 .note = {}},
                     .norm = {},
                     .second = {},
                     .second_bias = {}};
  fused.any_lines = has_free_lines(fused.product);
  if (ctx.has_input(kBias)) fused.product.bias = added_rows(ctx, kBias);
  if (ctx.has_input(kResidual)) fused.product.residual = added_rows(ctx, kResidual);
  if (ctx.has_input(kW2)) fused.second = rows_operand(ctx, kW2);
  if (ctx.has_input(kBias2)) fused.second_bias = added_rows(ctx, kBias2);
  if (normalises(ctx)) {
    fused.norm = NormPrologue{.gamma = {},
                              .eps = ctx.attrs().real("eps"),
                              .gamma_offset = ctx.attrs().real("gamma_offset")};
    if (ctx.has_input(kGamma)) fused.norm->gamma = ctx.dense_input(kGamma);
  }
  return lower_by_offers(ctx, product_offers(), fused);
}

constexpr std::string_view kNorms[] = {"none", "rms"};
constexpr std::array kNormMatmulAttrs = {
    AttrSpec{
        .name = "norm", .type = AttrType::String, .default_text = "\"none\"", .choices = kNorms},
    AttrSpec{.name = "eps", .type = AttrType::Float, .default_text = "1e-5", .minimum = 0},
    AttrSpec{.name = "gamma_offset", .type = AttrType::Float, .default_text = "0"},
    AttrSpec{.name = "activation", .type = AttrType::String, .default_text = "\"none\""},
    AttrSpec{.name = "alpha", .type = AttrType::Float},
    AttrSpec{.name = "beta", .type = AttrType::Float},
    AttrSpec{.name = "min", .type = AttrType::Float},
    AttrSpec{.name = "max", .type = AttrType::Float},
};
constexpr std::array<uint32_t, 5> kNormMatmulOptional = {kW2, kGamma, kBias, kBias2, kResidual};
constexpr std::array kNormMatmulOps = {
    OpDef{.name = "fused_norm_matmul",
          .signature = "fused_norm_matmul(x, w, [w2], [gamma], [bias], [bias2], [residual]; "
                       "norm=\"none\", eps=1e-5, gamma_offset=0, "
                       "activation=\"none\", alpha, beta, min, max) -> y",
          .inputs = {2, 7},
          .outputs = {1, 1},
          .attrs = kNormMatmulAttrs,
          .infer = infer_norm_matmul,
          .evaluate = evaluate_norm_matmul,
          .decompose = decompose_norm_matmul,
          .lower = lower_norm_matmul,
          .optional_inputs = kNormMatmulOptional},
};

}  // namespace

std::span<const OpDef> norm_matmul_ops() {
  return kNormMatmulOps;
}

}  // namespace rlx
