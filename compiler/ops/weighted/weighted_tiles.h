// SPDX-License-Identifier: Apache-2.0
// How the workgroups of weighted products share the work: teams of dequant_matvec and tiles of
// dequant_mma and dequant_coop.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/dispatch/target.h"
#include "compiler/support/dtype.h"

namespace rlx {

// How dequant_matvec holds x in registers: lines whose pieces a thread has at a time, and threads
// for whose registers a multiprocessor has room.
struct HeldForm {
  int64_t lines;
  int64_t threads;
};

// What the choices depend on; batches are vectors with a matrix of their own each.
struct WeightedSize {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batches = 1;
  double bits = 0;  // of a weight in blocks; 0: no blocks
  bool along_depth = true;
  bool gated = false;            // lines go in pairs
  std::optional<HeldForm> held;  // where VectorTeams::held pays
};

// How the threads of dequant_matvec share the work.
struct VectorTeams {
  int64_t lanes = 32;
  int64_t rows = 4;     // teams, or slices of k
  int64_t outputs = 1;  // lines of a team, along the depth
  int64_t group_outputs = 0;
  int64_t blocks = 0;  // of group_outputs lines
  bool held = false;   // x stays in the registers of one team, and the group's lines pass by
};
VectorTeams choose_teams(const WeightedSize& size, const DeviceModel& device);

// How the form of dequant_matvec for CPUs shares the work: a workgroup is a vector of eight lanes,
// each with lines of its own, for some of the rows of x.
struct OwnLines {
  static constexpr int64_t kThreads = 8;
  static constexpr int64_t kTeam = 4;  // threads that load the four runs of a piece of x
  int64_t vectors = 1;                 // rows of x of a workgroup
  int64_t lines = 1;                   // of a thread
  int64_t blocks = 0;                  // of kThreads * lines lines

  [[nodiscard]] int64_t group_lines() const { return kThreads * lines; }
};
OwnLines choose_own_lines(const WeightedSize& size, const DeviceModel& device);
// Microseconds of the product so.
double own_lines_microseconds(const OwnLines& own, const WeightedSize& size,
                              const DeviceModel& device);

// How the streamed form of dequant_mma shares the work (cuda_kernels/lib/block_stream.cuh).
struct BlockStream {
  int64_t warps = 1;   // that share out k, as k alone decides: a row's bits do not depend on m
  int64_t stages = 2;  // of a warp's ring
  int64_t tiles = 1;   // of kStreamLines lines of a workgroup
  int64_t blocks = 0;  // workgroups

  [[nodiscard]] uint32_t threads() const { return static_cast<uint32_t>(32 * warps); }
};
inline constexpr int64_t kStreamLines = 16;
// How that for one row does (cuda_kernels/lib/block_row.cuh): workgroups share the tiles evenly.
struct RowStream {
  int64_t warps = 1;   // that share out k
  int64_t teams = 1;   // of so many warps, which take turns at the rounds of k
  int64_t stages = 2;  // of a warp's ring, where lines are no whole pieces of 16 bytes
  int64_t tiles = 1;   // of a workgroup at most
  int64_t groups = 0;

  [[nodiscard]] uint32_t threads() const { return static_cast<uint32_t>(32 * warps * teams); }
};
RowStream choose_row_stream(const WeightedSize& size, DType w, const DeviceModel& device);

// Of a weight in blocks; at most eight rows.
BlockStream choose_block_stream(const WeightedSize& size, DType w, const DeviceModel& device);

// How dequant_coop does, for at most eight rows: teams of subgroups that share out k.
struct CoopStream {
  int64_t shares = 1;  // subgroups of a team
  int64_t teams = 1;
  int64_t tiles = 1;   // of a team
  int64_t groups = 0;  // workgroups

  [[nodiscard]] int64_t warps() const { return shares * teams; }
};
CoopStream choose_coop_stream(const WeightedSize& size, DType w, const DeviceModel& device);

// One instance of dequant_mma: lines of w and rows of x per workgroup, and the warps that share
// them.
struct WeightedMmaTile {
  uint32_t n;
  uint32_t m;
  uint32_t warps_n;
  uint32_t warps_m;
  uint32_t groups;           // workgroups of a multiprocessor
  double step_microseconds;  // for 64 depths of all of these

  [[nodiscard]] uint32_t threads() const { return 32 * warps_n * warps_m; }
};
// Microseconds of the product in tiles like this one.
double weighted_mma_microseconds(const WeightedMmaTile& tile, const WeightedSize& size,
                                 const DeviceModel& device);
// The tile that a model of the device's waves expects to be fastest.
WeightedMmaTile choose_weighted_mma_tile(const WeightedSize& size, const DeviceModel& device);

}  // namespace rlx
