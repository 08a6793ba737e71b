// SPDX-License-Identifier: Apache-2.0
// What is Vulkan's own, with the validation layer watching; tests/device has what every device
// does.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "runtime/vulkan/vk_preflight.h"
#include "tests/support/catch.h"
#include "tests/support/sketches.h"
#include "tests/vulkan/vulkan_fixture.h"

using namespace rlx;
using namespace rlx::test;

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

TEST_CASE("a bound state is read and written in place, unless steps copy it") {
  RLX_NEED_VULKAN(device);
  VulkanRun owner(device, open_plan(state_sketch()));
  vulkan::Buffer memory;
  REQUIRE_OK(vulkan::create_buffer(context_of(owner), 4096, vulkan::MemoryUse::Io, "the caller's",
                                   memory));
  if (memory.mapped == nullptr) {
    std::puts("SKIPPED: the device's memory cannot be mapped");
    return;
  }
  const std::vector<float> kept = ramp(5);
  std::memcpy(memory.mapped, kept.data(), 4000);
  owner.execute();
  REQUIRE_OK(owner.session().bind_state(0, {.device_address = memory.address, .size_bytes = 4000}));
  owner.execute();
  REQUIRE_OK(owner.session().reset_states());
  owner.execute();
  float now = 0;
  std::memcpy(&now, memory.mapped + 40, sizeof now);
  CHECK(now == 17.0f);
  CHECK(owner.read(3)[10] == 17.0f);
  const Status refused =
      owner.session().bind_state(1, {.device_address = memory.address, .size_bytes = 4000});
  CHECK(refused.code() == RLX_UNSUITABLE_DEVICE);
  CHECK(refused.message().find("\"ones\" cannot live in a bound buffer") != std::string::npos);
  REQUIRE_OK(owner.session().bind_state(0, {}));
  owner.execute();
  CHECK(owner.read(3)[10] == 2.0f);
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
  CHECK(status.message().find("bytes of shared memory per workgroup (needs 1073741824, has ") !=
        std::string::npos);
  CHECK(status.message().find("feature number 63") != std::string::npos);
}

TEST_CASE("a plan's header alone says what a vulkan device lacks") {
  PlanHeader header{};
  header.vulkan = {.present = 1,
                   .api_version = VK_API_VERSION_1_3,
                   .features = uint64_t{1} << 63,
                   .max_workgroup_invocations = 256,
                   .max_shared_bytes = 0,
                   .max_params_bytes = 0,
                   .max_grid = {1, 1, 1}};
  header.arena_bytes = 2 << 20;
  DeviceInfo device{.target = fb::TargetKind::Vulkan,
                    .id = "vulkan:0",
                    .name = "Old GPU",
                    .driver = "none",
                    .api_version = VK_API_VERSION_1_2,
                    .memory_bytes = 1 << 20,
                    .max_workgroup_invocations = 256,
                    .max_grid = {1, 1, 1}};
  const Status lacking = check_device_suits(header, device, vulkan::check_target);
  CHECK(lacking.code() == RLX_UNSUITABLE_DEVICE);
  CHECK(lacking.message() ==
        "device vulkan:0 \"Old GPU\" lacks what the plan needs: Vulkan 1.3 (has 1.2), feature "
        "number 63 (newer than this runtime)");
  device.features = header.vulkan.features;
  device.api_version = VK_API_VERSION_1_3;
  CHECK(check_device_suits(header, device, vulkan::check_target).code() ==
        RLX_OUT_OF_DEVICE_MEMORY);
  device.is_software = true;
  CHECK(check_device_suits(header, device, vulkan::check_target).ok());
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
  // A file that is something else is not replaced; an empty one is.
  const std::string own = "a file of the user's, whose name was given by mistake";
  write_text(path, own);
  run_with_cache(plan);
  CHECK(file_text(path) == own);
  write_text(path, "");
  run_with_cache(plan);
  CHECK_FALSE(vulkan::read_pipeline_cache(path, physical, *plan).empty());
  // What is no regular file is neither read nor replaced: a link to a good one, a FIFO, a device.
  const std::string aside = temporary_path("pipelines_aside");
  std::filesystem::rename(path, aside);
  std::filesystem::create_symlink(aside, path);
  const std::string known = file_text(aside);
  CHECK(vulkan::read_pipeline_cache(path, physical, *plan).empty());
  run_with_cache(plan);
  CHECK(std::filesystem::is_symlink(path));
  CHECK(file_text(aside) == known);
  std::filesystem::remove(path);
  std::filesystem::remove(aside);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  run_with_cache(plan);
  CHECK(std::filesystem::is_fifo(path));
  VulkanRun into_device(device, plan, {.pipeline_cache_path = "/dev/null"});
  CHECK(std::filesystem::is_character_file("/dev/null"));
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

TEST_CASE("small outputs come with the run and large ones as they are read, each as it is now") {
  RLX_NEED_VULKAN_WITH(device, {.staging_only = true});
  constexpr uint32_t kLarge = 300000;  // 1.2 MB
  PlanSketch sketch{
      .kernels = {{.name = "region",
                   .body = "if (i < 1) F32(p.b).v[0] = F32(p.a).v[0] + 1.0; "
                           "if (i < 300000) F32(p.c).v[i] = F32(p.a).v[0] + float(i);",
                   .pointers = {kRead, kWrite, kWrite}}},
      .entries = {
          {.name = "main",
           .values = {{.name = "x", .segment = kIo, .elements = 1, .role = Role::Input},
                      {.name = "small", .segment = kIo, .elements = 1, .role = Role::Output},
                      {.name = "large", .segment = kIo, .elements = kLarge, .role = Role::Output}},
           .steps = {{.grid = ceil_div(kLarge, kSketchWorkgroup),
                      .pointers = {{0, kRead}, {1, kWrite}, {2, kWrite}}}}}}};
  VulkanRun run(device, open_plan(sketch));
  for (const float start : {3.0f, 40.0f}) {
    run.write(0, {start});
    run.execute();
    for (int again = 0; again < 2; ++again) {
      const std::vector<float> large = run.read(2);
      CHECK(large.front() == start);
      CHECK(large[kLarge / 2] == start + static_cast<float>(kLarge / 2));
      CHECK(large.back() == start + static_cast<float>(kLarge - 1));
      CHECK(run.read(1) == std::vector<float>{start + 1});
    }
  }
}

TEST_CASE("words of index errors are mapped where other memory cannot be") {
  RLX_NEED_VULKAN_WITH(device, {.staging_only = true});
  const auto plan = open_plan(index_errors_sketch());
  std::shared_ptr<DevicePlan> loaded;
  std::unique_ptr<DeviceSession> session;
  REQUIRE_OK(device->load(*plan, {}, loaded));
  REQUIRE_OK(loaded->create_session({.check_indices = true}, session));
  const uint32_t count = 5;
  REQUIRE_OK(session->write(0, 0, std::as_bytes(std::span(&count, 1))));
  REQUIRE_OK(session->submit(0));
  REQUIRE_OK(session->wait(UINT64_MAX));
  REQUIRE(session->index_errors().size() == 1);
  CHECK(session->index_errors()[0] == 5);
}

TEST_CASE("weights larger than the staging ring arrive whole where memory cannot be mapped") {
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
