// SPDX-License-Identifier: Apache-2.0
// gather and embedding (ops.md 8): rows of x by index, any axis, any index type, no access outside
// x.
#include <algorithm>

#include "compiler/ops/gradient.h"
#include "compiler/ops/indexing/block_rows.h"
#include "compiler/ops/lowering/block_weights.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/places.h"
#include "compiler/ops/nonempty_axis.h"
#include "schema/plan_header.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

int64_t written_axis(NodeContext& ctx) {
  return ctx.node().op == "embedding" ? 0 : ctx.attrs().integer("axis");
}

bool infer_gather(InferContext& ctx) {
  if (is_block_type(ctx.dtype(0))) return infer_block_rows(ctx);
  if (ctx.attrs().has("out_dtype")) {
    return ctx.fail(DiagCode::BadAttribute, "out_dtype is for tables of a block type; x is " +
                                                std::string(name_of(ctx.dtype(0))));
  }
  const Shape& from = ctx.shape(0);
  const auto axis = ctx.axis(written_axis(ctx), from.size());
  if (!axis) return false;
  if (!check_index_dtype(ctx, 1)) return false;
  Shape to(from.begin(), from.begin() + *axis);
  to.insert(to.end(), ctx.shape(1).begin(), ctx.shape(1).end());
  to.insert(to.end(), from.begin() + *axis + 1, from.end());
  if (to.size() > kMaxRank) {
    return ctx.fail(DiagCode::BadRank, "output " + to_string(to) + " has rank above 8");
  }
  const bool clamp = ctx.node().op == "embedding" || ctx.attrs().text("oob") == "clamp";
  if (clamp && !require_nonempty_axis(ctx, from, *axis, kNothingToClampTo, to)) return false;
  ctx.set_output(0, {ctx.dtype(0), std::move(to)});
  return true;
}

struct GatherView {
  Dim outer = 1;  // elements before the axis
  Dim size = 1;   // of the axis
  Dim inner = 1;  // elements after the axis
  Dim rows = 1;   // indices
};

GatherView gather_view(const Shape& from, const Shape& index, int64_t axis) {
  return {.outer = element_count(Shape(from.begin(), from.begin() + axis)),
          .size = from[static_cast<size_t>(axis)],
          .inner = element_count(Shape(from.begin() + axis + 1, from.end())),
          .rows = element_count(index)};
}

bool evaluate_gather(EvaluateContext& ctx) {
  if (is_block_type(ctx.input(0).type.dtype)) return evaluate_block_rows(ctx);
  const Tensor& x = ctx.input(0);
  const Tensor& index = ctx.input(1);
  Tensor& y = ctx.output(0);
  const int64_t axis = ctx.axis(written_axis(ctx), x.type.shape.size()).value();
  const GatherView view = gather_view(x.type.shape, index.type.shape, axis);
  const bool zero = ctx.node().op == "gather" && ctx.attrs().text("oob") == "zero";
  for (int64_t i = 0; i < y.count(); ++i) {
    const int64_t column = i % view.inner;
    const int64_t row = i / view.inner % view.rows;
    const int64_t outer = i / view.inner / view.rows;
    int64_t source = index_value(index, row);
    if (source < 0) source += view.size;
    const bool inside = source >= 0 && source < view.size;
    if (!inside && reports_outside(ctx)) ctx.report_outside();
    if (!inside && zero) continue;
    source = std::clamp<int64_t>(source, 0, view.size - 1);
    const auto from = static_cast<size_t>((outer * view.size + source) * view.inner + column);
    const auto to = static_cast<size_t>(i);
    if (x.is_float()) {
      y.floats[to] = x.floats[from];
    } else {
      y.integers[to] = x.integers[from];
    }
  }
  return true;
}

bool lower_gather(LowerContext& ctx) {
  if (is_block_type(ctx.input_type(0).dtype)) return lower_block_rows(ctx);
  const TensorRef x = ctx.input(0);
  const TensorRef index = ctx.dense_input(1);
  const TensorRef y = ctx.output(0);
  const int64_t axis = ctx.axis(written_axis(ctx), x.shape().size()).value();
  const GatherView view = gather_view(x.shape(), index.shape(), axis);
  const bool zero = ctx.node().op == "gather" && ctx.attrs().text("oob") == "zero";
  const AxisLoops loops = axis_loops(x, axis);
  const int64_t word = row_word_bytes(ctx, x, loops, ctx.alignment(y), view.inner);
  const int64_t word_elements = word / element_bytes(x.dtype());
  const Dim words = view.inner / word_elements;
  const Dim count = words * view.rows * view.outer;
  const int64_t items = words_per_thread(count);
  const int64_t per_group = items * kCopyWorkgroup;
  const bool contiguous = word_elements > 1 || is_contiguous(loops.inner);
  std::string text = define_line("RLX_INDEX", index_type({&x, &y}, count.range().most + per_group));
  text += index_macro("RLX_X_OUTER", in_words(loops.outer, word_elements), 0);
  text += contiguous ? define_line("RLX_X_COLUMN(i)", "(i)")
                     : index_macro("RLX_X_COLUMN", loops.inner, 0);
  auto dispatch = ctx.dispatch<KernelId::gather>();
  if (reports_outside(ctx)) dispatch.count_index_errors();
  dispatch.workgroup({kCopyWorkgroup})
      .define("RLX_WORD_BYTES", word)
      .size("RLX_ROW_WORDS", words)
      .size("RLX_ROWS", view.rows)
      .define("RLX_ITEMS", items)
      .generated("sizes.inc", text + wide_define("RLX_SIZE", view.size) +
                                  wide_define("RLX_COUNT", count) +
                                  wide_define("RLX_X_ROW", loops.row_stride / word_elements))
      .define("RLX_I", std::string(name_of(index.dtype())))
      .define("RLX_ZERO_OUTSIDE", zero ? 1 : 0)
      .read(&GatherParams::x, x, static_cast<uint32_t>(word))
      .read(&GatherParams::index, index)
      .write(&GatherParams::y, y, static_cast<uint32_t>(word))
      .grid(split_grid(ceil_div(count, per_group)))
      .work(2 * byte_size(y.type) + byte_size(index.type), 0)
      .reason("rows of " + to_string(words * word) + " bytes in words of " + std::to_string(word) +
              (items > 1 ? ", 4 per thread" : ""));
  return true;
}

constexpr std::string_view kGatherOutside[] = {"clamp", "zero"};
const AttrSpec kGatherAttrs[] = {
    {.name = "axis", .type = AttrType::Int, .default_text = "0"},
    {.name = "oob",
     .type = AttrType::String,
     .default_text = "\"clamp\"",
     .choices = kGatherOutside},
    // false: indices outside are meant, and check_indices is not told of them.
    {.name = "checked", .type = AttrType::Bool, .default_text = "true", .consumed_by_infer = true},
    {.name = "out_dtype", .type = AttrType::DTypeName, .consumed_by_infer = true},
};
// padding_idx concerns the gradient only (ops.md 8), so the forward op has nothing to read.
const AttrSpec kEmbeddingAttrs[] = {
    {.name = "padding_idx", .type = AttrType::Int, .consumed_by_infer = true},
    {.name = "out_dtype", .type = AttrType::DTypeName, .consumed_by_infer = true}};

bool gather_gradient(GradientContext& ctx) {
  const bool embeds = ctx.node().op == "embedding";
  const Shape& x = ctx.shape(ctx.input(0));
  const int64_t axis = embeds ? 0 : ctx.axis(ctx.attrs().integer("axis"), x.size()).value();
  Attributes attributes = {{"axis", axis},
                           {"dim", static_cast<int64_t>(x[static_cast<size_t>(axis)])}};
  if (!embeds) attributes["oob"] = ctx.attrs().text("oob");
  if (embeds && ctx.attrs().has("padding_idx"))
    attributes["padding_idx"] = ctx.attrs().integer("padding_idx");
  ctx.give(0, ctx.emit("gather_backward", {ctx.gradient(), ctx.input(1)}, std::move(attributes)));
  return true;
}

const OpDef kGathers[] = {
    {.name = "gather",
     .signature = "gather(x, index; axis=0, oob=\"clamp\", checked=true, out_dtype) -> y",
     .inputs = {2, 2},
     .attrs = kGatherAttrs,
     .infer = infer_gather,
     .evaluate = evaluate_gather,
     .gradient = gather_gradient,
     .lower = lower_gather,
     .index_inputs = 1u << 1,
     .keeps_f32 = 1u << 1},
    {.name = "embedding",
     .signature = "embedding(table, ids; padding_idx, out_dtype) -> y",
     .inputs = {2, 2},
     .attrs = kEmbeddingAttrs,
     .infer = infer_gather,
     .evaluate = evaluate_gather,
     .gradient = gather_gradient,
     .lower = lower_gather,
     .index_inputs = 1u << 1,
     .keeps_f32 = 1u << 1},
};

}  // namespace

std::span<const OpDef> gather_ops() {
  return kGathers;
}

}  // namespace rlx
