// SPDX-License-Identifier: Apache-2.0
// Large products of 16-bit operands, plain or as a gated pair, by the matmul_wgmma kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

// What the choice of tiles depends on.
struct TiledSize {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool gated = false;
  bool residual = false;
  bool heavy_activation = false;  // tens of operations per element: erf, tanh
};

// As a row of the table has them (product_offers.h): refuses what gains nothing by its size too.
std::string wgmma_refusal(const OfferContext& at, const FusedProduct& fused);
double wgmma_time(const OfferContext& at, const FusedProduct& fused);
bool emit_wgmma(LowerContext& ctx, const FusedProduct& fused);
// The time by size alone, on a device of the model.
double wgmma_microseconds(const DeviceModel& device, const TiledSize& size);

}  // namespace rlx
