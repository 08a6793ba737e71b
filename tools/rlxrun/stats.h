// SPDX-License-Identifier: Apache-2.0
// Summary of repeated measurements.
#pragma once

#include <vector>

namespace rlx::tool {

struct Summary {
  double min = 0;
  double median = 0;
  double p90 = 0;
  double p99 = 0;
};

// Percentiles by nearest rank, so each is a value that was measured. Of nothing: zeros.
Summary summarize(std::vector<double> samples);

}  // namespace rlx::tool
