// SPDX-License-Identifier: Apache-2.0
// The Vulkan instance and logical device that everything else here is made from, with what is known
// about them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/vulkan/vk_api.h"
#include "runtime/vulkan/vulkan_device.h"

namespace rlx::vulkan {

// Collects what the validation layer reports; written by driver threads.
class ValidationLog {
 public:
  void add(std::string message);
  [[nodiscard]] bool empty() const { return !any_.load(std::memory_order_acquire); }
  [[nodiscard]] std::vector<std::string> messages() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> messages_;
  std::atomic<bool> any_ = false;
};

// The loader, an instance of it, and its messenger where validation is on.
class Instance {
 public:
  static Status create(const VulkanOptions& options, std::shared_ptr<Instance>& instance);
  // An instance that the caller owns; a null `get` is taken from the system's loader.
  static Status adopt(VkInstance handle, PFN_vkGetInstanceProcAddr get,
                      std::shared_ptr<Instance>& instance);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  Status physical_devices(std::vector<VkPhysicalDevice>& devices) const;

  InstanceApi api;
  ValidationLog validation_log;

 private:
  Instance() = default;
  Status start(const VulkanOptions& options);

  Library library_;
  GlobalApi global_;
  VkInstance handle_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  bool owned_ = false;
};

// What a physical device is and can do, in the terms that plans use.
struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  DeviceInfo info;
  VkPhysicalDeviceMemoryProperties memory = {};
  uint32_t queue_family = 0;
  std::string unusable;  // empty: the device can run plans; otherwise what it lacks
  uint32_t vendor_id = 0;
  uint32_t device_id = 0;
  uint32_t driver_version = 0;
  uint8_t pipeline_cache_uuid[VK_UUID_SIZE] = {};
  uint8_t driver_uuid[VK_UUID_SIZE] = {};
  uint64_t max_allocation_bytes = 0;
  bool is_cpu = false;        // a software device, whose heap sizes say little
  bool staging_only = false;  // device memory is not to be mapped
  uint32_t min_subgroup_size = 0;
  uint32_t max_subgroup_size = 0;
  bool subgroup_size_control = false;  // a pipeline may require its subgroup size
  bool memory_budget = false;          // VK_EXT_memory_budget
  bool cooperative_matrix = false;     // VK_KHR_cooperative_matrix
  bool bfloat16 = false;               // VK_KHR_shader_bfloat16
  uint32_t timestamp_valid_bits = 0;   // 0: the queue cannot time
  double timestamp_nanoseconds = 0;    // per tick
};

// Fills everything of PhysicalDevice; `id` becomes info.id.
PhysicalDevice describe(const InstanceApi& api, VkPhysicalDevice handle, std::string id);

// Device-local bytes that the driver says are free now; 0 where it does not say.
uint64_t available_bytes(const InstanceApi& api, const PhysicalDevice& device);

// A logical device with its queue. Shared by plans and sessions, from any thread.
class Context {
 public:
  static Status create(std::shared_ptr<Instance> instance, PhysicalDevice physical,
                       std::shared_ptr<Context>& context);
  static Status adopt(std::shared_ptr<Instance> instance, PhysicalDevice physical,
                      const AdoptedVulkan& adopted, std::shared_ptr<Context>& context);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // to_status that also remembers a lost device.
  Status check(VkResult result, std::string_view what);
  // Why nothing can run any more: a lost device or a message of the validation layer. Ok while
  // healthy; allocates nothing then.
  [[nodiscard]] Status health() const;

  Status create_command_pool(OwnedCommandPool& pool);
  Status allocate_command_buffer(VkCommandPool pool, VkCommandBuffer& buffer);
  Status create_fence(OwnedFence& fence);
  // One vkQueueSubmit under the queue's lock.
  Status submit(VkCommandBuffer buffer, VkFence fence);
  // Waits for the fence: spins briefly, then blocks. `what` names the work in errors.
  // Around the time `expected` from now it spins again; 0 where nothing is known.
  Status wait(VkFence fence, uint64_t timeout_nanoseconds, std::string_view what,
              std::chrono::nanoseconds expected = std::chrono::nanoseconds(0));

  std::shared_ptr<Instance> instance;
  PhysicalDevice physical;
  VkDevice device = VK_NULL_HANDLE;
  DeviceApi api;

 private:
  Context() = default;

  VkQueue queue_ = VK_NULL_HANDLE;
  uint32_t queue_family_ = 0;
  std::mutex queue_mutex_;
  std::atomic<bool> lost_ = false;
  bool owned_ = false;
};

}  // namespace rlx::vulkan
