// SPDX-License-Identifier: Apache-2.0
// How matmul_coop divides a product among workgroups and subgroups.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/dispatch/target.h"

namespace rlx {

struct CoopProblem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batches = 1;
  // Pieces of 16 bytes lie along the lines (an m of a, an n of b), else along the depth.
  bool a_by_line = false;
  bool b_by_line = false;
  bool splits_depth = true;  // may be divided among workgroups
  bool in_parts = false;     // operands are f32, in three parts of 16 bits
  bool of_windows = false;   // lines of a are windows of images, whose places take registers
};

// Lines of a and b per workgroup, the depth of a stage, and the subgroups of 32 that share them.
struct CoopTile {
  uint32_t m = 0;
  uint32_t n = 0;
  uint32_t k = 0;
  uint32_t warps_m = 1;
  uint32_t warps_n = 1;
  uint32_t warps_k = 1;
  uint32_t stages = 1;  // of panels in shared memory

  [[nodiscard]] uint32_t warps() const { return warps_m * warps_n * warps_k; }
  [[nodiscard]] uint32_t threads() const { return 32 * warps(); }
  // Matrices side by side that a subgroup passes through shared memory at a time in the end, and
  // the bytes of all subgroups' slots for them.
  [[nodiscard]] uint32_t sum_matrices() const;
  [[nodiscard]] uint32_t sum_bytes() const;
};

struct CoopChoice {
  CoopTile tile;
  uint32_t ahead = 1;       // panels of each operand that travel to registers at a time
  int64_t splits = 1;       // ranges of k, joined by a second pass
  int64_t split_k = 0;      // depth of a range, whole stages
  int64_t groups = 0;       // workgroups: tiles * splits * batches
  double microseconds = 0;  // estimated

  // "64x64 tiles, 8 subgroups, 1 stage of 128, 3 loaded ahead, split-k 2, 512 workgroups".
  [[nodiscard]] std::string text() const;
};

// Each tile with each split and number of panels ahead that fit, for a problem at several sizes,
// which differ in m, n and batches and begin with the largest.
std::vector<std::vector<CoopChoice>> coop_candidates(std::span<const CoopProblem> sizes,
                                                     const DeviceModel& device);
// The same for the problem with other numbers of lines m and without splits, the time infinite
// where one does not fit.
std::vector<std::vector<CoopChoice>> coop_candidates(const CoopProblem& problem,
                                                     std::span<const int64_t> lines,
                                                     const DeviceModel& device);
// Of these the one whose estimate exceeds the best one's by the least factor where this is largest;
// of equal ones the first of the table. Its numbers are those at the first size.
CoopChoice choose_coop(std::span<const CoopProblem> sizes, const DeviceModel& device);
// The estimate, on any device, with the pass that joins splits.
double coop_microseconds(const CoopProblem& problem, const CoopChoice& choice,
                         const DeviceModel& device);

}  // namespace rlx
