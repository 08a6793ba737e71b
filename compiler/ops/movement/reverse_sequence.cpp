// SPDX-License-Identifier: Apache-2.0
// reverse_sequence (ops.md 6): the first lens[b] elements along the time axis in reverse.
#include <algorithm>
#include <cmath>

#include "compiler/ops/lowering/index_type.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/movement.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

struct SequenceAxes {
  size_t batch = 0;
  size_t time = 0;
};

std::optional<SequenceAxes> sequence_axes(NodeContext& ctx, size_t rank) {
  const Ints written = {ctx.attrs().integer("batch_axis"), ctx.attrs().integer("time_axis")};
  const auto axes = ctx.axes(written, rank);
  if (!axes) return std::nullopt;
  return SequenceAxes{.batch = static_cast<size_t>((*axes)[0]),
                      .time = static_cast<size_t>((*axes)[1])};
}

bool infer_reverse_sequence(InferContext& ctx) {
  if (!refuse_block_type(ctx, ctx.dtype(0))) return false;
  const auto axes = sequence_axes(ctx, ctx.shape(0).size());
  if (!axes) return false;
  const DType lens = ctx.dtype(1);
  if (!is_integer(lens) && lens != DType::f32 && lens != DType::f16) {
    return ctx.fail(DiagCode::BadDtype, "lens is " + std::string(name_of(lens)) +
                                            ", wanted an integer type (or f32, f16)");
  }
  const Shape wanted{ctx.shape(0)[axes->batch]};
  if (ctx.shape(1) != wanted) {
    return ctx.fail(DiagCode::BadShape, "lens has shape " + to_string(ctx.shape(1)) + ", wanted " +
                                            to_string(wanted) + ", one length for each of axis " +
                                            std::to_string(axes->batch));
  }
  ctx.set_output(0, ctx.input(0));
  return true;
}

int64_t length_at(const Tensor& lens, int64_t batch, int64_t times) {
  const auto at = static_cast<size_t>(batch);
  if (!lens.is_float()) return std::clamp<int64_t>(lens.integers[at], 0, times);
  const double length = lens.floats[at];
  if (length != length) return 0;
  return static_cast<int64_t>(std::clamp(std::trunc(length), 0.0, static_cast<double>(times)));
}

bool evaluate_reverse_sequence(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const Shape& shape = x.type.shape;
  const SequenceAxes axes = sequence_axes(ctx, shape.size()).value();
  const Strides strides = dense_strides(shape);
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t batch = i / strides[axes.batch] % shape[axes.batch];
    const int64_t time = i / strides[axes.time] % shape[axes.time];
    const int64_t length = length_at(ctx.input(1), batch, shape[axes.time]);
    const int64_t source = time < length ? length - 1 - time : time;
    const auto from = static_cast<size_t>(i + (source - time) * strides[axes.time]);
    const auto to = static_cast<size_t>(i);
    if (y.is_float()) {
      y.floats[to] = x.floats[from];
    } else {
      y.integers[to] = x.integers[from];
    }
  }
  return true;
}

// x and y with the axes behind both sequence axes, where x holds them densely, as one axis of words
// of the widest size that divides all steps and addresses.
struct WordView {
  Shape shape;
  Strides strides;  // of x, in words
  int64_t word_bytes = 1;
};

WordView word_view(LowerContext& ctx, const TensorRef& x, const TensorRef& y,
                   const SequenceAxes& axes) {
  const size_t last = std::max(axes.batch, axes.time);
  WordView view{.shape = x.shape(), .strides = x.strides, .word_bytes = element_bytes(x.dtype())};
  Dim inner = 1;
  while (view.shape.size() > last + 1 && (view.strides.back() == inner || view.shape.back() == 1)) {
    inner *= view.shape.back();
    view.shape.pop_back();
    view.strides.pop_back();
  }
  const Dim run_bytes = inner * view.word_bytes;
  int64_t word = std::min(ctx.alignment(x), ctx.alignment(y));
  const auto divides = [&](const Dim& bytes) { return bytes.divides_by(word); };
  const auto all_divide = [&] {
    return divides(run_bytes) &&
           std::all_of(view.strides.begin(), view.strides.end(),
                       [&](const Dim& stride) { return divides(stride * view.word_bytes); });
  };
  while (word > view.word_bytes && !all_divide()) word /= 2;
  word = std::max(word, view.word_bytes);
  // Wider words run over the whole of the inner axes; else elements do.
  for (Dim& stride : view.strides) stride = stride * view.word_bytes / word;
  view.shape.push_back(run_bytes / word);
  view.strides.push_back(1);
  view.word_bytes = word;
  return view;
}

std::string source_code(const WordView& view, const SequenceAxes& axes) {
  std::string code;
  for (size_t axis = view.shape.size(); axis-- > 0;) {
    const std::string dim = "rlx_index(" + number_text(view.shape[axis]) + ")";
    code += "  c = rlx_i64(rest % " + dim + ");\n  rest /= " + dim + ";\n";
    code += axis == axes.batch ? "  batch = c;\n" : "  first = first && c == rlx_i64(0);\n";
    if (axis == axes.time) {
      code += "  time = c;\n";
    } else {
      code += "  offset += c * rlx_i64(" + number_text(view.strides[axis]) + ");\n";
    }
  }
  return code;
}

bool lower_reverse_sequence(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const TensorRef lens = ctx.dense_input(1);
  const TensorRef y = ctx.output(0);
  const SequenceAxes axes = sequence_axes(ctx, x.shape().size()).value();
  const WordView view = word_view(ctx, x, y, axes);
  const Dim count = element_count(view.shape);
  const auto word = static_cast<uint32_t>(view.word_bytes);
  ctx.dispatch<KernelId::reverse_sequence>()
      .workgroup({kCopyWorkgroup})
      .define("RLX_WORD_BYTES", view.word_bytes)
      .define("RLX_I", std::string(name_of(lens.dtype())))
      .define("rlx_index", index_type(IndexUse::Linear, count.range().most + kCopyWorkgroup))
      .generated("sizes.inc", wide_define("RLX_COUNT", count) +
                                  wide_define("RLX_TIMES", view.shape[axes.time]) +
                                  wide_define("RLX_TIME_STRIDE", view.strides[axes.time]))
      .generated("source.inc", source_code(view, axes))
      .read(&GatherParams::x, x, word)
      .read(&GatherParams::index, lens)
      .write(&GatherParams::y, y, word)
      .count_index_errors()
      .grid(split_grid(ceil_div(count, kCopyWorkgroup)))
      .work(2 * byte_size(y.type) + byte_size(lens.type), 0)
      .reason("words of " + std::to_string(word) + " bytes");
  return true;
}

const AttrSpec kReverseSequenceAttrs[] = {
    {.name = "batch_axis", .type = AttrType::Int, .required = true},
    {.name = "time_axis", .type = AttrType::Int, .required = true}};

const OpDef kReverseSequences[] = {
    {.name = "reverse_sequence",
     .signature = "reverse_sequence(x, lens; batch_axis, time_axis) -> y",
     .inputs = {2, 2},
     .attrs = kReverseSequenceAttrs,
     .infer = infer_reverse_sequence,
     .evaluate = evaluate_reverse_sequence,
     .lower = lower_reverse_sequence}};

}  // namespace

std::span<const OpDef> reverse_sequence_ops() {
  return kReverseSequences;
}

}  // namespace rlx
