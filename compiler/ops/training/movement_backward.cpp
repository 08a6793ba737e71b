// SPDX-License-Identifier: Apache-2.0
// reduce_to_shape, cumsum_backward, gather_backward and rope_backward (ops.md 16, 16.4, 16.5).
#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/ops/evaluate_op.h"
#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/places.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/op_def.h"

namespace rlx {

std::span<const OpDef> rope_ops();

namespace {

// ---- reduce_to_shape(dy; shape) ----

bool infer_reduce_to_shape(InferContext& ctx) {
  if (!check_dtype(ctx, 0, DTypeSet::Number)) return false;
  const Shape wanted = ctx.attrs().integers("shape");
  const std::optional<Shape> both = broadcast_shapes(wanted, ctx.shape(0));
  if (!both || *both != ctx.shape(0)) {
    return ctx.fail(DiagCode::BadShape, "shape " + to_string(wanted) +
                                            " does not broadcast to dy " + to_string(ctx.shape(0)));
  }
  ctx.set_output(0, {ctx.dtype(0), wanted});
  return true;
}

bool evaluate_reduce_to_shape(EvaluateContext& ctx) {
  const Tensor& dy = ctx.input(0);
  Tensor& y = ctx.output(0);
  if (dy.is_float()) y.magnitudes.assign(y.floats.size(), 0);
  y.terms = y.count() == 0 ? 0 : dy.count() / y.count();
  for_each_broadcast(dy.type.shape, {&y.type.shape}, [&](int64_t i, const int64_t* to) {
    const auto from = static_cast<size_t>(i);
    const auto at = static_cast<size_t>(to[0]);
    if (dy.is_float()) {
      y.floats[at] += dy.floats[from];
      y.magnitudes[at] += std::fabs(dy.floats[from]);
    } else {
      const auto sum =
          static_cast<uint64_t>(y.integers[at]) + static_cast<uint64_t>(dy.integers[from]);
      y.integers[at] = wrap_integer(y.type.dtype, static_cast<int64_t>(sum));
    }
  });
  return true;
}

bool decompose_reduce_to_shape(RewriteContext& ctx) {
  ctx.replace_output(0, ctx.sum_to(ctx.input(0), ctx.attrs().integers("shape")));
  return true;
}

// ---- cumsum_backward(dy; axis, exclusive, reverse) ----

bool infer_cumsum_backward(InferContext& ctx) {
  if (!check_float_input(ctx, 0, "dy")) return false;
  if (!ctx.axis(ctx.attrs().integer("axis"), ctx.shape(0).size())) return false;
  ctx.set_output(0, ctx.input(0));
  return true;
}

bool evaluate_cumsum_backward(EvaluateContext& ctx) {
  const Tensor& dy = ctx.input(0);
  Tensor& dx = ctx.output(0);
  const RowOffsets rows =
      row_offsets(dy.type.shape, {*ctx.axis(ctx.attrs().integer("axis"), dy.type.shape.size())});
  dx.magnitudes.assign(dx.floats.size(), 0);
  dx.terms = static_cast<int64_t>(rows.reduced.size());
  for (const int64_t base : rows.kept) {
    for (size_t i = 0; i < rows.reduced.size(); ++i) {
      const auto at = static_cast<size_t>(base + rows.reduced[i]);
      for (size_t j = 0; j < rows.reduced.size(); ++j) {
        // The j-th sum of the forward holds element i.
        const bool later = ctx.attrs().flag("reverse") ? j < i : j > i;
        if (!later && (i != j || ctx.attrs().flag("exclusive"))) continue;
        const double term = dy.floats[static_cast<size_t>(base + rows.reduced[j])];
        dx.floats[at] += term;
        dx.magnitudes[at] += std::fabs(term);
      }
    }
  }
  return true;
}

bool decompose_cumsum_backward(RewriteContext& ctx) {
  const ValueId dx = ctx.emit("cumsum", {ctx.input(0)},
                              {{"axis", ctx.attrs().integer("axis")},
                               {"exclusive", ctx.attrs().flag("exclusive")},
                               {"reverse", !ctx.attrs().flag("reverse")}});
  ctx.replace_output(0, dx);
  return true;
}

// ---- gather_backward(dy, index; axis, dim, padding_idx, oob) ----

struct Gathered {
  Shape x;
  size_t axis = 0;
  size_t index_rank = 0;
};

std::optional<Gathered> gathered_of(NodeContext& ctx, const Shape& dy, const Shape& index) {
  if (dy.size() < index.size()) {
    ctx.fail(DiagCode::BadRank,
             "dy " + to_string(dy) + " has fewer axes than index " + to_string(index));
    return std::nullopt;
  }
  const size_t rank = dy.size() - index.size() + 1;
  const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), rank);
  if (!axis) return std::nullopt;
  if (!std::equal(index.begin(), index.end(), dy.begin() + *axis)) {
    ctx.fail(DiagCode::BadShape, "dy is " + to_string(dy) + ", wanted the dims of index " +
                                     to_string(index) + " from axis " + std::to_string(*axis) +
                                     " on");
    return std::nullopt;
  }
  Gathered result{.x = dy, .axis = static_cast<size_t>(*axis), .index_rank = index.size()};
  result.x.erase(result.x.begin() + *axis,
                 result.x.begin() + *axis + static_cast<std::ptrdiff_t>(index.size()));
  result.x.insert(result.x.begin() + *axis, Dim(ctx.attrs().integer("dim")));
  return result;
}

bool infer_gather_backward(InferContext& ctx) {
  if (!check_float_input(ctx, 0, "dy") || !check_index_dtype(ctx, 1)) return false;
  const std::optional<Gathered> gathered = gathered_of(ctx, ctx.shape(0), ctx.shape(1));
  if (!gathered) return false;
  ctx.set_output(0, {ctx.dtype(0), gathered->x});
  return true;
}

bool evaluate_gather_backward(EvaluateContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Tensor& index = ctx.input(1);
  const std::optional<Gathered> gathered = gathered_of(ctx, dy.type.shape, index.type.shape);
  if (!gathered) return false;
  Tensor& dx = ctx.output(0);
  dx.magnitudes.assign(dx.floats.size(), 0);
  dx.terms = index.count();
  const int64_t dim = ctx.attrs().integer("dim");
  const bool clamps = ctx.attrs().text("oob") == "clamp";
  int64_t inner = 1;
  for (size_t d = gathered->axis + 1; d < gathered->x.size(); ++d) inner *= gathered->x[d];
  const int64_t indices = index.count();
  for (int64_t i = 0; i < dy.count(); ++i) {
    const int64_t which = i / inner % indices;
    int64_t row = index.is_float() ? static_cast<int64_t>(index.floats[static_cast<size_t>(which)])
                                   : index.integers[static_cast<size_t>(which)];
    if (ctx.attrs().has("padding_idx") && row == ctx.attrs().integer("padding_idx")) continue;
    if (row < 0) row += dim;
    if (row < 0 || row >= dim) {
      if (!clamps || dim == 0) continue;
      row = row < 0 ? 0 : dim - 1;
    }
    const int64_t outer = i / inner / indices;
    const auto at = static_cast<size_t>((outer * dim + row) * inner + i % inner);
    dx.floats[at] += dy.floats[static_cast<size_t>(i)];
    dx.magnitudes[at] += std::fabs(dy.floats[static_cast<size_t>(i)]);
  }
  return true;
}

// Rows that are dropped are added as zeros, so that no index counts as a bad one.
bool decompose_gather_backward(RewriteContext& ctx) {
  const DType dtype = ctx.dtype(ctx.input(0));
  const std::optional<Gathered> gathered =
      gathered_of(ctx, ctx.shape(ctx.input(0)), ctx.shape(ctx.input(1)));
  if (!gathered) return false;
  ValueId index = ctx.input(1);
  if (is_float(ctx.dtype(index))) index = ctx.cast(index, DType::i64);
  if (element_bytes(ctx.dtype(index)) < 4) index = ctx.cast(index, DType::i32);
  const int64_t dim = ctx.attrs().integer("dim");
  const auto number = [&](int64_t value) {
    Tensor tensor = Tensor::zeros({ctx.dtype(index), {}});
    tensor.integers[0] = value;
    return ctx.constant("row", tensor);
  };
  std::optional<ValueId> counts;
  const auto also = [&](ValueId condition) {
    counts = counts ? ctx.emit("logical_and", {*counts, condition}) : condition;
  };
  if (ctx.attrs().has("padding_idx"))
    also(ctx.emit("ne", {index, number(ctx.attrs().integer("padding_idx"))}));
  if (kind_of(ctx.dtype(index)) == DTypeKind::Int) {
    const ValueId below = ctx.emit("lt", {index, number(0)});
    index = ctx.emit("where", {below, ctx.emit("add", {index, number(dim)}), index});
    if (ctx.attrs().text("oob") == "zero") also(ctx.emit("ge", {index, number(0)}));
    index = ctx.emit("max", {index, number(0)});
  }
  if (ctx.attrs().text("oob") == "zero") also(ctx.emit("lt", {index, number(dim)}));
  index = ctx.emit("min", {index, number(std::max<int64_t>(dim - 1, 0))});

  ValueId dy = ctx.widen(ctx.input(0));
  Ints axes;
  for (size_t d = 0; d < gathered->index_rank; ++d)
    axes.push_back(static_cast<int64_t>(gathered->axis + d));
  for (size_t d = 0; d < ctx.shape(dy).size(); ++d) {
    if (d < gathered->axis || d >= gathered->axis + gathered->index_rank)
      axes.push_back(static_cast<int64_t>(d));
  }
  dy = ctx.transpose(dy, axes);
  if (counts) {
    Shape shape = ctx.shape(index);
    shape.resize(ctx.shape(dy).size(), 1);
    dy = ctx.emit("where", {ctx.reshape(*counts, shape), dy, ctx.scalar(ctx.dtype(dy), 0)});
  }
  const ValueId rows = ctx.emit("scatter_add", {dy, index}, {{"dim0", dim}});
  Ints back;
  for (size_t d = 0; d < gathered->axis; ++d) back.push_back(static_cast<int64_t>(d + 1));
  back.push_back(0);
  for (size_t d = gathered->axis + 1; d < gathered->x.size(); ++d)
    back.push_back(static_cast<int64_t>(d));
  ctx.replace_output(0, ctx.cast(ctx.transpose(rows, back), dtype));
  return true;
}

// ---- rope_backward(dy, cos, sin, [positions]) ----

bool infer_rope_backward(InferContext& ctx) {
  return find_op("rope")->infer(ctx);
}

// Rotating back is rotating with the sine of the other sign.
bool evaluate_rope_backward(EvaluateContext& ctx) {
  Tensor sin = ctx.input(2);
  for (double& value : sin.floats) value = -value;
  std::vector<const Tensor*> inputs = {&ctx.input(0), &ctx.input(1), &sin, input_or_null(ctx, 3)};
  ctx.output(0).floats =
      evaluate_op("rope", inputs, ctx.node().attributes, {ctx.output_type(0)})[0].floats;
  return true;
}

bool decompose_rope_backward(RewriteContext& ctx) {
  Attributes attributes = ctx.node().attributes;
  attributes["inverse"] = !ctx.attrs().flag("inverse");
  ctx.replace_output(0, ctx.emit("rope", ctx.node().inputs, std::move(attributes)));
  return true;
}

constexpr AttrSpec kAxis{.name = "axis", .type = AttrType::Int, .required = true};
constexpr AttrSpec option(std::string_view name) {
  return {.name = name, .type = AttrType::Bool, .default_text = "false"};
}
constexpr std::array<std::string_view, 2> kOutside = {"clamp", "zero"};
constexpr std::array kShapeAttrs = {
    AttrSpec{.name = "shape", .type = AttrType::IntList, .required = true, .minimum = 0}};
constexpr std::array kCumsumAttrs = {kAxis, option("exclusive"), option("reverse")};
constexpr std::array kGatherAttrs = {
    AttrSpec{.name = "axis", .type = AttrType::Int, .default_text = "0"},
    AttrSpec{.name = "dim",
             .type = AttrType::Int,
             .required = true,
             .minimum = 0,
             .maximum = kLargestInt},
    AttrSpec{.name = "padding_idx", .type = AttrType::Int},
    AttrSpec{
        .name = "oob", .type = AttrType::String, .default_text = "\"clamp\"", .choices = kOutside},
};
constexpr std::array<uint32_t, 1> kRopeOptional = {3};

std::vector<OpDef> make_ops() {
  const OpDef& rope = rope_ops()[0];
  return {
      {.name = "reduce_to_shape",
       .signature = "reduce_to_shape(dy; shape) -> dx",
       .inputs = {1, 1},
       .outputs = {1, 1},
       .attrs = kShapeAttrs,
       .infer = infer_reduce_to_shape,
       .evaluate = evaluate_reduce_to_shape,
       .decompose = decompose_reduce_to_shape},
      {.name = "cumsum_backward",
       .signature = "cumsum_backward(dy; axis, exclusive=false, reverse=false) -> dx",
       .inputs = {1, 1},
       .outputs = {1, 1},
       .attrs = kCumsumAttrs,
       .infer = infer_cumsum_backward,
       .evaluate = evaluate_cumsum_backward,
       .decompose = decompose_cumsum_backward},
      {.name = "gather_backward",
       .signature = "gather_backward(dy, index; axis=0, dim, padding_idx, oob=\"clamp\") -> dx",
       .inputs = {2, 2},
       .outputs = {1, 1},
       .attrs = kGatherAttrs,
       .infer = infer_gather_backward,
       .evaluate = evaluate_gather_backward,
       .decompose = decompose_gather_backward,
       .keeps_f32 = 0b10},
      {.name = "rope_backward",
       .signature = "rope_backward(dy, cos, sin, [positions]; as rope) -> dx",
       .inputs = rope.inputs,
       .outputs = rope.outputs,
       .attrs = rope.attrs,
       .infer = infer_rope_backward,
       .evaluate = evaluate_rope_backward,
       .decompose = decompose_rope_backward,
       .optional_inputs = kRopeOptional,
       .keeps_f32 = rope.keeps_f32},
  };
}

}  // namespace

std::span<const OpDef> movement_backward_ops() {
  static const std::vector<OpDef> ops = make_ops();
  return ops;
}

}  // namespace rlx
