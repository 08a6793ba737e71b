// SPDX-License-Identifier: Apache-2.0
// State, arena and io of one user of a plan, with one recorded command buffer per entry.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/vulkan/vk_plan.h"
#include "runtime/vulkan/vk_record.h"

namespace rlx::vulkan {

class VulkanSession final : public DeviceSession {
 public:
  static Status create(std::shared_ptr<VulkanPlan> plan, const SessionOptions& options,
                       std::unique_ptr<DeviceSession>& session);
  ~VulkanSession() override;
  VulkanSession(const VulkanSession&) = delete;
  VulkanSession& operator=(const VulkanSession&) = delete;

  Status prepare(uint32_t entry) override;
  Status write(uint32_t entry, uint32_t value, std::span<const std::byte> bytes) override;
  Status read(uint32_t entry, uint32_t value, std::span<std::byte> bytes) override;
  Status bind(uint32_t entry, uint32_t value, ExternalBuffer buffer) override;
  Status submit(uint32_t entry) override;
  Status wait(uint64_t timeout_nanoseconds) override;
  Status profile(uint32_t entry, std::vector<StepTime>& times) override;
  double last_run_microseconds() const override { return last_run_microseconds_; }
  Status reset_states() override;
  Status read_after(uint32_t entry, uint32_t step, uint32_t value,
                    std::span<std::byte> bytes) override;
  Status poison_arena(std::byte pattern) override;
  [[nodiscard]] std::span<uint32_t> index_errors() override;

 private:
  // An input or output in the io segment. Entries share the segment: their values lie one after
  // another from its start.
  struct IoSlot {
    uint32_t value = 0;
    uint64_t offset_bytes = 0;
    uint64_t size_bytes = 0;
    bool is_input = false;
    std::optional<uint64_t> bound_address;  // the caller's memory
  };

  struct EntryState {
    LinkedEntry linked;
    std::vector<IoSlot> io;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    bool recorded = false;
    std::chrono::nanoseconds last_duration =
        std::chrono::nanoseconds(0);  // from submit to the end of wait
  };

  explicit VulkanSession(std::shared_ptr<VulkanPlan> plan)
      : plan_(std::move(plan)),
        context_(plan_->context()),
        counted_(context_.objects(), ObjectKind::Session),
        view_(plan_->view()) {}

  Status allocate(const SessionOptions& options);
  Status allocate_io();
  Status allocate_index_errors(bool for_host);
  void link(uint32_t entry);
  [[nodiscard]] Place io_place(const IoSlot& slot) const;
  IoSlot& io_slot(EntryState& state, uint32_t value);

  Status record_entry(EntryState& state);
  void record_inputs(const EntryState& state, VkCommandBuffer commands);
  void record_outputs(const EntryState& state, VkCommandBuffer commands);
  void record_state_resets(VkCommandBuffer commands);
  Status upload_ones();
  // Begins, records by `body`, submits and waits; for everything that is not a run.
  Status run_once(std::string_view what, const std::function<void(VkCommandBuffer)>& body);
  Status require_idle(std::string_view what) const;
  Status take_run_time();

  // Members are destroyed from the last to the first.
  std::shared_ptr<VulkanPlan> plan_;
  Context& context_;
  CountedObject counted_;
  const PlanView& view_;
  Segment state_;
  Segment arena_;
  Buffer index_errors_;  // null where the plan has none
  bool index_errors_for_host_ = false;
  Buffer io_;                 // on the device
  Buffer upload_;             // inputs on their way, where the host does not reach io_
  Buffer download_;           // outputs on their way, where the host does not read io_ fast
  OwnedQueryPool run_times_;  // begin and end of a run; null without profiling
  CommandPool pool_;
  OwnedFence fence_;
  VkCommandBuffer once_ = VK_NULL_HANDLE;
  std::vector<EntryState> entries_;
  std::optional<uint32_t> running_;  // entry of the submitted run
  double last_run_microseconds_ = 0;
  std::chrono::steady_clock::time_point submitted_;
};

}  // namespace rlx::vulkan
