// SPDX-License-Identifier: Apache-2.0
// dot_general (ops.md 3.2): a product over any dims of both operands, with batch dims that pair up.
#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/ops/op_def.h"
#include "schema/plan_header.h"

namespace rlx {
namespace {

// One operand's dims by their part in the product, in the order in which the result has them.
struct OperandDims {
  Ints batch;
  Ints contracting;
  Ints free;
};

std::optional<OperandDims> operand_dims(NodeContext& ctx, const char* batch,
                                        const char* contracting, size_t rank) {
  Ints both = ctx.attrs().integers(batch);
  const size_t batches = both.size();
  const Ints summed = ctx.attrs().integers(contracting);
  both.insert(both.end(), summed.begin(), summed.end());
  const std::optional<Ints> named = ctx.axes(both, rank);
  if (!named) return std::nullopt;
  const auto middle = named->begin() + static_cast<std::ptrdiff_t>(batches);
  OperandDims dims{
      .batch = Ints(named->begin(), middle), .contracting = Ints(middle, named->end()), .free = {}};
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d) {
    if (std::find(named->begin(), named->end(), d) == named->end()) dims.free.push_back(d);
  }
  return dims;
}

struct Dims {
  OperandDims a;
  OperandDims b;
};

std::optional<Dims> read_dims(NodeContext& ctx, size_t a_rank, size_t b_rank) {
  const auto a = operand_dims(ctx, "lhs_batch", "lhs_contracting", a_rank);
  const auto b = operand_dims(ctx, "rhs_batch", "rhs_contracting", b_rank);
  if (!a || !b) return std::nullopt;
  return Dims{.a = *a, .b = *b};
}

Shape sizes_of(const Shape& shape, const Ints& dims) {
  Shape sizes;
  for (const int64_t d : dims) sizes.push_back(shape[static_cast<size_t>(d)]);
  return sizes;
}

bool check_pairs(InferContext& ctx, const char* what, const Ints& a, const Ints& b) {
  const Shape left = sizes_of(ctx.shape(0), a);
  const Shape right = sizes_of(ctx.shape(1), b);
  if (left == right) return true;
  return ctx.fail(DiagCode::BadShape, std::string("the ") + what + " dims have sizes " +
                                          to_string(left) + " in a and " + to_string(right) +
                                          " in b, wanted equal sizes pair by pair");
}

bool infer_dot_general(InferContext& ctx) {
  const auto dims = read_dims(ctx, ctx.shape(0).size(), ctx.shape(1).size());
  if (!dims) return false;
  const bool bytes = (ctx.dtype(0) == DType::i8 || ctx.dtype(0) == DType::u8) &&
                     (ctx.dtype(1) == DType::i8 || ctx.dtype(1) == DType::u8);
  const bool floats = is_float(ctx.dtype(0)) && is_float(ctx.dtype(1)) &&
                      (ctx.dtype(0) == DType::f64) == (ctx.dtype(1) == DType::f64);
  if (!bytes && !floats) {
    return ctx.fail(DiagCode::BadDtype,
                    "operands are " + to_string(ctx.input(0)) + " and " + to_string(ctx.input(1)) +
                        "; wanted f32, f16 or bf16 in any mixture, two f64, or i8 and u8",
                    "insert a cast");
  }
  if (!check_pairs(ctx, "batch", dims->a.batch, dims->b.batch) ||
      !check_pairs(ctx, "contracting", dims->a.contracting, dims->b.contracting)) {
    return false;
  }
  Shape y = sizes_of(ctx.shape(0), dims->a.batch);
  for (const Dim& size : sizes_of(ctx.shape(0), dims->a.free)) y.push_back(size);
  for (const Dim& size : sizes_of(ctx.shape(1), dims->b.free)) y.push_back(size);
  if (y.size() > kMaxRank) {
    return ctx.fail(DiagCode::BadRank, "the result " + to_string(y) + " has rank above 8");
  }
  ctx.set_output(0, {bytes ? DType::i32 : ctx.dtype(0), std::move(y)});
  return true;
}

// Offsets of every position of these dims, row-major.
std::vector<size_t> offsets_of(const Shape& shape, const Ints& dims) {
  const Strides strides = dense_strides(shape);
  std::vector<size_t> offsets = {0};
  for (const int64_t d : dims) {
    std::vector<size_t> longer;
    for (const size_t offset : offsets) {
      for (int64_t i = 0; i < shape[static_cast<size_t>(d)]; ++i) {
        longer.push_back(offset + static_cast<size_t>(i * strides[static_cast<size_t>(d)]));
      }
    }
    offsets = std::move(longer);
  }
  return offsets;
}

bool evaluate_dot_general(EvaluateContext& ctx) {
  const Tensor& a = ctx.input(0);
  const Tensor& b = ctx.input(1);
  Tensor& y = ctx.output(0);
  const auto dims = read_dims(ctx, a.type.shape.size(), b.type.shape.size());
  if (!dims) return false;
  const auto a_batch = offsets_of(a.type.shape, dims->a.batch);
  const auto b_batch = offsets_of(b.type.shape, dims->b.batch);
  const auto a_free = offsets_of(a.type.shape, dims->a.free);
  const auto b_free = offsets_of(b.type.shape, dims->b.free);
  const auto a_sum = offsets_of(a.type.shape, dims->a.contracting);
  const auto b_sum = offsets_of(b.type.shape, dims->b.contracting);
  if (y.is_float()) y.magnitudes.assign(y.floats.size(), 0);
  y.terms = static_cast<int64_t>(a_sum.size());
  size_t element = 0;
  for (size_t batch = 0; batch < a_batch.size(); ++batch) {
    for (const size_t row : a_free) {
      for (const size_t column : b_free) {
        for (size_t k = 0; k < a_sum.size(); ++k) {
          const size_t left = a_batch[batch] + row + a_sum[k];
          const size_t right = b_batch[batch] + column + b_sum[k];
          if (y.is_float()) {
            const double term = a.floats[left] * b.floats[right];
            y.floats[element] += term;
            y.magnitudes[element] += std::abs(term);
          } else {
            y.integers[element] = static_cast<int32_t>(
                static_cast<uint32_t>(y.integers[element] + a.integers[left] * b.integers[right]));
          }
        }
        ++element;
      }
    }
  }
  return true;
}

// The operand as [batch, rows, columns].
ValueId as_matrices(RewriteContext& ctx, size_t input, const Ints& batch, const Ints& rows,
                    const Ints& columns) {
  const Shape shape = ctx.type(ctx.input(input)).shape;
  Ints order = batch;
  order.insert(order.end(), rows.begin(), rows.end());
  order.insert(order.end(), columns.begin(), columns.end());
  ValueId value = ctx.input(input);
  if (!std::is_sorted(order.begin(), order.end())) {
    value = ctx.emit("transpose", {value}, {{"perm", order}});
  }
  const Ints matrices = {element_count(sizes_of(shape, batch)),
                         element_count(sizes_of(shape, rows)),
                         element_count(sizes_of(shape, columns))};
  return ctx.emit("reshape", {value}, {{"shape", matrices}});
}

bool decompose_dot_general(RewriteContext& ctx) {
  const Shape a_shape = ctx.type(ctx.input(0)).shape;
  const Shape b_shape = ctx.type(ctx.input(1)).shape;
  const auto dims = read_dims(ctx, a_shape.size(), b_shape.size());
  if (!dims) return false;
  // Whichever of free and summed dims stands first in memory stays first: no copy for a transpose.
  const auto leads = [](const Ints& first, const Ints& second) {
    return !first.empty() && !second.empty() && first.front() < second.front();
  };
  const bool trans_a = leads(dims->a.contracting, dims->a.free);
  const bool trans_b = leads(dims->b.free, dims->b.contracting);
  const ValueId a = as_matrices(ctx, 0, dims->a.batch, trans_a ? dims->a.contracting : dims->a.free,
                                trans_a ? dims->a.free : dims->a.contracting);
  const ValueId b = as_matrices(ctx, 1, dims->b.batch, trans_b ? dims->b.free : dims->b.contracting,
                                trans_b ? dims->b.contracting : dims->b.free);
  const ValueId product = ctx.emit("matmul", {a, b}, {{"trans_a", trans_a}, {"trans_b", trans_b}});
  Ints shape = sizes_of(a_shape, dims->a.batch);
  for (const Dim& size : sizes_of(a_shape, dims->a.free)) shape.push_back(size);
  for (const Dim& size : sizes_of(b_shape, dims->b.free)) shape.push_back(size);
  ctx.replace_output(0, ctx.emit("reshape", {product}, {{"shape", shape}}));
  return true;
}

constexpr std::array kDotGeneralAttrs = {
    AttrSpec{.name = "lhs_contracting", .type = AttrType::IntList, .required = true},
    AttrSpec{.name = "rhs_contracting", .type = AttrType::IntList, .required = true},
    AttrSpec{.name = "lhs_batch", .type = AttrType::IntList, .default_text = "[]"},
    AttrSpec{.name = "rhs_batch", .type = AttrType::IntList, .default_text = "[]"},
};
constexpr std::array kDotGeneralOps = {
    OpDef{.name = "dot_general",
          .signature = "dot_general(a, b; lhs_contracting, rhs_contracting, lhs_batch=[], "
                       "rhs_batch=[]) -> y",
          .inputs = {2, 2},
          .attrs = kDotGeneralAttrs,
          .infer = infer_dot_general,
          .evaluate = evaluate_dot_general,
          .decompose = decompose_dot_general},
};

}  // namespace

std::span<const OpDef> dot_general_ops() {
  return kDotGeneralOps;
}

}  // namespace rlx
