// SPDX-License-Identifier: Apache-2.0
// Listing, opening and adopting Vulkan devices.
#include "runtime/vulkan/vulkan_device.h"

#include <algorithm>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/device/device_names.h"
#include "runtime/vulkan/vk_context.h"
#include "runtime/vulkan/vk_pipelines.h"
#include "runtime/vulkan/vk_plan.h"
#include "runtime/vulkan/vk_preflight.h"

namespace rlx {
namespace vulkan {
namespace {

constexpr std::string_view kNoDevice =
    "the Vulkan loader finds no device; install your GPU's driver, or the package "
    "mesa-vulkan-drivers for the software "
    "device lavapipe";

class VulkanDevice final : public Device {
 public:
  explicit VulkanDevice(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  [[nodiscard]] const DeviceInfo& info() const override { return context_->physical.info; }
  [[nodiscard]] Status health() const override { return context_->health(); }
  [[nodiscard]] const ObjectCounts& objects() const override { return context_->objects(); }
  [[nodiscard]] Status check_suits(const PlanHeader& header) const override {
    return check_device_suits(header, info(), check_target);
  }
  Status load(const PlanView& plan, const LoadOptions& options,
              std::shared_ptr<DevicePlan>& loaded) override {
    return VulkanPlan::load(context_, plan, options, loaded);
  }
  [[nodiscard]] Context& context() const { return *context_; }

 private:
  std::shared_ptr<Context> context_;
};

std::string device_id(size_t index) {
  return text_of("vulkan:", index);
}

Status describe_all(const Instance& instance, std::vector<PhysicalDevice>& devices) {
  std::vector<VkPhysicalDevice> handles;
  RLX_RETURN_IF_ERROR(instance.physical_devices(handles));
  for (size_t i = 0; i < handles.size(); ++i) {
    PhysicalDevice& device = devices.emplace_back();
    RLX_RETURN_IF_ERROR(describe(instance.api, handles[i], device_id(i), device));
  }
  return {};
}

}  // namespace
}  // namespace vulkan

std::vector<DeviceInfo> list_vulkan_devices(std::string& why_none) {
  using namespace vulkan;
  why_none.clear();
  std::shared_ptr<Instance> instance;
  std::vector<PhysicalDevice> devices;
  Status status = Instance::create({}, instance);
  if (status.ok()) status = describe_all(*instance, devices);
  if (!status.ok()) {
    why_none = status.message();
    return {};
  }
  std::vector<DeviceInfo> usable;
  for (PhysicalDevice& device : devices) {
    if (device.unusable.empty()) {
      usable.push_back(std::move(device.info));
    } else {
      why_none += text_of(why_none.empty() ? "" : "; ", device.info.id, " ",
                          quoted(device.info.name), " ", device.unusable);
    }
  }
  if (devices.empty()) why_none = kNoDevice;
  return usable;
}

Status open_vulkan_device(const std::string& id, std::shared_ptr<Device>& device,
                          const VulkanOptions& options) {
  using namespace vulkan;
  std::shared_ptr<Instance> instance;
  RLX_RETURN_IF_ERROR(Instance::create(options, instance));
  std::vector<PhysicalDevice> devices;
  RLX_RETURN_IF_ERROR(describe_all(*instance, devices));
  if (devices.empty()) return no_device(std::string(kNoDevice));
  PhysicalDevice* chosen = nullptr;
  RLX_RETURN_IF_ERROR(find_device(id, "vulkan", devices, chosen));
  chosen->staging_only = options.staging_only;
  chosen->executables = chosen->executables && options.pipeline_statistics;
  if (options.max_allocation_bytes != 0) {
    chosen->max_allocation_bytes =
        std::min(chosen->max_allocation_bytes, options.max_allocation_bytes);
  }
  std::shared_ptr<Context> context;
  RLX_RETURN_IF_ERROR(Context::create(std::move(instance), std::move(*chosen), context));
  device = std::make_shared<VulkanDevice>(std::move(context));
  return {};
}

Status adopt_vulkan_device(const AdoptedVulkan& adopted, std::shared_ptr<Device>& device) {
  using namespace vulkan;
  if (adopted.instance == nullptr || adopted.physical_device == nullptr ||
      adopted.device == nullptr || adopted.queue == nullptr) {
    return invalid_argument(
        "adopting a Vulkan device needs its instance, physical device, device and queue; one is "
        "null");
  }
  std::shared_ptr<Instance> instance;
  RLX_RETURN_IF_ERROR(
      Instance::adopt(static_cast<VkInstance>(adopted.instance),
                      reinterpret_cast<PFN_vkGetInstanceProcAddr>(adopted.get_instance_proc_addr),
                      adopted.objects, instance));
  PhysicalDevice physical;
  RLX_RETURN_IF_ERROR(describe(instance->api,
                               static_cast<VkPhysicalDevice>(adopted.physical_device),
                               "vulkan:adopted", physical));
  if (!physical.unusable.empty()) {
    return unsuitable(
        text_of("the adopted device ", quoted(physical.info.name), " ", physical.unusable));
  }
  std::shared_ptr<Context> context;
  RLX_RETURN_IF_ERROR(Context::adopt(std::move(instance), std::move(physical), adopted, context));
  device = std::make_shared<VulkanDevice>(std::move(context));
  return {};
}

Status check_vulkan_pipelines(const Device& device, const PlanView& plan, uint32_t jobs,
                              std::vector<PipelineReport>& reports) {
  const auto* ours = dynamic_cast<const vulkan::VulkanDevice*>(&device);
  if (ours == nullptr) return invalid_argument("pipelines are made on Vulkan devices alone");
  return vulkan::PipelineSet::check(ours->context(), plan, jobs, reports);
}

std::vector<std::string> vulkan_validation_messages(const Device& device) {
  const auto* ours = dynamic_cast<const vulkan::VulkanDevice*>(&device);
  return ours == nullptr ? std::vector<std::string>()
                         : ours->context().instance->validation_log.messages();
}

}  // namespace rlx
