// SPDX-License-Identifier: Apache-2.0
// Opens the Vulkan loader and fills the function tables.
#include "runtime/vulkan/vk_api.h"

#include <dlfcn.h>

#include "runtime/base/errors.h"

namespace rlx::vulkan {
namespace {

Status missing_function(std::string_view name) {
  return unsuitable("the Vulkan driver has no " + std::string(name) +
                    "; Vulkan 1.2 or newer is needed");
}

}  // namespace

Status load_global_api(PFN_vkGetInstanceProcAddr get, GlobalApi& api) {
  api.vkGetInstanceProcAddr = get;
#define RLX_VK_GLOBAL(name)                                            \
  api.name = reinterpret_cast<PFN_##name>(get(VK_NULL_HANDLE, #name)); \
  if (api.name == nullptr) return missing_function(#name);
#include "runtime/vulkan/vk_functions.def"
  return {};
}

Status load_instance_api(PFN_vkGetInstanceProcAddr get, VkInstance instance, InstanceApi& api) {
#define RLX_VK_INSTANCE(name)                                    \
  api.name = reinterpret_cast<PFN_##name>(get(instance, #name)); \
  if (api.name == nullptr) return missing_function(#name);
#define RLX_VK_OPTIONAL(name) api.name = reinterpret_cast<PFN_##name>(get(instance, #name));
#include "runtime/vulkan/vk_functions.def"
  return {};
}

Status load_device_api(PFN_vkGetDeviceProcAddr get, VkDevice device, DeviceApi& api) {
#define RLX_VK_DEVICE(name)                                    \
  api.name = reinterpret_cast<PFN_##name>(get(device, #name)); \
  if (api.name == nullptr) return missing_function(#name);
#define RLX_VK_DEVICE_OPTIONAL(name) api.name = reinterpret_cast<PFN_##name>(get(device, #name));
#include "runtime/vulkan/vk_functions.def"
  return {};
}

std::string_view result_name(VkResult result) {
  switch (result) {
    case VK_SUCCESS:
      return "VK_SUCCESS";
    case VK_NOT_READY:
      return "VK_NOT_READY";
    case VK_TIMEOUT:
      return "VK_TIMEOUT";
    case VK_INCOMPLETE:
      return "VK_INCOMPLETE";
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED:
      return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST:
      return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED:
      return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT:
      return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
      return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS:
      return "VK_ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_INVALID_SHADER_NV:
      return "VK_ERROR_INVALID_SHADER_NV";
    case VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS:
      return "VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS";
    case VK_ERROR_UNKNOWN:
      return "VK_ERROR_UNKNOWN";
    default:
      return "an unnamed VkResult";
  }
}

Status to_status(VkResult result, std::string_view what) {
  if (result == VK_SUCCESS) return {};
  std::string message = std::string(what) + ": " + std::string(result_name(result)) + " (" +
                        std::to_string(static_cast<int>(result)) + ")";
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return out_of_host_memory(std::move(message));
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
      return out_of_device_memory(std::move(message));
    case VK_ERROR_DEVICE_LOST:
      return device_lost(std::move(message));
    case VK_TIMEOUT:
      return timed_out(std::move(message));
    case VK_ERROR_INCOMPATIBLE_DRIVER:
    case VK_ERROR_LAYER_NOT_PRESENT:
    case VK_ERROR_EXTENSION_NOT_PRESENT:
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return unsuitable(std::move(message));
    default:
      return driver_error(std::move(message));
  }
}

Library::~Library() {
  if (handle_ != nullptr) dlclose(handle_);
}

Status Library::open(const std::string& name, PFN_vkGetInstanceProcAddr& get) {
  handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    const char* reason = dlerror();
    return no_device(
        "the Vulkan loader " + name + " cannot be opened (" +
        std::string(reason != nullptr ? reason : "no reason given") +
        "); install the package libvulkan1, and mesa-vulkan-drivers for a software device");
  }
  get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(handle_, "vkGetInstanceProcAddr"));
  if (get == nullptr) {
    return no_device(name + " has no vkGetInstanceProcAddr; reinstall the package libvulkan1");
  }
  return {};
}

}  // namespace rlx::vulkan
