// SPDX-License-Identifier: Apache-2.0
// Which buffers may be one, and making them one.
#include "compiler/lower/share_scratch.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace rlx {
namespace {

// A buffer that steps of one alternate alone access, or several that are to be one.
struct Scratch {
  std::vector<BufferId> buffers;
  std::vector<const Step*> steps;
};

// By node, in the order of the buffers.
std::map<std::string, std::vector<Scratch>> scratch_of_alternates(const Program& program) {
  std::vector<std::vector<const Step*>> steps_of(program.buffers.size());
  for_each_step(program, [&steps_of](const Step& step) {
    for (const Access& access : step.accesses) steps_of[index_of(access.buffer)].push_back(&step);
  });
  std::map<std::string, std::vector<Scratch>> by_node;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const std::vector<const Step*>& steps = steps_of[b];
    if (program.buffers[b].segment != Segment::Arena || steps.empty()) continue;
    const std::string& node = steps.front()->node;
    const bool is_own = std::ranges::all_of(
        steps, [&node](const Step* step) { return step->served && step->node == node; });
    if (is_own) by_node[node].push_back({.buffers = {BufferId(b)}, .steps = steps});
  }
  return by_node;
}

bool may_be_one(const Scratch& a, const Scratch& b) {
  return std::ranges::all_of(a.steps, [&b](const Step* step) {
    return std::ranges::all_of(b.steps,
                               [step](const Step* other) { return are_exclusive(*step, *other); });
  });
}

std::vector<Scratch> shared(std::vector<Scratch> scratch) {
  std::vector<Scratch> result;
  for (Scratch& own : scratch) {
    const auto place = std::ranges::find_if(
        result, [&own](const Scratch& other) { return may_be_one(own, other); });
    if (place == result.end()) {
      result.push_back(std::move(own));
      continue;
    }
    place->buffers.insert(place->buffers.end(), own.buffers.begin(), own.buffers.end());
    place->steps.insert(place->steps.end(), own.steps.begin(), own.steps.end());
  }
  return result;
}

}  // namespace

void share_scratch(Program& program) {
  std::map<BufferId, BufferId> one_for;
  for (auto& [node, scratch] : scratch_of_alternates(program)) {
    for (const Scratch& group : shared(std::move(scratch))) {
      if (group.buffers.size() < 2) continue;
      // A number: each of the sizes is known of those of its own alternate alone.
      int64_t bytes = 0;
      for (const BufferId id : group.buffers) {
        bytes = std::max(bytes, program.buffer(id).size_bytes.bound());
        one_for[id] = group.buffers.front();
      }
      Buffer& one = program.buffers.at(index_of(group.buffers.front()));
      one.size_bytes = bytes;
      one.type = {.dtype = DType::u8, .shape = {bytes}};
    }
  }
  const auto rename = [&one_for](Step& step) {
    for (Access& access : step.accesses) {
      const auto found = one_for.find(access.buffer);
      if (found != one_for.end()) access.buffer = found->second;
    }
  };
  for (Step& step : program.steps) {
    rename(step);
    std::ranges::for_each(step.alternatives, rename);
  }
}

}  // namespace rlx
