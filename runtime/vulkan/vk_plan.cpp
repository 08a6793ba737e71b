// SPDX-License-Identifier: Apache-2.0
// Loading: requirements, weights, pipelines, and the init entry that generates weights on the
// device.
#include "runtime/vulkan/vk_plan.h"

#include <algorithm>
#include <array>
#include <future>

#include "runtime/text.h"
#include "runtime/vulkan/vk_errors.h"
#include "runtime/vulkan/vk_features.h"
#include "runtime/vulkan/vk_record.h"
#include "runtime/vulkan/vk_session.h"
#include "runtime/vulkan/vk_upload.h"

namespace rlx::vulkan {
namespace {

std::string version_text(uint32_t version) {
  return text_of(VK_API_VERSION_MAJOR(version), ".", VK_API_VERSION_MINOR(version));
}

std::string device_text(const Context& context) {
  return text_of("device ", context.physical.info.id, " ", quoted(context.physical.info.name));
}

void append_shortfall(std::string& faults, std::string_view what, uint64_t needed, uint64_t has) {
  if (needed <= has) return;
  faults += text_of("; ", what, ": the plan needs ", needed, ", this device has ", has);
}

Status check_requirements(const Context& context, const PlanView& view) {
  const PlanVulkanTarget& needs = view.header().vulkan;
  const DeviceInfo& has = context.physical.info;
  if (needs.present == 0) {
    return unsuitable(text_of("plan ", quoted(view.name()), " holds no Vulkan code, so ",
                              device_text(context),
                              " cannot run it; compile it with --target vulkan"));
  }
  std::string faults;
  if (needs.api_version > has.api_version) {
    faults += text_of("; Vulkan version: the plan needs ", version_text(needs.api_version),
                      ", this device has ", version_text(has.api_version));
  }
  if (const uint64_t missing = needs.features & ~has.features; missing != 0) {
    faults +=
        text_of("; features that the plan needs and this device lacks: ", feature_names(missing));
  }
  append_shortfall(faults, "workgroup invocations", needs.max_workgroup_invocations,
                   has.max_workgroup_invocations);
  append_shortfall(faults, "bytes of shared memory per workgroup", needs.max_shared_bytes,
                   has.max_shared_bytes);
  append_shortfall(faults, "bytes of push constants", needs.max_params_bytes, has.max_params_bytes);
  constexpr std::array<std::string_view, 3> kAxes = {"workgroups along x", "workgroups along y",
                                                     "workgroups along z"};
  for (size_t axis = 0; axis < kAxes.size(); ++axis) {
    append_shortfall(faults, kAxes[axis], needs.max_grid[axis], has.max_grid[axis]);
  }
  if (faults.empty()) return {};
  return unsuitable(
      text_of("plan ", quoted(view.name()), " does not fit ", device_text(context), faults));
}

Status check_step_kinds(const PlanView& view) {
  for (uint32_t entry = 0; entry < view.entry_count(); ++entry) {
    const std::span<const fb::Step> steps = PlanView::steps(view.entry(entry));
    for (uint32_t step = 0; step < steps.size(); ++step) {
      if (steps[step].kind() != fb::StepKind::LibraryGemm) continue;
      return unsuitable(
          text_of("plan ", quoted(view.name()), ": ", view.describe_step(entry, step),
                  " calls a CUDA library, which Vulkan has not; compile it with --target vulkan"));
    }
  }
  return {};
}

struct SegmentNeed {
  std::string_view name;
  uint64_t bytes;
};

std::string largest_segments_text(const PlanHeader& header) {
  std::array<SegmentNeed, 4> needs = {{{"weights", header.weights_bytes},
                                       {"state", header.state_bytes},
                                       {"arena", header.arena_bytes},
                                       {"io", header.io_bytes}}};
  std::stable_sort(needs.begin(), needs.end(),
                   [](const SegmentNeed& a, const SegmentNeed& b) { return a.bytes > b.bytes; });
  return text_of("largest segments: ", needs[0].name, " ", bytes_text(needs[0].bytes), ", ",
                 needs[1].name, " ", bytes_text(needs[1].bytes), ", ", needs[2].name, " ",
                 bytes_text(needs[2].bytes));
}

Status check_memory(const Context& context, const PlanView& view, const LoadOptions& options) {
  const PlanHeader& header = view.header();
  const uint64_t needed =
      header.weights_bytes + header.state_bytes + header.arena_bytes + header.io_bytes;
  if (options.memory_budget_bytes != 0 && needed > options.memory_budget_bytes) {
    return out_of_device_memory(text_of("plan ", quoted(view.name()), " needs ", bytes_text(needed),
                                        " on ", device_text(context), ", the budget is ",
                                        bytes_text(options.memory_budget_bytes), "; ",
                                        largest_segments_text(header)));
  }
  const uint64_t available = available_bytes(context.instance->api, context.physical);
  const uint64_t limit = available != 0 ? available : context.physical.info.memory_bytes;
  // A software device has the host's memory, of which its one heap says nothing: there the
  // allocation itself decides.
  if (needed > limit && !context.physical.is_cpu) {
    return out_of_device_memory(text_of("plan ", quoted(view.name()), " needs ", bytes_text(needed),
                                        ", ", device_text(context), " has ", bytes_text(limit),
                                        available != 0 ? " free; " : "; ",
                                        largest_segments_text(header)));
  }
  return {};
}

// A refused allocation, told with what the plan needs altogether.
Status explain(Status status, const PlanHeader& header) {
  if (status.code() != RLX_OUT_OF_DEVICE_MEMORY) return status;
  return out_of_device_memory(text_of(status.message(), "; ", largest_segments_text(header)));
}

// The ranges of inline weights, neighbours joined so that reads are long.
std::vector<SegmentPart> inline_ranges(const PlanView& view) {
  // Padding between two weights is in the section too: reading it is cheaper than starting anew.
  constexpr uint64_t kJoinGapBytes = 64 << 10;
  std::vector<SegmentPart> ranges;
  for (const fb::Weight* weight : *view.index().weights()) {
    if (weight->kind() != fb::WeightKind::Inline || weight->size_bytes() == 0) continue;
    ranges.push_back({.offset_bytes = weight->offset_bytes(), .size_bytes = weight->size_bytes()});
  }
  std::sort(ranges.begin(), ranges.end(), [](const SegmentPart& a, const SegmentPart& b) {
    return a.offset_bytes < b.offset_bytes;
  });
  std::vector<SegmentPart> joined;
  for (const SegmentPart& range : ranges) {
    const uint64_t end = range.offset_bytes + range.size_bytes;
    if (joined.empty() || range.offset_bytes > joined.back().offset_bytes +
                                                   joined.back().size_bytes + kJoinGapBytes) {
      joined.push_back(range);
    } else {
      SegmentPart& last = joined.back();
      last.size_bytes = std::max(last.offset_bytes + last.size_bytes, end) - last.offset_bytes;
    }
  }
  return joined;
}

}  // namespace

Status check_device(const Context& context, const PlanView& view, const LoadOptions& options) {
  RLX_RETURN_IF_ERROR(check_requirements(context, view));
  RLX_RETURN_IF_ERROR(check_step_kinds(view));
  return check_memory(context, view, options);
}

void append_arena_parts(const fb::Entry& entry, std::vector<SegmentPart>& parts) {
  for (const fb::Value* value : *entry.values()) {
    if (value->segment() != fb::Segment::Arena) continue;
    parts.push_back({.offset_bytes = value->offset_bytes(),
                     .size_bytes = value->size_bytes(),
                     .name = PlanView::text(value->name())});
  }
}

Status VulkanPlan::load(std::shared_ptr<Context> context, const PlanView& view,
                        const LoadOptions& options, std::shared_ptr<DevicePlan>& loaded) {
  RLX_RETURN_IF_ERROR(context->health());
  RLX_RETURN_IF_ERROR(check_device(*context, view, options));
  std::shared_ptr<VulkanPlan> made(new VulkanPlan(std::move(context), view, options.profile));
  // The driver compiles while the weights come from the disk.
  std::future<Status> pipelines = std::async(std::launch::async, [&made, &view, &options] {
    return PipelineSet::create(made->context(), view, options, made->pipelines_);
  });
  const Status weights = made->create_weights();
  RLX_RETURN_IF_ERROR(pipelines.get());
  RLX_RETURN_IF_ERROR(explain(weights, view.header()));
  RLX_RETURN_IF_ERROR(explain(made->run_init(), view.header()));
  loaded = std::move(made);
  return {};
}

Status VulkanPlan::create_weights() {
  std::vector<SegmentPart> parts;
  for (const fb::Weight* weight : *view_.index().weights()) {
    parts.push_back({.offset_bytes = weight->offset_bytes(),
                     .size_bytes = weight->size_bytes(),
                     .name = PlanView::text(weight->name())});
  }
  RLX_RETURN_IF_ERROR(Segment::create(*context_, "weights", view_.header().weights_bytes,
                                      std::move(parts), weights_));
  Uploader uploader(*context_);
  const Uploader::Source read = [this](uint64_t offset_bytes, std::span<std::byte> destination) {
    return view_.read_weights(offset_bytes, destination);
  };
  for (const SegmentPart& range : inline_ranges(view_)) {
    RLX_RETURN_IF_ERROR(uploader.upload(weights_, range.offset_bytes, range.size_bytes, read));
  }
  return uploader.finish();
}

Status VulkanPlan::run_init() {
  const fb::Entry* init = view_.init();
  if (init == nullptr || init->steps()->size() == 0) return {};
  std::vector<SegmentPart> parts;
  append_arena_parts(*init, parts);
  Segment arena;
  RLX_RETURN_IF_ERROR(Segment::create(*context_, "the arena of init", init->arena_bytes(),
                                      std::move(parts), arena));
  LinkedEntry linked{.entry = init};
  for (const fb::Value* value : *init->values()) {
    const Segment& segment = value->segment() == fb::Segment::Weights ? weights_ : arena;
    linked.places.push_back(segment.place(value->offset_bytes()));
  }
  OwnedCommandPool pool;
  OwnedFence fence;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  RLX_RETURN_IF_ERROR(context_->create_command_pool(pool));
  RLX_RETURN_IF_ERROR(context_->create_fence(fence));
  RLX_RETURN_IF_ERROR(context_->allocate_command_buffer(pool.get(), commands));
  RLX_RETURN_IF_ERROR(begin_commands(*context_, commands));
  record_steps(*context_, view_, pipelines_, linked, {.step_count = init->steps()->size()},
               commands);
  RLX_RETURN_IF_ERROR(end_commands(*context_, commands));
  RLX_RETURN_IF_ERROR(context_->submit(commands, fence.get()));
  RLX_RETURN_IF_ERROR(context_->wait(fence.get(), UINT64_MAX, "the plan's init entry"));
  return context_->health();
}

Status VulkanPlan::create_session(std::unique_ptr<DeviceSession>& session) {
  return explain(VulkanSession::create(shared_from_this(), session), view_.header());
}

}  // namespace rlx::vulkan
