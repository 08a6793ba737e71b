// SPDX-License-Identifier: Apache-2.0
// Loading: requirements, weights, pipelines, and the init entry that generates weights on the
// device.
#include "runtime/vulkan/vk_plan.h"

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/device/load.h"
#include "runtime/plan/plan_memory.h"
#include "runtime/vulkan/vk_preflight.h"
#include "runtime/vulkan/vk_record.h"
#include "runtime/vulkan/vk_session.h"
#include "runtime/vulkan/vk_upload.h"

namespace rlx::vulkan {

void append_arena_parts(const fb::Entry& entry, std::vector<SegmentPart>& parts) {
  for (const fb::Value* value : *entry.values()) {
    if (value->segment() != fb::Segment::Arena) continue;
    parts.push_back({.offset_bytes = value->offset_bytes(),
                     .size_bytes = value->size_bytes(),
                     .name = PlanView::text(value->name())});
  }
}

namespace {

// What a header cannot say.
Status check_regions(const Context& context, const PlanView& view) {
  for (const fb::Entry* entry : view.records(fb::TargetKind::Vulkan)) {
    if (entry->regions() == nullptr) continue;
    uint64_t commands = 0;
    for (const fb::Region* region : *entry->regions()) {
      commands += uint64_t{region->step_count()} * region->most_trips();
      const std::string name = quoted(PlanView::text(region->name()));
      if (region->word().has_value() && !context.physical.conditional) {
        return unsuitable(text_of("the device has no VK_EXT_conditional_rendering, which ", name,
                                  " needs; compile the model with --control unrolled"));
      }
      if (commands <= kMostRegionCommands) continue;
      return unsuitable(text_of("all trips of the loops up to ", name, " take ", commands,
                                " commands on Vulkan, at most ", kMostRegionCommands,
                                " are recorded; give it a smaller max_iterations"));
    }
  }
  return {};
}

}  // namespace

Status VulkanPlan::load(std::shared_ptr<Context> context, const PlanView& view,
                        const LoadOptions& options, std::shared_ptr<DevicePlan>& loaded) {
  RLX_RETURN_IF_ERROR(context->health());
  DeviceInfo now = context->physical.info;
  now.available_bytes = available_bytes(context->instance->api, context->physical);
  RLX_RETURN_IF_ERROR(check_load(view, now, check_target, options.memory_budget_bytes));
  RLX_RETURN_IF_ERROR(check_regions(*context, view));
  std::shared_ptr<VulkanPlan> made(new VulkanPlan(std::move(context), view, options.profile));
  RLX_RETURN_IF_ERROR(load_code_and_weights(
      view, [&] { return PipelineSet::create(made->context(), view, options, made->pipelines_); },
      [&] { return made->create_weights(); }));
  RLX_RETURN_IF_ERROR(explain_memory(made->run_init(), view.header()));
  loaded = std::move(made);
  return {};
}

VulkanPlan::~VulkanPlan() {
  pipelines_ = {};
  context_->sweep();
}

Status VulkanPlan::create_weights() {
  RLX_RETURN_IF_ERROR(Segment::create(*context_, "weights", view_.header().weights_bytes,
                                      parts_of(*view_.index().weights()), weights_));
  Uploader uploader(*context_);
  const ByteSource read = weights_source(view_);
  for (const ByteRange& range : stored_weight_ranges(view_)) {
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
