// SPDX-License-Identifier: Apache-2.0
// Runs a plan's kernels on lavapipe, step by step, with every value in guarded memory of its own: a
// step may touch the values that it names, in the way in which it names them, and write the ranges
// that it names, and nothing else. On lavapipe an address is a host pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/plan_view.h"
#include "runtime/vulkan/vk_context.h"
#include "tests/support/guard_memory.h"

namespace rlx::test {

// Lavapipe, its pipelines by code, and the guarded memory.
class GuardedDevice {
 public:
  // RLX_NO_DEVICE where there is no software device.
  static Status open(std::unique_ptr<GuardedDevice>& device);

  [[nodiscard]] const DeviceInfo& info() const { return context_->physical.info; }
  [[nodiscard]] GuardMemory& memory() { return memory_; }

  // Runs one dispatch and waits. `params` with the pointers in place.
  Status dispatch(const PlanView& plan, const fb::Step& step, std::span<const std::byte> params);

 private:
  struct Pipeline {
    vulkan::OwnedPipelineLayout layout;
    vulkan::OwnedPipeline pipeline;
  };

  GuardedDevice() = default;
  Status pipeline_of(const PlanView& plan, uint32_t kernel, const Pipeline*& pipeline);
  Status create(const fb::Kernel& kernel, const fb::Variant& variant,
                std::span<const std::byte> code, Pipeline& made);

  std::shared_ptr<vulkan::Context> context_;
  vulkan::CommandPool pool_;
  vulkan::OwnedFence fence_;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  std::map<std::string, Pipeline> pipelines_;
  GuardMemory memory_;
};

struct GuardOptions {
  GuardSide side = GuardSide::End;
  std::byte fill{0xA5};  // what nobody wrote holds
  // More is not run.
  uint64_t max_bytes = uint64_t{1} << 28;
  uint64_t max_invocations = uint64_t{1} << 26;  // of a step
};

struct GuardedRun {
  std::string skipped;              // why the plan was not run; empty: it was
  std::vector<std::string> faults;  // sentences that name step and value
  // Per entry, in order: its outputs.
  std::vector<std::vector<std::vector<std::byte>>> outputs;
};

// Runs the plan's init and then every entry once, states kept from one to the next. `inputs`: per
// entry and input its bytes; entries and inputs that it lacks are random.
GuardedRun run_guarded(GuardedDevice& device, const PlanView& plan, const GuardOptions& options,
                       const std::vector<std::vector<std::vector<std::byte>>>& inputs = {});

// Random numbers for an input: small integers as such, floats between -2 and 2.
std::vector<std::byte> random_input(const fb::Value& value, uint64_t seed);

}  // namespace rlx::test
