// SPDX-License-Identifier: Apache-2.0
// Independent check of a schedule, by comparing all pairs. It shares no code with the scheduler and
// the packers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/lower/schedule.h"

namespace rlx {

enum class ScheduleFaultKind : uint8_t {
  Shape,   // a list has the wrong length, or an index is out of range
  Order,   // not a permutation, waves out of order, or conflicting steps in another order than in
           // the program
  Access,  // an access outside its buffer, or a read of arena bytes that nothing wrote
  Placement,    // an offset misaligned or outside the arena
  Lifetime,     // a recorded lifetime is not what the accesses say
  InPlace,      // a takeover that the steps do not allow
  Overlap,      // two buffers live in one wave share bytes
  SameWave,     // two conflicting steps in one wave
  MissingEdge,  // two conflicting steps without a path of edges between them
  SpareEdge,    // an edge that the others imply
  Accounting,   // recorded totals are not what the buffers say
};

struct ScheduleFault {
  ScheduleFaultKind kind;
  std::string message;  // names the steps' nodes or the buffers
};

// Every fault found; empty for a right schedule. O(n^2) in accesses and buffers.
std::vector<ScheduleFault> check_schedule(const Program& program, const Schedule& schedule);

}  // namespace rlx
