// SPDX-License-Identifier: Apache-2.0
// From a product over strided views to a dispatch of matmul_lanes.
#include "compiler/ops/product/matmul_lanes_lower.h"

#include <cmath>

#include "compiler/ops/product/matmul_emit.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// One instance of shaders/vulkan/matmul_lanes.comp.
struct LaneTile {
  uint32_t vectors = 1;   // fours of columns of a lane
  double efficiency = 1;  // against the wide tile
  static constexpr uint32_t kLanes = 8;
  static constexpr uint32_t kRows = 4 * kLanes;

  [[nodiscard]] uint32_t columns() const { return 4 * kLanes * vectors; }
};

struct LaneSize {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batches = 1;
};

struct LaneChoice {
  LaneTile tile;
  double microseconds = 0;
};

LaneSize lane_size(const Product& product) {
  return {.m = product.m.bound(),
          .n = product.n.bound(),
          .k = product.k.bound(),
          .batches = batch_count(product).bound()};
}

double lane_microseconds(const LaneSize& size, const LaneTile& tile, const DeviceModel& device) {
  const int64_t tiles =
      ceil_div(size.m, LaneTile::kRows) * ceil_div(size.n, tile.columns()) * size.batches;
  const double rounds = std::ceil(static_cast<double>(tiles) / device.multiprocessors);
  const double products =
      static_cast<double>(LaneTile::kRows) * tile.columns() * static_cast<double>(size.k);
  return device.step_microseconds +
         rounds * products / (device.lane_tiles.products * tile.efficiency);
}

LaneChoice choose_lane_tile(const LaneSize& size, const DeviceModel& device) {
  constexpr LaneTile kWide = {.vectors = 2};
  constexpr LaneTile kNarrow = {.vectors = 1, .efficiency = 0.8};
  const double wide = lane_microseconds(size, kWide, device);
  const double narrow = lane_microseconds(size, kNarrow, device);
  return narrow < wide ? LaneChoice{kNarrow, narrow} : LaneChoice{kWide, wide};
}

}  // namespace

bool is_for_lanes(const DeviceModel& device) {
  return device.lane_tiles.products > 0;
}

std::string lanes_refusal(const OfferContext&, const FusedProduct& fused) {
  if (std::string beside = beside_refusal(fused); !beside.empty()) return beside;
  return accumulator_of(fused.product.a.ref.dtype()) == DType::f64 ? "sums of f64" : "";
}

double lanes_time(const OfferContext& at, const FusedProduct& fused) {
  return choose_lane_tile(lane_size(fused.product), at.device()).microseconds;
}

bool emit_lanes(LowerContext& ctx, const FusedProduct& fused) {
  const Product& product = fused.product;
  const LaneSize size = lane_size(product);
  const LaneTile tile = choose_lane_tile(size, ctx.device()).tile;
  const Dim groups = ceil_div(product.m, LaneTile::kRows) * ceil_div(product.n, tile.columns()) *
                     batch_count(product);
  auto dispatch = ctx.dispatch<KernelId::matmul_lanes>();
  define_product(ctx, dispatch, product, ProductPass::Whole);
  const std::string a_axis = vector_axis(ctx, product.a, product.m, product.k);
  const std::string b_axis = vector_axis(ctx, product.b, product.n, product.k);
  dispatch.workgroup({LaneTile::kLanes, 1, 1})
      .define("RLX_VECTORS", tile.vectors)
      .define("RLX_PAIRED_LOADS", 1)
      .define("RLX_A", std::string(name_of(product.a.ref.dtype())))
      .define("RLX_B", std::string(name_of(product.b.ref.dtype())))
      .size("RLX_A_LINE", product.a.line)
      .size("RLX_A_DEPTH", product.a.depth)
      .size("RLX_B_LINE", product.b.line)
      .size("RLX_B_DEPTH", product.b.depth)
      .define("RLX_A_VECTOR", a_axis)
      .define("RLX_B_VECTOR", b_axis)
      .grid(split_grid(groups))
      .work(least_bytes(product), flops_of(product))
      .estimate(
          [size, tile](const DeviceModel& device) { return lane_microseconds(size, tile, device); })
      .reason(reason_of(product, "eight lanes: " + std::to_string(LaneTile::kRows) + "x" +
                                     std::to_string(tile.columns()) + " tile, " +
                                     to_string(groups) + " workgroups"));
  bind_operands(dispatch, product, vector_bytes(product.a.ref, a_axis != "1"),
                vector_bytes(product.b.ref, b_axis != "1"));
  bind_epilogue(ctx, dispatch, product);
  return true;
}

}  // namespace rlx
