// SPDX-License-Identifier: Apache-2.0
// The Vulkan instance and logical device that everything else here is made from, with what is known
// about them, and owners for what is made.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/objects.h"
#include "runtime/device/device.h"
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
                      std::shared_ptr<ObjectCounts> objects, std::shared_ptr<Instance>& instance);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  Status physical_devices(std::vector<VkPhysicalDevice>& devices) const;

  InstanceApi api;
  ValidationLog validation_log;
  // Of everything made from this instance; never null.
  const std::shared_ptr<ObjectCounts> objects;

 private:
  explicit Instance(std::shared_ptr<ObjectCounts> counts)
      : objects(counts != nullptr ? std::move(counts) : std::make_shared<ObjectCounts>()) {}
  Status start(const VulkanOptions& options);

  Library library_;
  GlobalApi global_;
  VkInstance handle_ = VK_NULL_HANDLE;
  CountedObject counted_;  // of handle_ where this owns it
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  CountedObject counted_messenger_;
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
  bool staging_only = false;  // device memory is not to be mapped
  uint32_t min_subgroup_size = 0;
  uint32_t max_subgroup_size = 0;
  uint32_t max_subgroups = 0;          // of a workgroup that requires their size
  bool subgroup_size_control = false;  // a pipeline may require its subgroup size
  bool full_subgroups = false;         // and that all their threads be there
  bool memory_budget = false;          // VK_EXT_memory_budget
  bool cooperative_matrix = false;     // VK_KHR_cooperative_matrix
  bool bfloat16 = false;               // VK_KHR_shader_bfloat16
  bool conditional = false;            // VK_EXT_conditional_rendering, enabled wherever it is
  bool portability_subset = false;     // VK_KHR_portability_subset, enabled wherever it is
  bool executables = false;           // VK_KHR_pipeline_executable_properties, enabled where wanted
  uint32_t timestamp_valid_bits = 0;  // 0: the queue cannot time
  double timestamp_nanoseconds = 0;   // per tick

  // Whether a pipeline's subgroups have this size: all do, or those of pipelines that require it.
  [[nodiscard]] bool gives_subgroups_of(uint32_t size) const;
};

// Fills everything of PhysicalDevice; `id` becomes info.id.
Status describe(const InstanceApi& api, VkPhysicalDevice handle, std::string id,
                PhysicalDevice& described);

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

  // One vkQueueSubmit under the queue's lock; VK_NULL_HANDLE submits nothing but the fence.
  Status submit(VkCommandBuffer buffer, VkFence fence);
  // Waits for the fence: spins briefly, then blocks. `what` names the work in errors.
  // Around the time `expected` from now it spins again; 0 where nothing is known.
  Status wait(VkFence fence, uint64_t timeout_nanoseconds, std::string_view what,
              std::chrono::nanoseconds expected = std::chrono::nanoseconds(0));

  // Makes a software driver free what was destroyed: lavapipe (Mesa 22.3) keeps destroyed
  // pipelines, some 350 KB each, until its queue's next submit, which may never come.
  void sweep();

  std::shared_ptr<Instance> instance;
  PhysicalDevice physical;
  VkDevice device = VK_NULL_HANDLE;
  DeviceApi api;
  uint32_t queue_family = 0;

  [[nodiscard]] ObjectCounts& objects() const { return *instance->objects; }
  // Ends a handle of the device; kDestroy is the DeviceApi member that does.
  template <auto kDestroy, typename Handle>
  void end(Handle handle) const {
    (api.*kDestroy)(device, handle, nullptr);
  }

 private:
  Context() = default;
  // After a wait that the driver refused: waits in another way, so that nothing of the work is
  // still under way when its memory goes. A driver that refuses this too has lost the device.
  void drain();

  VkQueue queue_ = VK_NULL_HANDLE;
  std::mutex queue_mutex_;
  std::atomic<bool> lost_ = false;
  CountedObject counted_;  // of `device` where this owns it
  bool owned_ = false;
};

template <typename Handle, auto kDestroy, ObjectKind kKind>
using Owned = OwnedHandle<const Context, Handle, kDestroy, kKind>;

using OwnedBuffer = Owned<VkBuffer, &DeviceApi::vkDestroyBuffer, ObjectKind::Buffer>;
using OwnedMemory = Owned<VkDeviceMemory, &DeviceApi::vkFreeMemory, ObjectKind::Memory>;
using OwnedShaderModule =
    Owned<VkShaderModule, &DeviceApi::vkDestroyShaderModule, ObjectKind::Module>;
using OwnedPipelineLayout =
    Owned<VkPipelineLayout, &DeviceApi::vkDestroyPipelineLayout, ObjectKind::PipelineLayout>;
using OwnedPipeline = Owned<VkPipeline, &DeviceApi::vkDestroyPipeline, ObjectKind::Pipeline>;
using OwnedPipelineCache =
    Owned<VkPipelineCache, &DeviceApi::vkDestroyPipelineCache, ObjectKind::PipelineCache>;
using OwnedCommandPool =
    Owned<VkCommandPool, &DeviceApi::vkDestroyCommandPool, ObjectKind::CommandPool>;
using OwnedQueryPool = Owned<VkQueryPool, &DeviceApi::vkDestroyQueryPool, ObjectKind::QueryPool>;
using OwnedFence = Owned<VkFence, &DeviceApi::vkDestroyFence, ObjectKind::Fence>;

Status create_fence(Context& context, OwnedFence& fence);

// A pool with the command buffers allocated from it, which end with it.
class CommandPool {
 public:
  static Status create(Context& context, CommandPool& pool);
  Status allocate(Context& context, VkCommandBuffer& buffer);
  explicit operator bool() const { return static_cast<bool>(pool_); }

 private:
  OwnedCommandPool pool_;
  std::vector<CountedObject> buffers_;
};

}  // namespace rlx::vulkan
