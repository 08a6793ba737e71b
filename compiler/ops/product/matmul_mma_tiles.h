// SPDX-License-Identifier: Apache-2.0
// How matmul_mma divides a product among workgroups and warps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/dispatch/target.h"

namespace rlx {

// How the kernel multiplies.
enum class MmaKind : uint8_t {
  Half,      // f16 or bf16
  Tf32,      // f32 rounded to tf32
  SplitF32,  // f32 in two tf32 parts
};

struct MmaProblem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batches = 1;
  MmaKind kind = MmaKind::Half;
  // Pieces of 16 bytes lie along the lines (an m of a, an n of b), else along the depth.
  bool a_by_line = false;
  bool b_by_line = false;
  double epilogue_operations = 0;  // per element of y, beside the sums

  [[nodiscard]] uint32_t element_bytes() const { return kind == MmaKind::Half ? 2 : 4; }
};

// Lines of a and b per workgroup, bytes of depth per stage, and the warps that share them.
struct MmaTile {
  uint32_t m = 0;
  uint32_t n = 0;
  uint32_t stage_bytes = 128;  // of depth
  uint32_t warps_m = 1;
  uint32_t warps_n = 1;
  uint32_t warps_k = 1;

  [[nodiscard]] uint32_t threads() const { return 32 * warps_m * warps_n * warps_k; }
};

struct MmaChoice {
  MmaTile tile;
  uint32_t tile_k = 0;      // depth per stage
  uint32_t stages = 1;      // in flight
  int64_t splits = 1;       // workgroups of a tile, one cluster
  int64_t split_k = 0;      // depth of a workgroup, whole stages
  int64_t tiles = 0;        // per batch entry
  int64_t groups = 0;       // tiles * splits * batches
  uint32_t min_groups = 1;  // that registers leave room for on a multiprocessor
  // f32 in parts by warpgroups, which may take all of a multiprocessor's shared memory.
  bool by_part_groups = false;
  double microseconds = 0;  // estimated

  // "64x96 tiles, 4 warps, 4 stages, k split over clusters of 3, 144 workgroups".
  [[nodiscard]] std::string text() const;
};

// Each tile with each split that fits, for a problem at several sizes, which differ in m, n and
// batches and begin with the largest.
std::vector<std::vector<MmaChoice>> mma_candidates(std::span<const MmaProblem> sizes,
                                                   const DeviceModel& device);
// The same for the problem with other numbers of lines m, the time infinite where one does not fit.
std::vector<std::vector<MmaChoice>> mma_candidates(const MmaProblem& problem,
                                                   std::span<const int64_t> lines,
                                                   const DeviceModel& device);
// Of these the one whose estimate exceeds the best one's by the least factor where this is largest;
// of equal ones the first of the table. Its numbers are those at the first size.
MmaChoice choose_mma(std::span<const MmaProblem> sizes, const DeviceModel& device);
// The estimate, on any device.
double mma_microseconds(const MmaProblem& problem, const MmaChoice& choice,
                        const DeviceModel& device);

}  // namespace rlx
