// SPDX-License-Identifier: Apache-2.0
// The kernel matmul_lanes: products on devices that are CPUs. As a row of the table has it
// (product_offers.h).
#pragma once

#include <string>

#include "compiler/ops/product/matmul_lower.h"
#include "compiler/ops/product/window_lines.h"

namespace rlx {

bool is_for_lanes(const DeviceModel& device);
std::string lanes_refusal(const OfferContext& at, const FusedProduct& fused);
double lanes_time(const OfferContext& at, const FusedProduct& fused);
bool emit_lanes(LowerContext& ctx, const FusedProduct& fused);
// The same where the lines of a are windows: product.a.ref is images [N, C, H, W], in each batch
// entry from a's offset on; its line and depth are not read. b [n, taps * C / batches].
bool emit_lanes(LowerContext& ctx, const Product& product, const WindowLines& lines);
// What the latter is expected to take, of m lines with k elements each by n filters.
double window_lanes_time(const OfferContext& at, const Dim& m, int64_t n, int64_t k,
                         int64_t batches);

}  // namespace rlx
