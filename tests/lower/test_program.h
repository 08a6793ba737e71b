// SPDX-License-Identifier: Apache-2.0
// Short ways to write programs for the scheduler's tests: buffers of so many bytes, steps that read
// and write them.
#pragma once

#include <string>
#include <vector>

#include "compiler/dispatch/program.h"
#include "compiler/lower/schedule.h"
#include "compiler/support/check.h"
#include "tests/lower/check_schedule.h"

namespace rlx::test {

class TestProgram {
 public:
  Program program;

  BufferId add(Segment segment, const std::string& name, uint64_t bytes) {
    Buffer buffer{.name = name, .size_bytes = bytes, .segment = segment};
    buffer.type = {.dtype = DType::u8, .shape = {static_cast<int64_t>(bytes)}};
    if (segment == Segment::Weights) buffer.weight = WeightId(program.buffers.size());
    if (segment == Segment::State) buffer.state = StateId(program.buffers.size());
    return program.add_buffer(buffer);
  }
  BufferId arena(const std::string& name, uint64_t bytes) {
    return add(Segment::Arena, name, bytes);
  }
  BufferId io(const std::string& name, uint64_t bytes) { return add(Segment::Io, name, bytes); }

  [[nodiscard]] Access whole(BufferId buffer, AccessMode mode) const {
    return part(buffer, 0, program.buffer(buffer).size_bytes, mode);
  }
  [[nodiscard]] static Access part(BufferId buffer, uint64_t offset, uint64_t bytes,
                                   AccessMode mode) {
    return {.buffer = buffer,
            .offset_bytes = offset,
            .range_offset_bytes = offset,
            .range_bytes = bytes,
            .mode = mode};
  }
  Step& step(const std::string& node, std::vector<Access> accesses) {
    Step step;
    step.node = node;
    step.accesses = std::move(accesses);
    program.steps.push_back(std::move(step));
    return program.steps.back();
  }
  // A step that reads whole buffers and writes whole buffers.
  Step& step(const std::string& node, const std::vector<BufferId>& reads,
             const std::vector<BufferId>& writes) {
    std::vector<Access> accesses;
    for (const BufferId buffer : reads) accesses.push_back(whole(buffer, AccessMode::Read));
    for (const BufferId buffer : writes) accesses.push_back(whole(buffer, AccessMode::Write));
    return step(node, std::move(accesses));
  }
};

// The message of the internal error that scheduling the program ends in; empty where there is none.
inline std::string internal_error_of(const Program& program) {
  try {
    schedule(program);
  } catch (const InternalError& error) {
    return error.what();
  }
  return {};
}
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// All faults as text, one per line; empty for a right schedule.
inline std::string faults_of(const Program& program, const Schedule& schedule) {
  std::string text;
  for (const ScheduleFault& fault : check_schedule(program, schedule)) text += fault.message + "\n";
  return text;
}

inline bool has_fault(const Program& program, const Schedule& schedule, ScheduleFaultKind kind) {
  for (const ScheduleFault& fault : check_schedule(program, schedule)) {
    if (fault.kind == kind) return true;
  }
  return false;
}

// Position at which the step runs.
inline uint32_t position_of(const Schedule& schedule, uint32_t step) {
  for (uint32_t position = 0; position < schedule.order.size(); ++position) {
    if (schedule.order[position] == step) return position;
  }
  return ~uint32_t{0};
}
inline uint32_t wave_of(const Schedule& schedule, uint32_t step) {
  return schedule.wave[position_of(schedule, step)];
}

}  // namespace rlx::test
