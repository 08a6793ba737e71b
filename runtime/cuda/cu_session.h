// SPDX-License-Identifier: Apache-2.0
// State, arena and io of one user of a plan, with one graph per program on one stream.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/cuda/cu_graph.h"
#include "runtime/cuda/cu_memory.h"
#include "runtime/cuda/cu_plan.h"
#include "runtime/device/session_base.h"

namespace rlx::cuda {

class CudaSession final : public SessionBase {
 public:
  static Status create(const std::shared_ptr<CudaPlan>& plan, const SessionOptions& options,
                       std::unique_ptr<DeviceSession>& session);
  ~CudaSession() override;
  CudaSession(const CudaSession&) = delete;
  CudaSession& operator=(const CudaSession&) = delete;

 private:
  struct ProgramState {
    LinkedEntry linked;
    std::optional<GemmSet> gemms;  // of a binding, from the first use on
    EntryGraph graph;
    const fb::Entry* unbound = nullptr;  // the plan's record that the graph was made of
    std::vector<uint32_t> stale_steps;   // which changed since the graph was made
    uint64_t launches = 0;               // since it was linked
  };
  // The graph of a record of free sizes that no program has.
  struct Spare {
    const fb::Entry* unbound = nullptr;
    EntryGraph graph;
  };

  CudaSession(const std::shared_ptr<CudaPlan>& plan, const SessionOptions& options)
      : SessionBase({.plan = plan,
                     .view = plan->view(),
                     .objects = plan->context().objects(),
                     .info = plan->context().info,
                     .profile = plan->profile(),
                     .max_bindings = options.max_bindings,
                     .queue_depth = options.queue_depth}),
        device_plan_(*plan),
        context_(plan->context()) {}

  Status allocate(const SessionOptions& options);
  Status allocate_index_errors(bool for_host);
  Status adopt_stream(void* stream);
  // The context is current.
  Status make_graph(const StepCode& code, const LinkedEntry& linked, EntryGraph& graph);
  // Its first run puts its steps on the stream, as any does while it has no graph.
  [[nodiscard]] bool begins_with_steps(uint32_t program) const;
  // Leaves a few of each record.
  void drop_surplus_spares();
  // Gives the program, a binding, one that can become its graph, if there is one. The context is
  // current.
  Status take_spare(uint32_t program);
  // Where values of a record lie whose inputs and outputs are at `io`.
  [[nodiscard]] LinkedEntry linked(const fb::Entry& record, std::span<const IoSlot> io) const;
  // The products of a binding described to the library. The context is current.
  Status prepare_products(uint32_t program);
  [[nodiscard]] StepCode code(uint32_t program) const;
  [[nodiscard]] CUdeviceptr io_address(const IoSlot& slot) const {
    return slot.bound_address.value_or(io_.address(slot.io.range.offset_bytes));
  }

  [[nodiscard]] Status health() const override { return context_.health(); }
  void link(uint32_t program) override;
  Status launch(uint32_t program, uint32_t slot) override;
  void use_time_of_run(uint32_t program) override;
  RunEnd wait_for_run(uint32_t slot, uint64_t timeout_nanoseconds,
                      std::chrono::nanoseconds expected) override;
  Status finish_run(double& microseconds) override;
  Status prepare_program(uint32_t program) override;
  Status write_io(const IoSlot& slot, std::span<const std::byte> bytes) override;
  Status read_io(const IoSlot& slot, std::span<std::byte> bytes) override;
  void move_io(uint32_t program, const IoSlot& slot) override;
  Status time_steps(uint32_t program, StepTimes& times) override;
  Status run_and_read(uint32_t program, uint32_t step, uint32_t value,
                      std::span<std::byte> bytes) override;
  Status fill_arena(std::byte pattern) override;
  Status fill_states() override;
  Status read_state_bytes(const StatePart& part, std::span<std::byte> bytes) override;
  Status write_state_bytes(const StatePart& part, std::span<const std::byte> bytes) override;
  Status copy_state_bytes(ByteRange range, const SessionBase& from) override;
  Status time_library(uint32_t program, uint32_t step, uint32_t most,
                      std::vector<GemmAlgorithm>& algorithms) override;

  // Launches a graph that is no run and waits for its end.
  Status run_once(const EntryGraph& graph, std::string_view what);
  Status synchronise(std::string_view what);

  // Members are destroyed from the last to the first.
  CudaPlan& device_plan_;
  Context& context_;
  Segment state_;
  Segment arena_;
  Segment io_;
  Segment device_index_errors_;     // where the host does not read them
  PinnedMemory host_index_errors_;  // where it does
  CUdeviceptr index_errors_ = 0;    // of either; 0 where the plan has none
  OwnedStream own_stream_;          // unless the caller gave one
  OwnedStream capture_;  // library products become nodes through it; nothing ever runs on it
  CUstream stream_ = nullptr;
  Staging staging_;
  OwnedEvent begun_;               // of the last run; null without profiling
  std::vector<OwnedEvent> ended_;  // by slot
  std::vector<ProgramState> programs_;
  std::vector<Spare> spares_;
};

}  // namespace rlx::cuda
