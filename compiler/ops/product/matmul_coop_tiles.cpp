// SPDX-License-Identifier: Apache-2.0
// The tile table of matmul_coop and the model that chooses from it.
#include "compiler/ops/product/matmul_coop_tiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/support/check.h"
#include "compiler/support/sampled_sizes.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// One row a tile.
// clang-format off
constexpr std::array<CoopTile, 14> kTiles = {{
    {.m = 32, .n = 32, .k = 128, .warps_k = 4, .stages = 2},
    {.m = 32, .n = 32, .k = 64, .warps_k = 4, .stages = 2},
    {.m = 32, .n = 64, .k = 128, .warps_n = 2, .warps_k = 4},
    {.m = 64, .n = 32, .k = 128, .warps_m = 2, .warps_k = 4},
    {.m = 64, .n = 64, .k = 128, .warps_m = 2, .warps_n = 2, .warps_k = 2},
    {.m = 64, .n = 64, .k = 64, .warps_m = 2, .warps_n = 2},
    {.m = 64, .n = 128, .k = 32, .warps_m = 2, .warps_n = 2},
    {.m = 64, .n = 128, .k = 64, .warps_m = 2, .warps_n = 2, .warps_k = 2},
    {.m = 96, .n = 128, .k = 32, .warps_m = 2, .warps_n = 2},
    {.m = 96, .n = 128, .k = 64, .warps_m = 2, .warps_n = 2, .warps_k = 2},
    {.m = 128, .n = 64, .k = 32, .warps_m = 2, .warps_n = 2},
    {.m = 128, .n = 128, .k = 32, .warps_m = 2, .warps_n = 2},
    {.m = 128, .n = 128, .k = 64, .warps_m = 2, .warps_n = 2, .warps_k = 2},
    {.m = 128, .n = 256, .k = 32, .warps_m = 2, .warps_n = 4},
}};
// Of operands in parts: a step takes six times the products of its depth, and groups of up to 24 KiB
// of panels run in pairs.
constexpr std::array<CoopTile, 8> kPartTiles = {{
    {.m = 32, .n = 64, .k = 32, .warps_n = 2, .warps_k = 2},
    {.m = 32, .n = 64, .k = 64, .warps_n = 2, .warps_k = 4},
    {.m = 64, .n = 32, .k = 32, .warps_m = 2, .warps_k = 2},
    {.m = 64, .n = 64, .k = 16, .warps_m = 2, .warps_n = 2},
    {.m = 64, .n = 64, .k = 32, .warps_m = 2, .warps_n = 2, .warps_k = 2},
    {.m = 64, .n = 128, .k = 16, .warps_m = 2, .warps_n = 2},
    {.m = 128, .n = 64, .k = 16, .warps_m = 2, .warps_n = 2},
    {.m = 128, .n = 64, .k = 32, .warps_m = 4, .warps_n = 2},
}};
// clang-format on

// Of ResNet-50's convolutions at batch 32 the H200's model picks the fastest tile, or one that
// takes up to 6 % longer. Tiles of 48 lines would divide some evenly too, and are slow where b
// comes from memory.
constexpr uint32_t kMostRegisters = 255;  // of a thread
constexpr uint32_t kOtherRegisters = 60;  // addresses and the like

// What operands in parts take against those of 16 bits: fitted to 58 tilings of five products (128
// x 768..3072 x 768..3072, 197 x 384..1536 x 384..1536, 512 x 768 x 768), 2 % off (median). What is
// picked of kPartTiles is the fastest of them.
struct PartTimes {
  double products = 5.29;  // six, and their sums
  double step = 3.15;
  double traffic = 2.13;
  double full_traffic = 5.2;  // of a full multiprocessor, which nothing hides
  uint32_t other_registers = 30;
};
constexpr PartTimes kPartTimes;
constexpr std::array<int64_t, 6> kCoopSplits = {1, 2, 3, 4, 6, 8};
constexpr std::array<uint32_t, 4> kAhead = {1, 2, 3, 4};

uint32_t parts_of(const CoopProblem& problem) {
  return problem.in_parts ? 3 : 1;
}

uint64_t shared_bytes(const CoopProblem& problem, const CoopTile& tile) {
  const auto panel = [&](uint32_t lines, bool by_line) {
    const uint32_t parts = parts_of(problem);
    return uint64_t{by_line ? tile.k * (parts * lines + 8) : lines * (parts * tile.k + 8)} * 2;
  };
  return std::max<uint64_t>(tile.sum_bytes(), tile.stages * (panel(tile.m, problem.a_by_line) +
                                                             panel(tile.n, problem.b_by_line)));
}

// A thread's pieces have one place in their rows of the panel.
bool divides_rows(const CoopTile& tile, uint32_t lines, bool by_line) {
  return tile.threads() % ((by_line ? lines : tile.k) / 8) == 0;
}

// Of a thread.
uint32_t registers_of(const CoopProblem& problem, const CoopTile& tile, uint32_t ahead) {
  const uint32_t warp_m = tile.m / tile.warps_m;
  const uint32_t lines = warp_m + tile.n / tile.warps_n;
  const uint32_t sums = warp_m * (tile.n / tile.warps_n + (problem.in_parts ? 16 : 0)) / 32;
  const uint32_t pieces = (tile.m + tile.n) * tile.k / 8 / tile.threads();
  const uint32_t operands = problem.in_parts ? kPartTimes.other_registers + (warp_m / 16 + 1) * 12
                                             : kOtherRegisters + lines / 16 * 4;
  return sums + operands + ahead * pieces * (problem.in_parts ? 8 : 4);
}

// Workgroups that fit onto a multiprocessor together.
double resident(const CoopProblem& problem, const CoopChoice& choice, const CoopTimes& times) {
  const CoopTile& tile = choice.tile;
  const uint32_t registers = std::min(kMostRegisters, registers_of(problem, tile, choice.ahead));
  const uint64_t by_registers = times.registers / (tile.threads() * round_up(registers, 8));
  return static_cast<double>(std::max<uint64_t>(
      1, std::min(by_registers, times.all_shared_bytes / shared_bytes(problem, tile))));
}

}  // namespace

double coop_microseconds(const CoopProblem& problem, const CoopChoice& choice,
                         const DeviceModel& device) {
  const CoopTile& tile = choice.tile;
  const CoopTimes& times = device.coop;
  const double steps = static_cast<double>(choice.split_k / tile.k);
  const double share = std::ceil(static_cast<double>(choice.groups) / device.multiprocessors);
  const double together = std::min(share, resident(problem, choice, times));
  const double rounds = std::ceil(share / together);
  const double warps = tile.threads() / 32.0;
  const uint32_t warp_m = tile.m / tile.warps_m;
  const uint32_t warp_n = tile.n / tile.warps_n;
  const double panel_bytes = 2.0 * (tile.m + tile.n) * tile.k;
  const double read_bytes = warps * (warp_m + warp_n) * (tile.k / tile.warps_k) * 2;
  const double reading = read_bytes / times.read_rate;
  const double staging = panel_bytes / times.stage_rate;
  const double products = static_cast<double>(tile.m) * tile.n * tile.k / times.products *
                          (problem.in_parts ? kPartTimes.products : 1);
  const double step = times.step * (tile.stages > 1 ? times.two_stages : 1);
  // Panels travel while those before them are multiplied.
  const double alone =
      problem.in_parts
          ? kPartTimes.step * step + products + kPartTimes.traffic * (reading + staging)
          : std::max(times.load_latency / choice.ahead, products + reading) + staging + step;
  const double full =
      together * (products + (problem.in_parts ? kPartTimes.full_traffic * (reading + staging)
                                               : times.shared_step));
  const double cache = share * device.multiprocessors * panel_bytes * (problem.in_parts ? 2 : 1) *
                       steps / times.cache_rate;
  double time = times.start + std::max(rounds * steps * std::max(alone, full), cache) +
                rounds * (times.finish * (warp_m * warp_n / 256.0) +
                          together * tile.m * tile.n / times.finish_rate);
  if (choice.splits > 1) {
    const double elements = static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                            static_cast<double>(problem.batches);
    time += times.second_pass +
            elements * 4 * (2 * static_cast<double>(choice.splits) + 1) / times.second_pass_rate;
  }
  return time;
}

namespace {

// Of a slot for the sums of this many matrices: 16 rows of f32, padded by 8.
uint32_t slot_bytes(uint32_t matrices) {
  return 16 * (matrices * 16 + 8) * 4;
}

}  // namespace

uint32_t CoopTile::sum_matrices() const {
  constexpr uint32_t kMostBytes = 40 * 1024;
  uint32_t matrices = n / warps_n / 16;
  while (matrices % 2 == 0 && warps() * slot_bytes(matrices) > kMostBytes) matrices /= 2;
  return matrices;
}

uint32_t CoopTile::sum_bytes() const {
  return warps() * slot_bytes(sum_matrices());
}

std::string CoopChoice::text() const {
  std::string text = std::to_string(tile.m) + "x" + std::to_string(tile.n) + " tiles, " +
                     std::to_string(tile.threads() / 32) + " subgroups, " +
                     std::to_string(tile.stages) +
                     (tile.stages > 1 ? " stages of " : " stage of ") + std::to_string(tile.k);
  if (ahead > 1) text += ", " + std::to_string(ahead) + " loaded ahead";
  if (splits > 1) text += ", split-k " + std::to_string(splits);
  return text + ", " + std::to_string(groups) + " workgroups";
}

namespace {

// Whether the panels of each split are whole rounds of those ahead, and registers hold them.
// Operands in parts gain nothing by it, nor do windows of which a multiprocessor has several
// workgroups, which hide each other's loads: Visformer and NextViT, whose grouped convolutions
// loaded ahead, took longer.
bool may_be_ahead(const CoopProblem& problem, const CoopChoice& choice, const DeviceModel& device) {
  const int64_t steps = ceil_div(problem.k, choice.tile.k);
  const int64_t split_steps = choice.split_k / choice.tile.k;
  if (problem.in_parts || (problem.of_windows && choice.groups > device.multiprocessors))
    return false;
  return choice.splits * split_steps == steps && split_steps % choice.ahead == 0 &&
         registers_of(problem, choice.tile, choice.ahead) <= kMostRegisters;
}

// One tile with one split and number of panels ahead at every size; nullopt where it takes more
// shared memory or registers than there are.
std::optional<std::vector<CoopChoice>> tiled_at_all(std::span<const CoopProblem> sizes,
                                                    const CoopTile& tile, int64_t wanted_splits,
                                                    uint32_t ahead, const DeviceModel& device) {
  std::vector<CoopChoice> choices;
  for (const CoopProblem& problem : sizes) {
    if (shared_bytes(problem, tile) > device.shared_bytes ||
        !divides_rows(tile, tile.m, problem.a_by_line) ||
        !divides_rows(tile, tile.n, problem.b_by_line)) {
      return std::nullopt;
    }
    // The pass that joins splits counts elements in 32 bits.
    const bool may_split =
        problem.splits_depth && problem.m * problem.n * problem.batches < int64_t{1} << 31;
    const int64_t steps = ceil_div(problem.k, tile.k);
    if (wanted_splits > 1 && (!may_split || wanted_splits * 2 > steps)) return std::nullopt;
    const int64_t split_steps = ceil_div(steps, wanted_splits);
    CoopChoice choice{.tile = tile, .ahead = ahead};
    choice.splits = ceil_div(steps, split_steps);
    choice.split_k = split_steps * tile.k;
    choice.groups =
        ceil_div(problem.m, tile.m) * ceil_div(problem.n, tile.n) * choice.splits * problem.batches;
    if (ahead > 1 && !may_be_ahead(problem, choice, device)) return std::nullopt;
    choice.microseconds = coop_microseconds(problem, choice, device);
    choices.push_back(choice);
  }
  return choices;
}

}  // namespace

std::vector<std::vector<CoopChoice>> coop_candidates(std::span<const CoopProblem> sizes,
                                                     const DeviceModel& device) {
  std::vector<std::vector<CoopChoice>> candidates;
  const auto tiles = sizes.front().in_parts ? std::span<const CoopTile>(kPartTiles) : kTiles;
  for (const CoopTile& tile : tiles) {
    for (const int64_t splits : kCoopSplits) {
      for (const uint32_t ahead : kAhead) {
        if (auto choices = tiled_at_all(sizes, tile, splits, ahead, device))
          candidates.push_back(std::move(*choices));
      }
    }
  }
  RLX_CHECK(!candidates.empty(), "no tile fits into shared memory");
  return candidates;
}

std::vector<std::vector<CoopChoice>> coop_candidates(const CoopProblem& problem,
                                                     std::span<const int64_t> lines,
                                                     const DeviceModel& device) {
  constexpr CoopChoice kNone = {.microseconds = std::numeric_limits<double>::infinity()};
  std::vector<std::vector<CoopChoice>> candidates;
  const auto tiles = problem.in_parts ? std::span<const CoopTile>(kPartTiles) : kTiles;
  for (const CoopTile& tile : tiles) {
    for (const uint32_t ahead : kAhead) {
      std::vector<CoopChoice>& at_lines = candidates.emplace_back();
      for (const int64_t m : lines) {
        CoopProblem size = problem;
        size.m = m;
        const auto choices = tiled_at_all({&size, 1}, tile, 1, ahead, device);
        at_lines.push_back(choices ? choices->front() : kNone);
      }
    }
  }
  return candidates;
}

CoopChoice choose_coop(std::span<const CoopProblem> sizes, const DeviceModel& device) {
  const auto candidates = coop_candidates(sizes, device);
  return least_excess(candidates, [](const CoopChoice& choice) { return choice.microseconds; });
}

}  // namespace rlx
