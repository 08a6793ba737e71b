// SPDX-License-Identifier: Apache-2.0
// cast and bitcast (ops.md 2.2).
#include <algorithm>
#include <cmath>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/support/blocks.h"
#include "compiler/support/check.h"
#include "compiler/support/complex_bits.h"

namespace rlx {
namespace {

constexpr std::string_view kOverflows[] = {"saturate", "wrap"};
constexpr AttrSpec kCastAttrs[] = {
    {.name = "to", .type = AttrType::DTypeName, .required = true, .consumed_by_infer = true},
    {.name = "overflow",
     .type = AttrType::String,
     .default_text = "\"saturate\"",
     .choices = kOverflows}};
constexpr AttrSpec kBitcastAttrs[] = {
    {.name = "to", .type = AttrType::DTypeName, .required = true, .consumed_by_infer = true}};

// ---- cast ----

bool infer_cast(InferContext& ctx) {
  const DType to = ctx.attrs().dtype("to");
  if (block_elements(ctx.dtype(0)) != 1) {
    return ctx.fail(DiagCode::BadDtype,
                    "input 0 is blocks of " + std::string(name_of(ctx.dtype(0))) +
                        ", wanted a type of single elements",
                    "dequantize_weights decodes blocks");
  }
  if (block_elements(to) != 1) {
    return ctx.fail(DiagCode::UnsupportedOp, "there is no cast to blocks of " +
                                                 std::string(name_of(to)) +
                                                 ", wanted a type of single elements");
  }
  ctx.set_output(0, {to, ctx.shape(0)});
  return true;
}

int64_t saturated(DType to, double value) {
  if (std::isnan(value)) return 0;
  const IntegerRange range = integer_range(to);
  // The highest i64 is no f64; its successor is, and nothing lies between.
  if (value >= static_cast<double>(range.highest)) return range.highest;
  if (value <= static_cast<double>(range.lowest)) return range.lowest;
  return static_cast<int64_t>(value);
}

int64_t integer_from_integer(DType to, int64_t value, bool wraps) {
  if (to == DType::bool_ || wraps) return wrap_integer(to, value);
  const IntegerRange range = integer_range(to);
  return std::min(std::max(value, range.lowest), range.highest);
}

// Nearest value of `to`, from all 64 bits: round-to-odd in f64 keeps the second rounding right.
double float_from_integer(DType to, int64_t value) {
  if (to == DType::f64) return static_cast<double>(value);
  if (to == DType::f32) return static_cast<float>(value);
  const auto magnitude =
      value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const uint64_t low = magnitude & 0x7FF;
  const uint64_t odd =
      magnitude < (uint64_t{1} << 53) ? magnitude : (magnitude - low) | (low != 0 ? 0x800 : 0);
  const double rounded = round_to(to, static_cast<double>(odd));
  return value < 0 ? -rounded : rounded;
}

// Element i as a real number: the value of a float or 8-bit float, the real part of a complex one.
double real_element(const Tensor& x, size_t i) {
  const DType from = x.type.dtype;
  if (x.is_float()) return x.floats[i];
  if (is_float8(from)) return double_from_float8(from, static_cast<uint8_t>(x.integers[i]));
  RLX_CHECK(from == DType::c64, "real number of " + std::string(name_of(from)));
  return complex_from_bits(x.integers[i]).real();
}

bool truth(const Tensor& x, size_t i) {
  if (is_integer(x.type.dtype) || x.type.dtype == DType::bool_) return x.integers[i] != 0;
  if (real_element(x, i) != 0) return true;
  return x.type.dtype == DType::c64 && complex_from_bits(x.integers[i]).imag() != 0;
}

void cast_element(const Tensor& x, Tensor& y, size_t i, bool wraps) {
  const DType from = x.type.dtype;
  const DType to = y.type.dtype;
  const bool whole = is_integer(from) || from == DType::bool_;
  if (to == DType::bool_) {
    y.integers[i] = truth(x, i);
  } else if (is_integer(to)) {
    y.integers[i] =
        whole ? integer_from_integer(to, x.integers[i], wraps) : saturated(to, real_element(x, i));
  } else if (is_float(to)) {
    y.floats[i] = whole ? float_from_integer(to, x.integers[i]) : round_to(to, real_element(x, i));
  } else {
    // Whole numbers that f64 does not hold are beyond every 8-bit float; f32 gets them rounded
    // once.
    const double value = !whole             ? real_element(x, i)
                         : to == DType::c64 ? float_from_integer(DType::f32, x.integers[i])
                                            : static_cast<double>(x.integers[i]);
    y.integers[i] =
        to == DType::c64 ? complex_to_bits(value) : float8_from_double(to, value, !wraps);
  }
}

bool evaluate_cast(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const bool wraps = ctx.attrs().text("overflow") == "wrap";
  const auto count = static_cast<size_t>(x.count());
  if (x.type.dtype == y.type.dtype) {
    y.floats = x.floats;
    y.integers = x.integers;
    return true;
  }
  for (size_t i = 0; i < count; ++i) cast_element(x, y, i, wraps);
  return true;
}

std::string call(std::string_view function, const std::string& argument) {
  return std::string(function) + "(" + argument + ")";
}

std::string float_to_float(DType from, DType to, const std::string& x) {
  if (from == to) return x;
  if (to == DType::f64) return call("rlx_f64", x);
  if (to == DType::f32) return from == DType::f64 ? call("rlx_f32", x) : x;
  const std::string single = from == DType::f64 ? call("rlx_f32_odd_from", x) : x;
  return call(to == DType::f16 ? "rlx_round_f16" : "rlx_round_bf16", single);
}

std::string clamped(const std::string& x, DType type, int64_t low, int64_t high) {
  return "rlx_min(rlx_max(" + x + ", " + integer_literal(type, low) + "), " +
         integer_literal(type, high) + ")";
}

std::string float_to_integer(DType to, const std::string& x) {
  if (to == DType::i64) return call("rlx_i64_from", x);
  if (to == DType::u32) return call("rlx_u32_from", x);
  if (to == DType::i32) return call("rlx_i32_from", x);
  const IntegerRange range = integer_range(to);
  return clamped(call("rlx_i32_from", x), DType::i32, range.lowest, range.highest);
}

// f16 needs no rounding to odd from 32 bits: what f32 cannot hold is beyond f16's range.
std::string integer_to_float(DType from, DType to, const std::string& x) {
  if (to == DType::f64) return from == DType::i64 ? call("rlx_f64_from", x) : call("rlx_f64", x);
  const bool narrow = from != DType::i64 && from != DType::i32 && from != DType::u32;
  if (narrow) return float_to_float(DType::f32, to, call("rlx_f32", x));
  if (to != DType::bf16) return float_to_float(DType::f32, to, call("rlx_f32_from", x));
  return call("rlx_round_bf16", call("rlx_f32_odd_from", x));
}

std::string convert_compute_type(DType from, DType to, const std::string& x) {
  if (compute_type(from) == compute_type(to)) return x;
  return call(to == DType::i64 ? "rlx_widen" : compute_type(to), x);
}

std::string integer_to_integer(DType from, DType to, const std::string& x, bool wraps) {
  if (wraps) return convert_compute_type(from, to, x);  // the caller wraps narrow dtypes
  const IntegerRange source = integer_range(from);
  const IntegerRange target = integer_range(to);
  std::string text = x;
  if (target.lowest > source.lowest)
    text = "rlx_max(" + text + ", " + integer_literal(from, target.lowest) + ")";
  if (target.highest < source.highest)
    text = "rlx_min(" + text + ", " + integer_literal(from, target.highest) + ")";
  return convert_compute_type(from, to, text);
}

// Between types that are neither 8-bit floats nor complex.
std::string number_cast(DType from, DType to, const std::string& x, bool wraps) {
  if (to == DType::bool_) return truth_expression(from, x);
  if (from == DType::bool_) {
    const std::string one = is_float(to) ? literal(to, 1) : integer_literal(to, 1);
    const std::string zero = is_float(to) ? literal(to, 0) : integer_literal(to, 0);
    return "(" + x + " ? " + one + " : " + zero + ")";
  }
  if (is_float(from)) return is_float(to) ? float_to_float(from, to, x) : float_to_integer(to, x);
  return is_float(to) ? integer_to_float(from, to, x) : integer_to_integer(from, to, x, wraps);
}

// From f64 or wide integers through an f32 rounded to odd, so that the second rounding comes out
// right.
std::string cast_to_float8(DType from, DType to, const std::string& x, bool wraps) {
  const bool wide =
      from == DType::f64 || from == DType::i64 || from == DType::i32 || from == DType::u32;
  const std::string single =
      wide ? call("rlx_f32_odd_from", x) : number_cast(from, DType::f32, x, wraps);
  const std::string name = "rlx_" + std::string(name_of(to));
  return "rlx_i32(" + call(name + (wraps ? "_wrapping_from_f32" : "_from_f32"), single) + ")";
}

std::string scalar_cast(const ScalarContext& ctx) {
  DType from = ctx.operand_dtype(0);
  const DType to = ctx.result_dtype();
  const bool wraps = ctx.attrs().text("overflow") == "wrap";
  std::string x = ctx.operand(0);
  if (from == to) return x;
  if (to == DType::bool_) return truth_expression(from, x);
  if (is_float8(from)) x = call("rlx_f32_from_" + std::string(name_of(from)), "rlx_u32(" + x + ")");
  if (from == DType::c64) x = call("rlx_real", x);
  if (is_float8(from) || from == DType::c64) from = DType::f32;
  if (is_float8(to)) return cast_to_float8(from, to, x, wraps);
  if (to == DType::c64) {
    return "rlx_complex(" + number_cast(from, DType::f32, x, wraps) + ", " +
           literal(DType::f32, 0) + ")";
  }
  return number_cast(from, to, x, wraps);
}

// ---- bitcast ----

bool infer_bitcast(InferContext& ctx) {
  const DType to = ctx.attrs().dtype("to");
  const DType from = ctx.dtype(0);
  if (block_elements(from) != 1 || block_elements(to) != 1 ||
      block_bytes(from) != block_bytes(to)) {
    return ctx.fail(DiagCode::BadDtype, "input 0 has dtype " + std::string(name_of(from)) +
                                            ", wanted one of the size of " +
                                            std::string(name_of(to)));
  }
  if (to == DType::bool_ && from != DType::bool_) {
    return ctx.fail(DiagCode::BadDtype,
                    "bytes of " + std::string(name_of(from)) + " are not all 0 or 1, as bool wants",
                    "use cast");
  }
  ctx.set_output(0, {to, ctx.shape(0)});
  return true;
}

bool evaluate_bitcast(EvaluateContext& ctx) {
  Tensor x = ctx.input(0);
  x.round_to_dtype();
  ctx.output(0) = Tensor::from_bytes(ctx.output_type(0), x.to_bytes());
  return true;
}

bool lower_bitcast(LowerContext& ctx) {
  TensorRef view = ctx.input(0);
  view.type.dtype = ctx.output_type(0).dtype;
  ctx.alias_output(0, std::move(view));
  return true;
}

bool cast_gradient(GradientContext& ctx) {
  ctx.give(0, ctx.gradient());
  return true;
}

}  // namespace

std::span<const OpDef> cast_ops() {
  static const std::array<OpDef, 2> ops = {
      OpDef{.name = "cast",
            .signature = "cast(x; to, overflow=\"saturate\") -> y",
            .attrs = kCastAttrs,
            .infer = infer_cast,
            .evaluate = evaluate_cast,
            .gradient = cast_gradient,
            .lower = lower_elementwise,
            .scalar = scalar_cast,
            .keeps_f32 = ~0u},
      OpDef{.name = "bitcast",
            .signature = "bitcast(x; to) -> y",
            .attrs = kBitcastAttrs,
            .infer = infer_bitcast,
            .evaluate = evaluate_bitcast,
            .lower = lower_bitcast},
  };
  return ops;
}

}  // namespace rlx
