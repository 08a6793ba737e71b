// SPDX-License-Identifier: Apache-2.0
// What --state and --dump-state ask of a session's states.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/rlxrun/handles.h"
#include "tools/rlxrun/inputs.h"
#include "tools/rlxrun/options.h"

namespace rlx::tool {

struct States {
  std::vector<Tensor> all;                     // of the plan
  Matched initial;                             // of --state
  std::vector<std::vector<std::byte>> loaded;  // of --load-states, as `all`; empty: none
  std::vector<uint32_t> dumped;                // of --dump-state, in its order
  std::optional<uint64_t> seed;                // of --seed, where the plan draws random numbers
};

// Reads the files; refuses, by a Failure, names that the plan has not and tensors that do not fit.
States load_states(const rlx_plan* plan, const Options& options);

// All states begin anew: as the files and the seed say, the others as the plan says.
void begin_states(rlx_session* session, const States& states);

struct DumpedState {
  Tensor tensor;
  std::vector<std::byte> data;
};
// As they are now.
std::vector<DumpedState> read_states(rlx_session* session, const States& states);
// Writes all of them to a file.
void save_states(rlx_session* session, const States& states, const std::string& path);

}  // namespace rlx::tool
