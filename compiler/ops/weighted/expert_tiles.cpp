// SPDX-License-Identifier: Apache-2.0
// Tiles of the rows of one expert each, on matrix units.
#include "compiler/ops/weighted/expert_tiles.h"

#include <algorithm>
#include <array>
#include <span>

#include "compiler/ops/weighted/weighted_dispatch.h"
#include "compiler/support/checked.h"
#include "schema/rounding.h"

namespace rlx {

std::optional<std::string> too_many_experts(const WeightedProduct& product, int64_t most) {
  if (product.experts <= most) return std::nullopt;
  return std::to_string(product.experts) + " experts, it takes at most " + std::to_string(most);
}

Dim most_expert_tiles(const WeightedProduct& product, int64_t tile_m) {
  return min(product.m, product.m / tile_m + product.experts + 1);
}

int64_t rows_of_expert(const WeightedProduct& product) {
  return product.m.bound() / std::max<int64_t>(product.experts, 1);
}

namespace {

// Tiles of the forms for dense matrices of experts (cuda_kernels/lib/expert_tiles.cuh and
// shaders/vulkan/lib/expert_tiles.glsl): as few rows as most experts have.
struct ExpertTile {
  int64_t m;
  int64_t warps_m;
  int64_t stages = 2;
};
constexpr std::array kExpertTiles = {ExpertTile{32, 1, 4}, ExpertTile{64, 2, 3},
                                     ExpertTile{128, 2, 3}};
constexpr std::array kExpertCoopTiles = {ExpertTile{32, 2}, ExpertTile{64, 2}};
constexpr int64_t kExpertColumns = 128;
constexpr int64_t kExpertWarps = 8;
constexpr int64_t kColumnTiles = 2;  // of a workgroup, which finds its rows once

ExpertTile expert_tile(std::span<const ExpertTile> tiles, const WeightedProduct& product) {
  const auto fits = [&](const ExpertTile& tile) {
    return 2 * tile.m >= 3 * rows_of_expert(product);
  };
  const auto found = std::ranges::find_if(tiles, fits);
  return found == tiles.end() ? tiles.back() : *found;
}

// Steps that the shared memory of every architecture has room for beside the lists of rows.
int64_t expert_stages(const ExpertTile& tile, const WeightedProduct& product) {
  constexpr int64_t kSharedBytes = 99 * 1024;
  constexpr int64_t kDepth = 64;
  const int64_t columns = product.along_depth ? kExpertColumns * 2 * kDepth
                                              : kDepth * (2 * kExpertColumns + kWidestAccessBytes);
  const int64_t lists = 4 * (32 * kExpertWarps + tile.m + product.experts + 1);
  return std::min(tile.stages, (kSharedBytes - lists) / (tile.m * 2 * kDepth + columns));
}

// What both forms are given; a workgroup has `columns` columns.
void define_expert_tiles(LowerContext& ctx, WeightedDispatch& dispatch,
                         const WeightedProduct& product, const ExpertTile& tile, int64_t columns) {
  const bool stores_vectors =
      product.n % 4 == 0 && ctx.alignment(product.y) >= 4 * element_bytes(product.y.dtype());
  const Dim tiles_m = most_expert_tiles(product, tile.m);
  define_product_sizes(ctx, dispatch, product, stores_vectors ? 4 : 1);
  dispatch.size("RLX_M", product.m)
      .size("RLX_TILES_M", tiles_m)
      .define("RLX_TILE_M", tile.m)
      .define("RLX_TILE_N", kExpertColumns)
      .define("RLX_WARPS_M", tile.warps_m)
      .grid(split_grid(tiles_m * ceil_div(product.n, columns)))
      .read(&WeightedMatmulParams::x, product.x, 16);
}

std::string expert_tiles_text(const ExpertTile& tile) {
  return "rows of an expert in tiles of " + std::to_string(tile.m) + " x " +
         std::to_string(kExpertColumns);
}

}  // namespace

std::string expert_tiles_refusal(const OfferContext& at, const WeightedProduct& product) {
  const DType x = product.x.dtype();
  if (!product.index) return "no experts";
  if (auto refusal = too_many_experts(product)) return *refusal;
  if (!is_dense_weight(product)) return "weights that are not dense";
  if (x != DType::f16 && x != DType::bf16) return "x of " + std::string(name_of(x));
  if (product.w.dtype() != x) return "weights of " + std::string(name_of(product.w.dtype()));
  if (product.k == 0) return "nothing to add";
  if (!loads_run_of_x(at, product, kDecodedRun))
    return "rows of x that are no aligned 16-byte pieces";
  if ((product.along_depth ? product.k : product.n) % kDecodedRun != 0 ||
      at.alignment(product.w) < 16)
    return "matrices whose lines are no aligned 16-byte pieces";
  return {};
}

// Every device of Vulkan has 32 KiB of shared memory or more where it has matrices.
std::string expert_coop_refusal(const OfferContext& at, const WeightedProduct& product) {
  constexpr int64_t kMostExpertsOfCoop = 512;
  if (auto refusal = too_many_experts(product, kMostExpertsOfCoop)) return *refusal;
  return expert_tiles_refusal(at, product);
}

bool emit_expert_tiles(LowerContext& ctx, const WeightedProduct& product) {
  const ExpertTile tile = expert_tile(kExpertTiles, product);
  const int64_t stages = expert_stages(tile, product);
  auto dispatch = ctx.dispatch<KernelId::dequant_mma>();
  define_expert_tiles(ctx, dispatch, product, tile, kExpertColumns * kColumnTiles);
  dispatch.workgroup({narrow<uint32_t>(32 * kExpertWarps)})
      .define("RLX_WARPS_N", kExpertWarps / tile.warps_m)
      .define("RLX_STAGES", stages)
      .define("RLX_COLUMN_TILES", kColumnTiles)
      .define("RLX_MIN_GROUPS", 2)
      .reason("tensor cores: " + expert_tiles_text(tile) + ", " + std::to_string(stages) +
              " stages");
  return true;
}

// Each subgroup has 32 columns.
bool emit_expert_coop(LowerContext& ctx, const WeightedProduct& product) {
  constexpr int64_t kWarpsN = kExpertColumns / 32;
  const ExpertTile tile = expert_tile(kExpertCoopTiles, product);
  auto dispatch = ctx.dispatch<KernelId::dequant_coop>();
  define_expert_tiles(ctx, dispatch, product, tile, kExpertColumns);
  dispatch.workgroup({narrow<uint32_t>(RLX_MATRIX_SUBGROUP * tile.warps_m * kWarpsN)})
      .define("RLX_MATRIX", std::string(name_of(product.x.dtype())))
      .define("RLX_WARPS_N", kWarpsN)
      .reason("cooperative matrices: " + expert_tiles_text(tile));
  return true;
}

}  // namespace rlx
