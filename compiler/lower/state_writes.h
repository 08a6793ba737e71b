// SPDX-License-Identifier: Apache-2.0
// New values of states that are computed where the old ones lie.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/dispatch/program.h"

namespace rlx {

// Lowering ends with copies of new values into their states. Where nothing reads a state's old
// value any more once its new value is begun, the steps write it to the state itself: the copy and
// its source in the arena go. The reasons of the copies that stay name what reads the old value.
//
// By the bytes that steps access, in the order of the program: whatever a step is, and however many
// make up the new value. A step that reads the old value while it begins the new one must have said
// that it may (Step::in_place_input, in_place_states).
void write_states_in_place(Program& program);

// A copy, at the end of a region's steps, of all that an arena buffer holds to all of one that the
// region carries.
struct CarryCopy {
  size_t step = 0;
  BufferId from{};
  BufferId carry{};
  bool is_last = false;  // what writes it must be the region's last step, and becomes that
};
// The same for what the region whose steps begin there carries: by its steps, which are the
// program's last. Copies and fills stay out of such places: not every device can leave them out of
// a trip that does not run.
void write_carries_in_place(Program& program, size_t first_step, std::vector<CarryCopy> copies);

}  // namespace rlx
