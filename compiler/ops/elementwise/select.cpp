// SPDX-License-Identifier: Apache-2.0
// Elementwise ops with more than two operands, or optional ones: where, clamp, prelu, fma
// (ops.md 2.2, 2.3).
#include <algorithm>
#include <cmath>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/region_codegen.h"

namespace rlx {
namespace {

// ---- where(cond, a, b) ----

bool infer_where(InferContext& ctx) {
  if (!check_dtype(ctx, 0, DTypeSet::NumberOrBool) || !check_dtype(ctx, 1, DTypeSet::Element) ||
      !check_dtype(ctx, 2, DTypeSet::Element))
    return false;
  if (!check_equal_dtypes(ctx, 1)) return false;
  const std::optional<Shape> shape = infer_broadcast(ctx);
  if (!shape) return false;
  ctx.set_output(0, {ctx.dtype(1), *shape});
  return true;
}

bool evaluate_where(EvaluateContext& ctx) {
  const Tensor& condition = ctx.input(0);
  Tensor& y = ctx.output(0);
  for_each_broadcast(
      y.type.shape, {&condition.type.shape, &ctx.input(1).type.shape, &ctx.input(2).type.shape},
      [&](int64_t o, const int64_t* in) {
        const size_t taken = real_at(condition, in[0]) != 0 ? 1 : 2;  // NaN counts as true
        const Tensor& source = ctx.input(taken);
        const auto from = static_cast<size_t>(in[taken]);
        if (y.is_float()) {
          y.floats[static_cast<size_t>(o)] = source.floats[from];
        } else {
          y.integers[static_cast<size_t>(o)] = source.integers[from];
        }
      });
  return true;
}

std::string scalar_where(const ScalarContext& ctx) {
  return "(" + truth_expression(ctx.operand_dtype(0), ctx.operand(0)) + " ? " + ctx.operand(1) +
         " : " + ctx.operand(2) + ")";
}

// ---- clamp(x, [min], [max]) ----

constexpr AttrSpec kClampAttrs[] = {{"min", AttrType::Float, "-inf"},
                                    {"max", AttrType::Float, "inf"}};
constexpr uint32_t kClampOptional[] = {1, 2};

bool infer_clamp(InferContext& ctx) {
  if (!check_dtype(ctx, 0, DTypeSet::Number) || !check_equal_dtypes(ctx)) return false;
  const std::optional<Shape> shape = infer_broadcast(ctx);
  if (!shape) return false;
  ctx.set_output(0, {ctx.dtype(0), *shape});
  return true;
}

// NaN of a NaN, or between bounds of which one is.
double clamped(double x, double lo, double hi) {
  return std::isnan(x) || std::isnan(lo) || std::isnan(hi) ? NAN : std::min(std::max(x, lo), hi);
}

// A bound given as attribute, in the dtype of x: for floats as the dtype holds it, for integers the
// tightest whole number.
double float_bound(DType dtype, double bound) {
  return round_to(dtype, bound);
}
int64_t integer_bound(DType dtype, double bound, bool lower) {
  const IntegerRange range = integer_range(dtype);
  const double whole = lower ? std::ceil(bound) : std::floor(bound);
  if (whole <= static_cast<double>(range.lowest)) return range.lowest;
  if (whole >= static_cast<double>(range.highest)) return range.highest;
  return static_cast<int64_t>(whole);
}

bool evaluate_clamp(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const DType dtype = y.type.dtype;
  const bool has_low = ctx.has_input(1);
  const bool has_high = ctx.has_input(2);
  const double low = ctx.attrs().real("min");
  const double high = ctx.attrs().real("max");
  const Shape& shape = x.type.shape;
  for_each_broadcast(
      y.type.shape,
      {&shape, has_low ? &ctx.input(1).type.shape : &shape,
       has_high ? &ctx.input(2).type.shape : &shape},
      [&](int64_t o, const int64_t* in) {
        const auto at = static_cast<size_t>(o);
        if (y.is_float()) {
          const double lo = has_low ? real_at(ctx.input(1), in[1]) : float_bound(dtype, low);
          const double hi = has_high ? real_at(ctx.input(2), in[2]) : float_bound(dtype, high);
          y.floats[at] = clamped(real_at(x, in[0]), lo, hi);
        } else {
          const int64_t lo = has_low ? ctx.input(1).integers[static_cast<size_t>(in[1])]
                                     : integer_bound(dtype, low, true);
          const int64_t hi = has_high ? ctx.input(2).integers[static_cast<size_t>(in[2])]
                                      : integer_bound(dtype, high, false);
          y.integers[at] = std::min(std::max(x.integers[static_cast<size_t>(in[0])], lo), hi);
        }
      });
  return true;
}

std::string bound_text(const ScalarContext& ctx, size_t input, bool lower) {
  const double written = ctx.attrs().real(lower ? "min" : "max");
  if (input < ctx.operand_count() && !ctx.operand(input).empty()) return ctx.operand(input);
  const DType dtype = ctx.operand_dtype(0);
  if (is_float(dtype))
    return std::isinf(written) && (written < 0) == lower
               ? ""
               : literal(dtype, float_bound(dtype, written));
  const int64_t bound = integer_bound(dtype, written, lower);
  const IntegerRange range = integer_range(dtype);
  return bound == (lower ? range.lowest : range.highest) ? "" : integer_literal(dtype, bound);
}

std::string scalar_clamp(const ScalarContext& ctx) {
  const std::string low = bound_text(ctx, 1, true);
  const std::string high = bound_text(ctx, 2, false);
  std::string text = ctx.operand(0);
  if (!low.empty()) text = "rlx_max(" + text + ", " + low + ")";
  if (!high.empty()) text = "rlx_min(" + text + ", " + high + ")";
  return text;
}

// ---- prelu(x, slope) ----

bool infer_prelu(InferContext& ctx) {
  if (!check_dtype(ctx, 0, DTypeSet::Float) || !check_equal_dtypes(ctx)) return false;
  const std::optional<Shape> shape = infer_broadcast(ctx);
  if (!shape) return false;
  if (*shape != ctx.shape(0)) {
    return ctx.fail(DiagCode::BadShape,
                    "slope of shape " + to_string(ctx.shape(1)) +
                        " does not broadcast to x of shape " + to_string(ctx.shape(0)),
                    "a slope per channel has the shape [C, 1, 1]");
  }
  ctx.set_output(0, {ctx.dtype(0), *shape});
  return true;
}

bool evaluate_prelu(EvaluateContext& ctx) {
  Tensor& y = ctx.output(0);
  for_each_broadcast(y.type.shape, {&ctx.input(0).type.shape, &ctx.input(1).type.shape},
                     [&](int64_t o, const int64_t* in) {
                       const double x = real_at(ctx.input(0), in[0]);
                       y.floats[static_cast<size_t>(o)] =
                           x >= 0 ? x : real_at(ctx.input(1), in[1]) * x;
                     });
  return true;
}

std::string scalar_prelu(const ScalarContext& ctx) {
  return fill_template("($0 >= {0} ? $0 : $1 * $0)", ctx);
}

// ---- fma(a, b, c) ----

bool infer_fma(InferContext& ctx) {
  if (ctx.dtype(0) != DType::f32 && ctx.dtype(0) != DType::f64) {
    return ctx.fail(DiagCode::BadDtype, "input 0 has dtype " + std::string(name_of(ctx.dtype(0))) +
                                            ", wanted f32 or f64");
  }
  if (!check_equal_dtypes(ctx)) return false;
  const std::optional<Shape> shape = infer_broadcast(ctx);
  if (!shape) return false;
  ctx.set_output(0, {ctx.dtype(0), *shape});
  return true;
}

bool evaluate_fma(EvaluateContext& ctx) {
  Tensor& y = ctx.output(0);
  const bool single = y.type.dtype == DType::f32;
  for_each_broadcast(
      y.type.shape, {&ctx.input(0).type.shape, &ctx.input(1).type.shape, &ctx.input(2).type.shape},
      [&](int64_t o, const int64_t* in) {
        const double a = real_at(ctx.input(0), in[0]);
        const double b = real_at(ctx.input(1), in[1]);
        const double c = real_at(ctx.input(2), in[2]);
        // One rounding is the definition, so f32 is rounded here.
        y.floats[static_cast<size_t>(o)] =
            single ? std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c))
                   : std::fma(a, b, c);
      });
  return true;
}

std::string scalar_fma(const ScalarContext& ctx) {
  return fill_template("rlx_fma($0, $1, $2)", ctx);
}

// ---- gradients: of what was taken ----

bool where_gradient(GradientContext& ctx) {
  const ValueId dy = ctx.gradient();
  const ValueId zero = ctx.scalar(ctx.dtype(dy), 0);
  if (ctx.wants(1)) ctx.give(1, ctx.emit("where", {ctx.input(0), dy, zero}));
  if (ctx.wants(2)) ctx.give(2, ctx.emit("where", {ctx.input(0), zero, dy}));
  return true;
}

// Bounds are limits, no values: they get nothing.
bool clamp_gradient(GradientContext& ctx) {
  const ValueId x = ctx.input(0);
  const ValueId dy = ctx.gradient();
  const auto bound = [&](size_t input, const char* name) {
    return ctx.has_input(input) ? ctx.input(input)
                                : ctx.scalar(ctx.dtype(x), ctx.attrs().real(name));
  };
  const ValueId above = ctx.emit("ge", {x, bound(1, "min")});
  const ValueId below = ctx.emit("le", {x, bound(2, "max")});
  ctx.give(0, ctx.emit("where", {ctx.emit("logical_and", {above, below}), dy,
                                 ctx.scalar(ctx.dtype(dy), 0)}));
  return true;
}

bool prelu_gradient(GradientContext& ctx) {
  const ValueId x = ctx.input(0);
  const ValueId dy = ctx.gradient();
  const ValueId zero = ctx.scalar(ctx.dtype(x), 0);
  const ValueId right = ctx.emit("ge", {x, zero});
  if (ctx.wants(0))
    ctx.give(0, ctx.emit("where", {right, dy, ctx.emit("mul", {dy, ctx.input(1)})}));
  if (ctx.wants(1)) ctx.give(1, ctx.emit("where", {right, zero, ctx.emit("mul", {dy, x})}));
  return true;
}

bool fma_gradient(GradientContext& ctx) {
  const ValueId dy = ctx.gradient();
  if (ctx.wants(0)) ctx.give(0, ctx.emit("mul", {dy, ctx.input(1)}));
  if (ctx.wants(1)) ctx.give(1, ctx.emit("mul", {dy, ctx.input(0)}));
  ctx.give(2, dy);
  return true;
}

}  // namespace

std::span<const OpDef> select_ops() {
  static const std::array<OpDef, 4> ops = {
      OpDef{.name = "where",
            .signature = "where(cond, a, b) -> y",
            .inputs = {3, 3},
            .infer = infer_where,
            .evaluate = evaluate_where,
            .gradient = where_gradient,
            .lower = lower_elementwise,
            .scalar = scalar_where,
            .keeps_f32 = 1u << 0},
      OpDef{.name = "clamp",
            .signature = "clamp(x, [min], [max]; min=-inf, max=inf) -> y",
            .inputs = {1, 3},
            .attrs = kClampAttrs,
            .infer = infer_clamp,
            .evaluate = evaluate_clamp,
            .gradient = clamp_gradient,
            .lower = lower_elementwise,
            .scalar = scalar_clamp,
            .optional_inputs = kClampOptional},
      OpDef{.name = "prelu",
            .signature = "prelu(x, slope) -> y",
            .inputs = {2, 2},
            .infer = infer_prelu,
            .evaluate = evaluate_prelu,
            .gradient = prelu_gradient,
            .lower = lower_elementwise,
            .scalar = scalar_prelu},
      OpDef{.name = "fma",
            .signature = "fma(a, b, c) -> y",
            .inputs = {3, 3},
            .infer = infer_fma,
            .evaluate = evaluate_fma,
            .gradient = fma_gradient,
            .lower = lower_elementwise,
            .scalar = scalar_fma},
  };
  return ops;
}

}  // namespace rlx
