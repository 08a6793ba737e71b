// SPDX-License-Identifier: Apache-2.0
// Verifier, rule group 4: values that live at once share no bytes, steps keep to lifetimes and
// segments.
#include <algorithm>
#include <limits>
#include <map>
#include <memory_resource>
#include <optional>

#include "runtime/verify_context.h"

namespace rlx {
namespace {

constexpr uint32_t kNoOwner = std::numeric_limits<uint32_t>::max();
// Owners visited before an arena counts as too tangled to check; real plans need a few per value.
constexpr uint64_t kVisitsPerValue = 256;
constexpr uint64_t kLeastVisitBudget = uint64_t{1} << 16;
constexpr uint64_t kMostVisitBudget = uint64_t{1} << 25;

// Sweeps the steps: each value, when its life begins, takes its bytes over from the values that had
// them, which must be dead or aliases. Ranges of bytes map to the list of values that live there;
// lists share their tails and only grow at the front.
class LifetimeSweep {
 public:
  LifetimeSweep(const EntryParts& entry, fb::Segment segment, Faults& faults)
      : entry_(entry), segment_(segment), faults_(faults) {}

  void run() {
    std::vector<uint32_t> order;
    for (uint32_t v = 0; v < entry_.value_count(); ++v) {
      if (entry_.value(v).segment() == segment_ && entry_.value(v).size_bytes() > 0)
        order.push_back(v);
    }
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      const uint32_t first_a = entry_.value(a).first_step();
      const uint32_t first_b = entry_.value(b).first_step();
      return first_a != first_b ? first_a < first_b : a < b;
    });
    const uint64_t budget =
        std::min(kMostVisitBudget, kLeastVisitBudget + kVisitsPerValue * order.size());
    for (const uint32_t v : order) {
      if (faults_.full()) return;
      if (visits_ > budget) {
        return faults_.add(VerifyRule::OrderBudget, entry_.name(),
                           " has too many values on the same bytes to be checked");
      }
      take_over(v);
    }
  }

 private:
  struct Owner {
    uint32_t value;
    uint32_t next;  // in owners_
  };
  struct Region {
    uint64_t end;
    uint32_t owners;
  };
  using Regions = std::pmr::map<uint64_t, Region>;

  // Makes `offset` the beginning of a region if it lies inside one.
  void split(uint64_t offset) {
    auto after = regions_.upper_bound(offset);
    if (after == regions_.begin()) return;
    auto& [start, region] = *std::prev(after);
    if (start == offset || region.end <= offset) return;
    regions_.emplace_hint(after, offset, Region{region.end, region.owners});
    region.end = offset;
  }

  [[nodiscard]] bool aliases(uint32_t a, uint32_t b) const {
    const auto names = [&](uint32_t from, uint32_t to) {
      const flatbuffers::Optional<uint32_t> alias = entry_.value(from).alias_of();
      return alias.has_value() && *alias == to;
    };
    return names(a, b) || names(b, a);
  }

  // The list of a region after `value` joined it: the owners that are still alive, all of them its
  // aliases.
  uint32_t joined(uint32_t owners, uint32_t value) {
    const uint32_t now = entry_.value(value).first_step();
    uint32_t kept = kNoOwner;
    for (uint32_t i = owners; i != kNoOwner; i = owners_[i].next) {
      ++visits_;
      const uint32_t other = owners_[i].value;
      if (entry_.value(other).last_step() < now) continue;
      if (!aliases(value, other)) report(other, value);
      owners_.push_back({other, kept});
      kept = static_cast<uint32_t>(owners_.size() - 1);
    }
    owners_.push_back({value, kept});
    return static_cast<uint32_t>(owners_.size() - 1);
  }

  void report(uint32_t earlier, uint32_t later) {
    const fb::Value& a = entry_.value(earlier);
    const fb::Value& b = entry_.value(later);
    faults_.add(VerifyRule::LifetimeOverlap, entry_.value_name(earlier), " (bytes ",
                a.offset_bytes(), " to ", a.offset_bytes() + a.size_bytes(), ", steps ",
                a.first_step(), " to ", a.last_step(), ") and ", entry_.short_value_name(later),
                " (bytes ", b.offset_bytes(), " to ", b.offset_bytes() + b.size_bytes(), ", steps ",
                b.first_step(), " to ", b.last_step(), ") live at once on the same bytes");
  }

  void take_over(uint32_t v) {
    const uint64_t begin = entry_.value(v).offset_bytes();
    const uint64_t end = begin + entry_.value(v).size_bytes();
    split(begin);
    split(end);
    // Regions where nothing else lives any more become one, so that their number stays small.
    std::optional<uint64_t> open;
    uint64_t position = begin;
    const auto close_at = [&](Regions::iterator hint, uint64_t at) {
      if (open.has_value() && *open < at) regions_.emplace_hint(hint, *open, Region{at, alone(v)});
      open.reset();
    };
    for (auto it = regions_.lower_bound(begin); it != regions_.end() && it->first < end;) {
      ++visits_;
      const uint32_t owners = joined(it->second.owners, v);
      const bool others_live = owners_[owners].next != kNoOwner;
      const uint64_t region_begin = it->first;
      const uint64_t region_end = it->second.end;
      if (!open.has_value() && (position < region_begin || !others_live)) open = position;
      if (others_live) {
        close_at(it, region_begin);
        it->second.owners = owners;
        ++it;
      } else {
        it = regions_.erase(it);
      }
      position = region_end;
    }
    if (!open.has_value() && position < end) open = position;
    close_at(regions_.lower_bound(end), end);
  }

  uint32_t alone(uint32_t v) {
    owners_.push_back({v, kNoOwner});
    return static_cast<uint32_t>(owners_.size() - 1);
  }

  const EntryParts& entry_;
  const fb::Segment segment_;
  Faults& faults_;
  std::pmr::unsynchronized_pool_resource pool_;
  Regions regions_{&pool_};
  std::vector<Owner> owners_;
  uint64_t visits_ = 0;
};

void verify_access(const EntryParts& entry, size_t s, const fb::Relocation& relocation,
                   Faults& faults) {
  const uint32_t v = relocation.value();
  const fb::Value& value = entry.value(v);
  if (s < value.first_step() || s > value.last_step()) {
    faults.add(VerifyRule::LifetimeAccess, entry.step_name(s), " uses ", entry.short_value_name(v),
               ", which lives from step ", value.first_step(), " to ", value.last_step());
  }
  const bool outside_init =
      value.segment() != fb::Segment::Weights && value.segment() != fb::Segment::Arena;
  if (entry.is_init && outside_init) {
    faults.add(VerifyRule::InitReach, entry.step_name(s), " uses ", entry.short_value_name(v),
               ", which is neither a weight nor in the arena");
  }
}

// The weight that holds a value, by binary search over all weights ordered by offset.
class WeightLookup {
 public:
  explicit WeightLookup(const fb::Plan& plan) : plan_(plan) {
    for (uint32_t i = 0; i < plan.weights()->size(); ++i) {
      if (plan.weights()->Get(i)->kind() == fb::WeightKind::Generated) generated_.push_back(i);
    }
    std::sort(generated_.begin(), generated_.end(),
              [&](uint32_t a, uint32_t b) { return offset(a) < offset(b); });
  }
  [[nodiscard]] bool is_generated(const fb::Value& value) const {
    const auto after =
        std::upper_bound(generated_.begin(), generated_.end(), value.offset_bytes(),
                         [&](uint64_t at, uint32_t weight) { return at < offset(weight); });
    if (after == generated_.begin()) return false;
    const fb::Weight& weight = *plan_.weights()->Get(*std::prev(after));
    return range_inside(value.offset_bytes() - weight.offset_bytes(), value.size_bytes(),
                        weight.size_bytes());
  }

 private:
  [[nodiscard]] uint64_t offset(uint32_t weight) const {
    return plan_.weights()->Get(weight)->offset_bytes();
  }

  const fb::Plan& plan_;
  std::vector<uint32_t> generated_;
};

void verify_writes(const EntryParts& entry, const std::vector<uint8_t>& is_input,
                   const WeightLookup& weights, size_t s, const fb::Relocation& relocation,
                   Faults& faults) {
  if (relocation.mode() == fb::AccessMode::Read || relocation.length_bytes() == 0) return;
  const uint32_t v = relocation.value();
  const fb::Value& value = entry.value(v);
  if (is_input[v] != 0) {
    faults.add(VerifyRule::InputWritten, entry.step_name(s), " writes to input ",
               entry.short_value_name(v));
  }
  if (value.segment() == fb::Segment::Weights && !(entry.is_init && weights.is_generated(value))) {
    faults.add(VerifyRule::WeightWritten, entry.step_name(s), " writes to ",
               entry.short_value_name(v),
               entry.is_init ? ", which is an inline weight" : ", which is a weight");
  }
}

}  // namespace

void verify_lifetimes(const EntryParts& entry, Faults& faults) {
  std::vector<uint8_t> is_input(entry.value_count(), 0);
  for (const uint32_t v : *entry.entry.inputs()) is_input[v] = 1;
  const WeightLookup weights(entry.plan);
  if (entry.is_init && entry.entry.inputs()->size() + entry.entry.outputs()->size() > 0) {
    faults.add(VerifyRule::InitReach, entry.name(), " has inputs or outputs");
  }
  for (size_t s = 0; s < entry.steps.size() && !faults.full(); ++s) {
    for (const fb::Relocation& relocation : entry.relocations_of(entry.steps[s])) {
      verify_access(entry, s, relocation, faults);
      verify_writes(entry, is_input, weights, s, relocation, faults);
    }
  }
  LifetimeSweep(entry, fb::Segment::Arena, faults).run();
  LifetimeSweep(entry, fb::Segment::State, faults).run();
}

}  // namespace rlx
