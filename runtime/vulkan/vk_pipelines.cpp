// SPDX-License-Identifier: Apache-2.0
// Pipeline layouts by params size, and pipelines by kernel, created on several threads.
#include "runtime/vulkan/vk_pipelines.h"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/base/threads.h"
#include "runtime/plan/plan_kernels.h"
#include "schema/rounding.h"

namespace rlx::vulkan {
namespace {

// Whether a pipeline must ask for the size of its subgroups, and whether it can have it.
Status check_subgroup_size(const PhysicalDevice& device, const fb::Kernel& kernel,
                           const fb::Variant& variant, bool& require) {
  const uint32_t size = variant.subgroup_size();
  require = size != 0 && device.min_subgroup_size != device.max_subgroup_size;
  if (size != 0 && !device.gives_subgroups_of(size)) {
    return unsuitable(text_of(kernel_text(kernel), " needs subgroups of ", size, ", device ",
                              device.info.id, " has ", device.min_subgroup_size, " to ",
                              device.max_subgroup_size,
                              device.subgroup_size_control ? ""
                                                           : " and cannot choose between them "
                                                             "(VK_EXT_subgroup_size_control)"));
  }
  const uint64_t threads =
      uint64_t{variant.workgroup_x()} * variant.workgroup_y() * variant.workgroup_z();
  if (!require || ceil_div(threads, size) <= device.max_subgroups) return {};
  return unsuitable(text_of(kernel_text(kernel), " needs ", ceil_div(threads, size),
                            " subgroups of ", size, " in a workgroup, device ", device.info.id,
                            " has at most ", device.max_subgroups,
                            " of a size that is asked for (maxComputeWorkgroupSubgroups)"));
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

// What the driver tells of a pipeline that was made to tell. A compute pipeline is one executable,
// or several forms of one, of which the first stands for all.
Status read_statistics(Context& context, VkPipeline pipeline, PipelineReport& report) {
  const InstanceApi& api = context.instance->api;
  if (!context.physical.executables || api.vkGetPipelineExecutablePropertiesKHR == nullptr ||
      api.vkGetPipelineExecutableStatisticsKHR == nullptr)
    return {};
  const VkPipelineInfoKHR whole = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR,
                                   .pipeline = pipeline};
  uint32_t executables = 0;
  RLX_RETURN_IF_ERROR(context.check(
      api.vkGetPipelineExecutablePropertiesKHR(context.device, &whole, &executables, nullptr),
      "vkGetPipelineExecutablePropertiesKHR"));
  if (executables == 0) return {};
  const VkPipelineExecutableInfoKHR first = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline};
  std::vector<VkPipelineExecutableStatisticKHR> told;
  RLX_RETURN_IF_ERROR(enumerate(
      "vkGetPipelineExecutableStatisticsKHR",
      VkPipelineExecutableStatisticKHR{.sType =
                                           VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR},
      [&](uint32_t* count, VkPipelineExecutableStatisticKHR* items) {
        return api.vkGetPipelineExecutableStatisticsKHR(context.device, &first, count, items);
      },
      told));
  for (const VkPipelineExecutableStatisticKHR& statistic : told)
    report.statistics.emplace_back(statistic.name, told_number(statistic));
  return {};
}

}  // namespace

double told_number(const VkPipelineExecutableStatisticKHR& statistic) {
  switch (statistic.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
      return statistic.value.b32 == VK_TRUE ? 1 : 0;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
      return static_cast<double>(statistic.value.i64);
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
      // NVIDIA's driver leaves something else in the high word of this one. A thread has at most
      // 512 KiB of local memory.
      if (std::string_view(statistic.name) == "Local Memory Size")
        return static_cast<double>(static_cast<uint32_t>(statistic.value.u64));
      return static_cast<double>(statistic.value.u64);
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR:
      return statistic.value.f64;
    default:
      return 0;
  }
}

Status PipelineSet::check(Context& context, const PlanView& plan, uint32_t jobs,
                          std::vector<PipelineReport>& reports) {
  PipelineSet set;
  const std::vector<uint32_t> used = used_kernels(plan, fb::TargetKind::Vulkan);
  set.kernels_.resize(plan.index().kernels()->size());
  RLX_RETURN_IF_ERROR(set.create_layouts(context, plan, used));
  reports.assign(used.size(), {});
  RLX_RETURN_IF_ERROR(for_each_index(used.size(), jobs, [&](size_t i) -> Status {
    PipelineReport& report = reports[i];
    report.kernel = used[i];
    OwnedPipeline pipeline;
    const auto start = std::chrono::steady_clock::now();
    report.status = set.create_pipeline(context, plan, used[i], VK_NULL_HANDLE, pipeline);
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    report.milliseconds = taken.count();
    return report.status.ok() ? read_statistics(context, pipeline.get(), report) : Status();
  }));
  return context.health();
}

Status PipelineSet::create(Context& context, const PlanView& plan, const LoadOptions& options,
                           PipelineSet& set) {
  PipelineSet made;
  const std::vector<uint32_t> used = used_kernels(plan, fb::TargetKind::Vulkan);
  made.owned_.resize(used.size());
  made.kernels_.resize(plan.index().kernels()->size());
  RLX_RETURN_IF_ERROR(made.create_layouts(context, plan, used));

  OwnedPipelineCache cache;
  bool missed = false;
  std::string path = options.pipeline_cache_path;
  if (path.empty() && !options.pipeline_cache_folder.empty()) {
    path = pipeline_cache_file(options.pipeline_cache_folder, context.physical, plan)
               .value_or(std::string());
  }
  if (!path.empty()) {
    const std::vector<std::byte> known = read_pipeline_cache(path, context.physical, plan);
    missed = known.empty() && (options.pipeline_cache_path.empty() || !is_foreign_file(path));
    RLX_RETURN_IF_ERROR(create_cache(context, known, cache));
  }
  RLX_RETURN_IF_ERROR(made.create_pipelines(context, plan, used, options.jobs, cache.get()));
  if (missed) {
    std::vector<std::byte> data;
    RLX_RETURN_IF_ERROR(cache_data(context, cache.get(), data));
    static_cast<void>(write_pipeline_cache(path, context.physical, plan, data));
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
  RLX_RETURN_IF_ERROR(check_subgroup_size(context.physical, record, *variant, require_size));

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
  // Constant 0 of kernels for CPUs (shaders/vulkan/lib/prelude.inc); others have none.
  const uint32_t threads =
      require_size ? variant->subgroup_size() : context.physical.info.subgroup_size;
  const VkSpecializationMapEntry entry = {.constantID = 0, .offset = 0, .size = sizeof threads};
  const VkSpecializationInfo constants = {
      .mapEntryCount = 1, .pMapEntries = &entry, .dataSize = sizeof threads, .pData = &threads};
  VkComputePipelineCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .pNext = require_size ? &size : nullptr,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = handle,
                .pName = variant->entry_point()->c_str(),
                .pSpecializationInfo = &constants},
      .layout = kernels_[kernel].layout};
  // As all threads of a subgroup share its matrices.
  if (require_size && context.physical.full_subgroups &&
      variant->workgroup_x() % variant->subgroup_size() == 0)
    info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  if (context.physical.executables) info.flags = VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
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
