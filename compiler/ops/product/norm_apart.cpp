// SPDX-License-Identifier: Apache-2.0
// The norm, then the product by whatever serves it without one.
#include "compiler/ops/product/norm_apart.h"

#include <algorithm>
#include <utility>

#include "compiler/ops/product/product_offers.h"
#include "compiler/ops/rows/norm_lower.h"

namespace rlx {
namespace {

FusedProduct without_norm(const FusedProduct& fused) {
  FusedProduct plain = fused;
  plain.norm.reset();
  return plain;
}

// Whether a kernel has the norm of as few lines as a run may give.
bool is_prologue_of_fewest(const OfferContext& at, const FusedProduct& fused) {
  const Dim& lines = fused.product.m;
  const int64_t least = std::max<int64_t>(lines.range().least, 1);
  return is_least_once(lines) &&
         choose(own_product_offers(), at, at_size(fused, least)).row != nullptr;
}

}  // namespace

std::string norm_apart_refusal(const OfferContext& at, const FusedProduct& fused) {
  if (!fused.norm) return "no norm before it";
  const bool is_free = has_free_lines(fused.product);
  // What passes fuse where lines are known has a kernel.
  if (!is_free && !fused.any_lines) return "lines that are known";
  if (is_free && !is_prologue_of_fewest(at, fused)) return "no kernel has the norm of fewer lines";
  return choose(product_offers(), at, without_norm(fused)).row == nullptr ? "no kernel without it"
                                                                          : "";
}

double norm_apart_time(const OfferContext& at, const FusedProduct& fused) {
  const TensorType x{.dtype = fused.product.a.ref.dtype(),
                     .shape = {fused.product.m, fused.product.k}};
  return copy_microseconds(at.device(), x, x) +
         choose(product_offers(), at, without_norm(fused)).microseconds;
}

bool emit_norm_apart(LowerContext& ctx, const FusedProduct& fused) {
  FusedProduct plain = without_norm(fused);
  const TensorRef x = fused.product.a.ref;
  plain.product.a.ref = ctx.scratch(x.type, "normed");
  return emit_rms_norm(ctx, {.x = x,
                             .y = plain.product.a.ref,
                             .gamma = fused.norm->gamma,
                             .eps = fused.norm->eps,
                             .gamma_offset = fused.norm->gamma_offset}) &&
         lower_by_offers(ctx, product_offers(), plain);
}

}  // namespace rlx
