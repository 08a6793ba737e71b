// SPDX-License-Identifier: Apache-2.0
// Copies into states, and the steps that could have written there.
#include "compiler/lower/state_writes.h"

#include <algorithm>
#include <optional>
#include <string>

namespace rlx {
namespace {

bool is_whole(const Program& program, const Access& access) {
  return access.offset_bytes == 0 && access.range_offset_bytes == 0 &&
         access.range_bytes == program.buffer(access.buffer).size_bytes;
}

// A copy of all that an arena buffer holds to all of a state.
struct StateCopy {
  size_t step = 0;
  BufferId from{};
  BufferId state{};
};

std::optional<StateCopy> state_copy_at(const Program& program, size_t index) {
  const Step& step = program.steps[index];
  if (step.kind != StepKind::Copy) return std::nullopt;
  const Access& from = step.accesses[0];
  const Access& to = step.accesses[1];
  if (program.buffer(to.buffer).segment != Segment::State || !is_whole(program, to) ||
      program.buffer(from.buffer).segment != Segment::Arena || !is_whole(program, from))
    return std::nullopt;
  return StateCopy{.step = index, .from = from.buffer, .state = to.buffer};
}

bool touches(const Step& step, BufferId buffer) {
  return std::any_of(step.accesses.begin(), step.accesses.end(), [&](const Access& access) {
    return access.buffer == buffer && !(access.range_bytes == 0);
  });
}

bool is_of_state(const Program& program, const Access& access, StateId state) {
  return program.buffer(access.buffer).state == state && !(access.range_bytes == 0);
}

bool touches_state(const Program& program, const Step& step, StateId state) {
  return std::any_of(step.accesses.begin(), step.accesses.end(),
                     [&](const Access& access) { return is_of_state(program, access, state); });
}

// The step reads each element of the state before the same thread writes that of the buffer.
bool may_take_over(const Program& program, const Step& step, const StateCopy& copy) {
  const bool allowed =
      step.in_place_input == copy.state ||
      std::count(step.in_place_states.begin(), step.in_place_states.end(), copy.state) > 0;
  const StateId state = *program.buffer(copy.state).state;
  return allowed && step.alternatives.empty() &&
         std::all_of(step.accesses.begin(), step.accesses.end(), [&](const Access& access) {
           if (access.buffer == copy.from)
             return access.mode == AccessMode::Write && is_whole(program, access);
           if (!is_of_state(program, access, state)) return true;
           return access.buffer == copy.state && access.mode == AccessMode::Read &&
                  is_whole(program, access);
         });
}

// Why the copy must stay; empty where it need not.
std::string refusal(const Program& program, const StateCopy& copy) {
  const StateId state = *program.buffer(copy.state).state;
  const auto first = std::find_if(program.steps.begin(), program.steps.end(),
                                  [&](const Step& step) { return touches(step, copy.from); });
  for (auto step = first; step != program.steps.end(); ++step) {
    const auto index = static_cast<size_t>(step - program.steps.begin());
    if (index == copy.step || !touches_state(program, *step, state)) continue;
    if (step == first && may_take_over(program, *step, copy)) continue;
    const std::string reader = step->op + " \"" + step->node + "\"";
    return step == first
               ? reader + " reads the state's old value elsewhere than where it writes the new one"
               : reader + " uses the state's old value after " + first->op + " \"" + first->node +
                     "\" has begun the new one";
  }
  return {};
}

void move_to_state(Program& program, const StateCopy& copy) {
  const auto move = [&](Step& step) {
    for (Access& access : step.accesses) {
      if (access.buffer == copy.from) access.buffer = copy.state;
    }
    if (step.in_place_input == copy.from) step.in_place_input.reset();
  };
  program.steps.erase(program.steps.begin() + static_cast<ptrdiff_t>(copy.step));
  for (Step& step : program.steps) {
    move(step);
    for (Step& other : step.alternatives) move(other);
  }
}

}  // namespace

void write_states_in_place(Program& program) {
  for (size_t i = 0; i < program.steps.size();) {
    const std::optional<StateCopy> copy = state_copy_at(program, i);
    std::string why = copy ? refusal(program, *copy) : std::string();
    if (copy && why.empty()) {
      move_to_state(program, *copy);
      continue;
    }
    if (copy) program.steps[i].reason += ": " + why;
    ++i;
  }
}

}  // namespace rlx
