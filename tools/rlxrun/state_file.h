// SPDX-License-Identifier: Apache-2.0
// All states of a plan as one safetensors file: --save-states and --load-states.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/rlxrun/handles.h"

namespace rlx::tool {

// The bytes of every state, in the plan's order. Refuses, by a Failure, a file that is no
// safetensors file, and one of another model: states that it lacks or that the plan lacks, all of
// them by name, and states of other types.
std::vector<std::vector<std::byte>> read_state_file(const std::string& path,
                                                    const std::vector<Tensor>& states);

// Writes them, whole or not at all. Refuses states of types that safetensors files lack.
void write_state_file(const std::string& path, const std::vector<Tensor>& states,
                      const std::vector<std::vector<std::byte>>& data);

}  // namespace rlx::tool
