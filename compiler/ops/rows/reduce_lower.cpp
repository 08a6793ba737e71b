// SPDX-License-Identifier: Apache-2.0
// Lowering of reductions: one dispatch, or two where few long rows would leave the device idle;
// variance and log_sum_exp first reduce to a centre (mean, maximum) and then sum what is left
// around it.
#include "compiler/ops/rows/reduce_lower.h"

#include <algorithm>
#include <cstddef>

#include "compiler/ops/lowering/reduce_chain.h"
#include "compiler/ops/lowering/row_offers.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/rows/row_tables.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {

namespace {

// One pass of the reduce kernel, in the words of its header comment.
struct Pass {
  std::string combine;         // SUM, PROD, MAX, MIN, OR, AND
  std::string acc;             // RLX_ACC
  std::string identity;        // RLX_IDENTITY
  std::string map;             // RLX_MAP, over v
  std::string finish;          // RLX_FINISH, over a
  DType partial = DType::f32;  // storage type of acc, in scratch
};

// Where a pass reads and writes.
struct Place {
  TensorRef x;
  TensorRef y;
  RowLoops loops;                    // operand 0: x, operand 1: y
  std::vector<TensorRef> more = {};  // results behind the first, which stand as y does
  std::optional<TensorRef> center;
  std::optional<ReduceChain> chain = std::nullopt;  // x is its value
};

constexpr int64_t kElementsPerThread = 32;

std::string float_of(DType dtype) {
  return dtype == DType::f64 ? "rlx_f64" : "rlx_f32";
}

std::string count_as(const std::string& type, const Dim& count) {
  return type + "(" + integer_text(count) + ")";
}

Pass float_pass(DType dtype, const std::string& combine, const std::string& map,
                const std::string& finish) {
  const std::string type = float_of(dtype);
  std::string identity = type + (combine == "PROD" ? "(1)" : "(0)");
  if (combine == "MAX") identity = type + "(rlx_from_bits(0xFF800000u))";
  if (combine == "MIN") identity = type + "(rlx_from_bits(0x7F800000u))";
  return {.combine = combine,
          .acc = type,
          .identity = identity,
          .map = map,
          .finish = finish,
          .partial = dtype == DType::f64 ? DType::f64 : DType::f32};
}

Pass integer_extreme(DType dtype, const std::string& combine) {
  const std::string type = "RLX_CAT(rlx_t_, " + std::string(name_of(dtype)) + ")";
  const IntegerRange range = integer_range(dtype);
  // The lowest i64 has no literal of its own.
  const std::string identity =
      combine == "MIN"
          ? type + "(" + std::to_string(range.highest) + (dtype == DType::i64 ? "L)" : ")")
      : range.lowest == 0 ? type + "(0)"
      : dtype == DType::i64
          ? "(-rlx_i64(" + std::to_string(range.highest) + "L) - rlx_i64(1))"
          : "(-" + type + "(" + std::to_string(range.highest) + ") - " + type + "(1))";
  const bool wide = dtype == DType::i64;
  const bool is_signed = kind_of(dtype) == DTypeKind::Int;
  return {.combine = combine,
          .acc = type,
          .identity = identity,
          .map = "(v)",
          .finish = "(a)",
          .partial = wide        ? DType::i64
                     : is_signed ? DType::i32
                                 : DType::u32};
}

// Sums and products modulo 2^32 or 2^64; a mean needs the sum itself.
Pass integer_sum(std::string_view op, DType dtype, const Dim& count) {
  const bool mean = op == "reduce_mean";
  const bool wide = mean || dtype == DType::i64;
  const std::string type = wide ? "rlx_u64" : "rlx_u32";
  std::string finish = "(a)";
  if (mean) {
    finish =
        count == 0 ? "rlx_i64(0)" : "(rlx_i64(a) / " + count_as("rlx_i64", max(count, 1)) + ")";
  }
  return {.combine = op == "reduce_prod" ? "PROD" : "SUM",
          .acc = type,
          .identity = type + (op == "reduce_prod" ? "(1)" : "(0)"),
          .map = wide ? "rlx_u64(rlx_i64(v))" : "rlx_u32(v)",
          .finish = finish,
          .partial = wide ? DType::i64 : DType::u32};
}

Pass bool_pass(std::string_view op) {
  return {.combine = op == "reduce_any" ? "OR" : "AND",
          .acc = "rlx_u32",
          .identity = op == "reduce_any" ? "0u" : "1u",
          .map = "rlx_u32(v)",
          .finish = "((a) != 0u)",
          .partial = DType::u32};
}

// a / count, NaN for an empty row.
std::string quotient(DType dtype, const Dim& count) {
  const std::string type = float_of(dtype);
  if (count == 0) return type + "(rlx_from_bits(0x7FC00000u))";
  // Of a number and of one that the run gives, drivers make other quotients.
  return "rlx_div(a, " + count_as(type, count) + ")";
}

Pass float_reduction(std::string_view op, DType dtype, const Dim& count) {
  const std::string type = float_of(dtype);
  if (op == "reduce_mean") return float_pass(dtype, "SUM", "(v)", quotient(dtype, count));
  if (op == "reduce_max") return float_pass(dtype, "MAX", "(v)", "(a)");
  if (op == "reduce_min") return float_pass(dtype, "MIN", "(v)", "(a)");
  if (op == "reduce_prod") return float_pass(dtype, "PROD", "(v)", "(a)");
  if (op == "reduce_l1") return float_pass(dtype, "SUM", "abs(v)", "(a)");
  if (op == "reduce_l2") {
    return float_pass(dtype, "SUM", "((v) * (v))", "rlx_sqrt(a)");
  }
  if (op == "reduce_sum_square") return float_pass(dtype, "SUM", "((v) * (v))", "(a)");
  if (op == "reduce_log_sum") return float_pass(dtype, "SUM", "(v)", "rlx_log(a)");
  RLX_CHECK(op == "reduce_sum", "no reduction " + std::string(op));
  return float_pass(dtype, "SUM", "(v)", "(a)");
}

Pass plain_pass(std::string_view op, DType dtype, const Dim& count) {
  if (dtype == DType::bool_) return bool_pass(op);
  if (is_float(dtype)) return float_reduction(op, dtype, count);
  if (op == "reduce_max") return integer_extreme(dtype, "MAX");
  if (op == "reduce_min") return integer_extreme(dtype, "MIN");
  return integer_sum(op, dtype, count);
}

std::string load_prologue(DType dtype, bool fours) {
  const std::string name(name_of(dtype));
  const std::string place = "(p.operands[0], RLX_X_KEPT(kept) + RLX_X_REDUCED(reduced));\n";
  if (!fours) return "values[0] = rlx_load_" + name + place;
  return "const rlx_vec4 four = rlx_load4_" + name + place +
         "values[0] = four.x;\nvalues[1] = four.y;\nvalues[2] = four.z;\nvalues[3] = four.w;\n";
}

std::string prologue_text(const Place& place, bool fours) {
  if (!place.chain) return load_prologue(place.x.dtype(), fours);
  return fours ? place.chain->prologue_of_four : place.chain->prologue;
}

std::string rows_text(const Place& place, const Pass& pass, const std::string& finish) {
  const int64_t count =
      (loop_count(place.loops.kept) * loop_count(place.loops.reduced)).range().most;
  std::vector<const TensorRef*> views = {&place.x, &place.y};
  if (place.chain) {
    for (const TensorRef& operand : place.chain->operands) views.push_back(&operand);
  }
  std::string text = define_line("RLX_INDEX", index_type(views, count));
  text +=
      define_line("RLX_VALUE", "RLX_CAT(rlx_t_, " + std::string(name_of(place.x.dtype())) + ")");
  text += define_line("RLX_ACC", pass.acc);
  text += define_line("RLX_IDENTITY", pass.identity);
  text += define_line("RLX_MAP(v)", pass.acc + "(" + pass.map + ")");
  text += define_line("RLX_FINISH(a)", finish);
  text += index_macro("RLX_X_KEPT", place.loops.kept, 0);
  text += index_macro("RLX_X_REDUCED", place.loops.reduced, 0);
  text += index_macro("RLX_Y_KEPT", place.loops.kept, 1);
  return place.chain ? text + place.chain->macros : text;
}

// Splits the reduction where the rows alone make too few groups.
RowChunks split_reduction(const RowLoops& loops, const RowPlan& plan, uint32_t width,
                          int64_t wanted_groups) {
  const int64_t reduced = loop_count(loops.reduced).bound();
  const int64_t groups = std::max<int64_t>(plan.groups(loop_count(loops.kept)).bound(), 1);
  const int64_t least = static_cast<int64_t>(plan.lanes) * width * kElementsPerThread;
  const int64_t most = std::min<int64_t>(wanted_groups / groups, ceil_div(reduced, least));
  if (most <= 1) return {.count = 1, .length = std::max<int64_t>(reduced, 1)};
  const int64_t piece = static_cast<int64_t>(plan.lanes) * width;
  const int64_t length = round_up(ceil_div(reduced, most), piece);
  return {.count = ceil_div(reduced, length), .length = length};
}

std::string reason_text(const Place& place, const RowPlan& plan, const RowChunks& chunks) {
  std::string text = to_string(plan);
  if (chunks.count > 1) text += ", " + std::to_string(chunks.count) + " chunks";
  if (place.chain) text += ", chain of " + std::to_string(place.chain->steps) + " ops";
  return text;
}

Dim bytes_read(const Place& place) {
  if (!place.chain) return place.x.byte_range().length_bytes;
  Dim bytes = 0;
  for (const TensorRef& operand : place.chain->operands) {
    bytes += operand.byte_range().length_bytes;
  }
  return bytes;
}

// One dispatch of the kernel; `partial` takes the chunks' totals where there are several.
void dispatch_pass(LowerContext& ctx, const Pass& pass, const Place& place, const RowPlan& plan,
                   const RowChunks& chunks, uint32_t width,
                   const std::optional<TensorRef>& partial) {
  const bool fours = width == 4 || plan.columns == 4;
  constexpr uint32_t kOperands = offsetof(ReduceParams, operands);
  const Dim rows = loop_count(place.loops.kept);
  const Dim reduced = loop_count(place.loops.reduced);
  const Dim length = chunks.count == 1 ? max(reduced, 1) : Dim(chunks.length);
  const Grid grid = split_grid(plan.groups(rows) * chunks.count);
  const std::vector<TensorRef> operands =
      place.chain ? place.chain->operands : std::vector<TensorRef>{place.x};
  const Dim bytes = bytes_read(place) + place.y.byte_range().length_bytes;
  const uint64_t operations = place.chain ? 1 + place.chain->steps : 1;
  auto dispatch = ctx.dispatch<KernelId::reduce>();
  dispatch.workgroup({plan.threads(), 1, 1})
      .define("RLX_LANES", plan.lanes)
      .define("RLX_ROWS", plan.rows)
      .define("RLX_BY_COLUMN", plan.by_column ? 1 : 0)
      .define("RLX_ROW_COUNT", integer_text(rows))
      .define("RLX_REDUCED", integer_text(reduced))
      .define("RLX_CHUNKS", chunks.count)
      .define("RLX_CHUNK_LENGTH", integer_text(length))
      .define("RLX_COMBINE", pass.combine)
      .define("RLX_Y", std::string(name_of(place.y.dtype())))
      .define("RLX_PARTIAL", std::string(name_of(pass.partial)))
      .define("RLX_WIDTH", width)
      .define("RLX_COLUMNS", plan.columns)
      .define("RLX_RESULTS", 1 + place.more.size())
      .define("RLX_CENTERED", place.center ? 1 : 0)
      .generated("rows.inc", rows_text(place, pass, pass.finish))
      .generated("prologue.inc", prologue_text(place, fours))
      .grid(grid.x, grid.y, grid.z)
      .work(bytes, operations * rows * reduced)
      .reason(reason_text(place, plan, chunks));
  if (place.x.dtype() == DType::f64) dispatch.define("RLX_DOUBLE", 1);
  for (size_t k = 0; k < operands.size() && rows * reduced > 0; ++k) {
    const bool pieces = fours && (!place.chain || place.chain->in_pieces[k]);
    dispatch.bind(kOperands + static_cast<uint32_t>(k * sizeof(rlx_ptr)), operands[k],
                  AccessMode::Read, pieces ? 4 * element_bytes(operands[k].dtype()) : 0);
  }
  if (place.center)
    dispatch.bind(kOperands + 13 * sizeof(rlx_ptr), *place.center, AccessMode::Read);
  if (partial) {
    dispatch.write(&ReduceParams::partial, *partial);
    return;
  }
  dispatch.write(&ReduceParams::y, place.y);
  for (size_t r = 0; r < place.more.size(); ++r) {
    dispatch.bind(kOperands + static_cast<uint32_t>((kMaxReduceOperands - 1 - r) * sizeof(rlx_ptr)),
                  place.more[r], AccessMode::Write);
  }
}

// The second stage: partial[row * chunks + chunk] -> y, the rows in the order of the first stage.
Place partial_place(const Place& first, const TensorRef& partial, int64_t chunks) {
  Place second{.x = partial, .y = first.y, .loops = {}, .center = first.center};
  second.loops.kept = first.loops.kept;
  Dim stride = chunks;
  for (size_t d = second.loops.kept.size(); d-- > 0;) {
    second.loops.kept[d].strides[0] = stride;
    stride *= second.loops.kept[d].size;
  }
  second.loops.reduced = {{.size = chunks, .strides = {1, 0}}};
  return second;
}

// 4 where rows of a fused chain's value come in fours that its operands can give at once, else 1.
uint32_t chain_width(const Place& place) {
  const LoopDims& reduced = place.loops.reduced;
  if (place.chain->prologue_of_four.empty() || reduced.size() != 1) return 1;
  const bool kept_in_fours =
      std::all_of(place.loops.kept.begin(), place.loops.kept.end(),
                  [](const LoopDim& dim) { return dim.strides[0].divides_by(4); });
  return reduced[0].strides[0] == 1 && reduced[0].size.divides_by(4) && kept_in_fours ? 4 : 1;
}

// 4 where rows that stand side by side come in fours, as operands give them at once; else 1.
uint32_t side_by_side_columns(const LowerContext& ctx, const Place& place) {
  if (place.loops.kept.empty() || place.center) return 1;
  const auto in_fours = [](const LoopDims& dims, size_t count) {
    return std::all_of(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count),
                       [](const LoopDim& dim) { return dim.strides[0].divides_by(4); });
  };
  const LoopDims& kept = place.loops.kept;
  const bool fits = kept.back().strides[0] == 1 && kept.back().size.divides_by(4) &&
                    in_fours(kept, kept.size() - 1) &&
                    in_fours(place.loops.reduced, place.loops.reduced.size());
  if (!fits) return 1;
  if (place.chain) return place.chain->prologue_of_four.empty() ? 1 : 4;
  const DType dtype = place.x.dtype();
  const bool loads = is_short_float(dtype) && ctx.alignment(place.x) >= 4 * element_bytes(dtype);
  return loads ? 4 : 1;
}

// A pass as the table is asked of it.
struct Reduction {
  const Pass& pass;
  const Place& place;
  uint32_t width;
  uint32_t column_count;

  [[nodiscard]] const RowLoops& rows() const { return place.loops; }
  [[nodiscard]] uint32_t lane_elements() const { return width; }
  [[nodiscard]] uint32_t columns() const { return column_count; }
  [[nodiscard]] RowChunks split(const OfferContext& at, const RowPlan& plan) const {
    return split_reduction(place.loops, plan, width, at.device().full.reduce_groups);
  }
  [[nodiscard]] std::string whole_refusal(const RowPlan&) const { return {}; }
  [[nodiscard]] StepWork work(const RowWay& way) const;
  bool emit(LowerContext& ctx, const RowWay& way) const;
};

StepWork Reduction::work(const RowWay& way) const {
  const auto kept = static_cast<uint64_t>(loop_count(place.loops.kept).bound());
  const auto chunks = static_cast<uint64_t>(way.chunks.count);
  const uint64_t results = 1 + place.more.size();
  const uint64_t partial =
      chunks > 1 ? 2 * results * kept * chunks * element_bytes(pass.partial) : 0;
  const uint64_t operations = place.chain ? results + place.chain->steps : 1;
  const Dim bytes = bytes_read(place) + place.y.byte_range().length_bytes;
  return {
      .bytes = static_cast<uint64_t>(bytes.bound()) + partial,
      .flops = operations * kept * static_cast<uint64_t>(loop_count(place.loops.reduced).bound())};
}

bool Reduction::emit(LowerContext& ctx, const RowWay& way) const {
  if (way.chunks.count == 1) {
    dispatch_pass(ctx, pass, place, way.plan, way.chunks, width, std::nullopt);
    return true;
  }
  const int64_t count = way.chunks.count;
  const Dim rows = loop_count(place.loops.kept);
  const Dim results = static_cast<int64_t>(1 + place.more.size());
  const TensorRef partial =
      ctx.scratch({.dtype = pass.partial, .shape = {results, rows, count}}, "partial");
  dispatch_pass(ctx, pass, place, way.plan, way.chunks, width, partial);
  Pass last = pass;
  last.map = "(v)";
  for (size_t r = 0; r < 1 + place.more.size(); ++r) {
    TensorRef own = partial;
    own.type.shape = {rows, count};
    own.strides = dense_strides(own.type.shape);
    own.offset_bytes += rows * (count * static_cast<int64_t>(r) * element_bytes(pass.partial));
    Place second = partial_place(place, own, count);
    if (r > 0) second.y = place.more[r - 1];
    dispatch_pass(ctx, last, second, plan_neighbours(count, 1), {.count = 1, .length = count}, 1,
                  std::nullopt);
  }
  return true;
}

constexpr std::array kReduceOffers = row_offers<Reduction>(KernelId::reduce);

bool emit_pass(LowerContext& ctx, const Pass& pass, const Place& place) {
  const uint32_t width =
      place.chain ? chain_width(place) : vector_width(ctx, place.x, place.loops, 0);
  return lower_by_offers(ctx, std::span<const Offer<Reduction>>(kReduceOffers),
                         Reduction{.pass = pass,
                                   .place = place,
                                   .width = width,
                                   .column_count = side_by_side_columns(ctx, place)});
}

// The passes whose second one is centred on the result of the first.
struct CentredPasses {
  Pass center;
  Pass around;
};

CentredPasses centred_passes(const LowerContext& ctx, DType dtype, const Dim& count) {
  const std::string type = float_of(dtype);
  if (ctx.node().op == "variance") {
    const int64_t correction = ctx.attrs().integer("correction");
    const Dim divisor = max(count, correction) - correction;
    // A divisor of 0 divides: NaN for one element, as ops.md 0.4 wants of 0 / 0.
    const std::string finish = divisor == 0 ? "((a) * " + type + "(rlx_from_bits(0x7F800000u)))"
                                            : quotient(dtype, divisor);
    return {.center = float_pass(dtype, "SUM", "(v)", quotient(dtype, count)),
            .around = float_pass(dtype, "SUM", "((v) - center) * ((v) - center)", finish)};
  }
  return {.center = float_pass(dtype, "MAX", "(v)", "(a)"),
          .around = float_pass(dtype, "SUM", "rlx_exp((v) - rlx_finite_or_zero(center))",
                               "(rlx_finite_or_zero(center) + rlx_log(a))")};
}

}  // namespace

bool lower_reduce(LowerContext& ctx) {
  std::optional<ReduceChain> chain;
  if (!ctx.node().region.empty()) chain = reduce_chain(ctx);
  const TensorRef x = chain ? chain->value : ctx.input(0);
  const std::string& op = ctx.node().op;
  const std::optional<Ints> axes = reduced_axes(ctx, x.shape().size());
  if (!axes) return false;
  const bool centred = op == "variance" || op == "reduce_log_sum_exp";
  const bool arithmetic_free = op == "reduce_sum" || op == "reduce_mean" || op == "reduce_max" ||
                               op == "reduce_min" || op == "reduce_prod";
  if (axes->empty() && arithmetic_free) {
    ctx.alias_output(0, x);
    return true;
  }
  const TensorRef y = ctx.output(0);
  if (element_count(y.shape()) == 0) return true;

  Dim count = 1;
  for (const int64_t axis : *axes) count *= x.shape()[static_cast<size_t>(axis)];
  const Strides written = strides_without(x.shape(), *axes);
  const RowLoops loops = split_rows(x.shape(), x.strides, written, *axes);
  Place place{.x = x,
              .y = y,
              .loops = {.kept = by_stride(loops.kept), .reduced = by_stride(loops.reduced)},
              .center = std::nullopt,
              .chain = std::move(chain)};
  for (size_t r = 1; r < ctx.node().outputs.size(); ++r) place.more.push_back(ctx.output(r));
  if (!centred) return emit_pass(ctx, plain_pass(op, x.dtype(), count), place);
  const CentredPasses passes = centred_passes(ctx, x.dtype(), count);
  Place center = place;
  center.y = ctx.scratch({.dtype = passes.center.partial, .shape = y.shape()}, "center");
  if (!emit_pass(ctx, passes.center, center)) return false;
  place.center = center.y;
  return emit_pass(ctx, passes.around, place);
}

std::vector<std::string> reduce_offer_names() {
  return offer_names(std::span<const Offer<Reduction>>(kReduceOffers));
}

}  // namespace rlx
