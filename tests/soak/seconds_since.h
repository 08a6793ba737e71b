// SPDX-License-Identifier: Apache-2.0
// Times of a campaign.
#pragma once

#include <chrono>

namespace rlx::soak {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace rlx::soak
