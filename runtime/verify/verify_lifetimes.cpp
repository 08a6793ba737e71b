// SPDX-License-Identifier: Apache-2.0
// Verifier, rule group 4: values that live at once share no bytes, steps keep to lifetimes and
// segments.
#include <algorithm>
#include <limits>
#include <memory_resource>
#include <optional>

#include "runtime/verify/range_map.h"
#include "runtime/verify/verify_context.h"

namespace rlx {
namespace {

constexpr uint32_t kNoOwner = std::numeric_limits<uint32_t>::max();

// Sweeps the steps: each value, when its life begins, takes its bytes over from the values that had
// them, which must be dead or aliases. Ranges of bytes map to the list of values that live there;
// lists share their tails and only grow at the front.
class LifetimeSweep {
 public:
  LifetimeSweep(const EntryParts& entry, fb::Segment segment, Faults& faults)
      : entry_(entry), segment_(segment), faults_(faults) {}

  void run() {
    std::vector<Life> lives;
    for (uint32_t v = 0; v < entry_.value_count(); ++v) {
      const fb::Value& value = entry_.value(v);
      if (value.segment() != segment_ || value.size_bytes() == 0) continue;
      lives.push_back({.value = v,
                       .alias = value.alias_of().value_or(kNoOwner),
                       .first_step = value.first_step(),
                       .last_step = value.last_step(),
                       .begin = value.offset_bytes(),
                       .end = value.offset_bytes() + value.size_bytes()});
    }
    faults_.charge(kWorkPerTable * lives.size() + work_of_sort(lives.size()));
    if (faults_.full()) return;
    std::sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) {
      return a.first_step != b.first_step ? a.first_step < b.first_step : a.value < b.value;
    });
    for (const Life& life : lives) {
      if (faults_.full()) return;
      take_over(life);
    }
  }

 private:
  struct Life {
    uint32_t value;
    uint32_t alias;  // kNoOwner: of no other
    uint32_t first_step;
    uint32_t last_step;
    uint64_t begin;
    uint64_t end;
  };
  struct Owner {
    const Life* life;
    uint32_t next;  // in owners_
  };
  using Regions = RangeMap<uint32_t>;  // to the newest of its owners

  // The list of a region after `life` joined it: the owners that are still alive, all of them its
  // aliases.
  uint32_t joined(uint32_t owners, const Life& life) {
    uint32_t kept = kNoOwner;
    for (uint32_t i = owners; i != kNoOwner && !faults_.full(); i = owners_[i].next) {
      faults_.charge(kWorkPerVisit);
      const Life& other = *owners_[i].life;
      if (other.last_step < life.first_step) continue;
      if (other.alias != life.value && life.alias != other.value) report(other, life);
      kept = add_owner(other, kept);
    }
    return add_owner(life, kept);
  }

  uint32_t add_owner(const Life& life, uint32_t next) {
    owners_.push_back({&life, next});
    return static_cast<uint32_t>(owners_.size() - 1);
  }

  void report(const Life& earlier, const Life& later) {
    faults_.add(VerifyRule::LifetimeOverlap, entry_.value_name(earlier.value), " (bytes ",
                earlier.begin, " to ", earlier.end, ", steps ", earlier.first_step, " to ",
                earlier.last_step, ") and ", entry_.short_value_name(later.value), " (bytes ",
                later.begin, " to ", later.end, ", steps ", later.first_step, " to ",
                later.last_step, ") live at once on the same bytes");
  }

  void take_over(const Life& life) {
    // Regions where nothing else lives any more become one, so that their number stays small.
    std::optional<uint64_t> open;
    uint64_t position = life.begin;
    const auto close_at = [&](Regions::Place next, uint64_t at) {
      if (open.has_value() && *open < at)
        regions_.insert(next, *open, at, add_owner(life, kNoOwner), faults_);
      open.reset();
    };
    auto region = regions_.cut(life.begin, life.end, faults_);
    while (region != regions_.end() && region->first < life.end && !faults_.full()) {
      const uint32_t owners = joined(region->second.content, life);
      const bool others_live = owners_[owners].next != kNoOwner;
      const uint64_t region_begin = region->first;
      const uint64_t region_end = region->second.end;
      if (!open.has_value() && (position < region_begin || !others_live)) open = position;
      if (others_live) {
        close_at(region, region_begin);
        region->second.content = owners;
        ++region;
      } else {
        region = regions_.erase(region);
      }
      position = region_end;
    }
    if (!open.has_value() && position < life.end) open = position;
    close_at(region, life.end);
  }

  const EntryParts& entry_;
  const fb::Segment segment_;
  Faults& faults_;
  std::pmr::unsynchronized_pool_resource pool_;
  Regions regions_{&pool_};
  std::vector<Owner> owners_;
};

void verify_access(const EntryParts& entry, size_t s, const fb::Relocation& relocation,
                   Faults& faults) {
  const uint32_t v = relocation.value();
  const fb::Value& value = entry.value(v);
  if (s < value.first_step() || s > value.last_step()) {
    faults.add(VerifyRule::LifetimeAccess, entry.step_name(s), " uses ", entry.short_value_name(v),
               ", which lives from step ", value.first_step(), " to ", value.last_step());
  }
}

// An init runs where there are no states, inputs or outputs yet: it has no address for them.
void verify_init_reach(const EntryParts& init, Faults& faults) {
  if (init.entry.inputs()->size() + init.entry.outputs()->size() > 0) {
    faults.add(VerifyRule::InitReach, init.name(), " has inputs or outputs");
  }
  for (uint32_t v = 0; v < init.value_count() && !faults.full(); ++v) {
    const fb::Segment segment = init.value(v).segment();
    if (segment == fb::Segment::Weights || segment == fb::Segment::Arena) continue;
    faults.add(VerifyRule::InitReach, init.value_name(v), " is neither a weight nor in the arena");
  }
}

void verify_writes(const EntryParts& entry, const std::vector<uint8_t>& is_input,
                   const GeneratedWeights& weights, size_t s, const fb::Relocation& relocation,
                   Faults& faults) {
  if (relocation.mode() == fb::AccessMode::Read || relocation.length_bytes() == 0) return;
  const uint32_t v = relocation.value();
  const fb::Value& value = entry.value(v);
  if (is_input[v] != 0) {
    faults.add(VerifyRule::InputWritten, entry.step_name(s), " writes to input ",
               entry.short_value_name(v));
  }
  if (value.segment() == fb::Segment::Weights && !(entry.is_init && weights.hold(value, faults))) {
    faults.add(VerifyRule::WeightWritten, entry.step_name(s), " writes to ",
               entry.short_value_name(v),
               entry.is_init ? ", which is an inline weight" : ", which is a weight");
  }
}

}  // namespace

void verify_value_uses(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  std::vector<uint8_t> is_input(entry.value_count(), 0);
  for (const uint32_t v : *entry.entry.inputs()) is_input[v] = 1;
  faults.charge(kWorkPerRecord * (entry.steps.size() + 2 * entry.relocations.size()));
  for (size_t s = 0; s < entry.steps.size() && !faults.full(); ++s) {
    for (const fb::Relocation& relocation : entry.relocations_of(entry.steps[s])) {
      verify_access(entry, s, relocation, faults);
      verify_writes(entry, is_input, parts.generated, s, relocation, faults);
    }
  }
}

void verify_lifetimes(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  if (entry.is_init) verify_init_reach(entry, faults);
  verify_value_uses(parts, entry, faults);
  LifetimeSweep(entry, fb::Segment::Arena, faults).run();
  LifetimeSweep(entry, fb::Segment::State, faults).run();
}

}  // namespace rlx
