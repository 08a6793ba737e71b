// SPDX-License-Identifier: Apache-2.0
// The tile table of matmul_coop and the model that chooses from it.
#include "compiler/ops/matmul_coop_tiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "compiler/support/check.h"

namespace rlx {
namespace {

// One row a tile.
// clang-format off
constexpr std::array<CoopTile, 6> kTiles = {{
    {.m = 128, .n = 256, .k = 32, .warps_m = 2, .warps_n = 4, .resident = 1, .efficiency = 0.9},
    {.m = 128, .n = 128, .k = 32, .warps_m = 2, .warps_n = 4, .stages = 2, .resident = 2, .efficiency = 0.8},
    {.m = 64, .n = 128, .k = 32, .warps_m = 2, .warps_n = 2, .stages = 2, .resident = 3, .efficiency = 0.7},
    {.m = 64, .n = 64, .k = 64, .warps_m = 2, .warps_n = 2, .stages = 2, .resident = 4, .efficiency = 0.6},
    {.m = 32, .n = 64, .k = 64, .warps_m = 1, .warps_n = 2, .warps_k = 2, .stages = 2, .resident = 4, .efficiency = 0.5},
    {.m = 32, .n = 32, .k = 128, .warps_k = 4, .stages = 2, .resident = 4, .efficiency = 0.4},
}};
// clang-format on

constexpr double kProductsPerMicrosecond = 2e6;  // of a multiprocessor's matrix units
constexpr double kStepMicroseconds = 0.6;        // of a stage, hidden by groups beside it
constexpr double kStartMicroseconds = 1.5;
constexpr double kSecondPassMicroseconds = 3.6;
constexpr double kBytesPerMicrosecond = 3e6;
constexpr std::array<int64_t, 6> kSplits = {1, 2, 3, 4, 6, 8};

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

double estimate(const CoopProblem& problem, const CoopChoice& choice, const DeviceModel& device) {
  const CoopTile& tile = choice.tile;
  const double rounds = std::ceil(static_cast<double>(choice.groups) / device.multiprocessors);
  const double resident = std::min<double>(rounds, tile.resident);
  const double products =
      static_cast<double>(tile.m) * tile.n * static_cast<double>(choice.split_k);
  const double compute = rounds * products / (kProductsPerMicrosecond * tile.efficiency);
  const double steps = static_cast<double>(ceil_div(choice.split_k, tile.k));
  const double latency = std::ceil(rounds / resident) * steps * kStepMicroseconds;
  double time = kStartMicroseconds + std::max(compute, latency);
  if (choice.splits > 1) {
    const double elements = static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                            static_cast<double>(problem.batches);
    time += kSecondPassMicroseconds +
            elements * 4 * (2 * static_cast<double>(choice.splits) + 1) / kBytesPerMicrosecond;
  }
  return time;
}

uint64_t shared_bytes(const CoopProblem& problem, const CoopTile& tile) {
  const auto panel = [&](uint32_t lines, bool by_line) {
    return uint64_t{by_line ? tile.k * (lines + 8) : lines * (tile.k + 8)} * 2;
  };
  const uint64_t sums = uint64_t{tile.threads() / 32} * 16 * 20 * 4;
  return std::max(
      sums, tile.stages * (panel(tile.m, problem.a_by_line) + panel(tile.n, problem.b_by_line)));
}

}  // namespace

std::string CoopChoice::text() const {
  std::string text = std::to_string(tile.m) + "x" + std::to_string(tile.n) + " tiles, " +
                     std::to_string(tile.threads() / 32) + " subgroups, " +
                     std::to_string(tile.stages) +
                     (tile.stages > 1 ? " stages of " : " stage of ") + std::to_string(tile.k);
  if (splits > 1) text += ", split-k " + std::to_string(splits);
  return text + ", " + std::to_string(groups) + " workgroups";
}

CoopChoice choose_coop(const CoopProblem& problem, const DeviceModel& device) {
  // The pass that joins splits counts elements in 32 bits.
  const bool may_split = problem.m * problem.n * problem.batches < int64_t{1} << 31;
  std::optional<CoopChoice> best;
  for (const CoopTile& tile : kTiles) {
    if (shared_bytes(problem, tile) > device.shared_bytes) continue;
    const int64_t steps = ceil_div(problem.k, tile.k);
    for (const int64_t wanted : kSplits) {
      if (wanted > 1 && (!may_split || wanted * 2 > steps)) continue;
      const int64_t split_steps = ceil_div(steps, wanted);
      CoopChoice choice{.tile = tile};
      choice.splits = ceil_div(steps, split_steps);
      choice.split_k = split_steps * tile.k;
      choice.groups = ceil_div(problem.m, tile.m) * ceil_div(problem.n, tile.n) * choice.splits *
                      problem.batches;
      choice.microseconds = estimate(problem, choice, device);
      if (!best || choice.microseconds < best->microseconds) best = choice;
    }
  }
  RLX_CHECK(best.has_value(), "no tile fits into shared memory");
  return *best;
}

}  // namespace rlx
