// SPDX-License-Identifier: Apache-2.0
// activation_backward and relu_backward (ops.md 16.1): dy f'(x) for every unary op f, one row each
// of expression and f64 definition. Elementwise ops, so that they join regions.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/support/check.h"
#include "compiler/support/special_functions.h"

namespace rlx {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Parameter {
  std::string_view name;
  double absent = 0;  // its value where it is not written
};
constexpr size_t kMostParameters = 2;
using Parameters = std::array<Parameter, kMostParameters>;

// f' as a definition, of x and the parameters in the row's order.
using Slope = double (*)(double x, const double* a);

struct SlopeRow {
  std::string_view kind;
  // Of dy f'(x): "$0" is x, "$1" dy, "{name}" a parameter.
  std::string_view text;
  Slope slope;
  Parameters parameters = {};
};

double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}
double gelu_tanh_slope(double x) {
  const double c = std::sqrt(2 / M_PI);
  const double t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}
double mish_slope(double x) {
  const double w = std::tanh(std::log1p(std::exp(-std::fabs(x))) + std::max(x, 0.0));
  return w + x * logistic(x) * (1 - w * w);
}

double inverse_erf_slope(double x) {
  const double y = inverse_erf(x);
  return std::exp(y * y) / M_2_SQRTPI;
}
double inverse_normal_slope(double p) {
  const double y = inverse_normal(p);
  return std::sqrt(2 * M_PI) * std::exp(y * y / 2);
}
double i1e_slope(double x) {
  return x == 0 ? 0.5 : scaled_bessel_i0(x) - scaled_bessel_i1(x) * (std::copysign(1, x) + 1 / x);
}

#define RLX_SLOPE(expression) \
  [](double x, [[maybe_unused]] const double* a) -> double { return expression; }

constexpr SlopeRow kSlopes[] = {
    {"neg", "(-$1)", RLX_SLOPE(x != x ? x : -1)},
    {"abs", "($1 * rlx_sign($0))", RLX_SLOPE((x > 0) - (x < 0))},
    {"sign", "{0}", RLX_SLOPE(0 * (x == x))},
    {"floor", "{0}", RLX_SLOPE(0 * (x == x))},
    {"ceil", "{0}", RLX_SLOPE(0 * (x == x))},
    {"trunc", "{0}", RLX_SLOPE(0 * (x == x))},
    {"round", "({ste} * $1)", RLX_SLOPE(a[0] + 0 * (x == x)), {{{"ste", 0}}}},
    {"sqrt", "($1 * ({0.5} * rlx_rsqrt($0)))", RLX_SLOPE(0.5 / std::sqrt(x))},
    {"rsqrt", "($1 * ({-0.5} * rlx_rsqrt($0) / $0))", RLX_SLOPE(-0.5 / (x * std::sqrt(x)))},
    {"reciprocal", "(-($1 / ($0 * $0)))", RLX_SLOPE(-1 / (x * x))},
    {"square", "($1 * ({2} * $0))", RLX_SLOPE(2 * x)},
    {"exp", "($1 * rlx_exp($0))", RLX_SLOPE(std::exp(x))},
    {"exp2", "($1 * (rlx_exp2($0) * {0.6931471805599453}))", RLX_SLOPE(std::exp2(x) * M_LN2)},
    {"expm1", "($1 * rlx_exp($0))", RLX_SLOPE(std::exp(x))},
    {"log", "($1 / $0)", RLX_SLOPE(1 / x)},
    {"log2", "($1 / ($0 * {0.6931471805599453}))", RLX_SLOPE(1 / (x * M_LN2))},
    {"log10", "($1 / ($0 * {2.302585092994046}))", RLX_SLOPE(1 / (x * M_LN10))},
    {"log1p", "($1 / ({1} + $0))", RLX_SLOPE(1 / (1 + x))},
    {"sin", "($1 * rlx_cos($0))", RLX_SLOPE(std::cos(x))},
    {"cos", "(-($1 * rlx_sin($0)))", RLX_SLOPE(-std::sin(x))},
    {"tan", "($1 * ({1} + rlx_tan($0) * rlx_tan($0)))", RLX_SLOPE(1 / (std::cos(x) * std::cos(x)))},
    {"asin", "($1 * rlx_rsqrt(({1} - $0) * ({1} + $0)))", RLX_SLOPE(1 / std::sqrt(1 - x * x))},
    {"acos", "(-($1 * rlx_rsqrt(({1} - $0) * ({1} + $0))))", RLX_SLOPE(-1 / std::sqrt(1 - x * x))},
    {"atan", "($1 / ({1} + $0 * $0))", RLX_SLOPE(1 / (1 + x * x))},
    {"sinh", "($1 * rlx_cosh($0))", RLX_SLOPE(std::cosh(x))},
    {"cosh", "($1 * rlx_sinh($0))", RLX_SLOPE(std::sinh(x))},
    {"tanh", "($1 * ({1} - rlx_tanh($0) * rlx_tanh($0)))",
     RLX_SLOPE(1 / (std::cosh(x) * std::cosh(x)))},
    {"asinh", "($1 * rlx_rsqrt({1} + $0 * $0))", RLX_SLOPE(1 / std::sqrt(1 + x * x))},
    {"acosh", "($1 * rlx_rsqrt(($0 - {1}) * ($0 + {1})))", RLX_SLOPE(1 / std::sqrt(x * x - 1))},
    {"atanh", "($1 / (({1} - $0) * ({1} + $0)))", RLX_SLOPE(1 / (1 - x * x))},
    {"erf", "($1 * ({1.1283791670955126} * rlx_exp(-($0 * $0))))",
     RLX_SLOPE(M_2_SQRTPI* std::exp(-x* x))},
    {"lgamma", "($1 * rlx_digamma($0))", RLX_SLOPE(digamma(x))},
    {"digamma", "($1 * rlx_trigamma($0))", RLX_SLOPE(trigamma(x))},
    {"erfinv", "($1 * ({0.8862269254527580} * rlx_exp(rlx_erfinv($0) * rlx_erfinv($0))))",
     RLX_SLOPE(inverse_erf_slope(x))},
    {"erfcx", "($1 * ({2} * $0 * rlx_erfcx($0) - {1.1283791670955126}))",
     RLX_SLOPE(2 * x * scaled_erfc(x) - M_2_SQRTPI)},
    {"ndtri", "($1 * ({2.5066282746310002} * rlx_exp({0.5} * rlx_ndtri($0) * rlx_ndtri($0))))",
     RLX_SLOPE(inverse_normal_slope(x))},
    {"i0e", "($1 * (rlx_i1e($0) - rlx_sign($0) * rlx_i0e($0)))",
     RLX_SLOPE(scaled_bessel_i1(x) - ((x > 0) - (x < 0)) * scaled_bessel_i0(x))},
    {"i1e", "($1 * ($0 == {0} ? {0.5} : rlx_i0e($0) - rlx_i1e($0) * (rlx_sign($0) + {1} / $0)))",
     RLX_SLOPE(i1e_slope(x))},
    {"sigmoid", "($1 * (rlx_sigmoid($0) * rlx_sigmoid(-$0)))",
     RLX_SLOPE(logistic(x) * (1 - logistic(x)))},
    {"log_sigmoid", "($1 * rlx_sigmoid(-$0))", RLX_SLOPE(1 - logistic(x))},
    {"relu", "($0 > {0} ? $1 : {0})", RLX_SLOPE(x > 0)},
    {"leaky_relu",
     "($0 > {0} ? $1 : {alpha} * $1)",
     RLX_SLOPE(x > 0 ? 1 : a[0]),
     {{{"alpha", 0.01}}}},
    {"elu",
     "($0 > {0} ? $1 : $1 * ({alpha} * rlx_exp($0)))",
     RLX_SLOPE(x > 0 ? 1 : a[0] * std::exp(x)),
     {{{"alpha", 1}}}},
    {"celu",
     "($0 > {0} ? $1 : $1 * rlx_exp($0 / {alpha}))",
     RLX_SLOPE(x > 0 ? 1 : std::exp(x / a[0])),
     {{{"alpha", 1}}}},
    {"selu",
     "({gamma} * ($0 > {0} ? $1 : $1 * ({alpha} * rlx_exp($0))))",
     RLX_SLOPE(a[1] * (x > 0 ? 1 : a[0] * std::exp(x))),
     {{{"alpha", 1.6732632423543772}, {"gamma", 1.0507009873554805}}}},
    {"gelu",
     "($1 * ({0.5} * ({1} + rlx_erf($0 * {0.7071067811865476})) + $0 * ({0.3989422804014327} * "
     "rlx_exp({-0.5} * $0 * $0))))",
     RLX_SLOPE(0.5 * std::erfc(-x * M_SQRT1_2) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI))},
    {"gelu_tanh",
     "($1 * (rlx_sigmoid({1.5957691216057308} * $0 * ({1} + {0.044715} * $0 * $0)) * ({1} + $0 * "
     "rlx_sigmoid({-1.5957691216057308} * $0 * ({1} + {0.044715} * $0 * $0)) * "
     "({1.5957691216057308} * ({1} + {0.134145} * $0 * $0)))))",
     RLX_SLOPE(gelu_tanh_slope(x))},
    {"silu", "($1 * (rlx_sigmoid($0) * ({1} + $0 * rlx_sigmoid(-$0))))",
     RLX_SLOPE(logistic(x) * (1 + x * (1 - logistic(x))))},
    {"swish",
     "($1 * (rlx_sigmoid({alpha} * $0) * ({1} + {alpha} * $0 * rlx_sigmoid(-({alpha} * $0)))))",
     RLX_SLOPE(logistic(a[0] * x) * (1 + a[0] * x * (1 - logistic(a[0] * x)))),
     {{{"alpha", 1}}}},
    {"mish",
     "($1 * (rlx_tanh(rlx_softplus($0, {1})) + $0 * rlx_sigmoid($0) * ({1} - "
     "rlx_tanh(rlx_softplus($0, {1})) * rlx_tanh(rlx_softplus($0, {1})))))",
     RLX_SLOPE(mish_slope(x))},
    {"softplus", "($1 * rlx_sigmoid({beta} * $0))", RLX_SLOPE(logistic(a[0] * x)), {{{"beta", 1}}}},
    {"softsign", "($1 / (({1} + rlx_abs($0)) * ({1} + rlx_abs($0))))",
     RLX_SLOPE(1 / ((1 + std::fabs(x)) * (1 + std::fabs(x))))},
    {"hard_sigmoid",
     "({alpha} * $0 + {beta} > {0} && {alpha} * $0 + {beta} < {1} ? {alpha} * $1 : {0})",
     RLX_SLOPE(a[0] * x + a[1] > 0 && a[0] * x + a[1] < 1 ? a[0] : 0),
     {{{"alpha", 0.2}, {"beta", 0.5}}}},
    {"hard_swish", "($0 > {-3} ? ($0 < {3} ? $1 * (({2} * $0 + {3}) / {6}) : $1) : {0})",
     RLX_SLOPE(x > -3 ? (x < 3 ? (2 * x + 3) / 6 : 1) : 0)},
    {"thresholded_relu", "($0 > {alpha} ? $1 : {0})", RLX_SLOPE(x > a[0]), {{{"alpha", 1}}}},
    {"shrink",
     "($0 < -{lambd} || $0 > {lambd} ? $1 : {0})",
     RLX_SLOPE(x<-a[0] || x> a[0]),
     {{{"lambd", 0.5}, {"bias", 0}}}},
    {"clamp",
     "($0 >= {min} && $0 <= {max} ? $1 : {0})",
     RLX_SLOPE(x >= a[0] && x <= a[1]),
     {{{"min", -kInfinity}, {"max", kInfinity}}}},
    {"affine", "({mul} * $1)", RLX_SLOPE(a[0] + 0 * (x == x)), {{{"mul", 1}, {"add", 0}}}},
    {"powf",
     "($1 * ({exponent} * rlx_pow($0, {less})))",
     RLX_SLOPE(a[0] * std::pow(x, a[0] - 1)),
     {{{"exponent", 1}}}},
};

#undef RLX_SLOPE

const SlopeRow* find_slope(std::string_view kind) {
  const auto found = std::find_if(std::begin(kSlopes), std::end(kSlopes),
                                  [kind](const SlopeRow& row) { return row.kind == kind; });
  return found == std::end(kSlopes) ? nullptr : &*found;
}

std::string kind_names() {
  std::string names;
  for (const SlopeRow& row : kSlopes) names += (names.empty() ? "" : ", ") + std::string(row.kind);
  return names;
}

std::string kind_of(std::string_view op, const AttributeReader& attrs) {
  return op == "relu_backward" ? "relu" : attrs.text("kind");
}

double parameter(const AttributeReader& attrs, const Parameter& parameter) {
  if (!attrs.has(parameter.name)) return parameter.absent;
  if (parameter.name == "ste") return attrs.flag("ste") ? 1 : 0;
  return attrs.real(parameter.name);
}

bool is_parameter(const SlopeRow& row, std::string_view name) {
  return std::any_of(row.parameters.begin(), row.parameters.end(),
                     [name](const Parameter& known) { return known.name == name; });
}

bool infer_activation_backward(InferContext& ctx) {
  if (!check_dtype(ctx, 0, DTypeSet::Float)) return false;
  if (ctx.input(1) != ctx.input(0)) {
    return ctx.fail(DiagCode::BadShape, "dy is " + to_string(ctx.input(1)) + ", wanted " +
                                            to_string(ctx.input(0)) + " as x");
  }
  const std::string kind = kind_of(ctx.node().op, ctx.attrs());
  const SlopeRow* row = find_slope(kind);
  if (row == nullptr) {
    return ctx.fail(DiagCode::BadAttribute,
                    "kind is \"" + kind + "\"; wanted one of " + kind_names());
  }
  for (const auto& [name, value] : ctx.node().attributes) {
    if (name == "kind" || is_parameter(*row, name)) continue;
    return ctx.fail(DiagCode::BadAttribute, "kind \"" + kind + "\" has no attribute " + name);
  }
  if (row->kind == "powf" && !ctx.attrs().has("exponent"))
    return ctx.fail(DiagCode::BadAttribute, "kind \"powf\" wants the attribute exponent");
  ctx.set_output(0, ctx.input(0));
  return true;
}

bool evaluate_activation_backward(EvaluateContext& ctx) {
  const SlopeRow& row = *find_slope(kind_of(ctx.node().op, ctx.attrs()));
  const Tensor& x = ctx.input(0);
  std::array<double, kMostParameters> values{};
  for (size_t i = 0; i < values.size(); ++i) {
    if (row.parameters.at(i).name.empty()) continue;
    const double value = parameter(ctx.attrs(), row.parameters.at(i));
    values.at(i) = x.type.dtype == DType::f64 ? value : static_cast<float>(value);
  }
  for (size_t i = 0; i < x.floats.size(); ++i) {
    const double dy = ctx.input(1).floats[i];
    const double slope = row.slope(x.floats[i], values.data());
    // What a ramp does not pass is no product: an infinite dy gives 0 there.
    ctx.output(0).floats[i] = slope == 0 ? 0 : dy * slope;
  }
  return true;
}

std::string activation_backward_text(const ScalarContext& ctx, std::string_view op) {
  const SlopeRow& row = *find_slope(kind_of(op, ctx.attrs()));
  const DType dtype = ctx.operand_dtype(0);
  std::string text(row.text);
  const auto put = [&](const std::string& name, double value) {
    const std::string wanted = "{" + name + "}";
    for (size_t at = 0; (at = text.find(wanted, at)) != std::string::npos;)
      text.replace(at, wanted.size(), literal(dtype, value));
  };
  for (const Parameter& known : row.parameters) {
    if (!known.name.empty()) put(std::string(known.name), parameter(ctx.attrs(), known));
  }
  if (row.kind == "powf") put("less", ctx.attrs().real("exponent") - 1);
  return fill_template(text, ctx);
}

constexpr AttrSpec float_of(std::string_view name) {
  return {.name = name, .type = AttrType::Float};
}
constexpr std::array kActivationAttrs = {
    AttrSpec{.name = "kind", .type = AttrType::String, .required = true},
    float_of("alpha"),
    float_of("beta"),
    float_of("gamma"),
    float_of("lambd"),
    float_of("bias"),
    float_of("min"),
    float_of("max"),
    float_of("mul"),
    float_of("add"),
    float_of("exponent"),
    AttrSpec{.name = "ste", .type = AttrType::Bool},
};

constexpr std::array kActivationBackwardOps = {
    OpDef{.name = "activation_backward",
          .signature = "activation_backward(x, dy; kind, its attributes) -> dx",
          .inputs = {2, 2},
          .outputs = {1, 1},
          .attrs = kActivationAttrs,
          .infer = infer_activation_backward,
          .evaluate = evaluate_activation_backward,
          .lower = lower_elementwise,
          .scalar =
              [](const ScalarContext& ctx) {
                return activation_backward_text(ctx, "activation_backward");
              }},
    OpDef{.name = "relu_backward",
          .signature = "relu_backward(x, dy) -> dx",
          .inputs = {2, 2},
          .outputs = {1, 1},
          .infer = infer_activation_backward,
          .evaluate = evaluate_activation_backward,
          .lower = lower_elementwise,
          .scalar =
              [](const ScalarContext& ctx) {
                return activation_backward_text(ctx, "relu_backward");
              }},
};

}  // namespace

std::span<const OpDef> activation_backward_ops() {
  return kActivationBackwardOps;
}

}  // namespace rlx
