// SPDX-License-Identifier: Apache-2.0
// What a process holds, to show that it stays flat.
#pragma once

#include <cstdint>

namespace rlx::soak {

struct Footprint {
  uint64_t resident_bytes = 0;
  // Objects that a run could leave behind, as the system counts them: file descriptors (fences,
  // exported memory) and threads.
  uint32_t descriptors = 0;
  uint32_t threads = 0;

  [[nodiscard]] uint32_t objects() const { return descriptors + threads; }
};

// Of this process, now. Throws std::runtime_error where /proc does not say.
Footprint footprint_now();

}  // namespace rlx::soak
