// SPDX-License-Identifier: Apache-2.0
// States from files.
#include "tools/rlxrun/states.h"

#include <algorithm>

#include "schema/random_states.h"
#include "tools/rlxrun/errors.h"

namespace rlx::tool {
namespace {

uint32_t find_state(const std::vector<Tensor>& states, const std::string& name) {
  std::string names;
  for (uint32_t i = 0; i < states.size(); ++i) {
    if (states[i].name == name) return i;
    names += (names.empty() ? "" : ", ") + states[i].name + " " + type_text(states[i]);
  }
  throw Failure(ExitCode::InputRefused,
                "--dump-state: there is no state \"" + name +
                    "\"; the states are: " + (names.empty() ? "none" : names));
}

bool draws_random(const std::vector<Tensor>& states) {
  return std::any_of(states.begin(), states.end(), [](const Tensor& state) {
    return state.name == kRandomSeedState || state.name == kRandomStepState;
  });
}

}  // namespace

States load_states(const rlx_plan* plan, const Options& options) {
  States states{.all = describe_states(plan), .initial = {}, .dumped = {}, .seed = {}};
  states.initial = match_files(
      options.states, states.all, "state",
      [](const Tensor& tensor, npy::Element element, const std::vector<uint64_t>& dims) {
        require_same_type("state", tensor, element, dims);
      });
  for (const TensorFile& dump : options.state_dumps)
    states.dumped.push_back(find_state(states.all, dump.name));
  if (!options.gives_seed) return states;
  if (draws_random(states.all)) {
    states.seed = options.seed;
  } else if (!options.seeded) {
    throw Failure(ExitCode::InputRefused,
                  "--seed: the plan draws no random numbers, and there is no --seeded");
  }
  return states;
}

void begin_states(rlx_session* session, const States& states) {
  check(rlx_session_reset_states(session));
  if (states.seed) check(rlx_session_set_seed(session, *states.seed, 0));
  for (size_t i = 0; i < states.all.size(); ++i) {
    if (!states.initial.given[i]) continue;
    const npy::Array& array = states.initial.arrays[i];
    rlx_tensor tensor = RLX_INIT(rlx_tensor);
    tensor.data = array.data.data();
    tensor.size_bytes = array.data.size();
    tensor.dtype = states.all[i].dtype;
    tensor.rank = static_cast<uint32_t>(array.dims.size());
    std::copy(array.dims.begin(), array.dims.end(), tensor.dims);
    check(rlx_session_write_state(session, states.all[i].name.c_str(), nullptr, &tensor));
  }
}

std::vector<DumpedState> read_states(rlx_session* session, const States& states) {
  std::vector<DumpedState> dumped;
  for (const uint32_t i : states.dumped) {
    const Tensor& tensor = states.all[i];
    DumpedState& dump =
        dumped.emplace_back(DumpedState{tensor, std::vector<std::byte>(tensor.size_bytes)});
    check(rlx_session_read_state(session, tensor.name.c_str(), nullptr, dump.data.data(),
                                 dump.data.size()));
  }
  return dumped;
}

}  // namespace rlx::tool
