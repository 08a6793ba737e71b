// SPDX-License-Identifier: Apache-2.0
// Verifier, rule group 16: regions, whose steps run as often as the device decides. What their
// steps touch, other groups judge as that of one trip; here stands what more or fewer trips ask.
#include <algorithm>

#include "runtime/verify/verify_context.h"
#include "schema/plan_regions.h"

namespace rlx {
namespace {

constexpr uint64_t kRegionWordBytes = 4;
constexpr size_t kMaxRegionNameBytes = 256;

std::string region_name(const EntryParts& entry, uint32_t number) {
  return text_of(entry.name(), ", region ", number, " ",
                 quoted(PlanView::text(entry.region(number).name())));
}

bool has_alternatives(const EntryParts& entry, const fb::Region& region) {
  if (entry.entry.alternatives() == nullptr) return false;
  return std::any_of(entry.entry.alternatives()->begin(), entry.entry.alternatives()->end(),
                     [&region](const fb::Alternative* alternative) {
                       return PlanView::holds(region, alternative->step());
                     });
}

void verify_forms(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  const bool has_sizes = entry.entry.sizes() != nullptr && entry.entry.sizes()->size() > 0;
  const std::span<const PlanSection> sections(parts.header.sections, parts.header.section_count);
  const bool says_so =
      std::any_of(sections.begin(), sections.end(), [](const PlanSection& section) {
        return section.kind == kRegionsSection && (section.flags & kSectionCritical) != 0;
      });
  if (entry.is_init || has_sizes || !says_so) {
    return faults.add(VerifyRule::RegionForm, entry.name(),
                      " has regions, which init, an entry with free sizes and a plan without a "
                      "critical section of regions cannot have");
  }
  uint64_t end = 0;
  uint64_t all_steps = 0;
  for (uint32_t r = 0; r < entry.region_count() && !faults.full(); ++r) {
    const fb::Region& region = entry.region(r);
    if (region.first_step() < end || region.step_count() == 0 || region.most_trips() == 0 ||
        !range_inside(region.first_step(), region.step_count(), entry.steps.size())) {
      return faults.add(VerifyRule::RegionForm, region_name(entry, r), " has ", region.step_count(),
                        " steps from ", region.first_step(), " on and ", region.most_trips(),
                        " trips; the entry has ", entry.steps.size(),
                        " steps, the region before ends at ", end);
    }
    end = uint64_t{region.first_step()} + region.step_count();
    all_steps += uint64_t{region.step_count()} * region.most_trips();
    if (has_alternatives(entry, region))
      faults.add(VerifyRule::RegionForm, region_name(entry, r), " has a step with an alternative");
    const std::string_view name = PlanView::text(region.name());
    if (name.empty() || name.size() > kMaxRegionNameBytes) {
      faults.add(VerifyRule::NameForm, entry.name(), ", region ", r,
                 " has a name that is not 1 to 256 bytes of UTF-8");
    }
  }
  if (all_steps > kMaxRegionSteps) {
    faults.add(VerifyRule::RegionTrips, "all trips of the regions of ", entry.name(), " take ",
               all_steps, " steps, at most ", kMaxRegionSteps, " are taken");
  }
}

void verify_word(const EntryParts& entry, uint32_t r, std::string_view what, uint32_t v,
                 Faults& faults) {
  if (v >= entry.value_count()) {
    return faults.add(VerifyRule::ValueIndex, region_name(entry, r), " has value ", v, " as its ",
                      what, ", the entry has ", entry.value_count());
  }
  const fb::Value& value = entry.value(v);
  if (value.segment() == fb::Segment::Arena && value.size_bytes() >= kRegionWordBytes &&
      value.first_step() == 0 && value.last_step() + uint64_t{1} == entry.steps.size() &&
      !value.alias_of().has_value())
    return;
  faults.add(VerifyRule::RegionWord, region_name(entry, r), " has ", entry.short_value_name(v),
             " as its ", what,
             ", wanted one of 4 bytes or more in the arena that lives as long as the entry, alias "
             "of no other");
}

void verify_words(const EntryParts& entry, Faults& faults) {
  std::vector<uint8_t> is_counter(entry.value_count(), 0);
  std::vector<uint8_t> is_word(entry.value_count(), 0);
  for (uint32_t r = 0; r < entry.region_count() && !faults.full(); ++r) {
    const fb::Region& region = entry.region(r);
    verify_word(entry, r, "counter", region.counter(), faults);
    if (region.word().has_value()) verify_word(entry, r, "word", *region.word(), faults);
    if (!faults.empty()) return;
    if (is_counter[region.counter()]++ == 0) continue;
    faults.add(VerifyRule::RegionWord, region_name(entry, r), " counts in ",
               entry.short_value_name(region.counter()), ", as another region does");
  }
  for (uint32_t r = 0; r < entry.region_count() && !faults.full(); ++r) {
    const flatbuffers::Optional<uint32_t> word = entry.region(r).word();
    if (!word.has_value()) continue;
    is_word[*word] = 1;
    if (is_counter[*word] == 0) continue;
    faults.add(VerifyRule::RegionWord, region_name(entry, r), " has ",
               entry.short_value_name(*word), " as its word, in which a region counts");
  }
  for (const fb::Relocation& relocation : entry.relocations) {
    if (is_counter[relocation.value()] == 0 || faults.full()) continue;
    faults.add(VerifyRule::RegionWord, entry.short_value_name(relocation.value()),
               " is a region's counter, and a step uses it");
  }
  for (uint32_t v = 0; v < entry.value_count() && !faults.full(); ++v) {
    const flatbuffers::Optional<uint32_t> alias = entry.value(v).alias_of();
    if (!alias.has_value() || !(is_counter[*alias] || is_word[*alias])) continue;
    faults.add(VerifyRule::RegionWord, entry.value_name(v), " is an alias of ",
               entry.short_value_name(*alias), ", a region's word or counter");
  }
}

void verify_waves(const EntryParts& entry, Faults& faults) {
  for (uint32_t r = 0; r < entry.region_count() && !faults.full(); ++r) {
    const fb::Region& region = entry.region(r);
    const uint32_t end = region.first_step() + region.step_count();
    const auto shares = [&](uint32_t first, uint32_t second) {
      return entry.steps[first].wave() == entry.steps[second].wave();
    };
    if ((region.first_step() > 0 && shares(region.first_step() - 1, region.first_step())) ||
        (end < entry.steps.size() && shares(end - 1, end))) {
      faults.add(VerifyRule::RegionWaves, region_name(entry, r),
                 " shares a wave with a step outside of it");
    }
  }
}

bool writes(const EntryParts& entry, uint32_t s, uint32_t value) {
  const std::span<const fb::Relocation> accesses = entry.relocations_of(entry.steps[s]);
  return std::any_of(accesses.begin(), accesses.end(), [value](const fb::Relocation& access) {
    return access.value() == value && access.mode() != fb::AccessMode::Read;
  });
}

// Drivers ask the word when a trip begins or before each of its commands, as they like.
void verify_words_last(const EntryParts& entry, Faults& faults) {
  for (uint32_t r = 0; r < entry.region_count(); ++r) {
    const fb::Region& region = entry.region(r);
    if (!region.word().has_value()) continue;
    const uint32_t last = region.first_step() + region.step_count() - 1;
    for (uint32_t s = region.first_step(); s <= last && !faults.full(); ++s) {
      if (!writes(entry, s, *region.word())) continue;
      const bool is_alone = s == last && (s == region.first_step() ||
                                          entry.steps[s - 1].wave() != entry.steps[s].wave());
      if (is_alone) continue;
      faults.add(VerifyRule::RegionWordLast, entry.step_name(s), " writes the word of ",
                 region_name(entry, r), ", and is not alone in its last wave");
    }
  }
}

// The region in which all of a value's life lies; the number of regions where none has it.
uint32_t home_of(const EntryParts& entry, const fb::Value& value) {
  for (uint32_t r = 0; r < entry.region_count(); ++r) {
    if (PlanView::holds(entry.region(r), value.first_step()) &&
        PlanView::holds(entry.region(r), value.last_step()))
      return r;
  }
  return entry.region_count();
}

void verify_lives(const EntryParts& entry, Faults& faults) {
  faults.charge(kWorkPerTable * entry.value_count() * (uint64_t{entry.region_count()} + 1));
  std::vector<uint32_t> homes;
  for (uint32_t v = 0; v < entry.value_count() && !faults.full(); ++v)
    homes.push_back(home_of(entry, entry.value(v)));
  for (uint32_t v = 0; v < entry.value_count() && !faults.full(); ++v) {
    const fb::Value& value = entry.value(v);
    if (value.segment() != fb::Segment::Arena) continue;
    const flatbuffers::Optional<uint32_t> alias = value.alias_of();
    if (alias.has_value() && homes[*alias] != homes[v]) {
      faults.add(VerifyRule::RegionLife, entry.value_name(v), " is an alias of ",
                 entry.short_value_name(*alias), ", which lives in another region or in none");
    }
    for (uint32_t r = 0; r < entry.region_count() && !faults.full(); ++r) {
      const fb::Region& region = entry.region(r);
      const uint64_t end = uint64_t{region.first_step()} + region.step_count();
      const bool meets = value.first_step() < end && value.last_step() >= region.first_step();
      const bool spans =
          value.first_step() <= region.first_step() && uint64_t{value.last_step()} + 1 >= end;
      if (!meets || spans || homes[v] == r) continue;
      faults.add(VerifyRule::RegionLife, entry.value_name(v), " lives from step ",
                 value.first_step(), " to ", value.last_step(), ", through a part of ",
                 region_name(entry, r));
    }
  }
}

}  // namespace

void verify_region_tables(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  if (entry.region_count() == 0) return;
  faults.charge(kWorkPerTable * entry.region_count() + kWorkPerEdge * entry.relocations.size() +
                kWorkPerTable * entry.value_count());
  verify_forms(parts, entry, faults);
  if (!faults.empty()) return;
  verify_words(entry, faults);
  if (!faults.empty()) return;
  verify_waves(entry, faults);
  verify_words_last(entry, faults);
  verify_lives(entry, faults);
}

}  // namespace rlx
