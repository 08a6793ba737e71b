// SPDX-License-Identifier: Apache-2.0
// Lifetimes in waves, and in-place takeovers where an input dies.
#include "compiler/lower/liveness.h"

#include <algorithm>
#include <string>

#include "compiler/support/checked.h"
#include "schema/plan_header.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

const Access* only_access(const Step& step, BufferId buffer) {
  const Access* found = nullptr;
  for (const Access& access : step.accesses) {
    if (access.buffer != buffer || access.range_bytes == 0) continue;
    if (found) return nullptr;
    found = &access;
  }
  return found;
}

const Access* only_write(const Program& program, const Step& step) {
  const Access* found = nullptr;
  for (const Access& access : step.accesses) {
    if (access.mode == AccessMode::Read || access.range_bytes == 0) continue;
    if (program.buffer(access.buffer).segment == Segment::IndexErrors) continue;
    if (found) return nullptr;
    found = &access;
  }
  return found;
}

// The access covers a buffer from its first byte on, and its pointer is at that byte.
bool from_start(const Access& access) {
  return access.offset_bytes == 0 && access.range_offset_bytes == 0;
}

uint64_t bound_bytes(const Buffer& buffer) {
  return static_cast<uint64_t>(buffer.size_bytes.bound());
}

uint64_t arena_units(const Buffer& buffer) {
  return ceil_div(bound_bytes(buffer), kArenaAlignmentBytes);
}

// The takeover that the step's hint allows, before any question of lifetimes: one dense read and
// the only write (but for the count of its bad indices), of equal ranges from the buffers' starts,
// in slots of equal size.
std::optional<InPlaceChance> chance_of(const Program& program, uint32_t step_index) {
  const Step& step = program.steps[step_index];
  if (!step.in_place_input) return std::nullopt;
  const Access* read = only_access(step, *step.in_place_input);
  const Access* write = only_write(program, step);
  if (!read || !write || read->mode != AccessMode::Read || write->mode != AccessMode::Write) {
    return std::nullopt;
  }
  if (write->buffer == read->buffer || only_access(step, write->buffer) != write)
    return std::nullopt;
  const Buffer& input = program.buffer(read->buffer);
  const Buffer& output = program.buffer(write->buffer);
  if (input.segment != Segment::Arena || output.segment != Segment::Arena) return std::nullopt;
  if (!from_start(*read) || !from_start(*write) || read->range_bytes != write->range_bytes ||
      arena_units(input) != arena_units(output)) {
    return std::nullopt;
  }
  return InPlaceChance{.step = step_index, .input = read->buffer, .output = write->buffer};
}

}  // namespace

LivenessModel::LivenessModel(const Program& program, bool in_place,
                             std::span<const StepRegion> regions)
    : program_(&program), users_(program.buffers.size()), used_by_(program.steps.size()) {
  for (const Buffer& buffer : program.buffers) units_.push_back(arena_units(buffer));
  for (uint32_t step = 0; step < program.steps.size(); ++step) {
    for (const Access& access : program.steps[step].accesses) {
      const Buffer& buffer = program.buffer(access.buffer);
      if (buffer.segment != Segment::Arena || access.range_bytes == 0) continue;
      std::vector<uint32_t>& users = users_[index_of(access.buffer)];
      RLX_CHECK(!users.empty() || access.mode != AccessMode::Read,
                "node \"" + program.steps[step].node + "\" reads arena buffer \"" + buffer.name +
                    "\" that no earlier step wrote");
      if (!users.empty() && users.back() == step) continue;
      users.push_back(step);
      used_by_[step].push_back(access.buffer);
    }
    if (!in_place) continue;
    if (const auto chance = chance_of(program, step)) chances_.push_back(*chance);
  }
  for (const StepRegion& region : regions) add_region(region);
}

void LivenessModel::add_region(const StepRegion& region) {
  for (const std::optional<BufferId>& word : {region.word, std::optional(region.counter)}) {
    if (!word) continue;
    region_words_.push_back(*word);
    std::vector<uint32_t>& users = users_[index_of(*word)];
    const auto place = std::lower_bound(users.begin(), users.end(), region.first_step);
    if (place != users.end() && *place == region.first_step) continue;
    users.insert(place, region.first_step);
    used_by_[region.first_step].push_back(*word);
  }
  for (uint32_t i = 0; i < users_.size(); ++i) {
    const std::vector<uint32_t>& users = users_[i];
    const auto inside = static_cast<size_t>(std::count_if(
        users.begin(), users.end(), [&](uint32_t step) { return region.holds(step); }));
    if (inside > 0 && inside < users.size())
      stretched_.push_back({.buffer = BufferId{i}, .region = &region});
  }
}

// Nothing is taken over at an end that a region gives: two users stand for more than one.
void LivenessModel::stretch(std::span<const uint32_t> wave_of_step, uint32_t count,
                            std::vector<WaveRange>& ranges) const {
  constexpr uint32_t kSeveral = 2;
  for (const Stretched& stretched : stretched_) {
    WaveRange& range = ranges[index_of(stretched.buffer)];
    const auto steps =
        wave_of_step.subspan(stretched.region->first_step, stretched.region->step_count);
    const auto [first, last] = std::minmax_element(steps.begin(), steps.end());
    if (*first <= range.first) {
      range.first = *first;
      range.first_users = kSeveral;
    }
    if (*last >= range.last) {
      range.last = *last;
      range.last_users = kSeveral;
    }
  }
  for (const BufferId word : region_words_) {
    ranges[index_of(word)] = {
        .first = 0, .last = count - 1, .first_users = kSeveral, .last_users = kSeveral};
  }
}

std::vector<LivenessModel::WaveRange> LivenessModel::ranges(
    std::span<const uint32_t> wave_of_step) const {
  std::vector<WaveRange> ranges(users_.size());
  for (size_t i = 0; i < users_.size(); ++i) {
    if (users_[i].empty()) continue;
    WaveRange range{.first = wave_of_step[users_[i].front()],
                    .last = wave_of_step[users_[i].front()]};
    for (const uint32_t step : users_[i]) {
      const uint32_t wave = wave_of_step[step];
      if (wave < range.first)
        range = {.first = wave, .last = range.last, .last_users = range.last_users};
      if (wave > range.last)
        range = {.first = range.first, .last = wave, .first_users = range.first_users};
      range.first_users += wave == range.first ? 1 : 0;
      range.last_users += wave == range.last ? 1 : 0;
    }
    ranges[i] = range;
  }
  if (!region_words_.empty() || !stretched_.empty())
    stretch(wave_of_step, *std::max_element(wave_of_step.begin(), wave_of_step.end()) + 1, ranges);
  return ranges;
}

// The step is alone in its wave with both buffers; the input has no later user and the output no
// earlier one.
bool LivenessModel::taken(const InPlaceChance& chance, uint32_t wave,
                          std::span<const WaveRange> ranges) {
  const WaveRange& input = ranges[index_of(chance.input)];
  const WaveRange& output = ranges[index_of(chance.output)];
  return input.last == wave && input.last_users == 1 && output.first == wave &&
         output.first_users == 1;
}

WaveCost LivenessModel::cost(std::span<const uint32_t> wave_of_step, uint32_t wave_count) const {
  const std::vector<WaveRange> all = ranges(wave_of_step);
  std::vector<uint64_t> change(wave_count + 1, 0);  // differences; wrap, their running sum does not
  for (size_t i = 0; i < users_.size(); ++i) {
    if (users_[i].empty()) continue;
    change[all[i].first] += units_[i];
    change[all[i].last + 1] -= units_[i];
  }
  for (const InPlaceChance& chance : chances_) {
    const uint32_t wave = wave_of_step[chance.step];
    if (!taken(chance, wave, all)) continue;
    // In the wave of the takeover the slot counts once.
    change[wave] -= units_[index_of(chance.input)];
    change[wave + 1] += units_[index_of(chance.input)];
  }
  WaveCost cost;
  uint64_t live = 0;
  for (uint32_t wave = 0; wave < wave_count; ++wave) {
    live += change[wave];
    cost.peak = std::max(cost.peak, live);
    cost.total += live;
  }
  return cost;
}

void LivenessModel::fill(Schedule& schedule) const {
  std::vector<uint32_t> position_of(schedule.order.size());
  std::vector<uint32_t> wave_of_step(schedule.order.size());
  for (uint32_t position = 0; position < schedule.order.size(); ++position) {
    position_of[schedule.order[position]] = position;
    wave_of_step[schedule.order[position]] = schedule.wave[position];
  }
  schedule.lifetimes.assign(users_.size(), std::nullopt);
  schedule.in_place_of.assign(users_.size(), std::nullopt);
  const std::vector<WaveRange> waves = ranges(wave_of_step);
  const std::vector<WaveRange> positions = ranges(position_of);
  for (size_t i = 0; i < users_.size(); ++i) {
    if (users_[i].empty()) continue;
    schedule.lifetimes[i] = Lifetime{.first_wave = waves[i].first,
                                     .last_wave = waves[i].last,
                                     .first_position = positions[i].first,
                                     .last_position = positions[i].last};
  }
  for (const InPlaceChance& chance : chances_) {
    if (!taken(chance, wave_of_step[chance.step], waves)) continue;
    schedule.in_place_of[index_of(chance.output)] = chance.input;
  }
}

Slots LivenessModel::slots(const Schedule& schedule) const {
  Slots slots;
  slots.slot_of_buffer.resize(users_.size());
  // By first wave, so that a buffer comes after the one that it takes over.
  std::vector<uint32_t> buffers;
  for (uint32_t i = 0; i < users_.size(); ++i) {
    if (!users_[i].empty()) buffers.push_back(i);
  }
  std::stable_sort(buffers.begin(), buffers.end(), [&](uint32_t a, uint32_t b) {
    return schedule.lifetimes[a]->first_position < schedule.lifetimes[b]->first_position;
  });
  for (const uint32_t buffer : buffers) {
    const Lifetime& lifetime = *schedule.lifetimes[buffer];
    if (const std::optional<BufferId> source = schedule.in_place_of[buffer]) {
      const uint32_t slot = *slots.slot_of_buffer[index_of(*source)];
      slots.slot_of_buffer[buffer] = slot;
      slots.items[slot].last = lifetime.last_wave;
      slots.items[slot].bytes =
          std::max(slots.items[slot].bytes, bound_bytes(program_->buffers[buffer]));
      continue;
    }
    slots.slot_of_buffer[buffer] = narrow<uint32_t>(slots.items.size());
    slots.items.push_back({.bytes = bound_bytes(program_->buffers[buffer]),
                           .first = lifetime.first_wave,
                           .last = lifetime.last_wave});
  }
  return slots;
}

}  // namespace rlx
