// SPDX-License-Identifier: Apache-2.0
// A run allocates nothing.
#include "runtime/api/session.h"
#include "tests/device/device_fixture.h"
#include "tests/support/counting_allocator.h"
#include "tests/support/sketches.h"

using namespace rlx;
using namespace rlx::test;

TEST_CASE("a run that checks indices allocates nothing once its entry is recorded") {
  for (const std::shared_ptr<Device>& device : plain_test_devices()) {
    INFO(device->info().id);
    const auto plan = open_plan(index_errors_sketch());
    std::shared_ptr<DevicePlan> loaded;
    std::unique_ptr<Session> session;
    REQUIRE_OK(device->load(*plan, {}, loaded));
    REQUIRE_OK(Session::create(plan, loaded, false, {.check_indices = true}, session));
    const float x = 0;
    const uint64_t dims[] = {1};
    REQUIRE_OK(
        session->set_input(0, "x", {.bytes = std::as_bytes(std::span(&x, 1)), .dims = dims}));
    REQUIRE_OK(session->run(0));
    bool good = true;
    const uint64_t before = allocations_of_this_thread();
    for (int i = 0; i < 100; ++i) good = good && session->run(0).ok();
    CHECK(allocations_of_this_thread() == before);
    CHECK(good);
  }
}

TEST_CASE("queued runs allocate nothing once their entry is recorded") {
  for (const std::shared_ptr<Device>& device : plain_test_devices()) {
    INFO(device->info().id);
    DeviceRun run(device, open_plan(state_sketch()), {.profile = true}, {.queue_depth = 3});
    run.execute();
    bool good = true;
    const uint64_t before = allocations_of_this_thread();
    for (int i = 0; i < 100; ++i) {
      for (int k = 0; k < 3; ++k) good = good && run.session().submit(0).ok();
      for (int k = 0; k < 3; ++k) good = good && run.session().wait(UINT64_MAX).ok();
    }
    CHECK(allocations_of_this_thread() == before);
    CHECK(good);
  }
}

TEST_CASE("a run allocates nothing once its entry is recorded") {
  // Without the validation layer, which allocates for itself.
  for (const std::shared_ptr<Device>& device : plain_test_devices()) {
    INFO(device->info().id);
    const auto plan = open_plan(affine_sketch());
    DeviceRun run(device, plan, {.profile = true});
    const std::vector<float> x = ramp(0);
    std::vector<float> y(kCount);
    run.write(0, x);
    run.execute();
    bool good = true;
    const uint64_t before = allocations_of_this_thread();
    for (int i = 0; i < 100; ++i) {
      good = good && run.session().write(0, 0, std::as_bytes(std::span(x))).ok() &&
             run.session().submit(0).ok() && run.session().wait(UINT64_MAX).ok() &&
             run.session().read(0, 1, std::as_writable_bytes(std::span(y))).ok();
    }
    CHECK(allocations_of_this_thread() == before);
    CHECK(good);
    CHECK(y[63] == 127.0f);
  }
}
