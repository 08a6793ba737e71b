// SPDX-License-Identifier: Apache-2.0
// What a large product is expected to take by the rates of a device model: the one estimate by
// which matmul_mma and the vendor's library are held against other kernels.
#pragma once

#include <cstdint>

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

// The work of the product itself.
ProductWork work_of(const OfferContext& at, const Product& product);

}  // namespace rlx
