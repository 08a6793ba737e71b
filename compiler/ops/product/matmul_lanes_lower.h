// SPDX-License-Identifier: Apache-2.0
// The kernel matmul_lanes: products on devices that are CPUs. As a row of the table has it
// (product_offers.h).
#pragma once

#include <string>

#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

bool is_for_lanes(const DeviceModel& device);
std::string lanes_refusal(const OfferContext& at, const FusedProduct& fused);
double lanes_time(const OfferContext& at, const FusedProduct& fused);
bool emit_lanes(LowerContext& ctx, const FusedProduct& fused);

}  // namespace rlx
