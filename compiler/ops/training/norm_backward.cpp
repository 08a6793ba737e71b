// SPDX-License-Identifier: Apache-2.0
// Gradients of norms (ops.md 16.2): layer_norm, rms_norm, group_norm, layer_norm2d, instance_norm
// and batch_norm. One formula of sums over the elements that are normalised together.
#include <array>
#include <cmath>

#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/op_def.h"

namespace rlx {
namespace {

bool is_op(const NodeContext& ctx, std::string_view op) {
  return ctx.node().op == op;
}
bool is_rms(const NodeContext& ctx) {
  return is_op(ctx, "rms_norm_backward");
}
bool is_batch(const NodeContext& ctx) {
  return is_op(ctx, "batch_norm_backward");
}
// Normalised from an axis to the end; the others have a gamma per channel, which is axis 1.
bool is_tail(const NodeContext& ctx) {
  return is_rms(ctx) || is_op(ctx, "layer_norm_backward");
}

// x as it is normalised: its channels split into groups where the norm has them.
struct Normalised {
  Shape shape;
  Ints axes;    // normalised together, of `shape`
  Shape gamma;  // of the parameter, where it is given as x's norm wants it
  Shape along;  // gamma against x: broadcasts
};

int64_t group_count(const NodeContext& ctx) {
  return is_op(ctx, "group_norm_backward") ? ctx.attrs().integer("num_groups") : 1;
}

std::optional<Normalised> normalised_of(NodeContext& ctx, const Shape& x) {
  if (is_tail(ctx) || is_batch(ctx)) {
    const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), x.size());
    if (!axis) return std::nullopt;
    const auto at = static_cast<size_t>(*axis);
    if (is_tail(ctx)) {
      Shape tail(x.begin() + *axis, x.end());
      return Normalised{.shape = x, .axes = axes_from(at, x.size()), .gamma = tail, .along = tail};
    }
    Ints axes = axes_from(0, x.size());
    axes.erase(axes.begin() + *axis);
    Shape along(x.size(), 1);
    along[at] = x[at];
    return Normalised{.shape = x, .axes = axes, .gamma = {x[at]}, .along = along};
  }
  if (x.size() < 2) {
    ctx.fail(DiagCode::BadRank, "x has rank " + std::to_string(x.size()) + ", wanted [N, C, ..]");
    return std::nullopt;
  }
  Shape along(x.size(), 1);
  along[1] = x[1];
  if (is_op(ctx, "layer_norm2d_backward"))
    return Normalised{.shape = x, .axes = {1}, .gamma = {x[1]}, .along = along};
  if (is_op(ctx, "instance_norm_backward"))
    return Normalised{.shape = x, .axes = axes_from(2, x.size()), .gamma = {x[1]}, .along = along};
  const int64_t groups = group_count(ctx);
  if (!x[1].divides_by(groups)) {
    ctx.fail(DiagCode::BadShape, "num_groups=" + std::to_string(groups) + " does not divide the " +
                                     to_string(x[1]) + " channels of x");
    return std::nullopt;
  }
  Shape split = {x[0], groups, x[1] / groups};
  split.insert(split.end(), x.begin() + 2, x.end());
  return Normalised{
      .shape = split, .axes = axes_from(2, split.size()), .gamma = {x[1]}, .along = along};
}

Shape statistics_shape(const Normalised& norm) {
  Shape shape = norm.shape;
  for (const Dim& axis : norm.axes) shape[static_cast<size_t>(static_cast<int64_t>(axis))] = 1;
  return shape;
}

// Shape of dgamma and dbeta: gamma's, or the whole row's where none is given.
Shape parameter_shape(const NodeContext& ctx, const Normalised& norm, const Shape& gamma) {
  return ctx.has_input(1) ? gamma : norm.gamma;
}

bool check_statistics(InferContext& ctx, size_t input, const char* name, const Shape& wanted) {
  if (!ctx.has_input(input)) return true;
  const TensorType& type = ctx.input(input);
  const bool fits = element_count(type.shape) == element_count(wanted);
  if (is_float(type.dtype) && fits) return true;
  return ctx.fail(DiagCode::BadShape, std::string(name) + " is " + to_string(type) +
                                          ", wanted floats, as many as " + to_string(wanted));
}

bool infer_norm_backward(InferContext& ctx) {
  if (!check_float_input(ctx, 0, "x")) return false;
  const Shape& x = ctx.shape(0);
  const std::optional<Normalised> norm = normalised_of(ctx, x);
  if (!norm) return false;
  if (ctx.has_input(1) && is_tail(ctx)) {
    if (!check_broadcasts(ctx, 1, "gamma", norm->gamma)) return false;
  } else if (ctx.has_input(1) && (!is_float(ctx.dtype(1)) || ctx.shape(1) != norm->gamma)) {
    return ctx.fail(DiagCode::BadShape, "gamma is " + to_string(ctx.input(1)) +
                                            ", wanted floats of shape " + to_string(norm->gamma));
  }
  if (ctx.input(2) != ctx.input(0)) {
    return ctx.fail(DiagCode::BadShape, "dy is " + to_string(ctx.input(2)) + ", wanted " +
                                            to_string(ctx.input(0)) + " as x");
  }
  const Shape statistics = is_batch(ctx) ? norm->gamma : statistics_shape(*norm);
  if (!check_statistics(ctx, 3, is_rms(ctx) ? "inv_rms" : "mean", statistics) ||
      !check_statistics(ctx, 4, "inv_std", statistics))
    return false;
  if (ctx.has_input(3) != ctx.has_input(4) && !is_rms(ctx))
    return ctx.fail(DiagCode::BadArity, "mean and inv_std are given together or not at all");
  ctx.set_output(0, ctx.input(0));
  const DType real = ctx.has_input(1) ? ctx.dtype(1) : ctx.dtype(0);
  const Shape parameters = parameter_shape(ctx, *norm, ctx.has_input(1) ? ctx.shape(1) : Shape{});
  for (size_t i = 1; i < ctx.node().outputs.size(); ++i) ctx.set_output(i, {real, parameters});
  return true;
}

double eps_of(const NodeContext& ctx) {
  return is_batch(ctx) ? 0 : ctx.attrs().real("eps");
}
double gamma_offset(const NodeContext& ctx) {
  return is_rms(ctx) ? ctx.attrs().real("gamma_offset") : 0;
}
// The statistics are those of these elements: their own gradients count.
bool statistics_follow(const NodeContext& ctx) {
  return !is_batch(ctx) || ctx.attrs().flag("training");
}

// Of each element of x, that of gamma.
std::vector<int64_t> gamma_places(const Shape& x, const Shape& along) {
  std::vector<int64_t> places;
  for_each_broadcast(x, {&along}, [&](int64_t, const int64_t* in) { places.push_back(in[0]); });
  return places;
}

bool evaluate_norm_backward(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Tensor& dy = ctx.input(2);
  const std::optional<Normalised> norm = normalised_of(ctx, x.type.shape);
  if (!norm) return false;
  const bool tail = is_tail(ctx);
  const Shape along = tail && ctx.has_input(1) ? ctx.input(1).type.shape : norm->along;
  const std::vector<int64_t> places = gamma_places(x.type.shape, along);
  std::vector<double> gamma(static_cast<size_t>(element_count(along)), 1.0);
  if (ctx.has_input(1)) gamma = ctx.input(1).floats;
  for (double& value : gamma) value += gamma_offset(ctx);
  std::vector<double> dgamma(gamma.size(), 0.0);
  std::vector<double> dbeta(gamma.size(), 0.0);
  const RowOffsets rows = row_offsets(norm->shape, norm->axes);
  const auto n = static_cast<double>(rows.reduced.size());
  for (size_t row = 0; row < rows.kept.size(); ++row) {
    const auto at = [&](int64_t offset) { return static_cast<size_t>(rows.kept[row] + offset); };
    double mean = 0;
    double r = 0;
    if (ctx.has_input(3) && !is_rms(ctx)) {
      mean = ctx.input(3).floats[row];
      r = ctx.input(4).floats[row];
    } else {
      for (const int64_t o : rows.reduced) mean += is_rms(ctx) ? 0 : x.floats[at(o)] / n;
      double squares = 0;
      for (const int64_t o : rows.reduced) {
        squares += (x.floats[at(o)] - mean) * (x.floats[at(o)] - mean);
      }
      r = ctx.has_input(3) ? ctx.input(3).floats[row] : 1 / std::sqrt(squares / n + eps_of(ctx));
    }
    double mean_s = 0;
    double mean_sx = 0;
    for (const int64_t o : rows.reduced) {
      const double s = dy.floats[at(o)] * gamma[static_cast<size_t>(places[at(o)])];
      const double normal = (x.floats[at(o)] - mean) * r;
      mean_s += s / n;
      mean_sx += s * normal / n;
      dgamma[static_cast<size_t>(places[at(o)])] += dy.floats[at(o)] * normal;
      dbeta[static_cast<size_t>(places[at(o)])] += dy.floats[at(o)];
    }
    if (is_rms(ctx)) mean_s = 0;
    if (!statistics_follow(ctx)) mean_s = mean_sx = 0;
    for (const int64_t o : rows.reduced) {
      const double s = dy.floats[at(o)] * gamma[static_cast<size_t>(places[at(o)])];
      const double normal = (x.floats[at(o)] - mean) * r;
      ctx.output(0).floats[at(o)] = r * (s - mean_s - normal * mean_sx);
    }
  }
  if (ctx.output_count() > 1) ctx.output(1).floats = dgamma;
  if (ctx.output_count() > 2) ctx.output(2).floats = dbeta;
  return true;
}

bool decompose_norm_backward(RewriteContext& ctx) {
  const ValueId given = ctx.input(0);
  const TensorType type = ctx.type(given);
  const std::optional<Normalised> norm = normalised_of(ctx, type.shape);
  if (!norm) return false;
  const auto as_normalised = [&](ValueId value) { return ctx.reshape(value, norm->shape); };
  const auto mul = [&](ValueId a, ValueId b) { return ctx.emit("mul", {a, b}); };
  const auto sub = [&](ValueId a, ValueId b) { return ctx.emit("sub", {a, b}); };
  const auto mean = [&](ValueId value) { return ctx.reduce("reduce_mean", value, norm->axes); };
  const ValueId x = as_normalised(ctx.widen(given));
  const ValueId wide_dy = ctx.widen(ctx.input(2));
  const DType real = ctx.dtype(x);
  const bool rms = is_rms(ctx);
  const auto statistic = [&](size_t input) {
    return ctx.reshape(ctx.cast(ctx.input(input), real), statistics_shape(*norm));
  };
  ValueId centred = x;
  ValueId r{};
  const bool is_given = ctx.has_input(3);
  if (!rms) centred = sub(x, is_given ? statistic(3) : mean(x));
  if (is_given) {
    r = statistic(rms ? 3 : 4);
  } else {
    const ValueId variance = mean(ctx.emit("square", {centred}));
    r = ctx.emit("rsqrt", {ctx.affine(variance, 1, eps_of(ctx))});
  }
  const ValueId normal = mul(centred, r);
  ValueId s = wide_dy;
  Shape along = norm->along;
  if (ctx.has_input(1)) {
    if (is_tail(ctx)) along = ctx.shape(ctx.input(1));
    const ValueId gamma = ctx.reshape(ctx.cast(ctx.input(1), real), along);
    s = mul(s, ctx.affine(gamma, 1, gamma_offset(ctx)));
  } else {
    s = ctx.affine(s, 1 + gamma_offset(ctx));
  }
  s = as_normalised(s);
  ValueId inner = s;
  if (statistics_follow(ctx)) {
    if (!rms) inner = sub(inner, mean(s));
    inner = sub(inner, mul(normal, mean(mul(s, normal))));
  }
  const ValueId dx = ctx.reshape(mul(r, inner), type.shape);
  const DType parameter = ctx.has_input(1) ? ctx.dtype(ctx.input(1)) : type.dtype;
  const Shape wanted =
      parameter_shape(ctx, *norm, ctx.has_input(1) ? ctx.shape(ctx.input(1)) : Shape{});
  const auto summed = [&](ValueId value) {
    return ctx.cast(ctx.reshape(ctx.sum_to(value, along), wanted), parameter);
  };
  const size_t outputs = ctx.node().outputs.size();
  if (outputs > 2) ctx.replace_output(2, summed(wide_dy));
  if (outputs > 1) ctx.replace_output(1, summed(mul(wide_dy, ctx.reshape(normal, type.shape))));
  ctx.replace_output(0, ctx.cast(dx, type.dtype));
  return true;
}

constexpr AttrSpec eps(std::string_view text) {
  return {.name = "eps", .type = AttrType::Float, .default_text = text, .minimum = 0};
}
constexpr AttrSpec axis(std::string_view text) {
  return {.name = "axis", .type = AttrType::Int, .default_text = text};
}
constexpr std::array kLayerAttrs = {axis("-1"), eps("1e-5")};
constexpr std::array kRmsAttrs = {
    axis("-1"), eps("1e-5"),
    AttrSpec{.name = "gamma_offset", .type = AttrType::Float, .default_text = "0"}};
constexpr std::array kGroupAttrs = {AttrSpec{.name = "num_groups",
                                             .type = AttrType::Int,
                                             .required = true,
                                             .minimum = 1,
                                             .maximum = kLargestInt},
                                    eps("1e-5")};
constexpr std::array kInstanceAttrs = {eps("1e-5")};
constexpr std::array kLayer2dAttrs = {eps("1e-6")};
constexpr std::array kBatchAttrs = {
    axis("1"), AttrSpec{.name = "training", .type = AttrType::Bool, .default_text = "false"}};
constexpr std::array<uint32_t, 3> kOptional = {1, 3, 4};
constexpr std::array<uint32_t, 1> kBatchOptional = {1};

constexpr OpDef norm_op(std::string_view name, std::string_view signature, Arity inputs,
                        std::span<const AttrSpec> attrs, std::span<const uint32_t> optional) {
  return {.name = name,
          .signature = signature,
          .inputs = inputs,
          .outputs = {1, 3},
          .attrs = attrs,
          .infer = infer_norm_backward,
          .evaluate = evaluate_norm_backward,
          .decompose = decompose_norm_backward,
          .optional_inputs = optional,
          .keeps_f32 = 0b11000};
}

constexpr std::array kNormBackwardOps = {
    norm_op("layer_norm_backward",
            "layer_norm_backward(x, [gamma], dy, [mean], [inv_std]; axis=-1, eps=1e-5) -> dx, "
            "[dgamma], [dbeta]",
            {3, 5}, kLayerAttrs, kOptional),
    norm_op(
        "rms_norm_backward",
        "rms_norm_backward(x, [gamma], dy, [inv_rms]; axis=-1, eps=1e-5, gamma_offset=0) -> dx, "
        "[dgamma], [dbeta]",
        {3, 4}, kRmsAttrs, kOptional),
    norm_op("group_norm_backward",
            "group_norm_backward(x, [gamma], dy; num_groups, eps=1e-5) -> dx, [dgamma], [dbeta]",
            {3, 3}, kGroupAttrs, kBatchOptional),
    norm_op("instance_norm_backward",
            "instance_norm_backward(x, [gamma], dy; eps=1e-5) -> dx, [dgamma], [dbeta]", {3, 3},
            kInstanceAttrs, kBatchOptional),
    norm_op("layer_norm2d_backward",
            "layer_norm2d_backward(x, [gamma], dy; eps=1e-6) -> dx, [dgamma], [dbeta]", {3, 3},
            kLayer2dAttrs, kBatchOptional),
    norm_op("batch_norm_backward",
            "batch_norm_backward(x, [gamma], dy, mean, inv_std; axis=1, training=false) -> dx, "
            "[dgamma], [dbeta]",
            {5, 5}, kBatchAttrs, kBatchOptional),
};

}  // namespace

std::span<const OpDef> norm_backward_ops() {
  return kNormBackwardOps;
}

}  // namespace rlx
