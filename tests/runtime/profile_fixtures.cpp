// SPDX-License-Identifier: Apache-2.0
// Plans that break a rule of group 15, and what other groups ask of records of profiles.
#include <cstring>

#include "schema/features.h"
#include "tests/runtime/verify_fixture.h"

namespace rlx::test {
namespace {

Fixture profile_fixture(VerifyRule rule, std::string what, std::function<void(PlanSpec&)> edit) {
  return {rule, std::move(what), std::move(edit), {}, profiled_plan};
}

}  // namespace

std::vector<Fixture> profile_fixtures() {
  using Rule = VerifyRule;
  return {
      profile_fixture(
          Rule::ProfileFields, "nine profiles",
          [](PlanSpec& spec) { spec.edit_header = [](PlanHeader& h) { h.profile_count = 9; }; }),
      profile_fixture(Rule::ProfileFields, "profiles in a plan of an older minor",
                      [](PlanSpec& spec) {
                        spec.edit_header = [](PlanHeader& h) { h.minor = kPlanMinorFree; };
                      }),
      profile_fixture(Rule::ProfileFields, "two profiles of one name",
                      [](PlanSpec& spec) { std::strcpy(spec.profiles[1].name, "vulkan"); }),
      profile_fixture(Rule::ProfileFields, "a name without an end",
                      [](PlanSpec& spec) {
                        std::memset(spec.profiles[1].name, 'x', sizeof spec.profiles[1].name);
                      }),
      profile_fixture(Rule::ProfileFields, "a name that moves the cursor",
                      [](PlanSpec& spec) { std::strcpy(spec.profiles[1].name, "\x1b[2J"); }),
      profile_fixture(Rule::ProfileFields, "a profile of a target without profiles",
                      [](PlanSpec& spec) {
                        add_cuda(spec);
                        for (PlanProfile& profile : spec.profiles) profile.target = 1;
                      }),
      profile_fixture(Rule::ProfileFields, "a device type of tomorrow",
                      [](PlanSpec& spec) { spec.profiles[0].device_type = 9; }),
      profile_fixture(Rule::ProfileFields, "a single profile",
                      [](PlanSpec& spec) { spec.profiles.pop_back(); }),
      profile_fixture(Rule::ProfileFields, "a profile with a limit of 0",
                      [](PlanSpec& spec) { spec.profiles[1].vulkan.max_grid[2] = 0; }),
      profile_fixture(Rule::ProfileFields, "a profile that needs what the plan does not",
                      [](PlanSpec& spec) {
                        spec.profiles[1].vulkan.features |= mask_of(Feature::CooperativeMatrix);
                      }),
      profile_fixture(Rule::ProfileRecord, "a record of a profile that there is not",
                      [](PlanSpec& spec) { spec.entries[2].profile = 2; }),
      profile_fixture(Rule::ProfileRecord, "a record that names no profile",
                      [](PlanSpec& spec) { spec.entries[2].profile.reset(); }),
      profile_fixture(Rule::ProfileRecord, "a record of a profile for another target too",
                      [](PlanSpec& spec) {
                        add_cuda(spec);
                        spec.entries[2].targets = 3;
                        for (const size_t e : {0, 1, 3}) spec.entries[e].targets = 1;
                        spec.init->targets = spec.more_inits[0].targets = 1;
                      }),
      {Rule::ProfileRecord, "a record of a profile in a plan without",
       [](PlanSpec& spec) { spec.entries[1].profile = 0; }},
      profile_fixture(
          Rule::ProfileNeeds, "code with a feature that its profile does not declare",
          [](PlanSpec& spec) { spec.profiles[1].vulkan.features &= ~mask_of(Feature::Int64); }),
      profile_fixture(
          Rule::ProfileNeeds, "a workgroup larger than its profile's limit",
          [](PlanSpec& spec) { spec.profiles[1].vulkan.max_workgroup_invocations = 32; }),
      profile_fixture(Rule::GridLimit, "a grid larger than its profile's limit",
                      [](PlanSpec& spec) {
                        spec.profiles[1].vulkan.max_grid[0] = 1;
                        for (SpecStep& step : spec.entries[2].steps) {
                          if (step.kind == fb::StepKind::Dispatch) step.grid[0] = 2;
                        }
                      }),
      profile_fixture(Rule::EntryTargets, "an entry that only one of two profiles has",
                      [](PlanSpec& spec) { spec.entries.pop_back(); }),
      profile_fixture(Rule::EntryTargets, "two records of an entry for one profile",
                      [](PlanSpec& spec) { spec.entries.push_back(spec.entries[3]); }),
      profile_fixture(
          Rule::EntryInterface, "an output with another name in the second profile",
          [](PlanSpec& spec) { spec.entries[3].values[spec.entries[3].outputs[0]].name = "w"; }),
      profile_fixture(Rule::GeneratedCovered, "a profile without an init of its own",
                      [](PlanSpec& spec) { spec.more_inits.clear(); }),
  };
}

}  // namespace rlx::test
