// SPDX-License-Identifier: Apache-2.0
// The logical device: creation or adoption, health, submitting and waiting.
#include "runtime/vulkan/vk_context.h"

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/device/device_names.h"
#include "runtime/device/wait_for_end.h"
#include "runtime/vulkan/vk_features.h"
#include "schema/kernel_params.h"

namespace rlx::vulkan {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kSpin(100000);

// The end of a submit, in which the driver wakes a blocked thread.
class FenceWait {
 public:
  FenceWait(const Context& context, VkFence fence) : context_(context), fence_(fence) {}

  bool is_over() {
    result_ = context_.api.vkGetFenceStatus(context_.device, fence_);
    return result_ != VK_NOT_READY;
  }
  bool sleep(nanoseconds time) { return block(time); }
  bool block(nanoseconds most) {
    const bool forever = most == nanoseconds::max();
    do {
      result_ =
          context_.api.vkWaitForFences(context_.device, 1, &fence_, VK_TRUE,
                                       forever ? UINT64_MAX : static_cast<uint64_t>(most.count()));
    } while (forever && result_ == VK_TIMEOUT);
    return result_ != VK_TIMEOUT;
  }
  [[nodiscard]] VkResult result() const { return result_; }

 private:
  const Context& context_;
  VkFence fence_;
  VkResult result_ = VK_NOT_READY;
};

}  // namespace

Status Context::create(std::shared_ptr<Instance> instance, PhysicalDevice physical,
                       std::shared_ptr<Context>& context) {
  if (!physical.unusable.empty()) {
    return unsuitable(text_of(device_text(physical.info), " ", physical.unusable));
  }
  std::shared_ptr<Context> made(new Context);
  made->instance = std::move(instance);
  made->physical = std::move(physical);
  const InstanceApi& instance_api = made->instance->api;

  const float priority = 1.0f;
  const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                         .queueFamilyIndex = made->physical.queue_family,
                                         .queueCount = 1,
                                         .pQueuePriorities = &priority};
  const FeatureChain::Known known{.subgroup_size_control = made->physical.subgroup_size_control,
                                  .cooperative_matrix = made->physical.cooperative_matrix,
                                  .bfloat16 = made->physical.bfloat16,
                                  .conditional = made->physical.conditional,
                                  .executables = made->physical.executables};
  FeatureChain supported(known);
  instance_api.vkGetPhysicalDeviceFeatures2(made->physical.handle, supported.head());
  FeatureChain features(known);
  features.set(made->physical.info.features, made->physical.subgroup_size_control, supported);
  std::vector<const char*> extensions;
  if (made->physical.memory_budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  if (made->physical.subgroup_size_control &&
      made->physical.info.api_version < VK_API_VERSION_1_3) {
    extensions.push_back(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  }
  if (made->physical.cooperative_matrix)
    extensions.push_back(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  if (made->physical.bfloat16) extensions.push_back(VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME);
  if (made->physical.conditional) extensions.push_back(VK_EXT_CONDITIONAL_RENDERING_EXTENSION_NAME);
  if (made->physical.executables)
    extensions.push_back(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
  if (made->physical.portability_subset) extensions.push_back(kPortabilitySubset);
  const VkDeviceCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
      .pNext = features.head(),
      .queueCreateInfoCount = 1,
      .pQueueCreateInfos = &queue,
      .enabledExtensionCount = static_cast<uint32_t>(extensions.size()),
      .ppEnabledExtensionNames = extensions.data()};
  RLX_RETURN_IF_ERROR(to_status(
      instance_api.vkCreateDevice(made->physical.handle, &info, nullptr, &made->device),
      "vkCreateDevice on " + made->physical.info.id + " \"" + made->physical.info.name + "\""));
  made->counted_ = CountedObject(made->objects(), ObjectKind::Context);
  made->owned_ = true;
  // Destruction needs this one, whatever else is missing.
  made->api.vkDestroyDevice = reinterpret_cast<PFN_vkDestroyDevice>(
      instance_api.vkGetDeviceProcAddr(made->device, "vkDestroyDevice"));
  RLX_RETURN_IF_ERROR(load_device_api(instance_api.vkGetDeviceProcAddr, made->device, made->api));
  made->queue_family = made->physical.queue_family;
  made->api.vkGetDeviceQueue(made->device, made->queue_family, 0, &made->queue_);
  context = std::move(made);
  return {};
}

Status Context::adopt(std::shared_ptr<Instance> instance, PhysicalDevice physical,
                      const AdoptedVulkan& adopted, std::shared_ptr<Context>& context) {
  physical.info.features &= adopted.features;
  // These need enabling by the creator of the device, who has not told us.
  physical.subgroup_size_control = physical.full_subgroups = false;
  physical.memory_budget = false;
  physical.executables = false;
  physical.conditional = false;
  if (!physical.gives_subgroups_of(RLX_MATRIX_SUBGROUP)) physical.info.features &= ~kMatrixFeatures;
  physical.queue_family = adopted.queue_family;
  if (const uint64_t missing = kRequiredFeatures & ~physical.info.features; missing != 0) {
    return unsuitable("the adopted device \"" + physical.info.name + "\" was created without " +
                      feature_names(missing) + "; enable it and name it in the features given");
  }
  std::shared_ptr<Context> made(new Context);
  made->instance = std::move(instance);
  made->physical = std::move(physical);
  made->device = static_cast<VkDevice>(adopted.device);
  made->queue_ = static_cast<VkQueue>(adopted.queue);
  made->queue_family = adopted.queue_family;
  RLX_RETURN_IF_ERROR(
      load_device_api(made->instance->api.vkGetDeviceProcAddr, made->device, made->api));
  context = std::move(made);
  return {};
}

Context::~Context() {
  if (owned_ && api.vkDestroyDevice != nullptr) api.vkDestroyDevice(device, nullptr);
}

Status Context::check(VkResult result, std::string_view what) {
  if (result == VK_SUCCESS) return {};
  if (result == VK_ERROR_DEVICE_LOST) lost_.store(true, std::memory_order_release);
  return to_status(result, what);
}

Status Context::health() const {
  if (lost_.load(std::memory_order_acquire)) return lost_earlier(physical.info);
  if (instance->validation_log.empty()) return {};
  return driver_error("the validation layer reported: " +
                      instance->validation_log.messages().front());
}

Status Context::submit(VkCommandBuffer buffer, VkFence fence) {
  RLX_RETURN_IF_ERROR(check(api.vkResetFences(device, 1, &fence), "vkResetFences"));
  const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                             .commandBufferCount = buffer == VK_NULL_HANDLE ? 0u : 1u,
                             .pCommandBuffers = &buffer};
  const std::lock_guard lock(queue_mutex_);
  return check(api.vkQueueSubmit(queue_, 1, &info, fence), "vkQueueSubmit");
}

Status Context::wait(VkFence fence, uint64_t timeout_nanoseconds, std::string_view what,
                     nanoseconds expected) {
  FenceWait work(*this, fence);
  const WaitTimes times{
      .timeout_nanoseconds = timeout_nanoseconds, .expected = expected, .spin = kSpin};
  if (!wait_for_end(work, times)) return out_of_time(what, timeout_nanoseconds, physical.info);
  if (work.result() == VK_SUCCESS) return {};
  Status status = check(work.result(), what);
  drain();
  return status;
}

void Context::drain() {
  if (lost_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(queue_mutex_);
  if (api.vkDeviceWaitIdle(device) != VK_SUCCESS) lost_.store(true, std::memory_order_release);
}

void Context::sweep() {
  if (!physical.info.is_software || lost_.load(std::memory_order_acquire)) return;
  // Waited for: freed on the driver's thread while the next plan is made, pieces would stay behind
  // in the heap.
  OwnedFence fence;
  if (create_fence(*this, fence).ok() && submit(VK_NULL_HANDLE, fence.get()).ok())
    static_cast<void>(wait(fence.get(), UINT64_MAX, "a sweep"));
}

Status create_fence(Context& context, OwnedFence& fence) {
  const VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkFence handle = VK_NULL_HANDLE;
  RLX_RETURN_IF_ERROR(context.check(
      context.api.vkCreateFence(context.device, &info, nullptr, &handle), "vkCreateFence"));
  fence = OwnedFence(context, handle);
  return {};
}

Status CommandPool::create(Context& context, CommandPool& pool) {
  const VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                        .queueFamilyIndex = context.queue_family};
  VkCommandPool handle = VK_NULL_HANDLE;
  RLX_RETURN_IF_ERROR(
      context.check(context.api.vkCreateCommandPool(context.device, &info, nullptr, &handle),
                    "vkCreateCommandPool"));
  pool.pool_ = OwnedCommandPool(context, handle);
  return {};
}

Status CommandPool::allocate(Context& context, VkCommandBuffer& buffer) {
  const VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = pool_.get(),
                                            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                            .commandBufferCount = 1};
  RLX_RETURN_IF_ERROR(
      context.check(context.api.vkAllocateCommandBuffers(context.device, &info, &buffer),
                    "vkAllocateCommandBuffers"));
  buffers_.emplace_back(context.objects(), ObjectKind::CommandBuffer);
  return {};
}

}  // namespace rlx::vulkan
