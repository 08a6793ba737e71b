// SPDX-License-Identifier: Apache-2.0
// State, arena and io of one user of a plan, with one graph per entry on one stream.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/cuda/cu_graph.h"
#include "runtime/cuda/cu_memory.h"
#include "runtime/cuda/cu_plan.h"

namespace rlx::cuda {

class CudaSession final : public DeviceSession {
 public:
  static Status create(std::shared_ptr<CudaPlan> plan, const SessionOptions& options,
                       std::unique_ptr<DeviceSession>& session);
  ~CudaSession() override;
  CudaSession(const CudaSession&) = delete;
  CudaSession& operator=(const CudaSession&) = delete;

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
  Status time_algorithms(uint32_t entry, uint32_t step, uint32_t most,
                         std::vector<GemmAlgorithm>& algorithms) override;

 private:
  struct IoSlot {
    IoRange io;
    std::optional<CUdeviceptr> bound;  // the caller's memory
  };

  struct EntryState {
    LinkedEntry linked;
    std::vector<IoSlot> io;
    EntryGraph graph;
    std::vector<uint32_t> stale_steps;  // whose addresses changed since the graph was made
    std::chrono::nanoseconds last_duration =
        std::chrono::nanoseconds(0);  // from submit to the end of wait
  };

  explicit CudaSession(std::shared_ptr<CudaPlan> plan)
      : plan_(std::move(plan)),
        context_(plan_->context()),
        counted_(*context_.objects, ObjectKind::Session),
        view_(plan_->view()) {}

  Status allocate(const SessionOptions& options);
  Status allocate_index_errors(bool for_host);
  Status adopt_stream(void* stream);
  void link(uint32_t entry);
  [[nodiscard]] CUdeviceptr io_address(const IoSlot& slot) const {
    return slot.bound.value_or(io_.address(slot.io.range.offset_bytes));
  }
  IoSlot& io_slot(EntryState& state, uint32_t value);

  Status require_idle(std::string_view what) const;
  Status prepare_graph(EntryState& state);
  // `expected`: until the end of the run; overslept: it had ended before this thread looked.
  Status wait_for_end(uint64_t timeout_nanoseconds, std::chrono::nanoseconds expected,
                      bool& overslept);
  Status take_run_time();
  // Launches a graph that is no run and waits for its end.
  Status run_once(const EntryGraph& graph, std::string_view what);
  Status synchronise(std::string_view what);

  // Members are destroyed from the last to the first.
  std::shared_ptr<CudaPlan> plan_;
  Context& context_;
  CountedObject counted_;
  const PlanView& view_;
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
  OwnedEvent begun_;  // null without profiling
  OwnedEvent ended_;
  std::vector<EntryState> entries_;
  std::optional<uint32_t> running_;  // entry of the submitted run
  double last_run_microseconds_ = 0;
  std::chrono::steady_clock::time_point submitted_;
};

}  // namespace rlx::cuda
