// SPDX-License-Identifier: Apache-2.0
// The rows of the table of products.
#include "compiler/ops/product/product_offers.h"

#include <algorithm>
#include <array>

#include "compiler/ops/product/matmul_coop_lower.h"
#include "compiler/ops/product/matmul_lanes_lower.h"
#include "compiler/ops/product/matmul_library.h"
#include "compiler/ops/product/matmul_mma_lower.h"
#include "compiler/ops/product/matmul_thread_lower.h"
#include "compiler/ops/product/matmul_wgmma.h"
#include "compiler/ops/product/matvec_stream_lower.h"
#include "compiler/ops/product/norm_apart.h"

namespace rlx {
namespace {

constexpr std::array kProductOffers = {
    // Reads its matrix at the memory's speed, which no other does.
    ProductOffer{{.kernel = KernelId::matvec_stream,
                  .rank = 0,
                  .estimate = Estimate::Bound,
                  .refusal = stream_refusal,
                  .microseconds = stream_bound,
                  .emit = emit_stream}},
    // Tiles would stay mostly empty.
    ProductOffer{{.kernel = KernelId::matvec,
                  .rank = 1,
                  .estimate = Estimate::Bound,
                  .refusal = vectors_refusal,
                  .microseconds = vectors_bound,
                  .emit = emit_vectors},
                 true},
    // On matrix units, by time.
    ProductOffer{{.kernel = KernelId::matmul_mma,
                  .rank = 2,
                  .refusal = mma_refusal,
                  .microseconds = mma_time,
                  .emit = emit_mma,
                  .takes_free_sizes = true},
                 true,
                 true},
    ProductOffer{{.kernel = KernelId::matmul_wgmma,
                  .rank = 2,
                  .refusal = wgmma_refusal,
                  .microseconds = wgmma_time,
                  .emit = emit_wgmma,
                  .takes_free_sizes = true},
                 false,
                 true},
    ProductOffer{{.kernel = KernelId::matmul_coop,
                  .rank = 2,
                  .refusal = coop_refusal,
                  .microseconds = coop_time,
                  .emit = emit_coop,
                  .takes_free_sizes = true,
                  .microseconds_of = coop_time_of},
                 true,
                 true},
    ProductOffer{{.kernel = {},
                  .form = "library",
                  .rank = 2,
                  .refusal = library_refusal,
                  .microseconds = library_time,
                  .emit = emit_library,
                  .takes_free_sizes = true},
                 true,
                 true},
    // Of sizes at which no kernel has the norm.
    ProductOffer{{.kernel = {},
                  .form = "norm apart",
                  .rank = 2,
                  .refusal = norm_apart_refusal,
                  .microseconds = norm_apart_time,
                  .emit = emit_norm_apart,
                  .takes_free_sizes = true}},
    // Takes every product by itself; slower than matrix units wherever these fit.
    ProductOffer{{.kernel = KernelId::matmul,
                  .rank = 3,
                  .refusal = tiles_refusal,
                  .microseconds = tiles_time,
                  .emit = emit_tiles,
                  .takes_free_sizes = true,
                  .microseconds_of = tiles_time_of},
                 true},
    // The same on a CPU.
    ProductOffer{{.kernel = KernelId::matmul_lanes,
                  .rank = 3,
                  .refusal = lanes_refusal,
                  .microseconds = lanes_time,
                  .emit = emit_lanes,
                  .is_for = is_for_lanes,
                  .takes_free_sizes = true},
                 true},
};

constexpr auto kOwnOffers = [] {
  constexpr size_t kOthers = 2;
  std::array<ProductOffer, kProductOffers.size() - kOthers> own;
  std::copy_if(kProductOffers.begin(), kProductOffers.end(), own.begin(),
               [](const ProductOffer& row) { return row.kernel.has_value(); });
  return own;
}();

ProductOperand rows_of(DType dtype, const Dim& lines, const Dim& depth) {
  return {.ref = dense_ref({}, {dtype, {lines, depth}}), .batch = {}, .line = depth, .depth = 1};
}

}  // namespace

std::span<const ProductOffer> product_offers() {
  return kProductOffers;
}

std::span<const ProductOffer> own_product_offers() {
  return kOwnOffers;
}

FusedProduct product_of_types(const ProductTypes& types) {
  FusedProduct fused{
      .product = {.batch = {},
                  .m = types.m,
                  .n = types.n,
                  .k = types.k,
                  .a = rows_of(types.x, types.m, types.k),
                  .b = rows_of(types.w, types.n, types.k),
                  .bias = {},
                  .residual = {},
                  .y = dense_ref({}, {types.y.value_or(types.x), {types.m, types.n}}),
                  .activation = {.op = types.activation},
                  .note = {}}};
  if (types.normed) fused.norm = NormPrologue{};
  if (types.gated) fused.second = rows_of(types.w, types.n, types.k);
  return fused;
}

}  // namespace rlx
