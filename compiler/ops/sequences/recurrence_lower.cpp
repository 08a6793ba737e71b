// SPDX-License-Identifier: Apache-2.0
// Kernels of recurrence: a workgroup that keeps the states of its sequences for all steps, or a
// step at a time by many workgroups.
#include "compiler/ops/sequences/recurrence_lower.h"

#include <algorithm>
#include <array>
#include <bit>

#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/offers.h"
#include "compiler/ops/sequences/recurrence.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kMostSequences = 4;  // of a workgroup
constexpr uint32_t kMostLanes = 32;
constexpr uint32_t kWholeThreads = 512;
constexpr uint32_t kStepThreads = 128;
// Steps of a plan cost memory and the time of its load.
constexpr int64_t kMostStepwise = 4096;
// Of a step inside a workgroup: barrier, latencies of shared memory, activations.
constexpr double kInnerStepMicroseconds = 1.2;

struct Recurrence {
  CellKind cell = CellKind::Lstm;
  SequenceForm form;
  Dim batch;
  Dim steps;
  int64_t hidden = 0;
  TensorRef x;
  TensorRef w;
  TensorRef y;
  // Of inputs 2 to 6 and of the outputs behind y, those that are there.
  std::optional<TensorRef> bias;
  std::optional<TensorRef> h0;
  std::optional<TensorRef> c0;
  std::optional<TensorRef> lengths;
  std::optional<TensorRef> peephole;
  std::optional<TensorRef> h;
  std::optional<TensorRef> c;

  [[nodiscard]] int64_t gates() const { return gates_of(cell); }
  [[nodiscard]] uint64_t weight_bytes() const {  // of one direction
    return static_cast<uint64_t>(gates() * hidden * hidden * element_bytes(w.dtype()));
  }
};

bool has_free_sizes(const Recurrence& problem) {
  return problem.batch.is_free() || problem.steps.is_free();
}

// How the threads of a workgroup divide: `lanes` neighbours share a unit of h.
struct CellPlan {
  uint32_t width = 1;  // depths that a thread loads at once
  uint32_t lanes = 1;
  uint32_t units = 1;  // at once
  int64_t sequences = 1;
};

CellPlan cell_plan(const OfferContext& at, const Recurrence& problem, uint32_t threads) {
  CellPlan plan;
  const uint32_t bytes = element_bytes(problem.w.dtype());
  if (problem.hidden % 4 == 0 && bytes < 8 && at.alignment(problem.w) >= 4 * bytes) plan.width = 4;
  const auto pieces = static_cast<uint64_t>(problem.hidden / plan.width);
  plan.lanes = static_cast<uint32_t>(std::min<uint64_t>(std::bit_ceil(pieces), kMostLanes));
  const auto batch = static_cast<uint64_t>(std::max<int64_t>(problem.batch.bound(), 1));
  plan.sequences = static_cast<int64_t>(
      std::min<uint64_t>({std::bit_ceil(batch), uint64_t{kMostSequences}, plan.lanes}));
  plan.units = threads / plan.lanes;
  return plan;
}

// Threads that all have a unit, down to what rows of threads want.
uint32_t whole_threads(const Recurrence& problem) {
  const uint64_t wanted = std::bit_ceil(static_cast<uint64_t>(problem.hidden)) * kMostLanes / 4;
  return static_cast<uint32_t>(std::clamp<uint64_t>(wanted, kStepThreads, kWholeThreads));
}

// h twice, and c, or what the gates of a GRU hand on.
int64_t whole_shared_bytes(const Recurrence& problem, int64_t sequences) {
  return 3 * sequences * problem.hidden * element_bytes(problem.x.dtype());
}
// What the sums of lanes take besides.
constexpr int64_t kSumBytes = kWholeThreads * 8;

CellPlan whole_plan(const OfferContext& at, const Recurrence& problem) {
  CellPlan plan = cell_plan(at, problem, whole_threads(problem));
  const auto room = static_cast<int64_t>(at.device().shared_bytes) - kSumBytes;
  while (plan.sequences > 1 && whole_shared_bytes(problem, plan.sequences) > room)
    plan.sequences /= 2;
  return plan;
}

std::string whole_refusal(const OfferContext& at, const Recurrence& problem) {
  const auto room = static_cast<int64_t>(at.device().shared_bytes) - kSumBytes;
  if (whole_shared_bytes(problem, 1) <= room) return {};
  return "its states are " + std::to_string(whole_shared_bytes(problem, 1)) +
         " bytes, and a workgroup has " + std::to_string(room) + " for them";
}

std::string stepwise_refusal(const OfferContext& at, const Recurrence& problem) {
  if (problem.steps.is_free()) return "the number of steps is a size of the run";
  if (problem.cell == CellKind::GruResetFirst) return "a step of this cell is two products";
  if (problem.steps.bound() == 0) return "no steps";
  if (problem.steps.bound() > kMostStepwise)
    return "more than " + std::to_string(kMostStepwise) + " steps";
  const int64_t bytes = problem.hidden * element_bytes(problem.x.dtype());
  const auto room = static_cast<int64_t>(at.device().shared_bytes) - kSumBytes;
  if (bytes > room) return "a state of " + std::to_string(bytes) + " bytes";
  return {};
}

// From the caches that multiprocessors share, which hold the weights from the second step on.
double cache_bytes_per_microsecond(const DeviceModel& device) {
  return 2e3 * device.memory_gigabytes_per_second;
}

double whole_microseconds(const OfferContext& at, const Recurrence& problem) {
  const CellPlan plan = whole_plan(at, problem);
  const DeviceModel& device = at.device();
  const int64_t groups = problem.form.directions * ceil_div(problem.batch.bound(), plan.sequences);
  const auto waves = static_cast<double>(ceil_div(groups, int64_t{device.multiprocessors}));
  const double rate = cache_bytes_per_microsecond(device) / device.multiprocessors;
  return device.step_microseconds +
         waves * static_cast<double>(problem.steps.bound()) *
             (kInnerStepMicroseconds + static_cast<double>(problem.weight_bytes()) / rate);
}

double stepwise_microseconds(const OfferContext& at, const Recurrence& problem) {
  const DeviceModel& device = at.device();
  const int64_t reads =
      problem.form.directions *
      ceil_div(problem.batch.bound(), cell_plan(at, problem, kStepThreads).sequences);
  const double bytes = static_cast<double>(problem.weight_bytes()) * static_cast<double>(reads);
  return static_cast<double>(problem.steps.bound()) *
         (device.step_microseconds + bytes / cache_bytes_per_microsecond(device));
}

using CellDispatch = DispatchBuilder<RecurrenceParams>;

// Strides of x and y along batch and time, which a run may give.
std::string sizes_text(const Recurrence& problem) {
  const auto& form = problem.form;
  return wide_define("RLX_X_BATCH", problem.x.strides[form.batch_axis()]) +
         wide_define("RLX_X_TIME", problem.x.strides[form.time_axis()]) +
         wide_define("RLX_Y_BATCH", problem.y.strides[form.batch_axis()]) +
         wide_define("RLX_Y_TIME", problem.y.strides[form.time_axis()]);
}

// What both forms say of the problem.
void describe(CellDispatch& dispatch, const Recurrence& problem, const CellPlan& plan) {
  const uint32_t alignment = plan.width * element_bytes(problem.w.dtype());
  dispatch.workgroup({plan.lanes * plan.units, 1, 1})
      .define("RLX_LANES", plan.lanes)
      .define("RLX_ROWS", plan.units)
      .define("RLX_BY_COLUMN", 0)
      .define("RLX_WIDTH", plan.width)
      .define("RLX_SEQUENCES", plan.sequences)
      .size("RLX_BATCH", problem.batch)
      .size("RLX_BATCH_TILES", ceil_div(problem.batch, plan.sequences))
      .size("RLX_STEPS", problem.steps)
      .define("RLX_H", problem.hidden)
      .define("RLX_GATES", problem.gates())
      .define("RLX_CELL", static_cast<int64_t>(problem.cell))
      .define("RLX_DIRECTIONS", problem.form.directions)
      .define("RLX_BACKWARD", problem.form.begins_backward ? 1 : 0)
      .define("RLX_R", std::string(name_of(problem.x.dtype())))
      .define("RLX_DOUBLE", problem.x.dtype() == DType::f64 ? 1 : 0)
      .define("RLX_W", std::string(name_of(problem.w.dtype())))
      .define("RLX_Y", std::string(name_of(problem.y.dtype())))
      .define("RLX_I",
              std::string(name_of(problem.lengths ? problem.lengths->dtype() : DType::i32)))
      .define("RLX_HAS_BIAS", problem.bias ? 1 : 0)
      .define("RLX_HAS_LENGTHS", problem.lengths ? 1 : 0)
      .define("RLX_HAS_PEEPHOLE", problem.peephole ? 1 : 0)
      .generated("sizes.inc", sizes_text(problem))
      .read(&RecurrenceParams::x, problem.x)
      .read(&RecurrenceParams::w, problem.w, alignment);
  if (problem.bias) dispatch.read(&RecurrenceParams::bias, *problem.bias);
  if (problem.lengths) dispatch.read(&RecurrenceParams::lengths, *problem.lengths);
  if (problem.peephole) dispatch.read(&RecurrenceParams::peephole, *problem.peephole);
  dispatch.write(&RecurrenceParams::y, problem.y);
}

Dim flops_of_step(const Recurrence& problem) {
  return problem.batch *
         (2 * problem.form.directions * problem.gates() * problem.hidden * problem.hidden);
}

bool emit_whole(LowerContext& ctx, const Recurrence& problem) {
  const CellPlan plan = whole_plan(ctx, problem);
  CellDispatch dispatch = ctx.dispatch<KernelId::recurrence>();
  describe(dispatch, problem, plan);
  dispatch.define("RLX_STEPWISE", 0)
      .define("RLX_HAS_H", problem.h ? 1 : 0)
      .define("RLX_HAS_C", problem.c ? 1 : 0)
      .define("RLX_HAS_H0", problem.h0 ? 1 : 0)
      .define("RLX_HAS_C0", problem.c0 ? 1 : 0);
  if (problem.h0) dispatch.read(&RecurrenceParams::h0, *problem.h0);
  if (problem.c0) dispatch.read(&RecurrenceParams::c0, *problem.c0);
  if (problem.h) dispatch.write(&RecurrenceParams::h, *problem.h);
  if (problem.c) dispatch.write(&RecurrenceParams::c, *problem.c);
  if (problem.lengths) dispatch.count_index_errors();
  dispatch.grid(split_grid(ceil_div(problem.batch, plan.sequences) * problem.form.directions))
      .work(byte_size(problem.x.type) + byte_size(problem.w.type) + byte_size(problem.y.type),
            flops_of_step(problem) * problem.steps)
      .reason(std::to_string(plan.sequences) + " sequences of a direction to a workgroup of " +
              std::to_string(plan.units) + " units by " + std::to_string(plan.lanes) + " lanes");
  return true;
}

// The states go from step to step through two places in turn; the last step writes the results.
bool emit_stepwise(LowerContext& ctx, const Recurrence& problem) {
  const CellPlan plan = cell_plan(ctx, problem, kStepThreads);
  const TensorType state{problem.x.dtype(),
                         {problem.form.directions, problem.batch, problem.hidden}};
  const bool has_c = problem.cell == CellKind::Lstm;
  const int64_t steps = problem.steps.bound();
  std::array<TensorRef, 2> h;
  std::array<TensorRef, 2> c;
  for (size_t i = 0; i < 2; ++i) {
    h[i] = ctx.scratch(state, "h");
    if (has_c) c[i] = ctx.scratch(state, "c");
  }
  const int64_t tiles = ceil_div(problem.hidden, int64_t{plan.units});
  for (int64_t step = 0; step < steps; ++step) {
    const auto from = static_cast<size_t>(step % 2);
    const bool is_first = step == 0;
    const bool is_last = step == steps - 1;
    CellDispatch dispatch = ctx.dispatch<KernelId::recurrence>();
    describe(dispatch, problem, plan);
    dispatch.define("RLX_STEPWISE", 1)
        .define("RLX_HAS_H", 1)
        .define("RLX_HAS_C", has_c ? 1 : 0)
        .define("RLX_HAS_H0", !is_first || problem.h0 ? 1 : 0)
        .define("RLX_HAS_C0", has_c && (!is_first || problem.c0) ? 1 : 0)
        .set(&RecurrenceParams::step, static_cast<uint32_t>(step));
    if (!is_first || problem.h0)
      dispatch.read(&RecurrenceParams::h0, is_first ? *problem.h0 : h[from]);
    dispatch.write(&RecurrenceParams::h, is_last && problem.h ? *problem.h : h[1 - from]);
    if (has_c && (!is_first || problem.c0))
      dispatch.read(&RecurrenceParams::c0, is_first ? *problem.c0 : c[from]);
    if (has_c)
      dispatch.write(&RecurrenceParams::c, is_last && problem.c ? *problem.c : c[1 - from]);
    if (problem.lengths) dispatch.count_index_errors();
    dispatch
        .grid(
            split_grid(ceil_div(problem.batch, plan.sequences) * (problem.form.directions * tiles)))
        .work(byte_size(problem.w.type) + 4 * byte_size(state), flops_of_step(problem))
        .reason("step " + std::to_string(step) + ", " + std::to_string(plan.units) +
                " units to a workgroup");
  }
  return true;
}

// Ordered by rank; within one, times decide.
constexpr std::array kRecurrenceOffers = {
    Offer<Recurrence>{.kernel = KernelId::recurrence,
                      .form = "whole",
                      .estimate = Estimate::Bound,
                      .refusal = whole_refusal,
                      .microseconds = whole_microseconds,
                      .emit = emit_whole,
                      .takes_free_sizes = true},
    Offer<Recurrence>{.kernel = KernelId::recurrence,
                      .form = "stepwise",
                      .estimate = Estimate::Bound,
                      .refusal = stepwise_refusal,
                      .microseconds = stepwise_microseconds,
                      .emit = emit_stepwise,
                      .takes_free_sizes = true},
};

}  // namespace

std::vector<std::string> recurrence_offer_names() {
  return offer_names(std::span<const Offer<Recurrence>>(kRecurrenceOffers));
}

bool lower_recurrence(LowerContext& ctx) {
  const auto given = [&ctx](size_t input) {
    return ctx.has_input(input) ? std::optional(ctx.dense_input(input)) : std::nullopt;
  };
  const SequenceForm form = sequence_form(ctx.attrs());
  const TensorRef x = ctx.dense_input(0);
  const TensorRef w = ctx.dense_input(1);
  Recurrence problem{.cell = cell_kind(ctx.attrs()),
                     .form = form,
                     .batch = x.shape()[form.batch_axis()],
                     .steps = x.shape()[form.time_axis()],
                     .hidden = static_cast<int64_t>(w.shape()[2]),
                     .x = x,
                     .w = w,
                     .y = ctx.output(0),
                     .bias = given(2),
                     .h0 = given(3),
                     .c0 = given(4),
                     .lengths = given(5),
                     .peephole = given(6),
                     .h = std::nullopt,
                     .c = std::nullopt};
  if (ctx.has_output(1)) problem.h = ctx.output(1);
  if (ctx.has_output(2)) problem.c = ctx.output(2);
  if (problem.batch.bound() == 0) return true;
  return lower_by_offers(ctx, std::span<const Offer<Recurrence>>(kRecurrenceOffers), problem);
}

}  // namespace rlx
