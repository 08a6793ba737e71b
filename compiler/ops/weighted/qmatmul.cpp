// SPDX-License-Identifier: Apache-2.0
// qmatmul (ops.md 3.8): an integer product with zero points, rescaled to 8 bits.
#include <algorithm>
#include <cmath>

#include "compiler/ops/op_def.h"

namespace rlx {
namespace {

bool is_byte(DType dtype) {
  return dtype == DType::i8 || dtype == DType::u8;
}

int32_t wrapped(int64_t value) {
  return static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(value)));
}

bool check_list(InferContext& ctx, const char* name, size_t count, const Dim& n) {
  if (count == 1 || n == count) return true;
  return ctx.fail(DiagCode::BadAttribute, std::string(name) + " has " + std::to_string(count) +
                                              " values, wanted 1 or N = " + to_string(n));
}

bool infer_qmatmul(InferContext& ctx) {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (is_byte(ctx.dtype(i))) continue;
    return ctx.fail(DiagCode::BadDtype, std::string(i == 0 ? "x" : "w") + " is " +
                                            std::string(name_of(ctx.dtype(i))) +
                                            ", wanted i8 or u8");
  }
  const DType to = ctx.attrs().dtype("out_dtype");
  if (!is_byte(to)) {
    return ctx.fail(DiagCode::BadAttribute,
                    "out_dtype is " + std::string(name_of(to)) + ", wanted i8 or u8");
  }
  const Shape& x = ctx.shape(0);
  const Shape& w = ctx.shape(1);
  if (x.size() < 2 || w.size() != 2 || x.back() != w[0]) {
    return ctx.fail(DiagCode::BadShape, "x is " + to_string(ctx.input(0)) + " and w is " +
                                            to_string(ctx.input(1)) +
                                            ", wanted [.., M, K] and [K, N]");
  }
  if (ctx.has_input(2) && ctx.input(2) != TensorType{DType::i32, {w[1]}}) {
    return ctx.fail(DiagCode::BadShape, "bias is " + to_string(ctx.input(2)) + ", wanted " +
                                            to_string(TensorType{DType::i32, {w[1]}}));
  }
  if (!check_list(ctx, "w_zp", ctx.attrs().integers("w_zp").size(), w[1])) return false;
  if (!check_list(ctx, "mult", ctx.attrs().reals("mult").size(), w[1])) return false;
  Shape y = x;
  y.back() = w[1];
  ctx.set_output(0, {to, std::move(y)});
  return true;
}

template <typename T>
T of_column(const std::vector<T>& list, int64_t column) {
  return list[list.size() == 1 ? 0 : static_cast<size_t>(column)];
}

bool evaluate_qmatmul(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Tensor& w = ctx.input(1);
  Tensor& y = ctx.output(0);
  const int64_t k = w.type.shape[0];
  const int64_t n = w.type.shape[1];
  const int64_t x_zero = ctx.attrs().integer("x_zp");
  const Ints w_zeros = ctx.attrs().integers("w_zp");
  const Floats factors = ctx.attrs().reals("mult");
  const auto out_zero = static_cast<double>(ctx.attrs().integer("out_zp"));
  const IntegerRange range = integer_range(y.type.dtype);
  for (int64_t i = 0; i < y.count(); ++i) {
    const int64_t column = i % n;
    int64_t sum = ctx.has_input(2) ? ctx.input(2).integers[static_cast<size_t>(column)] : 0;
    for (int64_t d = 0; d < k; ++d) {
      sum += (x.integers[static_cast<size_t>(i / n * k + d)] - x_zero) *
             (w.integers[static_cast<size_t>(d * n + column)] - of_column(w_zeros, column));
    }
    const float scaled =
        static_cast<float>(wrapped(sum)) * static_cast<float>(of_column(factors, column));
    const double code = std::nearbyint(static_cast<double>(scaled)) + out_zero;
    y.integers[static_cast<size_t>(i)] = static_cast<int64_t>(
        std::clamp(code, static_cast<double>(range.lowest), static_cast<double>(range.highest)));
  }
  return true;
}

ValueId integer_constant(RewriteContext& ctx, const char* stem, const Ints& values) {
  Tensor tensor = Tensor::zeros({DType::i32, {static_cast<int64_t>(values.size())}});
  std::transform(values.begin(), values.end(), tensor.integers.begin(),
                 [](int64_t value) { return wrapped(value); });
  return ctx.constant(stem, tensor);
}

ValueId real_constant(RewriteContext& ctx, const char* stem, const Floats& values) {
  Tensor tensor = Tensor::zeros({DType::f32, {static_cast<int64_t>(values.size())}});
  tensor.floats = values;
  return ctx.constant(stem, tensor);
}

bool has_zeros(const Ints& list) {
  return std::any_of(list.begin(), list.end(), [](int64_t value) { return value != 0; });
}

// Sums of a code tensor along an axis, in i32.
ValueId sums_along(RewriteContext& ctx, ValueId codes, int64_t axis) {
  const ValueId wide = ctx.emit("cast", {codes}, {{"to", std::string("i32")}});
  return ctx.emit("reduce_sum", {wide}, {{"axes", Ints{axis}}, {"keep_dims", axis == -1}});
}

// bias + sum of (x - x_zp)(w - w_zp), modulo 2^32: the product of the codes and what the zero
// points add to it.
ValueId accumulator(RewriteContext& ctx) {
  const int64_t k = ctx.type(ctx.input(1)).shape[0];
  const int64_t x_zero = ctx.attrs().integer("x_zp");
  const Ints w_zeros = ctx.attrs().integers("w_zp");
  ValueId sum = ctx.emit("matmul", {ctx.input(0), ctx.input(1)});
  if (has_zeros(w_zeros)) {
    const ValueId rows = sums_along(ctx, ctx.input(0), -1);
    sum = ctx.emit("sub", {sum, ctx.emit("mul", {rows, integer_constant(ctx, "w_zp", w_zeros)})});
    Ints both = w_zeros;
    for (Dim& value : both) value *= x_zero * k;
    if (x_zero != 0) sum = ctx.emit("add", {sum, integer_constant(ctx, "zp_products", both)});
  }
  if (x_zero != 0) {
    const ValueId columns = sums_along(ctx, ctx.input(1), 0);
    const ValueId shift = ctx.emit("mul", {columns, integer_constant(ctx, "x_zp", {x_zero})});
    sum = ctx.emit("sub", {sum, shift});
  }
  return ctx.has_input(2) ? ctx.emit("add", {sum, ctx.input(2)}) : sum;
}

bool decompose_qmatmul(RewriteContext& ctx) {
  const auto out_zero = static_cast<double>(ctx.attrs().integer("out_zp"));
  ValueId y = ctx.emit("cast", {accumulator(ctx)}, {{"to", std::string("f32")}});
  y = ctx.emit("mul", {y, real_constant(ctx, "mult", ctx.attrs().reals("mult"))});
  y = ctx.emit("round", {y});
  // Exact below 2^24, saturated by the cast beyond.
  if (out_zero != 0) y = ctx.emit("add", {y, real_constant(ctx, "out_zp", {out_zero})});
  const std::string to(name_of(ctx.attrs().dtype("out_dtype")));
  ctx.replace_output(0, ctx.emit("cast", {y}, {{"to", to}}));
  return true;
}

const AttrSpec kQmatmulAttrs[] = {
    {.name = "x_zp", .type = AttrType::Int, .default_text = "0", .minimum = -128, .maximum = 255},
    {.name = "w_zp",
     .type = AttrType::IntList,
     .default_text = "[0]",
     .minimum = -128,
     .maximum = 255},
    {.name = "out_zp", .type = AttrType::Int, .default_text = "0", .minimum = -128, .maximum = 255},
    {.name = "mult", .type = AttrType::FloatList, .required = true, .minimum = 0},
    {.name = "out_dtype",
     .type = AttrType::DTypeName,
     .default_text = "\"i8\"",
     .consumed_by_infer = true},
};
constexpr uint32_t kQmatmulOptional[] = {2};

const OpDef kQmatmulOps[] = {
    {.name = "qmatmul",
     .signature = "qmatmul(x, w, [bias]; x_zp=0, w_zp=[0], out_zp=0, mult, out_dtype=i8) -> y",
     .inputs = {2, 3},
     .attrs = kQmatmulAttrs,
     .infer = infer_qmatmul,
     .evaluate = evaluate_qmatmul,
     .decompose = decompose_qmatmul,
     .optional_inputs = kQmatmulOptional},
};

}  // namespace

std::span<const OpDef> qmatmul_ops() {
  return kQmatmulOps;
}

}  // namespace rlx
