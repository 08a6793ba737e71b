// SPDX-License-Identifier: Apache-2.0
// The calls that judge mutants of plans find nothing wrong with plans that are right.
#include "runtime/include/rlx.h"
#include "tests/fuzz/plans/session_calls.h"
#include "tests/support/catch.h"
#include "tests/support/free_plans.h"
#include "tests/support/plan_fixture.h"

namespace rlx::test {

TEST_CASE("states_queues_and_free_sizes_of_right_plans_give_no_fault") {
  rlx_device* null = nullptr;
  REQUIRE(rlx_device_open("null", &null) == RLX_OK);
  for (const PlanSpec& spec : {keeping_plan(), free_copies_plan(), small_plan()}) {
    const std::vector<std::byte> plan = serialise(spec);
    // Even numbers queue runs, odd ones check indices.
    for (uint64_t number = 0; number < 8; ++number) {
      SessionCalls calls(plan, null, number);
      CHECK(calls.run() == "");
      CHECK(calls.ran());
    }
  }
  rlx_device_close(null);
}

}  // namespace rlx::test
