// SPDX-License-Identifier: Apache-2.0
// Products whose rows go to the matrices of several experts, each tile with rows of one: what all
// forms share, and the two for dense 16-bit matrices, on tensor cores
// (cuda_kernels/lib/expert_tiles.cuh) and on cooperative matrices
// (shaders/vulkan/lib/expert_tiles.glsl).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/ops/weighted/weighted_product.h"

namespace rlx {

// Shared memory that a group's counters of experts may take.
inline constexpr int64_t kMostExperts = 2048;

// Why a form for so many experts at most does not take the product.
std::optional<std::string> too_many_experts(const WeightedProduct& product,
                                            int64_t most = kMostExperts);
// The most tiles: every expert, and the rows of none, may leave one partly filled.
Dim most_expert_tiles(const WeightedProduct& product, int64_t tile_m);
// On average, at the largest number of rows.
int64_t rows_of_expert(const WeightedProduct& product);

// Of offers for dense matrices.
std::string expert_tiles_refusal(const OfferContext& at, const WeightedProduct& product);
bool emit_expert_tiles(LowerContext& ctx, const WeightedProduct& product);
std::string expert_coop_refusal(const OfferContext& at, const WeightedProduct& product);
bool emit_expert_coop(LowerContext& ctx, const WeightedProduct& product);

}  // namespace rlx
