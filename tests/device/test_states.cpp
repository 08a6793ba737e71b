// SPDX-License-Identifier: Apache-2.0
// What the host does with states, on every device that is present.
#include "tests/device/device_fixture.h"
#include "tests/support/sketches.h"

using namespace rlx;
using namespace rlx::test;

namespace {

constexpr StatePart kWhole{.state = 0,
                           .begin_bytes = 0,
                           .piece_bytes = kCount * 4,
                           .stride_bytes = kCount * 4,
                           .pieces = 1};
// The second and third of every ten elements.
constexpr StatePart kStrided{
    .state = 0, .begin_bytes = 4, .piece_bytes = 8, .stride_bytes = 40, .pieces = kCount / 10};

std::vector<float> read_state(const DeviceSession& session, const StatePart& part) {
  std::vector<float> data(part.pieces * part.piece_bytes / sizeof(float));
  REQUIRE_OK(const_cast<DeviceSession&>(session).read_state(
      part, std::as_writable_bytes(std::span(data))));
  return data;
}

}  // namespace

TEST_CASE("states are read and written, whole and in pieces") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    INFO(device->info().id);
    DeviceRun run(device, open_plan(state_sketch()));
    const std::vector<float> kept = ramp(5);
    REQUIRE_OK(run.session().write_state(kWhole, std::as_bytes(std::span(kept))));
    CHECK(read_state(run.session(), kWhole) == kept);
    run.execute();
    CHECK(run.read(3)[17] == 23.0f);
    std::vector<float> pieces = read_state(run.session(), kStrided);
    REQUIRE(pieces.size() == 200);
    CHECK(pieces[2] == 17.0f);
    CHECK(pieces[3] == 18.0f);
    pieces.assign(200, -1.0f);
    REQUIRE_OK(run.session().write_state(kStrided, std::as_bytes(std::span(pieces))));
    run.execute();
    const std::vector<float> y = run.read(3);
    for (uint32_t i = 0; i < kCount; ++i) {
      const bool written = i % 10 == 1 || i % 10 == 2;
      REQUIRE(y[i] == (written ? 0.0f : static_cast<float>(i) + 7.0f));
    }
  }
}

TEST_CASE("a state is copied to another session and lives on there by itself") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    INFO(device->info().id);
    const auto plan = open_plan(state_sketch());
    std::shared_ptr<DevicePlan> loaded;
    REQUIRE_OK(device->load(*plan, {}, loaded));
    DeviceRun first(loaded, plan);
    DeviceRun second(loaded, plan);
    for (int i = 0; i < 5; ++i) first.execute();
    REQUIRE_OK(second.session().copy_state(0, first.session()));
    first.execute();
    second.execute();
    second.execute();
    CHECK(first.read(3) == std::vector<float>(kCount, 6.0f));
    CHECK(second.read(3) == std::vector<float>(kCount, 7.0f));
    REQUIRE_OK(first.session().submit(0));
    CHECK(second.session().copy_state(0, first.session()).code() == RLX_INVALID_STATE);
    REQUIRE_OK(first.session().wait(UINT64_MAX));
  }
}

TEST_CASE("runs for debugging and timing leave states as they were") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    INFO(device->info().id);
    DeviceRun run(device, open_plan(state_sketch()), {.profile = true});
    run.execute();
    std::vector<StepTime> times;
    REQUIRE_OK(run.session().profile(0, times));
    CHECK(run.read(3) == std::vector<float>(kCount, 2.0f));
    std::vector<float> y(kCount);
    REQUIRE_OK(run.session().read_after(0, 0, 3, std::as_writable_bytes(std::span(y))));
    CHECK(y[0] == 2.0f);
    CHECK(read_state(run.session(), kWhole) == std::vector<float>(kCount, 1.0f));
    run.execute();
    CHECK(run.read(3) == std::vector<float>(kCount, 2.0f));
  }
}
