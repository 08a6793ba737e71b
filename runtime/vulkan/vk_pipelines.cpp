// SPDX-License-Identifier: Apache-2.0
// Pipeline layouts by params size, and pipelines by kernel, created on several threads.
#include "runtime/vulkan/vk_pipelines.h"

#include <algorithm>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/base/threads.h"
#include "runtime/plan/plan_kernels.h"

namespace rlx::vulkan {
namespace {

// Whether a pipeline must ask for the size, and whether it can have it.
Status check_subgroup_size(const PhysicalDevice& device, const fb::Kernel& kernel, uint32_t size,
                           bool& require) {
  require = false;
  if (size == 0 || (size == device.min_subgroup_size && size == device.max_subgroup_size))
    return {};
  require = true;
  if (device.subgroup_size_control && size >= device.min_subgroup_size &&
      size <= device.max_subgroup_size)
    return {};
  return unsuitable(text_of(kernel_text(kernel), " needs subgroups of ", size, ", device ",
                            device.info.id, " has ", device.min_subgroup_size, " to ",
                            device.max_subgroup_size,
                            device.subgroup_size_control ? "" : " and cannot choose between them"));
}

Status create_cache(Context& context, std::span<const std::byte> data, OwnedPipelineCache& cache) {
  const VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                          .initialDataSize = data.size(),
                                          .pInitialData = data.data()};
  VkPipelineCache handle = VK_NULL_HANDLE;
  RLX_RETURN_IF_ERROR(
      context.check(context.api.vkCreatePipelineCache(context.device, &info, nullptr, &handle),
                    "vkCreatePipelineCache"));
  cache = OwnedPipelineCache(context, handle);
  return {};
}

Status cache_data(Context& context, VkPipelineCache cache, std::vector<std::byte>& data) {
  size_t size_bytes = 0;
  RLX_RETURN_IF_ERROR(
      context.check(context.api.vkGetPipelineCacheData(context.device, cache, &size_bytes, nullptr),
                    "vkGetPipelineCacheData"));
  data.resize(size_bytes);
  RLX_RETURN_IF_ERROR(context.check(
      context.api.vkGetPipelineCacheData(context.device, cache, &size_bytes, data.data()),
      "vkGetPipelineCacheData"));
  data.resize(size_bytes);
  return {};
}

}  // namespace

Status PipelineSet::create(Context& context, const PlanView& plan, const LoadOptions& options,
                           PipelineSet& set) {
  PipelineSet made;
  const std::vector<uint32_t> used = used_kernels(plan, fb::TargetKind::Vulkan);
  made.owned_.resize(used.size());
  made.kernels_.resize(plan.index().kernels()->size());
  RLX_RETURN_IF_ERROR(made.create_layouts(context, plan, used));

  OwnedPipelineCache cache;
  bool missed = false;
  if (!options.pipeline_cache_path.empty()) {
    const std::vector<std::byte> known =
        read_pipeline_cache(options.pipeline_cache_path, context.physical, plan);
    missed = known.empty();
    RLX_RETURN_IF_ERROR(create_cache(context, known, cache));
  }
  RLX_RETURN_IF_ERROR(made.create_pipelines(context, plan, used, options.jobs, cache.get()));
  if (missed) {
    std::vector<std::byte> data;
    RLX_RETURN_IF_ERROR(cache_data(context, cache.get(), data));
    static_cast<void>(
        write_pipeline_cache(options.pipeline_cache_path, context.physical, plan, data));
  }
  set = std::move(made);
  return {};
}

Status PipelineSet::create_layouts(Context& context, const PlanView& plan,
                                   const std::vector<uint32_t>& used) {
  for (const uint32_t kernel : used) {
    const uint32_t params_bytes = plan.kernel(kernel).params_bytes();
    const auto same = std::find_if(layouts_.begin(), layouts_.end(), [&](const Layout& layout) {
      return layout.params_bytes == params_bytes;
    });
    if (same != layouts_.end()) {
      kernels_[kernel].layout = same->layout.get();
      continue;
    }
    const VkPushConstantRange range = {
        .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .offset = 0, .size = params_bytes};
    const VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                             .pushConstantRangeCount = params_bytes == 0 ? 0u : 1u,
                                             .pPushConstantRanges = &range};
    VkPipelineLayout handle = VK_NULL_HANDLE;
    RLX_RETURN_IF_ERROR(
        context.check(context.api.vkCreatePipelineLayout(context.device, &info, nullptr, &handle),
                      "vkCreatePipelineLayout"));
    layouts_.push_back(
        {.params_bytes = params_bytes, .layout = OwnedPipelineLayout(context, handle)});
    kernels_[kernel].layout = handle;
  }
  return {};
}

Status PipelineSet::create_pipeline(Context& context, const PlanView& plan, uint32_t kernel,
                                    VkPipelineCache cache, OwnedPipeline& pipeline) const {
  const fb::Kernel& record = plan.kernel(kernel);
  const fb::Variant* variant = PlanView::first_variant(record, fb::TargetKind::Vulkan);
  if (variant == nullptr) return unsuitable(kernel_text(record) + " has no Vulkan code");
  bool require_size = false;
  RLX_RETURN_IF_ERROR(
      check_subgroup_size(context.physical, record, variant->subgroup_size(), require_size));

  const std::span<const std::byte> code = plan.code(*variant);
  const VkShaderModuleCreateInfo module_info = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
      .codeSize = code.size(),
      .pCode = reinterpret_cast<const uint32_t*>(code.data())};
  VkShaderModule handle = VK_NULL_HANDLE;
  RLX_RETURN_IF_ERROR(context.check(
      context.api.vkCreateShaderModule(context.device, &module_info, nullptr, &handle),
      "vkCreateShaderModule for " + kernel_text(record)));
  const OwnedShaderModule module(context, handle);

  const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
      .requiredSubgroupSize = variant->subgroup_size()};
  const VkComputePipelineCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .pNext = require_size ? &size : nullptr,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = handle,
                .pName = variant->entry_point()->c_str()},
      .layout = kernels_[kernel].layout};
  VkPipeline made = VK_NULL_HANDLE;
  RLX_RETURN_IF_ERROR(context.check(
      context.api.vkCreateComputePipelines(context.device, cache, 1, &info, nullptr, &made),
      "vkCreateComputePipelines for " + kernel_text(record)));
  pipeline = OwnedPipeline(context, made);
  return {};
}

Status PipelineSet::create_pipelines(Context& context, const PlanView& plan,
                                     const std::vector<uint32_t>& used, uint32_t jobs,
                                     VkPipelineCache cache) {
  RLX_RETURN_IF_ERROR(for_each_index(used.size(), jobs, [&](size_t i) {
    return create_pipeline(context, plan, used[i], cache, owned_[i]);
  }));
  for (size_t i = 0; i < used.size(); ++i) kernels_[used[i]].pipeline = owned_[i].get();
  return {};
}

}  // namespace rlx::vulkan
