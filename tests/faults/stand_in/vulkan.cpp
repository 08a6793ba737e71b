// SPDX-License-Identifier: Apache-2.0
// Stands in for the Vulkan loader: every call goes on to the real one, but for the one that is to
// fail and what a lost device no longer does.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "runtime/vulkan/vk_newer.h"
#include "tests/faults/stand_in/faults.h"

namespace rlx::test {
namespace {

enum class Call : uint32_t {
#define RLX_VK_GLOBAL(name) name,
#define RLX_VK_INSTANCE(name) name,
#define RLX_VK_OPTIONAL(name) name,
#define RLX_VK_DEVICE(name) name,
#include "runtime/vulkan/vk_functions.def"
};

// A function without results cannot fail.
template <Call kCall>
inline constexpr std::span<const int> kResults = {};
#define RLX_RESULTS(name, ...)                    \
  constexpr int name##_results[] = {__VA_ARGS__}; \
  template <>                                     \
  constexpr std::span<const int> kResults<Call::name> = name##_results;
#include "tests/faults/stand_in/vulkan_results.def"
#undef RLX_RESULTS

std::atomic<bool> under_way{false};  // work was submitted, and nothing waited for since
std::atomic<VkDevice> device{VK_NULL_HANDLE};
std::recursive_mutex submitting;  // a device is not lost between the start of a submit and its end

void lose();

// Pipelines and their modules may end while other work, an upload, is under way.
constexpr bool ends_what_work_uses(Call call) {
  return call == Call::vkDestroyBuffer || call == Call::vkFreeMemory ||
         call == Call::vkDestroyCommandPool || call == Call::vkDestroyFence;
}

template <Call kCall, typename Pointer>
struct Hook;

template <Call kCall, typename Result, typename... Arguments>
struct Hook<kCall, Result(VKAPI_PTR*)(Arguments...)> {
  static inline Result(VKAPI_PTR* real)(Arguments...) = nullptr;
  static inline const char* name = "";
  static inline int lives = 0;  // how many objects more there are after a call that succeeds

  static Result VKAPI_CALL call(Arguments... arguments) {
    const DriverScope scope;
    std::unique_lock lock(submitting, std::defer_lock);
    if constexpr (kCall == Call::vkQueueSubmit) lock.lock();
    if constexpr (std::is_same_v<Result, VkResult>) {
      static_assert(!kResults<kCall>.empty(), "vulkan_results.def has no row for this function");
      const DriverCall call = {.name = name,
                               .results = kResults<kCall>,
                               .lost = VK_ERROR_DEVICE_LOST,
                               .is_poll = kCall == Call::vkGetFenceStatus,
                               .may_lose = kCall != Call::vkCreateDevice};
      if (const auto fault = take_fault(call, lose)) return static_cast<VkResult>(*fault);
      // Each wait is then one poll and one call that blocks, however fast the device is.
      if constexpr (kCall == Call::vkGetFenceStatus) return VK_NOT_READY;
      const VkResult result = real(arguments...);
      if (result != VK_SUCCESS) return result;
      fault_control().live += lives;
      if constexpr (kCall == Call::vkQueueSubmit) under_way = true;
      if constexpr (kCall == Call::vkWaitForFences || kCall == Call::vkDeviceWaitIdle)
        under_way = false;
      return result;
    } else {
      FaultControl& control = fault_control();
      control.live += lives;
      if constexpr (ends_what_work_uses(kCall)) {
        if (under_way && control.misuses++ == 0) control.first_misuse = name;
      }
      return real(arguments...);
    }
  }
};

// Command buffers end with their pools, so they are not told apart here.
int lives_of(std::string_view name) {
  if (name.starts_with("vkCreate") || name == "vkAllocateMemory") return 1;
  return name.starts_with("vkDestroy") || name == "vkFreeMemory" ? -1 : 0;
}

using DeviceMaker = Hook<Call::vkCreateDevice, PFN_vkCreateDevice>;
using DeviceEnder = Hook<Call::vkDestroyDevice, PFN_vkDestroyDevice>;
using DeviceIdler = Hook<Call::vkDeviceWaitIdle, PFN_vkDeviceWaitIdle>;

// A lost device does nothing any more: what was under way ends first.
void lose() {
  if (device == VK_NULL_HANDLE) return;
  const std::lock_guard lock(submitting);
  DeviceIdler::real(device);
  under_way = false;
  fault_control().lost = true;
}

VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                  const VkAllocationCallbacks* allocator, VkDevice* made) {
  const VkResult result = DeviceMaker::call(physical, info, allocator, made);
  if (result != VK_SUCCESS) return result;
  device = *made;
  fault_control().lost = false;
  return result;
}

void VKAPI_CALL destroy_device(VkDevice ended, const VkAllocationCallbacks* allocator) {
  if (device == ended) device = VK_NULL_HANDLE;
  DeviceEnder::call(ended, allocator);
}

PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice from, const char* name);

PFN_vkGetInstanceProcAddr real_get_instance_proc = nullptr;
PFN_vkGetDeviceProcAddr real_get_device_proc = nullptr;

// The hook of a function whose real address this is.
PFN_vkVoidFunction hooked(std::string_view wanted, PFN_vkVoidFunction real) {
  if (real == nullptr) return nullptr;
#define RLX_HOOK(function)                                                                         \
  if (wanted == #function) {                                                                       \
    Hook<Call::function, PFN_##function>::real = reinterpret_cast<PFN_##function>(real);           \
    Hook<Call::function, PFN_##function>::name = #function;                                        \
    Hook<Call::function, PFN_##function>::lives = lives_of(wanted);                                \
    if (wanted == "vkCreateDevice") return reinterpret_cast<PFN_vkVoidFunction>(&create_device);   \
    if (wanted == "vkDestroyDevice") return reinterpret_cast<PFN_vkVoidFunction>(&destroy_device); \
    return reinterpret_cast<PFN_vkVoidFunction>(&Hook<Call::function, PFN_##function>::call);      \
  }
  if (wanted == "vkGetDeviceProcAddr") {
    real_get_device_proc = reinterpret_cast<PFN_vkGetDeviceProcAddr>(real);
    return reinterpret_cast<PFN_vkVoidFunction>(&get_device_proc);
  }
#define RLX_VK_GLOBAL(name) RLX_HOOK(name)
#define RLX_VK_INSTANCE(name) RLX_HOOK(name)
#define RLX_VK_OPTIONAL(name) RLX_HOOK(name)
#define RLX_VK_DEVICE(name) RLX_HOOK(name)
#include "runtime/vulkan/vk_functions.def"
  return real;
}

PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice from, const char* name) {
  const DriverScope scope;
  return hooked(name, real_get_device_proc(from, name));
}

// RLX_FAULT_REAL names the real loader where this library has its name.
bool open_real() {
  if (real_get_instance_proc != nullptr) return true;
  const char* path = std::getenv("RLX_FAULT_REAL");
  void* library = dlopen(path == nullptr ? "libvulkan.so.1" : path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  take_environment();
  real_get_instance_proc =
      reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  return real_get_instance_proc != nullptr;
}

}  // namespace
}  // namespace rlx::test

extern "C" __attribute__((visibility("default"))) PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  using namespace rlx::test;
  const DriverScope scope;
  return open_real() ? hooked(name, real_get_instance_proc(instance, name)) : nullptr;
}
