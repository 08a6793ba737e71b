// SPDX-License-Identifier: Apache-2.0
// batch_norm (ops.md 4): y = (x - mean) * rsqrt(var + eps) * gamma + beta per index along `axis`.
// It has no kernel. The inference form becomes (x - mean) * scale + beta, whose scale folds to a
// constant where the statistics are weights; training takes the statistics of x by the moments
// kernel.
#include <array>
#include <cmath>

#include "compiler/ops/gradient.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/rows/moments_lower.h"

namespace rlx {
namespace {

constexpr size_t kInputs = 5;
constexpr std::array<const char*, kInputs> kInputNames = {"x", "gamma", "beta", "mean", "var"};

enum Input : uint8_t { kX, kGamma, kBeta, kMean, kVar };
enum Output : uint8_t { kY, kNewMean, kNewVar, kBatchMean, kBatchInvStd };

// The running statistics keep their type; those of the batch are f32, or f64 of f64.
void set_outputs(InferContext& ctx, const Shape& channels) {
  ctx.set_output(kY, ctx.input(kX));
  if (ctx.node().outputs.size() == 1) return;
  ctx.set_output(kNewMean, ctx.input(kMean));
  ctx.set_output(kNewVar, ctx.input(kVar));
  ctx.set_output(kBatchMean, {statistics_type(ctx.dtype(kX)), channels});
  ctx.set_output(kBatchInvStd, {statistics_type(ctx.dtype(kX)), channels});
}

bool infer_batch_norm(InferContext& ctx) {
  bool good = true;
  if (!ctx.attrs().flag("training") && ctx.node().outputs.size() > 1) {
    good = ctx.fail(
        DiagCode::BadArity,
        "has " + std::to_string(ctx.node().outputs.size()) + " outputs; the inference form has one",
        "set training=true for the statistics");
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
  if (good) set_outputs(ctx, channels);
  return good;
}

// The elements of x that share a channel.
std::vector<std::vector<size_t>> by_channel(const Shape& shape, size_t axis) {
  const auto channels = static_cast<size_t>(shape[axis]);
  const auto inner = static_cast<size_t>(dense_strides(shape)[axis]);
  std::vector<std::vector<size_t>> elements(channels);
  const auto count = static_cast<size_t>(element_count(shape));
  for (size_t i = 0; i < count; ++i) elements[i / inner % channels].push_back(i);
  return elements;
}

struct ChannelStatistics {
  double mean = 0;
  double variance = 0;
};

ChannelStatistics statistics_of(const std::vector<double>& x, const std::vector<size_t>& elements) {
  const auto n = static_cast<double>(elements.size());
  ChannelStatistics result;
  for (const size_t i : elements) result.mean += x[i];
  result.mean /= n;
  for (const size_t i : elements) result.variance += (x[i] - result.mean) * (x[i] - result.mean);
  result.variance /= n;
  return result;
}

// n / (n - 1) for the running variance; a single element keeps the biased one.
double variance_factor(const NodeContext& ctx, int64_t n) {
  const bool unbiased = ctx.attrs().flag("unbiased") && n > 1;
  return unbiased ? static_cast<double>(n) / static_cast<double>(n - 1) : 1;
}

bool evaluate_batch_norm(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(kX);
  const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), x.type.shape.size());
  if (!axis) return false;
  const double eps = ctx.attrs().real("eps");
  const double momentum = ctx.attrs().real("momentum");
  const bool training = ctx.attrs().flag("training");
  const auto channels = by_channel(x.type.shape, static_cast<size_t>(*axis));
  const auto give = [&](Output output, size_t c, double value) {
    if (ctx.output_count() > output) ctx.output(output).floats[c] = value;
  };
  for (size_t c = 0; c < channels.size(); ++c) {
    ChannelStatistics used{.mean = ctx.input(kMean).floats[c],
                           .variance = ctx.input(kVar).floats[c]};
    if (training) {
      const ChannelStatistics old = used;
      used = statistics_of(x.floats, channels[c]);
      const double running =
          used.variance * variance_factor(ctx, static_cast<int64_t>(channels[c].size()));
      give(kNewMean, c, (1 - momentum) * old.mean + momentum * used.mean);
      give(kNewVar, c, (1 - momentum) * old.variance + momentum * running);
      give(kBatchMean, c, used.mean);
      give(kBatchInvStd, c, 1 / std::sqrt(used.variance + eps));
    }
    for (const size_t i : channels[c]) {
      const double normal = (x.floats[i] - used.mean) / std::sqrt(used.variance + eps);
      ctx.output(kY).floats[i] = normal * ctx.input(kGamma).floats[c] + ctx.input(kBeta).floats[c];
    }
  }
  return true;
}

ValueId cast_to(RewriteContext& ctx, ValueId value, DType dtype) {
  if (ctx.type(value).dtype == dtype) return value;
  return ctx.emit("cast", {value}, {{"to", std::string(name_of(dtype))}});
}

// Shaped to broadcast against x along `axis`.
ValueId along_axis(RewriteContext& ctx, ValueId vector, const Shape& x, int64_t axis) {
  const size_t after = x.size() - 1 - static_cast<size_t>(axis);
  if (after == 0) return vector;
  Ints shape(after + 1, 1);
  shape[0] = x[static_cast<size_t>(axis)];
  return ctx.emit("reshape", {vector}, {{"shape", shape}});
}

// (1 - momentum) * old + momentum * batch, rounded to old's dtype.
ValueId updated(RewriteContext& ctx, ValueId old, ValueId batch, double factor) {
  const DType dtype = ctx.type(old).dtype;
  const double momentum = ctx.attrs().real("momentum");
  const ValueId wide = cast_to(ctx, old, ctx.type(batch).dtype);
  const ValueId kept = ctx.emit("affine", {wide}, {{"mul", 1 - momentum}});
  const ValueId added = ctx.emit("affine", {batch}, {{"mul", momentum * factor}});
  return cast_to(ctx, ctx.emit("add", {kept, added}), dtype);
}

bool decompose_training(RewriteContext& ctx, const TensorType& x, int64_t axis) {
  const size_t outputs = ctx.node().outputs.size();
  const Dim channels = x.shape[static_cast<size_t>(axis)];
  Ints axes;
  Dim n = 1;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    if (static_cast<int64_t>(d) == axis) continue;
    axes.push_back(static_cast<int64_t>(d));
    n *= x.shape[d];
  }
  const std::vector<ValueId> moments =
      ctx.emit_all("moments", {ctx.input(kX)}, {{"axes", axes}, {"eps", ctx.attrs().real("eps")}},
                   outputs > kNewVar ? 4 : 3);
  const ValueId gamma = along_axis(ctx, ctx.input(kGamma), x.shape, axis);
  const ValueId beta = along_axis(ctx, ctx.input(kBeta), x.shape, axis);
  const ValueId y =
      ctx.emit("standardise", {ctx.input(kX), moments[0], moments[1], moments[2], gamma, beta});
  const auto vector_of = [&](ValueId statistic) {
    return ctx.emit("reshape", {statistic}, {{"shape", Ints{channels}}});
  };
  std::vector<ValueId> results = {y};
  if (outputs > kNewMean) {
    const ValueId mean = vector_of(ctx.emit("add", {moments[0], moments[1]}));
    results.push_back(updated(ctx, ctx.input(kMean), mean, 1));
    if (outputs > kNewVar) {
      results.push_back(
          updated(ctx, ctx.input(kVar), vector_of(moments[3]), variance_factor(ctx, n)));
    }
    results.push_back(mean);
    results.push_back(vector_of(moments[2]));
  }
  for (size_t i = 0; i < outputs; ++i) ctx.replace_output(i, results[i]);
  return true;
}

bool decompose_batch_norm(RewriteContext& ctx) {
  const TensorType x = ctx.type(ctx.input(0));
  const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), x.shape.size());
  if (!axis) return false;
  if (ctx.attrs().flag("training")) return decompose_training(ctx, x, *axis);
  const DType compute = statistics_type(x.dtype);
  std::array<ValueId, kInputs> inputs{};
  for (size_t i = 0; i < kInputs; ++i) inputs[i] = cast_to(ctx, ctx.input(i), compute);
  const ValueId shifted = ctx.emit("affine", {inputs[kVar]}, {{"add", ctx.attrs().real("eps")}});
  const ValueId inv_std = ctx.emit("rsqrt", {shifted});
  const ValueId scale = ctx.emit("mul", {inputs[kGamma], inv_std});
  const auto along = [&](ValueId vector) { return along_axis(ctx, vector, x.shape, *axis); };
  // The mean goes first: behind the scale it would be rounded, which matters far from zero.
  const ValueId centred = ctx.emit("sub", {inputs[kX], along(inputs[kMean])});
  const ValueId scaled = ctx.emit("mul", {centred, along(scale)});
  const ValueId normal = ctx.emit("add", {scaled, along(inputs[kBeta])});
  ctx.replace_output(0, cast_to(ctx, normal, x.dtype));
  return true;
}

constexpr std::array kBatchNormAttrs = {
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

// The statistics that a run brings along are no parameters: they get nothing.
bool batch_norm_gradient(GradientContext& ctx) {
  for (size_t i = 1; i < ctx.node().outputs.size(); ++i) {
    if (!ctx.has_gradient(i)) continue;
    return ctx.fail(DiagCode::UnknownOp, "its statistics have no gradient",
                    "stop it: stop_gradient");
  }
  const ValueId x = ctx.widen(ctx.input(0));
  const int64_t axis = ctx.axis(ctx.attrs().integer("axis"), ctx.shape(x).size()).value();
  const bool training = ctx.attrs().flag("training");
  ValueId mean = ctx.cast(ctx.input(3), ctx.dtype(x));
  ValueId variance = ctx.cast(ctx.input(4), ctx.dtype(x));
  if (training) {
    Ints others = axes_from(0, ctx.shape(x).size());
    others.erase(others.begin() + axis);
    const ValueId kept = ctx.reduce("reduce_mean", x, others);
    const ValueId centred = ctx.emit("sub", {x, kept});
    mean = ctx.reshape(kept, {ctx.shape(x)[static_cast<size_t>(axis)]});
    variance =
        ctx.reduce("reduce_mean", ctx.emit("square", {centred}), others, NodeBuilder::Axes::Drop);
  }
  const ValueId inv_std = ctx.emit("rsqrt", {ctx.affine(variance, 1, ctx.attrs().real("eps"))});
  const std::vector<ValueId> gradients = ctx.emit_all(
      "batch_norm_backward", {ctx.input(0), ctx.input(1), ctx.gradient(), mean, inv_std},
      {{"axis", axis}, {"training", training}}, 3);
  for (size_t i = 0; i < gradients.size(); ++i) ctx.give(i, gradients[i]);
  return true;
}

constexpr std::array kBatchNormOps = {
    OpDef{.name = "batch_norm",
          .signature = "batch_norm(x, gamma, beta, mean, var; axis=1, eps=1e-5, training=false, "
                       "momentum=0.1, unbiased=true) -> y, [new_mean], [new_var], [batch_mean], "
                       "[batch_inv_std]",
          .inputs = {kInputs, kInputs},
          .outputs = {1, 5},
          .attrs = kBatchNormAttrs,
          .infer = infer_batch_norm,
          .evaluate = evaluate_batch_norm,
          .decompose = decompose_batch_norm,
          .gradient = batch_norm_gradient},
};

}  // namespace

std::span<const OpDef> batch_norm_ops() {
  return kBatchNormOps;
}

}  // namespace rlx
