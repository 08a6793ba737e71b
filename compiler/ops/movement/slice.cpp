// SPDX-License-Identifier: Apache-2.0
// narrow, slice, reverse, diagonal, split (ops.md 6): views; no code runs, but for a narrow whose
// start is a run-time input.
#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/ir/count_attribute.h"
#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/size_values.h"
#include "compiler/support/required_size.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// One output as a view of the input: where it starts and how it steps, in elements.
struct SliceView {
  Shape shape;
  Dim offset = 0;
  Strides strides;
};

SliceView whole(const Shape& shape, const Strides& strides) {
  return {.shape = shape, .offset = 0, .strides = strides};
}

// Where nothing is taken the start may lie behind the axis: backwards that is no place of x.
Dim start_inside(const Dim& start, const Dim& size, const Dim& stride) {
  return stride.range().least < 0 ? min(start, max(size, 1) - 1) : start;
}

void take(SliceView& view, size_t axis, const Dim& start, const Dim& count, int64_t step) {
  if (count > 0) {
    const Dim& stride = view.strides[axis];
    view.offset += start_inside(start, view.shape[axis], stride) * stride;
  }
  view.shape[axis] = count;
  view.strides[axis] *= step;
}

// The elements that a slice takes of an axis.
struct Taken {
  Dim start;
  Dim count;
};

// The lowest and the highest step's magnitude do not fit; any step beyond the span takes one
// element.
int64_t magnitude_of(int64_t step) {
  return std::abs(std::max(step, -std::numeric_limits<int64_t>::max()));
}

// A bound of a step forward, in [0, size].
Dim forward_bound(const Dim& bound, const Dim& size) {
  if (bound.range().most <= -size.range().most) return 0;
  // Sums that are below 0 at no size.
  return bound < 0 ? max(size, -bound) - -bound : min(bound, size);
}

// The number of elements up to the bound of a step backwards, with it, in [0, size].
Dim backward_bound(const Dim& bound, const Dim& size) {
  if (bound.range().least >= size.range().most || bound == -1) return size;
  return forward_bound(bound + 1, size);
}

Taken taken_by(const Dim& start_bound, const Dim& end_bound, const Dim& size, int64_t step) {
  // What lies beyond the axis takes one element, as a step over all of it does.
  const int64_t stride = std::min(magnitude_of(step), std::max<int64_t>(size.range().most, 1));
  if (step > 0) {
    const Dim start = forward_bound(start_bound, size);
    const Dim span = max(forward_bound(end_bound, size), start) - start;
    return {.start = start, .count = ceil_div(span, stride)};
  }
  const Dim begin = max(backward_bound(start_bound, size), min(size, 1));
  const Dim end = backward_bound(end_bound, size);
  const Dim span = max(begin, end) - end;
  return {.start = max(begin, 1) - 1, .count = ceil_div(span, stride)};
}

std::vector<SliceView> slice_views(NodeContext& ctx, const Shape& shape, const Strides& strides) {
  const AttributeReader& attrs = ctx.attrs();
  const Ints starts = attrs.integers("starts");
  const Ints ends = attrs.integers("ends");
  Ints steps = attrs.has("steps") ? attrs.integers("steps") : Ints{1};
  if (steps.size() == 1) steps.assign(starts.size(), steps[0]);  // one for all axes
  Ints axes;
  for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (attrs.has("axes")) axes = attrs.integers("axes");
  const bool agree =
      starts.size() == ends.size() && starts.size() == steps.size() && starts.size() == axes.size();
  if (!agree) {
    ctx.fail(DiagCode::BadAttribute,
             "axes, starts, ends and steps have " + std::to_string(axes.size()) + ", " +
                 std::to_string(starts.size()) + ", " + std::to_string(ends.size()) + " and " +
                 std::to_string(steps.size()) + " entries, wanted equal counts");
    return {};
  }
  const auto normal = ctx.axes(axes, shape.size());
  if (!normal) return {};
  SliceView view = whole(shape, strides);
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto axis = static_cast<size_t>((*normal)[i]);
    const int64_t step = steps[i];
    if (step == 0) {
      ctx.fail(DiagCode::BadAttribute, "step of axis " + std::to_string(axis) + " is 0");
      return {};
    }
    const Taken taken = taken_by(starts[i], ends[i], shape[axis], step);
    take(view, axis, taken.start, taken.count, taken.count > 1 ? step : 1);
  }
  return {view};
}

std::vector<SliceView> narrow_views(NodeContext& ctx, const Shape& shape, const Strides& strides) {
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), shape.size());
  if (!axis) return {};
  const Dim& size = shape[static_cast<size_t>(*axis)];
  const Dim written = ctx.attrs().integers("start")[0];
  const Dim count = ctx.attrs().integers("len")[0];
  const Dim start = written < 0 ? size + written : written;
  // Where sizes are free, a run in which they do not lie there is refused.
  if (start < 0 || start + count > size) {
    ctx.fail(DiagCode::BadShape, to_string(count) + " elements from " + to_string(written) +
                                     " do not lie inside axis " + std::to_string(*axis) + " of " +
                                     to_string(shape));
    return {};
  }
  SliceView view = whole(shape, strides);
  const Dim taken = required_at_least(required_at_least(count, start, 0), size, start + count);
  take(view, static_cast<size_t>(*axis), start, taken, 1);
  return {view};
}

// With two inputs the start is known only at run time.
bool has_start_input(const NodeContext& ctx) {
  return ctx.input_count() == 2;
}

// A window whose start the device reads: its rows are gathered. Outside [0, size - len] the start
// is the nearest that fits.
bool decompose_narrow(RewriteContext& ctx) {
  if (!has_start_input(ctx)) return true;
  const Shape& shape = ctx.type(ctx.input(0)).shape;
  const int64_t axis = ctx.axis(ctx.attrs().integer("axis"), shape.size()).value();
  const Dim size = shape[static_cast<size_t>(axis)];
  const Dim count = ctx.attrs().integers("len")[0];
  const auto scalar = [&ctx](const Dim& number) {
    return ctx.emit("reshape", {emit_size(ctx, number)}, {{"shape", Ints{}}});
  };
  const auto number = [&](std::string_view stem, const Dim& value) {
    if (value.is_free()) return scalar(value);
    Tensor one = Tensor::zeros({DType::i64, {}});
    one.integers[0] = value.bound();
    return ctx.constant(stem, one);
  };
  const ValueId written = ctx.emit("cast", {ctx.input(1)}, {{"to", "i64"}});
  const ValueId wrapped = ctx.emit("add", {written, number("size", size)});
  const ValueId is_negative = ctx.emit("lt", {written, number("zero", 0)});
  const ValueId start = ctx.emit("where", {is_negative, wrapped, written});
  const Dim last = size - count;
  ValueId inside = start;
  if (last.is_free()) {
    inside = ctx.emit("min", {start, scalar(last)});
    inside = ctx.emit("max", {inside, number("zero", 0)});
  } else {
    inside = ctx.emit("clamp", {start}, {{"min", 0.0}, {"max", static_cast<double>(last.bound())}});
  }
  const ValueId rows =
      ctx.emit("ramp", {inside, number("one", 1)}, {{"count", count_attribute(count)}});
  ctx.replace_output(0, ctx.emit("gather", {ctx.input(0), rows}, {{"axis", axis}}));
  return true;
}

// The axis that is left of two is the last.
std::vector<SliceView> diagonal_views(NodeContext& ctx, const Shape& shape,
                                      const Strides& strides) {
  const Ints written = {ctx.attrs().integer("axis1"), ctx.attrs().integer("axis2")};
  const auto axes = ctx.axes(written, shape.size());
  if (!axes) return {};
  const auto row = static_cast<size_t>((*axes)[0]);
  const auto column = static_cast<size_t>((*axes)[1]);
  const int64_t offset = ctx.attrs().integer("offset");
  // Offsets beyond the matrix leave nothing; clamped so that their magnitudes are sizes.
  const Dim down = offset < 0 ? min(magnitude_of(offset), shape[row]) : Dim();
  const Dim right = offset > 0 ? min(offset, shape[column]) : Dim();
  SliceView view;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i == row || i == column) continue;
    view.shape.push_back(shape[i]);
    view.strides.push_back(strides[i]);
  }
  const Dim count = min(shape[row] - down, shape[column] - right);
  view.shape.push_back(count);
  view.strides.push_back(strides[row] + strides[column]);
  if (count > 0) view.offset = right * strides[column] + down * strides[row];
  return {view};
}

std::vector<SliceView> reverse_views(NodeContext& ctx, const Shape& shape, const Strides& strides) {
  const auto axes = ctx.axes(ctx.attrs().integers("axes"), shape.size());
  if (!axes) return {};
  SliceView view = whole(shape, strides);
  for (int64_t axis : *axes) {
    const auto i = static_cast<size_t>(axis);
    take(view, i, max(shape[i], 1) - 1, shape[i], -1);
  }
  return {view};
}

// Whether the sizes add up to `size`; free ones at every value of their symbols.
bool split_all(const Ints& sizes, const Dim& size) {
  Dim rest = size;
  for (const Dim& part : sizes) {
    if (part.range().most > rest.range().most) return false;
    rest -= part;
  }
  return rest == 0;
}

std::optional<Ints> split_sizes(NodeContext& ctx, const Dim& size) {
  if (ctx.attrs().has("sizes") == ctx.attrs().has("num")) {
    ctx.fail(DiagCode::BadAttribute, "got both or neither of sizes and num, wanted one of them");
    return std::nullopt;
  }
  Ints sizes;
  if (ctx.attrs().has("sizes")) {
    sizes = ctx.attrs().integers("sizes");
  } else {
    const int64_t parts = ctx.attrs().integer("num");
    if (std::cmp_not_equal(parts, ctx.node().outputs.size())) {
      ctx.fail(DiagCode::BadShape, "num is " + std::to_string(parts) + ", the node has " +
                                       std::to_string(ctx.node().outputs.size()) + " outputs");
      return std::nullopt;
    }
    const Dim each = ceil_div(size, parts);
    for (int64_t i = 0; i < parts; ++i) {
      sizes.push_back(min(max(size, i * each) - i * each, each));
    }
  }
  const bool is_whole = ctx.attrs().has("num") || split_all(sizes, size);
  if (!is_whole || sizes.size() != ctx.node().outputs.size()) {
    ctx.fail(DiagCode::BadShape, "sizes " + to_string(sizes) + " do not split " + to_string(size) +
                                     " elements over " + std::to_string(ctx.node().outputs.size()) +
                                     " outputs");
    return std::nullopt;
  }
  return sizes;
}

std::vector<SliceView> split_views(NodeContext& ctx, const Shape& shape, const Strides& strides) {
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), shape.size());
  if (!axis) return {};
  const auto sizes = split_sizes(ctx, shape[static_cast<size_t>(*axis)]);
  if (!sizes) return {};
  std::vector<SliceView> views;
  Dim start = 0;
  for (const Dim& size : *sizes) {
    views.push_back(whole(shape, strides));
    take(views.back(), static_cast<size_t>(*axis), start, size, 1);
    start += size;
  }
  return views;
}

using Views = std::vector<SliceView> (*)(NodeContext&, const Shape&, const Strides&);

template <Views views>
bool infer_views(InferContext& ctx) {
  if (!refuse_block_type(ctx, ctx.dtype(0))) return false;
  const std::vector<SliceView> outputs = views(ctx, ctx.shape(0), dense_strides(ctx.shape(0)));
  for (size_t i = 0; i < outputs.size(); ++i) {
    ctx.set_output(i, {ctx.dtype(0), outputs[i].shape});
  }
  return !outputs.empty();
}

template <Views views>
bool evaluate_views(EvaluateContext& ctx) {
  const Shape& shape = ctx.input(0).type.shape;
  const std::vector<SliceView> outputs = views(ctx, shape, dense_strides(shape));
  for (size_t i = 0; i < outputs.size(); ++i) {
    copy_strided(ctx.input(0), outputs[i].offset, outputs[i].strides, ctx.output(i));
  }
  return true;
}

// Whether the elements begin at a distance behind their range's first byte that only the run knows:
// axes that a free number of elements makes long, read from behind. Few kernels take such pointers.
bool begins_at_free_distance(const TensorRef& view) {
  for (size_t i = 0; i < view.strides.size(); ++i) {
    const Dim distance = view.strides[i] * (max(view.shape()[i], 1) - 1);
    if (distance.is_free() && distance.range().least < 0) return true;
  }
  return false;
}

template <Views views>
bool lower_views(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const std::vector<SliceView> outputs = views(ctx, x.shape(), x.strides);
  for (size_t i = 0; i < outputs.size(); ++i) {
    TensorRef view = shifted(x, outputs[i].offset);
    view.type.shape = outputs[i].shape;
    view.strides = outputs[i].strides;
    const bool is_far = begins_at_free_distance(view);
    ctx.alias_output(i, is_far ? ctx.dense(view) : std::move(view));
  }
  return true;
}

bool infer_narrow(InferContext& ctx) {
  if (has_start_input(ctx) == ctx.attrs().has("start")) {
    return ctx.fail(DiagCode::BadAttribute,
                    "got both or neither of the attribute and the input start, wanted one of them");
  }
  if (!has_start_input(ctx)) return infer_views<narrow_views>(ctx);
  if (!refuse_block_type(ctx, ctx.dtype(0))) return false;
  const DType start = ctx.dtype(1);
  const bool is_index = is_integer(start) || start == DType::f32 || start == DType::f16;
  if (!is_index || !ctx.shape(1).empty()) {
    return ctx.fail(DiagCode::BadDtype, "start is " + to_string(ctx.input(1)) +
                                            ", wanted an integer (or f32, f16) of rank 0");
  }
  Shape shape = ctx.shape(0);
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), shape.size());
  if (!axis) return false;
  Dim& size = shape[static_cast<size_t>(*axis)];
  const Dim count = ctx.attrs().integers("len")[0];
  if (count > size) {
    return ctx.fail(DiagCode::BadShape, to_string(count) + " elements do not fit into axis " +
                                            std::to_string(*axis) + " of " +
                                            to_string(ctx.shape(0)));
  }
  size = required_at_least(count, size, count);
  ctx.set_output(0, {ctx.dtype(0), std::move(shape)});
  return true;
}

bool evaluate_narrow(EvaluateContext& ctx) {
  if (!has_start_input(ctx)) return evaluate_views<narrow_views>(ctx);
  const Tensor& x = ctx.input(0);
  const Tensor& start = ctx.input(1);
  const auto axis =
      static_cast<size_t>(ctx.axis(ctx.attrs().integer("axis"), x.type.shape.size()).value());
  const int64_t size = x.type.shape[axis];
  const double written =
      start.is_float() ? std::trunc(start.floats[0]) : static_cast<double>(start.integers[0]);
  const double whole = written != written ? 0 : written;  // NaN is 0
  const double wrapped = whole < 0 ? whole + static_cast<double>(size) : whole;
  const double last = static_cast<double>(size - ctx.attrs().integer("len"));
  const auto first = static_cast<int64_t>(std::clamp(wrapped, 0.0, last));
  const Strides strides = dense_strides(x.type.shape);
  copy_strided(x, first * strides[axis], strides, ctx.output(0));
  return true;
}

// ---- gradients: into zeros, at the places that were taken ----

// A range of one axis among zeros.
ValueId between_zeros(GradientContext& ctx, ValueId dy, int64_t axis, const Dim& before,
                      const Dim& after) {
  if (before == 0 && after == 0) return dy;
  return ctx.emit("pad", {dy}, {{"axes", Ints{axis}}, {"pads", Ints{before, after}}});
}

bool narrow_gradient(GradientContext& ctx) {
  const Shape& x = ctx.shape(ctx.input(0));
  const ValueId dy = ctx.gradient();
  const int64_t axis = ctx.axis(ctx.attrs().integer("axis"), x.size()).value();
  const Dim& size = x[static_cast<size_t>(axis)];
  const Dim length = ctx.attrs().integers("len")[0];
  if (ctx.has_input(1)) {
    return ctx.fail(DiagCode::UnknownOp, "a range that begins where the run says has no gradient",
                    "give the attribute start");
  }
  Dim start = ctx.attrs().integers("start")[0];
  if (start < 0) start = size + start;
  ctx.give(0, between_zeros(ctx, dy, axis, start, size - start - length));
  return true;
}

bool slice_gradient(GradientContext& ctx) {
  const Shape x = ctx.shape(ctx.input(0));
  const Ints starts = ctx.attrs().integers("starts");
  const Ints ends = ctx.attrs().integers("ends");
  Ints axes = ctx.attrs().has("axes") ? ctx.axes(ctx.attrs().integers("axes"), x.size()).value()
                                      : axes_from(0, starts.size());
  const Ints steps =
      ctx.attrs().has("steps") ? ctx.attrs().integers("steps") : Ints(axes.size(), 1);
  ValueId dy = ctx.gradient();
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<int64_t>(axes[i]);
    const auto at = static_cast<size_t>(axis);
    const Dim& size = x[at];
    const auto step = static_cast<int64_t>(steps[i]);
    const Dim count = ctx.shape(ctx.output(0))[at];
    if (count == 0) {
      ctx.give(0, ctx.filled(ctx.type(ctx.input(0)), 0));
      return true;
    }
    const bool whole = starts[i] == 0 && ends[i] == size;
    if (step == 1 && (whole || count == size)) continue;
    Dim start = starts[i];
    if (!start.is_free()) {
      if (start < 0) start = start + size;
      const Dim last = step > 0 ? size : size - 1;
      if (start < 0) start = step > 0 ? Dim(0) : Dim(-1);
      if (start > last) start = last;
    }
    const Dim distance = step > 0 ? step : -step;
    if (step < 0) {
      dy = ctx.emit("reverse", {dy}, {{"axes", Ints{axis}}});
      start = start + step * (count - 1);
    }
    if (distance != 1) {
      // Each element, then zeros up to the next: an axis of its own, padded and joined again.
      Shape apart = ctx.shape(dy);
      apart.insert(apart.begin() + axis + 1, 1);
      dy = between_zeros(ctx, ctx.reshape(dy, apart), axis + 1, 0, distance - 1);
      Shape joined = ctx.shape(dy);
      joined[at] = joined[at] * distance;
      joined.erase(joined.begin() + axis + 1);
      dy = ctx.reshape(dy, joined);
      dy = ctx.emit(
          "slice", {dy},
          {{"axes", Ints{axis}}, {"starts", Ints{0}}, {"ends", Ints{(count - 1) * distance + 1}}});
    }
    dy = between_zeros(ctx, dy, axis, start, size - start - ctx.shape(dy)[at]);
  }
  ctx.give(0, dy);
  return true;
}

bool reverse_gradient(GradientContext& ctx) {
  ctx.give(0, ctx.emit("reverse", {ctx.gradient()}, ctx.attributes()));
  return true;
}

bool split_gradient(GradientContext& ctx) {
  NodeBuilder::Inputs parts;
  for (size_t i = 0; i < ctx.node().outputs.size(); ++i) parts.emplace_back(ctx.gradient(i));
  ctx.give(0, ctx.emit("concat", std::move(parts), {{"axis", ctx.attrs().integer("axis")}}));
  return true;
}

const AttrSpec kSliceAttrs[] = {
    {.name = "axes", .type = AttrType::IntList},
    {.name = "starts", .type = AttrType::IntList, .required = true},
    {.name = "ends", .type = AttrType::IntList, .required = true},
    {.name = "steps", .type = AttrType::IntList},
};
const AttrSpec kNarrowAttrs[] = {
    {.name = "axis", .type = AttrType::Int, .required = true},
    {.name = "start", .type = AttrType::Int},
    {.name = "len", .type = AttrType::Int, .required = true, .minimum = 0},
};
const AttrSpec kReverseAttrs[] = {{.name = "axes", .type = AttrType::IntList, .required = true}};
const AttrSpec kDiagonalAttrs[] = {
    {.name = "offset", .type = AttrType::Int, .default_text = "0"},
    {.name = "axis1", .type = AttrType::Int, .default_text = "0"},
    {.name = "axis2", .type = AttrType::Int, .default_text = "1"},
};
const AttrSpec kSplitAttrs[] = {
    {.name = "axis", .type = AttrType::Int, .required = true},
    {.name = "sizes", .type = AttrType::IntList, .minimum = 0},
    {.name = "num", .type = AttrType::Int, .minimum = 1},
};

const OpDef kSlices[] = {
    {.name = "narrow",
     .signature = "narrow(x, [start]; axis, start, len) -> y",
     .inputs = {1, 2},
     .attrs = kNarrowAttrs,
     .infer = infer_narrow,
     .evaluate = evaluate_narrow,
     .decompose = decompose_narrow,
     .gradient = narrow_gradient,
     .lower = lower_views<narrow_views>,
     .reads_strides = true,
     .view_kind = ViewKind::View},
    {.name = "slice",
     .signature = "slice(x; axes, starts, ends, steps=1) -> y",
     .attrs = kSliceAttrs,
     .infer = infer_views<slice_views>,
     .evaluate = evaluate_views<slice_views>,
     .gradient = slice_gradient,
     .lower = lower_views<slice_views>,
     .reads_strides = true,
     .view_kind = ViewKind::View},
    {.name = "reverse",
     .signature = "reverse(x; axes) -> y",
     .attrs = kReverseAttrs,
     .infer = infer_views<reverse_views>,
     .evaluate = evaluate_views<reverse_views>,
     .gradient = reverse_gradient,
     .lower = lower_views<reverse_views>,
     .reads_strides = true,
     .view_kind = ViewKind::View},
    {.name = "diagonal",
     .signature = "diagonal(x; offset=0, axis1=0, axis2=1) -> y",
     .attrs = kDiagonalAttrs,
     .infer = infer_views<diagonal_views>,
     .evaluate = evaluate_views<diagonal_views>,
     .lower = lower_views<diagonal_views>,
     .reads_strides = true,
     .view_kind = ViewKind::View},
    {.name = "split",
     .signature = "split(x; axis, sizes or num) -> y0, ...",
     .outputs = {1, kUnlimited},
     .attrs = kSplitAttrs,
     .infer = infer_views<split_views>,
     .evaluate = evaluate_views<split_views>,
     .gradient = split_gradient,
     .lower = lower_views<split_views>,
     .reads_strides = true},
};

}  // namespace

std::span<const OpDef> slice_ops() {
  return kSlices;
}

}  // namespace rlx
