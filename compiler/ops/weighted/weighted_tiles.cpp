// SPDX-License-Identifier: Apache-2.0
// Teams of dequant_matvec and tiles of dequant_mma and dequant_coop.
#include "compiler/ops/weighted/weighted_tiles.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "compiler/ops/lowering/block_weights.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kGroupThreads = 128;
// Threads of a multiprocessor that keep the memory busy: with one element or run in flight each,
// and with pieces of several lines.
constexpr int64_t kBusyThreads = 1024;
constexpr int64_t kBusyThreadsOfBlocks = 480;
// Types of fewer bits leave more time for memory than for arithmetic: more lines share the x that a
// thread loads. Above, and with several vectors, the registers that this takes cost more.
constexpr double kBitsOfFourLines = 5;
constexpr int64_t kStepDepth = 64;
// Where a thread holds x in registers: elements of a line that it has, the fewest and most lines of
// a group, and threads that keep a multiprocessor busy so.
constexpr int64_t kHeldElements = 64;
constexpr int64_t kLeastHeldLines = 8;
constexpr int64_t kMostHeldLines = 32;
constexpr int64_t kBusyThreadsOfHeld = 192;
constexpr int64_t kHeldSums = 32 * 1024 / 4;  // of shared memory
constexpr int64_t kAdders = 8;                // of dequant_matvec

// Microseconds on an H200, f16, q4_k, 4096 x 4096 with 512 and 2048 rows; the choice is one of
// their ratios.
constexpr std::array kMmaTiles = {
    WeightedMmaTile{128, 128, 2, 4, 1, 2.0},
    WeightedMmaTile{64, 64, 2, 2, 3, 1.65},
    WeightedMmaTile{64, 32, 4, 1, 3, 1.25},
};

// Of the streamed forms: depths of a slice, bytes of the rings of a workgroup that leave room for
// three stages, of shared memory in all, of a warp's factors at most and of a tile's parts;
// workgroups of a multiprocessor.
constexpr int64_t kSliceElements = 256;
constexpr int64_t kRingBytes = 64 * 1024;
constexpr int64_t kStreamSharedBytes = 99 * 1024;
constexpr int64_t kMostFactorBytes = 2048;
constexpr int64_t kTilePartBytes = 512;
constexpr int64_t kMostStreamTiles = 8;
constexpr int64_t kMostStreamWarps = 8;
constexpr int64_t kStreamGroups = 2;

// Of the form for one row: tiles whose sums a workgroup holds.
constexpr int64_t kMostRowTiles = 16;

// Warps whose last round of slices is the fullest; of equal ones the most.
int64_t stream_warps(int64_t slices) {
  if (slices <= kMostStreamWarps) return std::max<int64_t>(slices, 1);
  int64_t best = kMostStreamWarps;
  for (int64_t warps = kMostStreamWarps; warps > kMostStreamWarps / 2; --warps) {
    if (ceil_div(slices, warps) * warps < ceil_div(slices, best) * best) best = warps;
  }
  return best;
}

// Bytes of a tile's slice in a ring.
int64_t stage_bytes_of(const WeightedSize& size, DType w) {
  const int64_t slice_bytes = kSliceElements / block_elements(w) * block_bytes(w);
  const int64_t line_bytes = size.k / block_elements(w) * block_bytes(w);
  const bool aligned = line_bytes % 16 == 0 && slice_bytes % 16 == 0;
  const int64_t chunks = aligned ? slice_bytes / 16 : (slice_bytes + 30) / 16;
  return kStreamLines * 16 * (chunks | 1);
}

// Of rings whose stages take so many bytes together.
int64_t stream_stages(int64_t bytes) {
  return 3 * bytes <= kRingBytes ? 3 : 2;
}

// Whether the lines' bytes are whole pieces of 16 (kWholeLines of
// cuda_kernels/lib/block_lines.cuh), in rounds of so many slices too.
bool has_whole_lines(const WeightedSize& size, DType w, int64_t warps) {
  const int64_t slice_bytes = kSliceElements / block_elements(w) * block_bytes(w);
  const int64_t line_bytes = size.k / kSliceElements * slice_bytes;
  return size.k % kSliceElements == 0 && line_bytes % 16 == 0 && warps * slice_bytes % 16 == 0;
}

VectorTeams teams_of_columns() {
  VectorTeams teams;
  teams.lanes = 8;
  teams.rows = 32;
  teams.group_outputs = teams.lanes * 8;  // neighbouring outputs of a thread
  return teams;
}

VectorTeams teams_of_blocks(const WeightedSize& size, int64_t multiprocessors) {
  VectorTeams teams;
  const int64_t pieces = size.k / kPieceElements;
  teams.outputs = size.m == 1 && size.bits < kBitsOfFourLines ? 4 : 2;
  const auto threads = [&] { return size.n * size.batches * teams.lanes / teams.outputs; };
  while (teams.lanes < kGroupThreads && teams.lanes * 2 <= pieces &&
         threads() < multiprocessors * kBusyThreadsOfBlocks) {
    teams.lanes *= 2;
  }
  const int64_t least_outputs = size.gated ? 2 : 1;
  while (teams.outputs > least_outputs && threads() < multiprocessors * kBusyThreadsOfBlocks)
    teams.outputs /= 2;
  teams.rows = kGroupThreads / teams.lanes;
  teams.group_outputs = teams.rows * teams.outputs;
  return teams;
}

// Threads that hold x and let several lines pass by, where there are enough of them; else nullopt.
// The groups of a wave are under way at once, so each has as many lines as the waves leave it.
std::optional<VectorTeams> teams_of_held(const WeightedSize& size, const HeldForm& form,
                                         int64_t multiprocessors) {
  const int64_t threads = size.k / kHeldElements;
  if (size.m != 1 || size.k % (kHeldElements * 32) != 0 || threads == 0 || threads > 256) return {};
  const int64_t least_groups = size.batches * ceil_div(size.n, kLeastHeldLines);
  if (least_groups * threads < multiprocessors * kBusyThreadsOfHeld) return {};
  const int64_t groups = multiprocessors * (form.threads / threads);
  const int64_t most = std::min(kMostHeldLines, kHeldSums / (threads + kAdders) / 4 * 4);
  const int64_t lines = size.n * size.batches;
  const int64_t waves = ceil_div(lines, groups * most);
  const int64_t share = round_up(ceil_div(lines, groups * waves), form.lines);
  return VectorTeams{.lanes = threads,
                     .rows = 1,
                     .outputs = form.lines,
                     .group_outputs = std::clamp(share, kLeastHeldLines, most),
                     .held = true};
}

VectorTeams teams_of_lines(const WeightedSize& size, int64_t multiprocessors) {
  VectorTeams teams;
  const int64_t pieces = ceil_div(size.k, kPieceElements);
  const int64_t busy_threads = multiprocessors * kBusyThreads;
  while (teams.lanes < kGroupThreads && teams.lanes * 2 <= pieces &&
         size.n * size.batches * teams.lanes < busy_threads) {
    teams.lanes *= 2;
  }
  teams.rows = kGroupThreads / teams.lanes;
  teams.outputs = size.n * size.batches * teams.lanes >= 2 * busy_threads ? 2 : 1;
  teams.group_outputs = teams.rows * teams.outputs;
  return teams;
}

}  // namespace

VectorTeams choose_teams(const WeightedSize& size, const DeviceModel& device) {
  const int64_t multiprocessors = device.multiprocessors;
  VectorTeams teams = !size.along_depth ? teams_of_columns()
                      : size.bits > 0   ? teams_of_blocks(size, multiprocessors)
                                        : teams_of_lines(size, multiprocessors);
  if (size.held) teams = teams_of_held(size, *size.held, multiprocessors).value_or(teams);
  teams.blocks = ceil_div(size.n, teams.group_outputs);
  return teams;
}

OwnLines choose_own_lines(const WeightedSize& size, const DeviceModel& device) {
  // Sums of a thread; more of them share a load, and take LLVM longer.
  constexpr int64_t kSums = 32;
  constexpr int64_t kMostVectors = 8;
  constexpr int64_t kMostLines = 4;
  constexpr int64_t kGroupsOfCore = 4;  // or cores wait for the last
  OwnLines own;
  own.vectors = std::clamp<int64_t>(size.m, 1, kMostVectors);
  const int64_t least = size.gated ? 2 : 1;
  const auto groups = [&] { return ceil_div(size.n, own.group_lines()) * size.batches; };
  own.lines = kMostLines;
  while (own.lines > least && (own.lines * own.vectors > kSums ||
                               groups() < kGroupsOfCore * int64_t{device.multiprocessors})) {
    own.lines /= 2;
  }
  own.blocks = ceil_div(size.n, own.group_lines());
  return own;
}

double own_lines_microseconds(const OwnLines& own, const WeightedSize& size,
                              const DeviceModel& device) {
  // Multiply-adds in whose time a weight is loaded and decoded: SmolLM2-135M in Q4_1 on lavapipe of
  // Mesa 22.3, one row against eight.
  constexpr double kDecode = 4;
  const int64_t groups = own.blocks * ceil_div(size.m, own.vectors) * size.batches;
  const auto rounds = static_cast<double>(ceil_div(groups, int64_t{device.multiprocessors}));
  const auto weights = static_cast<double>(own.group_lines() * size.k);
  const double products = weights * (kDecode + static_cast<double>(own.vectors));
  return device.step_microseconds + rounds * products / device.lane_tiles.products;
}

BlockStream choose_block_stream(const WeightedSize& size, DType w, const DeviceModel& device) {
  const int64_t slices = ceil_div(size.k, kSliceElements);
  BlockStream stream;
  stream.warps = stream_warps(slices);
  const int64_t stage_bytes = stage_bytes_of(size, w);
  stream.stages = stream_stages(stream.warps * stage_bytes);
  const int64_t fixed = stream.warps * (stream.stages * stage_bytes + kMostFactorBytes);
  const int64_t most_tiles = std::clamp<int64_t>(
      (kStreamSharedBytes - fixed) / (stream.warps * kTilePartBytes), 1, kMostStreamTiles);
  const int64_t tiles = ceil_div(size.n, kStreamLines);
  // What a workgroup reads of x, in tiles of w, at the rate at which the L2 cache gives it.
  const double x_tiles = static_cast<double>(size.m) * 2 / (kStreamLines * size.bits / 8) / 2;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t each = 1; each <= most_tiles; ++each) {
    const int64_t groups = ceil_div(ceil_div(tiles, each), int64_t{device.multiprocessors});
    const auto count = static_cast<double>(groups);
    // A workgroup begins and ends while another one of its multiprocessor reads.
    const double cost =
        count * (static_cast<double>(each) + x_tiles) + std::max(1.0, count / kStreamGroups);
    if (cost >= least) continue;
    least = cost;
    stream.tiles = each;
  }
  stream.blocks = ceil_div(tiles, stream.tiles);
  return stream;
}

RowStream choose_row_stream(const WeightedSize& size, DType w, const DeviceModel& device) {
  RowStream stream;
  stream.warps = stream_warps(ceil_div(size.k, kSliceElements));
  stream.stages = stream_stages(stream.warps * stage_bytes_of(size, w));
  const int64_t tiles = ceil_div(size.n, kStreamLines);
  const int64_t at_once = device.multiprocessors * kStreamGroups;
  stream.groups = std::min(tiles, at_once * ceil_div(tiles, at_once * kMostRowTiles));
  stream.tiles = ceil_div(tiles, stream.groups);
  // A workgroup that has its multiprocessor alone takes the threads of two.
  const bool is_alone = tiles <= device.multiprocessors;
  const bool has_rounds = size.k / kSliceElements >= 2 * stream.warps;
  if (is_alone && has_rounds && has_whole_lines(size, w, stream.warps))
    stream.teams = kStreamGroups;
  return stream;
}

CoopStream choose_coop_stream(const WeightedSize& size, DType w, const DeviceModel& device) {
  // What of a multiprocessor's shared memory NVIDIA's driver gives a workgroup, and its subgroups
  // for whose registers there is room.
  constexpr int64_t kSharedBytes = 47 * 1024;
  constexpr int64_t kMostWarps = 16;
  constexpr int64_t kMostTiles = 4;
  constexpr double kTilesOfX = 0.75;  // in whose time a slice of x comes
  const int64_t slices = ceil_div(size.k, kSliceElements);
  const int64_t tiles = ceil_div(size.n, kStreamLines);
  const int64_t most_warps = std::min(kMostWarps, kSharedBytes / stage_bytes_of(size, w));
  CoopStream best;
  double least = std::numeric_limits<double>::infinity();
  // Of equal ones the most shares: lines are read from end to end, and less often x.
  for (int64_t shares = std::min(most_warps, slices); shares >= 1; --shares) {
    for (int64_t each = 1; each <= kMostTiles; ++each) {
      const int64_t teams =
          std::min(most_warps / shares, ceil_div(tiles, each * int64_t{device.multiprocessors}));
      const int64_t groups = ceil_div(tiles, teams * each);
      const auto rounds = static_cast<double>(ceil_div(groups, int64_t{device.multiprocessors}) *
                                              ceil_div(slices, shares));
      const double cost = rounds * (static_cast<double>(each) + kTilesOfX);
      if (cost >= least) continue;
      least = cost;
      best = {.shares = shares, .teams = teams, .tiles = each, .groups = groups};
    }
  }
  return best;
}

double weighted_mma_microseconds(const WeightedMmaTile& tile, const WeightedSize& size,
                                 const DeviceModel& device) {
  const int64_t groups = ceil_div(size.m, tile.m) * ceil_div(size.n, tile.n) * size.batches;
  const int64_t waves = ceil_div(groups, int64_t{device.multiprocessors} * tile.groups);
  return static_cast<double>(waves * ceil_div(size.k, kStepDepth)) * tile.step_microseconds;
}

WeightedMmaTile choose_weighted_mma_tile(const WeightedSize& size, const DeviceModel& device) {
  const auto microseconds = [&](const WeightedMmaTile& tile) {
    return weighted_mma_microseconds(tile, size, device);
  };
  return *std::min_element(kMmaTiles.begin(), kMmaTiles.end(),
                           [&](const WeightedMmaTile& a, const WeightedMmaTile& b) {
                             return microseconds(a) < microseconds(b);
                           });
}

}  // namespace rlx
