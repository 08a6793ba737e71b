// SPDX-License-Identifier: Apache-2.0
// concat and stack (ops.md 6). Parts that were placed in the output by the lowering driver cost
// nothing; the others are copied in.
#include "compiler/dispatch/size_words.h"
#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/movement.h"
#include "schema/plan_header.h"

namespace rlx {
namespace {

bool infer_concat(InferContext& ctx) {
  Shape shape = ctx.shape(0);
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), shape.size());
  if (!axis) return false;
  const auto joined = static_cast<size_t>(*axis);
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    if (!refuse_block_type(ctx, ctx.dtype(i))) return false;
    if (ctx.dtype(i) != ctx.dtype(0)) {
      return ctx.fail(DiagCode::BadDtype, "input " + std::to_string(i) + " is " +
                                              std::string(name_of(ctx.dtype(i))) + ", input 0 is " +
                                              std::string(name_of(ctx.dtype(0))));
    }
    Shape expected = ctx.shape(0);
    if (ctx.shape(i).size() == expected.size()) expected[joined] = ctx.shape(i)[joined];
    if (ctx.shape(i) != expected) {
      return ctx.fail(DiagCode::BadShape, "input " + std::to_string(i) + " is " +
                                              to_string(ctx.shape(i)) + ", which differs from " +
                                              to_string(ctx.shape(0)) + " beside axis " +
                                              std::to_string(*axis));
    }
    if (i > 0) shape[joined] += ctx.shape(i)[joined];
  }
  ctx.set_output(0, {ctx.dtype(0), std::move(shape)});
  return true;
}

template <typename T>
void copy_part(const std::vector<T>& from, std::vector<T>& to, int64_t rows, int64_t part,
               int64_t pitch, int64_t offset) {
  if (from.empty()) return;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < part; ++i) {
      to[static_cast<size_t>(row * pitch + offset + i)] = from[static_cast<size_t>(row * part + i)];
    }
  }
}

bool evaluate_concat(EvaluateContext& ctx) {
  Tensor& y = ctx.output(0);
  const int64_t axis = ctx.axis(ctx.attrs().integer("axis"), y.type.shape.size()).value();
  const int64_t rows = element_count(Shape(y.type.shape.begin(), y.type.shape.begin() + axis));
  const int64_t pitch = rows == 0 ? 0 : y.count() / rows;
  int64_t offset = 0;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    const Tensor& x = ctx.input(i);
    const int64_t part = rows == 0 ? 0 : x.count() / rows;
    copy_part(x.floats, y.floats, rows, part, pitch, offset);
    copy_part(x.integers, y.integers, rows, part, pitch, offset);
    offset += part;
  }
  return true;
}

// The parts stay where they stand, in the order of elements that the whole would have.
void leave_apart(LowerContext& ctx, size_t axis) {
  const ValueId output = ctx.node().outputs[0];
  TensorRef whole = dense_ref({}, ctx.output_type(0));
  whole.strides = ctx.state().fresh_strides(output);
  JoinedParts joined{.axis = axis, .parts = {}};
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    const TensorRef x = ctx.input(i);
    TensorRef slot = whole;
    slot.type = x.type;
    if (!turns_elements(x, slot)) {
      joined.parts.push_back(x);
      continue;
    }
    const bool is_last = ctx.state().stores_channels_last(output);
    joined.parts.push_back(is_last ? ctx.channels_last(x) : ctx.dense(x));
  }
  ctx.state().join(output, std::move(joined));
}

// Copies of neighbours that are made at once.
struct JoinedCopy {
  JoinedParts from;
  TensorRef to;
  std::string why;
};

void emit_copy(LowerContext& ctx, JoinedCopy& copy) {
  if (copy.from.parts.size() == 1) {
    ctx.copy(copy.from.parts.front(), copy.to, copy.why);
  } else if (!copy.from.parts.empty()) {
    ctx.copy(copy.from, copy.to, copy.why);
  }
  copy.from.parts.clear();
}

bool lower_concat(LowerContext& ctx) {
  const size_t rank = ctx.output_type(0).shape.size();
  const auto axis = static_cast<size_t>(ctx.axis(ctx.attrs().integer("axis"), rank).value());
  if (ctx.state().is_left_apart(ctx.node().outputs[0])) {
    leave_apart(ctx, axis);
    return true;
  }
  const TensorRef y = ctx.output(0);
  JoinedCopy copy{.from = {.axis = axis, .parts = {}}, .to = y, .why = {}};
  const size_t most = kMostJoinedCopies - pointers_of_sizes(y.shape());
  Dim start = 0;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    const TensorRef x = ctx.input(i);
    TensorRef slot = shifted(y, start * y.strides[axis]);
    slot.type = x.type;
    start += x.shape()[axis];
    if (is_same_place(x, slot)) {
      emit_copy(ctx, copy);
      continue;
    }
    // Sizes along the axis are told as numbers, and tiles and dense ranges have copies of their
    // own.
    const bool alone = x.shape()[axis].is_free() || element_count(x.shape()) == 0 ||
                       turns_elements(x, slot) || (x.dense() && slot.dense());
    if (alone || copy.from.parts.size() >= most) emit_copy(ctx, copy);
    const std::string why = ctx.state().place_refusal(*ctx.node().inputs[i]);
    if (alone) {
      ctx.copy(x, slot, why);
      continue;
    }
    if (copy.from.parts.empty()) {
      copy.to = slot;
      copy.why = why;
    } else {
      copy.to.type.shape[axis] += x.shape()[axis];
      if (copy.why.find(why) == std::string::npos) copy.why += "; " + why;
    }
    copy.from.parts.push_back(x);
  }
  emit_copy(ctx, copy);
  return true;
}

bool infer_stack(InferContext& ctx) {
  Shape shape = ctx.shape(0);
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    if (!refuse_block_type(ctx, ctx.dtype(i))) return false;
    if (ctx.input(i) == ctx.input(0)) continue;
    return ctx.fail(DiagCode::BadShape, "input " + std::to_string(i) + " is " +
                                            to_string(ctx.input(i)) + ", input 0 is " +
                                            to_string(ctx.input(0)) + ", wanted equal types");
  }
  if (shape.size() == kMaxRank) return ctx.fail(DiagCode::BadRank, "output of rank above 8");
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), shape.size() + 1);
  if (!axis) return false;
  shape.insert(shape.begin() + *axis, static_cast<int64_t>(ctx.input_count()));
  ctx.set_output(0, {ctx.dtype(0), std::move(shape)});
  return true;
}

bool evaluate_stack(EvaluateContext& ctx) {
  Tensor& y = ctx.output(0);
  const int64_t axis = ctx.axis(ctx.attrs().integer("axis"), y.type.shape.size()).value();
  const int64_t rows = element_count(Shape(y.type.shape.begin(), y.type.shape.begin() + axis));
  const int64_t pitch = rows == 0 ? 0 : y.count() / rows;
  const auto parts = static_cast<int64_t>(ctx.input_count());
  for (int64_t i = 0; i < parts; ++i) {
    const Tensor& x = ctx.input(static_cast<size_t>(i));
    copy_part(x.floats, y.floats, rows, pitch / parts, pitch, i * (pitch / parts));
    copy_part(x.integers, y.integers, rows, pitch / parts, pitch, i * (pitch / parts));
  }
  return true;
}

bool decompose_stack(RewriteContext& ctx) {
  const size_t rank = ctx.type(ctx.node().outputs[0]).shape.size();
  const int64_t axis = ctx.axis(ctx.attrs().integer("axis"), rank).value();
  std::vector<std::optional<ValueId>> parts;
  for (size_t i = 0; i < ctx.input_count(); ++i)
    parts.emplace_back(ctx.emit("unsqueeze", {ctx.input(i)}, {{"axes", Ints{axis}}}));
  ctx.replace_output(0, ctx.emit("concat", std::move(parts), {{"axis", axis}}));
  return true;
}

bool concat_gradient(GradientContext& ctx) {
  const ValueId dy = ctx.gradient();
  const size_t rank = ctx.shape(dy).size();
  const int64_t axis = ctx.axis(ctx.attrs().integer("axis"), rank).value();
  Dim start = 0;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    const Dim end = start + ctx.shape(ctx.input(i))[static_cast<size_t>(axis)];
    if (ctx.wants(i)) {
      ctx.give(i, ctx.emit("slice", {dy},
                           {{"axes", Ints{axis}}, {"starts", Ints{start}}, {"ends", Ints{end}}}));
    }
    start = end;
  }
  return true;
}

const AttrSpec kConcatAttrs[] = {{.name = "axis", .type = AttrType::Int, .required = true}};

const OpDef kConcats[] = {{.name = "concat",
                           .signature = "concat(x0, ...; axis) -> y",
                           .inputs = {1, kUnlimited},
                           .attrs = kConcatAttrs,
                           .infer = infer_concat,
                           .evaluate = evaluate_concat,
                           .gradient = concat_gradient,
                           .lower = lower_concat,
                           .reads_strides = true,
                           .place_refusal = no_place_refusal,
                           .any_layout = true},
                          {.name = "stack",
                           .signature = "stack(x0, ...; axis) -> y",
                           .inputs = {1, kUnlimited},
                           .attrs = kConcatAttrs,
                           .infer = infer_stack,
                           .evaluate = evaluate_stack,
                           .decompose = decompose_stack}};

}  // namespace

std::span<const OpDef> concat_ops() {
  return kConcats;
}

}  // namespace rlx
