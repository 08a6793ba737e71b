// SPDX-License-Identifier: Apache-2.0
// Nothing grows: driver objects are equal and resident memory is flat over loads, sessions and
// runs.
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "runtime/api/session.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/null/null_device.h"
#include "runtime/vulkan/vulkan_device.h"
#include "tests/device/device_fixture.h"
#include "tests/faults/fault_fixture.h"
#include "tests/support/sketches.h"

using namespace rlx;
using namespace rlx::test;

namespace {

// Sanitizers keep freed memory for a while; there only the objects are compared.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kFlatKib = int64_t{1} << 20;
#else
constexpr int64_t kFlatKib = 256;
#endif

// Every device that is present, the null device, and CUDA without a GPU.
std::vector<std::shared_ptr<Device>> devices() {
  std::vector<std::shared_ptr<Device>> devices = {open_null_device()};
  std::shared_ptr<Device> device;
  REQUIRE_OK(open_cuda_device("cuda:0", device, {.library = RLX_CUDA_STAND_IN}));
  devices.push_back(std::move(device));
  std::string why_none;
  if (!list_vulkan_devices(why_none).empty()) {
    REQUIRE_OK(open_vulkan_device("vulkan:0", device));
    devices.push_back(std::move(device));
  }
  if (!list_cuda_devices(why_none).empty()) {
    REQUIRE_OK(open_cuda_device("cuda:0", device));
    devices.push_back(std::move(device));
  }
  return devices;
}

// Of this process, without what the heap keeps in reserve, once the drivers' threads have freed
// what they were about to.
int64_t resident_kib() {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  malloc_trim(0);
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  while (file >> word) {
    int64_t kib = 0;
    if (word == "Anonymous:" && file >> kib) return kib;
  }
  return 0;
}

void use_once(Device& device, const PlanView& plan, bool run) {
  std::shared_ptr<DevicePlan> loaded;
  std::unique_ptr<DeviceSession> session;
  REQUIRE_OK(device.load(plan, {.jobs = 1}, loaded));
  REQUIRE_OK(loaded->create_session({}, session));
  if (!run) return;
  REQUIRE_OK(session->submit(0));
  REQUIRE_OK(session->wait(UINT64_MAX));
}

// Of the quarters of `count` steps the one that grew least, times four: what is kept for every step
// grows in each of them, a driver's or an allocator's table that doubles in one. `step` is done
// count / 5 times before.
template <typename Step>
int64_t steady_growth_kib(uint64_t count, const Step& step) {
  for (uint64_t i = 0; i < count / 5; ++i) step();
  int64_t least = INT64_MAX;
  for (int quarter = 0; quarter < 4; ++quarter) {
    const int64_t before = resident_kib();
    for (uint64_t i = 0; i < count / 4; ++i) step();
    least = std::min(least, resident_kib() - before);
  }
  return 4 * least;
}

// One heap for all threads: what several keep in reserve for themselves is no growth of ours.
void check_loads(uint64_t count, bool run) {
  mallopt(M_ARENA_MAX, 1);
  const auto plan = open_plan(full_sketch());
  for (const std::shared_ptr<Device>& device : devices()) {
    INFO(device->info().id << " " << device->info().name);
    const ObjectCounts::Reading before = device->objects().read();
    const int64_t grown = steady_growth_kib(count, [&] {
      use_once(*device, *plan, run);
      REQUIRE(objects_text(device->objects().read()) == objects_text(before));
    });
    std::printf("%s: %lu loads%s, %ld KiB more\n", device->info().id.c_str(), count,
                run ? " with a run" : "", static_cast<long>(grown));
    CHECK(grown <= kFlatKib);
  }
}

void check_runs(uint64_t count) {
  mallopt(M_ARENA_MAX, 1);
  const auto plan = open_plan(full_sketch());
  for (const std::shared_ptr<Device>& device : devices()) {
    INFO(device->info().id << " " << device->info().name);
    DeviceRun run(device, plan, {.profile = true}, {.check_indices = true});
    run.execute();
    const ObjectCounts::Reading before = device->objects().read();
    const int64_t grown = steady_growth_kib(count, [&] { run.execute(); });
    std::printf("%s: %lu runs, %ld KiB more\n", device->info().id.c_str(), count,
                static_cast<long>(grown));
    CHECK(objects_text(device->objects().read()) == objects_text(before));
    CHECK(grown <= kFlatKib);
  }
}

}  // namespace

TEST_CASE("loading plans and making sessions a thousand times leaves nothing", "[.][growth]") {
  check_loads(1000, true);
}

// lavapipe keeps destroyed pipelines until its queue's next submit.
TEST_CASE("loading plans that never run leaves nothing", "[.][growth]") {
  check_loads(1000, false);
}

TEST_CASE("ten thousand runs leave nothing", "[.][growth]") {
  check_runs(10000);
}

TEST_CASE("ten thousand loads and a million runs leave nothing", "[.long]") {
  check_loads(10000, true);
  check_runs(1000000);
}

TEST_CASE("sessions on a plan that stays loaded come and go without a trace", "[.][growth]") {
  const auto plan = open_plan(full_sketch());
  for (const std::shared_ptr<Device>& device : devices()) {
    INFO(device->info().id);
    std::shared_ptr<DevicePlan> loaded;
    REQUIRE_OK(device->load(*plan, {.profile = true}, loaded));
    const ObjectCounts::Reading before = device->objects().read();
    for (int i = 0; i < 3; ++i) {
      std::unique_ptr<DeviceSession> session;
      REQUIRE_OK(loaded->create_session({.check_indices = true}, session));
      CHECK(device->objects().of(ObjectKind::Session) == 1);
      REQUIRE_OK(session->submit(0));
      REQUIRE_OK(session->wait(UINT64_MAX));
      std::vector<StepTime> times;
      REQUIRE_OK(session->profile(0, times));
    }
    CHECK(objects_text(device->objects().read()) == objects_text(before));
  }
}
