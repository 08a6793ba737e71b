// SPDX-License-Identifier: Apache-2.0
// What the estimates of products share. A product's kernels are held against each other, and
// against kernels of other tables, by what a step of a network takes, from its begin to its end.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "compiler/dispatch/device_model.h"
#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

// Microseconds in which memory reads and writes `bytes`.
double moving_microseconds(const DeviceModel& device, int64_t bytes);

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
