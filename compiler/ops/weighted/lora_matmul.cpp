// SPDX-License-Identifier: Apache-2.0
// lora_matmul (ops.md 3.4): x * w + scale * ((x * a) * b), with w dense or in blocks.
#include <array>
#include <cmath>

#include "compiler/ops/lowering/block_weights.h"
#include "compiler/ops/op_def.h"

namespace rlx {
namespace {

bool check_dtypes(InferContext& ctx) {
  const bool wide = ctx.dtype(0) == DType::f64;
  constexpr std::array<const char*, 4> kNames = {"x", "w", "a", "b"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    const DType dtype = ctx.dtype(i);
    if (i == 1 && !wide && is_block_type(dtype)) continue;
    if (wide ? dtype == DType::f64 : is_short_float(dtype)) continue;
    return ctx.fail(DiagCode::BadDtype, std::string(kNames.at(i)) + " is " +
                                            std::string(name_of(dtype)) + ", wanted " +
                                            (wide ? "f64 beside f64 x" : "f32, f16 or bf16"));
  }
  const bool blocks = is_block_type(ctx.dtype(1));
  const bool named = ctx.attrs().has("scheme");
  if (blocks != named || (named && ctx.attrs().text("scheme") != name_of(ctx.dtype(1)))) {
    return ctx.fail(DiagCode::BadAttribute,
                    "w is " + to_string(ctx.input(1)) +
                        (blocks ? ", wanted scheme to name its type" : ", wanted no scheme"));
  }
  return true;
}

bool infer_lora_matmul(InferContext& ctx) {
  if (!check_dtypes(ctx)) return false;
  const Shape& x = ctx.shape(0);
  const Shape& w = ctx.shape(1);
  const Shape& a = ctx.shape(2);
  const Shape& b = ctx.shape(3);
  if (x.size() < 2 || w.size() != 2 || a.size() != 2 || b.size() != 2) {
    return ctx.fail(DiagCode::BadRank, "x " + to_string(x) + ", w " + to_string(w) + ", a " +
                                           to_string(a) + ", b " + to_string(b) +
                                           "; wanted [.., M, K], a matrix, [K, r] and [r, N]");
  }
  const bool blocks = is_block_type(ctx.dtype(1));
  const int64_t k = blocks ? w[1] : w[0];
  const int64_t n = blocks ? w[0] : w[1];
  if (x.back() != k || a[0] != k || a[1] != b[0] || b[1] != n) {
    return ctx.fail(DiagCode::BadShape, "x " + to_string(x) + ", w " + to_string(w) + ", a " +
                                            to_string(a) + ", b " + to_string(b) +
                                            " do not agree in K, N or r");
  }
  Shape y = x;
  y.back() = n;
  ctx.set_output(0, {ctx.dtype(0), std::move(y)});
  return true;
}

bool evaluate_lora_matmul(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Tensor& a = ctx.input(2);
  const Tensor& b = ctx.input(3);
  Tensor& y = ctx.output(0);
  const int64_t k = a.type.shape[0];
  const int64_t r = a.type.shape[1];
  const int64_t n = b.type.shape[1];
  const double scale = ctx.attrs().real("scale");
  std::vector<double> w = ctx.input(1).floats;
  const bool blocks = is_block_type(ctx.input(1).type.dtype);
  if (blocks) {
    for (const BlockElement& element : decode_blocks(ctx.input(1))) w.push_back(element.value());
  }
  y.magnitudes.assign(y.floats.size(), 0);
  y.terms = k + r;
  for (int64_t i = 0; i < y.count(); ++i) {
    const int64_t row = i / n;
    const int64_t column = i % n;
    double sum = 0;
    double magnitude = 0;
    for (int64_t d = 0; d < k; ++d) {
      const double x_value = x.floats[static_cast<size_t>(row * k + d)];
      const int64_t at = blocks ? column * k + d : d * n + column;
      const double term = x_value * w[static_cast<size_t>(at)];
      sum += term;
      magnitude += std::fabs(term);
      for (int64_t j = 0; j < r; ++j) {
        const double low_rank = scale * x_value * a.floats[static_cast<size_t>(d * r + j)] *
                                b.floats[static_cast<size_t>(j * n + column)];
        sum += low_rank;
        magnitude += std::fabs(low_rank);
      }
    }
    y.floats[static_cast<size_t>(i)] = sum;
    y.magnitudes[static_cast<size_t>(i)] = magnitude;
  }
  return true;
}

bool decompose_lora_matmul(RewriteContext& ctx) {
  const DType dtype = ctx.type(ctx.input(0)).dtype;
  const std::string compute = dtype == DType::f64 ? "f64" : "f32";
  const Attributes precise = {{"out_dtype", compute}};
  ValueId y{};
  if (ctx.attrs().has("scheme")) {
    // Such a product has the type of its x.
    const ValueId x = ctx.emit("cast", {ctx.input(0)}, {{"to", compute}});
    y = ctx.emit("dequant_matmul", {x, ctx.input(1)}, {{"scheme", ctx.attrs().text("scheme")}});
  } else {
    y = ctx.emit("matmul", {ctx.input(0), ctx.input(1)}, precise);
  }
  ValueId low_rank = ctx.emit("matmul", {ctx.input(0), ctx.input(2)}, precise);
  low_rank = ctx.emit("matmul", {low_rank, ctx.input(3)}, precise);
  low_rank = ctx.emit("affine", {low_rank}, {{"mul", ctx.attrs().real("scale")}});
  y = ctx.emit("add", {y, low_rank});
  ctx.replace_output(0, ctx.emit("cast", {y}, {{"to", std::string(name_of(dtype))}}));
  return true;
}

const AttrSpec kLoraMatmulAttrs[] = {
    {.name = "scale", .type = AttrType::Float, .default_text = "1"},
    {.name = "scheme", .type = AttrType::String},
};

const OpDef kLoraMatmulOps[] = {
    {.name = "lora_matmul",
     .signature = "lora_matmul(x, w, a, b; scale=1, scheme) -> y",
     .inputs = {4, 4},
     .attrs = kLoraMatmulAttrs,
     .infer = infer_lora_matmul,
     .evaluate = evaluate_lora_matmul,
     .decompose = decompose_lora_matmul},
};

}  // namespace

std::span<const OpDef> lora_matmul_ops() {
  return kLoraMatmulOps;
}

}  // namespace rlx
