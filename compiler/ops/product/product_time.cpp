// SPDX-License-Identifier: Apache-2.0
// What the estimates of products share.
#include "compiler/ops/product/product_time.h"

namespace rlx {

double moving_microseconds(const DeviceModel& device, int64_t bytes) {
  return static_cast<double>(bytes) / device.memory_gigabytes_per_second * 1e-3;
}

}  // namespace rlx
