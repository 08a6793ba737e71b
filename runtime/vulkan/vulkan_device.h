// SPDX-License-Identifier: Apache-2.0
// The Vulkan device: lists, opens and adopts devices behind runtime/device/device.h. libvulkan.so.1
// is opened at run time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/device.h"

namespace rlx {

struct VulkanOptions {
  // Loads VK_LAYER_KHRONOS_validation; each error it reports becomes a failure of the next wait.
  // Refused where the layer is not installed.
  bool validation = false;
  // For tests on unified memory: device memory is never mapped, so that bytes travel as they do on
  // a discrete GPU.
  bool staging_only = false;
  // For tests: no allocation is larger, whatever the driver allows. 0: the driver's limit.
  uint64_t max_allocation_bytes = 0;
  // Drivers are asked to keep what check_vulkan_pipelines tells of pipelines, where they can.
  bool pipeline_statistics = false;
  // The loader's file name or path.
  std::string loader = "libvulkan.so.1";
  // Where everything made for the device is counted, itself included: for who wants to know that
  // nothing remains. Null: counts that end with the device.
  std::shared_ptr<ObjectCounts> objects = nullptr;
};

// A device that the caller created. It must outlive every object made from it; nothing of it is
// destroyed here, and the caller does not use the queue while a call of ours is submitting to it.
struct AdoptedVulkan {
  void* instance = nullptr;         // VkInstance
  void* physical_device = nullptr;  // VkPhysicalDevice
  void* device =
      nullptr;  // VkDevice, with bufferDeviceAddress, scalarBlockLayout and shaderInt64 enabled
  uint32_t queue_family = 0;  // with compute
  void* queue = nullptr;      // VkQueue
  void* get_instance_proc_addr =
      nullptr;            // PFN_vkGetInstanceProcAddr; null: of the system's loader
  uint64_t features = 0;  // mask of features.def that the caller enabled on the device
  std::shared_ptr<ObjectCounts> objects = nullptr;  // as VulkanOptions'
};

// Every device that could be opened, in the loader's order. Empty: why_none says why and which
// package helps.
std::vector<DeviceInfo> list_vulkan_devices(std::string& why_none);

// Opens "vulkan:N", or the first device for "vulkan". Errors: no loader, no device, unknown id (the
// right ones are listed), or a device without what every plan needs.
Status open_vulkan_device(const std::string& id, std::shared_ptr<Device>& device,
                          const VulkanOptions& options = {});

// The same on a device that the caller owns.
Status adopt_vulkan_device(const AdoptedVulkan& adopted, std::shared_ptr<Device>& device);

// What a driver made of a kernel, or why it made nothing.
struct PipelineReport {
  uint32_t kernel = 0;  // of the plan
  Status status;
  double milliseconds = 0;  // that it took
  // A number and what the driver calls it, as "VGPRs"; none where it tells nothing.
  std::vector<std::pair<std::string, double>> statistics;
};

// Makes the pipeline of every kernel that the plan's program for Vulkan runs, without weights and
// sessions, on as many threads (0: one per core). `device` is one of this file's.
Status check_vulkan_pipelines(const Device& device, const PlanView& plan, uint32_t jobs,
                              std::vector<PipelineReport>& reports);

// What the validation layer has said on a device opened with VulkanOptions::validation, oldest
// first.
std::vector<std::string> vulkan_validation_messages(const Device& device);

}  // namespace rlx
