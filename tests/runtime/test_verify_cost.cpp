// SPDX-License-Identifier: Apache-2.0
// The verifier's work is in proportion to a plan's size, whatever the plan. Counted, not timed.
#include "runtime/verify/verify_work.h"
#include "tests/runtime/crafted_plans.h"
#include "tests/support/catch.h"

using namespace rlx::test;
using rlx::verify_plan_report;
using rlx::VerifyReport;

namespace {

constexpr size_t kBytes = 500'000;
// What is charged at once, before the counter is looked at again: reading all of a list.
constexpr uint64_t kStep = rlx::kWorkPerPlan;

}  // namespace

TEST_CASE("crafted_plans_are_refused_or_right_within_the_work_of_their_size") {
  for_each_crafted_plan(kBytes, [](const CraftedPlan& crafted) {
    const VerifyReport report = verify_plan_report(crafted.plan);
    INFO(crafted.what << ", " << crafted.plan.size() << " bytes: "
                      << (report.faults.empty() ? "right" : report.faults[0].message));
    REQUIRE(report.faults.empty() == !crafted.rule.has_value());
    if (crafted.rule.has_value()) CHECK(report.faults[0].rule == *crafted.rule);
    CHECK(report.work.used <= report.work.allowed + kStep);
    CHECK(report.work.allowed <= rlx::kWorkPerPlan + rlx::kWorkPerIndexByte * crafted.plan.size());
  });
}

TEST_CASE("regular_plans_take_less_than_half_of_the_work_that_is_allowed") {
  for (const size_t bytes : {size_t{20'000}, size_t{200'000}, size_t{2'000'000}}) {
    const Bytes plan = long_plan(bytes);
    const VerifyReport report = verify_plan_report(plan);
    INFO(plan.size() << " bytes, " << report.work.used << " of " << report.work.allowed);
    REQUIRE(report.faults.empty());
    CHECK(report.work.used < report.work.allowed / 2);
  }
}

TEST_CASE("plans_of_long_skips_take_less_than_half_of_the_work_that_is_allowed") {
  for (const size_t bytes : {size_t{200'000}, size_t{2'000'000}}) {
    const Bytes plan = skips_plan(bytes);
    const VerifyReport report = verify_plan_report(plan);
    INFO(plan.size() << " bytes, " << report.work.used << " of " << report.work.allowed);
    REQUIRE((report.faults.empty() ? "" : report.faults[0].message) == "");
    CHECK(report.work.used < report.work.allowed / 2);
  }
}

TEST_CASE("work_grows_no_faster_than_a_plan") {
  const auto used = [](size_t bytes) {
    const VerifyReport report = verify_plan_report(long_plan(bytes));
    return static_cast<double>(report.work.used) / static_cast<double>(bytes);
  };
  CHECK(used(2'000'000) < 1.5 * used(200'000));
}
