// SPDX-License-Identifier: Apache-2.0
// The form of recurrence whose workgroups all run at once, each with the weights of some units.
#include <algorithm>

#include "compiler/dispatch/builder.h"
#include "compiler/ops/sequences/recurrence_forms.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kTogetherThreads = 256;
constexpr int64_t kTogetherWarps = kTogetherThreads / 32;
constexpr int64_t kTogetherDepths = 32 * kTogetherWarps;  // that all warps multiply at once
constexpr int64_t kTogetherRegisters = 255;               // of a thread
constexpr int64_t kTogetherOtherRegisters = 60;           // than weights, sums, h and x
// Of a workgroup's shared memory, that the compiler may take besides.
constexpr int64_t kTogetherSpareBytes = 1024;

struct TogetherPlan {
  int64_t units = 0;    // of a workgroup; 0: no plan has room
  int64_t sharers = 1;  // workgroups that have all units
  int64_t tile = 8;     // sequences that a workgroup takes at once
  int64_t groups = 1;   // of a direction, which share out the tiles
  int64_t turns = 1;    // tiles of a workgroup, at most
  int64_t row_tiles = 1;
  int64_t chunks = 1;
  int64_t held_pieces = 0;       // of weights, 16 bytes in the registers of a thread
  int64_t left_pieces = 0;       // in shared memory
  int64_t all_shared_bytes = 0;  // with those of devices that have no room for all workgroups

  [[nodiscard]] int64_t cells() const { return ceil_div(units * tile, kTogetherThreads); }
  // Of the tile's sums, by all warps.
  [[nodiscard]] int64_t sum_bytes() const { return kTogetherWarps * row_tiles * 16 * tile * 4; }
  // Sums twice, and of each cell h, c and the length of its sequence.
  [[nodiscard]] int64_t shared_bytes() const {
    return left_pieces * kTogetherThreads * 16 + 2 * sum_bytes() +
           3 * turns * cells() * kTogetherThreads * 4;
  }
};

TogetherPlan together_plan_of(const DeviceModel& device, const Recurrence& problem, int64_t units,
                              int64_t tile) {
  TogetherPlan plan{.units = units, .sharers = ceil_div(problem.hidden, units), .tile = tile};
  const int64_t tiles = ceil_div(problem.batch.bound(), tile);
  const int64_t room = int64_t{device.multiprocessors} / (plan.sharers * problem.form.directions);
  plan.turns = room == 0 ? 1 : ceil_div(tiles, room);
  plan.groups = ceil_div(tiles, plan.turns);
  plan.row_tiles = ceil_div(units * problem.gates(), int64_t{16});
  plan.chunks = ceil_div(problem.hidden, kTogetherDepths);
  const int64_t pieces = plan.row_tiles * plan.chunks * 2;
  const int64_t registers = kTogetherRegisters - kTogetherOtherRegisters - 4 * plan.row_tiles -
                            8 * plan.chunks - plan.cells() * (problem.gates() + 2);
  plan.held_pieces = std::clamp<int64_t>(registers / 4, 0, pieces);
  plan.left_pieces = pieces - plan.held_pieces;
  plan.all_shared_bytes = plan.shared_bytes() + whole_shared_bytes(problem, 1);
  const auto most = static_cast<int64_t>(device.resident.shared_bytes) - kTogetherSpareBytes;
  if (room == 0 || registers < 0 || plan.all_shared_bytes > most) plan.units = 0;
  return plan;
}

// Fitted on an H200 to layers of 256 to 1024 units and 1 to 64 sequences, within a tenth.
constexpr double kTogetherStepMicroseconds = 0.9;  // besides a workgroup's turns
constexpr double kTogetherTurnMicroseconds = 0.06;
constexpr double kTogetherBeginMicroseconds = 8;  // the fill before it, weights to registers
constexpr double kTogetherCyclesPerMicrosecond = 1700;
constexpr double kTogetherProductCycles = 6.5;  // of 16 x 8 x 16 on one of four tensor cores
constexpr double kTogetherSumBytesPerCycle = 128;
constexpr double kTogetherWeightBytesPerCycle = 100;  // of shared memory
constexpr double kTogetherReadBytesPerCycle = 64;     // of h, by one multiprocessor
constexpr double kTogetherReadRate = 6e6;             // bytes per microsecond, by all

double together_plan_microseconds(const DeviceModel& device, const Recurrence& problem,
                                  const TogetherPlan& plan) {
  const int64_t sequences = std::min(plan.tile, problem.batch.bound());
  const auto h_bytes = static_cast<double>(sequences * problem.hidden * 4);
  const auto workgroups = static_cast<double>(plan.sharers * plan.groups * problem.form.directions);
  const auto left_bytes =
      static_cast<double>(plan.left_pieces * kTogetherThreads * 16 * plan.tile / 8);
  const auto products =
      static_cast<double>(plan.row_tiles * plan.chunks * 2 * kTogetherWarps * plan.tile / 8 * 2);
  const double cycles = products * kTogetherProductCycles / 4 +
                        left_bytes / kTogetherWeightBytesPerCycle +
                        static_cast<double>(2 * plan.sum_bytes()) / kTogetherSumBytesPerCycle;
  const double turn = kTogetherTurnMicroseconds +
                      std::max(h_bytes / kTogetherReadBytesPerCycle / kTogetherCyclesPerMicrosecond,
                               h_bytes * workgroups / kTogetherReadRate) +
                      cycles / kTogetherCyclesPerMicrosecond;
  return device.step_microseconds + kTogetherBeginMicroseconds +
         static_cast<double>(problem.steps.bound()) *
             (kTogetherStepMicroseconds + static_cast<double>(plan.turns) * turn);
}

// The fastest of those that have room.
TogetherPlan together_plan(const DeviceModel& device, const Recurrence& problem) {
  TogetherPlan best;
  double least = 0;
  for (const int64_t tile : {8, 16, 24, 32}) {
    for (int64_t units = 4; units <= 32; units += 4) {
      const TogetherPlan plan = together_plan_of(device, problem, units, tile);
      if (plan.units == 0) continue;
      const double time = together_plan_microseconds(device, problem, plan);
      if (best.units != 0 && time >= least) continue;
      best = plan;
      least = time;
    }
  }
  return best;
}

}  // namespace

std::string together_refusal(const OfferContext& at, const Recurrence& problem) {
  if (problem.cell == CellKind::GruResetFirst) return "a step of this cell is two products";
  if (problem.cell == CellKind::Relu) return "states of this cell have no bound";
  const DType w = problem.w.dtype();
  if (problem.x.dtype() != DType::f32 || (w != DType::f16 && w != DType::bf16))
    return "w is " + std::string(name_of(w)) + ", tensor cores take f16 and bf16";
  if (problem.hidden % 8 != 0 || at.alignment(problem.w) < 16)
    return "rows of w are no whole pieces of 16 bytes";
  if (together_plan(at.device(), problem).units == 0)
    return std::to_string(at.device().multiprocessors) + " multiprocessors of " +
           std::to_string(at.device().resident.shared_bytes / 1024) +
           " KiB have no room for weights of " + std::to_string(problem.weight_bytes()) +
           " bytes at once";
  return {};
}

double together_microseconds(const OfferContext& at, const Recurrence& problem) {
  return together_plan_microseconds(at.device(), problem, together_plan(at.device(), problem));
}

bool emit_together(LowerContext& ctx, const Recurrence& problem) {
  const TogetherPlan plan = together_plan(ctx.device(), problem);
  const int64_t directions = problem.form.directions;
  const int64_t rows = ceil_div(problem.batch.bound(), plan.tile) * plan.tile;
  const TensorRef exchange =
      ctx.scratch({DType::i32, {2 * directions * rows * plan.chunks * kTogetherDepths}},
                  "h between workgroups");
  Step fill = ctx.new_step();
  fill.kind = StepKind::Fill;
  fill.accesses.push_back(make_access(0, exchange, AccessMode::Write, 4));
  fill.bytes_moved = byte_size(exchange.type);
  fill.reason = "none of h has come yet";
  ctx.program().steps.push_back(std::move(fill));

  // The form that devices without room for all workgroups take.
  CellPlan alone = cell_plan(ctx, problem, kTogetherThreads);
  alone.lanes = 32;
  alone.units = kTogetherWarps;
  alone.sequences = 1;
  const Dim tiles = ceil_div(problem.batch, plan.tile);
  auto dispatch = ctx.dispatch<KernelId::recurrence_together>();
  describe(dispatch, problem, alone);
  describe_states(dispatch, problem);
  dispatch.define("RLX_UNITS", plan.units)
      .define("RLX_SHARERS", plan.sharers)
      .define("RLX_GROUPS", plan.groups)
      .define("RLX_TILE", plan.tile)
      .size("RLX_TILES", tiles)
      .size("RLX_TURNS", ceil_div(tiles, plan.groups))
      .define("RLX_MOST_TURNS", plan.turns)
      .define("RLX_HELD_PIECES", plan.held_pieces)
      .define("RLX_EXCHANGE_ROWS", rows)
      .define("RLX_SHARED_BYTES", plan.all_shared_bytes + kTogetherSpareBytes)
      .define("RLX_SHORT_BF16", problem.w.dtype() == DType::bf16 ? 1 : 0)
      .bind(offsetof(RecurrenceParams, exchange), exchange, AccessMode::ReadWrite, 16)
      .grid(plan.sharers, plan.groups * directions)
      .reason(std::to_string(plan.sharers) + " workgroups of " + std::to_string(plan.units) +
              " units, " + std::to_string(plan.groups) + " times for each direction, with " +
              std::to_string(plan.tile) + " sequences at once");
  return true;
}

}  // namespace rlx
