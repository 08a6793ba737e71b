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

// A copy of all that an arena buffer holds to all of a state, or of what a region carries.
struct StateCopy {
  size_t step = 0;
  BufferId from{};
  BufferId state{};
  size_t first_step = 0;  // of those that may know either
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

// All buffers of a state are its bytes.
bool is_of_state(const Program& program, const Access& access, BufferId home) {
  const std::optional<StateId>& state = program.buffer(home).state;
  const bool is_same =
      access.buffer == home || (state && program.buffer(access.buffer).state == state);
  return is_same && !(access.range_bytes == 0);
}

bool touches_state(const Program& program, const Step& step, BufferId home) {
  return std::any_of(step.accesses.begin(), step.accesses.end(),
                     [&](const Access& access) { return is_of_state(program, access, home); });
}

// The step reads each element of the state before the same thread writes that of the buffer.
bool may_take_over(const Program& program, const Step& step, const StateCopy& copy) {
  const bool allowed =
      step.in_place_input == copy.state ||
      std::count(step.in_place_states.begin(), step.in_place_states.end(), copy.state) > 0;
  return allowed && step.alternatives.empty() &&
         std::all_of(step.accesses.begin(), step.accesses.end(), [&](const Access& access) {
           if (access.buffer == copy.from)
             return access.mode == AccessMode::Write && is_whole(program, access);
           if (!is_of_state(program, access, copy.state)) return true;
           return access.buffer == copy.state && access.mode == AccessMode::Read &&
                  is_whole(program, access);
         });
}

// Why the copy must stay; empty where it need not.
std::string refusal(const Program& program, const StateCopy& copy) {
  const auto first =
      std::find_if(program.steps.begin() + static_cast<ptrdiff_t>(copy.first_step),
                   program.steps.end(), [&](const Step& step) { return touches(step, copy.from); });
  for (auto step = first; step != program.steps.end(); ++step) {
    const auto index = static_cast<size_t>(step - program.steps.begin());
    if (index == copy.step || !touches_state(program, *step, copy.state)) continue;
    if (step == first && may_take_over(program, *step, copy)) continue;
    std::string reason = step->op + " \"" + step->node + "\"";
    reason += step == first ? " reads " : " uses ";
    reason += program.buffer(copy.state).state ? "the state's old value" : "the old value";
    if (step == first) return reason + " elsewhere than where it writes the new one";
    reason += " after " + first->op + " \"" + first->node + "\" has begun the new one";
    return reason;
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
  for (size_t i = copy.first_step; i < program.steps.size(); ++i) {
    move(program.steps[i]);
    for (Step& other : program.steps[i].alternatives) move(other);
  }
}

// The whole of a buffer that is made in the trip itself, by kernels.
bool is_made_by_kernels(const Program& program, const StateCopy& copy) {
  const Step& step = program.steps[copy.step];
  // Another copy of the same value may have moved it.
  if (!touches(step, copy.from)) return false;
  if (!std::all_of(step.accesses.begin(), step.accesses.end(),
                   [&](const Access& access) { return is_whole(program, access); }))
    return false;
  const Buffer& from = program.buffer(copy.from);
  if (from.segment != Segment::Arena || from.size_bytes != program.buffer(copy.state).size_bytes)
    return false;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    if (!touches(program.steps[i], copy.from)) continue;
    if (i < copy.first_step || program.steps[i].kind != StepKind::Dispatch) return false;
  }
  return true;
}

// Whether both touch a buffer, and one of them writes it.
bool must_wait(const Step& one, const Step& other) {
  for (const Access& access : one.accesses) {
    for (const Access& later : other.accesses) {
      const bool reads_only = access.mode == AccessMode::Read && later.mode == AccessMode::Read;
      if (access.buffer == later.buffer && !reads_only) return true;
    }
  }
  return false;
}

// Puts the step that makes what is copied behind all others but the copy, where none of these waits
// for it.
bool move_to_end(Program& program, StateCopy& copy) {
  const auto makes =
      std::find_if(program.steps.begin() + static_cast<ptrdiff_t>(copy.first_step),
                   program.steps.end(), [&](const Step& step) { return touches(step, copy.from); });
  const auto copies = program.steps.begin() + static_cast<ptrdiff_t>(copy.step);
  if (std::any_of(makes + 1, copies, [&](const Step& step) { return must_wait(*makes, step); }))
    return false;
  std::rotate(makes, makes + 1, copies);
  return true;
}

}  // namespace

void write_carries_in_place(Program& program, size_t first_step, std::vector<CarryCopy> copies) {
  for (size_t i = 0; i < copies.size(); ++i) {
    StateCopy copy{.step = copies[i].step,
                   .from = copies[i].from,
                   .state = copies[i].carry,
                   .first_step = first_step};
    if (!is_made_by_kernels(program, copy)) continue;
    const std::string why = refusal(program, copy);
    if (!why.empty()) {
      program.steps[copy.step].reason += ": " + why;
      continue;
    }
    if (copies[i].is_last && !move_to_end(program, copy)) {
      program.steps[copy.step].reason += ": other steps wait for what makes it";
      continue;
    }
    move_to_state(program, copy);
    for (size_t j = i + 1; j < copies.size(); ++j) --copies[j].step;
  }
}

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
