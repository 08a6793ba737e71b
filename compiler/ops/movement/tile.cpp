// SPDX-License-Identifier: Apache-2.0
// tile, repeat_interleave (ops.md 6) and resize_nearest_2x (9.5): every axis of x as two, one of
// them a repetition of stride 0; one copy writes it, or none where the axis had size 1.
#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/support/check.h"
#include "schema/plan_header.h"

namespace rlx {
namespace {

constexpr double kMostRepeats = 1099511627776.0;  // 2^40, above every dim of a graph file

// How often an axis of the result goes through the whole axis of x, and how often each element
// stands in a row.
struct Repeats {
  Dim outer = 1;
  Dim inner = 1;
};
using RepeatRule = std::optional<std::vector<Repeats>> (*)(NodeContext&, const Shape&);

std::optional<std::vector<Repeats>> tile_repeats(NodeContext& ctx, const Shape& shape) {
  const Ints counts = ctx.attrs().integers("repeats");
  if (counts.size() != shape.size()) {
    ctx.fail(DiagCode::BadRank, "repeats has " + std::to_string(counts.size()) +
                                    " entries, wanted one for each of " +
                                    std::to_string(shape.size()) + " axes");
    return std::nullopt;
  }
  std::vector<Repeats> repeats;
  for (const Dim& count : counts) repeats.push_back({.outer = count});
  return repeats;
}

std::optional<std::vector<Repeats>> interleave_repeats(NodeContext& ctx, const Shape& shape) {
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), shape.size());
  if (!axis) return std::nullopt;
  std::vector<Repeats> repeats(shape.size());
  repeats[static_cast<size_t>(*axis)].inner = ctx.attrs().integers("repeats").at(0);
  return repeats;
}

std::optional<std::vector<Repeats>> double_repeats(NodeContext& ctx, const Shape& shape) {
  if (shape.size() != 4) {
    ctx.fail(DiagCode::BadRank, "input 0 is " + to_string(shape) + ", wanted rank 4 (NCHW)");
    return std::nullopt;
  }
  return std::vector<Repeats>{{}, {}, {.inner = 2}, {.inner = 2}};
}

template <RepeatRule rule>
bool infer_repeats(InferContext& ctx) {
  if (!refuse_block_type(ctx, ctx.dtype(0))) return false;
  Shape shape = ctx.shape(0);
  const auto repeats = rule(ctx, shape);
  if (!repeats) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    const Dim count = (*repeats)[i].outer * (*repeats)[i].inner;
    const std::optional<Dim> size = checked_product(shape[i], count);
    if (!size) {
      return ctx.fail(DiagCode::BadShape, "axis " + std::to_string(i) + " of " +
                                              to_string(ctx.shape(0)) + " repeated " +
                                              to_string(count) + " times is too long");
    }
    shape[i] = *size;
  }
  ctx.set_output(0, {ctx.dtype(0), std::move(shape)});
  return true;
}

template <RepeatRule rule>
bool evaluate_repeats(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const Shape& from = x.type.shape;
  const std::vector<Repeats> repeats = rule(ctx, from).value();
  const Strides strides = dense_strides(from);
  const Strides out_strides = dense_strides(y.type.shape);
  for (int64_t i = 0; i < y.count(); ++i) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < from.size(); ++axis) {
      const int64_t coordinate = i / out_strides[axis] % y.type.shape[axis];
      offset += coordinate / repeats[axis].inner % from[axis] * strides[axis];
    }
    if (y.is_float()) {
      y.floats[static_cast<size_t>(i)] = x.floats[static_cast<size_t>(offset)];
    } else {
      y.integers[static_cast<size_t>(i)] = x.integers[static_cast<size_t>(offset)];
    }
  }
  return true;
}

void add_axis(TensorRef& view, const Dim& size, const Dim& stride) {
  if (size == 1) return;
  view.type.shape.push_back(size);
  view.strides.push_back(stride);
}

template <RepeatRule rule>
bool lower_repeats(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const std::vector<Repeats> repeats = rule(ctx, x.shape()).value();
  TensorRef view = x;
  view.type.shape.clear();
  view.strides.clear();
  for (size_t axis = 0; axis < repeats.size(); ++axis) {
    add_axis(view, repeats[axis].outer, 0);
    add_axis(view, x.shape()[axis], x.strides[axis]);
    add_axis(view, repeats[axis].inner, 0);
  }
  const TensorType& type = ctx.output_type(0);
  if (auto strides = reshape_strides(view.shape(), view.strides, type.shape)) {
    view.type = type;
    view.strides = std::move(*strides);
    ctx.alias_output(0, std::move(view));
    return true;
  }
  const bool copied = copy_to_output(ctx, view);
  RLX_CHECK(copied, "an axis of " + ctx.node().name + " does not split");
  return true;
}

// The sum over the copies.
template <RepeatRule rule>
bool repeats_gradient(GradientContext& ctx) {
  const Shape x = ctx.shape(ctx.input(0));
  const std::vector<Repeats> repeats = rule(ctx, x).value();
  Shape apart;
  Ints copies;
  const auto add = [&](const Dim& size, bool is_copies) {
    if (is_copies && size == 1) return;
    if (is_copies) copies.push_back(static_cast<int64_t>(apart.size()));
    apart.push_back(size);
  };
  for (size_t axis = 0; axis < repeats.size(); ++axis) {
    add(repeats[axis].outer, true);
    add(x[axis], false);
    add(repeats[axis].inner, true);
  }
  if (apart.size() > kMaxRank) {
    return ctx.fail(DiagCode::BadRank,
                    "its gradient would take tensors of rank " + std::to_string(apart.size()),
                    "repeat fewer axes at a time");
  }
  const ValueId split = ctx.reshape(ctx.gradient(), apart);
  ctx.give(0, ctx.reshape(ctx.reduce("reduce_sum", split, copies), x));
  return true;
}

constexpr AttrSpec kTileAttrs[] = {{.name = "repeats",
                                    .type = AttrType::IntList,
                                    .required = true,
                                    .minimum = 0,
                                    .maximum = kMostRepeats}};
constexpr AttrSpec kInterleaveAttrs[] = {
    {.name = "axis", .type = AttrType::Int, .required = true},
    {.name = "repeats",
     .type = AttrType::Int,
     .required = true,
     .minimum = 0,
     .maximum = kMostRepeats},
};

const OpDef kTiles[] = {
    {.name = "tile",
     .signature = "tile(x; repeats) -> y",
     .attrs = kTileAttrs,
     .infer = infer_repeats<tile_repeats>,
     .evaluate = evaluate_repeats<tile_repeats>,
     .gradient = repeats_gradient<tile_repeats>,
     .lower = lower_repeats<tile_repeats>,
     .reads_strides = true,
     .place_refusal = no_place_refusal},
    {.name = "repeat_interleave",
     .signature = "repeat_interleave(x; axis, repeats) -> y",
     .attrs = kInterleaveAttrs,
     .infer = infer_repeats<interleave_repeats>,
     .evaluate = evaluate_repeats<interleave_repeats>,
     .gradient = repeats_gradient<interleave_repeats>,
     .lower = lower_repeats<interleave_repeats>,
     .reads_strides = true,
     .place_refusal = no_place_refusal},
    {.name = "resize_nearest_2x",
     .signature = "resize_nearest_2x(x) -> y",
     .attrs = {},
     .infer = infer_repeats<double_repeats>,
     .evaluate = evaluate_repeats<double_repeats>,
     .gradient = repeats_gradient<double_repeats>,
     .lower = lower_repeats<double_repeats>,
     .reads_strides = true,
     .place_refusal = no_place_refusal,
     .any_layout = true},
};

}  // namespace

std::span<const OpDef> tile_ops() {
  return kTiles;
}

}  // namespace rlx
