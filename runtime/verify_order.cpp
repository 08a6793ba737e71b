// SPDX-License-Identifier: Apache-2.0
// Verifier, rule groups 5 and 6: bytes are written before they are read, and accesses that conflict
// are ordered both by waves (Vulkan's barriers) and by edges (CUDA's graph).
#include <algorithm>
#include <limits>
#include <map>
#include <memory_resource>

#include "runtime/verify_context.h"

namespace rlx {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
// Conflicts per access and edges per entry before an order counts as too tangled to check; real
// plans have a few per access.
constexpr uint64_t kConflictsPerAccess = 256;
constexpr uint64_t kLeastConflictBudget = uint64_t{1} << 16;
constexpr uint64_t kMostConflictBudget = uint64_t{1} << 25;
constexpr uint64_t kEdgeVisitBudget = uint64_t{1} << 28;
constexpr uint32_t kSourcesPerBlock = 64;

// Two steps that must be ordered: `before` ends before `after` begins.
struct Conflict {
  uint32_t before;
  uint32_t after;
  uint32_t value;  // of `after`
};

// Finds which conflicts no path of edges joins. Direct edges are tried first; the rest is solved
// for 64 sources at a time by pushing sets of reachable sources along the edges, as far as the last
// step that asks.
class EdgeReach {
 public:
  explicit EdgeReach(const EntryParts& entry) : entry_(entry) {}

  // Unordered conflicts, by their earlier step; empty as well where the budget ends (see
  // exhausted()).
  std::vector<Conflict> unordered(std::vector<Conflict> conflicts) {
    std::erase_if(conflicts, [&](const Conflict& c) { return has_edge(c.before, c.after); });
    std::sort(conflicts.begin(), conflicts.end(), [](const Conflict& a, const Conflict& b) {
      return a.before != b.before ? a.before < b.before : a.after < b.after;
    });
    std::vector<Conflict> missing;
    for (size_t i = 0; i < conflicts.size() && !exhausted();) {
      const uint32_t block_end =
          conflicts[i].before / kSourcesPerBlock * kSourcesPerBlock + kSourcesPerBlock;
      size_t end = i;
      while (end < conflicts.size() && conflicts[end].before < block_end) ++end;
      solve_block({conflicts.data() + i, end - i}, missing);
      i = end;
    }
    return missing;
  }
  [[nodiscard]] bool exhausted() const { return visits_ > kEdgeVisitBudget; }

 private:
  [[nodiscard]] bool has_edge(uint32_t before, uint32_t after) {
    const std::span<const uint32_t> edges = entry_.edges_of(entry_.steps[after]);
    visits_ += edges.size();
    return std::find(edges.begin(), edges.end(), before) != edges.end();
  }

  void solve_block(std::span<const Conflict> conflicts, std::vector<Conflict>& missing) {
    const uint32_t first = conflicts.front().before / kSourcesPerBlock * kSourcesPerBlock;
    uint32_t last = first;
    for (const Conflict& c : conflicts) last = std::max(last, c.after);
    reached_.assign(uint64_t{last} - first + 1, 0);
    for (uint32_t s = first; s <= last; ++s) {
      uint64_t reached = 0;
      const std::span<const uint32_t> edges = entry_.edges_of(entry_.steps[s]);
      for (const uint32_t before : edges) {
        if (before < first) continue;
        reached |= reached_[before - first];
        if (before - first < kSourcesPerBlock) reached |= uint64_t{1} << (before - first);
      }
      reached_[s - first] = reached;
      visits_ += 1 + edges.size();
    }
    for (const Conflict& c : conflicts) {
      if ((reached_[c.after - first] >> (c.before - first) & 1) == 0) missing.push_back(c);
    }
  }

  const EntryParts& entry_;
  std::vector<uint64_t> reached_;
  uint64_t visits_ = 0;
};

// Generated weights, not empty, that entries of any of these targets read or a state begins as.
std::vector<const fb::Weight*> needed_generated(const PlanParts& parts, uint32_t targets) {
  const auto& weights = *parts.plan.weights();
  std::map<uint64_t, uint32_t> by_offset;  // generated weights share no bytes
  for (uint32_t w = 0; w < weights.size(); ++w) {
    const fb::Weight& weight = *weights.Get(w);
    if (weight.kind() == fb::WeightKind::Generated && weight.size_bytes() > 0)
      by_offset.emplace(weight.offset_bytes(), w);
  }
  std::vector<bool> needed(weights.size(), false);
  // A value lies in one weight.
  const auto mark = [&](uint64_t begin) {
    auto after = by_offset.upper_bound(begin);
    if (after == by_offset.begin()) return;
    const uint32_t w = std::prev(after)->second;
    needed[w] = needed[w] || begin < weights.Get(w)->offset_bytes() + weights.Get(w)->size_bytes();
  };
  for (const EntryParts& entry : parts.entries) {
    if (entry.is_init || (entry.entry.targets() & targets) == 0) continue;
    for (const fb::Value* value : *entry.entry.values()) {
      if (value->segment() == fb::Segment::Weights) mark(value->offset_bytes());
    }
  }
  for (const fb::State* state : *parts.plan.states()) {
    if (state->init() == fb::StateInit::Weight) needed[state->init_weight().value_or(0)] = true;
  }
  std::vector<const fb::Weight*> list;
  for (uint32_t w = 0; w < weights.size(); ++w) {
    const fb::Weight& weight = *weights.Get(w);
    if (needed[w] && weight.kind() == fb::WeightKind::Generated && weight.size_bytes() > 0)
      list.push_back(&weight);
  }
  return list;
}

// Walks the steps in order and keeps, for each range of bytes, its last writer and the readers
// since. Ordering each access after those orders all conflicting pairs, because between any two on
// a byte there is a chain of such neighbours.
class AccessSweep {
 public:
  AccessSweep(const PlanParts& parts, const EntryParts& entry, Faults& faults)
      : parts_(parts),
        entry_(entry),
        faults_(faults),
        budget_(std::min(kMostConflictBudget,
                         kLeastConflictBudget + kConflictsPerAccess * entry.relocations.size())) {
    for (uint32_t v = 0; v < entry.value_count(); ++v) {
      const fb::Segment segment = entry.value(v).segment();
      const bool own = segment == fb::Segment::Io || segment == fb::Segment::IndexErrors;
      space_of_value_.push_back(own ? kSharedSpaces + own_count_++
                                    : static_cast<uint32_t>(segment));
    }
    spaces_.reserve(kSharedSpaces + own_count_);
    for (uint32_t i = 0; i < kSharedSpaces + own_count_; ++i) spaces_.emplace_back(&pool_);
    is_input_.assign(entry.value_count(), 0);
    for (const uint32_t v : *entry.entry.inputs()) is_input_[v] = 1;
    if (entry.is_init) collect_generated();
  }

  void run() {
    for (size_t s = 0; s < entry_.steps.size() && !faults_.full(); ++s) {
      if (visits_ > budget_) return report_budget();
      // Reads before writes: a step that does both in one buffer reads what was there.
      for (const fb::Relocation& access : entry_.relocations_of(entry_.steps[s])) {
        if (access.mode() != fb::AccessMode::Write) read(static_cast<uint32_t>(s), access);
      }
      for (const fb::Relocation& access : entry_.relocations_of(entry_.steps[s])) {
        if (access.mode() != fb::AccessMode::Read) write(static_cast<uint32_t>(s), access);
      }
    }
    verify_outputs();
    verify_generated();
    if (!faults_.empty()) return;
    verify_conflicts();
  }

 private:
  static constexpr uint32_t kSharedSpaces =
      3;  // weights, state, arena; each io value and word of index errors is a space of its own

  struct Bytes {
    uint64_t begin;
    uint64_t end;
  };
  struct Reader {
    uint32_t step;
    uint32_t value;
    uint32_t next;  // in readers_; lists share their tails and only grow at the front
  };
  struct Region {
    uint64_t end;
    uint32_t writer;        // step, kNone: not written yet
    uint32_t writer_value;  // value through which it was written
    uint32_t readers;
  };
  using Regions = std::pmr::map<uint64_t, Region>;

  void split(Regions& regions, uint64_t offset) {
    auto after = regions.upper_bound(offset);
    if (after == regions.begin()) return;
    auto& [start, region] = *std::prev(after);
    if (start == offset || region.end <= offset) return;
    Region upper = region;
    regions.emplace_hint(after, offset, upper);
    region.end = offset;
  }

  // Bytes that hold something from the start: weights, states, inputs, counts. In init, generated
  // do not.
  [[nodiscard]] bool filled_before(uint32_t v) const {
    const fb::Segment segment = entry_.value(v).segment();
    if (segment == fb::Segment::State || segment == fb::Segment::IndexErrors) return true;
    if (segment == fb::Segment::Io) return is_input_[v] != 0;
    return segment == fb::Segment::Weights && !(entry_.is_init && overlaps_generated(v));
  }

  // Generated weights overlap no others, so their ends are sorted as their beginnings are.
  void collect_generated() {
    for (const fb::Weight* weight : *entry_.plan.weights()) {
      if (weight->kind() != fb::WeightKind::Generated || weight->size_bytes() == 0) continue;
      generated_.push_back({weight->offset_bytes(), weight->offset_bytes() + weight->size_bytes()});
    }
    std::sort(generated_.begin(), generated_.end(),
              [](const Bytes& a, const Bytes& b) { return a.begin < b.begin; });
  }
  [[nodiscard]] bool overlaps_generated(uint32_t v) const {
    const uint64_t begin = entry_.value(v).offset_bytes();
    const uint64_t end = begin + entry_.value(v).size_bytes();
    const auto after =
        std::lower_bound(generated_.begin(), generated_.end(), end,
                         [](const Bytes& range, uint64_t at) { return range.begin < at; });
    return after != generated_.begin() && std::prev(after)->end > begin;
  }

  [[nodiscard]] bool same_bytes(uint32_t a, uint32_t b) const {
    if (a == b) return true;
    const auto names = [&](uint32_t from, uint32_t to) {
      const flatbuffers::Optional<uint32_t> alias = entry_.value(from).alias_of();
      return alias.has_value() && *alias == to;
    };
    // Weights and states have no lifetimes: whichever value wrote them, they are written.
    return names(a, b) || names(b, a) || entry_.value(a).segment() == fb::Segment::Weights;
  }

  void add_conflict(uint32_t before, uint32_t after, uint32_t value) {
    ++visits_;
    if (before == after) return;
    const Conflict conflict{before, after, value};
    if (!conflicts_.empty() && conflicts_.back().before == before &&
        conflicts_.back().after == after)
      return;
    conflicts_.push_back(conflict);
  }

  void read(uint32_t s, const fb::Relocation& access) {
    const uint32_t v = access.value();
    const uint64_t begin = entry_.value(v).offset_bytes() + access.offset_bytes();
    const uint64_t end = begin + access.length_bytes();
    if (begin == end) return;
    Regions& regions = spaces_[space_of_value_[v]];
    const bool filled = filled_before(v);
    split(regions, begin);
    split(regions, end);
    uint64_t position = begin;
    for (auto it = regions.lower_bound(begin); it != regions.end() && it->first < end; ++it) {
      Region& region = it->second;
      if (position < it->first) first_read(regions, position, it->first, s, v, filled);
      if (region.writer != kNone) add_conflict(region.writer, s, v);
      const bool written = region.writer != kNone && same_bytes(region.writer_value, v);
      if (!written && !filled) report_uncovered(s, v, it->first);
      push_reader(region, s, v);
      position = region.end;
    }
    if (position < end) first_read(regions, position, end, s, v, filled);
  }

  void first_read(Regions& regions, uint64_t begin, uint64_t end, uint32_t s, uint32_t v,
                  bool filled) {
    if (!filled) report_uncovered(s, v, begin);
    Region region{end, kNone, kNone, kNone};
    push_reader(region, s, v);
    regions.emplace(begin, region);
  }

  void push_reader(Region& region, uint32_t s, uint32_t v) {
    ++visits_;
    if (region.readers != kNone && readers_[region.readers].step == s) return;
    readers_.push_back({s, v, region.readers});
    region.readers = static_cast<uint32_t>(readers_.size() - 1);
  }

  void write(uint32_t s, const fb::Relocation& access) {
    const uint32_t v = access.value();
    const uint64_t begin = entry_.value(v).offset_bytes() + access.offset_bytes();
    const uint64_t end = begin + access.length_bytes();
    if (begin == end) return;
    Regions& regions = spaces_[space_of_value_[v]];
    split(regions, begin);
    split(regions, end);
    auto it = regions.lower_bound(begin);
    while (it != regions.end() && it->first < end) {
      const Region& region = it->second;
      if (region.writer != kNone) add_conflict(region.writer, s, v);
      if (region.writer == s) report_double_write(s, v);
      for (uint32_t i = region.readers; i != kNone; i = readers_[i].next)
        add_conflict(readers_[i].step, s, v);
      it = regions.erase(it);
    }
    regions.emplace_hint(it, begin, Region{end, s, v, kNone});
  }

  void verify_outputs() {
    for (const uint32_t v : *entry_.entry.outputs()) {
      verify_written(VerifyRule::OutputCovered, "output ", v, spaces_[space_of_value_[v]], 0,
                     entry_.value(v).size_bytes());
    }
  }

  void verify_generated() {
    if (!entry_.is_init) return;
    const Regions& regions = spaces_[static_cast<size_t>(fb::Segment::Weights)];
    for (const fb::Weight* weight : needed_generated(parts_, entry_.entry.targets())) {
      const uint64_t hole = first_hole(regions, weight->offset_bytes(), weight->size_bytes());
      if (hole == weight->size_bytes()) continue;
      faults_.add(VerifyRule::GeneratedCovered, "the init entry leaves weight ",
                  quoted(PlanView::text(weight->name())), " unwritten from byte ", hole, " of ",
                  weight->size_bytes());
    }
  }

  // First byte of the range that no step wrote, counted from its beginning; its length if there is
  // none.
  [[nodiscard]] static uint64_t first_hole(const Regions& regions, uint64_t begin, uint64_t bytes) {
    uint64_t position = begin;
    auto it = regions.upper_bound(begin);
    if (it != regions.begin()) --it;
    for (; it != regions.end() && position < begin + bytes; ++it) {
      if (it->second.end <= position) continue;
      if (it->first > position || it->second.writer == kNone) break;
      position = it->second.end;
    }
    return std::min(position - begin, bytes);
  }

  void verify_written(VerifyRule rule, std::string_view what, uint32_t v, const Regions& regions,
                      uint64_t begin, uint64_t bytes) {
    const uint64_t hole = first_hole(regions, begin, bytes);
    if (hole == bytes) return;
    faults_.add(rule, entry_.name(), " leaves ", what, entry_.short_value_name(v),
                " unwritten from byte ", hole, " of ", bytes);
  }

  void verify_conflicts() {
    for (const Conflict& c : conflicts_) {
      if (entry_.steps[c.before].wave() < entry_.steps[c.after].wave()) continue;
      faults_.add(VerifyRule::WaveSeparates, entry_.step_name(c.before), " and step ", c.after,
                  " touch the same bytes of ", entry_.short_value_name(c.value), " in wave ",
                  entry_.steps[c.after].wave(), ", and one of them writes");
    }
    if (!faults_.empty()) return;
    EdgeReach reach(entry_);
    const std::vector<Conflict> missing = reach.unordered(std::move(conflicts_));
    if (reach.exhausted()) return report_budget();
    for (const Conflict& c : missing) {
      faults_.add(VerifyRule::EdgeSeparates, entry_.step_name(c.after), " must wait for step ",
                  c.before, ", which touches the same bytes of ", entry_.short_value_name(c.value),
                  ", but no edges lead there");
    }
  }

  void report_uncovered(uint32_t s, uint32_t v, uint64_t position) {
    faults_.add(VerifyRule::ReadCovered, entry_.step_name(s), " reads ", entry_.short_value_name(v),
                " at byte ", position - entry_.value(v).offset_bytes(),
                ", which no earlier step wrote");
  }
  void report_double_write(uint32_t s, uint32_t v) {
    faults_.add(VerifyRule::WaveSeparates, entry_.step_name(s), " writes the same bytes of ",
                entry_.short_value_name(v), " through two pointers");
  }
  void report_budget() {
    faults_.add(VerifyRule::OrderBudget, entry_.name(),
                " has too many conflicting accesses to be checked");
  }

  const PlanParts& parts_;
  const EntryParts& entry_;
  Faults& faults_;
  const uint64_t budget_;
  std::pmr::unsynchronized_pool_resource pool_;
  std::vector<Regions> spaces_;
  std::vector<uint32_t> space_of_value_;
  std::vector<uint8_t> is_input_;
  std::vector<Reader> readers_;
  std::vector<Conflict> conflicts_;
  std::vector<Bytes> generated_;
  uint32_t own_count_ = 0;
  uint64_t visits_ = 0;
};

}  // namespace

void verify_access_order(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  AccessSweep(parts, entry, faults).run();
}

void verify_inits_exist(const PlanParts& parts, Faults& faults) {
  uint32_t without_init = 0;
  for (const EntryParts& entry : parts.entries) without_init |= entry.entry.targets();
  for (const EntryParts& entry : parts.entries) {
    if (entry.is_init) without_init &= ~entry.entry.targets();
  }
  if (without_init == 0) return;
  for (const fb::Weight* weight : needed_generated(parts, without_init)) {
    faults.add(VerifyRule::GeneratedCovered, "weight ", quoted(PlanView::text(weight->name())),
               " is generated, but the plan has no init entry to write it");
  }
}

}  // namespace rlx
