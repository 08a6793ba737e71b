// SPDX-License-Identifier: Apache-2.0
// Lavapipe for guarded runs: one dispatch at a time, pipelines kept by their code.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/vulkan/vk_record.h"
#include "tests/support/guarded_run.h"

namespace rlx::test {
namespace {

constexpr size_t kMaxPipelines = 4096;

}  // namespace

Status GuardedDevice::open(std::unique_ptr<GuardedDevice>& device) {
  std::shared_ptr<vulkan::Instance> instance;
  RLX_RETURN_IF_ERROR(vulkan::Instance::create({}, instance));
  std::vector<VkPhysicalDevice> handles;
  RLX_RETURN_IF_ERROR(instance->physical_devices(handles));
  for (size_t i = 0; i < handles.size(); ++i) {
    vulkan::PhysicalDevice physical;
    RLX_RETURN_IF_ERROR(
        vulkan::describe(instance->api, handles[i], text_of("vulkan:", i), physical));
    if (!physical.info.is_software || !physical.unusable.empty()) continue;
    std::unique_ptr<GuardedDevice> made(new GuardedDevice);
    RLX_RETURN_IF_ERROR(
        vulkan::Context::create(std::move(instance), std::move(physical), made->context_));
    vulkan::Context& context = *made->context_;
    RLX_RETURN_IF_ERROR(vulkan::CommandPool::create(context, made->pool_));
    RLX_RETURN_IF_ERROR(vulkan::create_fence(context, made->fence_));
    RLX_RETURN_IF_ERROR(made->pool_.allocate(context, made->commands_));
    device = std::move(made);
    return {};
  }
  return no_device(
      "no software device, whose addresses are host pointers; install the package "
      "mesa-vulkan-drivers");
}

Status GuardedDevice::dispatch(const PlanView& plan, const fb::Step& step,
                               std::span<const std::byte> params) {
  const Pipeline* pipeline = nullptr;
  RLX_RETURN_IF_ERROR(pipeline_of(plan, step.kernel(), pipeline));
  const vulkan::DeviceApi& api = context_->api;
  RLX_RETURN_IF_ERROR(vulkan::begin_commands(*context_, commands_));
  api.vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline->pipeline.get());
  if (!params.empty()) {
    api.vkCmdPushConstants(commands_, pipeline->layout.get(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                           static_cast<uint32_t>(params.size()), params.data());
  }
  api.vkCmdDispatch(commands_, step.grid_x(), step.grid_y(), step.grid_z());
  vulkan::record_host_barrier(*context_, commands_);
  RLX_RETURN_IF_ERROR(vulkan::end_commands(*context_, commands_));
  RLX_RETURN_IF_ERROR(context_->submit(commands_, fence_.get()));
  return context_->wait(fence_.get(), UINT64_MAX, "a guarded step");
}

Status GuardedDevice::pipeline_of(const PlanView& plan, uint32_t kernel,
                                  const Pipeline*& pipeline) {
  const fb::Kernel& record = plan.kernel(kernel);
  const fb::Variant* variant = PlanView::first_variant(record, fb::TargetKind::Vulkan);
  if (variant == nullptr) return unsuitable("a kernel has no Vulkan code");
  const std::span<const std::byte> code = plan.code(*variant);
  const XXH128_hash_t hash = XXH3_128bits(code.data(), code.size());
  const std::string key =
      text_of(hash.high64, ".", hash.low64, ".", record.params_bytes(), ".",
              variant->subgroup_size(), ".", PlanView::text(variant->entry_point()));
  if (pipelines_.size() > kMaxPipelines) pipelines_.clear();
  const auto [place, is_new] = pipelines_.try_emplace(key);
  if (is_new) {
    const Status status = create(record, *variant, code, place->second);
    if (!status.ok()) {
      pipelines_.erase(place);
      return status;
    }
  }
  pipeline = &place->second;
  return {};
}

Status GuardedDevice::create(const fb::Kernel& kernel, const fb::Variant& variant,
                             std::span<const std::byte> code, Pipeline& made) {
  const vulkan::DeviceApi& api = context_->api;
  const VkDevice device = context_->device;
  const VkPushConstantRange range = {
      .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .offset = 0, .size = kernel.params_bytes()};
  const VkPipelineLayoutCreateInfo layout = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
      .pushConstantRangeCount = kernel.params_bytes() == 0 ? 0u : 1u,
      .pPushConstantRanges = &range};
  VkPipelineLayout layout_handle = VK_NULL_HANDLE;
  RLX_RETURN_IF_ERROR(
      context_->check(api.vkCreatePipelineLayout(device, &layout, nullptr, &layout_handle),
                      "vkCreatePipelineLayout"));
  made.layout = vulkan::OwnedPipelineLayout(*context_, layout_handle);
  const VkShaderModuleCreateInfo module = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize = code.size(),
                                           .pCode = reinterpret_cast<const uint32_t*>(code.data())};
  VkShaderModule module_handle = VK_NULL_HANDLE;
  RLX_RETURN_IF_ERROR(context_->check(
      api.vkCreateShaderModule(device, &module, nullptr, &module_handle), "vkCreateShaderModule"));
  const vulkan::OwnedShaderModule owned(*context_, module_handle);
  const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
      .requiredSubgroupSize = variant.subgroup_size()};
  const uint32_t wanted = variant.subgroup_size();
  const vulkan::PhysicalDevice& physical = context_->physical;
  const bool choose = wanted != 0 && physical.min_subgroup_size != physical.max_subgroup_size;
  if (wanted != 0 && !physical.gives_subgroups_of(wanted))
    return unsuitable("the device has no subgroups of that size");
  const VkComputePipelineCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .pNext = choose ? &size : nullptr,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module_handle,
                .pName = variant.entry_point()->c_str()},
      .layout = layout_handle};
  VkPipeline pipeline = VK_NULL_HANDLE;
  RLX_RETURN_IF_ERROR(context_->check(
      api.vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline),
      "vkCreateComputePipelines"));
  made.pipeline = vulkan::OwnedPipeline(*context_, pipeline);
  return {};
}

}  // namespace rlx::test
