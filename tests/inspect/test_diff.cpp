// SPDX-License-Identifier: Apache-2.0
// Laws of the comparison of two plans.
#include <algorithm>
#include <memory>

#include "tests/support/catch.h"
#include "tests/support/free_plans.h"
#include "tests/support/plan_fixture.h"
#include "tools/inspect/diff.h"

namespace rlx::test {
namespace {

std::shared_ptr<const PlanView> open(const std::vector<std::byte>& bytes) {
  std::shared_ptr<const PlanView> plan;
  const Status status = PlanView::open_memory(bytes, {.copy_memory = true}, plan);
  INFO(status.message());
  REQUIRE(status.ok());
  return plan;
}

PlanDifferences compare(const PlanSpec& a, const PlanSpec& b) {
  PlanDifferences differences;
  REQUIRE(compare_plans(*open(serialise(a)), *open(serialise(b)), differences).ok());
  return differences;
}

// The differences of a group as "what: a -> b".
std::vector<std::string> rows_of(const PlanDifferences& differences, std::string_view title) {
  std::vector<std::string> rows;
  for (const DifferenceGroup& group : differences.groups) {
    if (group.title != title) continue;
    for (const PlanDifference& row : group.differences)
      rows.push_back(row.what + ": " + row.a.value_or("none") + " -> " + row.b.value_or("none"));
  }
  return rows;
}

bool any_has(const std::vector<std::string>& rows, const std::string& part) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const std::string& row) { return row.find(part) != std::string::npos; });
}

TEST_CASE("a_plan_is_equal_to_itself") {
  for (const PlanSpec& spec : {small_plan(), chain_plan(300), gemm_plan(), free_copies_plan()}) {
    const PlanDifferences same = compare(spec, spec);
    CHECK(same.none());
    CHECK(differences_text(same, 20) == "the plans are equal\n");
    CHECK(differences_json(same)["equal"] == true);
  }
}

TEST_CASE("one_changed_byte_of_a_weight_is_told_with_its_place") {
  const PlanSpec a = small_plan();
  PlanSpec b = a;
  REQUIRE(b.weight_bytes.size() > 5);
  b.weight_bytes[5] ^= std::byte{1};
  const PlanDifferences differences = compare(a, b);
  CHECK_FALSE(differences.none());
  CHECK(any_has(rows_of(differences, "weights"),
                "weight \"w\": content:  -> 1 of 256 bytes differ, the first at 5"));
  CHECK(any_has(rows_of(differences, "file"), "section weights"));
  CHECK(rows_of(differences, "steps").empty());
  CHECK(rows_of(differences, "memory").empty());
}

TEST_CASE("a_longer_plan_has_more_steps_and_the_common_ones_are_not_told") {
  const PlanDifferences differences = compare(chain_plan(3), chain_plan(4));
  CHECK(any_has(rows_of(differences, "entries"), "3 steps in 3 waves -> 4 steps in 4 waves"));
  size_t added = 0;
  for (const DifferenceGroup& group : differences.groups) {
    if (group.title != "steps") continue;
    for (const PlanDifference& row : group.differences) added += row.a ? 0 : 1;
  }
  CHECK(added == 1);
}

TEST_CASE("names_and_symbols_of_plans_are_compared") {
  const PlanSpec a = small_plan();
  PlanSpec b = a;
  b.name = "other";
  b.symbols[0].minimum = 0;
  const PlanDifferences differences = compare(a, b);
  const std::vector<std::string> rows = rows_of(differences, "plan");
  CHECK(any_has(rows, "name: \"fixture\" -> \"other\""));
  CHECK(any_has(rows, "symbol \"batch\": 1 to 8"));
  CHECK(rows_of(differences, "kernels").empty());
}

TEST_CASE("what_a_step_is_given_is_told_by_the_step_and_by_what_differs") {
  PlanSpec a = small_plan();
  a.debug_notes = false;
  PlanSpec b = a;
  b.entries[0].steps.back().fill_pattern ^= 1;
  b.note_reason = "another";
  const std::vector<std::string> rows = rows_of(compare(a, b), "steps");
  CHECK(rows.size() == 1);
  CHECK(any_has(rows, "step fill: fill pattern: "));
  a.debug_notes = b.debug_notes = true;
  const PlanDifferences noted = compare(a, b);
  CHECK(any_has(rows_of(noted, "reasons"), "reason: only one -> another"));
}

TEST_CASE("text_stops_at_the_most_rows_and_says_how_many_there_are") {
  const PlanDifferences differences = compare(chain_plan(2), chain_plan(300));
  const std::string text = differences_text(differences, 3);
  CHECK(text.find("more: --all\n") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') < 40);
  CHECK(differences_text(differences, SIZE_MAX).find("--all") == std::string::npos);
}

}  // namespace
}  // namespace rlx::test
