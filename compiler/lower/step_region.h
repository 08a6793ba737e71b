// SPDX-License-Identifier: Apache-2.0
// Steps that run as often as the device decides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/dispatch/program.h"

namespace rlx {

// The body of a loop, or a branch, which takes one trip at most. Steps are those of a program, or
// positions of its schedule.
struct StepRegion {
  std::string name;  // of its node
  uint32_t first_step = 0;
  uint32_t step_count = 0;
  uint32_t most_trips = 1;
  // A u32 of the arena: before each trip, whether it runs; none: all trips do. The last step may
  // write it, and no other: drivers ask before a trip or before each of its commands.
  std::optional<BufferId> word = {};
  BufferId counter{};  // a u32 of the arena in which runtimes may count trips

  [[nodiscard]] uint32_t end() const { return first_step + step_count; }
  [[nodiscard]] bool holds(uint32_t step) const { return step >= first_step && step < end(); }
};

}  // namespace rlx
