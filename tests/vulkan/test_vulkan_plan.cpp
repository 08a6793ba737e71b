// SPDX-License-Identifier: Apache-2.0
// Plans on the Vulkan device, end to end, with the validation layer watching.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

#include "tests/support/catch.h"
#include "tests/vulkan/plan_sketch.h"
#include "tests/vulkan/vulkan_fixture.h"

using namespace rlx;
using namespace rlx::test;

namespace {

constexpr fb::AccessMode kRead = fb::AccessMode::Read;
constexpr fb::AccessMode kWrite = fb::AccessMode::Write;
constexpr fb::AccessMode kReadWrite = fb::AccessMode::ReadWrite;
constexpr fb::Segment kIo = fb::Segment::Io;
constexpr uint32_t kCount = 1000;  // no multiple of the workgroup
constexpr uint32_t kGrid = (kCount + kSketchWorkgroup - 1) / kSketchWorkgroup;

SketchKernel double_plus_one() {
  return {.name = "region",
          .body = "if (i < 1000) F32(p.b).v[i] = F32(p.a).v[i] * 2.0 + 1.0;",
          .pointers = {kRead, kWrite}};
}

SketchKernel add_kernel() {
  return {.name = "transpose",
          .body = "if (i < 1000) F32(p.c).v[i] = F32(p.a).v[i] + F32(p.b).v[i];",
          .pointers = {kRead, kRead, kWrite}};
}

SketchStep dispatch(uint32_t kernel, uint32_t wave, std::vector<SketchPointer> pointers) {
  return {.kernel = kernel, .grid = kGrid, .wave = wave, .pointers = std::move(pointers)};
}

// y = 2 * x + 1
PlanSketch affine_sketch() {
  return {.kernels = {double_plus_one()},
          .entries = {
              {.name = "main",
               .values = {{.name = "x", .segment = kIo, .elements = kCount, .role = Role::Input},
                          {.name = "y", .segment = kIo, .elements = kCount, .role = Role::Output}},
               .steps = {dispatch(0, 0, {{0, kRead}, {1, kWrite}})}}}};
}

// x -> eight times 2 * h + 1 through two arena values in turn -> y: every step waits for the one
// before.
PlanSketch chain_sketch() {
  PlanSketch sketch{.kernels = {double_plus_one()}};
  SketchEntry entry{
      .name = "main",
      .values = {{.name = "x", .segment = kIo, .elements = kCount, .role = Role::Input},
                 {.name = "y", .segment = kIo, .elements = kCount, .role = Role::Output}}};
  for (uint32_t i = 0; i < 7; ++i) {
    entry.values.push_back(
        {.name = "h" + std::to_string(i), .elements = kCount, .offset_bytes = i % 2 * 4096u});
  }
  for (uint32_t i = 0; i < 8; ++i) {
    entry.steps.push_back(
        dispatch(0, i, {{i == 0 ? 0 : i + 1, kRead}, {i == 7 ? 1 : i + 2, kWrite}}));
  }
  sketch.entries.push_back(std::move(entry));
  return sketch;
}

// y = x + w for a weight of the file, and a weight g that init fills with 3 * w.
PlanSketch weights_sketch() {
  std::vector<float> data(kCount);
  std::iota(data.begin(), data.end(), 0.0f);
  return {.weights = {{.name = "w", .offset_bytes = 0, .data = data},
                      {.name = "g",
                       .offset_bytes = 4096,
                       .data = std::vector<float>(kCount),
                       .generated = true}},
          .kernels = {add_kernel(),
                      {.name = "pad",
                       .body = "if (i < 1000) F32(p.b).v[i] = F32(p.a).v[i] * 3.0;",
                       .pointers = {kRead, kWrite}}},
          .entries =
              {{.name = "main",
                .values = {{.name = "x", .segment = kIo, .elements = kCount, .role = Role::Input},
                           {.name = "w", .segment = fb::Segment::Weights, .elements = kCount},
                           {.name = "g",
                            .segment = fb::Segment::Weights,
                            .elements = kCount,
                            .offset_bytes = 4096},
                           {.name = "h", .elements = kCount},
                           {.name = "y", .segment = kIo, .elements = kCount, .role = Role::Output}},
                .steps = {dispatch(0, 0, {{0, kRead}, {1, kRead}, {3, kWrite}}),
                          dispatch(0, 1, {{3, kRead}, {2, kRead}, {4, kWrite}})}}},
          .init = {{.name = "init",
                    .values = {{.name = "w", .segment = fb::Segment::Weights, .elements = kCount},
                               {.name = "g",
                                .segment = fb::Segment::Weights,
                                .elements = kCount,
                                .offset_bytes = 4096}},
                    .steps = {dispatch(1, 0, {{0, kRead}, {1, kWrite}})}}}};
}

// Counts runs in a state: s += 1, y = s. Further states begin as ones and as a weight and are
// copied out.
PlanSketch state_sketch() {
  std::vector<float> data(kCount, 7.5f);
  return {
      .weights = {{.name = "w", .data = data}},
      .states =
          {{.name = "s", .offset_bytes = 0, .elements = kCount},
           {.name = "ones", .offset_bytes = 4096, .elements = kCount, .init = fb::StateInit::Ones},
           {.name = "copy",
            .offset_bytes = 8192,
            .elements = kCount,
            .init = fb::StateInit::Weight}},
      .kernels = {{.name = "region",
                   .body = "if (i < 1000) { F32(p.a).v[i] += 1.0; F32(p.b).v[i] = F32(p.a).v[i]; }",
                   .pointers = {kReadWrite, kWrite}}},
      .entries = {
          {.name = "main",
           .values =
               {{.name = "s", .segment = fb::Segment::State, .elements = kCount},
                {.name = "ones",
                 .segment = fb::Segment::State,
                 .elements = kCount,
                 .offset_bytes = 4096},
                {.name = "copy",
                 .segment = fb::Segment::State,
                 .elements = kCount,
                 .offset_bytes = 8192},
                {.name = "y", .segment = kIo, .elements = kCount, .role = Role::Output},
                {.name = "one_out", .segment = kIo, .elements = kCount, .role = Role::Output},
                {.name = "copy_out", .segment = kIo, .elements = kCount, .role = Role::Output}},
           .steps = {dispatch(0, 0, {{0, kReadWrite}, {3, kWrite}}),
                     {.kind = fb::StepKind::Copy, .pointers = {{1, kRead}, {4, kWrite}}},
                     {.kind = fb::StepKind::Copy, .pointers = {{2, kRead}, {5, kWrite}}}}}}};
}

std::vector<float> ramp(float start) {
  std::vector<float> x(kCount);
  std::iota(x.begin(), x.end(), start);
  return x;
}

}  // namespace

TEST_CASE("a kernel reads and writes through addresses in push constants") {
  RLX_NEED_VULKAN(device);
  const auto plan = open_plan(affine_sketch());
  VulkanRun run(device, plan);
  run.write(0, ramp(0));
  run.execute();
  const std::vector<float> y = run.read(1);
  for (uint32_t i = 0; i < kCount; ++i) REQUIRE(y[i] == 2.0f * static_cast<float>(i) + 1.0f);
}

TEST_CASE("a wave sees everything that the waves before it wrote") {
  RLX_NEED_VULKAN(device);
  const auto plan = open_plan(chain_sketch());
  VulkanRun run(device, plan);
  for (const std::byte pattern : {std::byte{0x00}, std::byte{0xff}, std::byte{0xa5}}) {
    REQUIRE_OK(run.session().poison_arena(pattern));
    run.write(0, ramp(0));
    run.execute();
    const std::vector<float> y = run.read(1);
    for (uint32_t i = 0; i < kCount; ++i) REQUIRE(y[i] == 256.0f * static_cast<float>(i) + 255.0f);
  }
}

TEST_CASE("copies and fills move just the ranges that they name") {
  RLX_NEED_VULKAN(device);
  PlanSketch sketch{
      .entries = {
          {.name = "main",
           .values = {{.name = "x", .segment = kIo, .elements = kCount, .role = Role::Input},
                      {.name = "y", .segment = kIo, .elements = kCount, .role = Role::Output}},
           .steps = {
               {.kind = fb::StepKind::Fill, .pointers = {{1, kWrite}}, .fill_pattern = 0x3f800000},
               {.kind = fb::StepKind::Copy,
                .wave = 1,
                .pointers = {{0, kRead, 10, 20}, {1, kWrite, 500, 20}}}}}}};
  const auto plan = open_plan(sketch);
  VulkanRun run(device, plan);
  run.write(0, ramp(0));
  run.execute();
  const std::vector<float> y = run.read(1);
  for (uint32_t i = 0; i < kCount; ++i) {
    REQUIRE(y[i] == (i >= 500 && i < 520 ? static_cast<float>(i - 490) : 1.0f));
  }
}

TEST_CASE("sessions share weights, generated ones included, and nothing else") {
  RLX_NEED_VULKAN(device);
  const auto plan = open_plan(weights_sketch());
  std::shared_ptr<DevicePlan> loaded;
  REQUIRE_OK(device->load(*plan, {}, loaded));
  VulkanRun first(loaded, plan);
  VulkanRun second(loaded, plan);
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

TEST_CASE("states persist between runs, begin as the plan says and can be reset") {
  RLX_NEED_VULKAN(device);
  const auto plan = open_plan(state_sketch());
  VulkanRun run(device, plan);
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

TEST_CASE("a thousand replays give the same bits") {
  RLX_NEED_VULKAN(device);
  const auto plan = open_plan(chain_sketch());
  VulkanRun run(device, plan);
  run.write(0, ramp(3));
  run.execute();
  const std::vector<float> first = run.read(1);
  for (int i = 0; i < 1000; ++i) run.execute();
  REQUIRE(run.read(1) == first);
}

TEST_CASE("two threads with a session each do not disturb one another") {
  RLX_NEED_VULKAN(device);
  const auto plan = open_plan(chain_sketch());
  std::shared_ptr<DevicePlan> loaded;
  REQUIRE_OK(device->load(*plan, {}, loaded));
  std::vector<int> wrong(2, 0);
  const auto work = [&](int which) {
    std::unique_ptr<DeviceSession> session;
    if (!loaded->create_session(session).ok()) {
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

TEST_CASE("any live value can be read after any step, and dead ones are refused") {
  RLX_NEED_VULKAN(device);
  const auto plan = open_plan(chain_sketch());
  VulkanRun run(device, plan);
  run.write(0, ramp(0));
  std::vector<float> h(kCount);
  REQUIRE_OK(run.session().read_after(0, 2, 4, std::as_writable_bytes(std::span(h))));
  for (uint32_t i = 0; i < kCount; ++i) REQUIRE(h[i] == 8.0f * static_cast<float>(i) + 7.0f);
  const Status dead = run.session().read_after(0, 6, 4, std::as_writable_bytes(std::span(h)));
  CHECK(dead.code() == RLX_INVALID_ARGUMENT);
  CHECK(dead.message().find("\"h2\" does not live at step 6") != std::string::npos);
}

TEST_CASE("profiling times every step, and the whole run") {
  RLX_NEED_VULKAN(device);
  const auto plan = open_plan(chain_sketch());
  VulkanRun run(device, plan, {.profile = true});
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
  VulkanRun plain(device, plan);
  CHECK(plain.session().profile(0, times).code() == RLX_INVALID_STATE);
}

TEST_CASE("a bound buffer is read and written in place") {
  RLX_NEED_VULKAN(device);
  // The caller's memory is another session's state, which has an address and can be read back.
  const auto plan = open_plan(affine_sketch());
  VulkanRun owner(device, plan);
  vulkan::Buffer memory;
  vulkan::Context& context = context_of(owner);
  REQUIRE_OK(
      vulkan::create_buffer(context, 2 * 4096, vulkan::MemoryUse::Io, "the caller's", memory));
  if (memory.mapped == nullptr) {
    std::puts("SKIPPED: the device's memory cannot be mapped");
    return;
  }
  const std::vector<float> x = ramp(5);
  std::memcpy(memory.mapped, x.data(), 4000);
  REQUIRE_OK(owner.session().bind(0, 0, {.device_address = memory.address, .size_bytes = 4000}));
  REQUIRE_OK(
      owner.session().bind(0, 1, {.device_address = memory.address + 4096, .size_bytes = 4000}));
  owner.execute();
  std::vector<float> y(kCount);
  std::memcpy(y.data(), memory.mapped + 4096, 4000);
  CHECK(y[10] == 31.0f);
  CHECK(owner.session().read(0, 1, std::as_writable_bytes(std::span(y))).code() ==
        RLX_INVALID_STATE);
  REQUIRE_OK(owner.session().bind(0, 0, {}));
  REQUIRE_OK(owner.session().bind(0, 1, {}));
  owner.write(0, ramp(0));
  owner.execute();
  CHECK(owner.read(1)[10] == 21.0f);
}

TEST_CASE("a run under way refuses everything but waiting") {
  RLX_NEED_VULKAN(device);
  const auto plan = open_plan(affine_sketch());
  VulkanRun run(device, plan);
  run.write(0, ramp(0));
  REQUIRE_OK(run.session().submit(0));
  CHECK(run.session().submit(0).code() == RLX_INVALID_STATE);
  CHECK(run.session().reset_states().code() == RLX_INVALID_STATE);
  REQUIRE_OK(run.session().wait(UINT64_MAX));
  REQUIRE_OK(run.session().wait(UINT64_MAX));
}

TEST_CASE("the device tells what a plan needs and it has not") {
  RLX_NEED_VULKAN(device);
  PlanSketch sketch = affine_sketch();
  sketch.max_shared_bytes = 1u << 30;
  sketch.extra_features = uint64_t{1} << 63;
  std::shared_ptr<DevicePlan> loaded;
  const auto plan = open_plan(sketch);
  const Status status = device->load(*plan, {}, loaded);
  CHECK(status.code() == RLX_UNSUITABLE_DEVICE);
  CHECK(status.message().find(
            "bytes of shared memory per workgroup: the plan needs 1073741824, this device has") !=
        std::string::npos);
  CHECK(status.message().find("feature number 63") != std::string::npos);
}

TEST_CASE("a memory budget is refused before anything is allocated, naming the largest segments") {
  RLX_NEED_VULKAN(device);
  const auto plan = open_plan(weights_sketch());
  std::shared_ptr<DevicePlan> loaded;
  const Status status = device->load(*plan, {.memory_budget_bytes = 1000}, loaded);
  CHECK(status.code() == RLX_OUT_OF_DEVICE_MEMORY);
  CHECK(status.message().find("largest segments: weights") != std::string::npos);
  CHECK(loaded == nullptr);
}

TEST_CASE(
    "the pipeline cache is written once, used again, and never believed when it does not fit") {
  RLX_NEED_VULKAN(device);
  const std::string path = temporary_path("pipelines");
  const auto plan = open_plan(affine_sketch());
  const auto run_with_cache = [&](const std::shared_ptr<const PlanView>& view) {
    VulkanRun run(device, view, {.pipeline_cache_path = path});
    run.write(0, ramp(0));
    run.execute();
    CHECK(run.read(1)[3] == 7.0f);
  };
  run_with_cache(plan);
  const std::string written = file_text(path);
  REQUIRE(written.size() > 80);
  run_with_cache(plan);
  CHECK(file_text(path) == written);

  const vulkan::PhysicalDevice& physical = physical_of(*device, plan);
  CHECK_FALSE(vulkan::read_pipeline_cache(path, physical, *plan).empty());
  // Another plan, a changed byte anywhere, and any truncation are misses.
  PlanSketch other = affine_sketch();
  other.name = "other";
  CHECK(vulkan::read_pipeline_cache(path, physical, *open_plan(other)).empty());
  for (size_t i = 0; i < written.size(); i += i < 100 ? 1 : 997) {
    std::string changed = written;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    write_text(path, changed);
    REQUIRE(vulkan::read_pipeline_cache(path, physical, *plan).empty());
  }
  write_text(path, written.substr(0, written.size() - 1));
  CHECK(vulkan::read_pipeline_cache(path, physical, *plan).empty());
  run_with_cache(plan);
  CHECK_FALSE(vulkan::read_pipeline_cache(path, physical, *plan).empty());
  // A folder that does not exist costs the speed-up only.
  VulkanRun run(device, plan, {.pipeline_cache_path = "/no/such/folder/cache"});
  std::remove(path.c_str());
}

TEST_CASE("devices can be opened and closed again and again") {
  std::string why;
  if (present_devices(why).empty()) {
    std::printf("SKIPPED: %s\n", why.c_str());
    return;
  }
  for (int i = 0; i < 10; ++i) {
    std::shared_ptr<Device> device;
    REQUIRE_OK(open_vulkan_device("vulkan:0", device));
    CHECK(device->info().id == "vulkan:0");
  }
  std::shared_ptr<Device> none;
  const Status status = open_vulkan_device("vulkan:99", none);
  CHECK(status.code() == RLX_NO_DEVICE);
  CHECK(status.message().find("this machine has vulkan:0") != std::string::npos);
}

TEST_CASE("what the validation layer reports fails the session from then on") {
  std::string why;
  std::shared_ptr<Device> device;
  if (present_devices(why).empty() ||
      !open_vulkan_device("vulkan:0", device, {.validation = true}).ok()) {
    std::printf("SKIPPED: no Vulkan device or no validation layer. %s\n", why.c_str());
    return;
  }
  const auto plan = open_plan(affine_sketch());
  VulkanRun run(device, plan);
  run.write(0, ramp(0));
  run.execute();
  vulkan::Context& context = context_of(run);
  const VkFenceCreateInfo wrong = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO};
  VkFence fence = VK_NULL_HANDLE;
  context.api.vkCreateFence(context.device, &wrong, nullptr, &fence);
  context.api.vkDestroyFence(context.device, fence, nullptr);
  CHECK_FALSE(vulkan_validation_messages(*device).empty());
  const Status status = run.session().submit(0);
  CHECK(status.code() == RLX_DRIVER_ERROR);
  CHECK(status.message().find("the validation layer reported: ") == 0);
}

TEST_CASE("a device whose memory cannot be mapped gives the same answers through staging") {
  RLX_NEED_VULKAN_WITH(device, {.staging_only = true});
  const auto weights = open_plan(weights_sketch());
  VulkanRun run(device, weights, {.profile = true});
  for (const float start : {0.0f, 50.0f}) {
    run.write(0, ramp(start));
    run.execute();
    const std::vector<float> y = run.read(4);
    for (uint32_t i = 0; i < kCount; ++i) REQUIRE(y[i] == 5.0f * static_cast<float>(i) + start);
  }
  std::vector<StepTime> times;
  REQUIRE_OK(run.session().profile(0, times));
  CHECK(run.read(4)[1] == 55.0f);
  const auto states = open_plan(state_sketch());
  VulkanRun counter(device, states);
  counter.execute();
  CHECK(counter.read(3) == std::vector<float>(kCount, 1.0f));
  CHECK(counter.read(4) == std::vector<float>(kCount, 1.0f));
  CHECK(counter.read(5) == std::vector<float>(kCount, 7.5f));
}

TEST_CASE("weights larger than the staging ring arrive whole") {
  RLX_NEED_VULKAN_WITH(device, {.staging_only = true});
  // 130 MiB in four weights: more than the ring's three slots, with cuts inside of weights.
  constexpr uint32_t kElements = 130u << 16;
  PlanSketch sketch{
      .kernels = {{.name = "region",
                   .body = "if (i < 4) { uint at = i * 2839889u; F32(p.b).v[i] = F32(p.a).v[at]; }",
                   .pointers = {kRead, kWrite}}}};
  SketchEntry entry{.name = "main"};
  for (uint32_t w = 0; w < 4; ++w) {
    SketchWeight weight{.name = "w" + std::to_string(w),
                        .offset_bytes = w * uint64_t{kElements} * 4};
    weight.data.resize(kElements);
    for (uint32_t i = 0; i < kElements; ++i) weight.data[i] = static_cast<float>(i % 1000003 + w);
    sketch.weights.push_back(std::move(weight));
    entry.values.push_back({.name = "w" + std::to_string(w),
                            .segment = fb::Segment::Weights,
                            .elements = kElements,
                            .offset_bytes = w * uint64_t{kElements} * 4});
  }
  for (uint32_t w = 0; w < 4; ++w) {
    entry.values.push_back(
        {.name = "y" + std::to_string(w), .segment = kIo, .elements = 4, .role = Role::Output});
    entry.steps.push_back({.grid = 1, .pointers = {{w, kRead}, {4 + w, kWrite}}});
  }
  sketch.entries.push_back(std::move(entry));
  const auto plan = open_plan(sketch);
  VulkanRun run(device, plan);
  run.execute();
  for (uint32_t w = 0; w < 4; ++w) {
    const std::vector<float> y = run.read(4 + w);
    for (uint32_t i = 0; i < 4; ++i) CHECK(y[i] == sketch.weights[w].data[i * 2839889u]);
  }
}

TEST_CASE("segments are cut between values where one allocation does not hold them") {
  RLX_NEED_VULKAN_WITH(device, {.max_allocation_bytes = 8192});
  const auto plan = open_plan(weights_sketch());
  VulkanRun run(device, plan);
  const vulkan::VulkanPlan& loaded = dynamic_cast<const vulkan::VulkanPlan&>(run.loaded());
  CHECK(loaded.weights().chunks().size() == 1);
  run.write(0, ramp(0));
  run.execute();
  CHECK(run.read(4)[3] == 15.0f);
}

TEST_CASE(
    "a plan gives the same answers when every value has its own allocation, and says when one is "
    "too large") {
  RLX_NEED_VULKAN_WITH(device, {.max_allocation_bytes = 4096});
  const auto plan = open_plan(weights_sketch());
  std::shared_ptr<DevicePlan> loaded;
  REQUIRE_OK(device->load(*plan, {}, loaded));
  CHECK(dynamic_cast<const vulkan::VulkanPlan&>(*loaded).weights().chunks().size() == 2);
  VulkanRun run(loaded, plan);
  run.write(0, ramp(0));
  run.execute();
  CHECK(run.read(4)[3] == 15.0f);
  const auto states = open_plan(state_sketch());
  VulkanRun counter(device, states);
  counter.execute();
  CHECK(counter.read(5)[9] == 7.5f);

  PlanSketch large = weights_sketch();
  large.weights[0].data.resize(1100);
  large.weights[1].offset_bytes = 8192;
  for (SketchEntry* entry : {&large.entries[0], &large.init[0]}) {
    for (SketchValue& value : entry->values) {
      if (value.name == "g") value.offset_bytes = 8192;
    }
  }
  const Status status = device->load(*open_plan(large), {}, loaded);
  CHECK(status.code() == RLX_UNSUITABLE_DEVICE);
  CHECK(status.message().find("the bytes that hold \"w\" must lie in one piece") !=
        std::string::npos);
}
