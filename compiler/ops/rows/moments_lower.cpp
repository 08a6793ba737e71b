// SPDX-License-Identifier: Apache-2.0
// Lowering of moments: how threads go over the rows, and in how many parts.
#include "compiler/ops/rows/moments_lower.h"

#include <algorithm>

#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// How the moments kernel goes over x.
struct MomentsPlan {
  RowPlan rows;
  uint32_t width = 1;
  int64_t parts = 1;
  int64_t part_length = 1;

  [[nodiscard]] int64_t items() const {
    const int64_t piece = static_cast<int64_t>(rows.lanes) * width;
    return ceil_div(part_length, piece);
  }
};

// Elements that a thread reads at once: 8 or 4 where a row's innermost loop and every step between
// its loops and rows allow it.
uint32_t piece_width(const LowerContext& ctx, const TensorRef& x, const RowLoops& loops) {
  const uint32_t bytes = element_bytes(x.dtype());
  if (loops.reduced.empty() || loops.reduced.back().strides[0] != 1 || bytes > 4) return 1;
  for (const uint32_t width : {16 / bytes, uint32_t{4}}) {
    const auto divides = [width](int64_t value) { return value % width == 0; };
    bool whole = divides(loops.reduced.back().size) && ctx.alignment(x) >= width * bytes;
    for (size_t d = 0; d + 1 < loops.reduced.size(); ++d) {
      whole = whole && divides(loops.reduced[d].strides[0]);
    }
    for (const LoopDim& dim : loops.kept) whole = whole && divides(dim.strides[0]);
    if (whole) return width;
  }
  return 1;
}

// A thread holds up to kHeld elements, so long rows go in parts; and in more parts than that where
// few rows would leave the device idle.
MomentsPlan plan_moments(const LowerContext& ctx, const TensorRef& x, const RowLoops& loops) {
  constexpr int64_t kHeld = 32;
  constexpr int64_t kLeastHeld = 8;
  MomentsPlan plan;
  plan.width = piece_width(ctx, x, loops);
  plan.rows = plan_rows(loops, plan.width);
  if (plan.rows.by_column) plan.width = 1;
  const int64_t reduced = loop_count(loops.reduced);
  const int64_t groups = std::max<int64_t>(plan.rows.groups(loop_count(loops.kept)), 1);
  const int64_t most = kHeld * plan.rows.lanes;
  plan.parts = std::max<int64_t>(ceil_div(reduced, most), 1);
  if (plan.parts > 1) {
    const int64_t wanted = 4 * int64_t{ctx.target().device.multiprocessors} / groups;
    const int64_t finest = ceil_div(reduced, kLeastHeld * plan.rows.lanes);
    plan.parts = std::max(plan.parts, std::min(wanted, finest));
  }
  const int64_t piece = static_cast<int64_t>(plan.rows.lanes) * plan.width;
  const int64_t length = ceil_div(reduced, plan.parts);
  plan.part_length = std::max<int64_t>(round_up(length, piece), 1);
  plan.parts = std::max<int64_t>(ceil_div(reduced, plan.part_length), 1);
  return plan;
}

struct MomentsStep {
  const MomentsProblem& problem;
  const MomentsResults& results;
  RowLoops loops;
  MomentsPlan plan;
};

std::string rows_text(const MomentsStep& step) {
  const int64_t reduced = loop_count(step.loops.reduced);
  const std::string real = "rlx_" + std::string(name_of(statistics_type(step.problem.x.dtype())));
  const std::string quotient = "((a) / " + real + "(" + integer_text(reduced) + "))";
  std::string text = define_line(
      "RLX_INDEX",
      index_type({&step.problem.x}, loop_count(step.loops.kept) *
                                        std::max<int64_t>(reduced, 3 * step.problem.repeats)));
  text += define_line("RLX_REAL", real);
  text +=
      define_line("RLX_OF_ROW(a)", reduced == 0 ? real + "(rlx_from_bits(0x7FC00000u))" : quotient);
  text +=
      define_line("RLX_OF_PART(a, n)", reduced == 0 ? "RLX_OF_ROW(a)" : "((a) / " + real + "(n))");
  text += define_line("RLX_PART_COUNT(i)",
                      "min(RLX_INDEX(RLX_PART_LENGTH), RLX_INDEX(RLX_REDUCED) - (i) * "
                      "RLX_INDEX(RLX_PART_LENGTH))");
  text += define_line("RLX_SPREAD(squares)", step.problem.spread);
  text += define_line("RLX_INV_STD(spread)", step.problem.inv_std);
  text += index_macro("RLX_X_KEPT", step.loops.kept, 0);
  text += index_macro("RLX_X_REDUCED", step.loops.reduced, 0);
  text += index_macro("RLX_Y_KEPT", step.loops.kept, 1);
  return text;
}

enum class MomentsStage : uint8_t { Whole, Parts, Merge };

void dispatch_moments(LowerContext& ctx, const MomentsStep& step, MomentsStage stage,
                      const std::optional<TensorRef>& partial) {
  const bool merges = stage == MomentsStage::Merge;
  const MomentsPlan& plan = step.plan;
  const int64_t rows = loop_count(step.loops.kept);
  const RowPlan threads = merges ? plan_neighbours(plan.parts, 1) : plan.rows;
  const int64_t groups = threads.groups(rows) * (merges ? 1 : plan.parts);
  auto dispatch = ctx.dispatch<KernelId::moments>();
  dispatch.workgroup({threads.threads(), 1, 1})
      .define("RLX_MERGE", merges ? 1 : 0)
      .define("RLX_LANES", threads.lanes)
      .define("RLX_ROWS", threads.rows)
      .define("RLX_BY_COLUMN", threads.by_column ? 1 : 0)
      .define("RLX_ROW_COUNT", integer_text(rows))
      .define("RLX_REDUCED", integer_text(loop_count(step.loops.reduced)))
      .define("RLX_PARTS", integer_text(plan.parts))
      .define("RLX_PART_LENGTH", integer_text(plan.part_length))
      .define("RLX_REPEATS", integer_text(step.problem.repeats))
      .define("RLX_CENTER", step.problem.centred ? 1 : 0)
      .define("RLX_X", std::string(name_of(step.problem.x.dtype())))
      .define("RLX_Y", std::string(name_of(statistics_type(step.problem.x.dtype()))))
      .define("RLX_WIDTH", merges ? 1 : plan.width)
      .define("RLX_ITEMS", merges ? 1 : plan.items())
      .define("RLX_HAS_MEAN", step.results.center ? 1 : 0)
      .define("RLX_HAS_VARIANCE", step.results.variance ? 1 : 0)
      .generated("rows.inc", rows_text(step))
      .grid(split_grid(static_cast<uint64_t>(groups)))
      .reason(to_string(threads) + (merges ? ", merging " : ", ") + std::to_string(plan.parts) +
              " parts");
  if (merges) {
    dispatch.read(&MomentsParams::partial, *partial).work(byte_size(partial->type), 0);
  } else {
    const uint32_t alignment =
        plan.width > 1 ? plan.width * element_bytes(step.problem.x.dtype()) : 0;
    const auto elements = static_cast<uint64_t>(element_count(step.problem.x.shape()));
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

void emit_moments(LowerContext& ctx, const MomentsProblem& problem, const MomentsResults& results) {
  const TensorRef& x = problem.x;
  const std::optional<Strides> strides = reshape_strides(x.shape(), x.strides, problem.shape);
  RLX_CHECK(strides.has_value(), "splitting the dims of " + ctx.node().name);
  Strides written = strides_without(problem.shape, problem.axes);
  for (int64_t& stride : written) stride *= problem.repeats;
  const RowLoops loops = split_rows(problem.shape, *strides, written, problem.axes);
  MomentsStep step{.problem = problem, .results = results, .loops = {}, .plan = {}};
  step.loops = {.kept = by_stride(loops.kept), .reduced = by_stride(loops.reduced)};
  step.plan = plan_moments(ctx, x, step.loops);
  if (step.plan.parts == 1) {
    dispatch_moments(ctx, step, MomentsStage::Whole, std::nullopt);
    return;
  }
  const TensorRef partial =
      ctx.scratch({.dtype = statistics_type(x.dtype()),
                   .shape = {loop_count(step.loops.kept), step.plan.parts, 3}},
                  "partial");
  dispatch_moments(ctx, step, MomentsStage::Parts, partial);
  dispatch_moments(ctx, step, MomentsStage::Merge, partial);
}

}  // namespace rlx
