// SPDX-License-Identifier: Apache-2.0
// One user of a plan on a device: inputs by name, runs, outputs. Everything that a caller can get
// wrong is told here; the device below is only given what is right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/api/entry_sizes.h"
#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/plan/plan_view.h"

namespace rlx {

// A tensor in host memory, dense and row-major.
struct HostTensor {
  std::span<const std::byte> bytes;
  uint32_t dtype = 0;
  std::span<const uint64_t> dims;
};

// Indices [begin, begin + count) of an axis.
struct StateRange {
  uint32_t axis = 0;
  uint64_t begin = 0;
  uint64_t count = 0;
};

// What the caller's memory must have for a tensor.
struct MemoryNeed {
  uint32_t alignment_bytes = 0;
  uint64_t size_bytes = 0;  // at least
};
Status check_memory(std::string_view what, ExternalBuffer buffer, const MemoryNeed& need);
bool overlap(ExternalBuffer a, ExternalBuffer b);

class Session {
 public:
  // `profile`: the plan was loaded so that steps can be timed.
  static Status create(std::shared_ptr<const PlanView> plan, std::shared_ptr<DevicePlan> loaded,
                       bool profile, const SessionOptions& options,
                       std::unique_ptr<Session>& session);
  // Waits for the runs that are under way.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Status prepare(uint32_t entry);
  // Sizes of an entry, from its next run on.
  Status set_symbol(uint32_t entry, std::string_view name, uint64_t value);
  Status get_symbol(uint32_t entry, std::string_view name, uint64_t& value) const;
  // Dims of an input or output at the present values of the symbols.
  Status shape_of(uint32_t entry, EntrySizes::Ports ports, uint32_t number, TensorDims& shape);
  Status set_input(uint32_t entry, std::string_view name, const HostTensor& tensor);
  Status bind_input(uint32_t entry, std::string_view name, ExternalBuffer buffer);
  Status bind_output(uint32_t entry, std::string_view name, ExternalBuffer buffer);
  Status run(uint32_t entry);
  Status submit(uint32_t entry);
  // Runs count from 1; each submit's number is that of the runs that were submitted until then.
  [[nodiscard]] uint64_t submit_count() const { return submit_count_; }
  // For the run of that number and all before it; of those, the first failure is told.
  Status wait_for(uint64_t run, uint64_t timeout_nanoseconds);
  Status wait(uint64_t timeout_nanoseconds) { return wait_for(submit_count_, timeout_nanoseconds); }
  Status read_output(uint32_t entry, std::string_view name, std::span<std::byte> bytes);
  // An error unless `capacity` records suffice for the entry's steps.
  Status check_room_for_steps(uint32_t entry, uint32_t capacity) const;
  Status profile(uint32_t entry, std::vector<StepTime>& times);
  Status last_run_microseconds(double& microseconds) const;
  Status reset_states();
  // Whole without a range.
  Status read_state(std::string_view name, const std::optional<StateRange>& range,
                    std::span<std::byte> bytes);
  Status write_state(std::string_view name, const std::optional<StateRange>& range,
                     const HostTensor& tensor);
  Status set_seed(uint64_t seed, uint32_t step);
  // `from` is on this session's device.
  Status copy_state(std::string_view name, const Session& from);
  Status bind_state(std::string_view name, ExternalBuffer buffer);
  Status read_value(uint32_t entry, uint32_t step, uint32_t value, std::span<std::byte> bytes);
  Status poison_arena(std::byte pattern);

  // The entry at the present values of its symbols, as its next run runs it, and the plan that it
  // is in; until the next call.
  struct BoundEntry {
    const PlanView* plan = nullptr;
    const fb::Entry* record = nullptr;
  };
  Status bound_entry(uint32_t entry, BoundEntry& bound);

  [[nodiscard]] const PlanView& plan() const { return *plan_; }
  [[nodiscard]] bool has_free_sizes(uint32_t entry) const {
    return entries_[entry].sizes.is_free();
  }
  // The entry as this session's device runs it with every free symbol at its maximum.
  [[nodiscard]] const fb::Entry& record(uint32_t entry) const {
    return plan_->entry(entry, loaded_->target());
  }
  // Of its records the one for the present values of the symbols, where there is one.
  [[nodiscard]] const fb::Entry& bound_from(uint32_t entry) const {
    return *entries_[entry].sizes.record();
  }
  [[nodiscard]] fb::TargetKind target() const { return loaded_->target(); }
  // "vulkan-nvidia": of a plan with several programs for the target the one that runs; lives as
  // long as the plan.
  [[nodiscard]] std::string_view program_name() const { return plan_->program_name(target()); }
  [[nodiscard]] const DevicePlan& loaded() const { return *loaded_; }
  Status check_entry(uint32_t entry) const;

 private:
  // An input or output of an entry.
  struct Port {
    uint32_t value = 0;
    bool is_set = false;                  // inputs: holds what the caller gave
    std::optional<ExternalBuffer> bound;  // the caller's memory
  };
  struct IndexWord {
    const fb::Entry* record = nullptr;
    uint32_t step = 0;
    uint32_t word = 0;           // of the segment
    std::string_view assertion;  // what it counts, where that is not indices outside
  };
  struct Ports {
    EntrySizes sizes;
    std::vector<RecordImage> images;     // of the records that it may run, where sizes are free
    std::vector<IndexWord> index_words;  // none where indices are not checked
    std::vector<Port> inputs;
    std::vector<Port> outputs;
    bool outputs_valid = false;
    bool prepared = false;
  };
  enum class PortKind : uint8_t { Input, Output };

  Session() = default;

  Status check_idle() const;
  Status check_inputs_set(uint32_t entry) const;
  [[nodiscard]] bool is_running() const { return submit_count_ > end_count_; }
  [[nodiscard]] uint32_t& slot_of(uint64_t run) { return queue_[run % queue_.size()]; }
  Status check_room_in_queue() const;
  Status wait_for_oldest(uint64_t timeout_nanoseconds);
  Status begin_run(uint32_t entry);
  // Binds the entry to the present values of its symbols. A refused binding leaves them as they
  // were at the last right one.
  Status bind_sizes(uint32_t entry);
  // The same where inputs that were set have the shapes for it.
  Status bind_agreed_sizes(uint32_t entry);
  Status check_buffers(uint32_t entry) const;
  void forget_outputs(uint32_t entry, bool sizes_changed);
  // Entries share their io memory; the one that uses it last owns it.
  void claim_io(uint32_t entry);
  // Which step of the entry counts in which word of index errors, in the order of the steps.
  void find_index_words(uint32_t entry);
  // Tells of indices outside that the finished run of the entry has counted, or of what did not
  // hold, and clears the words.
  Status take_index_errors(uint32_t entry);
  Status find_port(PortKind kind, uint32_t entry, std::string_view name, Port*& port);
  // What the caller's tensor must be for an input.
  Status check_tensor(uint32_t entry, const Port& port, const HostTensor& tensor) const;
  [[nodiscard]] uint32_t input_number(uint32_t entry, const Port& port) const {
    return static_cast<uint32_t>(&port - entries_[entry].inputs.data());
  }
  Status find_state(std::string_view name, uint32_t& state) const;
  // Why a state cannot lie there: it may be read and written by every entry.
  Status check_state_memory(uint32_t state, ExternalBuffer buffer) const;
  Status bind(PortKind kind, uint32_t entry, std::string_view name, ExternalBuffer buffer);
  // No state lives in the memory.
  Status check_apart_from_states(std::string_view what, ExternalBuffer buffer,
                                 std::optional<uint32_t> but) const;
  Status check_overlap(PortKind kind, uint32_t entry, const Port& port,
                       ExternalBuffer buffer) const;
  [[nodiscard]] const fb::Value& value_of(uint32_t entry, const Port& port) const {
    return PlanView::value(record(entry), port.value);
  }
  [[nodiscard]] std::string entry_text(uint32_t entry) const;

  // Destroyed from the last to the first: a device session before its plan's weights, these before
  // the view.
  std::shared_ptr<const PlanView> plan_;
  std::shared_ptr<DevicePlan> loaded_;
  std::unique_ptr<DeviceSession> device_session_;
  std::vector<Ports> entries_;
  std::vector<std::optional<ExternalBuffer>> bound_states_;  // by state: the caller's memory
  std::optional<uint32_t> io_owner_;
  std::vector<uint32_t> queue_;  // entries of the runs under way, which take turns in it
  uint64_t submit_count_ = 0;
  uint64_t end_count_ = 0;  // of runs that were waited for
  bool profile_ = false;
};

}  // namespace rlx
