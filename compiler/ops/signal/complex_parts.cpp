// SPDX-License-Identifier: Apache-2.0
// complex_norm_sq, conjugate, complex, real, imag and angle (ops.md 11.2), element by element; and
// what complex products are made of: parts_of_complex and complex_of_parts, the same memory as
// numbers of c64 and as twice as many of f32, both parts of each one.
#include <bit>
#include <limits>

#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/support/complex_bits.h"

namespace rlx {
namespace {

bool check_part(InferContext& ctx, size_t input, DType wanted) {
  if (ctx.dtype(input) == wanted) return true;
  return ctx.fail(DiagCode::BadDtype,
                  "input " + std::to_string(input) + " is " +
                      std::string(name_of(ctx.dtype(input))) + ", wanted " +
                      std::string(name_of(wanted)),
                  wanted == DType::f32 ? "c64 has parts of f32: insert a cast" : "");
}

bool infer_parts(InferContext& ctx) {
  if (!check_part(ctx, 0, DType::c64)) return false;
  const bool is_complex = ctx.node().op == "conjugate";
  ctx.set_output(0, {is_complex ? DType::c64 : DType::f32, ctx.shape(0)});
  return true;
}

bool infer_complex(InferContext& ctx) {
  if (!check_part(ctx, 0, DType::f32) || !check_part(ctx, 1, DType::f32)) return false;
  const std::optional<Shape> shape = infer_broadcast(ctx);
  if (!shape) return false;
  ctx.set_output(0, {DType::c64, *shape});
  return true;
}

bool evaluate_parts(EvaluateContext& ctx) {
  const Tensor& z = ctx.input(0);
  Tensor& y = ctx.output(0);
  const std::string& op = ctx.node().op;
  if (op == "complex_norm_sq") {
    y.magnitudes.resize(y.floats.size());
    y.terms = 2;
  }
  for (size_t i = 0; i < z.integers.size(); ++i) {
    const std::complex<double> value = complex_from_bits(z.integers[i]);
    if (op == "conjugate") {
      // The sign bit of the imaginary part, of NaN too.
      y.integers[i] = z.integers[i] ^ std::numeric_limits<int64_t>::min();
    } else if (op == "complex_norm_sq") {
      y.floats[i] = y.magnitudes[i] = value.real() * value.real() + value.imag() * value.imag();
    } else if (op == "angle") {
      y.floats[i] = std::arg(value);
    } else {
      y.floats[i] = op == "real" ? value.real() : value.imag();
    }
  }
  return true;
}

bool evaluate_complex_of_parts(EvaluateContext& ctx) {
  const Tensor& re = ctx.input(0);
  const Tensor& im = ctx.input(1);
  Tensor& y = ctx.output(0);
  for_each_broadcast(
      y.type.shape, {&re.type.shape, &im.type.shape}, [&](int64_t o, const int64_t* in) {
        y.integers[static_cast<size_t>(o)] = complex_to_bits(
            {re.floats[static_cast<size_t>(in[0])], im.floats[static_cast<size_t>(in[1])]});
      });
  return true;
}

DType other_of(DType dtype) {
  return dtype == DType::c64 ? DType::f32 : DType::c64;
}

bool infer_pairs(InferContext& ctx) {
  const bool to_parts = ctx.node().op == "parts_of_complex";
  if (!check_part(ctx, 0, to_parts ? DType::c64 : DType::f32)) return false;
  Shape shape = ctx.shape(0);
  if (shape.empty()) return ctx.fail(DiagCode::BadShape, "input 0 has no axis");
  shape.back() = to_parts ? shape.back() * 2 : ceil_div(shape.back(), 2);
  ctx.set_output(0, {other_of(ctx.dtype(0)), shape});
  return true;
}

bool evaluate_pairs(EvaluateContext& ctx) {
  Tensor x = ctx.input(0);
  x.round_to_dtype();
  ctx.output(0) = Tensor::from_bytes(ctx.output_type(0), x.to_bytes());
  return true;
}

bool lower_pairs(LowerContext& ctx) {
  const bool to_parts = ctx.input_type(0).dtype == DType::c64;
  TensorRef view = ctx.input(0);
  bool has_pairs = view.strides.back() == 1;
  // Pairs of f32 begin at even places.
  for (size_t i = 0; !to_parts && i + 1 < view.strides.size(); ++i)
    has_pairs = has_pairs && view.strides[i] % 2 == 0;
  if (!has_pairs || (!to_parts && ctx.alignment(view) < 8)) view = ctx.dense_input(0);
  for (size_t i = 0; i + 1 < view.strides.size(); ++i)
    view.strides[i] = to_parts ? view.strides[i] * 2 : ceil_div(view.strides[i], 2);
  view.type = ctx.output_type(0);
  ctx.alias_output(0, std::move(view));
  return true;
}

std::string scalar_norm_sq(const ScalarContext& ctx) {
  return fill_template("rlx_complex_norm_sq($0)", ctx);
}
std::string scalar_conjugate(const ScalarContext& ctx) {
  return fill_template("rlx_complex_conjugate($0)", ctx);
}
std::string scalar_complex(const ScalarContext& ctx) {
  return fill_template("rlx_complex($0, $1)", ctx);
}
std::string scalar_real(const ScalarContext& ctx) {
  return fill_template("rlx_real($0)", ctx);
}
std::string scalar_imag(const ScalarContext& ctx) {
  return fill_template("rlx_imaginary($0)", ctx);
}
std::string scalar_angle(const ScalarContext& ctx) {
  return fill_template("rlx_complex_angle($0)", ctx);
}

constexpr OpDef part_op(std::string_view name, std::string_view signature,
                        std::string (*scalar)(const ScalarContext&)) {
  return {.name = name,
          .signature = signature,
          .inputs = {1, 1},
          .outputs = {1, 1},
          .infer = infer_parts,
          .evaluate = evaluate_parts,
          .lower = lower_elementwise,
          .scalar = scalar};
}

constexpr OpDef pairs_op(std::string_view name, std::string_view signature) {
  return {.name = name,
          .signature = signature,
          .inputs = {1, 1},
          .outputs = {1, 1},
          .infer = infer_pairs,
          .evaluate = evaluate_pairs,
          .lower = lower_pairs,
          .keeps_f32 = 1u};
}

constexpr OpDef kComplexPartsOps[] = {
    part_op("complex_norm_sq", "complex_norm_sq(z) -> y", scalar_norm_sq),
    part_op("conjugate", "conjugate(z) -> y", scalar_conjugate),
    {.name = "complex",
     .signature = "complex(re, im) -> z",
     .inputs = {2, 2},
     .outputs = {1, 1},
     .infer = infer_complex,
     .evaluate = evaluate_complex_of_parts,
     .lower = lower_elementwise,
     .scalar = scalar_complex,
     .keeps_f32 = 3u},
    part_op("real", "real(z) -> y", scalar_real),
    part_op("imag", "imag(z) -> y", scalar_imag),
    part_op("angle", "angle(z) -> y", scalar_angle),
    pairs_op("parts_of_complex", "parts_of_complex(z) -> y"),
    pairs_op("complex_of_parts", "complex_of_parts(x) -> z"),
};

}  // namespace

std::span<const OpDef> complex_parts_ops() {
  return kComplexPartsOps;
}

}  // namespace rlx
