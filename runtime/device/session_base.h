// SPDX-License-Identifier: Apache-2.0
// What the sessions of all devices share: where inputs and outputs lie, which entry runs at which
// binding, since when and how long runs of it take, how states begin, and what is asked before
// every call. A device adds its memory and its way to run a program.
//
// A program is an entry at one binding of the plan's free symbols. The first ones, numbered as the
// entries are, have every free symbol at its maximum; they are all there is without free symbols.
// Programs of one entry share the memory of its inputs and outputs, whichever of its records they
// run.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/plan/plan_memory.h"
#include "runtime/plan/plan_view.h"

namespace rlx {

class SessionBase : public DeviceSession {
 public:
  bool use_binding(uint32_t entry, std::span<const uint64_t> symbols) final;
  Status add_binding(uint32_t entry, std::span<const uint64_t> symbols,
                     std::shared_ptr<const PlanView> bound) final;
  [[nodiscard]] const PlanView& bound_view(uint32_t entry) const final {
    return view_of(present_[entry]);
  }
  [[nodiscard]] const fb::Entry& bound_record(uint32_t entry) const final {
    return record(present_[entry]);
  }
  Status prepare(uint32_t entry) final;
  Status write(uint32_t entry, uint32_t value, std::span<const std::byte> bytes) final;
  Status read(uint32_t entry, uint32_t value, std::span<std::byte> bytes) final;
  Status bind(uint32_t entry, uint32_t value, ExternalBuffer buffer) final;
  Status submit(uint32_t entry) final;
  Status wait(uint64_t timeout_nanoseconds) final;
  Status profile(uint32_t entry, std::vector<StepTime>& times) final;
  [[nodiscard]] double last_run_microseconds() const final { return last_run_microseconds_; }
  Status reset_states() final;
  Status read_state(const StatePart& part, std::span<std::byte> bytes) final;
  Status write_state(const StatePart& part, std::span<const std::byte> bytes) final;
  Status copy_state(uint32_t state, const DeviceSession& from) final;
  Status bind_state(uint32_t state, ExternalBuffer buffer) final;
  Status read_after(uint32_t entry, uint32_t step, uint32_t value,
                    std::span<std::byte> bytes) final;
  Status poison_arena(std::byte pattern) final;
  [[nodiscard]] std::span<uint32_t> index_errors() final { return index_errors_; }
  Status time_algorithms(uint32_t entry, uint32_t step, uint32_t most,
                         std::vector<GemmAlgorithm>& algorithms) final;

 protected:
  // An input or output of an entry.
  struct IoSlot {
    IoRange io;
    std::optional<uint64_t> bound_address;  // the caller's memory
  };

  struct RunEnd {
    Status status;
    bool is_over = true;  // false: the timeout came first, or nobody could look
    // It had ended before anybody looked: when is not known.
    bool overslept = false;
  };

  struct StepTimes {
    std::vector<double> microseconds;  // by step
    double all_microseconds = 0;
  };

  // `plan` is what `view`, `objects` and `info` belong to; it lives as long as the session.
  struct Origin {
    std::shared_ptr<DevicePlan> plan;
    const PlanView& view;
    ObjectCounts& objects;
    const DeviceInfo& info;
    bool profile = false;
    uint32_t max_bindings = kDefaultMaxBindings;
    uint32_t queue_depth = 1;
  };
  explicit SessionBase(Origin origin);

  [[nodiscard]] const PlanView& view() const { return view_; }
  [[nodiscard]] bool profiles() const { return profile_; }
  [[nodiscard]] uint32_t entry_count() const { return static_cast<uint32_t>(present_.size()); }
  // Its entry's record for this device's target.
  [[nodiscard]] const fb::Entry& record(uint32_t program) const {
    return *programs_[program].record;
  }
  // What it is a binding of: the plan's own record, or its record itself. Outlives the program.
  [[nodiscard]] const fb::Entry& unbound_record(uint32_t program) const {
    return *programs_[program].unbound;
  }
  // The plan that the record is in: view(), or what a binding made of it.
  [[nodiscard]] const PlanView& view_of(uint32_t program) const {
    return programs_[program].bound != nullptr ? *programs_[program].bound : view_;
  }
  // Inputs, then outputs: where they lie, and their bytes.
  [[nodiscard]] std::span<const IoSlot> io(uint32_t program) const { return programs_[program].io; }
  // Where a value in the state segment lies in memory of the caller; none: in the session's own.
  [[nodiscard]] std::optional<uint64_t> bound_address(const fb::Value& value) const;
  // Where the part's first piece begins in the state segment.
  [[nodiscard]] uint64_t segment_offset(const StatePart& part) const {
    return view_.index().states()->Get(part.state)->offset_bytes() + part.begin_bytes;
  }
  // A run is under way, or was when it was looked at last.
  [[nodiscard]] bool is_running() const { return submit_count_ > end_count_; }
  // Runs take turns in the slots of the queue.
  [[nodiscard]] uint32_t queue_depth() const { return static_cast<uint32_t>(queue_.size()); }
  // Of the run that was submitted last; there was one.
  [[nodiscard]] uint32_t last_slot() const { return slot_of(submit_count_ - 1); }

  [[nodiscard]] std::span<const std::optional<uint64_t>> bound_states() const {
    return bound_states_;
  }

  // From now on the host reads the words of index errors in these bytes, which become zero.
  void show_index_errors(std::span<std::byte> words);

 private:
  // What a device does, once the checks have passed: no run is under way but in wait_for_run(),
  // launch() and the prepare_program() before it, of a program that none of them runs.

  // Why nothing can run any more; allocates nothing where something can.
  [[nodiscard]] virtual Status health() const = 0;
  // Gives every value of a program its place: of a new one, numbered behind the last, of one that
  // takes the place of another, which nobody uses any more, or of one whose states have moved.
  virtual void link(uint32_t program) = 0;
  // Makes a program ready for launch(); again after move_io() and link().
  virtual Status prepare_program(uint32_t program) = 0;
  // Behind the runs that are under way, in another slot than theirs.
  virtual Status launch(uint32_t program, uint32_t slot) = 0;
  // The host is about to wait for a run of the program, and in no hurry: time for what makes later
  // bindings faster.
  virtual void use_time_of_run(uint32_t) {}
  // `expected`: until the end, as far as is known.
  virtual RunEnd wait_for_run(uint32_t slot, uint64_t timeout_nanoseconds,
                              std::chrono::nanoseconds expected) = 0;
  // After a run without errors, the last that was under way. Its time on the device, where the plan
  // was loaded for profiling.
  virtual Status finish_run(double& microseconds) = 0;

  virtual Status write_io(const IoSlot& slot, std::span<const std::byte> bytes) = 0;
  virtual Status read_io(const IoSlot& slot, std::span<std::byte> bytes) = 0;
  // Why the value cannot live in memory of the caller.
  [[nodiscard]] virtual Status check_bindable(const fb::Entry& record, uint32_t value) const;
  // The slot lies elsewhere from now on.
  virtual void move_io(uint32_t program, const IoSlot& slot) = 0;

  // Runs the program with a time around each step.
  virtual Status time_steps(uint32_t program, StepTimes& times) = 0;
  // Runs the first steps, `step` the last of them, and reads the value.
  virtual Status run_and_read(uint32_t program, uint32_t step, uint32_t value,
                              std::span<std::byte> bytes) = 0;
  virtual Status fill_arena(std::byte pattern) = 0;
  // By write_states(), without those that are bound.
  virtual Status fill_states() = 0;
  // Of a state in the session's own memory; over when they return.
  virtual Status read_state_bytes(const StatePart& part, std::span<std::byte> bytes) = 0;
  virtual Status write_state_bytes(const StatePart& part, std::span<const std::byte> bytes) = 0;
  // The range of the state segment, from a session of the same device class.
  virtual Status copy_state_bytes(ByteRange range, const SessionBase& from) = 0;
  // RLX_UNSUITABLE_DEVICE unless the device has a library of products.
  virtual Status time_library(uint32_t program, uint32_t step, uint32_t most,
                              std::vector<GemmAlgorithm>& algorithms);

  struct Program {
    uint32_t entry = 0;
    std::vector<uint64_t> symbols;          // to which it is bound
    std::shared_ptr<const PlanView> bound;  // null: of the plan itself
    const fb::Entry* record = nullptr;
    const fb::Entry* unbound = nullptr;  // the plan's own, of which `record` is a binding
    std::vector<IoSlot> io;
    bool is_linked = false;  // its values have places
    bool is_prepared = false;
    std::chrono::nanoseconds last_duration{0};  // from submit to the end of wait
    uint64_t last_use = 0;                      // the larger, the later
  };

  // Of a value of the entry's record at the maximum: its number among inputs and outputs.
  [[nodiscard]] size_t io_number(uint32_t entry, uint32_t value) const;
  [[nodiscard]] const IoSlot& io_slot(uint32_t entry, uint32_t value) const {
    return programs_[entry].io[io_number(entry, value)];
  }
  // By every record of the entry.
  [[nodiscard]] Status check_bindable_io(uint32_t entry, size_t number) const;
  // Where a new binding may stand: behind the others, or in the place of the one used least
  // recently.
  uint32_t place_for_binding();
  void use_program(uint32_t entry, uint32_t program);
  // No run is under way, and the device can run.
  Status check_ready(std::string_view what) const;
  // A submitted run.
  struct Run {
    uint32_t program = 0;
    // Its submit, or the end of the run before it where that came later.
    std::chrono::steady_clock::time_point begin;
  };
  [[nodiscard]] uint32_t slot_of(uint64_t run) const {
    return static_cast<uint32_t>(run % queue_.size());
  }
  Status prepare_if_needed(uint32_t program);
  Status end_run(const Run& run, RunEnd end);
  [[nodiscard]] std::string state_text(uint32_t state) const;
  // The value is bytes of the state.
  [[nodiscard]] bool holds(uint32_t state, const fb::Value& value) const;
  Status check_own(std::string_view what, uint32_t state) const;
  // A state's bytes on the host.
  struct SavedState {
    StatePart part;
    std::vector<std::byte> bytes;
  };
  struct StepRange {
    uint32_t program = 0;
    uint32_t first = 0;
    uint32_t count = 0;
  };
  // Does `body`, which runs some of the steps, and gives the states that these write their bytes
  // back, whatever it says. Refused where one of them is the caller's memory.
  Status keep_states(std::string_view what, StepRange steps, const std::function<Status()>& body);
  Status save_states(std::string_view what, StepRange steps, std::vector<SavedState>& saved);
  [[nodiscard]] bool writes_state(StepRange steps, uint32_t state) const;
  // Why the state cannot live in memory of the caller.
  [[nodiscard]] Status check_bindable_state(uint32_t state) const;

  // Members are destroyed from the last to the first, after those of the device's session.
  std::shared_ptr<DevicePlan> plan_;
  CountedObject counted_;
  const PlanView& view_;
  const DeviceInfo& info_;
  bool profile_ = false;
  uint32_t max_bindings_ = kDefaultMaxBindings;
  std::vector<uint32_t> present_;  // by entry: its program
  std::vector<Program> programs_;  // one per entry, then bindings
  uint64_t uses_ = 0;
  std::vector<std::optional<uint64_t>> bound_states_;  // by state: the caller's memory
  std::span<uint32_t> index_errors_;
  std::vector<Run> queue_;  // by slot
  uint64_t submit_count_ = 0;
  uint64_t end_count_ = 0;  // of runs that were waited for
  double last_run_microseconds_ = 0;
};

// How the states of a session begin, written by a device.
class StateWriter {
 public:
  virtual ~StateWriter() = default;
  virtual Status fill_zeros(ByteRange state) = 0;
  virtual Status write(uint64_t offset_bytes, std::span<const std::byte> bytes) = 0;
  virtual Status copy_weight(uint64_t weight_offset_bytes, ByteRange state) = 0;
};

// Writes every state of the plan that has bytes and lies in the session's own memory.
Status write_states(const PlanView& plan, std::span<const std::optional<uint64_t>> bound,
                    StateWriter& writer);

}  // namespace rlx
