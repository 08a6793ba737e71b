// SPDX-License-Identifier: Apache-2.0
// Instance creation, the validation messenger and device enumeration.
#include <algorithm>
#include <cstring>

#include "runtime/base/errors.h"
#include "runtime/vulkan/vk_context.h"

namespace rlx::vulkan {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";
constexpr VkInstanceCreateFlags kListsPortability =
    VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                          VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data,
                                          void* user_data) {
  if ((severity & VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT) != 0) {
    static_cast<ValidationLog*>(user_data)->add(data->pMessage);
  }
  return VK_FALSE;
}

VkDebugUtilsMessengerCreateInfoEXT messenger_info(ValidationLog* log) {
  return {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
          .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
          .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT |
                         VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
          .pfnUserCallback = on_message,
          .pUserData = log};
}

Status require_validation_layer(const GlobalApi& api) {
  std::vector<VkLayerProperties> layers;
  RLX_RETURN_IF_ERROR(enumerate(
      "vkEnumerateInstanceLayerProperties", VkLayerProperties{},
      [&](uint32_t* count, VkLayerProperties* items) {
        return api.vkEnumerateInstanceLayerProperties(count, items);
      },
      layers));
  const bool found = std::any_of(layers.begin(), layers.end(), [](const VkLayerProperties& layer) {
    return std::strcmp(layer.layerName, kValidationLayer) == 0;
  });
  if (found) return {};
  return unsuitable(std::string("validation was asked for, but ") + kValidationLayer +
                    " is not installed; install the package vulkan-validationlayers");
}

// Whether the loader lists drivers that are not all of Vulkan, as MoltenVK, for who asks for them.
Status find_portability(const GlobalApi& api, bool& found) {
  std::vector<VkExtensionProperties> extensions;
  RLX_RETURN_IF_ERROR(enumerate(
      "vkEnumerateInstanceExtensionProperties", VkExtensionProperties{},
      [&](uint32_t* count, VkExtensionProperties* items) {
        return api.vkEnumerateInstanceExtensionProperties(nullptr, count, items);
      },
      extensions));
  found = std::any_of(extensions.begin(), extensions.end(), [](const VkExtensionProperties& known) {
    return std::strcmp(known.extensionName, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME) == 0;
  });
  return {};
}

}  // namespace

void ValidationLog::add(std::string message) {
  const std::lock_guard lock(mutex_);
  messages_.push_back(std::move(message));
  any_.store(true, std::memory_order_release);
}

std::vector<std::string> ValidationLog::messages() const {
  const std::lock_guard lock(mutex_);
  return messages_;
}

Status Instance::create(const VulkanOptions& options, std::shared_ptr<Instance>& instance) {
  std::shared_ptr<Instance> made(new Instance(options.objects));
  RLX_RETURN_IF_ERROR(made->start(options));
  instance = std::move(made);
  return {};
}

Status Instance::start(const VulkanOptions& options) {
  PFN_vkGetInstanceProcAddr get = nullptr;
  RLX_RETURN_IF_ERROR(library_.open(options.loader, get));
  RLX_RETURN_IF_ERROR(load_global_api(get, global_));
  uint32_t version = 0;
  RLX_RETURN_IF_ERROR(
      to_status(global_.vkEnumerateInstanceVersion(&version), "vkEnumerateInstanceVersion"));
  if (version < VK_API_VERSION_1_2) {
    return no_device("the Vulkan loader is version " +
                     std::to_string(VK_API_VERSION_MAJOR(version)) + "." +
                     std::to_string(VK_API_VERSION_MINOR(version)) + "; 1.2 or newer is needed");
  }
  if (options.validation) RLX_RETURN_IF_ERROR(require_validation_layer(global_));

  const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                         .pApplicationName = "rlx",
                                         .pEngineName = "rlx",
                                         .apiVersion = VK_API_VERSION_1_3};
  const VkDebugUtilsMessengerCreateInfoEXT messenger = messenger_info(&validation_log);
  bool has_portability = false;
  RLX_RETURN_IF_ERROR(find_portability(global_, has_portability));
  std::vector<const char*> extensions;
  if (options.validation) extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  if (has_portability) extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
  const VkInstanceCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
      .pNext = options.validation ? &messenger : nullptr,
      .flags = has_portability ? kListsPortability : 0,
      .pApplicationInfo = &application,
      .enabledLayerCount = options.validation ? 1u : 0u,
      .ppEnabledLayerNames = &kValidationLayer,
      .enabledExtensionCount = static_cast<uint32_t>(extensions.size()),
      .ppEnabledExtensionNames = extensions.data()};
  const VkResult result = global_.vkCreateInstance(&info, nullptr, &handle_);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
    return no_device(
        "the Vulkan loader finds no driver; install your GPU's driver, or mesa-vulkan-drivers for "
        "the software device lavapipe");
  }
  RLX_RETURN_IF_ERROR(to_status(result, "vkCreateInstance"));
  counted_ = CountedObject(*objects, ObjectKind::Instance);
  owned_ = true;
  // Destruction needs this one, whatever else is missing.
  api.vkDestroyInstance =
      reinterpret_cast<PFN_vkDestroyInstance>(get(handle_, "vkDestroyInstance"));
  RLX_RETURN_IF_ERROR(load_instance_api(get, handle_, api));
  if (options.validation) {
    RLX_RETURN_IF_ERROR(
        to_status(api.vkCreateDebugUtilsMessengerEXT(handle_, &messenger, nullptr, &messenger_),
                  "vkCreateDebugUtilsMessengerEXT"));
    counted_messenger_ = CountedObject(*objects, ObjectKind::Messenger);
  }
  return {};
}

Status Instance::adopt(VkInstance handle, PFN_vkGetInstanceProcAddr get,
                       std::shared_ptr<ObjectCounts> objects, std::shared_ptr<Instance>& instance) {
  std::shared_ptr<Instance> made(new Instance(std::move(objects)));
  made->handle_ = handle;
  if (get == nullptr) RLX_RETURN_IF_ERROR(made->library_.open(VulkanOptions().loader, get));
  RLX_RETURN_IF_ERROR(load_instance_api(get, handle, made->api));
  instance = std::move(made);
  return {};
}

Instance::~Instance() {
  if (!owned_) return;
  if (messenger_ != VK_NULL_HANDLE)
    api.vkDestroyDebugUtilsMessengerEXT(handle_, messenger_, nullptr);
  if (api.vkDestroyInstance != nullptr) api.vkDestroyInstance(handle_, nullptr);
}

Status Instance::physical_devices(std::vector<VkPhysicalDevice>& devices) const {
  return enumerate(
      "vkEnumeratePhysicalDevices", VkPhysicalDevice{},
      [&](uint32_t* count, VkPhysicalDevice* items) {
        return api.vkEnumeratePhysicalDevices(handle_, count, items);
      },
      devices);
}

}  // namespace rlx::vulkan
