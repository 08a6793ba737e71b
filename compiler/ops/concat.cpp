// SPDX-License-Identifier: Apache-2.0
// concat (ops.md 6). Parts that were placed in the output by the lowering driver cost nothing; the
// others are copied in.
#include "compiler/ops/lower_context.h"
#include "compiler/ops/movement.h"

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

bool lower_concat(LowerContext& ctx) {
  const TensorRef y = ctx.output(0);
  const int64_t axis = ctx.axis(ctx.attrs().integer("axis"), y.shape().size()).value();
  int64_t start = 0;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    const TensorRef x = ctx.input(i);
    TensorRef slot = shifted(y, start * y.strides[static_cast<size_t>(axis)]);
    slot.type = x.type;
    start += x.shape()[static_cast<size_t>(axis)];
    const bool placed = x.buffer == slot.buffer && x.offset_bytes == slot.offset_bytes;
    if (!placed) ctx.copy(x, slot);
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
                           .lower = lower_concat}};

}  // namespace

std::span<const OpDef> concat_ops() {
  return kConcats;
}

}  // namespace rlx
