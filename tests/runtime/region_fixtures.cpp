// SPDX-License-Identifier: Apache-2.0
// Plans that break a rule of group 16, and what other groups ask of the words of regions.
#include <algorithm>

#include "tests/runtime/verify_fixture.h"

namespace rlx::test {
namespace {

constexpr uint32_t kKept = 3;
constexpr uint32_t kInside = 4;
constexpr uint32_t kWord = 5;
constexpr uint32_t kCounter = 6;

Fixture region_fixture(VerifyRule rule, std::string what,
                       std::function<void(SpecEntry& main, SpecRegion& region)> edit) {
  return {rule,
          std::move(what),
          [edit = std::move(edit)](PlanSpec& spec) {
            edit(spec.entries[0], spec.entries[0].regions[0]);
          },
          {},
          region_plan};
}

SpecRelocation& access(SpecEntry& main, uint32_t step, fb::AccessMode mode) {
  return *std::ranges::find(main.steps[step].relocations, mode, &SpecRelocation::mode);
}

}  // namespace

std::vector<Fixture> region_fixtures() {
  using Rule = VerifyRule;
  return {
      region_fixture(Rule::RegionForm, "a region of no steps",
                     [](SpecEntry&, SpecRegion& region) { region.step_count = 0; }),
      region_fixture(Rule::RegionForm, "a region past the last step",
                     [](SpecEntry&, SpecRegion& region) { region.step_count = 4; }),
      region_fixture(Rule::RegionForm, "a region of no trips",
                     [](SpecEntry&, SpecRegion& region) { region.most_trips = 0; }),
      region_fixture(Rule::RegionForm, "two regions on one step",
                     [](SpecEntry& main, SpecRegion& region) {
                       const SpecRegion same = region;
                       main.regions.push_back(same);
                     }),
      {Rule::RegionForm,
       "regions of which the plan does not say that it has any",
       [](PlanSpec& spec) { spec.edit_header = [](PlanHeader& h) { --h.section_count; }; },
       {},
       region_plan},
      region_fixture(Rule::NameForm, "a region without a name",
                     [](SpecEntry&, SpecRegion& region) { region.name.clear(); }),
      region_fixture(Rule::RegionTrips, "trips without end",
                     [](SpecEntry&, SpecRegion& region) { region.most_trips = 1u << 24; }),
      region_fixture(Rule::ValueIndex, "a word that is no value",
                     [](SpecEntry&, SpecRegion& region) { region.word = 99; }),
      region_fixture(Rule::RegionWord, "an input as a word",
                     [](SpecEntry&, SpecRegion& region) { region.word = 0; }),
      region_fixture(Rule::RegionWord, "a word that dies before the end",
                     [](SpecEntry& main, SpecRegion&) { main.values[5].last_step = 3; }),
      region_fixture(Rule::RegionWord, "a counter that is the word",
                     [](SpecEntry&, SpecRegion& region) { region.counter = *region.word; }),
      region_fixture(Rule::RegionWord, "a counter that a step reads",
                     [](SpecEntry& main, SpecRegion&) {
                       access(main, 4, fb::AccessMode::Read).value = kCounter;
                     }),
      region_fixture(Rule::RegionWaves, "a step behind the region in its last wave",
                     [](SpecEntry& main, SpecRegion&) { main.steps[4].wave = 2; }),
      region_fixture(Rule::RegionLife, "a value that dies in the first step of the region",
                     [](SpecEntry& main, SpecRegion&) { main.values[kKept].last_step = 2; }),
      region_fixture(Rule::RegionLife, "a value that takes over bytes from outside",
                     [](SpecEntry& main, SpecRegion&) {
                       main.values[kInside].alias_of = kKept;
                       main.values[kInside].offset_bytes = 0;
                     }),
      region_fixture(Rule::RegionWrite, "a value that only trips write",
                     [](SpecEntry& main, SpecRegion&) {
                       main.steps[1].kind = fb::StepKind::Skip;
                       access(main, 2, fb::AccessMode::Read).value = 0;
                     }),
      region_fixture(Rule::RegionWrite, "a copy to what outlives a trip",
                     [](SpecEntry& main, SpecRegion&) {
                       main.steps[3] = {.kind = fb::StepKind::Copy,
                                        .wave = 2,
                                        .relocations = {{.value = kInside, .length_bytes = 256},
                                                        {.value = kKept,
                                                         .position = 8,
                                                         .length_bytes = 256,
                                                         .mode = fb::AccessMode::Write}},
                                        .edges = {2}};
                     }),
      region_fixture(Rule::RegionWord, "an alias of the word",
                     [](SpecEntry& main, SpecRegion&) {
                       SpecValue taken = main.values[kWord];
                       taken.name = "taken";
                       taken.alias_of = kWord;
                       main.values.push_back(taken);
                     }),
      region_fixture(Rule::RegionWordLast, "a word that the last step but one of a trip writes",
                     [](SpecEntry&, SpecRegion& region) {
                       region.word = kKept;
                       region.step_count = 3;
                     }),
      region_fixture(Rule::RegionWordLast, "a last step that writes the word in another's wave",
                     [](SpecEntry& main, SpecRegion& region) {
                       region.word = kKept;
                       main.steps[3].wave = 1;
                       main.steps[4].wave = 2;
                     }),
      region_fixture(Rule::ReadCovered, "a word that nobody wrote",
                     [](SpecEntry& main, SpecRegion&) { main.steps[0].kind = fb::StepKind::Skip; }),
      region_fixture(Rule::EdgeSeparates, "a region that does not wait for its word",
                     [](SpecEntry& main, SpecRegion&) { main.steps[2].edges = {1}; }),
      region_fixture(Rule::WaveSeparates, "a step that reads what the region writes later on",
                     [](SpecEntry& main, SpecRegion&) {
                       main.steps[3].wave = 1;
                       main.steps[4].wave = 2;
                     }),
  };
}

}  // namespace rlx::test
