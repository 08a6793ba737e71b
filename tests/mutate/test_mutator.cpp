// SPDX-License-Identifier: Apache-2.0
// Laws of the mutator of plans and of its campaigns.
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "plan_bfbs_generated.h"
#include "runtime/verify/verify.h"
#include "tests/fuzz/plans/campaign.h"
#include "tests/fuzz/plans/plan_mutator.h"
#include "tests/runtime/verify_fixture.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

// What a kernel may declare of its params besides pointers.
PlanSpec declaring(PlanSpec spec) {
  spec.kernels[0].counts = {{16, 1, 4, 0}};
  spec.kernels[0].plain_words = {20};
  spec.kernels[0].addends = {{0, 16}};
  spec.kernels[0].sizes = {{0, 20, 0, fb::SizeOp::Symbol}, {4, 0, 0, fb::SizeOp::Constant}};
  spec.kernels[0].reaches = {{0, 1}};
  spec.weight_files = {{.name = "model.bin", .size_bytes = 64, .checksum = 1, .start_checksum = 1}};
  return spec;
}

PlanSpec asserting_plan() {
  PlanSpec spec = index_plan(3);
  const uint32_t word = spec.entries[0].steps[1].relocations.back().value;
  spec.entries[0].assertions = {{.word = word, .text = "a loop ends"}};
  return spec;
}

std::vector<SeedPlan> seeds() {
  return {{"small_plan", serialise(small_plan())},
          {"index_plan", serialise(asserting_plan())},
          {"map_plan", serialise(map_plan())},
          {"window_plan", serialise(window_plan())},
          {"sized_map_plan", serialise(sized_map_plan())},
          {"alternative_plan", serialise(alternative_plan())},
          {"free_plan", serialise(free_plan())},
          {"formed_plan", serialise(formed_plan())},
          {"alternates_plan", serialise(alternates_plan())},
          {"free_gemm_plan", serialise(free_gemm_plan())},
          {"ranged_plan", serialise(ranged_copies_plan())},
          {"region_plan", serialise(region_plan())}};
}

bool same(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.bits != b.bits || a.bytes != b.bytes || a.kids.size() != b.kids.size())
    return false;
  for (size_t i = 0; i < a.kids.size(); ++i) {
    if (!same(a.kids[i], b.kids[i])) return false;
  }
  return true;
}

TEST_CASE("a_plan_taken_apart_and_put_together_is_the_same_plan") {
  const TreeSchema schema(fb::PlanBinarySchema::data());
  for (const SeedPlan& seed : seeds()) {
    INFO(seed.name);
    PlanFile file = split_plan(seed.bytes);
    std::vector<std::byte>& index = file.section(SectionKind::Index)->bytes;
    const Node tree = schema.read(index);
    index = schema.write(tree);
    CHECK(same(schema.read(index), tree));
    std::vector<std::byte> plan = join_plan(file);
    reseal(plan);
    CHECK(verify_plan(plan).empty());
  }
}

TEST_CASE("a_mutant_is_known_by_seed_and_number") {
  const PlanMutator mutator(seeds());
  const PlanMutator again(seeds());
  std::set<std::vector<std::byte>> different;
  for (uint64_t number = 0; number < 200; ++number) {
    const Mutant mutant = mutator.make(7, number);
    CHECK(mutant.bytes == again.make(7, number, true).bytes);
    different.insert(mutant.bytes);
  }
  CHECK(different.size() > 180);
}

// A field that the schema gains is edited from then on.
TEST_CASE("every_field_of_the_index_is_edited") {
  const TreeSchema schema(fb::PlanBinarySchema::data());
  std::vector<SeedPlan> all = seeds();
  all.push_back({"declarations", serialise(declaring(small_plan()))});
  const PlanMutator mutator(all);
  const std::vector<std::string> names = mutator.field_names();
  const std::set<std::string> edited(names.begin(), names.end());
  for (const ObjectType& object : schema.objects()) {
    if (object.is_struct) continue;
    for (const FieldType& field : object.fields) {
      INFO(object.name << "." << field.name);
      CHECK(edited.count(object.name + "." + field.name) == 1);
      if (field.kind != FieldKind::Struct && field.kind != FieldKind::Structs) continue;
      for (const FieldType& inner : schema.object(field.object).fields) {
        INFO(inner.name);
        CHECK(edited.count(object.name + "." + field.name + "." + inner.name) == 1);
      }
    }
  }
}

TEST_CASE("mutants_reach_the_rules_of_every_group") {
  const PlanMutator mutator(seeds());
  std::set<std::string> groups;
  size_t accepted = 0;
  for (uint64_t number = 0; number < 3000; ++number) {
    const std::vector<VerifyFault> faults = verify_plan(mutator.make(1, number).bytes);
    accepted += faults.empty() ? 1 : 0;
    if (faults.empty()) continue;
    const std::string code(rule_text(faults[0].rule).code);
    groups.insert(code.substr(0, code.find('.')));
  }
  CHECK(groups.size() == 15);
  CHECK(accepted > 300);
}

// What each mutant of a campaign does; those of 0 to 2,499 that are not named are refused.
Judgement planted(uint64_t number) {
  if (number == 5) raise(SIGKILL);
  if (number == 1007) _exit(3);
  if (number == 1500) {
    while (true) pause();
  }
  if (number == 2400) return {.bad = "as it says"};
  return {.refused_by = VerifyRule::Magic};
}

TEST_CASE("a_campaign_names_what_crashes_ends_or_hangs_and_goes_on") {
  const std::string folder = std::filesystem::temp_directory_path() / "rlx-test-campaign";
  std::filesystem::create_directories(folder);
  const CampaignResult result =
      run_campaign({.count = 2500, .jobs = 2, .seconds_per_mutant = 0.5, .log_folder = folder},
                   [] { return planted; });
  std::filesystem::remove_all(folder);
  CHECK(result.executed == 2500);
  CHECK(result.refused[static_cast<size_t>(VerifyRule::Magic)] == 2496);
  REQUIRE(result.bad == 4);
  CHECK(result.list[0].number == 5);
  CHECK(result.list[0].what.find("signal 9") != std::string::npos);
  CHECK(result.list[1].number == 1007);
  CHECK(result.list[1].what.find("status 3") != std::string::npos);
  CHECK(result.list[2].number == 1500);
  CHECK(result.list[2].what.find("hangs") != std::string::npos);
  CHECK(result.list[3].what == "as it says");
}

#if defined(__SANITIZE_ADDRESS__)
TEST_CASE("a_campaign_names_what_leaks") {
  const std::string folder = std::filesystem::temp_directory_path() / "rlx-test-campaign-leaks";
  std::filesystem::create_directories(folder);
  const CampaignResult result = run_campaign({.count = 1400, .log_folder = folder}, [] {
    return [](uint64_t number) -> Judgement {
      if (number == 1234) static_cast<void>(*new volatile int(1));
      return {.refused_by = VerifyRule::Magic};
    };
  });
  std::filesystem::remove_all(folder);
  CHECK(result.executed == 1400);
  REQUIRE(result.bad == 1);
  CHECK(result.list[0].number == 1234);
  CHECK(result.list[0].what == "leaks");
}
#endif

}  // namespace
}  // namespace rlx::test
