// SPDX-License-Identifier: Apache-2.0
// New values of states that are computed where the old ones lie.
#pragma once

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

}  // namespace rlx
