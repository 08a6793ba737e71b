// SPDX-License-Identifier: Apache-2.0
// Verifier, rule groups 10 and 14: the records of one entry, for several targets and ranges of the
// free symbols.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "runtime/plan/free_sizes.h"
#include "runtime/plan/profiles.h"
#include "runtime/plan/target_row.h"
#include "runtime/verify/verify_context.h"

namespace rlx {
namespace {

using IoList = flatbuffers::Vector<uint32_t>;

bool same_kind(const fb::Value& a, const fb::Value& b) {
  return PlanView::text(a.name()) == PlanView::text(b.name()) && a.dtype() == b.dtype() &&
         a.dims()->size() == b.dims()->size();
}

// Whether two lists agree, value by value.
template <class Agree>
bool lists_agree(const IoList& list_a, const IoList& list_b, const Agree& agree) {
  if (list_a.size() != list_b.size()) return false;
  for (uint32_t i = 0; i < list_a.size(); ++i) {
    if (!agree(list_a.Get(i), list_b.Get(i))) return false;
  }
  return true;
}

template <class Agree>
bool interfaces_agree(const EntryParts& a, const EntryParts& b, const Agree& agree) {
  return lists_agree(*a.entry.inputs(), *b.entry.inputs(), agree) &&
         lists_agree(*a.entry.outputs(), *b.entry.outputs(), agree);
}

bool same_interface(const EntryParts& a, const EntryParts& b) {
  return interfaces_agree(a, b, [&](uint32_t value_a, uint32_t value_b) {
    return same_kind(a.value(value_a), b.value(value_b)) &&
           std::ranges::equal(dims_of(a.value(value_a).dims()), dims_of(b.value(value_b).dims()));
  });
}

// Whether an axis that is a symbol's among all values is the symbol's in a record, or the one value
// that the record is made for.
bool is_symbol(const EntryParts& record, uint32_t value, uint32_t axis, uint32_t symbol) {
  if (find_patch(record.entry, fb::PatchField::ValueDim, value, axis) != nullptr)
    return symbol_of_dim(record.entry, value, axis) == symbol;
  const uint64_t dim = record.value(value).dims()->Get(axis);
  return std::ranges::any_of(ranges_of(record.entry), [&](const fb::SymbolRange& range) {
    return range.symbol() == symbol && range.minimum() == dim && range.maximum() == dim;
  });
}

// `largest` has every symbol's maximum.
bool fits_interface(const EntryParts& largest, const EntryParts& record) {
  return interfaces_agree(largest, record, [&](uint32_t most, uint32_t value) {
    const fb::Value& a = largest.value(most);
    const fb::Value& b = record.value(value);
    if (!same_kind(a, b) || b.size_bytes() > a.size_bytes()) return false;
    for (uint32_t axis = 0; axis < a.dims()->size(); ++axis) {
      const bool is_free =
          find_patch(largest.entry, fb::PatchField::ValueDim, most, axis) != nullptr;
      const bool became_free =
          find_patch(record.entry, fb::PatchField::ValueDim, value, axis) != nullptr;
      if (!is_free && (became_free || a.dims()->Get(axis) != b.dims()->Get(axis))) return false;
      const std::optional<uint32_t> symbol = symbol_of_dim(largest.entry, most, axis);
      if (symbol && !is_symbol(record, value, axis, *symbol)) return false;
    }
    return true;
  });
}

bool same_ranges(const fb::Entry& a, const fb::Entry& b) {
  return std::ranges::equal(
      ranges_of(a), ranges_of(b), [](const fb::SymbolRange& r, const fb::SymbolRange& s) {
        return r.symbol() == s.symbol() && r.minimum() == s.minimum() &&
               r.maximum() == s.maximum() && r.multiple_of() == s.multiple_of();
      });
}

// No value of the symbols is in the ranges of both.
bool are_apart(const fb::Entry& a, const fb::Entry& b) {
  const std::span<const fb::SymbolRange> others = ranges_of(b);
  size_t next = 0;
  for (const fb::SymbolRange& range : ranges_of(a)) {
    while (next < others.size() && others[next].symbol() < range.symbol()) ++next;
    if (next == others.size()) return false;
    const fb::SymbolRange& other = others[next];
    if (other.symbol() == range.symbol() &&
        (range.maximum() < other.minimum() || other.maximum() < range.minimum()))
      return true;
  }
  return false;
}

// The records of one name, or of init, that are for one range.
struct RangeGroup {
  const EntryParts* first = nullptr;
  uint32_t programs = 0;  // runtime/plan/profiles.h
};

class RecordGroups {
 public:
  RecordGroups(const PlanParts& parts, Faults& faults)
      : claimed_(programs_of(parts.header)), faults_(faults) {}

  void add(const EntryParts& record) {
    std::vector<RangeGroup>& ranges =
        record.is_init ? init_ : entries_[PlanView::text(record.entry.name())];
    charge(record, ranges);
    if (faults_.full() || !is_right_first(record, ranges)) return;
    const auto known = std::ranges::find_if(ranges, [&](const RangeGroup& group) {
      return same_ranges(group.first->entry, record.entry);
    });
    const bool is_new = known == ranges.end();
    RangeGroup& group = is_new ? ranges.emplace_back(RangeGroup{.first = &record}) : *known;
    check_targets(record, group);
    check_interface(record, group, *ranges.front().first);
    if (is_new) check_apart(record, ranges);
  }

  void check_complete() {
    for (const auto& [name, ranges] : entries_) {
      for (const RangeGroup& group : ranges) {
        if (group.programs == claimed_) continue;
        faults_.add(VerifyRule::EntryTargets, group.first->name(), " serves targets ",
                    group.programs, ", the header claims ", claimed_);
      }
    }
  }

 private:
  void charge(const EntryParts& record, const std::vector<RangeGroup>& ranges) {
    const fb::Entry& entry = record.entry;
    const uint64_t ports = uint64_t{entry.inputs()->size()} + entry.outputs()->size();
    faults_.charge(kWorkPerTable * ports + kWorkPerRecord * 2 * patches_of(entry).size());
    faults_.charge((kWorkPerTable + 2 * kWorkPerRecord * ranges_of(entry).size()) * ranges.size());
  }

  // The first record for each target has every maximum.
  bool is_right_first(const EntryParts& record, const std::vector<RangeGroup>& ranges) {
    uint32_t served = 0;
    for (const RangeGroup& group : ranges) served |= group.programs;
    if ((programs_of(record.entry) & ~served) == 0 ||
        symbols_at_maximum(record.plan, record.entry) == symbols_at_maximum(record.plan))
      return true;
    faults_.add(VerifyRule::RangeShared, record.name(), ", made for ",
                ranges_text(record.plan, record.entry),
                ", comes before the record with the maxima of all symbols");
    return false;
  }

  // Its targets are new for these ranges.
  void check_targets(const EntryParts& record, RangeGroup& group) {
    const uint32_t programs = programs_of(record.entry);
    if (programs == 0 || (programs & ~claimed_) != 0 || (programs & group.programs) != 0) {
      faults_.add(VerifyRule::EntryTargets, record.name(), " has a record for targets ", programs,
                  ", the header claims ", claimed_, ", and other records of it serve ",
                  group.programs);
    }
    group.programs |= programs;
  }

  void check_interface(const EntryParts& record, const RangeGroup& group,
                       const EntryParts& largest) {
    if (!same_interface(*group.first, record)) {
      faults_.add(VerifyRule::EntryInterface, record.name(),
                  " has inputs or outputs that differ from target to target");
    } else if (!same_free_dims(*group.first, record)) {
      faults_.add(VerifyRule::FreeInterface, record.name(),
                  " has inputs or outputs whose free dims differ from target to target");
    } else if (!fits_interface(largest, record)) {
      faults_.add(VerifyRule::RangeInterface, record.name(), ", made for ",
                  ranges_text(record.plan, record.entry),
                  ", has inputs or outputs that do not fit those with the maxima of all symbols");
    }
  }

  void check_apart(const EntryParts& record, const std::vector<RangeGroup>& ranges) {
    for (const RangeGroup& other : ranges) {
      if (other.first == &record || are_apart(other.first->entry, record.entry)) continue;
      faults_.add(VerifyRule::RangeShared, record.name(), " is made for ",
                  ranges_text(record.plan, record.entry), ", another record of it for ",
                  ranges_text(record.plan, other.first->entry), ", which share values");
    }
  }

  const uint32_t claimed_;
  Faults& faults_;
  std::map<std::string_view, std::vector<RangeGroup>> entries_;
  std::vector<RangeGroup> init_;
};

}  // namespace

void verify_records(const PlanParts& parts, Faults& faults) {
  RecordGroups groups(parts, faults);
  for (const EntryParts& record : parts.entries) {
    if (faults.full()) return;
    groups.add(record);
  }
  groups.check_complete();
}

}  // namespace rlx
