// SPDX-License-Identifier: Apache-2.0
// Lowering of moments: how threads go over the rows, and in how many parts.
#include "compiler/ops/rows/moments_lower.h"

#include <algorithm>

#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/row_offers.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/rows/row_tables.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// Elements that a thread reads at once: 8 or 4 where a row's innermost loop and every step between
// its loops and rows allow it.
uint32_t piece_width(const LowerContext& ctx, const TensorRef& x, const RowLoops& loops) {
  const uint32_t bytes = element_bytes(x.dtype());
  if (loops.reduced.empty() || loops.reduced.back().strides[0] != 1 || bytes > 4) return 1;
  for (const uint32_t width : {16 / bytes, uint32_t{4}}) {
    const auto divides = [width](const Dim& size) { return size.divides_by(width); };
    bool whole = divides(loops.reduced.back().size) && ctx.alignment(x) >= width * bytes;
    for (size_t d = 0; d + 1 < loops.reduced.size(); ++d) {
      whole = whole && divides(loops.reduced[d].strides[0]);
    }
    for (const LoopDim& dim : loops.kept) whole = whole && divides(dim.strides[0]);
    if (whole) return width;
  }
  return 1;
}

constexpr int64_t kHeld = 32;  // elements of a thread

struct MomentsStep {
  const MomentsProblem& problem;
  const MomentsResults& results;
  RowLoops loops;
  uint32_t width = 1;

  [[nodiscard]] const RowLoops& rows() const { return loops; }
  [[nodiscard]] uint32_t lane_elements() const { return width; }
  [[nodiscard]] static uint32_t columns() { return 1; }
  [[nodiscard]] RowChunks split(const OfferContext& at, const RowPlan& plan) const;
  [[nodiscard]] std::string whole_refusal(const RowPlan& plan) const;
  [[nodiscard]] StepWork work(const RowWay& way) const;
  bool emit(LowerContext& ctx, const RowWay& way) const;
};

// Long rows go in as many parts as threads can hold; and in more where few rows would leave the
// device idle.
RowChunks MomentsStep::split(const OfferContext& at, const RowPlan& plan) const {
  constexpr int64_t kLeastHeld = 8;
  const int64_t reduced = loop_count(loops.reduced).bound();
  const int64_t groups = std::max<int64_t>(plan.groups(loop_count(loops.kept)).bound(), 1);
  int64_t parts = ceil_div(reduced, kHeld * plan.lanes);
  if (parts <= 1) return {.count = 1, .length = reduced};
  const int64_t wanted = 4 * int64_t{at.device().multiprocessors} / groups;
  parts = std::max(parts, std::min(wanted, ceil_div(reduced, kLeastHeld * plan.lanes)));
  const int64_t piece = static_cast<int64_t>(plan.lanes) * width;
  const int64_t length = round_up(ceil_div(reduced, parts), piece);
  return {.count = ceil_div(reduced, length), .length = length};
}

std::string MomentsStep::whole_refusal(const RowPlan& plan) const {
  const int64_t held = kHeld * plan.lanes;
  if (loop_count(loops.reduced) <= held) return {};
  return "rows of more elements than the " + std::to_string(held) + " that threads hold";
}

StepWork MomentsStep::work(const RowWay& way) const {
  const uint64_t element = element_bytes(statistics_type(problem.x.dtype()));
  const auto kept = static_cast<uint64_t>(loop_count(loops.kept).bound());
  const auto chunks = static_cast<uint64_t>(way.chunks.count);
  const uint64_t partial = chunks > 1 ? 2 * kept * chunks * 3 * element : 0;
  return {.bytes = static_cast<uint64_t>(problem.x.byte_range().length_bytes.bound()) + partial,
          .flops = static_cast<uint64_t>(element_count(problem.x.shape()).bound()) * 5};
}

std::string rows_text(const MomentsStep& step) {
  const Dim reduced = loop_count(step.loops.reduced);
  const std::string real = "rlx_" + std::string(name_of(statistics_type(step.problem.x.dtype())));
  const std::string quotient = "rlx_div(a, " + real + "(" + integer_text(reduced) + "))";
  std::string text = define_line(
      "RLX_INDEX",
      index_type(
          {&step.problem.x},
          (loop_count(step.loops.kept) * max(reduced, 3 * step.problem.repeats)).range().most));
  text += define_line("RLX_REAL", real);
  text +=
      define_line("RLX_OF_ROW(a)", reduced == 0 ? real + "(rlx_from_bits(0x7FC00000u))" : quotient);
  // Of rows of a free length, the last parts may be empty.
  const std::string count = reduced.is_free() ? "max(n, RLX_INDEX(1))" : "n";
  text += define_line("RLX_OF_PART(a, n)",
                      reduced == 0 ? "RLX_OF_ROW(a)" : "rlx_div(a, " + real + "(" + count + "))");
  const std::string before = "(i) * RLX_INDEX(RLX_PART_LENGTH)";
  text += define_line(
      "RLX_PART_COUNT(i)",
      "min(RLX_INDEX(RLX_PART_LENGTH), RLX_INDEX(RLX_REDUCED) - " +
          (reduced.is_free() ? "min(RLX_INDEX(RLX_REDUCED), " + before + ")" : before) + ")");
  text += define_line("RLX_SPREAD(squares)", step.problem.spread);
  text += define_line("RLX_INV_STD(spread)", step.problem.inv_std);
  text += index_macro("RLX_X_KEPT", step.loops.kept, 0);
  text += index_macro("RLX_X_REDUCED", step.loops.reduced, 0);
  text += index_macro("RLX_Y_KEPT", step.loops.kept, 1);
  return text;
}

enum class MomentsStage : uint8_t { Whole, Parts, Merge };

void dispatch_moments(LowerContext& ctx, const MomentsStep& step, const RowWay& way,
                      MomentsStage stage, const std::optional<TensorRef>& partial) {
  const bool merges = stage == MomentsStage::Merge;
  const int64_t parts = way.chunks.count;
  const Dim rows = loop_count(step.loops.kept);
  const RowPlan threads = merges ? plan_neighbours(parts, 1) : way.plan;
  const Dim groups = threads.groups(rows) * (merges ? 1 : parts);
  const int64_t piece = static_cast<int64_t>(way.plan.lanes) * step.width;
  const int64_t items = ceil_div(way.chunks.length, piece);
  auto dispatch = ctx.dispatch<KernelId::moments>();
  dispatch.workgroup({threads.threads(), 1, 1})
      .define("RLX_MERGE", merges ? 1 : 0)
      .define("RLX_LANES", threads.lanes)
      .define("RLX_ROWS", threads.rows)
      .define("RLX_BY_COLUMN", threads.by_column ? 1 : 0)
      .define("RLX_ROW_COUNT", integer_text(rows))
      .define("RLX_REDUCED", integer_text(loop_count(step.loops.reduced)))
      .define("RLX_PARTS", integer_text(parts))
      .define("RLX_PART_LENGTH", integer_text(items * piece))
      .define("RLX_REPEATS", integer_text(step.problem.repeats))
      .define("RLX_CENTER", step.problem.centred ? 1 : 0)
      .define("RLX_X", std::string(name_of(step.problem.x.dtype())))
      .define("RLX_Y", std::string(name_of(statistics_type(step.problem.x.dtype()))))
      .define("RLX_WIDTH", merges ? 1 : step.width)
      .define("RLX_ITEMS", merges ? 1 : items)
      .define("RLX_HAS_MEAN", step.results.center ? 1 : 0)
      .define("RLX_HAS_VARIANCE", step.results.variance ? 1 : 0)
      .generated("rows.inc", rows_text(step))
      .grid(split_grid(groups))
      .reason(to_string(threads) + (merges ? ", merging " : ", ") + std::to_string(parts) +
              " parts");
  if (merges) {
    dispatch.read(&MomentsParams::partial, *partial).work(byte_size(partial->type), 0);
  } else {
    const uint32_t alignment =
        step.width > 1 ? step.width * element_bytes(step.problem.x.dtype()) : 0;
    const Dim elements = element_count(step.problem.x.shape());
    if (elements > 0) dispatch.read(&MomentsParams::x, step.problem.x, alignment);
    dispatch.work(step.problem.x.byte_range().length_bytes, elements * 5);
  }
  if (stage == MomentsStage::Parts) {
    dispatch.write(&MomentsParams::partial, *partial);
    return;
  }
  if (step.results.center) {
    dispatch.write(&MomentsParams::center, *step.results.center)
        .write(&MomentsParams::rest, *step.results.rest);
  }
  dispatch.write(&MomentsParams::inv_std, step.results.inv_std);
  if (step.results.variance) dispatch.write(&MomentsParams::variance, *step.results.variance);
}

bool MomentsStep::emit(LowerContext& ctx, const RowWay& way) const {
  if (way.chunks.count == 1) {
    dispatch_moments(ctx, *this, way, MomentsStage::Whole, std::nullopt);
    return true;
  }
  const TensorRef partial = ctx.scratch({.dtype = statistics_type(problem.x.dtype()),
                                         .shape = {loop_count(loops.kept), way.chunks.count, 3}},
                                        "partial");
  dispatch_moments(ctx, *this, way, MomentsStage::Parts, partial);
  dispatch_moments(ctx, *this, way, MomentsStage::Merge, partial);
  return true;
}

constexpr std::array kMomentsOffers = row_offers<MomentsStep>(KernelId::moments);

MomentsProblem with_root(TensorRef x, Shape shape, Ints axes, double eps) {
  const std::string added = literal(statistics_type(x.dtype()), eps);
  return {.x = std::move(x),
          .shape = std::move(shape),
          .axes = std::move(axes),
          .spread = "RLX_OF_ROW(squares)",
          .inv_std = "(RLX_REAL(1) / rlx_sqrt((spread) + " + added + "))"};
}

}  // namespace

DType statistics_type(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

MomentsProblem variance_problem(TensorRef x, Shape shape, Ints axes, double eps) {
  return with_root(std::move(x), std::move(shape), std::move(axes), eps);
}

MomentsProblem mean_square_problem(TensorRef x, Shape shape, Ints axes, double eps) {
  MomentsProblem problem = with_root(std::move(x), std::move(shape), std::move(axes), eps);
  problem.centred = false;
  return problem;
}

bool emit_moments(LowerContext& ctx, const MomentsProblem& problem, const MomentsResults& results) {
  const TensorRef& x = problem.x;
  const std::optional<Strides> strides = reshape_strides(x.shape(), x.strides, problem.shape);
  RLX_CHECK(strides.has_value(), "splitting the dims of " + ctx.node().name);
  Strides written = strides_without(problem.shape, problem.axes);
  for (Dim& stride : written) stride *= problem.repeats;
  const RowLoops loops = split_rows(problem.shape, *strides, written, problem.axes);
  const RowLoops sorted{.kept = by_stride(loops.kept), .reduced = by_stride(loops.reduced)};
  const MomentsStep step{.problem = problem,
                         .results = results,
                         .loops = sorted,
                         .width = piece_width(ctx, x, sorted)};
  return lower_by_offers(ctx, std::span<const Offer<MomentsStep>>(kMomentsOffers), step);
}

std::vector<std::string> moments_offer_names() {
  return offer_names(std::span<const Offer<MomentsStep>>(kMomentsOffers));
}

}  // namespace rlx
