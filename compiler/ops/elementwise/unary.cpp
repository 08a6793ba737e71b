// SPDX-License-Identifier: Apache-2.0
// Unary elementwise ops (ops.md 2.1): one row each gives interface, expression and f64 definition.
#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <utility>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/support/check.h"
#include "compiler/support/complex_bits.h"
#include "compiler/support/special_functions.h"

namespace rlx {
namespace {

constexpr AttrSpec kLeakyAttrs[] = {{"alpha", AttrType::Float, "0.01"}};
constexpr AttrSpec kAlphaAttrs[] = {{"alpha", AttrType::Float, "1"}};
constexpr AttrSpec kSeluAttrs[] = {{"alpha", AttrType::Float, "1.6732632423543772"},
                                   {"gamma", AttrType::Float, "1.0507009873554805"}};
constexpr AttrSpec kSoftplusAttrs[] = {{"beta", AttrType::Float, "1"}};
constexpr AttrSpec kHardSigmoidAttrs[] = {{"alpha", AttrType::Float, "0.2"},
                                          {"beta", AttrType::Float, "0.5"}};
constexpr AttrSpec kShrinkAttrs[] = {{"lambd", AttrType::Float, "0.5"},
                                     {"bias", AttrType::Float, "0"}};
constexpr AttrSpec kAffineAttrs[] = {{"mul", AttrType::Float, "1"}, {"add", AttrType::Float, "0"}};
constexpr AttrSpec kPowfAttrs[] = {{.name = "exponent", .type = AttrType::Float, .required = true}};
constexpr AttrSpec kIsInfAttrs[] = {{"detect_negative", AttrType::Bool, "true"},
                                    {"detect_positive", AttrType::Bool, "true"}};
using Attrs = std::span<const AttrSpec>;

// `a` holds the float attributes in the order of the row's specs.
using UnaryReal = double (*)(double x, const double* a);
using UnaryInteger = int64_t (*)(int64_t x);

struct UnaryRow {
  std::string_view name;
  std::string_view signature;
  Attrs attrs = {};
  DTypeSet types = DTypeSet::Float;
  std::string_view text = {};          // template for floats (and bool)
  UnaryReal real = nullptr;            // its definition
  std::string_view integer_text = {};  // template for integers
  UnaryInteger integer = nullptr;
  bool to_bool = false;                                    // result is bool; `real` gives 0 or 1
  std::string (*special)(const ScalarContext&) = nullptr;  // instead of `text`
  double (*terms)(double) = nullptr;  // the sizes of what the result is a difference of
};

double sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}
// x * gate where a gate of 0 wins over an infinite x.
double gated(double x, double gate) {
  return gate == 0 ? 0 : x * gate;
}
double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}
double clamp_unit(double x) {
  return std::isnan(x) ? x : std::min(std::max(x, 0.0), 1.0);
}
double sign(double x) {
  return std::isnan(x) ? x : static_cast<double>((x > 0) - (x < 0));
}
double gelu_tanh(double x) {
  return gated(x, sigmoid(2 * std::sqrt(2 / M_PI) * x * (1 + 0.044715 * x * x)));
}
double mish(double x) {
  if (std::isinf(x)) return x > 0 ? x : 0;
  return x * std::tanh(softplus(x));
}
double celu(double x, double alpha) {
  if (std::isnan(x)) return x;
  return std::max(0.0, x) + std::min(0.0, alpha * std::expm1(x / alpha));
}
double softsign(double x) {
  return std::isinf(x) ? std::copysign(1.0, x) : x / (1 + std::fabs(x));
}

int64_t negate(int64_t x) {
  return static_cast<int64_t>(-static_cast<uint64_t>(x));
}

// Significant bits of a float: 1 for a power of two, 24 where nothing better is known.
int significant_bits(float value) {
  if (!std::isnormal(value)) return 24;
  const uint32_t significand = (std::bit_cast<uint32_t>(value) & 0x7FFFFFu) | 0x800000u;
  return 24 - std::countr_zero(significand);
}

// x * mul + add with one rounding: products that are exact need no fma.
std::string affine_text(const ScalarContext& ctx) {
  const double mul = ctx.attrs().real("mul");
  const double add = ctx.attrs().real("add");
  const DType dtype = ctx.operand_dtype(0);
  const int x_bits = dtype == DType::f16 ? 11 : (dtype == DType::bf16 ? 8 : 24);
  if (add == 0) return fill_template("($0 * {mul})", ctx);
  const int mul_bits = significant_bits(static_cast<float>(mul));
  const bool exact = mul_bits == 1 || mul_bits + x_bits <= 24;
  if (dtype != DType::f64 && exact) return fill_template("($0 * {mul} + {add})", ctx);
  return fill_template("rlx_fma($0, {mul}, {add})", ctx);
}

std::string powf_text(const ScalarContext& ctx) {
  const double exponent = ctx.attrs().real("exponent");
  if (exponent == 1) return ctx.operand(0);
  if (exponent == 2) return fill_template("($0 * $0)", ctx);
  return fill_template("rlx_pow($0, {exponent})", ctx);
}

std::string is_inf_text(const ScalarContext& ctx) {
  const bool negative = ctx.attrs().flag("detect_negative");
  const bool positive = ctx.attrs().flag("detect_positive");
  if (negative && positive) return fill_template("rlx_is_inf($0)", ctx);
  if (negative) return fill_template("(rlx_is_inf($0) && rlx_is_negative($0))", ctx);
  if (positive) return fill_template("(rlx_is_inf($0) && !rlx_is_negative($0))", ctx);
  return "false";
}

#define RLX_REAL(expression) \
  [](double x, [[maybe_unused]] const double* a) -> double { return expression; }
#define RLX_INTEGER(expression) [](int64_t x) -> int64_t { return expression; }

constexpr UnaryRow kUnaryRows[] = {
    {"neg",
     "neg(x) -> y",
     {},
     DTypeSet::NumberOrComplex,
     "rlx_neg($0)",
     RLX_REAL(-x),
     "rlx_neg($0)",
     negate},
    {"abs",
     "abs(x) -> y",
     {},
     DTypeSet::NumberOrComplex,
     "rlx_abs($0)",
     RLX_REAL(std::fabs(x)),
     "rlx_abs($0)",
     RLX_INTEGER(x < 0 ? negate(x) : x)},
    {"sign",
     "sign(x) -> y",
     {},
     DTypeSet::Number,
     "rlx_sign($0)",
     RLX_REAL(sign(x)),
     "rlx_sign($0)",
     RLX_INTEGER((x > 0) - (x < 0))},
    {"floor",
     "floor(x) -> y",
     {},
     DTypeSet::Number,
     "rlx_floor($0)",
     RLX_REAL(std::floor(x)),
     "$0",
     RLX_INTEGER(x)},
    {"ceil",
     "ceil(x) -> y",
     {},
     DTypeSet::Number,
     "rlx_ceil($0)",
     RLX_REAL(std::ceil(x)),
     "$0",
     RLX_INTEGER(x)},
    {"trunc",
     "trunc(x) -> y",
     {},
     DTypeSet::Number,
     "rlx_trunc($0)",
     RLX_REAL(std::trunc(x)),
     "$0",
     RLX_INTEGER(x)},
    {"round",
     "round(x) -> y",
     {},
     DTypeSet::Number,
     "rlx_round($0)",
     RLX_REAL(std::nearbyint(x)),
     "$0",
     RLX_INTEGER(x)},
    {"sqrt", "sqrt(x) -> y", {}, DTypeSet::FloatOrComplex, "rlx_sqrt($0)", RLX_REAL(std::sqrt(x))},
    {"rsqrt",
     "rsqrt(x) -> y",
     {},
     DTypeSet::Float,
     "rlx_rsqrt($0)",
     RLX_REAL(x == 0 ? INFINITY : 1 / std::sqrt(x))},
    {"reciprocal", "reciprocal(x) -> y", {}, DTypeSet::Float, "rlx_div({1}, $0)", RLX_REAL(1 / x)},
    {"square",
     "square(x) -> y",
     {},
     DTypeSet::Number,
     "($0 * $0)",
     RLX_REAL(x* x),
     "rlx_mul($0, $0)",
     RLX_INTEGER(static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x)))},
    {"exp", "exp(x) -> y", {}, DTypeSet::FloatOrComplex, "rlx_exp($0)", RLX_REAL(std::exp(x))},
    {"exp2", "exp2(x) -> y", {}, DTypeSet::Float, "rlx_exp2($0)", RLX_REAL(std::exp2(x))},
    {"expm1", "expm1(x) -> y", {}, DTypeSet::Float, "rlx_expm1($0)", RLX_REAL(std::expm1(x))},
    {"log", "log(x) -> y", {}, DTypeSet::FloatOrComplex, "rlx_log($0)", RLX_REAL(std::log(x))},
    {"log2", "log2(x) -> y", {}, DTypeSet::Float, "rlx_log2($0)", RLX_REAL(std::log2(x))},
    {"log10", "log10(x) -> y", {}, DTypeSet::Float, "rlx_log10($0)", RLX_REAL(std::log10(x))},
    {"log1p", "log1p(x) -> y", {}, DTypeSet::Float, "rlx_log1p($0)", RLX_REAL(std::log1p(x))},
    {"sin", "sin(x) -> y", {}, DTypeSet::Float, "rlx_sin($0)", RLX_REAL(std::sin(x))},
    {"cos", "cos(x) -> y", {}, DTypeSet::Float, "rlx_cos($0)", RLX_REAL(std::cos(x))},
    {"tan", "tan(x) -> y", {}, DTypeSet::Float, "rlx_tan($0)", RLX_REAL(std::tan(x))},
    {"asin", "asin(x) -> y", {}, DTypeSet::Float, "rlx_asin($0)", RLX_REAL(std::asin(x))},
    {"acos", "acos(x) -> y", {}, DTypeSet::Float, "rlx_acos($0)", RLX_REAL(std::acos(x))},
    {"atan", "atan(x) -> y", {}, DTypeSet::Float, "rlx_atan($0)", RLX_REAL(std::atan(x))},
    {"sinh", "sinh(x) -> y", {}, DTypeSet::Float, "rlx_sinh($0)", RLX_REAL(std::sinh(x))},
    {"cosh", "cosh(x) -> y", {}, DTypeSet::Float, "rlx_cosh($0)", RLX_REAL(std::cosh(x))},
    {"tanh", "tanh(x) -> y", {}, DTypeSet::Float, "rlx_tanh($0)", RLX_REAL(std::tanh(x))},
    {"asinh", "asinh(x) -> y", {}, DTypeSet::Float, "rlx_asinh($0)", RLX_REAL(std::asinh(x))},
    {"acosh", "acosh(x) -> y", {}, DTypeSet::Float, "rlx_acosh($0)", RLX_REAL(std::acosh(x))},
    {"atanh", "atanh(x) -> y", {}, DTypeSet::Float, "rlx_atanh($0)", RLX_REAL(std::atanh(x))},
    {"erf", "erf(x) -> y", {}, DTypeSet::Float, "rlx_erf($0)", RLX_REAL(std::erf(x))},
    {"lgamma", "lgamma(x) -> y", {}, DTypeSet::Float, "rlx_lgamma($0)", RLX_REAL(log_gamma(x))},
    {"digamma",
     "digamma(x) -> y",
     {},
     DTypeSet::Float,
     "rlx_digamma($0)",
     RLX_REAL(digamma(x)),
     {},
     nullptr,
     false,
     nullptr,
     digamma_terms},
    {"trigamma",
     "trigamma(x) -> y",
     {},
     DTypeSet::Float,
     "rlx_trigamma($0)",
     RLX_REAL(trigamma(x))},
    {"erfinv", "erfinv(x) -> y", {}, DTypeSet::Float, "rlx_erfinv($0)", RLX_REAL(inverse_erf(x))},
    {"erfcx", "erfcx(x) -> y", {}, DTypeSet::Float, "rlx_erfcx($0)", RLX_REAL(scaled_erfc(x))},
    {"ndtri", "ndtri(x) -> y", {}, DTypeSet::Float, "rlx_ndtri($0)", RLX_REAL(inverse_normal(x))},
    {"i0e", "i0e(x) -> y", {}, DTypeSet::Float, "rlx_i0e($0)", RLX_REAL(scaled_bessel_i0(x))},
    {"i1e", "i1e(x) -> y", {}, DTypeSet::Float, "rlx_i1e($0)", RLX_REAL(scaled_bessel_i1(x))},
    {"sigmoid", "sigmoid(x) -> y", {}, DTypeSet::Float, "rlx_sigmoid($0)", RLX_REAL(sigmoid(x))},
    {"log_sigmoid",
     "log_sigmoid(x) -> y",
     {},
     DTypeSet::Float,
     "rlx_log_sigmoid($0)",
     RLX_REAL(std::isnan(x) ? x : -softplus(-x))},
    {"relu",
     "relu(x) -> y",
     {},
     DTypeSet::Number,
     "rlx_max($0, {0})",
     RLX_REAL(x < 0 ? 0 : x),
     "rlx_max($0, {0})",
     RLX_INTEGER(x < 0 ? 0 : x)},
    {"leaky_relu", "leaky_relu(x; alpha=0.01) -> y", kLeakyAttrs, DTypeSet::Float,
     "($0 >= {0} ? $0 : {alpha} * $0)", RLX_REAL(x >= 0 ? x : a[0] * x)},
    {"elu", "elu(x; alpha=1) -> y", kAlphaAttrs, DTypeSet::Float, "rlx_elu($0, {alpha})",
     RLX_REAL(x > 0 ? x : a[0] * std::expm1(x))},
    {"celu", "celu(x; alpha=1) -> y", kAlphaAttrs, DTypeSet::Float, "rlx_celu($0, {alpha})",
     RLX_REAL(celu(x, a[0]))},
    {"selu", "selu(x; alpha=1.6732632423543772, gamma=1.0507009873554805) -> y", kSeluAttrs,
     DTypeSet::Float, "rlx_selu($0, {alpha}, {gamma})",
     RLX_REAL(a[1] * (x > 0 ? x : a[0] * std::expm1(x)))},
    {"gelu",
     "gelu(x) -> y",
     {},
     DTypeSet::Float,
     "rlx_gelu($0)",
     RLX_REAL(gated(x, 0.5 * std::erfc(-x * M_SQRT1_2)))},
    {"gelu_tanh",
     "gelu_tanh(x) -> y",
     {},
     DTypeSet::Float,
     "rlx_gelu_tanh($0)",
     RLX_REAL(gelu_tanh(x))},
    {"silu", "silu(x) -> y", {}, DTypeSet::Float, "rlx_silu($0)", RLX_REAL(gated(x, sigmoid(x)))},
    {"swish", "swish(x; alpha=1) -> y", kAlphaAttrs, DTypeSet::Float, "rlx_swish($0, {alpha})",
     RLX_REAL(gated(x, sigmoid(a[0] * x)))},
    {"mish", "mish(x) -> y", {}, DTypeSet::Float, "rlx_mish($0)", RLX_REAL(mish(x))},
    {"softplus", "softplus(x; beta=1) -> y", kSoftplusAttrs, DTypeSet::Float,
     "rlx_softplus($0, {beta})", RLX_REAL(std::isnan(x) ? x : softplus(a[0] * x) / a[0])},
    {"softsign",
     "softsign(x) -> y",
     {},
     DTypeSet::Float,
     "rlx_softsign($0)",
     RLX_REAL(softsign(x))},
    {"hard_sigmoid", "hard_sigmoid(x; alpha=0.2, beta=0.5) -> y", kHardSigmoidAttrs,
     DTypeSet::Float, "rlx_clamp({alpha} * $0 + {beta}, {0}, {1})",
     RLX_REAL(clamp_unit(a[0] * x + a[1]))},
    {"hard_swish",
     "hard_swish(x) -> y",
     {},
     DTypeSet::Float,
     "($0 * rlx_clamp($0 / {6} + {0.5}, {0}, {1}))",
     RLX_REAL(x* clamp_unit(x / 6 + 0.5))},
    {"thresholded_relu", "thresholded_relu(x; alpha=1) -> y", kAlphaAttrs, DTypeSet::Float,
     "($0 > {alpha} ? $0 : {0})", RLX_REAL(x > a[0] ? x : 0)},
    {"shrink", "shrink(x; lambd=0.5, bias=0) -> y", kShrinkAttrs, DTypeSet::Float,
     "($0 < -{lambd} ? $0 + {bias} : ($0 > {lambd} ? $0 - {bias} : {0}))",
     RLX_REAL(x < -a[0] ? x + a[1] : (x > a[0] ? x - a[1] : 0))},
    {"affine",
     "affine(x; mul=1, add=0) -> y",
     kAffineAttrs,
     DTypeSet::Float,
     {},
     RLX_REAL(std::fma(x, a[0], a[1])),
     {},
     nullptr,
     false,
     affine_text},
    {"powf",
     "powf(x; exponent) -> y",
     kPowfAttrs,
     DTypeSet::Float,
     {},
     RLX_REAL(std::pow(x, a[0])),
     {},
     nullptr,
     false,
     powf_text},
    {"is_nan",
     "is_nan(x) -> bool",
     {},
     DTypeSet::Float,
     "rlx_is_nan($0)",
     RLX_REAL(std::isnan(x)),
     {},
     nullptr,
     true},
    {"is_inf",
     "is_inf(x; detect_negative=true, detect_positive=true) -> bool",
     kIsInfAttrs,
     DTypeSet::Float,
     {},
     RLX_REAL(std::isinf(x)),
     {},
     nullptr,
     true,
     is_inf_text},
    {"logical_not",
     "logical_not(x) -> y",
     {},
     DTypeSet::Bool,
     {},
     nullptr,
     "(!$0)",
     RLX_INTEGER(!x)},
    {"bitwise_not",
     "bitwise_not(x) -> y",
     {},
     DTypeSet::Integer,
     {},
     nullptr,
     "(~$0)",
     RLX_INTEGER(~x)},
};
constexpr size_t kUnaryRowCount = std::size(kUnaryRows);

#undef RLX_REAL
#undef RLX_INTEGER

const UnaryRow& unary_row(const Node& node) {
  const auto found = std::find_if(std::begin(kUnaryRows), std::end(kUnaryRows),
                                  [&](const UnaryRow& row) { return row.name == node.op; });
  RLX_CHECK(found != std::end(kUnaryRows), "unary op " + node.op);
  return *found;
}

bool infer_unary(InferContext& ctx) {
  const UnaryRow& row = unary_row(ctx.node());
  if (!check_dtype(ctx, 0, row.types)) return false;
  const bool modulus = row.name == "abs" && ctx.dtype(0) == DType::c64;
  const DType to = row.to_bool ? DType::bool_ : modulus ? DType::f32 : ctx.dtype(0);
  ctx.set_output(0, {to, ctx.shape(0)});
  return true;
}

bool evaluate_is_inf(EvaluateContext& ctx) {
  const bool negative = ctx.attrs().flag("detect_negative");
  const bool positive = ctx.attrs().flag("detect_positive");
  const Tensor& x = ctx.input(0);
  for (size_t i = 0; i < x.floats.size(); ++i) {
    const double value = x.floats[i];
    ctx.output(0).integers[i] = std::isinf(value) && (value < 0 ? negative : positive);
  }
  return true;
}

// Principal values, at zeros, infinities and NaN those of C.
std::complex<double> complex_result(std::string_view op, std::complex<double> z) {
  if (op == "neg") return -z;
  if (op == "exp") return std::exp(z);
  if (op == "log") return std::log(z);
  RLX_CHECK(op == "sqrt", "complex " + std::string(op));
  return std::sqrt(z);
}

void evaluate_complex(const UnaryRow& row, const Tensor& x, Tensor& y) {
  for (size_t i = 0; i < x.integers.size(); ++i) {
    const std::complex<double> z = complex_from_bits(x.integers[i]);
    if (row.name == "abs") {
      y.floats[i] = std::hypot(z.real(), z.imag());
    } else {
      y.integers[i] = complex_to_bits(complex_result(row.name, z));
    }
  }
}

bool evaluate_unary(EvaluateContext& ctx) {
  const UnaryRow& row = unary_row(ctx.node());
  if (row.name == "is_inf") return evaluate_is_inf(ctx);
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  if (x.type.dtype == DType::c64) {
    evaluate_complex(row, x, y);
    return true;
  }
  if (!x.is_float()) {
    for (size_t i = 0; i < x.integers.size(); ++i) {
      y.integers[i] = wrap_integer(y.type.dtype, row.integer(x.integers[i]));
    }
    return true;
  }
  const std::vector<double> attributes = float_attributes(row.attrs, ctx.attrs(), x.type.dtype);
  for (size_t i = 0; i < x.floats.size(); ++i) {
    const double value = row.real(x.floats[i], attributes.data());
    if (row.to_bool) {
      y.integers[i] = value != 0;
    } else {
      y.floats[i] = value;
    }
    if (row.terms != nullptr) y.magnitudes.push_back(row.terms(x.floats[i]));
  }
  return true;
}

// ---- gradients ----

// By the result where that tells as much as x: x need not live on, and stays inside fusions.
std::optional<ValueId> gradient_by_result(GradientContext& ctx) {
  const std::string& op = ctx.node().op;
  const ValueId y = ctx.output(0);
  const ValueId dy = ctx.gradient();
  if (op == "relu") return ctx.emit("relu_backward", {y, dy});
  if (op == "leaky_relu" && ctx.attrs().real("alpha") > 0) {
    return ctx.emit("activation_backward", {y, dy}, ctx.attributes({{"kind", AttributeValue(op)}}));
  }
  if (op == "exp") return ctx.emit("mul", {dy, y});
  if (op == "sigmoid") return ctx.emit("mul", {dy, ctx.emit("mul", {y, ctx.affine(y, -1, 1)})});
  if (op == "tanh") return ctx.emit("mul", {dy, ctx.affine(ctx.emit("square", {y}), -1, 1)});
  if (op == "neg") return ctx.emit("neg", {dy});
  if (op == "affine") return ctx.affine(dy, ctx.attrs().real("mul"));
  return std::nullopt;
}

bool unary_gradient(GradientContext& ctx) {
  std::optional<ValueId> dx = gradient_by_result(ctx);
  if (!dx) {
    dx = ctx.emit("activation_backward", {ctx.input(0), ctx.gradient()},
                  ctx.attributes({{"kind", AttributeValue(ctx.node().op)}}));
  }
  ctx.give(0, *dx);
  return true;
}

// Steps are flat wherever they have a slope. That of trigamma has no operator.
using GradientRule = bool (*)(GradientContext&);
GradientRule unary_gradient_of(std::string_view op) {
  if (op == "trigamma") return nullptr;
  constexpr std::array<std::string_view, 5> kSteps = {"sign", "floor", "ceil", "trunc", "round"};
  return std::find(kSteps.begin(), kSteps.end(), op) == kSteps.end() ? unary_gradient : no_gradient;
}

template <size_t index>
std::string unary_scalar(const ScalarContext& ctx) {
  constexpr const UnaryRow& row = kUnaryRows[index];
  if (row.special != nullptr) return row.special(ctx);
  if (ctx.operand_dtype(0) == DType::c64)
    return fill_template("rlx_complex_" + std::string(row.name) + "($0)", ctx);
  return fill_template(is_float(ctx.operand_dtype(0)) ? row.text : row.integer_text, ctx);
}

template <size_t... indices>
std::array<OpDef, kUnaryRowCount> make_unary_ops(std::index_sequence<indices...>) {
  return {OpDef{.name = kUnaryRows[indices].name,
                .signature = kUnaryRows[indices].signature,
                .inputs = {1, 1},
                .outputs = {1, 1},
                .attrs = kUnaryRows[indices].attrs,
                .infer = infer_unary,
                .evaluate = evaluate_unary,
                .gradient = unary_gradient_of(kUnaryRows[indices].name),
                .lower = lower_elementwise,
                .scalar = unary_scalar<indices>}...};
}

}  // namespace

std::span<const OpDef> unary_ops() {
  static const std::array<OpDef, kUnaryRowCount> ops =
      make_unary_ops(std::make_index_sequence<kUnaryRowCount>{});
  return ops;
}

}  // namespace rlx
