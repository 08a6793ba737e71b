// SPDX-License-Identifier: Apache-2.0
// When each step of a Program runs and where each arena buffer lies.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/dispatch/program.h"
#include "compiler/lower/step_region.h"

namespace rlx {

// Waves and positions (indices into Schedule::order) during which a buffer's bytes are in use, all
// inclusive.
struct Lifetime {
  uint32_t first_wave = 0;
  uint32_t last_wave = 0;
  uint32_t first_position = 0;
  uint32_t last_position = 0;
  bool operator==(const Lifetime&) const = default;
};

// Steps of one wave do not depend on each other; a barrier stands between waves, so there are
// wave_count - 1 of them.
struct Schedule {
  std::vector<uint32_t> order;  // position -> index of the program's step; waves never decrease
  std::vector<uint32_t> wave;   // per position
  // Per position: earlier positions that must finish first, ascending, transitively reduced.
  std::vector<std::vector<uint32_t>> edges;
  uint32_t wave_count = 0;
  std::vector<uint64_t> buffer_offsets;  // per buffer: offset in the arena; 0 for other segments
  std::vector<std::optional<Lifetime>> lifetimes;  // per buffer: Arena buffers that a step accesses
  // Per buffer: the buffer whose bytes it takes over when that one dies.
  std::vector<std::optional<BufferId>> in_place_of;
  uint64_t arena_bytes = 0;
  // Largest sum of live bytes over all waves: no packing of these waves is smaller.
  uint64_t lower_bound_bytes = 0;
  uint64_t unplanned_bytes = 0;          // what all arena buffers would take without reuse
  std::string packer;                    // which packer found the offsets, e.g. "size-first-fit"
  std::vector<StepRegion> regions = {};  // by positions
  std::string wave_choice;  // which assignment of waves won, e.g. "as-late-as-possible"
};

// What to give up for what.
enum class ScheduleGoal : uint8_t {
  Speed,   // as few waves as the longest chain of dependent steps needs, then as little memory as
           // possible
  Memory,  // as little memory as possible, then as few waves as possible
};

struct ScheduleOptions {
  bool in_place = true;
  ScheduleGoal goal = ScheduleGoal::Speed;
  // Of the program, which they must outlive: each has waves of its own, what lives into it lives to
  // its end, its words share their bytes with nothing, and a step that writes the word is alone in
  // the last wave.
  std::span<const StepRegion> regions = {};
  bool serial = false;  // each step alone in its wave, in the program's order
  // Elementary operations that each search (waves, packing by local search, packing exactly) may
  // spend; a count and not a time, so that a program has one schedule on every machine.
  uint64_t search_budget = 100'000'000;
};

// Orders the steps, cuts them into waves and packs the arena. The program's step order is its
// meaning: steps that touch the same bytes, at least one of them writing, keep their order. Reading
// arena bytes of a buffer that no earlier step wrote is an internal error. Deterministic.
Schedule schedule(const Program& program, const ScheduleOptions& options = {});

}  // namespace rlx
