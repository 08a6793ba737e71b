// SPDX-License-Identifier: Apache-2.0
// What the sessions of all devices share: where inputs and outputs lie, which entry runs at which
// binding, since when and how long runs of it take, how states begin, and what is asked before
// every call. A device adds its memory and its way to run a program.
//
// A program is an entry at one binding of the plan's free symbols. The first ones, numbered as the
// entries are, have every free symbol at its maximum; they are all there is without free symbols.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
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
  };
  explicit SessionBase(Origin origin);

  [[nodiscard]] const PlanView& view() const { return view_; }
  [[nodiscard]] bool profiles() const { return profile_; }
  [[nodiscard]] uint32_t entry_count() const { return static_cast<uint32_t>(present_.size()); }
  // Its entry's record for this device's target.
  [[nodiscard]] const fb::Entry& record(uint32_t program) const {
    return *programs_[program].record;
  }
  // The plan that the record is in: view(), or what a binding made of it.
  [[nodiscard]] const PlanView& view_of(uint32_t program) const {
    return programs_[program].bound != nullptr ? *programs_[program].bound : view_;
  }
  // Inputs, then outputs: where they lie, and their bytes.
  [[nodiscard]] std::span<const IoSlot> io(uint32_t program) const { return programs_[program].io; }
  // A run is under way, or was when it was looked at last.
  [[nodiscard]] bool is_running() const { return running_.has_value(); }

  // From now on the host reads the words of index errors in these bytes, which become zero.
  void show_index_errors(std::span<std::byte> words);

 private:
  // What a device does, once the checks have passed: no run is under way but in wait_for_run().

  // Why nothing can run any more; allocates nothing where something can.
  [[nodiscard]] virtual Status health() const = 0;
  // Gives every value of a program its place: of a new one, numbered behind the last, or of one
  // that takes the place of another, which nobody uses any more.
  virtual void link(uint32_t program) = 0;
  // Makes a program ready for launch(); again after move_io() and link().
  virtual Status prepare_program(uint32_t program) = 0;
  virtual Status launch(uint32_t program) = 0;
  // `expected`: until the end, as far as is known.
  virtual RunEnd wait_for_run(uint64_t timeout_nanoseconds, std::chrono::nanoseconds expected) = 0;
  // After a run without errors. Its time on the device, where the plan was loaded for profiling.
  virtual Status finish_run(double& microseconds) = 0;

  virtual Status write_io(const IoSlot& slot, std::span<const std::byte> bytes) = 0;
  virtual Status read_io(const IoSlot& slot, std::span<std::byte> bytes) = 0;
  // Why the value cannot live in memory of the caller.
  [[nodiscard]] virtual Status check_bindable(uint32_t program, uint32_t value) const;
  // The slot lies elsewhere from now on.
  virtual void move_io(uint32_t program, const IoSlot& slot) = 0;

  // Runs the program with a time around each step.
  virtual Status time_steps(uint32_t program, StepTimes& times) = 0;
  // Runs the first steps, `step` the last of them, and reads the value.
  virtual Status run_and_read(uint32_t program, uint32_t step, uint32_t value,
                              std::span<std::byte> bytes) = 0;
  virtual Status fill_arena(std::byte pattern) = 0;
  // By write_states().
  virtual Status fill_states() = 0;
  // RLX_UNSUITABLE_DEVICE unless the device has a library of products.
  virtual Status time_library(uint32_t program, uint32_t step, uint32_t most,
                              std::vector<GemmAlgorithm>& algorithms);

  struct Program {
    uint32_t entry = 0;
    std::vector<uint64_t> symbols;          // to which it is bound
    std::shared_ptr<const PlanView> bound;  // null: of the plan itself
    const fb::Entry* record = nullptr;
    std::vector<IoSlot> io;
    bool is_linked = false;  // its values have places
    bool is_prepared = false;
    std::chrono::nanoseconds last_duration{0};  // from submit to the end of wait
    uint64_t last_use = 0;                      // the larger, the later
  };

  static IoSlot& io_slot(Program& program, uint32_t value);
  // Where a new binding may stand: behind the others, or in the place of the one used least
  // recently.
  uint32_t place_for_binding();
  void use_program(uint32_t entry, uint32_t program);
  // No run is under way, and the device can run.
  Status check_ready(std::string_view what) const;
  [[nodiscard]] std::chrono::nanoseconds since_submit() const;

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
  std::span<uint32_t> index_errors_;
  std::optional<uint32_t> running_;  // program of the submitted run
  std::chrono::steady_clock::time_point submitted_;
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

// Writes every state of the plan that has bytes.
Status write_states(const PlanView& plan, StateWriter& writer);

}  // namespace rlx
