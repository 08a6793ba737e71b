// SPDX-License-Identifier: Apache-2.0
// cumsum, cumprod, cummax and cummin over any axis (ops.md 7.4).
#include <algorithm>
#include <cmath>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/index_output.h"
#include "compiler/ops/lowering/row_offers.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/rows/row_tables.h"
#include "compiler/support/check.h"

namespace rlx {

namespace {

bool is_extreme(const NodeContext& ctx) {
  return ctx.node().op == "cummax" || ctx.node().op == "cummin";
}

bool infer_cumulative(InferContext& ctx) {
  const DType dtype = ctx.dtype(0);
  if (!is_float(dtype) && !is_integer(dtype)) {
    return ctx.fail(DiagCode::BadDtype,
                    "x is " + std::string(name_of(dtype)) + ", wanted a float or integer type",
                    "cast x first");
  }
  if (!ctx.axis(ctx.attrs().integer("axis"), ctx.shape(0).size())) return false;
  ctx.set_output(0, ctx.input(0));
  if (!is_extreme(ctx)) return true;
  if (!check_index_dtype(ctx)) return false;
  ctx.set_output(1, {ctx.attrs().dtype("index_dtype"), ctx.shape(0)});
  return true;
}

// Calls visit(base, offsets) for every row; offsets in running order.
template <typename Visit>
bool for_each_row(EvaluateContext& ctx, const Visit& visit) {
  const Shape& shape = ctx.input(0).type.shape;
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), shape.size());
  if (!axis) return false;
  RowOffsets offsets = row_offsets(shape, {*axis});
  if (ctx.attrs().flag("reverse")) std::reverse(offsets.reduced.begin(), offsets.reduced.end());
  for (const int64_t base : offsets.kept) visit(base, offsets.reduced);
  return true;
}

int64_t wrapped(DType dtype, uint64_t value) {
  const uint32_t unused_bits = 64 - 8 * element_bytes(dtype);
  const uint64_t high = value << unused_bits;
  return kind_of(dtype) == DTypeKind::Int ? static_cast<int64_t>(high) >> unused_bits
                                          : static_cast<int64_t>(high >> unused_bits);
}

bool evaluate_total(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const bool product = ctx.node().op == "cumprod";
  const bool exclusive = ctx.attrs().flag("exclusive");
  if (x.is_float()) y.magnitudes.resize(y.floats.size());
  return for_each_row(ctx, [&](int64_t base, const std::vector<int64_t>& offsets) {
    y.terms = static_cast<int64_t>(offsets.size());
    double running = product ? 1 : 0;
    double magnitude = running;
    uint64_t whole = product ? 1 : 0;
    for (const int64_t offset : offsets) {
      const auto at = static_cast<size_t>(base + offset);
      if (exclusive && x.is_float()) y.floats[at] = running;
      if (exclusive && x.is_float()) y.magnitudes[at] = magnitude;
      if (exclusive && !x.is_float()) y.integers[at] = wrapped(x.type.dtype, whole);
      if (x.is_float()) {
        running = product ? running * x.floats[at] : running + x.floats[at];
        magnitude = product ? std::abs(running) : magnitude + std::abs(x.floats[at]);
        if (!exclusive) y.magnitudes[at] = magnitude;
      } else {
        const auto value = static_cast<uint64_t>(x.integers[at]);
        whole = product ? whole * value : whole + value;
      }
      if (!exclusive && x.is_float()) y.floats[at] = running;
      if (!exclusive && !x.is_float()) y.integers[at] = wrapped(x.type.dtype, whole);
    }
  });
}

template <typename Element>
void run_extreme(const std::vector<Element>& x, std::vector<Element>& y, Tensor* indices,
                 int64_t base, const std::vector<int64_t>& offsets, bool largest, bool reverse) {
  size_t best = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const Element held = x[static_cast<size_t>(base + offsets[best])];
    const Element value = x[static_cast<size_t>(base + offsets[i])];
    const bool held_nan = held != held;
    const bool beats = value != value || (largest ? value > held : value < held);
    if (!held_nan && beats) best = i;
    const auto at = static_cast<size_t>(base + offsets[i]);
    y[at] = x[static_cast<size_t>(base + offsets[best])];
    const size_t position = reverse ? offsets.size() - 1 - best : best;
    if (indices != nullptr) set_index(*indices, at, static_cast<int64_t>(position));
  }
}

bool evaluate_extreme(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  Tensor* indices = ctx.output_count() > 1 ? &ctx.output(1) : nullptr;
  const bool largest = ctx.node().op == "cummax";
  const bool reverse = ctx.attrs().flag("reverse");
  return for_each_row(ctx, [&](int64_t base, const std::vector<int64_t>& offsets) {
    if (x.is_float()) {
      run_extreme(x.floats, y.floats, indices, base, offsets, largest, reverse);
    } else {
      run_extreme(x.integers, y.integers, indices, base, offsets, largest, reverse);
    }
  });
}

// What one scan needs beyond its views.
struct Scan {
  TensorRef x;
  TensorRef y;
  std::optional<TensorRef> indices;
  RowLoops loops;      // operand 0: x, operand 1: y and indices
  uint32_t width = 1;  // of RLX_WIDTH
  uint32_t items = 4;  // of RLX_ITEMS
  std::string combine;
  std::string acc;  // RLX_ACC
  DType partial = DType::f32;

  [[nodiscard]] const RowLoops& rows() const { return loops; }
  [[nodiscard]] uint32_t lane_elements() const { return items; }
  [[nodiscard]] static uint32_t columns() { return 1; }
  [[nodiscard]] RowChunks split(const OfferContext& at, const RowPlan& plan) const;
  [[nodiscard]] std::string whole_refusal(const RowPlan&) const { return {}; }
  [[nodiscard]] StepWork work(const RowWay& way) const;
  bool emit(LowerContext& ctx, const RowWay& way) const;
};

// Positions that a thread reads and writes as 16 bytes, 1 where rows do not allow it.
uint32_t piece_width(const LowerContext& ctx, const Scan& scan) {
  const DType dtype = scan.x.dtype();
  const bool known =
      (is_float(dtype) && dtype != DType::f64) || dtype == DType::i32 || dtype == DType::u32;
  const uint32_t width = 16 / element_bytes(dtype);
  return known && rows_divide(ctx, scan.x, scan.loops, 0, width) &&
                 rows_divide(ctx, scan.y, scan.loops, 1, width)
             ? width
             : 1;
}

// Splits rows that alone would leave the device idle; every chunk costs a second read of x.
RowChunks Scan::split(const OfferContext& at, const RowPlan& plan) const {
  constexpr int64_t kGroupsPerMultiprocessor = 8;
  constexpr int64_t kLeastPieces = 4;  // of a chunk
  return split_into_chunks(loop_count(loops.reduced).bound(),
                           plan.groups(loop_count(loops.kept)).bound(),
                           kGroupsPerMultiprocessor * at.device().multiprocessors,
                           static_cast<int64_t>(plan.lanes) * items, kLeastPieces);
}

StepWork Scan::work(const RowWay& way) const {
  const bool chunked = way.chunks.count > 1;
  const auto totals = static_cast<uint64_t>(loop_count(loops.kept).bound() * way.chunks.count);
  const auto bytes_of = [](const TensorRef& view) {
    return static_cast<uint64_t>(view.byte_range().length_bytes.bound());
  };
  return {.bytes = (chunked ? 2 : 1) * bytes_of(x) + bytes_of(y) +
                   (indices ? bytes_of(*indices) : 0) +
                   (chunked ? 2 * totals * element_bytes(partial) : 0),
          .flops = static_cast<uint64_t>(element_count(x.shape()).bound())};
}

std::string rows_text(const NodeContext& ctx, const Scan& scan, const RowChunks& chunks) {
  std::string text = define_line(
      "RLX_INDEX",
      index_type({&scan.x, &scan.y}, element_count(scan.x.shape()).range().most + chunks.count));
  text += define_line("RLX_ACC", scan.acc);
  if (is_extreme(ctx)) {
    text += define_line("RLX_EXTREME_BEFORE(a, b)",
                        ctx.node().op == "cummax" ? "((a) > (b))" : "((a) < (b))");
  } else {
    text += define_line("RLX_IDENTITY", scan.acc + (scan.combine == "PROD" ? "(1)" : "(0)"));
    // Signed values reach 64 bits with their sign.
    text += define_line("RLX_LIFT(v)",
                        scan.acc == "rlx_u64" ? "rlx_u64(rlx_i64(v))" : scan.acc + "(v)");
  }
  text += index_macro("RLX_X_KEPT", scan.loops.kept, 0);
  text += index_macro("RLX_X_REDUCED", scan.loops.reduced, 0);
  text += index_macro("RLX_Y_KEPT", scan.loops.kept, 1);
  text += index_macro("RLX_Y_REDUCED", scan.loops.reduced, 1);
  return text;
}

void dispatch_scan(LowerContext& ctx, const Scan& scan, const RowWay& way,
                   const std::optional<TensorRef>& partial, bool totals) {
  const DType dtype = scan.x.dtype();
  const Dim rows = loop_count(scan.loops.kept);
  const Dim cols = loop_count(scan.loops.reduced);
  const Dim length = way.chunks.count == 1 ? max(cols, 1) : Dim(way.chunks.length);
  const bool exclusive = !is_extreme(ctx) && ctx.attrs().flag("exclusive");
  const uint32_t alignment = scan.width > 1 ? 16 : 0;
  const Dim written = totals ? Dim() : scan.y.byte_range().length_bytes;
  auto dispatch = ctx.dispatch<KernelId::scan>();
  dispatch.workgroup({way.plan.threads(), 1, 1})
      .define("RLX_LANES", way.plan.lanes)
      .define("RLX_ROWS", way.plan.rows)
      .define("RLX_BY_COLUMN", way.plan.by_column ? 1 : 0)
      .define("RLX_ROW_COUNT", integer_text(rows))
      .define("RLX_COLS", integer_text(cols))
      .define("RLX_CHUNKS", way.chunks.count)
      .define("RLX_CHUNK_LENGTH", integer_text(length))
      .define("RLX_TOTALS", totals ? 1 : 0)
      .define("RLX_COMBINE", scan.combine)
      .define("RLX_EXTREME", is_extreme(ctx) ? 1 : 0)
      .define("RLX_EXCLUSIVE", exclusive && !totals ? 1 : 0)
      .define("RLX_REVERSE", ctx.attrs().flag("reverse") ? 1 : 0)
      .define("RLX_ITEMS", scan.items)
      .define("RLX_WIDTH", scan.width)
      .define("RLX_WORDS", scan.width > 1 && is_integer(dtype) ? 1 : 0)
      .define("RLX_X", std::string(name_of(dtype)))
      .define("RLX_Y", std::string(name_of(dtype)))
      .define("RLX_PARTIAL", std::string(name_of(scan.partial)))
      .define("RLX_HAS_INDICES", scan.indices && !totals ? 1 : 0)
      .define("RLX_I", std::string(name_of(scan.indices ? scan.indices->dtype() : DType::i32)))
      .generated("rows.inc", rows_text(ctx, scan, way.chunks))
      .read(&ScanParams::x, scan.x, alignment)
      .grid(split_grid(way.plan.groups(rows) * way.chunks.count))
      .work(scan.x.byte_range().length_bytes + written, rows * cols)
      .reason(to_string(way.plan) +
              (way.chunks.count == 1 ? "" : ", " + std::to_string(way.chunks.count) + " chunks") +
              (totals ? ": their totals" : ""));
  if (totals) {
    dispatch.write(&ScanParams::partial, partial.value());
    return;
  }
  if (partial) dispatch.read(&ScanParams::partial, *partial);
  dispatch.write(&ScanParams::y, scan.y, alignment);
  if (scan.indices) dispatch.write(&ScanParams::indices, *scan.indices);
  // With indices or chunks, x is read again after others have written.
  const bool once = !is_extreme(ctx) && way.chunks.count == 1;
  if (once && scan.x.strides == scan.y.strides) dispatch.allow_in_place(scan.x);
}

// The type of running totals and how scratch stores them.
void choose_totals(const NodeContext& ctx, Scan& scan) {
  const DType dtype = scan.x.dtype();
  const bool wide = element_bytes(dtype) == 8;
  if (is_extreme(ctx)) {
    scan.combine = ctx.node().op == "cummax" ? "MAX" : "MIN";
    scan.acc = "Candidate";
    scan.partial = DType::i64;
    return;
  }
  scan.combine = ctx.node().op == "cumprod" ? "PROD" : "SUM";
  if (is_float(dtype)) {
    scan.acc = wide ? "rlx_f64" : "rlx_f32";
    scan.partial = wide ? DType::f64 : DType::f32;
    return;
  }
  scan.acc = wide ? "rlx_u64" : "rlx_u32";
  scan.partial = wide ? DType::i64 : DType::u32;
}

bool Scan::emit(LowerContext& ctx, const RowWay& way) const {
  if (way.chunks.count == 1) {
    dispatch_scan(ctx, *this, way, std::nullopt, false);
    return true;
  }
  const TensorRef totals = ctx.scratch(
      {.dtype = partial, .shape = {loop_count(loops.kept), way.chunks.count}}, "partial");
  dispatch_scan(ctx, *this, way, totals, true);
  dispatch_scan(ctx, *this, way, totals, false);
  return true;
}

constexpr std::array kScanOffers = row_offers<Scan>(KernelId::scan);

bool lower_cumulative(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), x.shape().size());
  if (!axis) return false;
  const TensorRef y = ctx.output(0);
  std::optional<TensorRef> indices;
  if (ctx.has_output(1)) indices = ctx.output(1);
  if (element_count(y.shape()) == 0) return true;

  RLX_CHECK(!indices || indices->strides == y.strides, "layout of the indices of " + ctx.node().op);
  Scan scan{.x = x,
            .y = y,
            .indices = indices,
            .loops = split_rows(x.shape(), x.strides, y.strides, {*axis}),
            .combine = {},
            .acc = {}};
  scan.loops.kept = by_stride(scan.loops.kept);
  scan.width = piece_width(ctx, scan);
  if (scan.width > 1) scan.items = scan.width;
  choose_totals(ctx, scan);
  return lower_by_offers(ctx, std::span<const Offer<Scan>>(kScanOffers), scan);
}

constexpr AttrSpec kTotalAttrs[] = {
    {.name = "axis", .type = AttrType::Int, .required = true},
    {.name = "exclusive", .type = AttrType::Bool, .default_text = "false"},
    {.name = "reverse", .type = AttrType::Bool, .default_text = "false"},
};
constexpr AttrSpec kExtremeAttrs[] = {
    {.name = "axis", .type = AttrType::Int, .required = true},
    {.name = "reverse", .type = AttrType::Bool, .default_text = "false"},
    {.name = "index_dtype",
     .type = AttrType::DTypeName,
     .default_text = "\"i32\"",
     .consumed_by_infer = true},
};

bool cumsum_gradient(GradientContext& ctx) {
  ctx.give(0, ctx.emit("cumsum_backward", {ctx.gradient()}, ctx.attributes()));
  return true;
}

// The axis as the last one, read from where the running value begins.
class AlongLast {
 public:
  explicit AlongLast(GradientContext& ctx)
      : ctx_(ctx), rank_(ctx.shape(ctx.input(0)).size()), perm_(axes_from(0, rank_)) {
    const int64_t axis = ctx.axis(ctx.attrs().integer("axis"), rank_).value();
    std::swap(perm_[static_cast<size_t>(axis)], perm_.back());
  }
  ValueId of(ValueId x) { return turned(ctx_.transpose(x, perm_)); }
  ValueId back(ValueId x) { return ctx_.transpose(turned(x), perm_); }

 private:
  ValueId turned(ValueId x) {
    if (!ctx_.attrs().flag("reverse")) return x;
    return ctx_.emit("reverse", {x}, {{"axes", Ints{static_cast<int64_t>(rank_) - 1}}});
  }
  GradientContext& ctx_;
  size_t rank_;
  Ints perm_;
};

// Of element k: what stands before it, times the sum over all i from k on of dy_i times what stands
// between. No division, for elements may be 0.
bool cumprod_gradient(GradientContext& ctx) {
  AlongLast along(ctx);
  const ValueId x = along.of(ctx.input(0));
  ValueId dy = along.of(ctx.gradient());
  const Shape shape = ctx.shape(x);
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  const Dim n = shape.back();
  if (n.is_free()) {
    return ctx.fail(DiagCode::UnknownOp, "along an axis of a free size it has no gradient",
                    "bind the size");
  }
  if (n == Dim(0)) {
    ctx.give(0, ctx.gradient());
    return true;
  }
  if (ctx.attrs().flag("exclusive")) {
    const ValueId later =
        ctx.emit("narrow", {dy}, {{"axis", last}, {"start", int64_t{1}}, {"len", n.bound() - 1}});
    dy = ctx.emit("pad", {later}, {{"axes", Ints{last}}, {"pads", Ints{0, 1}}});
  }
  Shape row = shape;
  row.insert(row.end() - 1, 1);
  Shape square = row;
  square[square.size() - 2] = n;
  const ValueId ones = ctx.filled({ctx.dtype(x), {n, n}}, 1);
  const ValueId is_behind =
      ctx.cast(ctx.emit("trilu", {ones}, {{"upper", true}, {"k", int64_t{1}}}), DType::bool_);
  const ValueId between = ctx.emit(
      "where", {is_behind, ctx.expand(ctx.reshape(x, row), square), ctx.scalar(ctx.dtype(x), 1)});
  const ValueId products = ctx.emit("cumprod", {between}, {{"axis", last + 1}});
  const ValueId shares = ctx.emit("mul", {products, ctx.reshape(dy, row)});
  const ValueId kept = ctx.emit("trilu", {shares}, {{"upper", true}, {"k", int64_t{0}}});
  const ValueId sums = ctx.reduce("reduce_sum", kept, {last + 1}, NodeBuilder::Axes::Drop);
  const ValueId before = ctx.emit("cumprod", {x}, {{"axis", last}, {"exclusive", true}});
  ctx.give(0, along.back(ctx.emit("mul", {before, sums})));
  return true;
}

// To the element that each place shows.
bool extreme_gradient(GradientContext& ctx) {
  const ValueId shown = ctx.emit_all(ctx.node().op, {ctx.input(0)}, ctx.node().attributes, 2)[1];
  const ValueId zeros = ctx.filled(ctx.type(ctx.input(0)), 0);
  ctx.give(0, ctx.emit("scatter_elements", {zeros, shown, ctx.gradient()},
                       {{"axis", ctx.attrs().integer("axis")}, {"reduction", std::string("add")}}));
  return true;
}

constexpr OpDef total_op(std::string_view name, std::string_view signature) {
  return {.name = name,
          .signature = signature,
          .inputs = {1, 1},
          .outputs = {1, 1},
          .attrs = kTotalAttrs,
          .infer = infer_cumulative,
          .evaluate = evaluate_total,
          .lower = lower_cumulative};
}

constexpr OpDef extreme_op(std::string_view name, std::string_view signature) {
  return {.name = name,
          .signature = signature,
          .inputs = {1, 1},
          .outputs = {1, 2},
          .attrs = kExtremeAttrs,
          .infer = infer_cumulative,
          .evaluate = evaluate_extreme,
          .lower = lower_cumulative};
}

constexpr OpDef with_gradient(OpDef op, bool (*gradient)(GradientContext&)) {
  op.gradient = gradient;
  return op;
}

constexpr OpDef kCumulativeOps[] = {
    with_gradient(total_op("cumsum", "cumsum(x; axis, exclusive=false, reverse=false) -> y"),
                  cumsum_gradient),
    with_gradient(total_op("cumprod", "cumprod(x; axis, exclusive=false, reverse=false) -> y"),
                  cumprod_gradient),
    with_gradient(
        extreme_op("cummax",
                   "cummax(x; axis, reverse=false, index_dtype=i32) -> values, [indices]"),
        extreme_gradient),
    with_gradient(
        extreme_op("cummin",
                   "cummin(x; axis, reverse=false, index_dtype=i32) -> values, [indices]"),
        extreme_gradient),
};

}  // namespace

std::vector<std::string> cumulative_offer_names() {
  return offer_names(std::span<const Offer<Scan>>(kScanOffers));
}

std::span<const OpDef> cumulative_ops() {
  return kCumulativeOps;
}

}  // namespace rlx
