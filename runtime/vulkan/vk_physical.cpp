// SPDX-License-Identifier: Apache-2.0
// What a physical device offers, asked once and turned into the terms of plans.
#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/vulkan/vk_context.h"
#include "runtime/vulkan/vk_features.h"
#include "schema/kernel_params.h"
#include "schema/plan_generated.h"

namespace rlx::vulkan {
namespace {

Status device_extensions(const InstanceApi& api, VkPhysicalDevice handle,
                         std::vector<VkExtensionProperties>& extensions) {
  return enumerate(
      "vkEnumerateDeviceExtensionProperties", VkExtensionProperties{},
      [&](uint32_t* count, VkExtensionProperties* items) {
        return api.vkEnumerateDeviceExtensionProperties(handle, nullptr, count, items);
      },
      extensions);
}

bool has_extension(const std::vector<VkExtensionProperties>& extensions, const char* name) {
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](const VkExtensionProperties& extension) {
                       return std::strcmp(extension.extensionName, name) == 0;
                     });
}

std::string version_text(uint32_t version) {
  return std::to_string(VK_API_VERSION_MAJOR(version)) + "." +
         std::to_string(VK_API_VERSION_MINOR(version)) + "." +
         std::to_string(VK_API_VERSION_PATCH(version));
}

// The first family with compute: on every known driver the one with graphics too, which has the
// full width of the device.
void find_queue_family(const InstanceApi& api, PhysicalDevice& device) {
  uint32_t count = 0;
  api.vkGetPhysicalDeviceQueueFamilyProperties(device.handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  api.vkGetPhysicalDeviceQueueFamilyProperties(device.handle, &count, families.data());
  for (uint32_t i = 0; i < count; ++i) {
    if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0 || families[i].queueCount == 0)
      continue;
    device.queue_family = i;
    device.timestamp_valid_bits = families[i].timestampValidBits;
    return;
  }
  device.unusable = "has no queue with compute";
}

void describe_memory(const InstanceApi& api, PhysicalDevice& device) {
  VkPhysicalDeviceMemoryProperties2 memory = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
  api.vkGetPhysicalDeviceMemoryProperties2(device.handle, &memory);
  device.memory = memory.memoryProperties;
  bool all_local = true;
  for (uint32_t i = 0; i < device.memory.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = device.memory.memoryHeaps[i];
    const bool local = (heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0;
    if (local) device.info.memory_bytes = std::max<uint64_t>(device.info.memory_bytes, heap.size);
    all_local = all_local && local;
  }
  device.info.unified_memory = all_local;
  device.info.available_bytes = available_bytes(api, device);
}

// The features that stand for cooperative matrices which the device has.
Status matrix_features(const InstanceApi& api, const PhysicalDevice& device, uint64_t& features) {
  features = 0;
  if (api.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR == nullptr ||
      !device.gives_subgroups_of(RLX_MATRIX_SUBGROUP)) {
    return {};
  }
  std::vector<VkCooperativeMatrixPropertiesKHR> kinds;
  RLX_RETURN_IF_ERROR(enumerate(
      "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR",
      VkCooperativeMatrixPropertiesKHR{.sType =
                                           VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR},
      [&](uint32_t* count, VkCooperativeMatrixPropertiesKHR* items) {
        return api.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(device.handle, count, items);
      },
      kinds));
  for (const VkCooperativeMatrixPropertiesKHR& kind : kinds) {
    const bool fits = kind.MSize == 16 && kind.KSize == 16 && kind.AType == kind.BType &&
                      kind.CType == VK_COMPONENT_TYPE_FLOAT32_KHR &&
                      kind.ResultType == VK_COMPONENT_TYPE_FLOAT32_KHR &&
                      kind.scope == VK_SCOPE_SUBGROUP_KHR;
    const bool is_half = kind.AType == VK_COMPONENT_TYPE_FLOAT16_KHR;
    if (fits && kind.NSize == 16 && is_half) features |= mask_of(Feature::CooperativeMatrix);
    if (fits && kind.NSize == 8 && is_half) features |= mask_of(Feature::NarrowMatrix);
    if (fits && kind.NSize == 16 && kind.AType == VK_COMPONENT_TYPE_BFLOAT16_KHR)
      features |= mask_of(Feature::CooperativeBf16);
  }
  return {};
}

}  // namespace

bool PhysicalDevice::gives_subgroups_of(uint32_t size) const {
  if (size == min_subgroup_size && size == max_subgroup_size) return true;
  return subgroup_size_control && std::has_single_bit(size) && size >= min_subgroup_size &&
         size <= max_subgroup_size;
}

Status describe(const InstanceApi& api, VkPhysicalDevice handle, std::string id,
                PhysicalDevice& described) {
  PhysicalDevice device;
  device.handle = handle;
  device.info.id = std::move(id);
  VkPhysicalDeviceProperties basic = {};
  api.vkGetPhysicalDeviceProperties(handle, &basic);
  device.info.name = basic.deviceName;
  device.info.api_version = basic.apiVersion;
  if (basic.apiVersion < VK_API_VERSION_1_2) {
    device.unusable = "has Vulkan " + version_text(basic.apiVersion) + ", 1.2 or newer is needed";
    described = std::move(device);
    return {};
  }

  std::vector<VkExtensionProperties> extensions;
  RLX_RETURN_IF_ERROR(device_extensions(api, handle, extensions));
  device.memory_budget = has_extension(extensions, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  const bool has_size_control =
      basic.apiVersion >= VK_API_VERSION_1_3 ||
      has_extension(extensions, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);

  VkPhysicalDeviceSubgroupSizeControlProperties size_control = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
  VkPhysicalDeviceVulkan12Properties vulkan12 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES,
      .pNext = has_size_control ? &size_control : nullptr};
  VkPhysicalDeviceVulkan11Properties vulkan11 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES, .pNext = &vulkan12};
  VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                            .pNext = &vulkan11};
  api.vkGetPhysicalDeviceProperties2(handle, &properties);
  device.cooperative_matrix = has_extension(extensions, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  device.bfloat16 = has_extension(extensions, VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME);
  device.conditional = has_extension(extensions, VK_EXT_CONDITIONAL_RENDERING_EXTENSION_NAME);
  device.portability_subset = has_extension(extensions, kPortabilitySubset);
  device.executables =
      has_extension(extensions, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
  FeatureChain features({.subgroup_size_control = has_size_control,
                         .cooperative_matrix = device.cooperative_matrix,
                         .bfloat16 = device.bfloat16,
                         .conditional = device.conditional});
  api.vkGetPhysicalDeviceFeatures2(handle, features.head());
  device.conditional = features.conditional_rendering();

  const VkPhysicalDeviceLimits& limits = properties.properties.limits;
  device.info.driver = std::string(vulkan12.driverName) + " " + vulkan12.driverInfo;
  device.info.features = features.mask() | property_features(vulkan11, vulkan12);
  device.info.target = fb::TargetKind::Vulkan;
  device.info.subgroup_size = vulkan11.subgroupSize;
  device.info.max_workgroup_invocations = limits.maxComputeWorkGroupInvocations;
  device.info.max_shared_bytes = limits.maxComputeSharedMemorySize;
  device.info.max_params_bytes = limits.maxPushConstantsSize;
  std::copy_n(limits.maxComputeWorkGroupCount, 3, device.info.max_grid);
  device.info.is_software = basic.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  device.vendor_id = basic.vendorID;
  device.device_id = basic.deviceID;
  device.driver_version = basic.driverVersion;
  std::copy_n(basic.pipelineCacheUUID, VK_UUID_SIZE, device.pipeline_cache_uuid);
  std::copy_n(vulkan11.driverUUID, VK_UUID_SIZE, device.driver_uuid);
  device.max_allocation_bytes = vulkan11.maxMemoryAllocationSize;
  device.subgroup_size_control =
      features.subgroup_size_control() &&
      (size_control.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  device.full_subgroups = device.subgroup_size_control && features.full_subgroups();
  device.min_subgroup_size =
      has_size_control ? size_control.minSubgroupSize : vulkan11.subgroupSize;
  device.max_subgroup_size =
      has_size_control ? size_control.maxSubgroupSize : vulkan11.subgroupSize;
  device.max_subgroups = size_control.maxComputeWorkgroupSubgroups;
  uint64_t matrices = 0;
  if (device.cooperative_matrix) RLX_RETURN_IF_ERROR(matrix_features(api, device, matrices));
  device.info.features &= ~kMatrixFeatures | matrices;
  device.timestamp_nanoseconds = limits.timestampPeriod;
  find_queue_family(api, device);
  describe_memory(api, device);
  const std::string missing = feature_names(kRequiredFeatures & ~device.info.features);
  if (device.unusable.empty() && !missing.empty()) device.unusable = "lacks " + missing;
  described = std::move(device);
  return {};
}

uint64_t available_bytes(const InstanceApi& api, const PhysicalDevice& device) {
  if (!device.memory_budget) return 0;
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
  VkPhysicalDeviceMemoryProperties2 memory = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = &budget};
  api.vkGetPhysicalDeviceMemoryProperties2(device.handle, &memory);
  uint64_t largest = 0;
  for (uint32_t i = 0; i < device.memory.memoryHeapCount; ++i) {
    if ((device.memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) == 0) continue;
    const uint64_t used = std::min(budget.heapUsage[i], budget.heapBudget[i]);
    largest = std::max<uint64_t>(largest, budget.heapBudget[i] - used);
  }
  return largest;
}

}  // namespace rlx::vulkan
