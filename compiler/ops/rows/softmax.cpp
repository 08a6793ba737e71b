// SPDX-License-Identifier: Apache-2.0
// softmax and log_softmax over any axis (ops.md 7.2).
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ops/lowering/rows.h"

namespace rlx {

namespace {

bool infer_softmax(InferContext& ctx) {
  if (!check_float_input(ctx, 0, "x")) return false;
  if (!ctx.axis(ctx.attrs().integer("axis"), ctx.shape(0).size())) return false;
  ctx.set_output(0, ctx.input(0));
  return true;
}

bool evaluate_softmax(EvaluateContext& ctx) {
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

struct Rows {
  TensorRef x;
  TensorRef y;
  RowLoops loops;  // operand 0: x, operand 1: y
  RowPlan plan;
  uint32_t width = 1;  // of RLX_WIDTH
  int64_t items = 0;   // of RLX_ITEMS
};

std::string rows_text(const Rows& rows) {
  std::string text =
      define_line("RLX_INDEX", index_type({&rows.x, &rows.y}, element_count(rows.x.shape())));
  text += define_line("RLX_REAL", rows.x.dtype() == DType::f64 ? "rlx_f64" : "rlx_f32");
  text += index_macro("RLX_X_KEPT", rows.loops.kept, 0);
  text += index_macro("RLX_X_REDUCED", rows.loops.reduced, 0);
  text += index_macro("RLX_Y_KEPT", rows.loops.kept, 1);
  text += index_macro("RLX_Y_REDUCED", rows.loops.reduced, 1);
  return text;
}

// Elements that a thread moves at a time: 16 bytes where rows allow it.
uint32_t piece_width(const LowerContext& ctx, const Rows& rows) {
  const auto both = [&](uint32_t width) {
    return std::min(vector_width(ctx, rows.x, rows.loops, 0, width),
                    vector_width(ctx, rows.y, rows.loops, 1, width));
  };
  return std::max(element_bytes(rows.x.dtype()) == 2 ? both(8) : 1, both(4));
}

// Side by side, rows of 32 bytes a line are enough: narrower and deeper workgroups where wide ones
// would be too few.
void deepen(RowPlan& plan, int64_t row_count, int64_t wanted_groups, uint32_t least_rows) {
  while (plan.by_column && plan.rows > least_rows && plan.groups(row_count) < wanted_groups) {
    plan.rows /= 2;
    plan.lanes *= 2;
  }
}

// Where rows keep the device busy one by one, each takes few threads.
void narrow_teams(RowPlan& plan, int64_t row_count, int64_t cols, int64_t busy_rows,
                  uint32_t width) {
  const RowPlan few = plan_in_registers(cols, width);
  if (!plan.by_column && row_count >= busy_rows && few.lanes < plan.lanes) plan = few;
}

void dispatch_rows(LowerContext& ctx, const Rows& rows) {
  constexpr int64_t kValuesAtOnce = 8;  // of a row that is read twice
  const TensorRef& x = rows.x;
  const TensorRef& y = rows.y;
  const int64_t row_count = loop_count(rows.loops.kept);
  const int64_t cols = loop_count(rows.loops.reduced);
  auto dispatch = ctx.dispatch<KernelId::softmax>();
  dispatch.workgroup({rows.plan.threads(), 1, 1})
      .define("RLX_LANES", rows.plan.lanes)
      .define("RLX_ROWS", rows.plan.rows)
      .define("RLX_BY_COLUMN", rows.plan.by_column ? 1 : 0)
      .define("RLX_ROW_COUNT", integer_text(row_count))
      .define("RLX_COLS", integer_text(cols))
      .define("RLX_X", std::string(name_of(x.dtype())))
      .define("RLX_Y", std::string(name_of(y.dtype())))
      .define("RLX_WIDTH", rows.width)
      .define("RLX_ITEMS", rows.items)
      .define("RLX_BATCH", kValuesAtOnce / rows.width)
      .define("RLX_LOG", ctx.node().op == "log_softmax" ? 1 : 0)
      .generated("rows.inc", rows_text(rows))
      .read(&CopyParams::x, x, rows.width > 1 ? rows.width * element_bytes(x.dtype()) : 0)
      .grid(split_grid(static_cast<uint64_t>(rows.plan.groups(row_count))))
      .work(x.byte_range().length_bytes + y.byte_range().length_bytes,
            static_cast<uint64_t>(row_count * cols) * 4)
      .reason(to_string(rows.plan) + (rows.items > 0 ? ", row in registers" : ", row read twice"));
  if (x.dtype() == DType::f64) dispatch.define("RLX_DOUBLE", 1);
  dispatch.write(&CopyParams::y, y, rows.width > 1 ? rows.width * element_bytes(y.dtype()) : 0);
  if (x.strides == y.strides) dispatch.allow_in_place(x);
}

bool lower_softmax(LowerContext& ctx) {
  constexpr int64_t kGroupsPerMultiprocessor = 4;
  const TensorRef x = ctx.input(0);
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), x.shape().size());
  if (!axis) return false;
  const TensorRef y = ctx.output(0);
  if (element_count(y.shape()) == 0) return true;

  Rows rows{.x = x, .y = y, .loops = split_rows(x.shape(), x.strides, y.strides, {*axis})};
  rows.loops.kept = by_stride(rows.loops.kept);
  rows.width = piece_width(ctx, rows);
  rows.plan = plan_rows(rows.loops, rows.width);
  const int64_t row_count = loop_count(rows.loops.kept);
  const int64_t cols = loop_count(rows.loops.reduced);
  const int64_t wanted = kGroupsPerMultiprocessor * ctx.target().device.multiprocessors;
  deepen(rows.plan, row_count, wanted, 32 / element_bytes(x.dtype()));
  narrow_teams(rows.plan, row_count, cols, wanted, rows.width);
  rows.items = items_per_lane(rows.plan, cols, rows.width);
  dispatch_rows(ctx, rows);
  return true;
}

constexpr AttrSpec kSoftmaxAttrs[] = {
    {.name = "axis", .type = AttrType::Int, .default_text = "-1"}};

constexpr OpDef softmax_op(std::string_view name, std::string_view signature) {
  return {.name = name,
          .signature = signature,
          .inputs = {1, 1},
          .outputs = {1, 1},
          .attrs = kSoftmaxAttrs,
          .infer = infer_softmax,
          .evaluate = evaluate_softmax,
          .lower = lower_softmax,
          .reads_strides = true};
}

constexpr OpDef kSoftmaxOps[] = {
    softmax_op("softmax", "softmax(x; axis=-1) -> y"),
    softmax_op("log_softmax", "log_softmax(x; axis=-1) -> y"),
};

}  // namespace

std::span<const OpDef> softmax_ops() {
  return kSoftmaxOps;
}

}  // namespace rlx
