// SPDX-License-Identifier: Apache-2.0
// batch_norm in inference form (ops.md 4): y = (x - mean) * rsqrt(var + eps) * gamma + beta per
// index along `axis`. It has no kernel: it becomes x * scale + shift, whose two vectors fold to
// constants where the statistics are weights.
#include <array>
#include <cmath>

#include "compiler/ops/op_def.h"

namespace rlx {
namespace {

constexpr size_t kInputs = 5;
constexpr std::array<const char*, kInputs> kInputNames = {"x", "gamma", "beta", "mean", "var"};

bool infer(InferContext& ctx) {
  bool good = true;
  if (ctx.attrs().flag("training")) {
    good = ctx.fail(DiagCode::UnsupportedOp,
                    "training=true is not supported; wanted the inference form",
                    "export the model in evaluation mode");
  } else if (ctx.node().outputs.size() > 1) {
    good = ctx.fail(DiagCode::BadArity, "has " + std::to_string(ctx.node().outputs.size()) +
                                            " outputs; the inference form has one");
  }
  for (size_t i = 0; i < kInputs; ++i) {
    if (is_float(ctx.dtype(i))) continue;
    good = ctx.fail(DiagCode::BadDtype, std::string(kInputNames[i]) + " is " +
                                            std::string(name_of(ctx.dtype(i))) +
                                            "; wanted a float dtype");
  }
  const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), ctx.shape(0).size());
  if (!axis) return false;
  const Shape channels = {ctx.shape(0)[static_cast<size_t>(*axis)]};
  for (size_t i = 1; i < kInputs; ++i) {
    if (ctx.shape(i) == channels) continue;
    good = ctx.fail(DiagCode::BadShape,
                    std::string(kInputNames[i]) + " has shape " + to_string(ctx.shape(i)) +
                        "; wanted " + to_string(channels) + ", the size of axis " +
                        std::to_string(*axis) + " of x " + to_string(ctx.shape(0)));
  }
  if (!good) return false;
  ctx.set_output(0, ctx.input(0));
  return true;
}

bool evaluate(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const auto rank = x.type.shape.size();
  const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), rank);
  if (!axis) return false;
  const double eps = ctx.attrs().real("eps");
  const auto channels = static_cast<size_t>(x.type.shape[static_cast<size_t>(*axis)]);
  const auto inner = static_cast<size_t>(dense_strides(x.type.shape)[static_cast<size_t>(*axis)]);
  std::vector<double>& y = ctx.output(0).floats;
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t c = i / inner % channels;
    const double normal =
        (x.floats[i] - ctx.input(3).floats[c]) / std::sqrt(ctx.input(4).floats[c] + eps);
    y[i] = normal * ctx.input(1).floats[c] + ctx.input(2).floats[c];
  }
  return true;
}

ValueId cast_to(RewriteContext& ctx, ValueId value, DType dtype) {
  if (ctx.type(value).dtype == dtype) return value;
  return ctx.emit("cast", {value}, {{"to", std::string(name_of(dtype))}});
}

bool decompose(RewriteContext& ctx) {
  const TensorType x = ctx.type(ctx.input(0));
  const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), x.shape.size());
  if (!axis) return false;
  const DType compute = x.dtype == DType::f64 ? DType::f64 : DType::f32;
  std::array<ValueId, kInputs> inputs{};
  for (size_t i = 0; i < kInputs; ++i) inputs[i] = cast_to(ctx, ctx.input(i), compute);
  const ValueId shifted = ctx.emit("affine", {inputs[4]}, {{"add", ctx.attrs().real("eps")}});
  const ValueId inv_std = ctx.emit("rsqrt", {shifted});
  ValueId scale = ctx.emit("mul", {inputs[1], inv_std});
  const ValueId scaled_mean = ctx.emit("mul", {inputs[3], scale});
  ValueId shift = ctx.emit("sub", {inputs[2], scaled_mean});
  const size_t after = x.shape.size() - 1 - static_cast<size_t>(*axis);
  if (after > 0) {
    Ints shape(after + 1, 1);
    shape[0] = x.shape[static_cast<size_t>(*axis)];
    scale = ctx.emit("reshape", {scale}, {{"shape", shape}});
    shift = ctx.emit("reshape", {shift}, {{"shape", shape}});
  }
  const ValueId scaled = ctx.emit("mul", {inputs[0], scale});
  const ValueId normal = ctx.emit("add", {scaled, shift});
  ctx.replace_output(0, cast_to(ctx, normal, x.dtype));
  return true;
}

constexpr std::array kAttrs = {
    AttrSpec{.name = "axis", .type = AttrType::Int, .default_text = "1"},
    AttrSpec{.name = "eps", .type = AttrType::Float, .default_text = "1e-5", .minimum = 0},
    AttrSpec{.name = "training", .type = AttrType::Bool, .default_text = "false"},
    // Both concern the running statistics, which only training updates.
    AttrSpec{.name = "momentum",
             .type = AttrType::Float,
             .default_text = "0.1",
             .minimum = 0,
             .maximum = 1},
    AttrSpec{.name = "unbiased", .type = AttrType::Bool, .default_text = "true"},
};

constexpr std::array kOps = {
    OpDef{.name = "batch_norm",
          .signature = "batch_norm(x, gamma, beta, mean, var; axis=1, eps=1e-5, training=false, "
                       "momentum=0.1, unbiased=true) -> y",
          .inputs = {kInputs, kInputs},
          .outputs = {1, 5},
          .attrs = kAttrs,
          .infer = infer,
          .evaluate = evaluate,
          .decompose = decompose},
};

}  // namespace

std::span<const OpDef> batch_norm_ops() {
  return kOps;
}

}  // namespace rlx
