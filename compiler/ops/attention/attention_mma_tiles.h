// SPDX-License-Identifier: Apache-2.0
// How attention_mma shares out its work, and the model that chooses it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/dispatch/target.h"
#include "compiler/ops/attention/attention_problem.h"

namespace rlx {

// The names are those of the kernel's header comment.
struct AttentionMmaTiling {
  int64_t fold = 1;     // query heads of one kv head whose rows share a tile
  int64_t warps_q = 1;  // 16 rows each
  int64_t warps_k = 1;
  int64_t splits = 1;      // workgroups of a cluster that share the keys
  int64_t step_keys = 16;  // of one warp at once
  int64_t stages = 0;      // of shared memory; 0: keys and values go straight to registers
  int64_t min_groups = 1;  // workgroups per multiprocessor that registers must leave room for

  [[nodiscard]] int64_t tile_rows() const { return 16 * warps_q; }
  [[nodiscard]] int64_t threads() const { return 32 * warps_q * warps_k; }
  [[nodiscard]] Dim row_tiles(const AttentionProblem& problem) const;
  // Workgroups without their splits.
  [[nodiscard]] int64_t groups(const AttentionProblem& problem) const;
  [[nodiscard]] std::string text() const;
};

struct TimedAttentionTiling {
  AttentionMmaTiling tiling;
  double microseconds = 0;  // modelled

  [[nodiscard]] std::string text() const { return tiling.text(); }
};

// Every tiling that fits, for a problem at several sizes, which begin with the largest.
// Precondition: f32, or a 16-bit float; head sizes that the kernel takes.
std::vector<std::vector<TimedAttentionTiling>> attention_mma_candidates(
    std::span<const AttentionProblem> sizes, DType dtype, const DeviceModel& device);
// Of these the one whose modelled time exceeds the best one's by the least factor where this is
// largest.
AttentionMmaTiling choose_attention_mma_tiling(std::span<const AttentionProblem> sizes, DType dtype,
                                               const DeviceModel& device);
// Least bounds of the kernel's shared memory: the kernel's own sums, or a little more.
struct AttentionMmaShared {
  int64_t alone_bytes;    // of a workgroup that takes all keys, as on devices without clusters
  int64_t cluster_bytes;  // of one that receives others' results
};
AttentionMmaShared attention_mma_shared(const AttentionProblem& problem, DType dtype,
                                        const AttentionMmaTiling& tiling);
// The model: microseconds of one dispatch.
double attention_mma_microseconds(const AttentionProblem& problem, DType dtype,
                                  const DeviceModel& device, const AttentionMmaTiling& tiling);

}  // namespace rlx
