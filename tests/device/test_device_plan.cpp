// SPDX-License-Identifier: Apache-2.0
// What every device does with a plan, end to end, on each that is present.
#include <bit>
#include <numeric>
#include <thread>

#include "tests/device/device_fixture.h"
#include "tests/support/sketches.h"

using namespace rlx;
using namespace rlx::test;

TEST_CASE("a kernel reads and writes through addresses in its params") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    const auto plan = open_plan(affine_sketch());
    DeviceRun run(device, plan);
    run.write(0, ramp(0));
    run.execute();
    const std::vector<float> y = run.read(1);
    for (uint32_t i = 0; i < kCount; ++i) REQUIRE(y[i] == 2.0f * static_cast<float>(i) + 1.0f);
  }
}

TEST_CASE("a wave sees everything that the waves before it wrote") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    const auto plan = open_plan(chain_sketch());
    DeviceRun run(device, plan);
    for (const std::byte pattern : {std::byte{0x00}, std::byte{0xff}, std::byte{0xa5}}) {
      REQUIRE_OK(run.session().poison_arena(pattern));
      run.write(0, ramp(0));
      run.execute();
      const std::vector<float> y = run.read(1);
      for (uint32_t i = 0; i < kCount; ++i)
        REQUIRE(y[i] == 256.0f * static_cast<float>(i) + 255.0f);
    }
  }
}

TEST_CASE("copies and fills move just the ranges that they name") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    PlanSketch sketch{
        .entries = {
            {.name = "main",
             .values = {{.name = "x", .segment = kIo, .elements = kCount, .role = Role::Input},
                        {.name = "y", .segment = kIo, .elements = kCount, .role = Role::Output}},
             .steps = {{.kind = fb::StepKind::Fill,
                        .pointers = {{1, kWrite}},
                        .fill_pattern = 0x3f800000},
                       {.kind = fb::StepKind::Copy,
                        .wave = 1,
                        .pointers = {{0, kRead, 10, 20}, {1, kWrite, 500, 20}}}}}}};
    const auto plan = open_plan(sketch);
    DeviceRun run(device, plan);
    run.write(0, ramp(0));
    run.execute();
    const std::vector<float> y = run.read(1);
    for (uint32_t i = 0; i < kCount; ++i) {
      REQUIRE(y[i] == (i >= 500 && i < 520 ? static_cast<float>(i - 490) : 1.0f));
    }
  }
}

TEST_CASE("sessions share weights, generated ones included, and nothing else") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    const auto plan = open_plan(weights_sketch());
    std::shared_ptr<DevicePlan> loaded;
    REQUIRE_OK(device->load(*plan, {}, loaded));
    DeviceRun first(loaded, plan);
    DeviceRun second(loaded, plan);
    first.write(0, ramp(0));
    second.write(0, ramp(100));
    first.execute();
    second.execute();
    const std::vector<float> y1 = first.read(4);
    const std::vector<float> y2 = second.read(4);
    for (uint32_t i = 0; i < kCount; ++i) {
      REQUIRE(y1[i] == 5.0f * static_cast<float>(i));
      REQUIRE(y2[i] == 5.0f * static_cast<float>(i) + 100.0f);
    }
  }
}

TEST_CASE("states persist between runs, begin as the plan says and can be reset") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    const auto plan = open_plan(state_sketch());
    DeviceRun run(device, plan);
    for (int round = 0; round < 2; ++round) {
      for (int count = 1; count <= 3; ++count) {
        run.execute();
        REQUIRE(run.read(3) == std::vector<float>(kCount, static_cast<float>(count)));
      }
      REQUIRE(run.read(4) == std::vector<float>(kCount, 1.0f));
      REQUIRE(run.read(5) == std::vector<float>(kCount, 7.5f));
      REQUIRE_OK(run.session().reset_states());
    }
  }
}

TEST_CASE("a thousand replays give the same bits") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    const auto plan = open_plan(chain_sketch());
    DeviceRun run(device, plan);
    run.write(0, ramp(3));
    run.execute();
    const std::vector<float> first = run.read(1);
    for (int i = 0; i < 1000; ++i) run.execute();
    REQUIRE(run.read(1) == first);
  }
}

TEST_CASE("two threads with a session each do not disturb one another") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    const auto plan = open_plan(chain_sketch());
    std::shared_ptr<DevicePlan> loaded;
    REQUIRE_OK(device->load(*plan, {}, loaded));
    std::vector<int> wrong(2, 0);
    const auto work = [&](int which) {
      std::unique_ptr<DeviceSession> session;
      if (!loaded->create_session({}, session).ok()) {
        wrong[static_cast<size_t>(which)] = -1;
        return;
      }
      std::vector<float> y(kCount);
      for (int i = 0; i < 100; ++i) {
        const std::vector<float> x = ramp(static_cast<float>(which * 1000 + i));
        const bool good = session->write(0, 0, std::as_bytes(std::span(x))).ok() &&
                          session->submit(0).ok() && session->wait(UINT64_MAX).ok() &&
                          session->read(0, 1, std::as_writable_bytes(std::span(y))).ok();
        if (!good || y[5] != 256.0f * x[5] + 255.0f) ++wrong[static_cast<size_t>(which)];
      }
    };
    std::thread other(work, 1);
    work(0);
    other.join();
    CHECK(wrong == std::vector<int>{0, 0});
  }
}

TEST_CASE("any live value can be read after any step") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    const auto plan = open_plan(chain_sketch());
    DeviceRun run(device, plan);
    run.write(0, ramp(0));
    std::vector<float> h(kCount);
    REQUIRE_OK(run.session().read_after(0, 2, 4, std::as_writable_bytes(std::span(h))));
    for (uint32_t i = 0; i < kCount; ++i) REQUIRE(h[i] == 8.0f * static_cast<float>(i) + 7.0f);
  }
}

TEST_CASE("profiling times every step, and the whole run") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    const auto plan = open_plan(chain_sketch());
    DeviceRun run(device, plan, {.profile = true});
    run.write(0, ramp(0));
    run.execute();
    CHECK(run.session().last_run_microseconds() > 0);
    std::vector<StepTime> times;
    REQUIRE_OK(run.session().profile(0, times));
    REQUIRE(times.size() == 8);
    for (uint32_t i = 0; i < 8; ++i) {
      CHECK(times[i].step == i);
      CHECK(times[i].microseconds >= 0);
    }
    DeviceRun plain(device, plan);
    CHECK(plain.session().profile(0, times).code() == RLX_INVALID_STATE);
  }
}

TEST_CASE("a run under way refuses everything but waiting") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    const auto plan = open_plan(affine_sketch());
    DeviceRun run(device, plan);
    run.write(0, ramp(0));
    REQUIRE_OK(run.session().submit(0));
    CHECK(run.session().submit(0).code() == RLX_INVALID_STATE);
    CHECK(run.session().reset_states().code() == RLX_INVALID_STATE);
    REQUIRE_OK(run.session().wait(UINT64_MAX));
    REQUIRE_OK(run.session().wait(UINT64_MAX));
  }
}

TEST_CASE("queued runs go one after another, as many as the queue holds") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    INFO(device->info().id);
    DeviceRun run(device, open_plan(state_sketch()), {.profile = true}, {.queue_depth = 4});
    DeviceSession& session = run.session();
    float count = 0;
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < 4; ++i) REQUIRE_OK(session.submit(0));
      CHECK(session.submit(0).code() == RLX_INVALID_STATE);
      CHECK(session.reset_states().code() == RLX_INVALID_STATE);
      REQUIRE_OK(session.wait(UINT64_MAX));
      REQUIRE_OK(session.wait(UINT64_MAX));
      REQUIRE_OK(session.submit(0));
      for (int i = 0; i < 3; ++i) REQUIRE_OK(session.wait(UINT64_MAX));
      count += 5;
      REQUIRE(run.read(3) == std::vector<float>(kCount, count));
      CHECK(session.last_run_microseconds() > 0);
    }
    REQUIRE_OK(session.submit(0));
    REQUIRE_OK(session.submit(0));  // closed while two runs are under way
  }
}

TEST_CASE("entries are recorded behind queued runs of others") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    INFO(device->info().id);
    PlanSketch sketch = state_sketch();
    sketch.entries.push_back(sketch.entries[0]);
    sketch.entries[1].name = "again";
    DeviceRun run(device, open_plan(sketch), {}, {.queue_depth = 3});
    for (const uint32_t entry : {0u, 1u, 0u}) REQUIRE_OK(run.session().submit(entry));
    for (int i = 0; i < 3; ++i) REQUIRE_OK(run.session().wait(UINT64_MAX));
    CHECK(run.read(3) == std::vector<float>(kCount, 3.0f));
  }
}

TEST_CASE("a memory budget is refused before anything is allocated, naming the segments") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    const auto plan = open_plan(weights_sketch());
    std::shared_ptr<DevicePlan> loaded;
    const Status status = device->load(*plan, {.memory_budget_bytes = 1000}, loaded);
    CHECK(status.code() == RLX_OUT_OF_DEVICE_MEMORY);
    CHECK(status.message().find("(weights ") != std::string::npos);
    CHECK(loaded == nullptr);
  }
}

TEST_CASE("weights larger than the staging ring arrive whole") {
  // 130 MiB in four weights: more than the ring holds, with cuts inside of weights.
  constexpr uint32_t kElements = 130u << 16;
  constexpr uint64_t kDistance = 2839889;
  PlanSketch sketch{.kernels = {{.name = "region",
                                 .body = "if (i < 1) F32(p.b).v[0] = F32(p.a).v[0];",
                                 .pointers = {kRead, kWrite},
                                 .ptx = "mov.f32 %b, %a;",
                                 .elements = 1}}};
  SketchEntry entry{.name = "main"};
  for (uint32_t w = 0; w < 4; ++w) {
    SketchWeight weight{.name = "w" + std::to_string(w),
                        .offset_bytes = w * uint64_t{kElements} * 4};
    weight.data.resize(kElements);
    for (uint32_t i = 0; i < kElements; ++i) weight.data[i] = static_cast<float>(i % 1000003 + w);
    entry.values.push_back({.name = weight.name,
                            .segment = fb::Segment::Weights,
                            .elements = kElements,
                            .offset_bytes = weight.offset_bytes});
    sketch.weights.push_back(std::move(weight));
  }
  entry.values.push_back({.name = "y", .segment = kIo, .elements = 12, .role = Role::Output});
  for (uint32_t i = 0; i < 12; ++i) {
    entry.steps.push_back(
        {.wave = i, .pointers = {{i / 3, kRead, i % 3 * kDistance, 1}, {4, kWrite, i, 1}}});
  }
  sketch.entries.push_back(std::move(entry));
  const auto plan = open_plan(sketch);
  for (const std::shared_ptr<Device>& device : test_devices()) {
    DeviceRun run(device, plan);
    run.execute();
    const std::vector<float> y = run.read(4);
    for (uint32_t i = 0; i < 12; ++i) CHECK(y[i] == sketch.weights[i / 3].data[i % 3 * kDistance]);
  }
}

TEST_CASE("the host reads and clears what kernels count where indices are checked") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    INFO(device->info().id);
    const auto plan = open_plan(index_errors_sketch());
    DeviceRun run(device, plan, {.profile = true}, {.check_indices = true});
    const std::span<uint32_t> words = run.session().index_errors();
    REQUIRE(words.size() == 1);
    CHECK(words[0] == 0);
    run.write(0, {std::bit_cast<float>(uint32_t{3})});
    run.execute();
    CHECK(words[0] == 3);
    std::vector<StepTime> times;
    REQUIRE_OK(run.session().profile(0, times));
    CHECK(words[0] == 6);
    words[0] = 0;
    run.execute();
    CHECK(words[0] == 3);
  }
}

TEST_CASE("what kernels count where indices are not checked is nobody's to read") {
  for (const std::shared_ptr<Device>& device : test_devices()) {
    INFO(device->info().id);
    const auto plan = open_plan(index_errors_sketch());
    DeviceRun run(device, plan);
    CHECK(run.session().index_errors().empty());
    run.write(0, {2.0f});
    run.execute();
    CHECK(run.read(1) == std::vector<float>{2.0f});
    DeviceRun none(device, open_plan(affine_sketch()), {}, {.check_indices = true});
    CHECK(none.session().index_errors().empty());
  }
}
