// SPDX-License-Identifier: Apache-2.0
// The kernel matmul_coop: products on cooperative matrices.
#pragma once

#include <optional>
#include <string>

#include "compiler/ops/product/matmul_lower.h"
#include "compiler/ops/product/window_lines.h"

namespace rlx {

// Whether it takes operands of that type: 16 bits, and f32 in parts where sums are added by
// element.
bool coop_multiplies(const OfferContext& at, DType dtype);

// As a row of the table has them (product_offers.h). Emits the dispatch, and the one that joins
// sums where k is split.
std::string coop_refusal(const OfferContext& at, const FusedProduct& fused);
double coop_time(const OfferContext& at, const FusedProduct& fused);
// The same of what is emitted for the lines up to those of `largest`: splits of the depth stay.
double coop_time_of(const OfferContext& at, const FusedProduct& largest, const FusedProduct& fused);
bool emit_coop(LowerContext& ctx, const FusedProduct& fused);

// The same where product.a.ref is an image [N, C, H, W] and b [n, taps * C] is dense and aligned to
// 16 bytes; a's strides are not read. Entries of a batch are bundles of groups of channels.
bool emit_coop(LowerContext& ctx, const Product& product, const WindowLines& lines);
// Of m lines that are windows, each of k elements, by n filters; for each bundle.
struct CoopWindows {
  DType dtype;
  Dim m;
  int64_t n = 0;
  int64_t k = 0;
  int64_t bundles = 1;
};
// What the latter is expected to take; at fixed sizes, of what is emitted for those up to
// `largest`.
double window_coop_time(const OfferContext& at, const CoopWindows& windows);
double window_coop_time_of(const OfferContext& at, const CoopWindows& largest,
                           const CoopWindows& windows);

}  // namespace rlx
