// SPDX-License-Identifier: Apache-2.0
// sgd, adam and clip_grad_norm (ops.md 16.9): compositions over tensors that are states of a
// training step, whose new values take the place of the old ones.
#include <array>
#include <cmath>

#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/op_def.h"

namespace rlx {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

constexpr AttrSpec number_of(std::string_view name, std::string_view text, double minimum,
                             double maximum = std::numeric_limits<double>::infinity()) {
  return {.name = name,
          .type = AttrType::Float,
          .default_text = text,
          .minimum = minimum,
          .maximum = maximum};
}
constexpr AttrSpec switch_of(std::string_view name) {
  return {.name = name, .type = AttrType::Bool, .default_text = "false"};
}

// ---- what both have in common ----

bool check_like(InferContext& ctx, size_t input, const char* name, const TensorType& wanted) {
  if (!ctx.has_input(input) || ctx.input(input) == wanted) return true;
  return ctx.fail(DiagCode::BadShape, std::string(name) + " is " + to_string(ctx.input(input)) +
                                          ", wanted " + to_string(wanted));
}

bool check_scalar(InferContext& ctx, size_t input, const char* name, bool integers) {
  if (!ctx.has_input(input)) return true;
  const TensorType& type = ctx.input(input);
  const bool good = is_float(type.dtype) || (integers && is_integer(type.dtype));
  if (good && type.shape.empty()) return true;
  return ctx.fail(DiagCode::BadShape, std::string(name) + " is " + to_string(type) +
                                          ", wanted a scalar " + (integers ? "number" : "float"));
}

// Moments and sums are f32, of f64 parameters f64.
TensorType moment_type(const TensorType& p) {
  return {p.dtype == DType::f64 ? DType::f64 : DType::f32, p.shape};
}

bool check_parameter(InferContext& ctx) {
  if (!check_float_input(ctx, 0, "p")) return false;
  if (is_float(ctx.dtype(1)) && ctx.shape(1) == ctx.shape(0)) return true;
  return ctx.fail(DiagCode::BadShape, "g is " + to_string(ctx.input(1)) +
                                          ", wanted a float gradient of the shape of p, " +
                                          to_string(ctx.shape(0)));
}

double scalar_of(const EvaluateContext& ctx, size_t input, double absent) {
  if (!ctx.has_input(input)) return absent;
  const Tensor& tensor = ctx.input(input);
  return tensor.is_float() ? tensor.floats.at(0) : static_cast<double>(tensor.integers.at(0));
}

// Nodes of an update, in the type of its moments.
class Update {
 public:
  Update(RewriteContext& ctx, size_t lr_input)
      : ctx_(ctx), dtype_(moment_type(ctx.type(ctx.input(0))).dtype) {
    has_rate_ = ctx.has_input(lr_input);
    if (has_rate_) rate_ = ctx.cast(ctx.input(lr_input), dtype_);
  }
  [[nodiscard]] std::optional<ValueId> given(size_t input) const {
    return ctx_.has_input(input) ? std::optional(ctx_.input(input)) : std::nullopt;
  }
  ValueId wide(ValueId x) { return ctx_.cast(x, dtype_); }
  ValueId add(ValueId a, ValueId b) { return ctx_.emit("add", {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return ctx_.emit("sub", {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return ctx_.emit("mul", {a, b}); }
  ValueId div(ValueId a, ValueId b) { return ctx_.emit("div", {a, b}); }
  ValueId times(ValueId x, double factor) { return ctx_.affine(x, factor); }
  // a * ka + b * kb
  ValueId mix(ValueId a, double ka, ValueId b, double kb) {
    return add(times(a, ka), times(b, kb));
  }
  // x times the learning rate, and a factor.
  ValueId by_rate(ValueId x, double factor = 1) {
    if (has_rate_) return mul(x, times(rate_, factor));
    return times(x, ctx_.attrs().real("lr") * factor);
  }

 private:
  RewriteContext& ctx_;
  DType dtype_;
  bool has_rate_ = false;  // as an input
  ValueId rate_{};
};

// ---- sgd(p, g, [v], [lr], [t]) ----

enum SgdInput : uint32_t { kSgdP, kSgdG, kSgdV, kSgdLr, kSgdT };

bool infer_sgd(InferContext& ctx) {
  if (!check_parameter(ctx)) return false;
  const TensorType moment = moment_type(ctx.input(kSgdP));
  bool good = check_like(ctx, kSgdV, "v", moment);
  good = check_scalar(ctx, kSgdLr, "lr", false) && good;
  good = check_scalar(ctx, kSgdT, "t", true) && good;
  const bool has_momentum = ctx.attrs().real("momentum") > 0;
  if (has_momentum != ctx.has_input(kSgdV)) {
    return ctx.fail(DiagCode::BadArity, has_momentum ? "momentum wants the input v"
                                                     : "v is given, wanted a momentum above 0");
  }
  if (!has_momentum && ctx.node().outputs.size() > 1)
    return ctx.fail(DiagCode::BadArity, "without momentum there is no second output");
  if (ctx.attrs().flag("nesterov") && (!has_momentum || ctx.attrs().real("dampening") != 0))
    return ctx.fail(DiagCode::BadAttribute, "nesterov wants a momentum and no dampening");
  if (ctx.attrs().real("dampening") != 0 && !(has_momentum && ctx.has_input(kSgdT))) {
    return ctx.fail(DiagCode::BadArity,
                    "dampening wants a momentum and the input t: the first step has none");
  }
  if (!good) return false;
  ctx.set_output(0, ctx.input(kSgdP));
  if (ctx.node().outputs.size() > 1) ctx.set_output(1, moment);
  return true;
}

bool evaluate_sgd(EvaluateContext& ctx) {
  const AttributeReader& a = ctx.attrs();
  const double lr = scalar_of(ctx, kSgdLr, a.real("lr"));
  const double momentum = a.real("momentum");
  const bool is_first = scalar_of(ctx, kSgdT, 2) == 1;
  for (size_t i = 0; i < ctx.input(kSgdP).floats.size(); ++i) {
    const double p = ctx.input(kSgdP).floats[i];
    double g = ctx.input(kSgdG).floats[i];
    if (a.flag("maximize")) g = -g;
    g += a.real("weight_decay") * p;
    double step = g;
    if (momentum > 0) {
      const double v =
          is_first ? g : momentum * ctx.input(kSgdV).floats[i] + (1 - a.real("dampening")) * g;
      step = a.flag("nesterov") ? g + momentum * v : v;
      if (ctx.output_count() > 1) ctx.output(1).floats[i] = v;
    }
    ctx.output(0).floats[i] = p - lr * step;
  }
  return true;
}

bool decompose_sgd(RewriteContext& ctx) {
  const AttributeReader& a = ctx.attrs();
  Update to(ctx, kSgdLr);
  const DType dtype = ctx.dtype(ctx.input(kSgdP));
  const ValueId p = to.wide(ctx.input(kSgdP));
  const double momentum = a.real("momentum");
  const double weight_decay = a.real("weight_decay");
  ValueId g = to.times(to.wide(ctx.input(kSgdG)), a.flag("maximize") ? -1 : 1);
  if (weight_decay != 0) g = to.add(g, to.times(p, weight_decay));
  ValueId step = g;
  if (momentum > 0) {
    ValueId v = to.mix(*to.given(kSgdV), momentum, g, 1 - a.real("dampening"));
    if (a.real("dampening") != 0) {
      const ValueId t = ctx.cast(ctx.input(kSgdT), DType::f32);
      v = ctx.emit("where", {ctx.emit("eq", {t, ctx.scalar(DType::f32, 1)}), g, v});
    }
    step = a.flag("nesterov") ? to.add(g, to.times(v, momentum)) : v;
    if (ctx.node().outputs.size() > 1) ctx.replace_output(1, v);
  }
  ctx.replace_output(0, ctx.cast(to.sub(p, to.by_rate(step)), dtype));
  return true;
}

// ---- adam(p, g, m, v, t, [lr], [master]) ----

enum AdamInput : uint32_t { kAdamP, kAdamG, kAdamM, kAdamV, kAdamT, kAdamLr, kAdamMaster };

bool infer_adam(InferContext& ctx) {
  if (!check_parameter(ctx)) return false;
  const TensorType moment = moment_type(ctx.input(kAdamP));
  bool good = check_like(ctx, kAdamM, "m", moment);
  good = check_like(ctx, kAdamV, "v", moment) && good;
  good = check_like(ctx, kAdamMaster, "master", moment) && good;
  good = check_scalar(ctx, kAdamT, "t", true) && good;
  good = check_scalar(ctx, kAdamLr, "lr", false) && good;
  if (!good) return false;
  if (ctx.node().outputs.size() > 3 && !ctx.has_input(kAdamMaster))
    return ctx.fail(DiagCode::BadArity, "the fourth output is the new master, which is no input");
  ctx.set_output(0, ctx.input(kAdamP));
  for (size_t i = 1; i < ctx.node().outputs.size(); ++i) ctx.set_output(i, moment);
  return true;
}

bool evaluate_adam(EvaluateContext& ctx) {
  const AttributeReader& a = ctx.attrs();
  const double lr = scalar_of(ctx, kAdamLr, a.real("lr"));
  const double t = scalar_of(ctx, kAdamT, 1);
  const double beta1 = a.real("beta1");
  const double beta2 = a.real("beta2");
  const double decay = a.real("weight_decay");
  const Tensor& parameters = ctx.input(ctx.has_input(kAdamMaster) ? kAdamMaster : kAdamP);
  for (size_t i = 0; i < parameters.floats.size(); ++i) {
    double p = parameters.floats[i];
    double g = ctx.input(kAdamG).floats[i];
    if (a.flag("maximize")) g = -g;
    if (a.flag("decoupled")) {
      p *= 1 - lr * decay;
    } else {
      g += decay * p;
    }
    const double m = beta1 * ctx.input(kAdamM).floats[i] + (1 - beta1) * g;
    const double v = beta2 * ctx.input(kAdamV).floats[i] + (1 - beta2) * g * g;
    const double m_hat = m / (1 - std::pow(beta1, t));
    const double v_hat = v / (1 - std::pow(beta2, t));
    p -= lr * m_hat / (std::sqrt(v_hat) + a.real("eps"));
    const std::array<double, 4> results = {p, m, v, p};
    for (size_t k = 0; k < ctx.output_count(); ++k) ctx.output(k).floats[i] = results.at(k);
  }
  return true;
}

// 1 - beta^t, which is small where t is: no difference of numbers near 1.
ValueId bias_correction(RewriteContext& ctx, double beta, ValueId t) {
  return ctx.affine(ctx.emit("expm1", {ctx.affine(t, std::log(beta))}), -1);
}

bool decompose_adam(RewriteContext& ctx) {
  const AttributeReader& a = ctx.attrs();
  Update to(ctx, kAdamLr);
  const ValueId given = ctx.input(ctx.has_input(kAdamMaster) ? kAdamMaster : kAdamP);
  const ValueId t = to.wide(ctx.input(kAdamT));
  const double decay = a.real("weight_decay");
  ValueId p = to.wide(given);
  ValueId g = to.times(to.wide(ctx.input(kAdamG)), a.flag("maximize") ? -1 : 1);
  if (decay != 0 && !a.flag("decoupled")) g = to.add(g, to.times(p, decay));
  const ValueId m = to.mix(*to.given(kAdamM), a.real("beta1"), g, 1 - a.real("beta1"));
  const ValueId v =
      to.mix(*to.given(kAdamV), a.real("beta2"), ctx.emit("square", {g}), 1 - a.real("beta2"));
  const ValueId m_hat = to.div(m, bias_correction(ctx, a.real("beta1"), t));
  const ValueId v_hat = to.div(v, bias_correction(ctx, a.real("beta2"), t));
  const ValueId root = ctx.affine(ctx.emit("sqrt", {v_hat}), 1, a.real("eps"));
  if (decay != 0 && a.flag("decoupled")) p = to.sub(p, to.by_rate(p, decay));
  p = to.sub(p, to.by_rate(to.div(m_hat, root)));
  const std::array<ValueId, 4> results = {ctx.cast(p, ctx.dtype(ctx.input(kAdamP))), m, v, p};
  const size_t count = ctx.node().outputs.size();
  for (size_t i = 0; i < count; ++i) ctx.replace_output(i, results.at(i));
  return true;
}

// ---- clip_grad_norm(g0, ...) ----

bool infer_clip(InferContext& ctx) {
  const size_t count = ctx.input_count();
  if (ctx.node().outputs.size() != count && ctx.node().outputs.size() != count + 1) {
    return ctx.fail(DiagCode::BadArity, std::to_string(ctx.node().outputs.size()) +
                                            " outputs, wanted one for each of the " +
                                            std::to_string(count) + " gradients, and the norm");
  }
  const bool wide = ctx.dtype(0) == DType::f64;
  for (size_t i = 0; i < count; ++i) {
    if (!check_float_input(ctx, i, "g" + std::to_string(i))) return false;
    if ((ctx.dtype(i) == DType::f64) != wide)
      return ctx.fail(DiagCode::BadDtype, "gradients are f64 and of other types, wanted either");
    ctx.set_output(i, ctx.input(i));
  }
  if (ctx.node().outputs.size() > count)
    ctx.set_output(count, {wide ? DType::f64 : DType::f32, {}});
  return true;
}

bool evaluate_clip(EvaluateContext& ctx) {
  double squares = 0;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    for (const double g : ctx.input(i).floats) squares += g * g;
  }
  const double norm = std::sqrt(squares);
  const double scale = std::min(1.0, ctx.attrs().real("max_norm") / (norm + 1e-6));
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    for (size_t j = 0; j < ctx.input(i).floats.size(); ++j)
      ctx.output(i).floats[j] = ctx.input(i).floats[j] * scale;
  }
  if (ctx.output_count() > ctx.input_count()) ctx.output(ctx.input_count()).floats[0] = norm;
  return true;
}

bool decompose_clip(RewriteContext& ctx) {
  std::optional<ValueId> squares;
  std::vector<ValueId> wide;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    wide.push_back(ctx.widen(ctx.input(i)));
    const Ints axes = axes_from(0, ctx.shape(wide.back()).size());
    const ValueId sum =
        axes.empty() ? ctx.emit("square", {wide.back()})
                     : ctx.reduce("reduce_sum_square", wide.back(), axes, NodeBuilder::Axes::Drop);
    squares = squares ? ctx.emit("add", {*squares, sum}) : sum;
  }
  const ValueId norm = ctx.emit("sqrt", {*squares});
  const DType dtype = ctx.dtype(norm);
  const ValueId ratio =
      ctx.emit("div", {ctx.scalar(dtype, ctx.attrs().real("max_norm")), ctx.affine(norm, 1, 1e-6)});
  const ValueId scale = ctx.emit("clamp", {ratio}, {{"max", 1.0}});
  const size_t count = ctx.input_count();
  const bool gives_norm = ctx.node().outputs.size() > count;
  for (size_t i = 0; i < count; ++i) {
    const DType to = ctx.dtype(ctx.input(i));
    ctx.replace_output(i, ctx.cast(ctx.emit("mul", {wide[i], scale}), to));
  }
  if (gives_norm) ctx.replace_output(count, norm);
  return true;
}

constexpr std::array kSgdAttrs = {
    number_of("lr", "1e-3", -kUnbounded), number_of("momentum", "0", 0),
    number_of("dampening", "0", 0, 1),    switch_of("nesterov"),
    number_of("weight_decay", "0", 0),    switch_of("maximize")};
constexpr std::array kAdamAttrs = {number_of("lr", "1e-3", -kUnbounded),
                                   number_of("beta1", "0.9", 1e-30, 1),
                                   number_of("beta2", "0.999", 1e-30, 1),
                                   number_of("eps", "1e-8", 0),
                                   number_of("weight_decay", "0", 0),
                                   switch_of("decoupled"),
                                   switch_of("maximize")};
constexpr std::array kClipAttrs = {
    AttrSpec{.name = "max_norm", .type = AttrType::Float, .required = true, .minimum = 0}};
constexpr std::array<uint32_t, 3> kSgdOptional = {kSgdV, kSgdLr, kSgdT};
constexpr std::array<uint32_t, 2> kAdamOptional = {kAdamLr, kAdamMaster};

constexpr std::array kOptimiserOps = {
    OpDef{.name = "sgd",
          .signature =
              "sgd(p, g, [v], [lr], [t]; lr=1e-3, momentum=0, dampening=0, nesterov=false, "
              "weight_decay=0, maximize=false) -> p', [v']",
          .inputs = {2, 5},
          .outputs = {1, 2},
          .attrs = kSgdAttrs,
          .infer = infer_sgd,
          .evaluate = evaluate_sgd,
          .decompose = decompose_sgd,
          .optional_inputs = kSgdOptional},
    OpDef{.name = "adam",
          .signature = "adam(p, g, m, v, t, [lr], [master]; lr=1e-3, beta1=0.9, beta2=0.999, "
                       "eps=1e-8, weight_decay=0, decoupled=false, maximize=false) -> p', m', v', "
                       "[master']",
          .inputs = {5, 7},
          .outputs = {1, 4},
          .attrs = kAdamAttrs,
          .infer = infer_adam,
          .evaluate = evaluate_adam,
          .decompose = decompose_adam,
          .optional_inputs = kAdamOptional},
    OpDef{.name = "clip_grad_norm",
          .signature = "clip_grad_norm(g0, ...; max_norm) -> g0', ..., [norm]",
          .inputs = {1, kUnlimited},
          .outputs = {1, kUnlimited},
          .attrs = kClipAttrs,
          .infer = infer_clip,
          .evaluate = evaluate_clip,
          .decompose = decompose_clip},
};

}  // namespace

std::span<const OpDef> optimisers_ops() {
  return kOptimiserOps;
}

}  // namespace rlx
