// SPDX-License-Identifier: Apache-2.0
// Nearest-rank percentiles.
#include "tools/rlxrun/stats.h"

#include <algorithm>
#include <cmath>

namespace rlx::tool {

Summary summarize(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto rank = [&](double share) {
    const double position = std::ceil(share * static_cast<double>(samples.size())) - 1;
    return samples[static_cast<size_t>(std::max(position, 0.0))];
  };
  return {.min = samples.front(), .median = rank(0.5), .p90 = rank(0.9), .p99 = rank(0.99)};
}

}  // namespace rlx::tool
