// SPDX-License-Identifier: Apache-2.0
// Recording. A plan was verified before it came here, so its indices, ranges and sizes are used as
// they are.
#include "runtime/vulkan/vk_record.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace rlx::vulkan {
namespace {

constexpr VkPipelineStageFlags kWorkStages =
    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
constexpr VkAccessFlags kWorkWrites = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
constexpr VkAccessFlags kWorkAccesses =
    kWorkWrites | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;

void barrier(const Context& context, VkCommandBuffer commands, VkPipelineStageFlags source_stages,
             VkAccessFlags source, VkPipelineStageFlags target_stages, VkAccessFlags target) {
  const VkMemoryBarrier memory = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = source, .dstAccessMask = target};
  context.api.vkCmdPipelineBarrier(commands, source_stages, target_stages, 0, 1, &memory, 0,
                                   nullptr, 0, nullptr);
}

void record_wave_barrier(const Context& context, VkCommandBuffer commands, bool kernels_only) {
  if (kernels_only) {
    barrier(context, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
            VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
            VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
  } else {
    barrier(context, commands, kWorkStages, kWorkWrites, kWorkStages, kWorkAccesses);
  }
}

Place place_of(const LinkedEntry& linked, const fb::Relocation& relocation) {
  Place place = linked.places[relocation.value()];
  place.offset_bytes += relocation.offset_bytes();
  place.address += relocation.offset_bytes();
  return place;
}

class StepRecorder {
 public:
  StepRecorder(const Context& context, const PlanView& plan, const PipelineSet& pipelines,
               const LinkedEntry& linked, VkCommandBuffer commands)
      : context_(context),
        api_(context.api),
        plan_(plan),
        pipelines_(pipelines),
        linked_(linked),
        commands_(commands) {}

  void record(const fb::Step& step) {
    const std::span<const fb::Relocation> relocations = PlanView::relocations(*linked_.entry, step);
    switch (step.kind()) {
      case fb::StepKind::Dispatch:
        dispatch(step, relocations);
        break;
      case fb::StepKind::Copy:
        copy(relocations);
        break;
      case fb::StepKind::Fill:
        fill(step, relocations);
        break;
      case fb::StepKind::Skip:
        break;
      case fb::StepKind::LibraryGemm:
        break;  // Such entries are not for Vulkan (rule GemmTarget).
    }
  }

 private:
  void dispatch(const fb::Step& step, std::span<const fb::Relocation> relocations) {
    const KernelPipeline& kernel = pipelines_.at(step.kernel());
    const std::span<const std::byte> blob = plan_.params(step);
    std::array<std::byte, kMaxParamsBytes> params;
    std::memcpy(params.data(), blob.data(), blob.size());
    for (const fb::Relocation& relocation : relocations) {
      uint64_t address = 0;
      std::memcpy(&address, params.data() + relocation.position(),
                  sizeof address);  // what is to be added
      address += place_of(linked_, relocation).address;
      std::memcpy(params.data() + relocation.position(), &address, sizeof address);
    }
    if (kernel.pipeline != bound_) {
      api_.vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, kernel.pipeline);
      bound_ = kernel.pipeline;
    }
    if (!blob.empty()) {
      api_.vkCmdPushConstants(commands_, kernel.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                              static_cast<uint32_t>(blob.size()), params.data());
    }
    api_.vkCmdDispatch(commands_, step.grid_x(), step.grid_y(), step.grid_z());
  }

  void copy(std::span<const fb::Relocation> relocations) {
    record_copy(context_, commands_, place_of(linked_, relocations[0]),
                place_of(linked_, relocations[1]), relocations[0].length_bytes());
  }

  void fill(const fb::Step& step, std::span<const fb::Relocation> relocations) {
    if (relocations[0].length_bytes() == 0) return;
    const Place target = place_of(linked_, relocations[0]);
    api_.vkCmdFillBuffer(commands_, target.buffer, target.offset_bytes,
                         relocations[0].length_bytes(), step.fill_pattern());
  }

  const Context& context_;
  const DeviceApi& api_;
  const PlanView& plan_;
  const PipelineSet& pipelines_;
  const LinkedEntry& linked_;
  VkCommandBuffer commands_;
  VkPipeline bound_ = VK_NULL_HANDLE;
};

// Steps, barriers and times of an entry.
class EntryRecorder {
 public:
  EntryRecorder(const Context& context, const PlanView& plan, const PipelineSet& pipelines,
                const LinkedEntry& linked, const RecordOptions& options, VkCommandBuffer commands)
      : context_(context),
        linked_(linked),
        options_(options),
        commands_(commands),
        steps_(PlanView::steps(*linked.entry)),
        recorder_(context, plan, pipelines, linked, commands) {
    // Between kernels alone the transfer stage need not be waited for.
    kernels_only_ = std::all_of(steps_.begin(), steps_.end(), [](const fb::Step& step) {
      return step.kind() == fb::StepKind::Dispatch || step.kind() == fb::StepKind::Skip;
    });
  }

  void record() {
    if (timed()) {
      context_.api.vkCmdResetQueryPool(commands_, options_.step_times, 0, options_.step_count + 1);
      write_time(0);
    }
    std::optional<uint32_t> wave;  // of the steps so far that run
    for (uint32_t s = 0; s < options_.step_count;) {
      if (steps_[s].kind() != fb::StepKind::Skip) {
        if (!timed() && wave.value_or(steps_[s].wave()) != steps_[s].wave()) wave_barrier();
        wave = steps_[s].wave();
      }
      const fb::Region* region = PlanView::region_of(*linked_.entry, s);
      const uint32_t count =
          region != nullptr ? std::min(region->step_count(), options_.step_count - s) : 1;
      if (region != nullptr) {
        record_region(*region, count);
      } else {
        recorder_.record(steps_[s]);
      }
      for (const uint32_t end = s + count; s < end; ++s)
        if (timed()) write_time(s + 1);
    }
  }

 private:
  [[nodiscard]] bool timed() const { return options_.step_times != VK_NULL_HANDLE; }

  void write_time(uint32_t query) {
    context_.api.vkCmdWriteTimestamp(commands_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
                                     options_.step_times, query);
    record_barrier(context_, commands_);
  }

  void wave_barrier() { record_wave_barrier(context_, commands_, kernels_only_); }

  // The word may be read when a trip begins, or before each command of it: of these only the last
  // one writes it (V16.7).
  void record_region(const fb::Region& region, uint32_t step_count) {
    const uint32_t end = region.first_step() + step_count;
    const uint32_t trips = step_count < region.step_count() ? 1 : region.most_trips();
    for (uint32_t trip = 0; trip < trips; ++trip) {
      if (region.word().has_value()) {
        begin_trip(*region.word());
      } else if (trip > 0) {
        wave_barrier();
      }
      for (uint32_t s = region.first_step(); s < end; ++s) {
        if (s > region.first_step() && steps_[s].wave() != steps_[s - 1].wave()) wave_barrier();
        recorder_.record(steps_[s]);
      }
      if (region.word().has_value()) context_.api.vkCmdEndConditionalRenderingEXT(commands_);
    }
  }

  // Waits for all that stands before it.
  void begin_trip(uint32_t word) {
    // Behind a barrier for the stage of conditional rendering alone, NVIDIA's driver 580 reads what
    // the word was before.
    barrier(context_, commands_, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
            VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
            VK_ACCESS_CONDITIONAL_RENDERING_READ_BIT_EXT | kWorkAccesses);
    const Place& place = linked_.places[word];
    const VkConditionalRenderingBeginInfoEXT info = {
        .sType = VK_STRUCTURE_TYPE_CONDITIONAL_RENDERING_BEGIN_INFO_EXT,
        .buffer = place.buffer,
        .offset = place.offset_bytes};
    context_.api.vkCmdBeginConditionalRenderingEXT(commands_, &info);
  }

  const Context& context_;
  const LinkedEntry& linked_;
  const RecordOptions& options_;
  VkCommandBuffer commands_;
  const std::span<const fb::Step> steps_;
  StepRecorder recorder_;
  bool kernels_only_ = false;
};

}  // namespace

Status begin_commands(Context& context, VkCommandBuffer commands, VkCommandBufferUsageFlags usage) {
  const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                         .flags = usage};
  RLX_RETURN_IF_ERROR(
      context.check(context.api.vkBeginCommandBuffer(commands, &info), "vkBeginCommandBuffer"));
  barrier(context, commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
          kWorkStages, kWorkAccesses);
  return {};
}

void record_barrier(const Context& context, VkCommandBuffer commands) {
  barrier(context, commands, kWorkStages, kWorkWrites, kWorkStages, kWorkAccesses);
}

void record_host_barrier(const Context& context, VkCommandBuffer commands) {
  barrier(context, commands, kWorkStages, kWorkWrites, VK_PIPELINE_STAGE_HOST_BIT,
          VK_ACCESS_HOST_READ_BIT);
}

Status end_commands(Context& context, VkCommandBuffer commands) {
  return context.check(context.api.vkEndCommandBuffer(commands), "vkEndCommandBuffer");
}

void record_steps(const Context& context, const PlanView& plan, const PipelineSet& pipelines,
                  const LinkedEntry& linked, const RecordOptions& options,
                  VkCommandBuffer commands) {
  EntryRecorder(context, plan, pipelines, linked, options, commands).record();
}

}  // namespace rlx::vulkan
