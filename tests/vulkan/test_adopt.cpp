// SPDX-License-Identifier: Apache-2.0
// A device that the program made itself, lent to the runtime.
#include "runtime/vulkan/vk_features.h"
#include "tests/support/plan_fixture.h"
#include "tests/support/plan_sketch.h"
#include "tests/vulkan/vulkan_fixture.h"

using namespace rlx;
using namespace rlx::test;

namespace {

// What a program with a renderer of its own has at hand.
struct OwnVulkan {
  vulkan::Library library;
  vulkan::GlobalApi global;
  vulkan::InstanceApi instance_api;
  vulkan::DeviceApi device_api;
  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;

  OwnVulkan() {
    PFN_vkGetInstanceProcAddr get = nullptr;
    REQUIRE_OK(library.open(VulkanOptions().loader, get));
    REQUIRE_OK(vulkan::load_global_api(get, global));
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                                .pApplicationInfo = &application};
    REQUIRE(global.vkCreateInstance(&instance_info, nullptr, &instance) == VK_SUCCESS);
    REQUIRE_OK(vulkan::load_instance_api(get, instance, instance_api));
    uint32_t count = 1;
    REQUIRE(instance_api.vkEnumeratePhysicalDevices(instance, &count, &physical) >= 0);
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                                .queueCount = 1,
                                                .pQueuePriorities = &priority};
    const vulkan::FeatureChain none({});
    vulkan::FeatureChain features({});
    features.set(vulkan::kRequiredFeatures, false, none);
    const VkDeviceCreateInfo device_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                            .pNext = features.head(),
                                            .queueCreateInfoCount = 1,
                                            .pQueueCreateInfos = &queue_info};
    REQUIRE(instance_api.vkCreateDevice(physical, &device_info, nullptr, &device) == VK_SUCCESS);
    REQUIRE_OK(vulkan::load_device_api(instance_api.vkGetDeviceProcAddr, device, device_api));
    device_api.vkGetDeviceQueue(device, 0, 0, &queue);
  }
  ~OwnVulkan() {
    device_api.vkDestroyDevice(device, nullptr);
    instance_api.vkDestroyInstance(instance, nullptr);
  }
  OwnVulkan(const OwnVulkan&) = delete;
  OwnVulkan& operator=(const OwnVulkan&) = delete;

  [[nodiscard]] AdoptedVulkan handles() const {
    return {.instance = instance,
            .physical_device = physical,
            .device = device,
            .queue_family = 0,
            .queue = queue,
            .get_instance_proc_addr = reinterpret_cast<void*>(global.vkGetInstanceProcAddr),
            .features = vulkan::kRequiredFeatures};
  }
};

bool have_device() {
  std::string why;
  if (!present_devices(why).empty()) return true;
  std::printf("SKIPPED: %s\n", why.c_str());
  return false;
}

}  // namespace

TEST_CASE("a lent device runs plans and is left as it was") {
  if (!have_device()) return;
  const OwnVulkan own;
  const auto plan = open_plan(
      {.kernels = {{.name = "region",
                    .body = "F32(p.b).v[i] = F32(p.a).v[i] + 1.0;",
                    .pointers = {fb::AccessMode::Read, fb::AccessMode::Write}}},
       .entries = {
           {.name = "main",
            .values =
                {{.name = "x", .segment = fb::Segment::Io, .elements = 64, .role = Role::Input},
                 {.name = "y", .segment = fb::Segment::Io, .elements = 64, .role = Role::Output}},
            .steps = {{.pointers = {{0, fb::AccessMode::Read}, {1, fb::AccessMode::Write}}}}}}});
  const auto objects = std::make_shared<ObjectCounts>();
  for (const bool give_loader : {true, false, true}) {
    AdoptedVulkan handles = own.handles();
    handles.objects = objects;
    if (!give_loader) handles.get_instance_proc_addr = nullptr;
    std::shared_ptr<Device> device;
    REQUIRE_OK(adopt_vulkan_device(handles, device));
    CHECK(objects_text(objects->read()) == "none");  // the instance and the device are lent
    VulkanRun run(device, plan);
    run.write(0, std::vector<float>(64, 4.0f));
    run.execute();
    CHECK(run.read(1) == std::vector<float>(64, 5.0f));
    CHECK(objects->of(ObjectKind::Session) == 1);
  }
  CHECK(objects_text(objects->read()) == "none");
  CHECK(own.device_api.vkDeviceWaitIdle(own.device) == VK_SUCCESS);
}

TEST_CASE("a lent device must have what every plan needs, and a plan what it was lent with") {
  if (!have_device()) return;
  const OwnVulkan own;
  AdoptedVulkan handles = own.handles();
  handles.features = 0;
  std::shared_ptr<Device> device;
  const Status poor = adopt_vulkan_device(handles, device);
  CHECK(poor.code() == RLX_UNSUITABLE_DEVICE);
  CHECK(poor.message().find("bufferDeviceAddress") != std::string::npos);
  handles = own.handles();
  handles.queue = nullptr;
  CHECK(adopt_vulkan_device(handles, device).code() == RLX_INVALID_ARGUMENT);
  CHECK(device == nullptr);
}

TEST_CASE("loops that a device cannot run are refused by name when the plan is loaded") {
  if (!have_device()) return;
  const OwnVulkan own;
  std::shared_ptr<Device> device;
  REQUIRE_OK(adopt_vulkan_device(own.handles(), device));
  const auto refusal = [&](const PlanSpec& spec) {
    std::shared_ptr<const PlanView> plan;
    REQUIRE_OK(PlanView::open_memory(serialise(spec), {.copy_memory = true}, plan));
    std::shared_ptr<DevicePlan> loaded;
    const Status status = device->load(*plan, {}, loaded);
    CHECK(status.code() == RLX_UNSUITABLE_DEVICE);
    return status.message();
  };
  // A lent device was made without the extension, for all that is known.
  PlanSpec spec = region_plan();
  const std::string words = refusal(spec);
  INFO(words);
  CHECK(words.find("no VK_EXT_conditional_rendering, which \"loop\" needs") != std::string::npos);
  spec.entries[0].regions[0].word.reset();
  spec.entries[0].regions[0].most_trips = 600'000;
  const std::string many = refusal(spec);
  INFO(many);
  CHECK(many.find("all trips of the loops up to \"loop\" take 1200000 commands on Vulkan, at most "
                  "1048576 are recorded") != std::string::npos);
}
