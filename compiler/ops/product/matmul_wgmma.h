// SPDX-License-Identifier: Apache-2.0
// Large products of 16-bit operands, plain or as a gated pair, and convolutions as such products,
// by the matmul_wgmma kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/ops/lowering/conv_window.h"
#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

// What the choice of tiles depends on.
struct TiledSize {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t bytes = 0;  // read and written once
  bool of_window = false;
  bool gated = false;
  bool residual = false;
  bool heavy_activation = false;  // tens of operations per element: erf, tanh
};

// As a row of the table has them (product_offers.h): refuses what gains nothing by its size too.
std::string wgmma_refusal(const OfferContext& at, const FusedProduct& fused);
double wgmma_time(const OfferContext& at, const FusedProduct& fused);
bool emit_wgmma(LowerContext& ctx, const FusedProduct& fused);

// A convolution as a product: lines of a are what lies under the windows of x, [KERNEL_H, KERNEL_W,
// C] of each pixel of y; lines of b are filters in the same order.
struct WindowProduct {
  FusedProduct fused;  // whose a is x
  Window window;
  Dim images = 0;
  int64_t channels = 0;
};
// Of which the pixels of x are a.line apart, channels dense.
std::string wgmma_window_refusal(const OfferContext& at, const WindowProduct& product);
double wgmma_window_time(const OfferContext& at, const WindowProduct& product);
// Of fixed sizes, by the tiles of `largest`.
double wgmma_window_time_of(const OfferContext& at, const WindowProduct& largest,
                            const WindowProduct& product);
// By the tiles of `for_tiles`: the same product, perhaps of sizes that are known.
bool emit_wgmma_window(LowerContext& ctx, const WindowProduct& product,
                       const WindowProduct& for_tiles);

// The time by size alone, on a device of the model.
double wgmma_microseconds(const DeviceModel& device, const TiledSize& size);

}  // namespace rlx
