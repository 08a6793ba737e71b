// SPDX-License-Identifier: Apache-2.0
// Binary, compare and logical elementwise ops (ops.md 2.3): one row each gives interface,
// expression and definition.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/support/check.h"
#include "compiler/support/complex_bits.h"

namespace rlx {
namespace {

using RealFunction = double (*)(double a, double b);
using IntegerFunction = int64_t (*)(int64_t a, int64_t b, int bits);
using Complex = std::complex<double>;

struct BinaryRow {
  std::string_view name;
  std::string_view signature;
  DTypeSet types;
  std::string_view text = {};  // template for floats
  RealFunction real = nullptr;
  std::string_view integer_text = {};  // template for integers and bool
  IntegerFunction integer = nullptr;
  bool to_bool = false;  // result is bool; `real` gives 0 or 1
};

uint64_t bits_of(int64_t x) {
  return static_cast<uint64_t>(x);
}
int64_t signed_of(uint64_t x) {
  return static_cast<int64_t>(x);
}

int64_t divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? signed_of(-bits_of(a)) : a / b;
}
int64_t remainder(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b;
}
bool floors_below(int64_t a, int64_t b) {
  const int64_t rest = remainder(a, b);
  return rest != 0 && (rest < 0) != (b < 0);
}
int64_t floor_divide(int64_t a, int64_t b) {
  return signed_of(bits_of(divide(a, b)) - floors_below(a, b));
}
int64_t modulo(int64_t a, int64_t b) {
  return remainder(a, b) + (floors_below(a, b) ? b : 0);
}
int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 != 0 ? -1 : 1;
    return 0;
  }
  uint64_t result = 1;
  uint64_t square = bits_of(base);
  for (int64_t n = exponent; n != 0; n >>= 1) {
    if (n & 1) result *= square;
    square *= square;
  }
  return signed_of(result);
}
int64_t shift_left(int64_t a, int64_t b, int bits) {
  return b < 0 || b >= bits ? 0 : signed_of(bits_of(a) << b);
}
int64_t shift_right(int64_t a, int64_t b, int bits) {
  return b < 0 || b >= bits ? (a < 0 ? -1 : 0) : a >> b;
}

double real_max(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return NAN;
  return a > b ? a : b;
}
double real_min(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return NAN;
  return a < b ? a : b;
}
double real_mod(double a, double b) {
  const double rest = std::fmod(a, b);
  if (std::isnan(rest)) return rest;
  if (rest == 0) return std::copysign(rest, b);
  return std::signbit(rest) != std::signbit(b) ? rest + b : rest;
}

#define RLX_REAL(expression) [](double a, double b) -> double { return expression; }
#define RLX_INTEGER(expression)                              \
  []([[maybe_unused]] int64_t a, [[maybe_unused]] int64_t b, \
     [[maybe_unused]] int bits) -> int64_t { return expression; }

constexpr DTypeSet kNumber = DTypeSet::Number;
constexpr DTypeSet kFloat = DTypeSet::Float;
constexpr DTypeSet kInteger = DTypeSet::Integer;
constexpr DTypeSet kWithComplex = DTypeSet::NumberOrComplex;
constexpr DTypeSet kAny = DTypeSet::NumberBoolOrComplex;

constexpr BinaryRow kBinaryRows[] = {
    {"add", "add(a, b) -> y", kWithComplex, "($0 + $1)", RLX_REAL(a + b), "rlx_add($0, $1)",
     RLX_INTEGER(signed_of(bits_of(a) + bits_of(b)))},
    {"sub", "sub(a, b) -> y", kWithComplex, "($0 - $1)", RLX_REAL(a - b), "rlx_sub($0, $1)",
     RLX_INTEGER(signed_of(bits_of(a) - bits_of(b)))},
    {"mul", "mul(a, b) -> y", kWithComplex, "($0 * $1)", RLX_REAL(a* b), "rlx_mul($0, $1)",
     RLX_INTEGER(signed_of(bits_of(a) * bits_of(b)))},
    {"div", "div(a, b) -> y", kWithComplex, "rlx_div($0, $1)", RLX_REAL(a / b), "rlx_div($0, $1)",
     RLX_INTEGER(divide(a, b))},
    {"floor_div", "floor_div(a, b) -> y", kNumber, "rlx_floor_div($0, $1)",
     RLX_REAL(std::floor(a / b)), "rlx_floor_div($0, $1)", RLX_INTEGER(floor_divide(a, b))},
    {"mod", "mod(a, b) -> y", kNumber, "rlx_mod($0, $1)", real_mod, "rlx_mod($0, $1)",
     RLX_INTEGER(modulo(a, b))},
    {"fmod", "fmod(a, b) -> y", kNumber, "rlx_fmod($0, $1)", RLX_REAL(std::fmod(a, b)),
     "rlx_fmod($0, $1)", RLX_INTEGER(remainder(a, b))},
    {"pow", "pow(a, b) -> y", kNumber, "rlx_pow($0, $1)", RLX_REAL(std::pow(a, b)),
     "rlx_pow($0, $1)", RLX_INTEGER(power(a, b))},
    {"max", "max(a, b) -> y", kNumber, "rlx_max($0, $1)", real_max, "rlx_max($0, $1)",
     RLX_INTEGER(std::max(a, b))},
    {"min", "min(a, b) -> y", kNumber, "rlx_min($0, $1)", real_min, "rlx_min($0, $1)",
     RLX_INTEGER(std::min(a, b))},
    {"atan2", "atan2(y, x) -> angle", kFloat, "rlx_atan2($0, $1)", RLX_REAL(std::atan2(a, b))},
    {"eq", "eq(a, b) -> bool", kAny, "($0 == $1)", RLX_REAL(a == b), "($0 == $1)",
     RLX_INTEGER(a == b), true},
    {"ne", "ne(a, b) -> bool", kAny, "($0 != $1)", RLX_REAL(a != b), "($0 != $1)",
     RLX_INTEGER(a != b), true},
    {"lt", "lt(a, b) -> bool", kNumber, "($0 < $1)", RLX_REAL(a < b), "($0 < $1)",
     RLX_INTEGER(a < b), true},
    {"le", "le(a, b) -> bool", kNumber, "($0 <= $1)", RLX_REAL(a <= b), "($0 <= $1)",
     RLX_INTEGER(a <= b), true},
    {"gt", "gt(a, b) -> bool", kNumber, "($0 > $1)", RLX_REAL(a > b), "($0 > $1)",
     RLX_INTEGER(a > b), true},
    {"ge", "ge(a, b) -> bool", kNumber, "($0 >= $1)", RLX_REAL(a >= b), "($0 >= $1)",
     RLX_INTEGER(a >= b), true},
    {"logical_and",
     "logical_and(a, b) -> y",
     DTypeSet::Bool,
     {},
     nullptr,
     "($0 && $1)",
     RLX_INTEGER(a != 0 && b != 0)},
    {"logical_or",
     "logical_or(a, b) -> y",
     DTypeSet::Bool,
     {},
     nullptr,
     "($0 || $1)",
     RLX_INTEGER(a != 0 || b != 0)},
    {"logical_xor",
     "logical_xor(a, b) -> y",
     DTypeSet::Bool,
     {},
     nullptr,
     "($0 != $1)",
     RLX_INTEGER((a != 0) != (b != 0))},
    {"bitwise_and",
     "bitwise_and(a, b) -> y",
     kInteger,
     {},
     nullptr,
     "($0 & $1)",
     RLX_INTEGER(a& b)},
    {"bitwise_or", "bitwise_or(a, b) -> y", kInteger, {}, nullptr, "($0 | $1)", RLX_INTEGER(a | b)},
    {"bitwise_xor",
     "bitwise_xor(a, b) -> y",
     kInteger,
     {},
     nullptr,
     "($0 ^ $1)",
     RLX_INTEGER(a ^ b)},
    {"shift_left",
     "shift_left(a, b) -> y",
     kInteger,
     {},
     nullptr,
     "rlx_shift_left($0, $1, {bits})",
     shift_left},
    {"shift_right",
     "shift_right(a, b) -> y",
     kInteger,
     {},
     nullptr,
     "rlx_shift_right($0, $1, {bits})",
     shift_right},
};
constexpr size_t kRowCount = std::size(kBinaryRows);

#undef RLX_REAL
#undef RLX_INTEGER

const BinaryRow& binary_row(const Node& node) {
  const auto found = std::find_if(std::begin(kBinaryRows), std::end(kBinaryRows),
                                  [&](const BinaryRow& row) { return row.name == node.op; });
  RLX_CHECK(found != std::end(kBinaryRows), "binary op " + node.op);
  return *found;
}

bool infer_binary(InferContext& ctx) {
  const BinaryRow& row = binary_row(ctx.node());
  if (!check_dtype(ctx, 0, row.types) || !check_dtype(ctx, 1, row.types)) return false;
  const bool mixed_power = row.name == "pow" && is_float(ctx.dtype(0)) && is_integer(ctx.dtype(1));
  if (!mixed_power && !check_equal_dtypes(ctx)) return false;
  const std::optional<Shape> shape = infer_broadcast(ctx);
  if (!shape) return false;
  ctx.set_output(0, {row.to_bool ? DType::bool_ : ctx.dtype(0), *shape});
  return true;
}

void evaluate_real(const BinaryRow& row, const Tensor& a, const Tensor& b, Tensor& y) {
  for_each_broadcast(
      y.type.shape, {&a.type.shape, &b.type.shape}, [&](int64_t o, const int64_t* in) {
        const double value = row.real(a.floats[static_cast<size_t>(in[0])], real_at(b, in[1]));
        if (row.to_bool) {
          y.integers[static_cast<size_t>(o)] = value != 0;
        } else {
          y.floats[static_cast<size_t>(o)] = value;
        }
      });
}

// A part of a complex result and the sum of its terms' magnitudes.
struct Part {
  double value;
  double magnitude;
};
struct ComplexResult {
  Part re;
  Part im;
};

Part sum_of(double a, double b) {
  return {a + b, std::fabs(a) + std::fabs(b)};
}

ComplexResult complex_result(std::string_view op, Complex a, Complex b) {
  if (op == "add") return {sum_of(a.real(), b.real()), sum_of(a.imag(), b.imag())};
  if (op == "sub") return {sum_of(a.real(), -b.real()), sum_of(a.imag(), -b.imag())};
  if (op == "mul") {
    return {sum_of(a.real() * b.real(), -a.imag() * b.imag()),
            sum_of(a.real() * b.imag(), a.imag() * b.real())};
  }
  // (a conj b) / |b|^2, whose squares do not leave the range of f64.
  RLX_CHECK(op == "div", "complex " + std::string(op));
  const double square = b.real() * b.real() + b.imag() * b.imag();
  ComplexResult result{sum_of(a.real() * b.real(), a.imag() * b.imag()),
                       sum_of(a.imag() * b.real(), -a.real() * b.imag())};
  for (Part* part : {&result.re, &result.im}) {
    part->value /= square;
    part->magnitude /= square;
  }
  return result;
}

void evaluate_complex(const BinaryRow& row, const Tensor& a, const Tensor& b, Tensor& y) {
  constexpr int64_t kTerms = 2;
  if (!row.to_bool) {
    y.magnitudes.resize(2 * y.integers.size());
    y.terms = kTerms;
  }
  for_each_broadcast(y.type.shape, {&a.type.shape, &b.type.shape},
                     [&](int64_t o, const int64_t* in) {
                       const auto at = static_cast<size_t>(o);
                       const Complex p = complex_from_bits(a.integers[static_cast<size_t>(in[0])]);
                       const Complex q = complex_from_bits(b.integers[static_cast<size_t>(in[1])]);
                       if (row.to_bool) {
                         y.integers[at] = (p == q) == (row.name == "eq");
                         return;
                       }
                       const ComplexResult result = complex_result(row.name, p, q);
                       y.integers[at] = complex_to_bits({result.re.value, result.im.value});
                       y.magnitudes[2 * at] = result.re.magnitude;
                       y.magnitudes[2 * at + 1] = result.im.magnitude;
                     });
}

bool evaluate_binary(EvaluateContext& ctx) {
  const BinaryRow& row = binary_row(ctx.node());
  const Tensor& a = ctx.input(0);
  const Tensor& b = ctx.input(1);
  Tensor& y = ctx.output(0);
  if (a.is_float()) {
    evaluate_real(row, a, b, y);
    return true;
  }
  if (a.type.dtype == DType::c64) {
    evaluate_complex(row, a, b, y);
    return true;
  }
  const int bits = static_cast<int>(element_bytes(a.type.dtype)) * 8;
  for_each_broadcast(
      y.type.shape, {&a.type.shape, &b.type.shape}, [&](int64_t o, const int64_t* in) {
        const int64_t value = row.integer(a.integers[static_cast<size_t>(in[0])],
                                          b.integers[static_cast<size_t>(in[1])], bits);
        y.integers[static_cast<size_t>(o)] = wrap_integer(y.type.dtype, value);
      });
  return true;
}

// ---- gradients ----

using GradientRule = bool (*)(GradientContext&);

// Each rule makes what its input wants, from dy, a, b and y.
class BinaryGradient {
 public:
  explicit BinaryGradient(GradientContext& ctx)
      : ctx_(ctx), a_(ctx.input(0)), b_(ctx.input(1)), y_(ctx.output(0)), dy_(ctx.gradient()) {}

  ValueId call(std::string_view op, ValueId p) { return ctx_.emit(op, {p}); }
  ValueId call(std::string_view op, ValueId p, ValueId q) { return ctx_.emit(op, {p, q}); }
  ValueId where(ValueId condition, ValueId p, ValueId q) {
    return ctx_.emit("where", {condition, p, q});
  }
  ValueId number(double value) { return ctx_.scalar(ctx_.dtype(a_), value); }
  // To the one that was taken, halves to equals.
  ValueId taken(std::string_view comparison, ValueId mine, ValueId other) {
    const ValueId half = where(call("eq", mine, other), ctx_.affine(dy_, 0.5), number(0));
    return where(call(comparison, mine, other), dy_, half);
  }

  ValueId of_a(std::string_view op) {
    if (op == "mul") return call("mul", dy_, b_);
    if (op == "div") return call("div", dy_, b_);
    if (op == "max") return taken("gt", a_, b_);
    if (op == "min") return taken("lt", a_, b_);
    if (op == "atan2") return call("div", call("mul", dy_, b_), squares());
    if (op != "pow") return dy_;  // add, sub, mod, fmod
    const ValueId exponent = ctx_.cast(b_, ctx_.dtype(a_));
    const ValueId less = call("sub", exponent, number(1));
    return call("mul", dy_, call("mul", exponent, call("pow", a_, less)));
  }
  ValueId of_b(std::string_view op) {
    if (op == "sub") return call("neg", dy_);
    if (op == "mul") return call("mul", dy_, a_);
    if (op == "div") return call("neg", call("div", call("mul", dy_, y_), b_));
    if (op == "max") return taken("gt", b_, a_);
    if (op == "min") return taken("lt", b_, a_);
    if (op == "atan2") return call("neg", call("div", call("mul", dy_, a_), squares()));
    if (op == "mod") return call("neg", call("mul", dy_, call("floor", call("div", a_, b_))));
    if (op == "fmod") return call("neg", call("mul", dy_, call("trunc", call("div", a_, b_))));
    if (op != "pow") return dy_;  // add
    const ValueId slope = call("mul", y_, call("log", a_));
    return call("mul", dy_, where(call("eq", a_, number(0)), number(0), slope));
  }

 private:
  ValueId squares() { return call("add", call("square", a_), call("square", b_)); }

  GradientContext& ctx_;
  ValueId a_;
  ValueId b_;
  ValueId y_;
  ValueId dy_;
};

bool binary_gradient(GradientContext& ctx) {
  BinaryGradient rule(ctx);
  if (ctx.wants(0)) ctx.give(0, rule.of_a(ctx.node().op));
  if (ctx.wants(1)) ctx.give(1, rule.of_b(ctx.node().op));
  return true;
}

// floor_div steps; the other ops give no floats.
GradientRule binary_gradient_of(std::string_view op) {
  return op == "floor_div" ? no_gradient : binary_gradient;
}

template <size_t index>
std::string scalar(const ScalarContext& ctx) {
  constexpr const BinaryRow& row = kBinaryRows[index];
  if (ctx.operand_dtype(0) == DType::c64) {
    if (row.name == "ne") return fill_template("(!rlx_complex_eq($0, $1))", ctx);
    return fill_template("rlx_complex_" + std::string(row.name) + "($0, $1)", ctx);
  }
  // float^int: the exponent's parity must survive, so it stays an integer.
  const bool mixed = is_float(ctx.operand_dtype(0)) && is_integer(ctx.operand_dtype(1));
  if (mixed)
    return fill_template(
        ctx.operand_dtype(1) == DType::i64 ? "rlx_pow($0, $1)" : "rlx_pow($0, rlx_widen($1))", ctx);
  return fill_template(is_float(ctx.operand_dtype(0)) ? row.text : row.integer_text, ctx);
}

template <size_t... indices>
std::array<OpDef, kRowCount> make_ops(std::index_sequence<indices...>) {
  return {OpDef{.name = kBinaryRows[indices].name,
                .signature = kBinaryRows[indices].signature,
                .inputs = {2, 2},
                .outputs = {1, 1},
                .infer = infer_binary,
                .evaluate = evaluate_binary,
                .gradient = binary_gradient_of(kBinaryRows[indices].name),
                .lower = lower_elementwise,
                .scalar = scalar<indices>}...};
}

}  // namespace

std::span<const OpDef> binary_ops() {
  static const std::array<OpDef, kRowCount> ops = make_ops(std::make_index_sequence<kRowCount>{});
  return ops;
}

}  // namespace rlx
