// SPDX-License-Identifier: Apache-2.0
// The compute pipelines of a plan, created in parallel, and the file that keeps what the driver
// compiled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/plan_view.h"
#include "runtime/vulkan/vk_context.h"
#include "runtime/vulkan/vulkan_device.h"

namespace rlx::vulkan {

struct KernelPipeline {
  VkPipeline pipeline = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
};

// A number that a driver tells of a pipeline.
double told_number(const VkPipelineExecutableStatisticKHR& statistic);

// One pipeline for each kernel that a step of the plan dispatches.
class PipelineSet {
 public:
  // Reads options.pipeline_cache_path where its identity fits; writes it where it was missing or
  // did not fit. A cache that cannot be written costs the next load its speed-up and nothing else,
  // so it fails no load.
  static Status create(Context& context, const PlanView& plan, const LoadOptions& options,
                       PipelineSet& set);

  // Makes each kernel's pipeline and lets it go again: what check_vulkan_pipelines tells.
  static Status check(Context& context, const PlanView& plan, uint32_t jobs,
                      std::vector<PipelineReport>& reports);

  [[nodiscard]] const KernelPipeline& at(uint32_t kernel) const { return kernels_[kernel]; }

 private:
  struct Layout {
    uint32_t params_bytes = 0;
    OwnedPipelineLayout layout;
  };

  Status create_layouts(Context& context, const PlanView& plan, const std::vector<uint32_t>& used);
  Status create_pipeline(Context& context, const PlanView& plan, uint32_t kernel,
                         VkPipelineCache cache, OwnedPipeline& pipeline) const;
  Status create_pipelines(Context& context, const PlanView& plan, const std::vector<uint32_t>& used,
                          uint32_t jobs, VkPipelineCache cache);

  std::vector<Layout> layouts_;
  std::vector<OwnedPipeline> owned_;
  std::vector<KernelPipeline> kernels_;  // by kernel index; null where no step uses it
};

// The file of this plan on this device and driver in a folder of many; nullopt where the folder
// cannot be used.
std::optional<std::string> pipeline_cache_file(const std::string& folder,
                                               const PhysicalDevice& device, const PlanView& plan);

// The driver's data kept at `path` for this plan on this device and driver; empty where there is
// none that fits.
std::vector<std::byte> read_pipeline_cache(const std::string& path, const PhysicalDevice& device,
                                           const PlanView& plan);

// Whether there is a file at `path` that no run of ours wrote: a caller's own, named by mistake.
bool is_foreign_file(const std::string& path);

// Replaces the file in one step, so that a reader sees the old one, the new one or none. False
// where it cannot.
bool write_pipeline_cache(const std::string& path, const PhysicalDevice& device,
                          const PlanView& plan, std::span<const std::byte> data);

}  // namespace rlx::vulkan
