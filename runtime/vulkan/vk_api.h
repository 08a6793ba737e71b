// SPDX-License-Identifier: Apache-2.0
// Vulkan entry points as tables filled at run time.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/vulkan/vk_newer.h"

namespace rlx::vulkan {

struct GlobalApi {
  PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;
#define RLX_VK_GLOBAL(name) PFN_##name name = nullptr;
#include "runtime/vulkan/vk_functions.def"
};

struct InstanceApi {
#define RLX_VK_INSTANCE(name) PFN_##name name = nullptr;
#define RLX_VK_OPTIONAL(name) PFN_##name name = nullptr;
#include "runtime/vulkan/vk_functions.def"
};

struct DeviceApi {
#define RLX_VK_DEVICE(name) PFN_##name name = nullptr;
#define RLX_VK_DEVICE_OPTIONAL(name) PFN_##name name = nullptr;
#include "runtime/vulkan/vk_functions.def"
};

// Each fills its table; an entry point that the driver lacks is an error that names it.
Status load_global_api(PFN_vkGetInstanceProcAddr get, GlobalApi& api);
Status load_instance_api(PFN_vkGetInstanceProcAddr get, VkInstance instance, InstanceApi& api);
Status load_device_api(PFN_vkGetDeviceProcAddr get, VkDevice device, DeviceApi& api);

// "VK_ERROR_OUT_OF_DEVICE_MEMORY" for its number.
std::string_view result_name(VkResult result);

// Ok for VK_SUCCESS; otherwise "<what>: <VK_ERROR_...>" with a code by kind: memory, device lost,
// unsupported or other.
Status to_status(VkResult result, std::string_view what);

// A list that the driver gives in two steps, its length and its items: call(&count, items or null).
// Items begin as `blank`. A list that grew in between is asked for again.
template <typename Item, typename Call>
Status enumerate(std::string_view what, const Item& blank, const Call& call,
                 std::vector<Item>& items) {
  VkResult result = VK_INCOMPLETE;
  for (int attempt = 0; attempt < 4 && result == VK_INCOMPLETE; ++attempt) {
    uint32_t count = 0;
    result = call(&count, nullptr);
    if (result != VK_SUCCESS) continue;
    items.assign(count, blank);
    result = call(&count, items.data());
    items.resize(count, blank);
  }
  return to_status(result, what);
}

// The Vulkan loader, open as long as this lives.
class Library {
 public:
  Library() = default;
  Library(Library&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Library& operator=(Library&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Library();

  // `name` is a file name or path. Errors name the package that holds the library.
  Status open(const std::string& name, PFN_vkGetInstanceProcAddr& get);

 private:
  void* handle_ = nullptr;
};

}  // namespace rlx::vulkan
