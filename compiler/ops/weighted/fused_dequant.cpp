// SPDX-License-Identifier: Apache-2.0
// fused_dequant_matmul: a product with up to three matrices in blocks, whose results stand side by
// side, or a gated pair of them, with rms_norm before it and bias, activation and residual behind.
// With round_w the decoded weights are rounded to x's type of halves first, with round_x the rows
// behind the norm to f16.
// Equals its composition; made by the passes that fuse around dequant_matmul, importable.
#include "compiler/ops/weighted/fused_dequant.h"

#include <array>

#include "compiler/ops/evaluate_op.h"
#include "compiler/ops/lowering/block_weights.h"
#include "compiler/ops/weighted/weighted_product.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

using In = FusedDequantInput;
constexpr std::array kMatrices = {In::kW, In::kW2, In::kW3};

bool normalises(const NodeContext& ctx) {
  return ctx.attrs().text("norm") == "rms";
}

bool is_gated(const NodeContext& ctx) {
  return ctx.attrs().flag("gated");
}

// ---- shapes ----

bool check_operand(InferContext& ctx, size_t input, const char* name) {
  if (!ctx.has_input(input) || is_short_float(ctx.dtype(input))) return true;
  return ctx.fail(DiagCode::BadDtype, std::string(name) + " is " + to_string(ctx.input(input)) +
                                          ", wanted f32, f16 or bf16");
}

bool check_columns(InferContext& ctx, size_t input, const char* name, int64_t length) {
  if (!check_operand(ctx, input, name)) return false;
  if (!ctx.has_input(input) || ctx.shape(input) == Shape{length}) return true;
  return ctx.fail(DiagCode::BadShape, std::string(name) + " is " + to_string(ctx.input(input)) +
                                          ", wanted [" + std::to_string(length) + "]");
}

bool check_blocks_of(InferContext& ctx, size_t input, const Dim& depth) {
  const TensorType& w = ctx.input(input);
  const std::string scheme = ctx.attrs().text("scheme");
  if (!is_block_type(w.dtype) || name_of(w.dtype) != scheme) {
    return ctx.fail(DiagCode::BadDtype, "input " + std::to_string(input) + " is " + to_string(w) +
                                            ", wanted blocks of scheme \"" + scheme + "\"");
  }
  if (w.shape.size() == 2 && w.shape[1] == depth && w.shape[1] % block_elements(w.dtype) == 0)
    return true;
  return ctx.fail(DiagCode::BadShape,
                  "input " + std::to_string(input) + " is " + to_string(w) +
                      ", wanted [N, K] in whole blocks with K = " + to_string(depth) + " of x");
}

bool check_pair(InferContext& ctx) {
  if (!is_gated(ctx)) return true;
  if (ctx.has_input(In::kW2) && !ctx.has_input(In::kW3) && ctx.input(In::kW2) == ctx.input(In::kW))
    return true;
  return ctx.fail(DiagCode::BadArity, "gated, which wants w2 of w's type and no w3");
}

// Lines of all matrices; nullopt after a diagnostic.
std::optional<int64_t> matrix_lines(InferContext& ctx) {
  if (ctx.has_input(In::kW3) && !ctx.has_input(In::kW2)) {
    ctx.fail(DiagCode::BadArity, "w3 is given without w2");
    return std::nullopt;
  }
  int64_t lines = 0;
  for (const size_t input : kMatrices) {
    if (!ctx.has_input(input)) continue;
    if (!check_blocks_of(ctx, input, ctx.shape(In::kX).back())) return std::nullopt;
    lines += ctx.shape(input)[0];
  }
  return check_pair(ctx) ? std::optional(lines) : std::nullopt;
}

// The type to which rows behind the norm are rounded.
std::optional<DType> rounded_rows(const NodeContext& ctx) {
  return ctx.attrs().has("round_x") ? std::optional(ctx.attrs().dtype("round_x")) : std::nullopt;
}

bool check_rounding(InferContext& ctx) {
  const std::optional<DType> rows = rounded_rows(ctx);
  if (rows && (*rows != DType::f16 || !normalises(ctx))) {
    return ctx.fail(DiagCode::BadAttribute,
                    "round_x is " + std::string(name_of(*rows)) + ", wanted f16 and norm \"rms\"");
  }
  if (!ctx.attrs().has("round_w")) return true;
  const DType to = ctx.attrs().dtype("round_w");
  if (is_half(to) && to == ctx.dtype(In::kX) && !normalises(ctx)) return true;
  return ctx.fail(DiagCode::BadAttribute, "round_w is " + std::string(name_of(to)) +
                                              " beside x of " +
                                              std::string(name_of(ctx.dtype(In::kX))) +
                                              ", wanted x's type, f16 or bf16, and norm \"none\"");
}

bool infer_fused_dequant(InferContext& ctx) {
  if (!read_activation(ctx, true) || !check_rounding(ctx)) return false;
  if (!check_operand(ctx, In::kX, "x") || !check_operand(ctx, In::kResidual, "residual"))
    return false;
  if (ctx.shape(In::kX).size() < 2) {
    return ctx.fail(DiagCode::BadShape,
                    "x is " + to_string(ctx.input(In::kX)) + ", wanted [.., M, K]");
  }
  if (ctx.has_input(In::kGamma) && !normalises(ctx))
    return ctx.fail(DiagCode::BadArity, "gamma is given with norm \"none\"");
  const std::optional<int64_t> lines = matrix_lines(ctx);
  if (!lines || !check_columns(ctx, In::kGamma, "gamma", ctx.shape(In::kW)[1]) ||
      !check_columns(ctx, In::kBias, "bias", *lines)) {
    return false;
  }
  TensorType y = ctx.input(In::kX);
  y.shape.back() = is_gated(ctx) ? *lines / 2 : *lines;
  if (ctx.attrs().has("out_dtype")) y.dtype = ctx.attrs().dtype("out_dtype");
  if (!is_short_float(y.dtype)) {
    return ctx.fail(DiagCode::BadAttribute,
                    "out_dtype is " + std::string(name_of(y.dtype)) + ", wanted f32, f16 or bf16");
  }
  if (ctx.has_input(In::kResidual) && ctx.shape(In::kResidual) != y.shape) {
    return ctx.fail(DiagCode::BadShape, "residual is " + to_string(ctx.input(In::kResidual)) +
                                            ", wanted the result's shape " + to_string(y.shape));
  }
  ctx.set_output(0, y);
  return true;
}

// ---- the composition ----

Attributes attributes_of_norm(const NodeContext& ctx) {
  return {{"eps", ctx.attrs().real("eps")}, {"gamma_offset", ctx.attrs().real("gamma_offset")}};
}

// Only the kernel for few vectors takes a norm: models' own nodes leave it to fuse-norm.
void decompose_norm(RewriteContext& ctx) {
  std::vector<std::optional<ValueId>> inputs = ctx.node().inputs;
  const std::optional<ValueId> gamma =
      ctx.has_input(In::kGamma) ? inputs[In::kGamma] : std::nullopt;
  inputs[In::kX] = ctx.emit("rms_norm", {inputs[In::kX], gamma}, attributes_of_norm(ctx));
  const std::string result(name_of(ctx.type(*ctx.node().outputs.begin()).dtype));
  if (const auto rows = rounded_rows(ctx))
    inputs[In::kX] = ctx.emit("cast", {inputs[In::kX]}, {{"to", std::string(name_of(*rows))}});
  if (inputs.size() > In::kGamma) inputs[In::kGamma] = std::nullopt;
  while (!inputs.back()) inputs.pop_back();
  Attributes attributes = ctx.node().attributes;
  for (const char* name : {"norm", "eps", "gamma_offset", "round_x"}) attributes.erase(name);
  attributes["out_dtype"] = result;
  ctx.replace_output(0, ctx.emit("fused_dequant_matmul", std::move(inputs), attributes));
}

// One matrix of a gated pair by itself, f32.
ValueId emit_half(RewriteContext& ctx, size_t w, Attributes attributes) {
  std::vector<std::optional<ValueId>> inputs = {ctx.input(In::kX), ctx.input(w)};
  if (ctx.has_input(In::kBias)) {
    const int64_t columns = ctx.type(ctx.input(w)).shape[0];
    inputs.resize(In::kBias + 1);
    inputs[In::kBias] = ctx.emit(
        "narrow", {ctx.input(In::kBias)},
        {{"axis", int64_t{0}}, {"start", w == In::kW ? int64_t{0} : columns}, {"len", columns}});
  }
  attributes.erase("gated");
  attributes["out_dtype"] = std::string("f32");
  return ctx.emit("fused_dequant_matmul", std::move(inputs), std::move(attributes));
}

// Few kernels take a pair of dense matrices: round-weights makes it where one does.
void decompose_rounded_pair(RewriteContext& ctx) {
  const DType result = ctx.type(*ctx.node().outputs.begin()).dtype;
  Attributes plain = ctx.node().attributes;
  for (const char* name : {"activation", "alpha", "beta", "min", "max"}) plain.erase(name);
  const ValueId gate = emit_half(ctx, In::kW, ctx.node().attributes);
  ValueId y = ctx.emit("mul", {gate, emit_half(ctx, In::kW2, plain)});
  if (ctx.has_input(In::kResidual)) {
    const ValueId residual =
        ctx.emit("cast", {ctx.input(In::kResidual)}, {{"to", std::string("f32")}});
    y = ctx.emit("add", {y, residual});
  }
  ctx.replace_output(0, ctx.emit("cast", {y}, {{"to", std::string(name_of(result))}}));
}

bool decompose_fused_dequant(RewriteContext& ctx) {
  if (normalises(ctx)) {
    decompose_norm(ctx);
  } else if (is_gated(ctx) && ctx.attrs().has("round_w")) {
    decompose_rounded_pair(ctx);
  }
  return true;
}

// x times one matrix, in f32.
Tensor product_with(const EvaluateContext& ctx, const Tensor& x, size_t w) {
  Shape shape = x.type.shape;
  shape.back() = ctx.input(w).type.shape[0];
  if (ctx.attrs().has("round_w")) {
    Tensor rounded = evaluate_op("dequantize_weights", {&ctx.input(w)}, {},
                                 {{ctx.attrs().dtype("round_w"), ctx.input(w).type.shape}})[0];
    rounded.round_to_dtype();
    return evaluate_op("matmul", {&x, &rounded}, {{"trans_b", true}}, {{DType::f32, shape}})[0];
  }
  return evaluate_op("dequant_matmul", {&x, &ctx.input(w)},
                     {{"scheme", ctx.attrs().text("scheme")}}, {{DType::f32, shape}})[0];
}

// Adds the part of the bias from `first` on to every row of y.
void add_bias_from(const EvaluateContext& ctx, size_t first, Tensor& y) {
  if (!ctx.has_input(In::kBias)) return;
  const auto columns = static_cast<size_t>(y.type.shape.back().bound());
  for (size_t i = 0; i < y.floats.size(); ++i)
    y.floats[i] += ctx.input(In::kBias).floats[first + i % columns];
}

// The products of all matrices, side by side.
Tensor joined_products(const EvaluateContext& ctx, const Tensor& x) {
  std::vector<Tensor> parts;
  Shape shape = x.type.shape;
  shape.back() = 0;
  for (const size_t w : kMatrices) {
    if (!ctx.has_input(w)) continue;
    parts.push_back(product_with(ctx, x, w));
    shape.back() += parts.back().type.shape.back();
  }
  std::vector<const Tensor*> inputs;
  for (const Tensor& part : parts) inputs.push_back(&part);
  Tensor y =
      evaluate_op("concat", std::move(inputs), {{"axis", int64_t{-1}}}, {{DType::f32, shape}})[0];
  add_bias_from(ctx, 0, y);
  return y;
}

Tensor activated(const Activation& activation, Tensor y) {
  if (activation.none()) return y;
  const TensorType type = y.type;
  return evaluate_op(activation.op, {&y}, activation.attributes, {type})[0];
}

Tensor gated_products(const EvaluateContext& ctx, const Tensor& x, const Activation& activation) {
  Tensor y = product_with(ctx, x, In::kW);
  Tensor up = product_with(ctx, x, In::kW2);
  add_bias_from(ctx, 0, y);
  add_bias_from(ctx, static_cast<size_t>(y.type.shape.back().bound()), up);
  y = activated(activation, std::move(y));
  for (size_t i = 0; i < y.floats.size(); ++i) y.floats[i] *= up.floats[i];
  return y;
}

bool evaluate_fused_dequant(EvaluateContext& ctx) {
  const std::optional<Activation> activation = read_activation(ctx, true);
  if (!activation) return false;
  Tensor x = ctx.input(In::kX);
  if (normalises(ctx)) {
    x = evaluate_op("rms_norm", {&ctx.input(In::kX), input_or_null(ctx, In::kGamma)},
                    attributes_of_norm(ctx),
                    {{rounded_rows(ctx).value_or(DType::f32), x.type.shape}})[0];
    if (rounded_rows(ctx)) x.round_to_dtype();
  }
  Tensor y = is_gated(ctx) ? gated_products(ctx, x, *activation)
                           : activated(*activation, joined_products(ctx, x));
  for (size_t i = 0; ctx.has_input(In::kResidual) && i < y.floats.size(); ++i)
    y.floats[i] += ctx.input(In::kResidual).floats[i];
  ctx.output(0).floats = std::move(y.floats);
  return true;
}

// ---- lowering ----

bool lower_fused_dequant(LowerContext& ctx) {
  WeightedProduct product{.k = ctx.input_type(In::kX).shape.back(),
                          .x = ctx.dense_input(In::kX),
                          .w = ctx.dense_input(In::kW),
                          .activation = read_activation(ctx, true).value(),
                          .gated = is_gated(ctx),
                          .y = ctx.output(0)};
  RLX_CHECK(name_of(product.w.dtype()) == ctx.attrs().text("scheme"),
            "scheme of " + ctx.node().name);
  const int64_t columns = product.y.shape().back();
  product.n = product.gated ? 2 * columns : columns;
  product.m = columns == 0 ? 0 : element_count(product.y.shape()) / columns;
  for (const size_t w : {In::kW2, In::kW3}) {
    if (ctx.has_input(w)) product.more_w.push_back(ctx.dense_input(w));
  }
  if (ctx.has_input(In::kBias)) product.bias = ctx.dense_input(In::kBias);
  if (ctx.has_input(In::kResidual)) product.residual = ctx.dense_input(In::kResidual);
  if (normalises(ctx)) {
    product.norm = NormPrologue{.gamma = {},
                                .eps = ctx.attrs().real("eps"),
                                .gamma_offset = ctx.attrs().real("gamma_offset"),
                                .in_halves = rounded_rows(ctx).has_value()};
    if (ctx.has_input(In::kGamma)) product.norm->gamma = ctx.dense_input(In::kGamma);
  }
  if (ctx.attrs().has("round_w")) product.rounded = ctx.attrs().dtype("round_w");
  return lower_weighted_product(ctx, product);
}

constexpr std::string_view kDequantNorms[] = {"none", "rms"};
constexpr std::array kFusedDequantAttrs = {
    AttrSpec{.name = "scheme", .type = AttrType::String, .required = true},
    AttrSpec{.name = "out_dtype", .type = AttrType::DTypeName, .consumed_by_infer = true},
    AttrSpec{.name = "norm",
             .type = AttrType::String,
             .default_text = "\"none\"",
             .choices = kDequantNorms},
    AttrSpec{.name = "eps", .type = AttrType::Float, .default_text = "1e-5", .minimum = 0},
    AttrSpec{.name = "gamma_offset", .type = AttrType::Float, .default_text = "0"},
    AttrSpec{.name = "gated", .type = AttrType::Bool, .default_text = "false"},
    AttrSpec{.name = "activation", .type = AttrType::String, .default_text = "\"none\""},
    AttrSpec{.name = "alpha", .type = AttrType::Float},
    AttrSpec{.name = "beta", .type = AttrType::Float},
    AttrSpec{.name = "min", .type = AttrType::Float},
    AttrSpec{.name = "max", .type = AttrType::Float},
    AttrSpec{.name = "round_w", .type = AttrType::DTypeName},
    AttrSpec{.name = "round_x", .type = AttrType::DTypeName},
};
constexpr std::array<uint32_t, 5> kFusedDequantOptional = {In::kW2, In::kW3, In::kGamma, In::kBias,
                                                           In::kResidual};
constexpr std::array kFusedDequantOps = {
    OpDef{.name = "fused_dequant_matmul",
          .signature = "fused_dequant_matmul(x, w, [w2], [w3], [gamma], [bias], [residual]; "
                       "scheme, out_dtype, norm=\"none\", eps=1e-5, gamma_offset=0, gated=false, "
                       "activation=\"none\", alpha, beta, min, max, round_w, round_x) -> y",
          .inputs = {2, 7},
          .outputs = {1, 1},
          .attrs = kFusedDequantAttrs,
          .infer = infer_fused_dequant,
          .evaluate = evaluate_fused_dequant,
          .decompose = decompose_fused_dequant,
          .lower = lower_fused_dequant,
          .optional_inputs = kFusedDequantOptional},
};

}  // namespace

std::span<const OpDef> fused_dequant_ops() {
  return kFusedDequantOps;
}

}  // namespace rlx
