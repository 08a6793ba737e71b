// SPDX-License-Identifier: Apache-2.0
// The work of one process: a plan, what runs beside it, and the time that it has.
#pragma once

#include <string>

#include "tests/soak/board.h"
#include "tests/soak/options.h"

namespace rlx::soak {

struct Task {
  std::string plan;
  Beside beside = Beside::None;
};

// Opens the device and puts its name on the board as a fault would be. Gives an exit code.
int probe(const Options& options, Board& board);

// Opens the device and replays until the task's replays or `seconds` (0: no limit) are over; at
// least two replays. What happens stands on the board. Gives the exit code: 0 where every call
// went well, whatever the outputs were.
int work(const Task& task, const Options& options, double seconds, Board& board);

}  // namespace rlx::soak
