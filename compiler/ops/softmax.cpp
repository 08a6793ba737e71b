// SPDX-License-Identifier: Apache-2.0
// softmax and log_softmax over any axis (ops.md 7.2).
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ops/rows.h"

namespace rlx {

namespace {

bool infer(InferContext& ctx) {
  if (!check_float_input(ctx, 0, "x")) return false;
  if (!ctx.axis(ctx.attrs().integer("axis"), ctx.shape(0).size())) return false;
  ctx.set_output(0, ctx.input(0));
  return true;
}

bool evaluate(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const bool logarithm = ctx.node().op == "log_softmax";
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), x.type.shape.size());
  if (!axis) return false;
  const RowOffsets offsets = row_offsets(x.type.shape, {*axis});
  for (const int64_t base : offsets.kept) {
    const auto place = [&](int64_t offset) { return static_cast<size_t>(base + offset); };
    double top = -std::numeric_limits<double>::infinity();
    bool has_nan = false;
    for (const int64_t offset : offsets.reduced) {
      has_nan = has_nan || std::isnan(x.floats[place(offset)]);
      top = std::max(top, x.floats[place(offset)]);
    }
    double sum = 0;
    for (const int64_t offset : offsets.reduced) sum += std::exp(x.floats[place(offset)] - top);
    if (has_nan || std::isinf(top)) sum = std::numeric_limits<double>::quiet_NaN();
    for (const int64_t offset : offsets.reduced) {
      const double shifted = x.floats[place(offset)] - top;
      y.floats[place(offset)] = logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum;
    }
  }
  return true;
}

std::string rows_text(const TensorRef& x, const TensorRef& y, const RowLoops& loops) {
  std::string text = define_line("RLX_INDEX", index_type({&x, &y}, element_count(x.shape())));
  text += define_line("RLX_REAL", "rlx_f32");
  text += index_macro("RLX_X_KEPT", loops.kept, 0);
  text += index_macro("RLX_X_REDUCED", loops.reduced, 0);
  text += index_macro("RLX_Y_KEPT", loops.kept, 1);
  text += index_macro("RLX_Y_REDUCED", loops.reduced, 1);
  return text;
}

bool lower(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  if (x.dtype() == DType::f64) {
    return ctx.fail(DiagCode::UnsupportedOp, "has no f64 kernel", "cast x to f32");
  }
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), x.shape().size());
  if (!axis) return false;
  const TensorRef y = ctx.output(0);
  if (element_count(y.shape()) == 0) return true;

  RowLoops loops = split_rows(x.shape(), x.strides, y.strides, {*axis});
  loops.kept = by_stride(loops.kept);
  const uint32_t width = std::min(vector_width(ctx, x, loops, 0), vector_width(ctx, y, loops, 1));
  const RowPlan plan = plan_rows(loops, width);
  const int64_t rows = loop_count(loops.kept);
  const int64_t cols = loop_count(loops.reduced);
  const int64_t items = items_per_lane(plan, cols, width);
  const Extent3 grid = split_grid(static_cast<uint64_t>(plan.groups(rows)));
  auto dispatch = ctx.dispatch<KernelId::softmax>();
  dispatch.workgroup({plan.threads(), 1, 1})
      .define("RLX_LANES", plan.lanes)
      .define("RLX_ROWS", plan.rows)
      .define("RLX_BY_COLUMN", plan.by_column ? 1 : 0)
      .define("RLX_ROW_COUNT", integer_text(rows))
      .define("RLX_COLS", integer_text(cols))
      .define("RLX_X", std::string(name_of(x.dtype())))
      .define("RLX_Y", std::string(name_of(y.dtype())))
      .define("RLX_WIDTH", width)
      .define("RLX_ITEMS", items)
      .define("RLX_LOG", ctx.node().op == "log_softmax" ? 1 : 0)
      .generated("rows.inc", rows_text(x, y, loops))
      .read(&CopyParams::x, x, width > 1 ? width * element_bytes(x.dtype()) : 0)
      .write(&CopyParams::y, y, width > 1 ? width * element_bytes(y.dtype()) : 0)
      .grid(grid.x, grid.y, grid.z)
      .work(x.byte_range().length_bytes + y.byte_range().length_bytes,
            static_cast<uint64_t>(rows * cols) * 4)
      .reason(to_string(plan) + (items > 0 ? ", row in registers" : ", row read twice"));
  if (x.strides == y.strides) dispatch.allow_in_place(x);
  return true;
}

constexpr AttrSpec kAttrs[] = {{.name = "axis", .type = AttrType::Int, .default_text = "-1"}};

constexpr OpDef softmax_op(std::string_view name, std::string_view signature) {
  return {.name = name,
          .signature = signature,
          .inputs = {1, 1},
          .outputs = {1, 1},
          .attrs = kAttrs,
          .infer = infer,
          .evaluate = evaluate,
          .lower = lower};
}

constexpr OpDef kOps[] = {
    softmax_op("softmax", "softmax(x; axis=-1) -> y"),
    softmax_op("log_softmax", "log_softmax(x; axis=-1) -> y"),
};

}  // namespace

std::span<const OpDef> softmax_ops() {
  return kOps;
}

}  // namespace rlx
