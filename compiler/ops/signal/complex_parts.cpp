// SPDX-License-Identifier: Apache-2.0
// complex_norm_sq, conjugate, complex, real, imag and angle (ops.md 11.2), element by element.
#include <bit>
#include <limits>

#include "compiler/ops/lowering/elementwise.h"
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
};

}  // namespace

std::span<const OpDef> complex_parts_ops() {
  return kComplexPartsOps;
}

}  // namespace rlx
