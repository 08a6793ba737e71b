// SPDX-License-Identifier: Apache-2.0
// Verifier, rule groups 5 and 6: bytes are written before they are read, and accesses that conflict
// are ordered both by waves (Vulkan's barriers) and by edges (CUDA's graph).
#include <algorithm>
#include <limits>
#include <memory_resource>

#include "runtime/plan/profiles.h"
#include "runtime/verify/edge_forests.h"
#include "runtime/verify/range_map.h"
#include "runtime/verify/reader_tree.h"
#include "runtime/verify/verify_context.h"

namespace rlx {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kSourcesPerBlock = 64;

// Two steps that must be ordered: `before` ends before `after` begins.
struct Conflict {
  uint32_t before;
  uint32_t after;
  uint32_t value;  // of `after`
};

// Finds which conflicts no path of edges joins. Direct edges are tried first, then paths in forests
// of edges; the rest is solved for 64 sources at a time by pushing sets of reachable sources along
// the edges, as far as the last step that asks.
class EdgeReach {
 public:
  EdgeReach(const EntryParts& entry, Faults& faults) : entry_(entry), faults_(faults) {}

  // Unordered conflicts, by their earlier step. `conflicts` by their later one.
  std::vector<Conflict> unordered(std::vector<Conflict> conflicts) {
    remove_direct(conflicts);
    remove_led(conflicts);
    faults_.charge(work_of_sort(conflicts.size()));
    if (faults_.full()) return {};
    std::sort(conflicts.begin(), conflicts.end(), [](const Conflict& a, const Conflict& b) {
      return a.before != b.before ? a.before < b.before : a.after < b.after;
    });
    std::vector<Conflict> missing;
    for (size_t i = 0; i < conflicts.size() && !faults_.full();) {
      const uint32_t block_end =
          conflicts[i].before / kSourcesPerBlock * kSourcesPerBlock + kSourcesPerBlock;
      size_t end = i;
      while (end < conflicts.size() && conflicts[end].before < block_end) ++end;
      solve_block({conflicts.data() + i, end - i}, missing);
      i = end;
    }
    return missing;
  }

 private:
  // Takes out the conflicts whose later step waits for the earlier one itself. Looks at each list
  // of edges once.
  void remove_direct(std::vector<Conflict>& conflicts) {
    faults_.charge(kWorkPerEdge * (conflicts.size() + entry_.edges.size()));
    std::vector<uint32_t> waits(entry_.steps.size(), kNone);  // the last step found to wait for it
    uint32_t step = kNone;
    std::erase_if(conflicts, [&](const Conflict& c) {
      if (c.after != step) {
        step = c.after;
        for (const uint32_t before : entry_.edges_of(entry_.steps[step])) waits[before] = step;
      }
      return waits[c.before] == step;
    });
  }

  // Takes out those that a path in a forest joins, however long it is.
  void remove_led(std::vector<Conflict>& conflicts) {
    if (conflicts.empty() || faults_.full()) return;
    const EdgeForests forests(entry_, faults_);
    faults_.charge(kWorkPerVisit * conflicts.size());
    std::erase_if(conflicts,
                  [&forests](const Conflict& c) { return forests.lead(c.before, c.after); });
  }

  void solve_block(std::span<const Conflict> conflicts, std::vector<Conflict>& missing) {
    const uint32_t first = conflicts.front().before / kSourcesPerBlock * kSourcesPerBlock;
    uint32_t last = first;
    for (const Conflict& c : conflicts) last = std::max(last, c.after);
    reached_.assign(uint64_t{last} - first + 1, 0);
    for (uint32_t s = first; s <= last; ++s) {
      const std::span<const uint32_t> edges = entry_.edges_of(entry_.steps[s]);
      faults_.charge(kWorkPerEdge * (2 + edges.size()));
      if (faults_.full()) return;
      uint64_t reached = 0;
      for (const uint32_t before : edges) {
        if (before < first) continue;
        reached |= reached_[before - first];
        if (before - first < kSourcesPerBlock) reached |= uint64_t{1} << (before - first);
      }
      reached_[s - first] = reached;
    }
    for (const Conflict& c : conflicts) {
      if ((reached_[c.after - first] >> (c.before - first) & 1) == 0) missing.push_back(c);
    }
  }

  const EntryParts& entry_;
  Faults& faults_;
  std::vector<uint64_t> reached_;
};

std::string generated_name(const PlanParts& parts, const GeneratedWeights::Weight& weight) {
  return quoted(PlanView::text(parts.plan.weights()->Get(weight.index)->name()));
}

// Walks the steps in order and keeps, for each range of bytes, its last writer, and the reads
// since. Ordering each access after those orders all conflicting pairs, because between any two on
// a byte there is a chain of such neighbours.
class AccessSweep {
 public:
  AccessSweep(const PlanParts& parts, const EntryParts& entry, Faults& faults)
      : parts_(parts), entry_(entry), faults_(faults) {
    faults_.charge(kWorkPerTable * entry.value_count());
    uint32_t own_count = 0;
    values_.reserve(entry.value_count());
    for (uint32_t v = 0; v < entry.value_count(); ++v) {
      const fb::Value& value = entry.value(v);
      const bool own =
          value.segment() == fb::Segment::Io || value.segment() == fb::Segment::IndexErrors;
      values_.push_back(
          {.begin = value.offset_bytes(),
           .space = own ? kSharedSpaces + own_count : static_cast<uint32_t>(value.segment()),
           .alias = value.alias_of().value_or(kNone),
           .filled = filled_before(value)});
      own_count += own ? 1 : 0;
    }
    for (const uint32_t v : *entry.entry.inputs()) values_[v].filled = true;
    spaces_.reserve(kSharedSpaces + own_count);
    for (uint32_t i = 0; i < kSharedSpaces + own_count; ++i) spaces_.emplace_back(&pool_, faults_);
    faults_.charge(kWorkPerEdge * entry.relocations.size());
    for (const fb::Relocation& access : entry.relocations) {
      if (access.mode() != fb::AccessMode::Read)
        spaces_[values_[access.value()].space].is_written = true;
    }
  }

  void run() {
    for (uint32_t s = 0; s < entry_.steps.size() && !faults_.full(); ++s) {
      if (entry_.steps[s].kind() == fb::StepKind::Skip) continue;
      const std::span<const fb::Relocation> accesses = entry_.relocations_of(entry_.steps[s]);
      faults_.charge(kWorkPerRecord * (1 + accesses.size()));
      if (const fb::Region* region = region_at(s)) enter(*region, s, accesses);
      // Reads before writes: a step that does both in one buffer reads what was there.
      for (const fb::Relocation& access : accesses) {
        if (access.mode() != fb::AccessMode::Write) read(s, access);
      }
      for (const fb::Relocation& access : accesses) {
        if (access.mode() != fb::AccessMode::Read) write(s, access);
      }
    }
    if (faults_.full()) return;
    verify_outputs();
    verify_generated();
    if (!faults_.empty()) return;
    verify_conflicts();
  }

 private:
  // The region that the step is in; steps are asked for in ascending order.
  const fb::Region* region_at(uint32_t s) {
    while (region_ < entry_.region_count() && !PlanView::holds(entry_.region(region_), s) &&
           entry_.region(region_).first_step() < s)
      ++region_;
    if (region_ == entry_.region_count()) return nullptr;
    const fb::Region& region = entry_.region(region_);
    return PlanView::holds(region, s) ? &region : nullptr;
  }

  // Before the first trip the word is read. What outlives a trip holds something before the first
  // one, since that may be the last or none; and only dispatches can be left out of a trip.
  void enter(const fb::Region& region, uint32_t s, std::span<const fb::Relocation> accesses) {
    constexpr uint64_t kWordBytes = 4;
    if (s == region.first_step() && region.word().has_value())
      read(s, fb::Relocation(*region.word(), 0, 0, kWordBytes, fb::AccessMode::Read));
    for (const fb::Relocation& access : accesses) {
      if (access.mode() == fb::AccessMode::Read || access.length_bytes() == 0) continue;
      const fb::Value& value = entry_.value(access.value());
      if (PlanView::holds(region, value.first_step()) && PlanView::holds(region, value.last_step()))
        continue;
      const bool is_dispatch = entry_.steps[s].kind() == fb::StepKind::Dispatch;
      if (is_dispatch && is_written(access)) continue;
      faults_.add(VerifyRule::RegionWrite, entry_.step_name(s), " writes ",
                  entry_.short_value_name(access.value()), ", which outlives a trip of region ",
                  quoted(PlanView::text(region.name())),
                  is_dispatch ? ", and was not written before" : ", and is no dispatch");
    }
  }

  [[nodiscard]] bool is_written(const fb::Relocation& access) {
    const ValueFacts& facts = values_[access.value()];
    if (facts.filled) return true;
    const uint64_t begin = facts.begin + access.offset_bytes();
    return first_hole(spaces_[facts.space].regions, begin, access.length_bytes()) ==
           access.length_bytes();
  }

  static constexpr uint32_t kSharedSpaces =
      3;  // weights, state, arena; each io value and word of index errors is a space of its own

  struct ValueFacts {
    uint64_t begin;
    uint32_t space;
    uint32_t alias;  // kNone: of no other
    bool filled;     // its bytes hold something before the first step
  };
  struct Reader {
    uint32_t step;
    uint32_t next;  // in readers_; lists share their tails and only grow at the front
  };
  struct Written {
    uint32_t step;
    uint32_t value;            // through which it was written
    uint32_t readers = kNone;  // of all its bytes since
  };
  using Regions = RangeMap<Written>;
  struct Space {
    Space(std::pmr::memory_resource* memory, Faults& faults) : regions(memory), readers(faults) {}
    Regions regions;
    ReaderTree readers;       // of ranges that are no region
    bool is_written = false;  // by some step; nobody minds who reads it otherwise
  };

  // Bytes that hold something from the start: weights, states, counts; inputs too. In init,
  // generated weights do not.
  [[nodiscard]] bool filled_before(const fb::Value& value) const {
    if (value.segment() == fb::Segment::State || value.segment() == fb::Segment::IndexErrors)
      return true;
    return value.segment() == fb::Segment::Weights &&
           !(entry_.is_init && parts_.generated.overlap(value, faults_));
  }

  [[nodiscard]] bool same_bytes(uint32_t a, uint32_t b) const {
    // Weights have no lifetimes: whichever value wrote them, they are written.
    return a == b || values_[a].alias == b || values_[b].alias == a ||
           values_[a].space == static_cast<uint32_t>(fb::Segment::Weights);
  }

  void add_conflict(uint32_t before, uint32_t after, uint32_t value) {
    faults_.charge(kWorkPerVisit);
    if (before == after) return;
    const Conflict conflict{before, after, value};
    if (!conflicts_.empty() && conflicts_.back().before == before &&
        conflicts_.back().after == after)
      return;
    conflicts_.push_back(conflict);
  }

  void read(uint32_t s, const fb::Relocation& access) {
    const uint32_t v = access.value();
    const uint64_t begin = values_[v].begin + access.offset_bytes();
    const uint64_t end = begin + access.length_bytes();
    if (begin == end) return;
    Space& space = spaces_[values_[v].space];
    faults_.charge(work_of_search(space.regions.size()));
    const auto first = space.regions.at_or_behind(begin);
    uint64_t position = begin;
    for (auto it = first; it != space.regions.end() && it->first < end && !faults_.full(); ++it) {
      const Written& written = it->second.content;
      if (position < it->first) read_unwritten(s, v, position);
      add_conflict(written.step, s, v);
      if (!same_bytes(written.value, v)) read_unwritten(s, v, std::max(it->first, begin));
      position = it->second.end;
    }
    if (position < end) read_unwritten(s, v, position);
    if (!space.is_written) return;
    if (first != space.regions.end() && first->first == begin && first->second.end == end) {
      readers_.push_back({s, first->second.content.readers});
      first->second.content.readers = static_cast<uint32_t>(readers_.size() - 1);
    } else {
      space.readers.add(begin, end, s);
    }
  }

  void write(uint32_t s, const fb::Relocation& access) {
    const uint32_t v = access.value();
    const uint64_t begin = values_[v].begin + access.offset_bytes();
    const uint64_t end = begin + access.length_bytes();
    if (begin == end) return;
    Space& space = spaces_[values_[v].space];
    auto it = space.regions.cut(begin, end, faults_);
    while (it != space.regions.end() && it->first < end && !faults_.full()) {
      const Written& written = it->second.content;
      add_conflict(written.step, s, v);
      if (written.step == s) report_double_write(s, v);
      for (uint32_t i = written.readers; i != kNone && !faults_.full(); i = readers_[i].next)
        add_conflict(readers_[i].step, s, v);
      it = space.regions.erase(it);
    }
    if (faults_.full()) return;
    space.readers.take(begin, end, [&](uint32_t reader) { add_conflict(reader, s, v); });
    space.regions.insert(it, begin, end, {.step = s, .value = v}, faults_);
  }

  void verify_outputs() {
    for (const uint32_t v : *entry_.entry.outputs()) {
      const uint64_t bytes = entry_.value(v).size_bytes();
      const uint64_t hole = first_hole(spaces_[values_[v].space].regions, 0, bytes);
      if (hole == bytes) continue;
      faults_.add(VerifyRule::OutputCovered, entry_.name(), " leaves output ",
                  entry_.short_value_name(v), " unwritten from byte ", hole, " of ", bytes);
    }
  }

  void verify_generated() {
    if (!entry_.is_init) return;
    Regions& regions = spaces_[static_cast<size_t>(fb::Segment::Weights)].regions;
    for (const GeneratedWeights::Weight& weight : parts_.generated.list()) {
      if ((weight.programs & programs_of(entry_.entry)) == 0) continue;
      const uint64_t bytes = weight.end - weight.begin;
      const uint64_t hole = first_hole(regions, weight.begin, bytes);
      if (hole == bytes) continue;
      faults_.add(VerifyRule::GeneratedCovered, "the init entry leaves weight ",
                  generated_name(parts_, weight), " unwritten from byte ", hole, " of ", bytes);
    }
  }

  // First byte of the range that no step wrote, counted from its beginning; its length if there is
  // none.
  [[nodiscard]] uint64_t first_hole(Regions& regions, uint64_t begin, uint64_t bytes) {
    faults_.charge(work_of_search(entry_.relocations.size()));
    uint64_t position = begin;
    for (auto it = regions.at_or_behind(begin); it != regions.end() && position < begin + bytes;
         ++it) {
      faults_.charge(kWorkPerVisit);
      if (it->first > position) break;
      position = it->second.end;
    }
    return std::min(position - begin, bytes);
  }

  void verify_conflicts() {
    for (const Conflict& c : conflicts_) {
      if (entry_.steps[c.before].wave() < entry_.steps[c.after].wave()) continue;
      if (faults_.full()) return;
      faults_.add(VerifyRule::WaveSeparates, entry_.step_name(c.before), " and step ", c.after,
                  " touch the same bytes of ", entry_.short_value_name(c.value), " in wave ",
                  entry_.steps[c.after].wave(), ", and one of them writes");
    }
    if (!faults_.empty()) return;
    const std::vector<Conflict> missing =
        EdgeReach(entry_, faults_).unordered(std::move(conflicts_));
    for (const Conflict& c : missing) {
      if (faults_.full()) return;
      faults_.add(VerifyRule::EdgeSeparates, entry_.step_name(c.after), " must wait for step ",
                  c.before, ", which touches the same bytes of ", entry_.short_value_name(c.value),
                  ", but no edges lead there");
    }
  }

  void read_unwritten(uint32_t s, uint32_t v, uint64_t position) {
    if (values_[v].filled) return;
    faults_.add(VerifyRule::ReadCovered, entry_.step_name(s), " reads ", entry_.short_value_name(v),
                " at byte ", position - entry_.value(v).offset_bytes(),
                ", which no earlier step wrote");
  }
  void report_double_write(uint32_t s, uint32_t v) {
    faults_.add(VerifyRule::WaveSeparates, entry_.step_name(s), " writes the same bytes of ",
                entry_.short_value_name(v), " through two pointers");
  }

  const PlanParts& parts_;
  const EntryParts& entry_;
  Faults& faults_;
  std::pmr::unsynchronized_pool_resource pool_;
  std::vector<Space> spaces_;
  std::vector<ValueFacts> values_;
  std::vector<Reader> readers_;
  std::vector<Conflict> conflicts_;  // by their later step
  uint32_t region_ = 0;              // of the entry: the one at hand, or the next
};

}  // namespace

void verify_access_order(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  AccessSweep(parts, entry, faults).run();
}

void verify_inits_exist(const PlanParts& parts, Faults& faults) {
  uint32_t without_init = 0;
  for (const EntryParts& entry : parts.entries) without_init |= programs_of(entry.entry);
  for (const EntryParts& entry : parts.entries) {
    if (entry.is_init) without_init &= ~programs_of(entry.entry);
  }
  if (without_init == 0) return;
  for (const GeneratedWeights::Weight& weight : parts.generated.list()) {
    if ((weight.programs & without_init) == 0 || faults.full()) continue;
    faults.add(VerifyRule::GeneratedCovered, "weight ", generated_name(parts, weight),
               " is generated, but the plan has no init entry to write it");
  }
}

}  // namespace rlx
