// SPDX-License-Identifier: Apache-2.0
// What a Vulkan driver keeps of objects that were made and destroyed, one kind at a time, by plain
// Vulkan calls: whose a growth is can be told by it. Usage: rlx_driver_growth [COUNT]
#include <malloc.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/vulkan/vk_api.h"
#include "tests/support/plan_fixture.h"

namespace {

using namespace rlx;

void need(VkResult result, const char* what) {
  if (result == VK_SUCCESS) return;
  std::fprintf(stderr, "%s: %s\n", what, std::string(vulkan::result_name(result)).c_str());
  std::exit(1);
}

void need(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

// A device with a queue and a command buffer; everything ends with it, the loader too.
struct Driver {
  vulkan::Library library;
  vulkan::GlobalApi global;
  vulkan::InstanceApi in;
  vulkan::DeviceApi api;
  VkInstance instance = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  VkCommandPool pool = VK_NULL_HANDLE;
  VkFence fence = VK_NULL_HANDLE;
  VkShaderModule module = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;

  Driver() {
    PFN_vkGetInstanceProcAddr get = nullptr;
    need(library.open("libvulkan.so.1", get));
    need(vulkan::load_global_api(get, global));
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &application};
    need(global.vkCreateInstance(&info, nullptr, &instance), "vkCreateInstance");
    need(vulkan::load_instance_api(get, instance, in));
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    uint32_t count = 1;
    in.vkEnumeratePhysicalDevices(instance, &count, &physical);
    const float priority = 1;
    const VkDeviceQueueCreateInfo queues = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                            .queueCount = 1,
                                            .pQueuePriorities = &priority};
    const VkPhysicalDeviceFeatures features = {.shaderInt64 = VK_TRUE};
    const VkDeviceCreateInfo device_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                            .queueCreateInfoCount = 1,
                                            .pQueueCreateInfos = &queues,
                                            .pEnabledFeatures = &features};
    need(in.vkCreateDevice(physical, &device_info, nullptr, &device), "vkCreateDevice");
    need(vulkan::load_device_api(in.vkGetDeviceProcAddr, device, api));
    api.vkGetDeviceQueue(device, 0, 0, &queue);
    pool = make_pool();
    fence = make_fence();
    module = make_module();
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 24};
    const VkPipelineLayoutCreateInfo layout_info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &range};
    need(api.vkCreatePipelineLayout(device, &layout_info, nullptr, &layout),
         "vkCreatePipelineLayout");
  }
  ~Driver() {
    api.vkDestroyPipelineLayout(device, layout, nullptr);
    api.vkDestroyShaderModule(device, module, nullptr);
    api.vkDestroyFence(device, fence, nullptr);
    api.vkDestroyCommandPool(device, pool, nullptr);
    api.vkDestroyDevice(device, nullptr);
    in.vkDestroyInstance(instance, nullptr);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  VkFence make_fence() const {
    const VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkFence made = VK_NULL_HANDLE;
    need(api.vkCreateFence(device, &info, nullptr, &made), "vkCreateFence");
    return made;
  }
  VkCommandPool make_pool() const {
    const VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    VkCommandPool made = VK_NULL_HANDLE;
    need(api.vkCreateCommandPool(device, &info, nullptr, &made), "vkCreateCommandPool");
    return made;
  }
  VkShaderModule make_module() const {
    const std::vector<std::byte> code = test::empty_kernel();
    const VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize = code.size(),
                                           .pCode = reinterpret_cast<const uint32_t*>(code.data())};
    VkShaderModule made = VK_NULL_HANDLE;
    need(api.vkCreateShaderModule(device, &info, nullptr, &made), "vkCreateShaderModule");
    return made;
  }
  VkPipeline make_pipeline() const {
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main"},
        .layout = layout};
    VkPipeline made = VK_NULL_HANDLE;
    need(api.vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, nullptr, &made),
         "vkCreateComputePipelines");
    return made;
  }
};

void use_commands(const Driver& driver) {
  const VkCommandPool pool = driver.make_pool();
  const VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = pool,
                                            .commandBufferCount = 1};
  VkCommandBuffer commands = VK_NULL_HANDLE;
  need(driver.api.vkAllocateCommandBuffers(driver.device, &info, &commands), "a command buffer");
  const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  need(driver.api.vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
  need(driver.api.vkEndCommandBuffer(commands), "vkEndCommandBuffer");
  driver.api.vkDestroyCommandPool(driver.device, pool, nullptr);
}

void use_memory(const Driver& driver) {
  const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                   .size = 4096,
                                   .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
  VkBuffer buffer = VK_NULL_HANDLE;
  need(driver.api.vkCreateBuffer(driver.device, &info, nullptr, &buffer), "vkCreateBuffer");
  const VkMemoryAllocateInfo wanted = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .allocationSize = 4096};
  VkDeviceMemory memory = VK_NULL_HANDLE;
  need(driver.api.vkAllocateMemory(driver.device, &wanted, nullptr, &memory), "vkAllocateMemory");
  need(driver.api.vkBindBufferMemory(driver.device, buffer, memory, 0), "vkBindBufferMemory");
  driver.api.vkDestroyBuffer(driver.device, buffer, nullptr);
  driver.api.vkFreeMemory(driver.device, memory, nullptr);
}

void submit_nothing(const Driver& driver) {
  const VkSubmitInfo nothing = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO};
  need(driver.api.vkResetFences(driver.device, 1, &driver.fence), "vkResetFences");
  need(driver.api.vkQueueSubmit(driver.queue, 1, &nothing, driver.fence), "vkQueueSubmit");
  need(driver.api.vkWaitForFences(driver.device, 1, &driver.fence, VK_TRUE, UINT64_MAX),
       "vkWaitForFences");
}

struct Kind {
  const char* name;
  std::function<void(const Driver&)> use;
};

const std::array<Kind, 7> kKinds = {
    {{"fence", [](const Driver& d) { d.api.vkDestroyFence(d.device, d.make_fence(), nullptr); }},
     {"commands", use_commands},
     {"memory", use_memory},
     {"module",
      [](const Driver& d) { d.api.vkDestroyShaderModule(d.device, d.make_module(), nullptr); }},
     {"submit", submit_nothing},
     {"pipeline",
      [](const Driver& d) { d.api.vkDestroyPipeline(d.device, d.make_pipeline(), nullptr); }},
     {"pipeline+submit", [](const Driver& d) {
        d.api.vkDestroyPipeline(d.device, d.make_pipeline(), nullptr);
        submit_nothing(d);
      }}}};

struct Memory {
  long resident_kib = 0;
  long in_use_bytes = 0;  // of malloc
};

Memory memory_now() {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  Memory now{.in_use_bytes = static_cast<long>(mallinfo2().uordblks)};
  while (file >> word) {
    if (word == "Anonymous:" && file >> now.resident_kib) break;
  }
  return now;
}

void measure(const char* name, int count, const std::function<void()>& once) {
  for (int i = 0; i < count / 4; ++i) once();
  const Memory before = memory_now();
  for (int i = 0; i < count; ++i) once();
  const Memory after = memory_now();
  std::printf("%-16s %d times: resident %+ld KiB, malloc %+.1f bytes each\n", name, count,
              after.resident_kib - before.resident_kib,
              static_cast<double>(after.in_use_bytes - before.in_use_bytes) / count);
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 400;
  for (const Kind& kind : kKinds) {
    const Driver driver;
    measure(kind.name, count, [&] { kind.use(driver); });
  }
  measure("driver", count, [] { const Driver driver; });
  return 0;
}
