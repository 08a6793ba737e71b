// SPDX-License-Identifier: Apache-2.0
// reshape, squeeze, unsqueeze, flatten (ops.md 6): views; a copy runs only where the input's
// strides do not allow one.
#include <algorithm>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/movement.h"
#include "schema/plan_header.h"

namespace rlx {
namespace {

// A count of elements, and that of all dims of a shape but -1, which is to divide it.
struct Quotient {
  Dim count = 1;
  Dim known = 1;
};

// Of elements shaped `from` and a shape `to`, less the dims that stand in both: whatever free sizes
// are, these leave no rest.
Quotient without_common_dims(Shape from, const Shape& to) {
  Quotient quotient;
  for (const Dim& size : to) {
    if (size == -1) continue;
    const auto same = std::find(from.begin(), from.end(), size);
    if (same == from.end()) {
      quotient.known *= size;
    } else {
      from.erase(same);
    }
  }
  quotient.count = element_count(from);
  return quotient;
}

bool infer_reshape(InferContext& ctx) {
  if (!refuse_block_type(ctx, ctx.dtype(0))) return false;
  const Shape& from = ctx.shape(0);
  Shape to = ctx.attrs().integers("shape");
  const std::string wanted = to_string(to);
  const bool zero_copies = ctx.attrs().flag("zero_copies_dim");
  std::optional<size_t> inferred;
  Dim known = 1;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && zero_copies) {
      if (i >= from.size()) {
        return ctx.fail(DiagCode::BadShape, "shape " + wanted + " copies dim " + std::to_string(i) +
                                                " of rank " + std::to_string(from.size()));
      }
      to[i] = from[i];
    }
    if (to[i] == -1) {
      if (inferred) return ctx.fail(DiagCode::BadShape, "shape " + wanted + " has two dims -1");
      inferred = i;
      continue;
    }
    const std::optional<Dim> product = to[i] < 0 ? std::nullopt : checked_product(known, to[i]);
    if (!product) return ctx.fail(DiagCode::BadShape, "shape " + wanted + " has an impossible dim");
    known = *product;
  }
  const Dim count = element_count(from);
  if (inferred) {
    const Quotient rest = without_common_dims(from, to);
    if (rest.known.range().least < 1 || rest.count % rest.known != 0) {
      return ctx.fail(DiagCode::BadShape, "shape " + wanted + " cannot hold " + to_string(from) +
                                              ": its -1 has no whole size");
    }
    to[*inferred] = rest.count / rest.known;
  } else if (known != count) {
    return ctx.fail(DiagCode::BadShape, "shape " + wanted + " has " + to_string(known) +
                                            " elements, the input " + to_string(from) + " has " +
                                            to_string(count));
  }
  if (to.size() > kMaxRank) return ctx.fail(DiagCode::BadRank, "rank above 8");
  ctx.set_output(0, {ctx.dtype(0), std::move(to)});
  return true;
}

bool infer_squeeze(InferContext& ctx) {
  if (!refuse_block_type(ctx, ctx.dtype(0))) return false;
  const Shape& from = ctx.shape(0);
  Ints axes;
  if (ctx.attrs().has("axes")) {
    const auto listed = ctx.axes(ctx.attrs().integers("axes"), from.size());
    if (!listed) return false;
    axes = *listed;
    for (int64_t axis : axes) {
      if (from[static_cast<size_t>(axis)] != 1) {
        return ctx.fail(DiagCode::BadShape,
                        "axis " + std::to_string(axis) + " of " + to_string(from) + " is not 1");
      }
    }
  } else {
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i].is_free() && from[i].range().least <= 1) {
        return ctx.fail(DiagCode::FreeSize,
                        "axis " + std::to_string(i) + " of " + to_string(from) +
                            " may be 1, so that the rank would depend on the run",
                        "list the axes to drop");
      }
      if (from[i] == 1) axes.push_back(static_cast<int64_t>(i));
    }
  }
  Shape to;
  for (size_t i = 0; i < from.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) {
      to.push_back(from[i]);
    }
  }
  ctx.set_output(0, {ctx.dtype(0), std::move(to)});
  return true;
}

bool infer_unsqueeze(InferContext& ctx) {
  if (!refuse_block_type(ctx, ctx.dtype(0))) return false;
  const Ints written = ctx.attrs().integers("axes");
  const size_t rank = ctx.shape(0).size() + written.size();
  if (rank > kMaxRank) return ctx.fail(DiagCode::BadRank, "rank above 8");
  const auto axes = ctx.axes(written, rank);
  if (!axes) return false;
  Shape to;
  auto next = ctx.shape(0).begin();
  for (size_t i = 0; i < rank; ++i) {
    const bool fresh =
        std::find(axes->begin(), axes->end(), static_cast<int64_t>(i)) != axes->end();
    to.push_back(fresh ? Dim(1) : *next++);
  }
  ctx.set_output(0, {ctx.dtype(0), std::move(to)});
  return true;
}

bool infer_flatten(InferContext& ctx) {
  if (!refuse_block_type(ctx, ctx.dtype(0))) return false;
  const Shape& from = ctx.shape(0);
  const auto rank = static_cast<int64_t>(from.size());
  int64_t axis = ctx.attrs().integer("axis");
  if (axis < -rank || axis > rank) {
    return ctx.fail(DiagCode::BadAxis, "axis " + std::to_string(axis) +
                                           " is out of range for rank " + std::to_string(rank));
  }
  if (axis < 0) axis += rank;
  const Shape rows(from.begin(), from.begin() + axis);
  const Shape columns(from.begin() + axis, from.end());
  ctx.set_output(0, {ctx.dtype(0), {element_count(rows), element_count(columns)}});
  return true;
}

bool evaluate_reshape(EvaluateContext& ctx) {
  Tensor y = ctx.input(0);
  y.type = ctx.output_type(0);
  ctx.output(0) = std::move(y);
  return true;
}

bool lower_reshape(LowerContext& ctx) {
  const TensorType& type = ctx.output_type(0);
  TensorRef view = ctx.input(0);
  auto strides = reshape_strides(view.shape(), view.strides, type.shape);
  if (!strides) {
    // What has a place of its own is copied there at once.
    if (ctx.state().has_place(ctx.node().outputs[0]) && copy_to_output(ctx, view)) return true;
    view = ctx.dense_input(0);
    strides = dense_strides(type.shape);
  }
  view.type = type;
  view.strides = std::move(*strides);
  ctx.alias_output(0, std::move(view));
  return true;
}

const AttrSpec kReshapeAttrs[] = {
    {.name = "shape",
     .type = AttrType::IntList,
     .required = true,
     .minimum = -1,
     .consumed_by_infer = true},
    {.name = "zero_copies_dim",
     .type = AttrType::Bool,
     .default_text = "false",
     .consumed_by_infer = true},
};
const AttrSpec kSqueezeAttrs[] = {
    {.name = "axes", .type = AttrType::IntList, .consumed_by_infer = true}};
const AttrSpec kUnsqueezeAttrs[] = {
    {.name = "axes", .type = AttrType::IntList, .required = true, .consumed_by_infer = true}};
const AttrSpec kFlattenAttrs[] = {
    {.name = "axis", .type = AttrType::Int, .default_text = "1", .consumed_by_infer = true}};

bool reshape_gradient(GradientContext& ctx) {
  ctx.give(0, ctx.reshape(ctx.gradient(), ctx.shape(ctx.input(0))));
  return true;
}

const OpDef kReshapes[] = {
    {.name = "reshape",
     .signature = "reshape(x; shape, zero_copies_dim=false) -> y",
     .attrs = kReshapeAttrs,
     .infer = infer_reshape,
     .evaluate = evaluate_reshape,
     .gradient = reshape_gradient,
     .lower = lower_reshape,
     .view_kind = ViewKind::Reshape},
    {.name = "squeeze",
     .signature = "squeeze(x; axes) -> y",
     .attrs = kSqueezeAttrs,
     .infer = infer_squeeze,
     .evaluate = evaluate_reshape,
     .gradient = reshape_gradient,
     .lower = lower_reshape,
     .view_kind = ViewKind::Reshape},
    {.name = "unsqueeze",
     .signature = "unsqueeze(x; axes) -> y",
     .attrs = kUnsqueezeAttrs,
     .infer = infer_unsqueeze,
     .evaluate = evaluate_reshape,
     .gradient = reshape_gradient,
     .lower = lower_reshape,
     .view_kind = ViewKind::Reshape},
    {.name = "flatten",
     .signature = "flatten(x; axis=1) -> y",
     .attrs = kFlattenAttrs,
     .infer = infer_flatten,
     .evaluate = evaluate_reshape,
     .gradient = reshape_gradient,
     .lower = lower_reshape,
     .view_kind = ViewKind::Reshape},
};

}  // namespace

std::span<const OpDef> reshape_ops() {
  return kReshapes;
}

}  // namespace rlx
