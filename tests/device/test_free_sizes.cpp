// SPDX-License-Identifier: Apache-2.0
// Bindings of free symbols, walked up and down on each device that is present.
#include <algorithm>

#include "runtime/api/session.h"
#include "tests/device/device_fixture.h"
#include "tests/support/counting_allocator.h"
#include "tests/support/sketches.h"

using namespace rlx;
using namespace rlx::test;

namespace {

// A session on a device, its inputs and outputs by name.
class FreeSession {
 public:
  explicit FreeSession(const std::shared_ptr<Device>& device, uint32_t max_bindings = 3)
      : plan_(open_spec(free_sketch_spec())) {
    std::shared_ptr<DevicePlan> loaded;
    REQUIRE_OK(device->load(*plan_, {.profile = true}, loaded));
    REQUIRE_OK(Session::create(plan_, loaded, true, {.max_bindings = max_bindings}, session_));
  }
  [[nodiscard]] Session& session() const { return *session_; }

  Status set_x(const std::vector<float>& x, uint64_t n) {
    const uint64_t dims[] = {n};
    return session_->set_input(0, "x",
                               {.bytes = std::as_bytes(std::span(x).first(n)), .dims = dims});
  }
  std::vector<float> read(const char* name, uint64_t n) {
    std::vector<float> data(n);
    REQUIRE_OK(session_->read_output(0, name, std::as_writable_bytes(std::span(data))));
    return data;
  }

 private:
  std::shared_ptr<const PlanView> plan_;
  std::unique_ptr<Session> session_;
};

bool is_four_x_plus_three(const std::vector<float>& y, float first) {
  for (size_t i = 0; i < y.size(); ++i) {
    if (y[i] != 4 * (first + static_cast<float>(i)) + 3) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a session runs at any sizes, one after another") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    INFO(device->info().id);
    FreeSession free(device);
    float first = 0;
    for (const uint64_t n : {1000, 1, 63, 64, 65, 0, 997, 64, 1, 1000, 999, 0, 63, 65}) {
      INFO(n);
      for (const std::byte pattern : {std::byte{0xff}, std::byte{0xa5}}) {
        REQUIRE_OK(free.session().poison_arena(pattern));
        REQUIRE_OK(free.set_x(ramp(++first), n));
        REQUIRE_OK(free.session().run(0));
        CHECK(is_four_x_plus_three(free.read("y", n), first));
        const std::vector<float> z = free.read("z", n);
        CHECK(std::count(z.begin(), z.end(), 1.0f) == static_cast<ptrdiff_t>(n));
      }
    }
  }
}

TEST_CASE("partial and timed runs are at the present sizes") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    INFO(device->info().id);
    FreeSession free(device);
    REQUIRE_OK(free.set_x(ramp(1), 100));
    std::vector<float> h(100);
    REQUIRE_OK(free.session().read_value(0, 0, 3, std::as_writable_bytes(std::span(h))));
    CHECK(h[99] == 201);
    std::vector<StepTime> times;
    REQUIRE_OK(free.session().profile(0, times));
    CHECK(times.size() == 4);
    CHECK(is_four_x_plus_three(free.read("y", 100), 1));
  }
}

TEST_CASE("runs at kept bindings allocate nothing") {
  for (const std::shared_ptr<Device>& device : plain_test_devices()) {
    INFO(device->info().id);
    FreeSession free(device);
    const std::vector<float> x = ramp(5);
    const auto replay = [&] {
      bool good = true;
      for (const uint64_t n : {7, 1000, 64, 0})
        good = free.set_x(x, n).ok() && free.session().run(0).ok() && good;
      return good;
    };
    REQUIRE(replay());
    const uint64_t before = allocations_of_this_thread();
    bool good = true;
    for (int i = 0; i < 25; ++i) good = replay() && good;
    CHECK(allocations_of_this_thread() == before);
    CHECK(good);
  }
}
