// SPDX-License-Identifier: Apache-2.0
// Kernels of recurrence: a workgroup that keeps the states of its sequences for all steps, or a
// step at a time by many workgroups.
#include "compiler/ops/sequences/recurrence_lower.h"

#include <algorithm>
#include <array>
#include <bit>

#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/offers.h"
#include "compiler/ops/sequences/recurrence_forms.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kMostSequences = 4;  // of a workgroup
constexpr uint32_t kMostLanes = 32;
// Of a unit, where a workgroup takes all steps: the activations of more units run side by side.
constexpr uint32_t kWholeLanes = 8;
constexpr uint32_t kWholeThreads = 512;
constexpr uint32_t kStepThreads = 128;
// Steps of a plan cost memory and the time of its load.
constexpr int64_t kMostStepwise = 4096;
// Of a step inside a workgroup: barrier, latencies of shared memory, activations.
constexpr double kInnerStepMicroseconds = 1;

}  // namespace

bool has_free_sizes(const Recurrence& problem) {
  return problem.batch.is_free() || problem.steps.is_free();
}

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

namespace {

// Threads that all have a unit, down to what rows of threads want.
uint32_t whole_threads(const Recurrence& problem) {
  const uint64_t wanted = std::bit_ceil(static_cast<uint64_t>(problem.hidden)) * kMostLanes / 4;
  return static_cast<uint32_t>(std::clamp<uint64_t>(wanted, kStepThreads, kWholeThreads));
}

}  // namespace

// h twice, and c, or what the gates of a GRU hand on.
int64_t whole_shared_bytes(const Recurrence& problem, int64_t sequences) {
  return 3 * sequences * problem.hidden * element_bytes(problem.x.dtype());
}
namespace {

// What the sums of lanes take besides.
constexpr int64_t kSumBytes = kWholeThreads * 8;

CellPlan whole_plan(const OfferContext& at, const Recurrence& problem) {
  CellPlan plan = cell_plan(at, problem, whole_threads(problem));
  const auto room = static_cast<int64_t>(at.device().shared_bytes) - kSumBytes;
  const auto groups = [&problem, &plan] {
    return problem.form.directions * ceil_div(problem.batch.bound(), plan.sequences);
  };
  // Sequences share what they read of the weights; on multiprocessors of their own they wait for
  // each other's sums no more.
  while (plan.sequences > 1 && (whole_shared_bytes(problem, plan.sequences) > room ||
                                groups() < int64_t{at.device().multiprocessors}))
    plan.sequences /= 2;
  while (plan.lanes > kWholeLanes && plan.units < problem.hidden) {
    plan.lanes /= 2;
    plan.units *= 2;
  }
  return plan;
}

}  // namespace

std::string whole_refusal(const OfferContext& at, const Recurrence& problem) {
  const auto room = static_cast<int64_t>(at.device().shared_bytes) - kSumBytes;
  if (whole_shared_bytes(problem, 1) <= room) return {};
  return "its states are " + std::to_string(whole_shared_bytes(problem, 1)) +
         " bytes, and a workgroup has " + std::to_string(room) + " for them";
}

namespace {

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

// Fitted on an H200 to LSTMs of 64 to 1024 units. Weights come from the caches that multiprocessors
// share, each from the second step on.
double weight_bytes_per_microsecond(const DeviceModel& device) {
  return 500 * device.memory_gigabytes_per_second;
}
// A workgroup that takes all steps has its weights near, and takes its time to multiply them.
double group_weights_per_microsecond(const DeviceModel& device) {
  return 525 * device.memory_gigabytes_per_second / device.multiprocessors;
}
// Of a step between dispatches, besides theirs: loads behind loads, activations; sums of further
// sequences.
constexpr double kDispatchedStepMicroseconds = 1.2;
constexpr double kFurtherSequenceMicroseconds = 0.65;

double whole_microseconds(const OfferContext& at, const Recurrence& problem) {
  const CellPlan plan = whole_plan(at, problem);
  const DeviceModel& device = at.device();
  const int64_t groups = problem.form.directions * ceil_div(problem.batch.bound(), plan.sequences);
  const auto waves = static_cast<double>(ceil_div(groups, int64_t{device.multiprocessors}));
  const auto weights = static_cast<double>(problem.gates() * problem.hidden * problem.hidden);
  return device.step_microseconds +
         waves * static_cast<double>(problem.steps.bound()) *
             (kInnerStepMicroseconds + weights / group_weights_per_microsecond(device));
}

double stepwise_microseconds(const OfferContext& at, const Recurrence& problem) {
  const DeviceModel& device = at.device();
  const int64_t sequences = cell_plan(at, problem, kStepThreads).sequences;
  const int64_t reads = problem.form.directions * ceil_div(problem.batch.bound(), sequences);
  const double bytes = static_cast<double>(problem.weight_bytes()) * static_cast<double>(reads);
  return static_cast<double>(problem.steps.bound()) *
         (device.step_microseconds + kDispatchedStepMicroseconds +
          kFurtherSequenceMicroseconds * static_cast<double>(sequences - 1) +
          bytes / weight_bytes_per_microsecond(device));
}

// Strides of x and y along batch and time, which a run may give.
std::string sizes_text(const Recurrence& problem) {
  const auto& form = problem.form;
  return wide_define("RLX_X_BATCH", problem.x.strides[form.batch_axis()]) +
         wide_define("RLX_X_TIME", problem.x.strides[form.time_axis()]) +
         wide_define("RLX_Y_BATCH", problem.y.strides[form.batch_axis()]) +
         wide_define("RLX_Y_TIME", problem.y.strides[form.time_axis()]);
}

}  // namespace

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

namespace {

Dim flops_of_step(const Recurrence& problem) {
  return problem.batch *
         (2 * problem.form.directions * problem.gates() * problem.hidden * problem.hidden);
}

}  // namespace

void describe_states(CellDispatch& dispatch, const Recurrence& problem) {
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
  dispatch.work(byte_size(problem.x.type) + byte_size(problem.w.type) + byte_size(problem.y.type),
                flops_of_step(problem) * problem.steps);
}

namespace {

bool emit_whole(LowerContext& ctx, const Recurrence& problem) {
  const CellPlan plan = whole_plan(ctx, problem);
  auto dispatch = ctx.dispatch<KernelId::recurrence>();
  describe(dispatch, problem, plan);
  describe_states(dispatch, problem);
  dispatch.grid(split_grid(ceil_div(problem.batch, plan.sequences) * problem.form.directions))
      .reason(std::to_string(plan.sequences) + (plan.sequences == 1 ? " sequence" : " sequences") +
              " of a direction to a workgroup of " + std::to_string(plan.units) + " units by " +
              std::to_string(plan.lanes) + " lanes");
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
    auto dispatch = ctx.dispatch<KernelId::recurrence>();
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

constexpr int64_t kOtherRegisters = 68;  // of a thread than sums, values of h and weights
constexpr int64_t kMostRegisters = 255;
constexpr int64_t kAllRegisters = 65536;  // of a multiprocessor
constexpr int64_t kClusterSharedBytes = 220 * 1024;
constexpr uint64_t kClusterDeviceBytes = 227 * 1024;  // where the kernel has its clusters
constexpr int64_t kMostClusterGrid = 65535;

struct ClusterPlan {
  int64_t threads = 512;  // of a workgroup
  int64_t sharers = 0;    // workgroups of a cluster, each with units; 0: they cannot be so many
  int64_t team = 32;      // lanes that share a row of weights
  int64_t team_units = 1;
  int64_t held_pieces = 0;  // of weights, 16 bytes in the registers of a thread
  int64_t left_pieces = 0;  // in shared memory
  int64_t sequences = 1;
};

int64_t left_bytes(const ClusterPlan& plan) {
  return plan.left_pieces * plan.threads * 16;
}

// `team`, `sequences`: powers of two.
ClusterPlan cluster_plan_of(const Recurrence& problem, int64_t threads, int64_t sharers,
                            int64_t team, int64_t sequences) {
  const int64_t piece = 16 / element_bytes(problem.w.dtype());
  const int64_t row_pieces = ceil_div(problem.hidden, team * piece);
  const int64_t teams = threads / team;
  const int64_t units = ceil_div(ceil_div(problem.hidden, sharers), teams);
  const int64_t places = problem.gates() == 1 ? 1 : 4;
  ClusterPlan plan{.threads = threads,
                   .sharers = sharers,
                   .team = team,
                   .team_units = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(units))),
                   .sequences = sequences};
  // A lane keeps one of a team's sums at last, and all of them with h of a piece at first.
  const int64_t sums = places * plan.team_units * sequences;
  const int64_t pieces = plan.team_units * problem.gates() * row_pieces;
  const int64_t registers = std::min<int64_t>(kAllRegisters / threads, kMostRegisters);
  const int64_t room = registers - kOtherRegisters - sums - sequences * piece;
  plan.held_pieces = std::clamp<int64_t>(room / 4, 0, pieces);
  plan.left_pieces = pieces - plan.held_pieces;
  const int64_t states = 2 * sequences * row_pieces * team * piece * 4;
  const bool has_idle = ceil_div(problem.hidden, sharers) * (sharers - 1) >= problem.hidden;
  if (has_idle || sums > team || room < 0 || left_bytes(plan) + states > kClusterSharedBytes)
    plan.sharers = 0;
  return plan;
}

// Fitted on an H200 to LSTMs, GRUs and RNNs of 64 to 512 units, in clusters of 1 to 16, teams of 4
// to 32 and both sizes of workgroups: most within a tenth, all within a fifth.
constexpr double kAloneStepMicroseconds = 0.08;
constexpr double kClusterStepMicroseconds = 0.24;   // until h has come to others
constexpr double kSharerMicroseconds = 0.006;       // for each that it is sent to
constexpr double kLeastClusterMicroseconds = 0.45;  // of a step, however little there is to do
constexpr double kClusterBeginMicroseconds = 6;     // weights to registers
constexpr double kCyclesPerMicrosecond = 1700;
constexpr double kLanesPerCycle = 128;        // products of one multiprocessor
constexpr double kSharedBytesPerCycle = 128;  // its shared memory
constexpr int64_t kOtherCycles = 25;          // of a warp in a step, besides products and sums
constexpr int64_t kShuffleCycles = 40;        // until a sum has passed on once

// Of a step in one workgroup.
double cluster_cycles(const Recurrence& problem, const ClusterPlan& plan) {
  const int64_t piece = 16 / element_bytes(problem.w.dtype());
  const int64_t depth = ceil_div(problem.hidden, plan.team * piece) * plan.team * piece;
  const int64_t warp_units = 32 / plan.team * plan.team_units;
  // In a cluster, warps without units leave.
  const int64_t warps = plan.sharers == 1
                            ? plan.threads / 32
                            : ceil_div(ceil_div(problem.hidden, plan.sharers), warp_units);
  const int64_t products = warps * warp_units * problem.gates() * depth * plan.sequences;
  // Each team reads all of h.
  const int64_t read_bytes =
      left_bytes(plan) + warps * (32 / plan.team) * plan.sequences * depth * 4;
  // A team's halves of sums change hands, then the last sum goes around.
  const int64_t sums = (problem.gates() == 1 ? 1 : 4) * plan.team_units * plan.sequences;
  const int64_t shuffles = sums + std::countr_zero(static_cast<uint64_t>(plan.team / sums));
  const int64_t waited = kShuffleCycles * std::countr_zero(static_cast<uint64_t>(plan.team));
  return static_cast<double>(products) / kLanesPerCycle +
         static_cast<double>(read_bytes) / kSharedBytesPerCycle +
         static_cast<double>(warps * (shuffles + kOtherCycles) + waited);
}

double cluster_plan_microseconds(const DeviceModel& device, const Recurrence& problem,
                                 const ClusterPlan& plan) {
  const int64_t groups =
      problem.form.directions * ceil_div(problem.batch.bound(), plan.sequences) * plan.sharers;
  const bool is_alone = plan.sharers == 1;
  // Clusters lie within groups of 16 to 18 multiprocessors, of which some are left over.
  const int64_t room = int64_t{device.multiprocessors} * (is_alone ? 5 : 4) / 5;
  const auto waves = static_cast<double>(ceil_div(groups, std::max<int64_t>(room, 1)));
  const double cycles = cluster_cycles(problem, plan) / kCyclesPerMicrosecond;
  const double step = is_alone
                          ? kAloneStepMicroseconds + cycles
                          : std::max(kClusterStepMicroseconds + cycles, kLeastClusterMicroseconds) +
                                kSharerMicroseconds * static_cast<double>(plan.sharers);
  return device.step_microseconds + kClusterBeginMicroseconds +
         waves * static_cast<double>(problem.steps.bound()) * step;
}

// The fastest of those that have room.
ClusterPlan cluster_plan(const OfferContext& at, const Recurrence& problem) {
  ClusterPlan best;
  double least = 0;
  for (const int64_t sharers : {1, 2, 4, 8, 16}) {
    for (const int64_t team : {32, 16, 8, 4}) {
      for (int64_t sequences = 1; sequences <= kMostSequences; sequences *= 2) {
        // Fewer threads convert weights of 16 bits too slowly.
        for (const int64_t threads : {512, 256}) {
          if (threads == 256 && problem.w.dtype() != DType::f32) continue;
          const ClusterPlan plan = cluster_plan_of(problem, threads, sharers, team, sequences);
          if (plan.sharers == 0) continue;
          const double time = cluster_plan_microseconds(at.device(), problem, plan);
          if (best.sharers != 0 && time >= least) continue;
          best = plan;
          least = time;
        }
      }
    }
  }
  return best;
}

std::string cluster_refusal(const OfferContext& at, const Recurrence& problem) {
  if (problem.cell == CellKind::GruResetFirst) return "a step of this cell is two products";
  const DType w = problem.w.dtype();
  if (problem.x.dtype() != DType::f32 || w == DType::f64) return "f64";
  if (problem.hidden * element_bytes(w) % 16 != 0 || at.alignment(problem.w) < 16)
    return "rows of w are no whole pieces of 16 bytes";
  if (at.device().resident.shared_bytes < kClusterDeviceBytes)
    return "workgroups have " + std::to_string(at.device().resident.shared_bytes / 1024) +
           " KiB, it wants those of sm_90 or sm_100";
  const ClusterPlan plan = cluster_plan(at, problem);
  if (plan.sharers == 0)
    return "a cluster has no room for weights of " + std::to_string(problem.weight_bytes()) +
           " bytes";
  const Dim groups = ceil_div(problem.batch, plan.sequences) * problem.form.directions;
  if ((groups * plan.sharers).range().most > kMostClusterGrid) return "too many sequences";
  // For architectures without clusters.
  return whole_refusal(at, problem);
}

double cluster_microseconds(const OfferContext& at, const Recurrence& problem) {
  return cluster_plan_microseconds(at.device(), problem, cluster_plan(at, problem));
}

bool emit_cluster(LowerContext& ctx, const Recurrence& problem) {
  const ClusterPlan cluster = cluster_plan(ctx, problem);
  // The form that architectures without clusters take.
  CellPlan plan = cell_plan(ctx, problem, static_cast<uint32_t>(cluster.threads));
  plan.lanes = 32;
  plan.units = static_cast<uint32_t>(cluster.threads / 32);
  plan.sequences = cluster.sequences;
  auto dispatch = ctx.dispatch<KernelId::recurrence_cluster>();
  describe(dispatch, problem, plan);
  describe_states(dispatch, problem);
  dispatch.define("RLX_SHARERS", cluster.sharers)
      .define("RLX_TEAM", cluster.team)
      .define("RLX_TEAM_UNITS", cluster.team_units)
      .define("RLX_HELD_PIECES", cluster.held_pieces)
      .define("RLX_SHORT_BF16", problem.w.dtype() == DType::bf16 ? 1 : 0)
      .grid(ceil_div(problem.batch, plan.sequences) * (problem.form.directions * cluster.sharers))
      .reason(std::to_string(plan.sequences) + " sequences of a direction to a cluster of " +
              std::to_string(cluster.sharers) + " workgroups, teams of " +
              std::to_string(cluster.team) + " lanes, " + std::to_string(left_bytes(cluster)) +
              " bytes of weights in shared memory");
  return true;
}

// Ordered by rank; within one, times decide.
constexpr std::array kRecurrenceOffers = {
    Offer<Recurrence>{.kernel = KernelId::recurrence_together,
                      .refusal = together_refusal,
                      .microseconds = together_microseconds,
                      .emit = emit_together,
                      .takes_free_sizes = true},
    Offer<Recurrence>{.kernel = KernelId::recurrence_cluster,
                      .refusal = cluster_refusal,
                      .microseconds = cluster_microseconds,
                      .emit = emit_cluster,
                      .takes_free_sizes = true},
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
