// SPDX-License-Identifier: Apache-2.0
// What a large product is expected to take by the rates of a device model: the one estimate by
// which matmul_mma and the vendor's library are held against other kernels.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "compiler/dispatch/device_model.h"
#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

struct ProductWork {
  DType dtype{};  // of the operands
  ProductPrecision precision = ProductPrecision::F32;
  uint64_t flops = 0;
  uint64_t bytes = 0;  // read and written once
};

// Microseconds of one step: its arithmetic or its bytes, whichever takes longer, and the time from
// one step to the next.
double rate_microseconds(const ProductRates& rates, const DeviceModel& device,
                         const ProductWork& work);

// A sum over many places of what stands there side by side, as gradients of weights are: both
// operands lie along m and n. It takes as long as they take to come through the cache.
bool is_deep_sum(const Product& product);

// The work of the product itself; of one with free sizes, that at each of a few (sampled_sizes.h).
ProductWork work_of(const OfferContext& at, const Product& product);
std::vector<ProductWork> works_of(const OfferContext& at, const Product& product);

// One number for what takes so long at each of a few sizes: the time itself for one size, else the
// geometric mean, so that a factor counts the same at small sizes and at large ones.
template <typename Size, typename Time>
double mean_over_sizes(const std::vector<Size>& sizes, const Time& time) {
  if (sizes.size() == 1) return time(sizes.front());
  double sum = 0;
  for (const Size& size : sizes) sum += std::log(time(size));
  return std::exp(sum / static_cast<double>(sizes.size()));
}

}  // namespace rlx
