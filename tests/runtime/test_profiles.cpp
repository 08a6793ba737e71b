// SPDX-License-Identifier: Apache-2.0
// Plans with several programs for one target: which one a device runs, and what each of them is.
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/choose_profile.h"
#include "runtime/device/preflight.h"
#include "runtime/include/rlx.h"
#include "runtime/plan/plan_kernels.h"
#include "runtime/plan/profiles.h"
#include "runtime/vulkan/vk_preflight.h"
#include "schema/features.h"
#include "tests/support/catch.h"
#include "tests/support/plan_fixture.h"

using namespace rlx;
using namespace rlx::test;

namespace {

constexpr uint64_t kMatrices = mask_of(Feature::CooperativeMatrix);

// profiled_plan()'s header with a third profile that needs matrices: the second by number.
PlanHeader three_profiles() {
  PlanSpec spec = profiled_plan();
  PlanProfile matrices = spec.profiles[0];
  std::snprintf(matrices.name, sizeof matrices.name, "vulkan-nvidia");
  matrices.vulkan.features |= kMatrices;
  spec.vulkan.features |= kMatrices;
  spec.profiles.insert(spec.profiles.begin() + 1, matrices);
  return header_of(serialise(spec));
}

DeviceInfo device_with(const PlanHeader& header, uint64_t features, bool is_software) {
  DeviceInfo device;
  device.target = fb::TargetKind::Vulkan;
  device.id = "vulkan:0";
  device.name = "card";
  device.api_version = header.vulkan.api_version;
  device.features = (header.vulkan.features & ~kMatrices) | features;
  device.memory_bytes = uint64_t{1} << 40;
  device.max_workgroup_invocations = device.max_shared_bytes = device.max_params_bytes = 1u << 20;
  for (uint32_t& most : device.max_grid) most = 1u << 20;
  device.is_software = is_software;
  return device;
}

struct Choice {
  Status status;
  std::optional<uint32_t> profile;
};

Choice choose(const PlanHeader& header, const DeviceInfo& device, std::string_view name = {}) {
  Choice choice;
  const SuitsCheck suits = [&](const PlanHeader& own) {
    return check_device_suits(own, device, vulkan::check_target);
  };
  choice.status = choose_profile(header, device, suits, name, choice.profile);
  return choice;
}

bool has(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a_device_runs_the_most_demanding_program_whose_needs_it_meets") {
  const PlanHeader header = three_profiles();
  CHECK(choose(header, device_with(header, 0, false)).profile == 0);
  CHECK(choose(header, device_with(header, kMatrices, false)).profile == 1);
  CHECK(choose(header, device_with(header, 0, true)).profile == 2);
  CHECK(choose(header, device_with(header, kMatrices, true)).profile == 2);
}

TEST_CASE("matrices_without_native_halves_run_the_program_that_needs_no_more") {
  PlanSpec spec = profiled_plan();
  constexpr uint64_t kHalves = mask_of(Feature::NativeHalves);
  const auto add = [&spec](const char* name, uint64_t features, int place) {
    PlanProfile profile = spec.profiles[0];
    std::snprintf(profile.name, sizeof profile.name, "%s", name);
    profile.vulkan.features |= features;
    spec.vulkan.features |= features;
    spec.profiles.insert(spec.profiles.begin() + place, profile);
  };
  add("vulkan-khr-coop", kMatrices, 1);
  add("vulkan-nvidia", kMatrices | kHalves, 2);
  const PlanHeader header = header_of(serialise(spec));
  const auto chosen = [&header](uint64_t features) {
    DeviceInfo card = device_with(header, 0, false);
    card.features = (card.features & ~kHalves) | features;
    const std::optional<uint32_t> profile = choose(header, card).profile;
    return std::string(profile_name(header.profiles[profile.value()]));
  };
  CHECK(chosen(0) == "vulkan");
  CHECK(chosen(kHalves) == "vulkan");
  CHECK(chosen(kMatrices) == "vulkan-khr-coop");
  CHECK(chosen(kMatrices | kHalves) == "vulkan-nvidia");
}

TEST_CASE("a_program_for_processors_runs_elsewhere_where_nothing_else_does") {
  PlanSpec spec = profiled_plan();
  spec.vulkan.features |= kMatrices;
  spec.profiles[0].vulkan.features |= kMatrices;
  const PlanHeader header = header_of(serialise(spec));
  CHECK(choose(header, device_with(header, 0, false)).profile == 1);
}

TEST_CASE("a_named_program_runs_wherever_its_needs_are_met") {
  const PlanHeader header = three_profiles();
  const DeviceInfo card = device_with(header, 0, false);
  CHECK(choose(header, card, "vulkan-cpu").profile == 2);
  const Choice lacking = choose(header, card, "vulkan-nvidia");
  CHECK(lacking.status.code() == RLX_UNSUITABLE_DEVICE);
  CHECK(has(lacking.status, "VK_KHR_cooperative_matrix"));
  CHECK(has(lacking.status, "it runs the plan's program vulkan, vulkan-cpu"));
  const Choice unknown = choose(header, card, "vulkan-amd");
  CHECK(unknown.status.code() == RLX_INVALID_ARGUMENT);
  CHECK(has(unknown.status, "no program \"vulkan-amd\""));
  CHECK(has(unknown.status, "vulkan-nvidia"));
  const PlanHeader plain = header_of(serialise(small_plan()));
  CHECK(choose(plain, card).status.ok());
  CHECK_FALSE(choose(plain, card).profile.has_value());
  CHECK(choose(plain, card, "vulkan").status.code() == RLX_INVALID_ARGUMENT);
}

TEST_CASE("a_device_that_runs_no_program_is_told_what_it_lacks_for_each") {
  const PlanHeader header = three_profiles();
  DeviceInfo card = device_with(header, 0, false);
  card.features &= ~mask_of(Feature::Int64);
  const Choice none = choose(header, card);
  CHECK(none.status.code() == RLX_UNSUITABLE_DEVICE);
  for (const char* text : {"\"vulkan\"", "\"vulkan-nvidia\"", "\"vulkan-cpu\"", "shaderInt64"})
    CHECK(has(none.status, text));
}

TEST_CASE("the_view_of_a_profile_has_its_records_its_needs_and_the_plan's_weights") {
  PlanSpec spec = profiled_plan();
  spec.vulkan.max_shared_bytes = 20000;
  spec.entries[2].arena_bytes = 1024;
  const std::vector<std::byte> bytes = serialise(spec);
  std::shared_ptr<const PlanView> plan;
  REQUIRE(PlanView::open_memory(bytes, {}, plan).ok());
  const std::shared_ptr<const PlanView> view = PlanView::of_profile(plan, 1);
  constexpr auto kVulkan = fb::TargetKind::Vulkan;
  CHECK(plan->program_name(kVulkan) == "vulkan");
  CHECK(view->program_name(kVulkan) == "vulkan-cpu");
  CHECK(plan->entry(0, kVulkan).arena_bytes() == 512);
  CHECK(view->entry(0, kVulkan).arena_bytes() == 1024);
  CHECK(view->header().arena_bytes == 1024);
  CHECK(view->header().profile_count == 0);
  CHECK(view->header().vulkan.max_shared_bytes == 16384);
  CHECK(view->identity() != plan->identity());
  REQUIRE(view->init(kVulkan) != nullptr);
  CHECK(view->records(kVulkan).size() == 3);
  CHECK(view->step_names(view->entry(0, kVulkan), 1).node == "main.node1");
  CHECK(used_kernels(*view, kVulkan) == std::vector<uint32_t>{0});
  CHECK(view->code(*view->kernel(0).variants()->Get(0)).size() ==
        plan->code(*plan->kernel(0).variants()->Get(0)).size());
  std::vector<std::byte> weights(16);
  CHECK(view->read_weights(0, weights).ok());
}

TEST_CASE("sessions_say_which_program_they_run_and_take_the_one_that_is_named") {
  const std::vector<std::byte> bytes = serialise(profiled_plan());
  rlx_plan* plan = nullptr;
  rlx_device* device = nullptr;
  REQUIRE(rlx_plan_open_memory(bytes.data(), bytes.size(), nullptr, &plan) == RLX_OK);
  REQUIRE(rlx_device_open("null", &device) == RLX_OK);
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  REQUIRE(rlx_plan_get_info(plan, &info) == RLX_OK);
  CHECK(info.target_count == 2);
  rlx_target_info target = RLX_INIT(rlx_target_info);
  REQUIRE(rlx_plan_get_target(plan, 1, &target) == RLX_OK);
  CHECK(std::string(target.name) == "vulkan-cpu");
  CHECK(target.for_processors == 1);
  CHECK(rlx_plan_get_target(plan, 2, &target) == RLX_INVALID_ARGUMENT);
  const auto program_with = [&](const char* name) -> std::string {
    rlx_session_options options = RLX_INIT(rlx_session_options);
    options.target = name;
    rlx_session* session = nullptr;
    if (rlx_session_create(plan, device, &options, &session) != RLX_OK) return rlx_last_error();
    rlx_program_info program = RLX_INIT(rlx_program_info);
    REQUIRE(rlx_session_get_program(session, 0, &program) == RLX_OK);
    const std::string told = program.name;
    rlx_session_close(session);
    return told;
  };
  CHECK(program_with(nullptr) == "vulkan-cpu");  // the null device is the host's
  CHECK(program_with("vulkan") == "vulkan");
  CHECK(program_with("vulkan-cpu") == "vulkan-cpu");
  CHECK(program_with("cuda").find("no program \"cuda\"") != std::string::npos);
  rlx_device_close(device);
  rlx_plan_close(plan);
}
