// SPDX-License-Identifier: Apache-2.0
// Lays a plan's values out in guarded memory and runs its steps one by one.
#include "tests/support/guarded_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "runtime/base/dtype.h"
#include "runtime/base/text.h"
#include "runtime/plan/free_sizes.h"

namespace rlx::test {
namespace {

// Values that share bytes lie in one block, as far apart as in the plan.
struct Group {
  uint64_t begin = 0;  // in the segment
  uint64_t end = 0;
  uint64_t alignment = 1;  // on which some kernel relies
  std::string name;
  uint32_t block = 0;
};

struct Spot {
  uint32_t group = 0;
  uint64_t offset_bytes = 0;  // from the group's begin
};

struct Record {
  const fb::Entry* entry = nullptr;
  uint32_t number = 0;      // of its entry
  std::vector<Spot> spots;  // per value
};

class GuardedPlan {
 public:
  GuardedPlan(GuardedDevice& device, const PlanView& plan, const GuardOptions& options)
      : device_(device), memory_(device.memory()), plan_(plan), options_(options) {}

  GuardedRun run(const std::vector<std::vector<std::vector<std::byte>>>& inputs) {
    if (!plan_.is_for(fb::TargetKind::Vulkan)) {
      result_.skipped = "no code for Vulkan";
      return std::move(result_);
    }
    for (uint32_t e = 0; e < plan_.entry_count(); ++e) {
      for (const fb::Entry* record : plan_.entry_ranges(e, fb::TargetKind::Vulkan)) {
        const std::span<const uint64_t> bound = plan_.bound_symbols();
        if (bound.empty() || is_made_for(*record, bound))
          records_.push_back({.entry = record, .number = e});
      }
    }
    const size_t entry_records = records_.size();
    const fb::Entry* init = plan_.init(fb::TargetKind::Vulkan);
    if (init != nullptr) records_.push_back({.entry = init});
    result_.skipped = why_not();
    if (!result_.skipped.empty()) return std::move(result_);
    group_weights_and_states();
    for (Record& record : records_) group_record(record);
    for (const Record& record : records_) note_alignments(record);
    if (!place()) return std::move(result_);
    fill_weights();
    if (init != nullptr) run_steps(records_.back());
    fill_states();
    for (size_t r = 0; r < entry_records && result_.skipped.empty(); ++r) {
      static const std::vector<std::vector<std::byte>> kRandom;
      const uint32_t e = records_[r].number;
      const bool is_given = e < inputs.size() && records_[r].entry->ranges() == nullptr;
      run_entry(records_[r], is_given ? inputs[e] : kRandom);
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::string why_not() const {
    if ((plan_.header().vulkan.features & ~device_.info().features) != 0)
      return "the device lacks a feature";
    for (const Record& record : records_) {
      for (const fb::Step& step : PlanView::steps(*record.entry)) {
        if (step.kind() != fb::StepKind::Dispatch) continue;
        const fb::Variant* variant =
            PlanView::first_variant(plan_.kernel(step.kernel()), fb::TargetKind::Vulkan);
        const uint64_t grid = uint64_t{step.grid_x()} * step.grid_y();
        const uint64_t group =
            uint64_t{variant->workgroup_x()} * variant->workgroup_y() * variant->workgroup_z();
        if (grid > options_.max_invocations ||
            grid * step.grid_z() > options_.max_invocations / std::max<uint64_t>(group, 1)) {
          return "a grid is too large to wait for";
        }
      }
    }
    return {};
  }

  uint32_t add_group(uint64_t begin, uint64_t end, std::string name) {
    groups_.push_back({.begin = begin, .end = end, .name = std::move(name)});
    return static_cast<uint32_t>(groups_.size() - 1);
  }

  void group_weights_and_states() {
    std::vector<const fb::Weight*> weights;
    for (const fb::Weight* weight : *plan_.index().weights()) {
      if (weight->size_bytes() > 0) weights.push_back(weight);
    }
    std::sort(weights.begin(), weights.end(), [](const fb::Weight* a, const fb::Weight* b) {
      return a->offset_bytes() < b->offset_bytes();
    });
    for (const fb::Weight* weight : weights) {
      const uint64_t end = weight->offset_bytes() + weight->size_bytes();
      const std::string name = text_of("weight ", quoted(PlanView::text(weight->name())));
      if (!weight_groups_.empty() && groups_[weight_groups_.back()].end > weight->offset_bytes()) {
        Group& shared = groups_[weight_groups_.back()];
        shared.end = std::max(shared.end, end);
        shared.name += text_of(" and ", name);
      } else {
        weight_groups_.push_back(add_group(weight->offset_bytes(), end, name));
      }
    }
    for (const fb::State* state : *plan_.index().states()) {
      state_groups_.push_back(add_group(state->offset_bytes(),
                                        state->offset_bytes() + state->size_bytes(),
                                        text_of("state ", quoted(PlanView::text(state->name())))));
    }
  }

  // The group of a weight or state that holds the value; a new one for a value without bytes.
  Spot owner_of(const fb::Value& value, const std::vector<uint32_t>& owners) {
    for (const uint32_t g : owners) {
      const Group& group = groups_[g];
      if (value.size_bytes() > 0 && value.offset_bytes() >= group.begin &&
          value.offset_bytes() + value.size_bytes() <= group.end) {
        return {.group = g, .offset_bytes = value.offset_bytes() - group.begin};
      }
    }
    return {.group = add_group(0, 0, "a value without bytes")};
  }

  // By value of the record: the first of those with which it shares bytes.
  static std::vector<uint32_t> aliases_of(const fb::Entry& entry) {
    std::vector<uint32_t> first(entry.values()->size());
    std::iota(first.begin(), first.end(), 0u);
    const auto root = [&](uint32_t v) {
      while (first[v] != v) v = first[v] = first[first[v]];
      return v;
    };
    for (uint32_t v = 0; v < first.size(); ++v) {
      const fb::Value& value = PlanView::value(entry, v);
      if (!value.alias_of().has_value() || value.segment() != fb::Segment::Arena) continue;
      const fb::Value& other = PlanView::value(entry, *value.alias_of());
      const bool overlap = other.segment() == value.segment() &&
                           value.offset_bytes() < other.offset_bytes() + other.size_bytes() &&
                           other.offset_bytes() < value.offset_bytes() + value.size_bytes();
      if (overlap) first[root(v)] = root(*value.alias_of());
    }
    for (uint32_t v = 0; v < first.size(); ++v) first[v] = root(v);
    return first;
  }

  void group_record(Record& record) {
    const std::vector<uint32_t> root = aliases_of(*record.entry);
    std::vector<uint32_t> group_of(root.size(), UINT32_MAX);
    record.spots.resize(root.size());
    for (uint32_t v = 0; v < root.size(); ++v) {
      const fb::Value& value = PlanView::value(*record.entry, v);
      if (value.segment() == fb::Segment::Weights) {
        record.spots[v] = owner_of(value, weight_groups_);
      } else if (value.segment() == fb::Segment::State) {
        record.spots[v] = owner_of(value, state_groups_);
      } else {
        uint32_t& group = group_of[root[v]];
        const uint64_t end = value.offset_bytes() + value.size_bytes();
        if (group == UINT32_MAX) {
          group = add_group(value.offset_bytes(), end,
                            text_of("value ", v, " ", quoted(PlanView::text(value.name()))));
        }
        groups_[group].begin = std::min(groups_[group].begin, value.offset_bytes());
        groups_[group].end = std::max(groups_[group].end, end);
        record.spots[v].group = group;
      }
    }
    for (uint32_t v = 0; v < root.size(); ++v) {
      const uint32_t group = group_of[root[v]];
      if (group == UINT32_MAX) continue;
      record.spots[v].offset_bytes =
          PlanView::value(*record.entry, v).offset_bytes() - groups_[group].begin;
    }
  }

  void note_alignments(const Record& record) {
    for (const fb::Step& step : PlanView::steps(*record.entry)) {
      if (step.kind() != fb::StepKind::Dispatch) continue;
      for (const fb::Relocation& range : PlanView::relocations(*record.entry, step)) {
        Group& group = groups_[record.spots[range.value()].group];
        for (const fb::KernelAccess* access : *plan_.kernel(step.kernel()).accesses()) {
          if (access->position() == range.position())
            group.alignment = std::max<uint64_t>(group.alignment, access->alignment());
        }
      }
    }
  }

  bool place() {
    memory_.reset(options_.side, options_.fill);
    uint64_t bytes = 0;
    for (Group& group : groups_) {
      bytes += group.end - group.begin;
      if (bytes > options_.max_bytes || !memory_.has_room(group.end - group.begin)) {
        result_.skipped = "its values are too large";
        return false;
      }
      group.block = memory_.add(group.end - group.begin, group.alignment, group.begin);
    }
    return true;
  }

  std::byte* open_block(uint32_t group, GuardAccess access) {
    memory_.allow(groups_[group].block, access);
    return memory_.data(groups_[group].block);
  }
  void close_all() {
    for (const Group& group : groups_) memory_.allow(group.block, GuardAccess::None);
  }

  void fill_weights() {
    for (const fb::Weight* weight : *plan_.index().weights()) {
      if (weight->kind() == fb::WeightKind::Generated || weight->size_bytes() == 0) continue;
      for (const uint32_t g : weight_groups_) {
        const Group& group = groups_[g];
        if (weight->offset_bytes() < group.begin || weight->offset_bytes() >= group.end) continue;
        std::byte* target =
            open_block(g, GuardAccess::Write) + weight->offset_bytes() - group.begin;
        const Status status =
            plan_.read_weights(weight->offset_bytes(), {target, weight->size_bytes()});
        if (!status.ok()) result_.faults.push_back(status.message());
      }
    }
    close_all();
  }

  void fill_states() {
    for (uint32_t i = 0; i < state_groups_.size(); ++i) {
      const fb::State& state = *plan_.index().states()->Get(i);
      if (state.size_bytes() == 0) continue;
      const std::span<std::byte> bytes(open_block(state_groups_[i], GuardAccess::Write),
                                       state.size_bytes());
      if (state.init() == fb::StateInit::Zeros) std::fill(bytes.begin(), bytes.end(), std::byte{0});
      if (state.init() != fb::StateInit::Weight) continue;
      const fb::Weight& weight = *plan_.index().weights()->Get(*state.init_weight());
      for (const uint32_t g : weight_groups_) {
        const Group& group = groups_[g];
        if (weight.offset_bytes() < group.begin || weight.offset_bytes() >= group.end) continue;
        std::memcpy(bytes.data(),
                    open_block(g, GuardAccess::Read) + weight.offset_bytes() - group.begin,
                    bytes.size());
      }
    }
    close_all();
  }

  std::span<std::byte> bytes_of(const Record& record, uint32_t v, GuardAccess access) {
    const Spot& spot = record.spots[v];
    return {open_block(spot.group, access) + spot.offset_bytes,
            PlanView::value(*record.entry, v).size_bytes()};
  }

  void run_entry(const Record& record, const std::vector<std::vector<std::byte>>& inputs) {
    const fb::Entry& entry = *record.entry;
    for (uint32_t i = 0; i < entry.inputs()->size(); ++i) {
      const uint32_t v = entry.inputs()->Get(i);
      const std::vector<std::byte> bytes =
          i < inputs.size() ? inputs[i] : random_input(PlanView::value(entry, v), i + 1);
      const std::span<std::byte> target = bytes_of(record, v, GuardAccess::Write);
      if (!target.empty()) std::memcpy(target.data(), bytes.data(), target.size());
    }
    for (uint32_t v = 0; v < entry.values()->size(); ++v) {
      if (PlanView::value(entry, v).segment() != fb::Segment::IndexErrors) continue;
      const std::span<std::byte> word = bytes_of(record, v, GuardAccess::Write);
      std::fill(word.begin(), word.end(), std::byte{0});
    }
    close_all();
    run_steps(record);
    if (!result_.skipped.empty()) return;
    std::vector<std::vector<std::byte>>& outputs = result_.outputs.emplace_back();
    for (const uint32_t v : *entry.outputs()) {
      const std::span<std::byte> bytes = bytes_of(record, v, GuardAccess::Read);
      outputs.emplace_back(bytes.begin(), bytes.end());
    }
    close_all();
  }

  void run_steps(const Record& record) {
    const std::span<const fb::Step> steps = PlanView::steps(*record.entry);
    for (uint32_t s = 0; s < steps.size() && result_.skipped.empty(); ++s) {
      const std::string name = text_of("entry ", quoted(PlanView::text(record.entry->name())), ", ",
                                       plan_.describe_step(*record.entry, s));
      memory_.set_label(name);
      run_step(record, steps[s], name);
    }
    memory_.set_label({});
  }

  // What a step may write, and what all the pages of the blocks around it held before.
  struct Written {
    uint32_t group = 0;
    std::vector<std::byte> before;
    std::vector<uint8_t> may_change;
  };

  void run_step(const Record& record, const fb::Step& step, const std::string& name) {
    const std::span<const fb::Relocation> ranges = PlanView::relocations(*record.entry, step);
    for (const fb::Relocation& range : ranges) {
      if (range.mode() == fb::AccessMode::Read)
        open_block(record.spots[range.value()].group, GuardAccess::Read);
    }
    std::vector<Written> written;
    for (const fb::Relocation& range : ranges) {
      if (range.mode() != fb::AccessMode::Read) note_written(record, range, written);
    }
    const Status status = execute(record, step, ranges);
    if (status.code() == RLX_UNSUITABLE_DEVICE) {
      result_.skipped = status.message();
    } else if (!status.ok()) {
      result_.faults.push_back(text_of(name, ": ", status.message()));
    }
    for (const GuardTouch& touch : memory_.take_touches()) report(touch, name);
    for (const Written& block : written) compare(block, name);
    close_all();
  }

  void note_written(const Record& record, const fb::Relocation& range,
                    std::vector<Written>& written) {
    const Spot& spot = record.spots[range.value()];
    const uint32_t block = groups_[spot.group].block;
    std::byte* data = open_block(spot.group, GuardAccess::Write);
    const std::span<std::byte> pages = memory_.pages(block);
    auto known = std::find_if(written.begin(), written.end(),
                              [&](const Written& other) { return other.group == spot.group; });
    if (known == written.end()) {
      written.push_back({.group = spot.group,
                         .before = {pages.begin(), pages.end()},
                         .may_change = std::vector<uint8_t>(pages.size(), 0)});
      known = written.end() - 1;
    }
    const auto first =
        (data - pages.data()) + static_cast<ptrdiff_t>(spot.offset_bytes + range.offset_bytes());
    if (!pages.empty())
      std::fill_n(known->may_change.begin() + first, range.length_bytes(), uint8_t{1});
  }

  void compare(const Written& block, const std::string& name) {
    const Group& group = groups_[block.group];
    const std::span<std::byte> pages = memory_.pages(group.block);
    memory_.allow(group.block, GuardAccess::Read);
    for (size_t i = 0; i < pages.size(); ++i) {
      if (block.may_change[i] != 0 || pages[i] == block.before[i]) continue;
      const int64_t offset = pages.data() + i - memory_.data(group.block);
      result_.faults.push_back(text_of(name, ": changed byte ", offset, " of ", group.name, " (",
                                       group.end - group.begin,
                                       " bytes), outside the ranges that it writes"));
      return;
    }
  }

  void report(const GuardTouch& touch, const std::string& name) {
    const auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& candidate) {
      return candidate.block == touch.block;
    });
    result_.faults.push_back(text_of(name, touch.is_write ? ": wrote" : ": read", " byte ",
                                     touch.offset_bytes, " of ", group->name, " (",
                                     group->end - group->begin, " bytes), which it may not"));
  }

  Status execute(const Record& record, const fb::Step& step,
                 std::span<const fb::Relocation> ranges) {
    const auto address = [&](const fb::Relocation& range) {
      const Spot& spot = record.spots[range.value()];
      return memory_.data(groups_[spot.group].block) + spot.offset_bytes + range.offset_bytes();
    };
    if (step.kind() == fb::StepKind::Dispatch) {
      const std::span<const std::byte> blob = plan_.params(step);
      std::array<std::byte, kMaxParamsBytes> params{};
      std::memcpy(params.data(), blob.data(), blob.size());
      for (const fb::Relocation& range : ranges) {
        uint64_t pointer = 0;
        std::memcpy(&pointer, params.data() + range.position(), sizeof pointer);
        pointer += reinterpret_cast<uintptr_t>(address(range));
        std::memcpy(params.data() + range.position(), &pointer, sizeof pointer);
      }
      return device_.dispatch(plan_, step, std::span(params).first(blob.size()));
    }
    const uint64_t length = ranges[0].length_bytes();
    if (step.kind() == fb::StepKind::Copy && length > 0)
      std::memcpy(address(ranges[1]), address(ranges[0]), length);
    if (step.kind() == fb::StepKind::Fill) {
      const uint32_t pattern = step.fill_pattern();
      for (uint64_t i = 0; i < length; i += sizeof pattern)
        std::memcpy(address(ranges[0]) + i, &pattern, sizeof pattern);
    }
    return {};
  }

  GuardedDevice& device_;
  GuardMemory& memory_;
  const PlanView& plan_;
  const GuardOptions options_;
  std::vector<Group> groups_;
  std::vector<uint32_t> weight_groups_;
  std::vector<uint32_t> state_groups_;
  std::vector<Record> records_;  // entries, then init
  GuardedRun result_;
};

}  // namespace

GuardedRun run_guarded(GuardedDevice& device, const PlanView& plan, const GuardOptions& options,
                       const std::vector<std::vector<std::vector<std::byte>>>& inputs) {
  return GuardedPlan(device, plan, options).run(inputs);
}

std::vector<std::byte> random_input(const fb::Value& value, uint64_t seed) {
  std::vector<std::byte> bytes(value.size_bytes());
  uint64_t state = seed * 0x9e3779b97f4a7c15u;
  const auto next = [&state] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 40);
  };
  constexpr uint8_t kF32 = 0;
  constexpr uint8_t kFirstInteger = 4;
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    const float number = static_cast<float>(next() % 4096) / 1024 - 2;
    const uint32_t small = next() % 3;
    if (value.dtype() == kF32)
      std::memcpy(bytes.data() + i, &number, sizeof number);
    else if (value.dtype() >= kFirstInteger)
      std::memcpy(bytes.data() + i, &small, sizeof small);
    else
      bytes[i + 1] = std::byte(next() % 64);
  }
  return bytes;
}

}  // namespace rlx::test
