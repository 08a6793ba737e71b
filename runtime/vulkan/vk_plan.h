// SPDX-License-Identifier: Apache-2.0
// A plan on a Vulkan device: weights and pipelines, shared by its sessions.
#pragma once

#include <memory>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/plan/plan_view.h"
#include "runtime/vulkan/vk_memory.h"
#include "runtime/vulkan/vk_pipelines.h"

namespace rlx::vulkan {

class VulkanPlan final : public DevicePlan, public std::enable_shared_from_this<VulkanPlan> {
 public:
  // Checks what the plan needs against the device and the budget before anything is allocated.
  static Status load(std::shared_ptr<Context> context, const PlanView& view,
                     const LoadOptions& options, std::shared_ptr<DevicePlan>& loaded);
  ~VulkanPlan() override;
  VulkanPlan(const VulkanPlan&) = delete;
  VulkanPlan& operator=(const VulkanPlan&) = delete;

  Status create_session(const SessionOptions& options,
                        std::unique_ptr<DeviceSession>& session) override;

  [[nodiscard]] Context& context() const { return *context_; }
  [[nodiscard]] const PlanView& view() const { return view_; }
  [[nodiscard]] const Segment& weights() const { return weights_; }
  [[nodiscard]] const PipelineSet& pipelines() const { return pipelines_; }
  [[nodiscard]] bool profile() const { return profile_; }

  [[nodiscard]] fb::TargetKind target() const override { return fb::TargetKind::Vulkan; }

 private:
  VulkanPlan(std::shared_ptr<Context> context, const PlanView& view, bool profile)
      : context_(std::move(context)),
        counted_(context_->objects(), ObjectKind::Plan),
        view_(view),
        profile_(profile) {}

  Status create_weights();
  Status run_init();

  std::shared_ptr<Context> context_;
  CountedObject counted_;
  const PlanView& view_;
  bool profile_ = false;
  Segment weights_;
  PipelineSet pipelines_;
};

// The parts of an entry's arena that must not be cut.
void append_arena_parts(const fb::Entry& entry, std::vector<SegmentPart>& parts);

}  // namespace rlx::vulkan
