// SPDX-License-Identifier: Apache-2.0
// Allocations of host memory that fail, everywhere outside of drivers: a status, never an abort,
// nothing left behind.
#include <cstdio>
#include <new>

#include "runtime/cuda/cuda_device.h"
#include "runtime/vulkan/vulkan_device.h"
#include "tests/faults/fault_fixture.h"
#include "tests/support/catch.h"
#include "tests/support/counting_allocator.h"

using namespace rlx;
using namespace rlx::test;

namespace {

// Every `stride`-th allocation of a use fails, each in a use of its own.
void fail_allocations(const Scenario& scenario, uint64_t stride) {
  FaultControl& control = *scenario.control;
  control.reset();
  control.in_driver = &in_driver;
  REQUIRE(use(scenario).status == RLX_OK);
  uint64_t failures = 0;
  bool reached = true;
  for (uint64_t k = 1; reached; k += stride) {
    control.reset();
    Outcome outcome{.status = RLX_OUT_OF_HOST_MEMORY, .remains = "none"};
    fail_allocation(k);
    try {
      outcome = use(scenario);
    } catch (const std::bad_alloc&) {
      // One of the test's own.
    }
    reached = allocation_failed();
    fail_allocation(0);
    failures += reached ? 1 : 0;
    INFO("allocation " << k << ": " << rlx_status_name(outcome.status) << " " << outcome.message);
    CHECK((outcome.status == RLX_OUT_OF_HOST_MEMORY || outcome.status == RLX_OK));
    CHECK(outcome.remains == "none");
    CHECK(control.live == 0);
    CHECK(control.misuses == 0);
    CHECK(outcome.health == RLX_OK);
  }
  control.reset();
  CHECK(use(scenario).status == RLX_OK);
  control.in_driver = nullptr;
  std::printf("%lu allocations failed\n", failures);
  CHECK(failures > 20);
}

}  // namespace

TEST_CASE("host memory that runs out on vulkan is a status") {
  std::string why_none;
  if (list_vulkan_devices(why_none).empty()) {
    std::printf("SKIPPED: %s\n", why_none.c_str());
    return;
  }
  fail_allocations(vulkan_scenario({}), 13);
  fail_allocations(vulkan_scenario({.staging_only = true}), 29);
}

TEST_CASE("host memory that runs out on cuda is a status") {
  fail_allocations(cuda_scenario(), 1);
}

TEST_CASE("each single allocation of a use fails once", "[.long]") {
  fail_allocations(cuda_scenario(serialise(gemm_plan())), 1);
  std::string why_none;
  if (list_vulkan_devices(why_none).empty()) return;
  fail_allocations(vulkan_scenario({}), 1);
  fail_allocations(vulkan_scenario({.staging_only = true}), 1);
}
