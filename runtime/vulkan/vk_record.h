// SPDX-License-Identifier: Apache-2.0
// Links an entry (every value gets its place) and records its steps into a command buffer.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/plan_view.h"
#include "runtime/vulkan/vk_memory.h"
#include "runtime/vulkan/vk_pipelines.h"

namespace rlx::vulkan {

// An entry whose values have places, by value index.
struct LinkedEntry {
  const fb::Entry* entry = nullptr;
  std::vector<Place> places;
};

// The first `step_count` steps of an entry; of a region that they reach into but not to its end,
// the first trip.
struct RecordOptions {
  uint32_t step_count = 0;
  // Not null: the steps run one after another; query 0 is written before the first step and query i
  // + 1 after step i. All trips of a region are its first step's.
  VkQueryPool step_times = VK_NULL_HANDLE;
};

// Begins a command buffer that may be submitted again and again; earlier device and host writes are
// visible to what follows.
Status begin_commands(Context& context, VkCommandBuffer commands,
                      VkCommandBufferUsageFlags usage = 0);
// Makes everything recorded so far visible to later steps, copies and fills.
void record_barrier(const Context& context, VkCommandBuffer commands);
// Makes everything recorded so far visible to the host once the fence is signalled.
void record_host_barrier(const Context& context, VkCommandBuffer commands);
Status end_commands(Context& context, VkCommandBuffer commands);

// Commands that all trips of an entry's regions may take together.
inline constexpr uint64_t kMostRegionCommands = uint64_t{1} << 20;

// The steps with their pointers patched, and a barrier wherever the wave changes. A region's steps
// stand there as often as it may take trips, each trip left out where its word is 0 then.
void record_steps(const Context& context, const PlanView& plan, const PipelineSet& pipelines,
                  const LinkedEntry& linked, const RecordOptions& options,
                  VkCommandBuffer commands);

}  // namespace rlx::vulkan
