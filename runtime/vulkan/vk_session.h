// SPDX-License-Identifier: Apache-2.0
// State, arena and io of one user of a plan, with one recorded command buffer per program.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/device/session_base.h"
#include "runtime/vulkan/vk_plan.h"
#include "runtime/vulkan/vk_record.h"

namespace rlx::vulkan {

class VulkanSession final : public SessionBase {
 public:
  static Status create(const std::shared_ptr<VulkanPlan>& plan, const SessionOptions& options,
                       std::unique_ptr<DeviceSession>& session);
  ~VulkanSession() override;
  VulkanSession(const VulkanSession&) = delete;
  VulkanSession& operator=(const VulkanSession&) = delete;

 private:
  struct ProgramState {
    LinkedEntry linked;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    bool is_new = true;  // no run was waited for since it was linked
  };

  VulkanSession(const std::shared_ptr<VulkanPlan>& plan, const SessionOptions& options)
      : SessionBase({.plan = plan,
                     .view = plan->view(),
                     .objects = plan->context().objects(),
                     .info = plan->context().physical.info,
                     .profile = plan->profile(),
                     .max_bindings = options.max_bindings,
                     .queue_depth = options.queue_depth}),
        device_plan_(*plan),
        context_(plan->context()) {}

  Status allocate(const SessionOptions& options);
  Status allocate_io();
  Status allocate_index_errors(bool for_host);
  [[nodiscard]] Place io_place(const IoSlot& slot) const;

  [[nodiscard]] Status health() const override { return context_.health(); }
  void link(uint32_t program) override;
  Status launch(uint32_t program, uint32_t slot) override;
  RunEnd wait_for_run(uint32_t slot, uint64_t timeout_nanoseconds,
                      std::chrono::nanoseconds expected) override;
  Status finish_run(double& microseconds) override;
  Status prepare_program(uint32_t program) override;
  void use_time_of_run(uint32_t program) override;
  Status write_io(const IoSlot& slot, std::span<const std::byte> bytes) override;
  Status read_io(const IoSlot& slot, std::span<std::byte> bytes) override;
  [[nodiscard]] Status check_bindable(const fb::Entry& record, uint32_t value) const override;
  void move_io(uint32_t program, const IoSlot& slot) override;
  Status time_steps(uint32_t program, StepTimes& times) override;
  Status run_and_read(uint32_t program, uint32_t step, uint32_t value,
                      std::span<std::byte> bytes) override;
  Status fill_arena(std::byte pattern) override;
  Status fill_states() override;
  Status read_state_bytes(const StatePart& part, std::span<std::byte> bytes) override;
  Status write_state_bytes(const StatePart& part, std::span<const std::byte> bytes) override;
  Status copy_state_bytes(ByteRange range, const SessionBase& from) override;

  Status record_program(uint32_t program, VkCommandBuffer commands);
  // Unless there is one.
  Status make_spare(uint32_t program);
  void record_inputs(uint32_t program, VkCommandBuffer commands) const;
  void record_outputs(uint32_t program, VkCommandBuffer commands) const;
  // Begins, records by `body`, submits and waits; for everything that is not a run.
  Status run_once(std::string_view what, const std::function<Status(VkCommandBuffer)>& body);

  // Members are destroyed from the last to the first.
  VulkanPlan& device_plan_;
  Context& context_;
  Segment state_;
  Segment arena_;
  Buffer index_errors_;       // null where the plan has none
  Buffer io_;                 // on the device
  Buffer upload_;             // inputs on their way, where the host does not reach io_
  Buffer download_;           // outputs on their way, where the host does not read io_ fast
  OwnedQueryPool run_times_;  // begin and end of a run; null without profiling
  CommandPool pool_;
  std::vector<OwnedFence> run_fences_;  // by slot
  OwnedFence once_fence_;
  VkCommandBuffer once_ = VK_NULL_HANDLE;
  // For the next binding in a place of its own: it was recorded once, so it has its memory, for
  // which a driver takes as long again as for recording.
  VkCommandBuffer spare_ = VK_NULL_HANDLE;
  std::vector<ProgramState> programs_;
};

}  // namespace rlx::vulkan
