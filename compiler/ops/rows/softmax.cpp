// SPDX-License-Identifier: Apache-2.0
// softmax and log_softmax over any axis (ops.md 7.2).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/offers.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/rows/row_tables.h"

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
  RowLoops loops;      // operand 0: x, operand 1: y
  uint32_t width = 1;  // of RLX_WIDTH

  [[nodiscard]] Dim count() const { return loop_count(loops.kept); }
  [[nodiscard]] Dim cols() const { return loop_count(loops.reduced); }
  // RLX_ITEMS: pieces of a row that each thread holds; 0: they are read twice.
  [[nodiscard]] int64_t items(const RowPlan& plan) const {
    return items_per_lane(plan, cols(), width);
  }
};

std::string rows_text(const Rows& rows) {
  std::string text = define_line(
      "RLX_INDEX", index_type({&rows.x, &rows.y}, element_count(rows.x.shape()).range().most));
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

bool dispatch_rows(LowerContext& ctx, const Rows& rows, const RowPlan& plan, int64_t items) {
  constexpr int64_t kValuesAtOnce = 8;  // of a row that is read twice
  const TensorRef& x = rows.x;
  const TensorRef& y = rows.y;
  const Dim row_count = rows.count();
  const Dim cols = rows.cols();
  auto dispatch = ctx.dispatch<KernelId::softmax>();
  dispatch.workgroup({plan.threads(), 1, 1})
      .define("RLX_LANES", plan.lanes)
      .define("RLX_ROWS", plan.rows)
      .define("RLX_BY_COLUMN", plan.by_column ? 1 : 0)
      .define("RLX_ROW_COUNT", integer_text(row_count))
      .define("RLX_COLS", integer_text(cols))
      .define("RLX_X", std::string(name_of(x.dtype())))
      .define("RLX_Y", std::string(name_of(y.dtype())))
      .define("RLX_WIDTH", rows.width)
      .define("RLX_ITEMS", items)
      .define("RLX_BATCH", kValuesAtOnce / rows.width)
      .define("RLX_LOG", ctx.node().op == "log_softmax" ? 1 : 0)
      .generated("rows.inc", rows_text(rows))
      .read(&CopyParams::x, x, rows.width > 1 ? rows.width * element_bytes(x.dtype()) : 0)
      .grid(split_grid(plan.groups(row_count)))
      .work(x.byte_range().length_bytes + y.byte_range().length_bytes, row_count * cols * 4)
      .reason(to_string(plan) + (items > 0 ? ", row in registers" : ", row read twice"));
  if (x.dtype() == DType::f64) dispatch.define("RLX_DOUBLE", 1);
  dispatch.write(&CopyParams::y, y, rows.width > 1 ? rows.width * element_bytes(y.dtype()) : 0);
  if (x.strides == y.strides) dispatch.allow_in_place(x);
  return true;
}

// ---- the choice ----

// Rows of 32 bytes a line are enough: narrower and deeper workgroups where wide ones would be too
// few. None where rows do not stand side by side.
std::optional<RowPlan> column_plan(const OfferContext& at, const Rows& rows) {
  std::optional<RowPlan> plan = plan_side_by_side(rows.loops);
  if (!plan) return std::nullopt;
  const uint32_t least_rows = 32 / element_bytes(rows.x.dtype());
  while (plan->rows > least_rows && plan->groups(rows.count()) < busy_groups(at)) {
    plan->rows /= 2;
    plan->lanes *= 2;
  }
  return plan;
}

RowPlan wide_plan(const Rows& rows) {
  return plan_neighbours(rows.cols(), rows.width);
}

RowPlan narrow_plan(const OfferContext& at, const Rows& rows) {
  return plan_in_registers(at, rows.count(), rows.cols(), rows.width);
}

std::string narrow_refusal(const OfferContext& at, const Rows& rows) {
  if (rows.count() < busy_groups(at))
    return "fewer than " + std::to_string(busy_groups(at)) + " rows";
  return narrow_plan(at, rows).lanes < wide_plan(rows).lanes ? ""
                                                             : "rows that take as many threads";
}

double rows_bound(const OfferContext& at, const Rows& rows, bool read_twice) {
  const auto elements = static_cast<uint64_t>(element_count(rows.x.shape()).bound());
  const auto read = static_cast<uint64_t>(rows.x.byte_range().length_bytes.bound());
  const auto written = static_cast<uint64_t>(rows.y.byte_range().length_bytes.bound());
  return thread_bound_microseconds(
      at.device(), {.bytes = (read_twice ? 2 * read : read) + written, .flops = 4 * elements});
}

double registers_bound(const OfferContext& at, const Rows& rows) {
  return rows_bound(at, rows, false);
}

constexpr std::array kSoftmaxOffers = {
    // Along rows that stand side by side, every element would be a line of memory of its own.
    Offer<Rows>{.kernel = KernelId::softmax,
                .form = "column",
                .rank = 0,
                .estimate = Estimate::Bound,
                .refusal = [](const OfferContext& at, const Rows& rows) -> std::string {
                  return column_plan(at, rows) ? "" : "rows that do not stand side by side";
                },
                .microseconds =
                    [](const OfferContext& at, const Rows& rows) {
                      return rows_bound(at, rows, rows.items(*column_plan(at, rows)) == 0);
                    },
                .emit =
                    [](LowerContext& ctx, const Rows& rows) {
                      const RowPlan plan = column_plan(ctx, rows).value();
                      return dispatch_rows(ctx, rows, plan, rows.items(plan));
                    }},
    // Where rows keep the device busy one by one, each takes few threads: less is combined.
    Offer<Rows>{.kernel = KernelId::softmax,
                .form = "narrow teams",
                .rank = 1,
                .estimate = Estimate::Bound,
                .refusal = narrow_refusal,
                .microseconds = registers_bound,
                .emit =
                    [](LowerContext& ctx, const Rows& rows) {
                      const RowPlan plan = narrow_plan(ctx, rows);
                      return dispatch_rows(ctx, rows, plan, rows.items(plan));
                    }},
    Offer<Rows>{.kernel = KernelId::softmax,
                .form = "in registers",
                .rank = 2,
                .estimate = Estimate::Bound,
                .refusal = [](const OfferContext&, const Rows& rows) -> std::string {
                  return rows.items(wide_plan(rows)) > 0 ? "" : "rows too long for registers";
                },
                .microseconds = registers_bound,
                .emit =
                    [](LowerContext& ctx, const Rows& rows) {
                      const RowPlan plan = wide_plan(rows);
                      return dispatch_rows(ctx, rows, plan, rows.items(plan));
                    }},
    // Takes everything.
    Offer<Rows>{
        .kernel = KernelId::softmax,
        .form = "read twice",
        .rank = 3,
        .estimate = Estimate::Bound,
        .refusal = [](const OfferContext&, const Rows&) { return std::string(); },
        .microseconds = [](const OfferContext& at,
                           const Rows& rows) { return rows_bound(at, rows, true); },
        .emit = [](LowerContext& ctx,
                   const Rows& rows) { return dispatch_rows(ctx, rows, wide_plan(rows), 0); }},
};

bool lower_softmax(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), x.shape().size());
  if (!axis) return false;
  const TensorRef y = ctx.output(0);
  if (element_count(y.shape()) == 0) return true;

  Rows rows{.x = x, .y = y, .loops = split_rows(x.shape(), x.strides, y.strides, {*axis})};
  rows.loops.kept = by_stride(rows.loops.kept);
  rows.width = piece_width(ctx, rows);
  return lower_by_offers(ctx, std::span<const Offer<Rows>>(kSoftmaxOffers), rows);
}

bool softmax_gradient(GradientContext& ctx) {
  ctx.give(
      0, ctx.emit(ctx.node().op + "_backward", {ctx.output(0), ctx.gradient()}, ctx.attributes()));
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
          .gradient = softmax_gradient,
          .lower = lower_softmax,
          .reads_strides = true};
}

constexpr OpDef kSoftmaxOps[] = {
    softmax_op("softmax", "softmax(x; axis=-1) -> y"),
    softmax_op("log_softmax", "log_softmax(x; axis=-1) -> y"),
};

}  // namespace

std::vector<std::string> softmax_offer_names() {
  return offer_names(std::span<const Offer<Rows>>(kSoftmaxOffers));
}

std::span<const OpDef> softmax_ops() {
  return kSoftmaxOps;
}

}  // namespace rlx
