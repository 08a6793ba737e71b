// SPDX-License-Identifier: Apache-2.0
// Loading: requirements, weights, pipelines, and the init entry that generates weights on the
// device.
#include "runtime/vulkan/vk_plan.h"

#include <algorithm>
#include <array>
#include <future>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/plan/plan_memory.h"
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
    const fb::Entry& record = view.entry(entry, fb::TargetKind::Vulkan);
    const std::span<const fb::Step> steps = PlanView::steps(record);
    for (uint32_t step = 0; step < steps.size(); ++step) {
      if (steps[step].kind() != fb::StepKind::LibraryGemm) continue;
      return unsuitable(
          text_of("plan ", quoted(view.name()), ": ", view.describe_step(record, step),
                  " calls a CUDA library, which Vulkan has not; compile it with --target vulkan"));
    }
  }
  return {};
}

Status check_memory(const Context& context, const PlanView& view, const LoadOptions& options) {
  const PlanHeader& header = view.header();
  const uint64_t needed = segment_bytes(header);
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
  // No thread to be had: it is done when asked for.
  constexpr std::launch kPolicy = std::launch::async | std::launch::deferred;
  std::future<Status> pipelines = std::async(kPolicy, [&made, &view, &options] {
    return PipelineSet::create(made->context(), view, options, made->pipelines_);
  });
  const Status weights = made->create_weights();
  RLX_RETURN_IF_ERROR(pipelines.get());
  RLX_RETURN_IF_ERROR(explain_memory(weights, view.header()));
  RLX_RETURN_IF_ERROR(explain_memory(made->run_init(), view.header()));
  loaded = std::move(made);
  return {};
}

VulkanPlan::~VulkanPlan() {
  pipelines_ = {};
  context_->sweep();
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
  for (const ByteRange& range : inline_weight_ranges(view_)) {
    RLX_RETURN_IF_ERROR(uploader.upload(weights_, range.offset_bytes, range.size_bytes, read));
  }
  return uploader.finish();
}

Status VulkanPlan::run_init() {
  const fb::Entry* init = view_.init(fb::TargetKind::Vulkan);
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
  CommandPool pool;
  OwnedFence fence;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  RLX_RETURN_IF_ERROR(CommandPool::create(*context_, pool));
  RLX_RETURN_IF_ERROR(create_fence(*context_, fence));
  RLX_RETURN_IF_ERROR(pool.allocate(*context_, commands));
  RLX_RETURN_IF_ERROR(begin_commands(*context_, commands));
  record_steps(*context_, view_, pipelines_, linked, {.step_count = init->steps()->size()},
               commands);
  RLX_RETURN_IF_ERROR(end_commands(*context_, commands));
  RLX_RETURN_IF_ERROR(context_->submit(commands, fence.get()));
  RLX_RETURN_IF_ERROR(context_->wait(fence.get(), UINT64_MAX, "the plan's init entry"));
  return context_->health();
}

Status VulkanPlan::create_session(const SessionOptions& options,
                                  std::unique_ptr<DeviceSession>& session) {
  if (options.stream != nullptr)
    return invalid_argument("a CUDA stream was given to a session on a Vulkan device");
  return explain_memory(VulkanSession::create(shared_from_this(), options, session),
                        view_.header());
}

}  // namespace rlx::vulkan
