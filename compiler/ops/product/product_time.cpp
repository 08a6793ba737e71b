// SPDX-License-Identifier: Apache-2.0
// Rates of products against the memory's.
#include "compiler/ops/product/product_time.h"

#include <algorithm>

#include "compiler/ops/product/matmul_emit.h"
#include "compiler/support/sampled_sizes.h"

namespace rlx {
namespace {

double teraflops_of(const ProductRates& rates, const ProductWork& work) {
  if (work.dtype != DType::f32) return rates.short_float;
  return work.precision == ProductPrecision::Tf32 ? rates.tf32 : rates.f32;
}

}  // namespace

double rate_microseconds(const ProductRates& rates, const DeviceModel& device,
                         const ProductWork& work) {
  const double computing = static_cast<double>(work.flops) / teraflops_of(rates, work) * 1e-6;
  const double moving = static_cast<double>(work.bytes) / device.memory_gigabytes_per_second * 1e-3;
  return std::max(computing, moving) + device.step_microseconds;
}

bool is_deep_sum(const Product& product) {
  constexpr int64_t kLeast = 8192;
  return product.k >= kLeast && product.a.line == 1 && product.b.line == 1;
}

std::vector<ProductWork> works_of(const OfferContext& at, const Product& product) {
  const Dim flops = flops_of(product);
  const Dim bytes = least_bytes(product);
  return at_sampled_sizes({product.m, product.n, batch_count(product)},
                          [&](const SampledSizes& sampled) {
                            ProductWork work = work_of(at, product);
                            work.flops = static_cast<uint64_t>(sampled.value(flops));
                            work.bytes = static_cast<uint64_t>(sampled.value(bytes));
                            return work;
                          });
}

ProductWork work_of(const OfferContext& at, const Product& product) {
  return {.dtype = product.a.ref.dtype(),
          .precision = at.products(),
          .flops = static_cast<uint64_t>(flops_of(product).bound()),
          .bytes = static_cast<uint64_t>(least_bytes(product).bound())};
}

}  // namespace rlx
