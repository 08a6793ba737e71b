// SPDX-License-Identifier: Apache-2.0
// States from files.
#include "tools/rlxrun/states.h"

#include <algorithm>

#include "schema/random_states.h"
#include "tools/rlxrun/errors.h"
#include "tools/rlxrun/state_file.h"

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

void write_state(rlx_session* session, const Tensor& state, const std::vector<std::byte>& data) {
  rlx_tensor tensor = RLX_INIT(rlx_tensor);
  tensor.data = data.data();
  tensor.size_bytes = data.size();
  tensor.dtype = state.dtype;
  tensor.rank = static_cast<uint32_t>(state.dims.size());
  std::copy(state.dims.begin(), state.dims.end(), tensor.dims);
  check(rlx_session_write_state(session, state.name.c_str(), nullptr, &tensor));
}

}  // namespace

States load_states(const rlx_plan* plan, const Options& options) {
  States states{
      .all = describe_states(plan), .initial = {}, .loaded = {}, .dumped = {}, .seed = {}};
  if (!options.load_states.empty())
    states.loaded = read_state_file(options.load_states, states.all);
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
  for (size_t i = 0; i < states.loaded.size(); ++i)
    write_state(session, states.all[i], states.loaded[i]);
  if (states.seed) check(rlx_session_set_seed(session, *states.seed, 0));
  for (size_t i = 0; i < states.all.size(); ++i) {
    if (states.initial.given[i]) write_state(session, states.all[i], states.initial.arrays[i].data);
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

void save_states(rlx_session* session, const States& states, const std::string& path) {
  std::vector<std::vector<std::byte>> data;
  for (const Tensor& state : states.all) {
    data.emplace_back(state.size_bytes);
    check(rlx_session_read_state(session, state.name.c_str(), nullptr, data.back().data(),
                                 data.back().size()));
  }
  write_state_file(path, states.all, data);
}

}  // namespace rlx::tool
