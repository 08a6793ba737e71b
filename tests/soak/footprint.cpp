// SPDX-License-Identifier: Apache-2.0
// The footprint as /proc tells it.
#include "tests/soak/footprint.h"

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace rlx::soak {

static_assert(steady_growth({100, 104, 108, 112, 116}) == 16, "a leak is told");
static_assert(steady_growth({100, 100, 4196, 4196, 4196}) == 0, "a step is none");
static_assert(steady_growth({100, 90, 95, 99, 104}) < 0, "what comes back is none");

namespace {

// "Rss:  1234 kB": exact, where statm's count may lag behind by pages of every core.
uint64_t resident_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  while (file >> word) {
    uint64_t kibibytes = 0;
    if (word == "Rss:" && file >> kibibytes) return kibibytes * 1024;
  }
  throw std::runtime_error("/proc/self/smaps_rollup does not say how much memory is resident");
}

uint32_t entries_of(const char* folder) {
  uint32_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

}  // namespace

Footprint footprint_now() {
  return {.resident_bytes = resident_bytes(),
          .descriptors = entries_of("/proc/self/fd"),
          .threads = entries_of("/proc/self/task")};
}

}  // namespace rlx::soak
