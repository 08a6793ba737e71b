// SPDX-License-Identifier: Apache-2.0
// The schedule of a program: hazards, waves, lifetimes, arena, and at last the edges between
// physical bytes.
#include "compiler/lower/schedule.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/lower/arena.h"
#include "compiler/lower/hazards.h"
#include "compiler/lower/liveness.h"
#include "compiler/lower/waves.h"
#include "compiler/support/checked.h"
#include "schema/plan_header.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// Order, waves, lifetimes and slots of one assignment of waves.
struct Draft {
  Schedule schedule;
  Slots slots;
  ArenaLayout layout;
};

Draft make_draft(const WavePlan& plan, const LivenessModel& liveness) {
  Draft draft;
  Schedule& schedule = draft.schedule;
  schedule.wave_count = plan.wave_count;
  schedule.wave_choice = plan.name;
  schedule.order.resize(plan.wave_of_step.size());
  std::iota(schedule.order.begin(), schedule.order.end(), 0u);
  std::stable_sort(schedule.order.begin(), schedule.order.end(), [&](uint32_t a, uint32_t b) {
    return plan.wave_of_step[a] < plan.wave_of_step[b];
  });
  for (const uint32_t step : schedule.order) schedule.wave.push_back(plan.wave_of_step[step]);
  liveness.fill(schedule);
  draft.slots = liveness.slots(schedule);
  return draft;
}

bool better(const Draft& a, const Draft& b) {
  if (a.layout.height_bytes != b.layout.height_bytes) {
    return a.layout.height_bytes < b.layout.height_bytes;
  }
  return a.schedule.wave_count < b.schedule.wave_count;
}

// The draft with the smallest arena; of equal ones that with fewest waves; of equal ones the one
// with the smaller live set, then the earlier candidate. Candidates are tried from the smallest
// live set on, first with the greedy packers, then those that can still win with the searches.
Draft choose_draft(const std::vector<WavePlan>& plans, const LivenessModel& liveness,
                   uint64_t search_budget) {
  std::vector<size_t> by_peak(plans.size());
  std::iota(by_peak.begin(), by_peak.end(), size_t{0});
  std::stable_sort(by_peak.begin(), by_peak.end(),
                   [&](size_t a, size_t b) { return plans[a].cost.peak < plans[b].cost.peak; });
  const auto bound_of = [&](size_t plan) { return plans[plan].cost.peak * kArenaAlignmentBytes; };

  std::optional<Draft> best;
  for (const size_t plan : by_peak) {
    if (best && bound_of(plan) > best->layout.height_bytes) break;
    Draft draft = make_draft(plans[plan], liveness);
    draft.layout = pack(draft.slots.items, kArenaAlignmentBytes,
                        {.local_search_budget = 0, .exact_search_budget = 0});
    if (!best || better(draft, *best)) best = std::move(draft);
  }
  const uint64_t share = search_budget / (2 * plans.size());
  for (const size_t plan : by_peak) {
    if (bound_of(plan) >= best->layout.height_bytes) break;
    Draft draft = make_draft(plans[plan], liveness);
    draft.layout = pack(draft.slots.items, kArenaAlignmentBytes,
                        {.local_search_budget = share, .exact_search_budget = share});
    if (better(draft, *best)) best = std::move(draft);
  }
  return std::move(*best);
}

void place_buffers(const Program& program, const Draft& draft, Schedule& schedule) {
  schedule.buffer_offsets.assign(program.buffers.size(), 0);
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const std::optional<uint32_t> slot = draft.slots.slot_of_buffer[i];
    if (!slot) continue;
    schedule.buffer_offsets[i] = draft.layout.offsets[*slot];
    schedule.unplanned_bytes += round_up(
        static_cast<uint64_t>(program.buffers[i].size_bytes.bound()), kArenaAlignmentBytes);
  }
  schedule.arena_bytes = draft.layout.height_bytes;
  schedule.lower_bound_bytes = draft.layout.lower_bound_bytes;
  schedule.packer = draft.layout.packer;
}

// Adds edges from all other steps of a region to the last one, where that writes its word.
void set_words_last(const Program& program, std::span<const StepRegion> regions, Edges& edges) {
  for (const StepRegion& region : regions) {
    const uint32_t last = region.end() - 1;
    const std::vector<Access>& accesses = program.steps[last].accesses;
    const bool writes_word =
        region.word && std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
          return access.buffer == *region.word && access.mode != AccessMode::Read;
        });
    if (!writes_word) continue;
    std::vector<uint32_t>& before = edges[last];
    for (uint32_t step = region.first_step; step < last; ++step) before.push_back(step);
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
  }
}

// Adds edges from all steps before a bound of a region to all behind it, by way of the last and
// the first ones between two bounds: a region has waves of its own.
void set_regions_apart(const Program& program, std::span<const StepRegion> regions, Edges& edges) {
  std::vector<uint32_t> bounds = {0};
  for (const StepRegion& region : regions) {
    bounds.push_back(region.first_step);
    bounds.push_back(region.end());
  }
  bounds.push_back(narrow<uint32_t>(program.steps.size()));
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  std::vector<uint32_t> last_before;  // the steps of the part before that no other of it waits for
  for (size_t part = 0; part + 1 < bounds.size(); ++part) {
    const uint32_t begin = bounds[part];
    std::vector<bool> is_waited_for(bounds[part + 1] - begin, false);
    for (uint32_t step = begin; step < bounds[part + 1]; ++step) {
      std::vector<uint32_t>& before = edges[step];
      const auto own = std::lower_bound(before.begin(), before.end(), begin);
      for (auto edge = own; edge != before.end(); ++edge) is_waited_for[*edge - begin] = true;
      if (own != before.end()) continue;
      before.insert(before.end(), last_before.begin(), last_before.end());
      std::sort(before.begin(), before.end());
      before.erase(std::unique(before.begin(), before.end()), before.end());
    }
    last_before.clear();
    for (uint32_t step = begin; step < bounds[part + 1]; ++step)
      if (!is_waited_for[step - begin]) last_before.push_back(step);
  }
}

}  // namespace

Schedule schedule(const Program& program, const ScheduleOptions& options) {
  std::vector<uint32_t> program_order(program.steps.size());
  std::iota(program_order.begin(), program_order.end(), 0u);
  Edges hazards = find_hazards(program, program_order, logical_places(program), options.regions);
  set_words_last(program, options.regions, hazards);
  if (!options.regions.empty()) set_regions_apart(program, options.regions, hazards);
  const LivenessModel liveness(program, options.in_place, options.regions);

  const std::vector<WavePlan> plans = wave_candidates(hazards, liveness, options);
  Draft draft = choose_draft(plans, liveness, options.search_budget);
  Schedule schedule = std::move(draft.schedule);
  place_buffers(program, draft, schedule);

  // Values that follow each other at one address are hazards too; the waves already keep them
  // apart.
  schedule.edges = find_hazards(program, schedule.order,
                                physical_places(program, schedule.buffer_offsets), options.regions);
  reduce_transitively(schedule.edges);
  // Waves are in the order of the regions, so their steps stand where they stood.
  schedule.regions.assign(options.regions.begin(), options.regions.end());
  for (uint32_t position = 1; options.serial && position < schedule.edges.size(); ++position)
    schedule.edges[position] = {position - 1};
  return schedule;
}

}  // namespace rlx
