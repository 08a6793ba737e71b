// SPDX-License-Identifier: Apache-2.0
// Products of a few vectors and a matrix, streamed at the speed of memory by the matvec_stream
// kernel.
#pragma once

#include <optional>
#include <string>

#include "compiler/dispatch/target.h"
#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

// m vectors [m, k] times a matrix [n, k] of dense rows.
struct StreamShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool gated = false;
  DType x = DType::f32;
  DType w = DType::f32;
};
// How the kernel shares out its work; nullopt for shapes that it does not take.
struct StreamPlan {
  int64_t lanes = 32;       // threads that share a row
  int64_t teams = 1;        // of lanes
  int64_t pieces = 1;       // 16-byte pieces of a row per thread
  int64_t stage_units = 1;  // outputs of a team per stage
  int64_t stage_bytes = 0;
  int64_t depth = 2;  // stages in the ring
  int64_t pace = 1;   // stages under way at a time
  int64_t batch = 1;  // stages whose sums a thread keeps
  int64_t flush = 1;  // batches between two exchanges of sums
  int64_t groups = 1;
  int64_t groups_per_multiprocessor = 1;  // for which registers must suffice

  // One warp more copies.
  [[nodiscard]] int64_t threads() const { return lanes * teams + 32; }
};
std::optional<StreamPlan> plan_stream(const StreamShape& shape, const DeviceModel& device);

// As a row of the table has them (product_offers.h).
std::string stream_refusal(const OfferContext& at, const FusedProduct& fused);
double stream_bound(const OfferContext& at, const FusedProduct& fused);
bool emit_stream(LowerContext& ctx, const FusedProduct& fused);

}  // namespace rlx
