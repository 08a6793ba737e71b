// SPDX-License-Identifier: Apache-2.0
// fused_residual_ln and fused_residual_rms_norm (ops.md 5.4): the norm of x + residual (+ bias),
// and that sum, rounded to x's dtype once, for the next residual.
#include <array>

#include "compiler/ops/evaluate_op.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/op_def.h"

namespace rlx {
namespace {

enum Input : uint32_t { kX, kResidual, kBias, kGamma, kBeta };

bool is_residual_layer_norm(const NodeContext& ctx) {
  return ctx.node().op == "fused_residual_ln";
}

Attributes norm_attributes(const NodeContext& ctx) {
  Attributes attributes = {{"eps", ctx.attrs().real("eps")}};
  if (!is_residual_layer_norm(ctx)) attributes["gamma_offset"] = ctx.attrs().real("gamma_offset");
  return attributes;
}

const char* norm_op(const NodeContext& ctx) {
  return is_residual_layer_norm(ctx) ? "layer_norm" : "rms_norm";
}

bool infer_residual_norm(InferContext& ctx) {
  const TensorType& x = ctx.input(kX);
  if (!is_float(x.dtype) || x.shape.empty()) {
    return ctx.fail(DiagCode::BadDtype,
                    "x is " + to_string(x) + ", wanted a float tensor of rank 1 or more");
  }
  if (ctx.input(kResidual) != x) {
    return ctx.fail(DiagCode::BadShape, "residual is " + to_string(ctx.input(kResidual)) +
                                            ", wanted " + to_string(x) + " as x");
  }
  const Shape row = {x.shape.back()};
  constexpr std::array kNames = {"x", "residual", "bias", "gamma", "beta"};
  for (const Input input : {kBias, kGamma, kBeta}) {
    if (ctx.has_input(input) && !check_broadcasts(ctx, input, kNames[input], row)) return false;
  }
  ctx.set_output(0, x);
  if (ctx.node().outputs.size() > 1) ctx.set_output(1, x);
  return true;
}

bool evaluate_residual_norm(EvaluateContext& ctx) {
  Tensor sum = ctx.input(kX);
  const auto columns = static_cast<size_t>(sum.type.shape.back());
  for (size_t i = 0; i < sum.floats.size(); ++i) {
    sum.floats[i] += ctx.input(kResidual).floats[i];
    if (!ctx.has_input(kBias)) continue;
    const std::vector<double>& bias = ctx.input(kBias).floats;
    sum.floats[i] += bias[bias.size() == 1 ? 0 : i % columns];
  }
  sum.round_to_dtype();
  ctx.output(0).floats =
      evaluate_op(norm_op(ctx), {&sum, input_or_null(ctx, kGamma), input_or_null(ctx, kBeta)},
                  norm_attributes(ctx), {sum.type})[0]
          .floats;
  if (ctx.output_count() > 1) ctx.output(1).floats = sum.floats;
  return true;
}

bool decompose_residual_norm(RewriteContext& ctx) {
  const DType dtype = ctx.type(ctx.input(kX)).dtype;
  const DType compute = dtype == DType::f64 ? DType::f64 : DType::f32;
  const auto cast = [&](ValueId value, DType to) {
    if (ctx.type(value).dtype == to) return value;
    return ctx.emit("cast", {value}, {{"to", std::string(name_of(to))}});
  };
  ValueId sum =
      ctx.emit("add", {cast(ctx.input(kX), compute), cast(ctx.input(kResidual), compute)});
  if (ctx.has_input(kBias)) sum = ctx.emit("add", {sum, cast(ctx.input(kBias), compute)});
  sum = cast(sum, dtype);
  const auto given = [&ctx](Input input) {
    return ctx.has_input(input) ? std::optional(ctx.input(input)) : std::nullopt;
  };
  const ValueId y =
      ctx.emit(norm_op(ctx), {sum, given(kGamma), given(kBeta)}, norm_attributes(ctx));
  const bool wants_sum = ctx.node().outputs.size() > 1;
  ctx.replace_output(0, y);
  if (wants_sum) ctx.replace_output(1, sum);
  return true;
}

constexpr AttrSpec kEps{
    .name = "eps", .type = AttrType::Float, .default_text = "1e-5", .minimum = 0};
constexpr std::array kLayerAttrs = {kEps};
constexpr std::array kRmsAttrs = {
    kEps, AttrSpec{.name = "gamma_offset", .type = AttrType::Float, .default_text = "0"}};
constexpr std::array<uint32_t, 3> kResidualNormOptional = {kBias, kGamma, kBeta};

constexpr std::array kResidualNormOps = {
    OpDef{.name = "fused_residual_ln",
          .signature =
              "fused_residual_ln(x, residual, [bias], [gamma], [beta]; eps=1e-5) -> y, [sum]",
          .inputs = {2, 5},
          .outputs = {1, 2},
          .attrs = kLayerAttrs,
          .infer = infer_residual_norm,
          .evaluate = evaluate_residual_norm,
          .decompose = decompose_residual_norm,
          .optional_inputs = kResidualNormOptional},
    OpDef{.name = "fused_residual_rms_norm",
          .signature = "fused_residual_rms_norm(x, residual, [bias], [gamma], [beta]; eps=1e-5, "
                       "gamma_offset=0) -> y, [sum]",
          .inputs = {2, 5},
          .outputs = {1, 2},
          .attrs = kRmsAttrs,
          .infer = infer_residual_norm,
          .evaluate = evaluate_residual_norm,
          .decompose = decompose_residual_norm,
          .optional_inputs = kResidualNormOptional},
};

}  // namespace

std::span<const OpDef> residual_norm_ops() {
  return kResidualNormOps;
}

}  // namespace rlx
