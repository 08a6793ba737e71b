// SPDX-License-Identifier: Apache-2.0
// The null device: host memory, real copies and fills, counted dispatches.
#include "runtime/null/null_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include "runtime/base/dtype.h"
#include "runtime/base/text.h"
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
      : control_(std::move(control)), counted_(control_->objects, ObjectKind::Context) {}

  // Stands for one call of a driver.
  Status call(std::string_view what) {
    const uint64_t number = ++control_->calls;
    if (lost_) return {RLX_DEVICE_LOST, text_of("the null device was lost before ", what)};
    if (number != control_->fail_at_call) return {};
    const rlx_status code = control_->fail_with;
    lost_ = code == RLX_DEVICE_LOST;
    return {code, text_of("the null device was told to fail call ", number, ", ", what)};
  }
  [[nodiscard]] NullControl& control() const { return *control_; }
  [[nodiscard]] bool is_lost() const { return lost_; }

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
  std::atomic<bool> lost_{false};
};

class NullPlan final : public DevicePlan, public std::enable_shared_from_this<NullPlan> {
 public:
  NullPlan(std::shared_ptr<NullDriver> driver, const PlanView& view)
      : driver_(std::move(driver)),
        counted_(driver_->control().objects, ObjectKind::Plan),
        view_(view) {}

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

class NullSession final : public DeviceSession {
 public:
  NullSession(std::shared_ptr<NullPlan> plan, const SessionOptions& options)
      : plan_(std::move(plan)),
        view_(plan_->view()),
        driver_(plan_->driver()),
        control_(driver_.control()),
        counted_(control_.objects, ObjectKind::Session),
        check_indices_(options.check_indices) {}

  Status create();
  Status prepare(uint32_t entry) override;
  Status write(uint32_t entry, uint32_t value, std::span<const std::byte> bytes) override;
  Status read(uint32_t entry, uint32_t value, std::span<std::byte> bytes) override;
  Status bind(uint32_t entry, uint32_t value, ExternalBuffer buffer) override;
  Status submit(uint32_t entry) override;
  Status wait(uint64_t timeout_nanoseconds) override;
  Status profile(uint32_t entry, std::vector<StepTime>& times) override;
  [[nodiscard]] double last_run_microseconds() const override { return last_run_microseconds_; }
  Status reset_states() override;
  Status read_after(uint32_t entry, uint32_t step, uint32_t value,
                    std::span<std::byte> bytes) override;
  Status poison_arena(std::byte pattern) override;
  [[nodiscard]] std::span<uint32_t> index_errors() override {
    return check_indices_ ? std::span(index_errors_) : std::span<uint32_t>();
  }
  Status time_algorithms(uint32_t entry, uint32_t step, uint32_t most,
                         std::vector<GemmAlgorithm>& algorithms) override;

 private:
  void link(uint32_t entry);
  void run_one(const LinkedEntry& linked, uint32_t step) {
    if (control_.record) control_.steps_run.push_back(step);
    run_step(linked, PlanView::steps(*linked.entry)[step], control_);
    count_index_errors(linked, step, control_);
  }

  std::shared_ptr<NullPlan> plan_;
  const PlanView& view_;
  NullDriver& driver_;
  NullControl& control_;
  CountedObject counted_;
  const bool check_indices_;
  Memory state_;
  Memory arena_;
  Memory io_;
  std::vector<uint32_t> index_errors_;
  std::vector<LinkedEntry> entries_;
  std::vector<std::vector<ExternalBuffer>>
      bound_;  // per entry and value; size 0: the session's own
  double last_run_microseconds_ = 0;
};

class NullDevice final : public Device {
 public:
  explicit NullDevice(std::shared_ptr<NullControl> control)
      : driver_(std::make_shared<NullDriver>(std::move(control))) {
    info_.id = "null";
    info_.name = kName;
    info_.driver = kDriverText;
    info_.unified_memory = true;
  }
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] Status health() const override {
    if (!driver_->is_lost()) return {};
    return {RLX_DEVICE_LOST, "the null device was lost"};
  }
  [[nodiscard]] const ObjectCounts& objects() const override { return driver_->control().objects; }
  Status load(const PlanView& plan, const LoadOptions& options,
              std::shared_ptr<DevicePlan>& loaded) override {
    auto made = std::make_shared<NullPlan>(driver_, plan);
    if (options.require_tuned) RLX_RETURN_IF_ERROR(made->check_tuned());
    RLX_RETURN_IF_ERROR(made->load());
    loaded = std::move(made);
    return {};
  }

 private:
  DeviceInfo info_;
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
  RLX_RETURN_IF_ERROR(
      view_.read_weights(0, std::span(weights()).first(view_.weights_section_bytes())));
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
            text_of("entry ", quoted(report.entry), ", step ", report.step,
                    " has no algorithm chosen for the ", kName, "; run rlxc tune on this device")};
  }
  return {};
}

Status NullPlan::create_session(const SessionOptions& options,
                                std::unique_ptr<DeviceSession>& session) {
  if (options.stream != nullptr)
    return {RLX_INVALID_ARGUMENT, "a stream was given, which the null device has not"};
  auto made = std::make_unique<NullSession>(shared_from_this(), options);
  RLX_RETURN_IF_ERROR(made->create());
  session = std::move(made);
  return {};
}

Status NullSession::create() {
  RLX_RETURN_IF_ERROR(driver_.allocate("the state", view_.header().state_bytes, state_));
  RLX_RETURN_IF_ERROR(driver_.allocate("the arena", view_.header().arena_bytes, arena_));
  RLX_RETURN_IF_ERROR(driver_.allocate("the io", view_.header().io_bytes, io_));
  if (view_.header().index_error_bytes > 0) {
    RLX_RETURN_IF_ERROR(driver_.call("allocation of the index errors"));
    index_errors_.resize(view_.header().index_error_bytes / kIndexErrorBytes);
  }
  for (uint32_t e = 0; e < view_.entry_count(); ++e) {
    entries_.push_back({.entry = &view_.entry(e)});
    bound_.emplace_back(view_.entry(e).values()->size());
    link(e);
  }
  return reset_states();
}

// Entries share the io segment: each lays its inputs and outputs out from its start.
void NullSession::link(uint32_t e) {
  const fb::Entry& entry = view_.entry(e);
  std::vector<std::byte*>& addresses = entries_[e].addresses;
  addresses.assign(entry.values()->size(), nullptr);
  uint64_t io_bytes = 0;
  for (uint32_t v = 0; v < addresses.size(); ++v) {
    const fb::Value& value = PlanView::value(entry, v);
    addresses[v] = own_address(*plan_, state_.bytes, arena_.bytes, value);
    if (value.segment() == fb::Segment::IndexErrors) {
      addresses[v] = std::as_writable_bytes(std::span(index_errors_)).data() + value.offset_bytes();
    }
    if (value.segment() != fb::Segment::Io) continue;
    const ExternalBuffer& bound = bound_[e][v];
    addresses[v] = bound.size_bytes > 0 ? reinterpret_cast<std::byte*>(bound.device_address)
                                        : io_.bytes.data() + io_bytes;
    io_bytes += (value.size_bytes() + kArenaAlignmentBytes - 1) / kArenaAlignmentBytes *
                kArenaAlignmentBytes;
  }
}

Status NullSession::prepare(uint32_t) {
  return driver_.call("recording of an entry");
}

Status NullSession::write(uint32_t entry, uint32_t value, std::span<const std::byte> bytes) {
  RLX_RETURN_IF_ERROR(driver_.call("write of an input"));
  if (!bytes.empty()) std::memcpy(entries_[entry].addresses[value], bytes.data(), bytes.size());
  return {};
}

Status NullSession::read(uint32_t entry, uint32_t value, std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(driver_.call("read of an output"));
  if (!bytes.empty()) std::memcpy(bytes.data(), entries_[entry].addresses[value], bytes.size());
  return {};
}

Status NullSession::bind(uint32_t entry, uint32_t value, ExternalBuffer buffer) {
  RLX_RETURN_IF_ERROR(driver_.call("binding of a buffer"));
  bound_[entry][value] = buffer;
  link(entry);
  return {};
}

Status NullSession::submit(uint32_t entry) {
  RLX_RETURN_IF_ERROR(driver_.call("submit"));
  const auto begin = std::chrono::steady_clock::now();
  const auto steps = static_cast<uint32_t>(PlanView::steps(*entries_[entry].entry).size());
  for (uint32_t s = 0; s < steps; ++s) run_one(entries_[entry], s);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  last_run_microseconds_ = took.count();
  ++control_.runs;
  return {};
}

Status NullSession::wait(uint64_t timeout_nanoseconds) {
  RLX_RETURN_IF_ERROR(driver_.call("wait"));
  if (timeout_nanoseconds == UINT64_MAX || control_.timeouts == 0) return {};
  --control_.timeouts;
  return {RLX_TIMEOUT, text_of("the run did not end within ", timeout_nanoseconds, " ns")};
}

Status NullSession::profile(uint32_t entry, std::vector<StepTime>& times) {
  RLX_RETURN_IF_ERROR(driver_.call("profiled run"));
  const auto steps = static_cast<uint32_t>(PlanView::steps(*entries_[entry].entry).size());
  times.clear();
  for (uint32_t s = 0; s < steps; ++s) {
    const auto begin = std::chrono::steady_clock::now();
    run_one(entries_[entry], s);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    const bool gemm =
        PlanView::steps(*entries_[entry].entry)[s].kind() == fb::StepKind::LibraryGemm;
    const double told = gemm ? control_.gemm_microseconds : control_.dispatch_microseconds;
    times.push_back({.step = s, .microseconds = told > 0 ? told : took.count()});
  }
  return {};
}

// Algorithm i is made of bytes i + 1; the library suggests the slowest first.
Status NullSession::time_algorithms(uint32_t, uint32_t, uint32_t most,
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

Status NullSession::reset_states() {
  RLX_RETURN_IF_ERROR(driver_.call("reset of the states"));
  for (const fb::State* state : *view_.index().states()) {
    const std::span<std::byte> bytes =
        std::span(state_.bytes).subspan(state->offset_bytes(), state->size_bytes());
    if (bytes.empty()) continue;
    if (state->init() == fb::StateInit::Zeros) std::fill(bytes.begin(), bytes.end(), std::byte{0});
    if (state->init() == fb::StateInit::Ones) fill_with_ones(state->dtype(), bytes);
    if (state->init() == fb::StateInit::Weight) {
      const fb::Weight& weight = *view_.index().weights()->Get(*state->init_weight());
      std::memcpy(bytes.data(), plan_->weights().data() + weight.offset_bytes(), bytes.size());
    }
  }
  return {};
}

Status NullSession::read_after(uint32_t entry, uint32_t step, uint32_t value,
                               std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(driver_.call("run up to a step"));
  for (uint32_t s = 0; s <= step && s < PlanView::steps(*entries_[entry].entry).size(); ++s)
    run_one(entries_[entry], s);
  return read(entry, value, bytes);
}

Status NullSession::poison_arena(std::byte pattern) {
  RLX_RETURN_IF_ERROR(driver_.call("poisoning of the arena"));
  std::fill(arena_.bytes.begin(), arena_.bytes.end(), pattern);
  return {};
}

}  // namespace

std::shared_ptr<Device> open_null_device(std::shared_ptr<NullControl> control) {
  return std::make_shared<NullDevice>(std::move(control));
}

}  // namespace rlx
