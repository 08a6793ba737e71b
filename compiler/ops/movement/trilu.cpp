// SPDX-License-Identifier: Apache-2.0
// trilu and one_hot (ops.md 6): elementwise ops that compare an element's coordinates, so they join
// the regions around them.
#include <array>
#include <cmath>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/positions.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "schema/plan_header.h"

namespace rlx {
namespace {

// ---- trilu(x; upper, k) ----

bool infer_trilu(InferContext& ctx) {
  if (!check_dtype(ctx, 0, DTypeSet::Element)) return false;
  if (ctx.shape(0).size() < 2) {
    return ctx.fail(DiagCode::BadRank, "input 0 is " + to_string(ctx.shape(0)) +
                                           ", wanted matrices, of rank 2 or above");
  }
  ctx.set_output(0, ctx.input(0));
  return true;
}

bool evaluate_trilu(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const Shape& shape = x.type.shape;
  const int64_t columns = shape[shape.size() - 1];
  const int64_t rows = shape[shape.size() - 2];
  const int64_t k = ctx.attrs().integer("k");
  const bool upper = ctx.attrs().flag("upper");
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t distance = i % columns - i / columns % rows;
    if (upper ? distance < k : distance > k) continue;
    const auto at = static_cast<size_t>(i);
    if (y.is_float()) {
      y.floats[at] = x.floats[at];
    } else {
      y.integers[at] = x.integers[at];
    }
  }
  return true;
}

std::string scalar_trilu(const ScalarContext& ctx) {
  const std::string k = integer_literal(DType::i64, ctx.attrs().integer("k"));
  return "(" + coordinate_name(1) + " - " + coordinate_name(2) +
         (ctx.attrs().flag("upper") ? " >= " : " <= ") + k + " ? " + ctx.operand(0) + " : " +
         literal(ctx.result_dtype(), 0) + ")";
}

// ---- one_hot(index; depth, axis, on, off, dtype) ----

bool is_index(InferContext& ctx) {
  const DType dtype = ctx.dtype(0);
  if (is_integer(dtype) || dtype == DType::f32 || dtype == DType::f16) return true;
  return ctx.fail(DiagCode::BadDtype, "index is " + std::string(name_of(dtype)) +
                                          ", wanted an integer type (or f32, f16)");
}

bool check_states(InferContext& ctx, DType dtype) {
  return check_filling(ctx, dtype, "on") && check_filling(ctx, dtype, "off");
}

bool infer_one_hot(InferContext& ctx) {
  const DType dtype = ctx.attrs().dtype("dtype");
  if (!is_index(ctx) || !check_states(ctx, dtype)) return false;
  Shape shape = ctx.shape(0);
  if (shape.size() == kMaxRank) return ctx.fail(DiagCode::BadRank, "output of rank above 8");
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), shape.size() + 1);
  if (!axis) return false;
  shape.insert(shape.begin() + *axis, ctx.attrs().integer("depth"));
  ctx.set_output(0, {dtype, std::move(shape)});
  return true;
}

bool evaluate_one_hot(EvaluateContext& ctx) {
  const Tensor& index = ctx.input(0);
  Tensor& y = ctx.output(0);
  const Shape& shape = y.type.shape;
  const int64_t axis = ctx.axis(ctx.attrs().integer("axis"), shape.size()).value();
  const int64_t depth = ctx.attrs().integer("depth");
  const int64_t inner = element_count(Shape(shape.begin() + axis + 1, shape.end()));
  const double on = filling(ctx.attrs(), y.type.dtype, "on");
  const double off = filling(ctx.attrs(), y.type.dtype, "off");
  for (int64_t i = 0; i < y.count(); ++i) {
    const int64_t from = i / inner / depth * inner + i % inner;
    // Legacy float indices are truncated; NaN is 0.
    const double written = real_at(index, from);
    double hot = written != written ? 0 : std::trunc(written);
    if (hot < 0) hot += static_cast<double>(depth);
    set_element(y, i, hot == static_cast<double>(i / inner % depth) ? on : off);
  }
  return true;
}

bool decompose_one_hot(RewriteContext& ctx) {
  const auto rank = static_cast<int64_t>(ctx.type(ctx.node().outputs[0]).shape.size());
  const int64_t written = ctx.attrs().integer("axis");
  const int64_t axis = written < 0 ? written + rank : written;
  ValueId index = ctx.input(0);
  if (is_float(ctx.type(index).dtype)) index = ctx.emit("cast", {index}, {{"to", "i64"}});
  index = ctx.emit("unsqueeze", {index}, {{"axes", Ints{axis}}});
  Attributes attributes = ctx.node().attributes;
  attributes["axis"] = axis - rank;
  ctx.replace_output(0, ctx.emit("one_hot_at", {index}, std::move(attributes)));
  return true;
}

// ---- one_hot_at(index; ...): one_hot of an index that has the new axis already, of size 1,
// counted from the end ----

bool infer_one_hot_at(InferContext& ctx) {
  const DType dtype = ctx.attrs().dtype("dtype");
  if (!check_dtype(ctx, 0, DTypeSet::Integer) || !check_states(ctx, dtype)) return false;
  Shape shape = ctx.shape(0);
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), shape.size());
  if (!axis) return false;
  Dim& hot = shape[static_cast<size_t>(*axis)];
  if (hot != 1 || ctx.attrs().integer("axis") >= 0) {
    return ctx.fail(DiagCode::BadShape, "axis " + std::to_string(ctx.attrs().integer("axis")) +
                                            " of " + to_string(ctx.shape(0)) +
                                            ", wanted one of size 1, counted from the end");
  }
  hot = ctx.attrs().integer("depth");
  ctx.set_output(0, {dtype, std::move(shape)});
  return true;
}

// rlx_is_hot of lib/indexing.
std::string scalar_one_hot_at(const ScalarContext& ctx) {
  const DType from = ctx.operand_dtype(0);
  const DType to = ctx.result_dtype();
  const std::string index =
      from == DType::i64 ? ctx.operand(0) : "rlx_widen(" + ctx.operand(0) + ")";
  const std::string depth = integer_literal(DType::i64, ctx.attrs().integer("depth"));
  const auto axis = static_cast<uint32_t>(-ctx.attrs().integer("axis"));
  return "(rlx_is_hot(" + coordinate_name(axis) + ", " + index + ", " + depth + ", " +
         std::string(kOutsideName) + ") ? " + filling_text(ctx.attrs(), to, "on") + " : " +
         filling_text(ctx.attrs(), to, "off") + ")";
}

constexpr AttrSpec kTriluAttrs[] = {{"upper", AttrType::Bool, "true"}, {"k", AttrType::Int, "0"}};
constexpr AttrSpec kOneHotAttrs[] = {
    {.name = "depth", .type = AttrType::Int, .required = true, .minimum = 0},
    {.name = "axis", .type = AttrType::Int, .default_text = "-1"},
    {.name = "on", .type = AttrType::Float, .default_text = "1"},
    {.name = "off", .type = AttrType::Float, .default_text = "0"},
    {.name = "dtype",
     .type = AttrType::DTypeName,
     .default_text = "\"f32\"",
     .consumed_by_infer = true},
};

bool trilu_gradient(GradientContext& ctx) {
  ctx.give(0, ctx.emit("trilu", {ctx.gradient()}, ctx.attributes()));
  return true;
}

}  // namespace

std::span<const OpDef> trilu_ops() {
  static const std::array<OpDef, 3> ops = {
      OpDef{.name = "trilu",
            .signature = "trilu(x; upper=true, k=0) -> y",
            .attrs = kTriluAttrs,
            .infer = infer_trilu,
            .evaluate = evaluate_trilu,
            .gradient = trilu_gradient,
            .lower = lower_elementwise,
            .scalar = scalar_trilu},
      OpDef{.name = "one_hot",
            .signature = "one_hot(index; depth, axis=-1, on=1, off=0, dtype=\"f32\") -> y",
            .attrs = kOneHotAttrs,
            .infer = infer_one_hot,
            .evaluate = evaluate_one_hot,
            .decompose = decompose_one_hot},
      OpDef{.name = "one_hot_at",
            .signature = "one_hot_at(index; depth, axis=-1, on=1, off=0, dtype=\"f32\") -> y",
            .attrs = kOneHotAttrs,
            .infer = infer_one_hot_at,
            .evaluate = evaluate_one_hot,
            .lower = lower_elementwise,
            .scalar = scalar_one_hot_at},
  };
  return ops;
}

}  // namespace rlx
