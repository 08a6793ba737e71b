// SPDX-License-Identifier: Apache-2.0
// The null device: host memory, real copies and fills, counted dispatches.
#include "runtime/null/null_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/device/preflight.h"
#include "runtime/device/session_base.h"
#include "runtime/device/wait_for_end.h"
#include "runtime/plan/plan_view.h"

namespace rlx {
namespace {

using Bytes = std::vector<std::byte>;

constexpr const char* kName = "null device";
constexpr const char* kDriverText = "rlx null";
constexpr const char* kLibraryText = "null library 1";
constexpr uint32_t kAlgorithms = 3;  // that the library offers for every product

struct Memory {
  Bytes bytes;
  CountedObject counted;
};

class NullDriver {
 public:
  explicit NullDriver(std::shared_ptr<NullControl> control)
      : control_(std::move(control)), counted_(control_->objects, ObjectKind::Context) {
    info_.id = "null";
    info_.name = kName;
    info_.driver = kDriverText;
    info_.unified_memory = true;
    info_.is_software = true;
  }

  // Stands for one call of a driver.
  Status call(std::string_view what) {
    const uint64_t number = ++control_->calls;
    if (lost_) return device_lost(text_of("the null device was lost before ", what));
    if (number != control_->fail_at_call) return {};
    const rlx_status code = control_->fail_with;
    lost_ = code == RLX_DEVICE_LOST;
    return {code, text_of("the null device was told to fail call ", number, ", ", what)};
  }
  [[nodiscard]] NullControl& control() const { return *control_; }
  [[nodiscard]] const DeviceInfo& info() const { return info_; }
  [[nodiscard]] Status health() const {
    return lost_ ? device_lost("the null device was lost") : Status();
  }

  // Memory of the device, zeroed.
  Status allocate(std::string_view what, uint64_t size_bytes, Memory& memory) {
    RLX_RETURN_IF_ERROR(call(text_of("allocation of ", what)));
    memory.bytes.resize(size_bytes);
    memory.counted = CountedObject(control_->objects, ObjectKind::Memory);
    return {};
  }

 private:
  std::shared_ptr<NullControl> control_;
  CountedObject counted_;
  DeviceInfo info_;
  std::atomic<bool> lost_{false};
};

class NullPlan final : public DevicePlan, public std::enable_shared_from_this<NullPlan> {
 public:
  NullPlan(std::shared_ptr<NullDriver> driver, const PlanView& view, bool profile)
      : driver_(std::move(driver)),
        counted_(driver_->control().objects, ObjectKind::Plan),
        view_(view),
        profile_(profile) {}

  Status load();
  Status create_session(const SessionOptions& options,
                        std::unique_ptr<DeviceSession>& session) override;
  // Whatever the plan is for first.
  [[nodiscard]] fb::TargetKind target() const override { return view_.first_target(); }

  [[nodiscard]] std::vector<GemmReport> gemm_reports() const override;
  [[nodiscard]] TuningIdentity tuning_identity() const override {
    return {.device = kName, .driver = kDriverText, .library = kLibraryText};
  }
  // An error where a library product has no algorithm of this device's.
  Status check_tuned() const;

  [[nodiscard]] NullDriver& driver() const { return *driver_; }
  [[nodiscard]] const PlanView& view() const { return view_; }
  [[nodiscard]] Bytes& weights() { return weights_.bytes; }

 private:
  std::shared_ptr<NullDriver> driver_;
  CountedObject counted_;
  const PlanView& view_;
  bool profile_ = false;
  Memory weights_;
};

// The addresses of one entry's values, and its steps.
struct LinkedEntry {
  const fb::Entry* entry = nullptr;
  std::vector<std::byte*> addresses;  // per value
};

void run_step(const LinkedEntry& linked, const fb::Step& step, NullControl& control) {
  const std::span<const fb::Relocation> ranges = PlanView::relocations(*linked.entry, step);
  const auto address = [&](const fb::Relocation& range) {
    return linked.addresses[range.value()] + range.offset_bytes();
  };
  switch (step.kind()) {
    case fb::StepKind::Copy:
      if (ranges[0].length_bytes() > 0)
        std::memcpy(address(ranges[1]), address(ranges[0]), ranges[0].length_bytes());
      break;
    case fb::StepKind::Fill: {
      const uint32_t pattern = step.fill_pattern();
      for (uint64_t i = 0; i < ranges[0].length_bytes(); i += sizeof pattern) {
        std::memcpy(address(ranges[0]) + i, &pattern, sizeof pattern);
      }
      break;
    }
    case fb::StepKind::Dispatch:
    case fb::StepKind::LibraryGemm:
      ++control.dispatches;
      break;
    case fb::StepKind::Skip:
      break;
  }
}

// What the kernel of step number `number` would add to its word.
void count_index_errors(const LinkedEntry& linked, uint32_t number, const NullControl& control) {
  const auto found = control.index_errors.find(number);
  if (found == control.index_errors.end()) return;
  const fb::Step& step = PlanView::steps(*linked.entry)[number];
  for (const fb::Relocation& range : PlanView::relocations(*linked.entry, step)) {
    const fb::Value& value = PlanView::value(*linked.entry, range.value());
    if (value.segment() != fb::Segment::IndexErrors) continue;
    uint32_t count = 0;
    std::memcpy(&count, linked.addresses[range.value()], sizeof count);
    count += found->second;
    std::memcpy(linked.addresses[range.value()], &count, sizeof count);
  }
}

class NullSession final : public SessionBase {
 public:
  NullSession(const std::shared_ptr<NullPlan>& plan, const DeviceInfo& info, bool profile,
              const SessionOptions& options)
      : SessionBase({.plan = plan,
                     .view = plan->view(),
                     .objects = plan->driver().control().objects,
                     .info = info,
                     .profile = profile,
                     .max_bindings = options.max_bindings,
                     .queue_depth = options.queue_depth}),
        device_plan_(*plan),
        driver_(plan->driver()),
        control_(driver_.control()) {}

  Status create(const SessionOptions& options);

 private:
  [[nodiscard]] Status health() const override { return driver_.health(); }
  void link(uint32_t program) override;
  Status launch(uint32_t program, uint32_t slot) override;
  RunEnd wait_for_run(uint32_t slot, uint64_t timeout_nanoseconds,
                      std::chrono::nanoseconds expected) override;
  Status finish_run(double& microseconds) override {
    microseconds = run_microseconds_;
    return {};
  }
  Status prepare_program(uint32_t) override { return driver_.call("recording of an entry"); }
  Status write_io(const IoSlot& slot, std::span<const std::byte> bytes) override;
  Status read_io(const IoSlot& slot, std::span<std::byte> bytes) override;
  void move_io(uint32_t program, const IoSlot& slot) override {
    programs_[program].addresses[slot.io.value] = io_address(slot);
  }
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

  std::byte* io_address(const IoSlot& slot) {
    return slot.bound_address.has_value() ? reinterpret_cast<std::byte*>(*slot.bound_address)
                                          : io_.bytes.data() + slot.io.range.offset_bytes;
  }
  // Runs one step; how long it took, in microseconds.
  double run_one(const LinkedEntry& linked, uint32_t step);

  NullPlan& device_plan_;
  NullDriver& driver_;
  NullControl& control_;
  Memory state_;
  Memory arena_;
  Memory io_;
  std::vector<uint32_t> index_errors_;
  std::vector<LinkedEntry> programs_;
  double run_microseconds_ = 0;
};

class NullDevice final : public Device {
 public:
  explicit NullDevice(std::shared_ptr<NullControl> control)
      : driver_(std::make_shared<NullDriver>(std::move(control))) {}
  [[nodiscard]] const DeviceInfo& info() const override { return driver_->info(); }
  [[nodiscard]] Status health() const override { return driver_->health(); }
  [[nodiscard]] const ObjectCounts& objects() const override { return driver_->control().objects; }
  [[nodiscard]] Status check_suits(const PlanHeader&) const override { return {}; }
  Status load(const PlanView& plan, const LoadOptions& options,
              std::shared_ptr<DevicePlan>& loaded) override {
    RLX_RETURN_IF_ERROR(check_load(plan, driver_->info(), nullptr, options.memory_budget_bytes));
    auto made = std::make_shared<NullPlan>(driver_, plan, options.profile);
    if (options.require_tuned) RLX_RETURN_IF_ERROR(made->check_tuned());
    RLX_RETURN_IF_ERROR(made->load());
    loaded = std::move(made);
    return {};
  }

 private:
  std::shared_ptr<NullDriver> driver_;
};

// Null for what is not in the three segments.
std::byte* own_address(NullPlan& plan, Bytes& state, Bytes& arena, const fb::Value& value) {
  switch (value.segment()) {
    case fb::Segment::Weights:
      return plan.weights().data() + value.offset_bytes();
    case fb::Segment::State:
      return state.data() + value.offset_bytes();
    case fb::Segment::Arena:
      return arena.data() + value.offset_bytes();
    case fb::Segment::Io:
    case fb::Segment::IndexErrors:
      break;
  }
  return nullptr;
}

Status NullPlan::load() {
  RLX_RETURN_IF_ERROR(driver_->allocate("the weights", view_.header().weights_bytes, weights_));
  RLX_RETURN_IF_ERROR(driver_->call("upload of the weights"));
  for (const ByteRange& range : stored_weight_ranges(view_)) {
    RLX_RETURN_IF_ERROR(view_.read_weights(
        range.offset_bytes, std::span(weights()).subspan(range.offset_bytes, range.size_bytes)));
  }
  ++driver_->control().loads;
  const fb::Entry* init = view_.init(target());
  if (init == nullptr) return {};
  RLX_RETURN_IF_ERROR(driver_->call("run of the init entry"));
  Bytes arena(init->arena_bytes());
  Bytes none;
  LinkedEntry linked{.entry = init};
  for (const fb::Value* value : *init->values())
    linked.addresses.push_back(own_address(*this, none, arena, *value));
  for (const fb::Step& step : PlanView::steps(*init)) run_step(linked, step, driver_->control());
  return {};
}

std::vector<GemmReport> NullPlan::gemm_reports() const {
  std::vector<GemmReport> reports;
  for (uint32_t e = 0; e < view_.entry_count(); ++e) {
    const fb::Entry& entry = view_.entry(e, target());
    const std::span<const fb::Step> steps = PlanView::steps(entry);
    for (uint32_t s = 0; s < steps.size(); ++s) {
      if (steps[s].kind() != fb::StepKind::LibraryGemm) continue;
      const fb::LibraryGemm& gemm = *entry.gemms()->Get(steps[s].kernel());
      const std::string_view device = PlanView::text(gemm.tuned_device());
      GemmReport report{
          .entry = std::string(PlanView::text(entry.name())),
          .step = s,
          .tuned = device == kName && PlanView::text(gemm.tuned_library()) == kLibraryText,
          .note = {}};
      if (!report.tuned && !device.empty()) report.note = text_of("tuned on ", device);
      reports.push_back(std::move(report));
    }
  }
  return reports;
}

Status NullPlan::check_tuned() const {
  for (const GemmReport& report : gemm_reports()) {
    if (report.tuned) continue;
    return {RLX_UNSUITABLE_DEVICE,
            text_of("entry ", rlx::quoted(report.entry), ", step ", report.step,
                    " has no algorithm chosen for the ", kName, "; run rlxc tune on this device")};
  }
  return {};
}

Status NullPlan::create_session(const SessionOptions& options,
                                std::unique_ptr<DeviceSession>& session) {
  if (options.stream != nullptr)
    return invalid_argument("a stream was given, which the null device has not");
  auto made = std::make_unique<NullSession>(shared_from_this(), driver_->info(), profile_, options);
  RLX_RETURN_IF_ERROR(made->create(options));
  session = std::move(made);
  return {};
}

Status NullSession::create(const SessionOptions& options) {
  RLX_RETURN_IF_ERROR(driver_.allocate("the state", view().header().state_bytes, state_));
  RLX_RETURN_IF_ERROR(driver_.allocate("the arena", view().header().arena_bytes, arena_));
  RLX_RETURN_IF_ERROR(driver_.allocate("the io", view().header().io_bytes, io_));
  if (view().header().index_error_bytes > 0) {
    RLX_RETURN_IF_ERROR(driver_.call("allocation of the index errors"));
    index_errors_.resize(view().header().index_error_bytes / kIndexErrorBytes);
    if (options.check_indices) show_index_errors(std::as_writable_bytes(std::span(index_errors_)));
  }
  for (uint32_t entry = 0; entry < entry_count(); ++entry) link(entry);
  return reset_states();
}

void NullSession::link(uint32_t program) {
  LinkedEntry linked{.entry = &record(program)};
  for (const fb::Value* value : *record(program).values()) {
    std::byte* address = own_address(device_plan_, state_.bytes, arena_.bytes, *value);
    if (value->segment() == fb::Segment::IndexErrors) {
      address = std::as_writable_bytes(std::span(index_errors_)).data() + value->offset_bytes();
    }
    if (value->segment() == fb::Segment::State) {
      if (const auto bound = bound_address(*value)) address = reinterpret_cast<std::byte*>(*bound);
    }
    linked.addresses.push_back(address);
  }
  for (const IoSlot& slot : io(program)) linked.addresses[slot.io.value] = io_address(slot);
  programs_.resize(std::max<size_t>(programs_.size(), program + size_t{1}));
  programs_[program] = std::move(linked);
}

double NullSession::run_one(const LinkedEntry& linked, uint32_t step) {
  const auto begin = std::chrono::steady_clock::now();
  if (control_.record) control_.steps_run.push_back(step);
  run_step(linked, PlanView::steps(*linked.entry)[step], control_);
  count_index_errors(linked, step, control_);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  return took.count();
}

Status NullSession::write_io(const IoSlot& slot, std::span<const std::byte> bytes) {
  RLX_RETURN_IF_ERROR(driver_.call("write of an input"));
  std::memcpy(io_address(slot), bytes.data(), bytes.size());
  return {};
}

Status NullSession::read_io(const IoSlot& slot, std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(driver_.call("read of an output"));
  std::memcpy(bytes.data(), io_address(slot), bytes.size());
  return {};
}

Status NullSession::launch(uint32_t program, uint32_t) {
  RLX_RETURN_IF_ERROR(driver_.call("submit"));
  run_microseconds_ = 0;
  const auto steps = static_cast<uint32_t>(PlanView::steps(record(program)).size());
  for (uint32_t s = 0; s < steps; ++s) run_microseconds_ += run_one(programs_[program], s);
  ++control_.runs;
  return {};
}

SessionBase::RunEnd NullSession::wait_for_run(uint32_t, uint64_t timeout_nanoseconds,
                                              std::chrono::nanoseconds) {
  Status status = driver_.call("wait");
  if (!status.ok() || timeout_nanoseconds == UINT64_MAX || control_.timeouts == 0)
    return {.status = std::move(status)};
  --control_.timeouts;
  return {.status = out_of_time("the run", timeout_nanoseconds, driver_.info()), .is_over = false};
}

Status NullSession::time_steps(uint32_t program, StepTimes& times) {
  RLX_RETURN_IF_ERROR(driver_.call("profiled run"));
  const std::span<const fb::Step> steps = PlanView::steps(record(program));
  for (uint32_t s = 0; s < steps.size(); ++s) {
    const double took = run_one(programs_[program], s);
    const double told = steps[s].kind() == fb::StepKind::LibraryGemm
                            ? control_.gemm_microseconds
                            : control_.dispatch_microseconds;
    times.microseconds.push_back(told > 0 ? told : took);
    times.all_microseconds += times.microseconds.back();
  }
  return {};
}

// Algorithm i is made of bytes i + 1; the library suggests the slowest first.
Status NullSession::time_library(uint32_t, uint32_t, uint32_t most,
                                 std::vector<GemmAlgorithm>& algorithms) {
  RLX_RETURN_IF_ERROR(driver_.call("timing of algorithms"));
  algorithms.clear();
  for (uint32_t i = std::min(most, kAlgorithms); i-- > 0;) {
    GemmAlgorithm algorithm{.bytes = {}, .workspace_bytes = 0, .microseconds = 30.0 - 10.0 * i};
    algorithm.bytes.fill(static_cast<std::byte>(i + 1));
    algorithms.push_back(algorithm);
  }
  return {};
}

class NullStates final : public StateWriter {
 public:
  NullStates(Bytes& states, const Bytes& weights) : states_(states), weights_(weights) {}

  Status fill_zeros(ByteRange state) override {
    std::memset(states_.data() + state.offset_bytes, 0, state.size_bytes);
    return {};
  }
  Status write(uint64_t offset_bytes, std::span<const std::byte> bytes) override {
    std::memcpy(states_.data() + offset_bytes, bytes.data(), bytes.size());
    return {};
  }
  Status copy_weight(uint64_t weight_offset_bytes, ByteRange state) override {
    return write(state.offset_bytes,
                 std::span(weights_).subspan(weight_offset_bytes, state.size_bytes));
  }

 private:
  Bytes& states_;
  const Bytes& weights_;
};

Status NullSession::fill_states() {
  RLX_RETURN_IF_ERROR(driver_.call("reset of the states"));
  NullStates writer(state_.bytes, device_plan_.weights());
  return write_states(view(), bound_states(), writer);
}

Status NullSession::read_state_bytes(const StatePart& part, std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(driver_.call("read of a state"));
  const std::byte* source = state_.bytes.data() + segment_offset(part);
  for (uint64_t i = 0; i < part.pieces; ++i)
    std::memcpy(bytes.data() + i * part.piece_bytes, source + i * part.stride_bytes,
                part.piece_bytes);
  return {};
}

Status NullSession::write_state_bytes(const StatePart& part, std::span<const std::byte> bytes) {
  RLX_RETURN_IF_ERROR(driver_.call("write of a state"));
  std::byte* target = state_.bytes.data() + segment_offset(part);
  for (uint64_t i = 0; i < part.pieces; ++i)
    std::memcpy(target + i * part.stride_bytes, bytes.data() + i * part.piece_bytes,
                part.piece_bytes);
  return {};
}

Status NullSession::copy_state_bytes(ByteRange range, const SessionBase& from) {
  RLX_RETURN_IF_ERROR(driver_.call("copy of a state"));
  const Bytes& source = static_cast<const NullSession&>(from).state_.bytes;
  std::memcpy(state_.bytes.data() + range.offset_bytes, source.data() + range.offset_bytes,
              range.size_bytes);
  return {};
}

Status NullSession::run_and_read(uint32_t program, uint32_t step, uint32_t value,
                                 std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(driver_.call("run up to a step"));
  for (uint32_t s = 0; s <= step; ++s) run_one(programs_[program], s);
  RLX_RETURN_IF_ERROR(driver_.call("read of a value"));
  if (!bytes.empty()) std::memcpy(bytes.data(), programs_[program].addresses[value], bytes.size());
  return {};
}

Status NullSession::fill_arena(std::byte pattern) {
  RLX_RETURN_IF_ERROR(driver_.call("poisoning of the arena"));
  std::fill(arena_.bytes.begin(), arena_.bytes.end(), pattern);
  return {};
}

}  // namespace

std::shared_ptr<Device> open_null_device(std::shared_ptr<NullControl> control) {
  return std::make_shared<NullDevice>(std::move(control));
}

}  // namespace rlx
