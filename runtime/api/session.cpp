// SPDX-License-Identifier: Apache-2.0
// One user of a plan on a device.
#include "runtime/api/session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/base/dtype.h"
#include "runtime/base/text.h"
#include "runtime/plan/free_sizes.h"

namespace rlx {
namespace {

std::span<const uint64_t> dims_of(const fb::Value& value) {
  return {value.dims()->data(), value.dims()->size()};
}

std::string name_of(const fb::Value& value) {
  return quoted(PlanView::text(value.name()));
}

// What a word of index errors counts where it is not indices outside; else empty.
std::string_view assertion_of(const fb::Entry& record, uint32_t word) {
  if (record.assertions() == nullptr) return {};
  for (const fb::Assertion* assertion : *record.assertions()) {
    if (assertion->word() == word) return PlanView::text(assertion->text());
  }
  return {};
}

}  // namespace

Status Session::create(std::shared_ptr<const PlanView> plan, std::shared_ptr<DevicePlan> loaded,
                       bool profile, const SessionOptions& options,
                       std::unique_ptr<Session>& session) {
  std::unique_ptr<Session> made(new Session);
  made->plan_ = std::move(plan);
  made->loaded_ = std::move(loaded);
  made->profile_ = profile;
  RLX_RETURN_IF_ERROR(made->loaded_->create_session(options, made->device_session_));
  for (uint32_t e = 0; e < made->plan_->entry_count(); ++e) {
    const fb::Entry& entry = made->record(e);
    Ports ports{.sizes =
                    EntrySizes(made->plan_->index(), made->plan_->entry_ranges(e, made->target()))};
    if (ports.sizes.is_free()) {
      for (const fb::Entry* record : made->plan_->entry_ranges(e, made->target()))
        ports.images.push_back(image_of(*record));
    }
    for (const uint32_t v : *entry.inputs()) {
      // An input of no bytes holds all it ever will.
      ports.inputs.push_back({.value = v, .is_set = PlanView::value(entry, v).size_bytes() == 0});
    }
    for (const uint32_t v : *entry.outputs()) ports.outputs.push_back({.value = v});
    made->entries_.push_back(std::move(ports));
    made->find_index_words(e);
  }
  made->queue_.resize(options.queue_depth);
  made->bound_states_.resize(made->plan_->index().states()->size());
  session = std::move(made);
  return {};
}

Session::~Session() {
  // Whatever these waits say, the runs are over or the device is gone.
  for (; is_running(); ++end_count_) static_cast<void>(device_session_->wait(UINT64_MAX));
}

std::string Session::entry_text(uint32_t entry) const {
  return text_of("entry ", quoted(PlanView::text(record(entry).name())));
}

Status Session::check_entry(uint32_t entry) const {
  if (entry < plan_->entry_count()) return {};
  return {RLX_INVALID_ARGUMENT,
          text_of("there is no entry ", entry, ", the plan has ", plan_->entry_count())};
}

Status Session::check_idle() const {
  if (!is_running()) return {};
  return {RLX_INVALID_STATE, text_of("a run of ", entry_text(queue_[end_count_ % queue_.size()]),
                                     " is under way; wait for it first")};
}

Status Session::check_room_in_queue() const {
  if (submit_count_ - end_count_ < queue_.size()) return {};
  if (queue_.size() == 1) return check_idle();
  return {RLX_INVALID_STATE,
          text_of("the queue of ", queue_.size(),
                  " runs is full; wait for one first, or create the session with a larger ",
                  "queue_depth")};
}

Status Session::find_port(PortKind kind, uint32_t entry, std::string_view name, Port*& port) {
  std::vector<Port>& ports =
      kind == PortKind::Input ? entries_[entry].inputs : entries_[entry].outputs;
  for (Port& candidate : ports) {
    if (PlanView::text(value_of(entry, candidate).name()) == name) {
      port = &candidate;
      return {};
    }
  }
  std::vector<std::string_view> names;
  for (const Port& candidate : ports)
    names.push_back(PlanView::text(value_of(entry, candidate).name()));
  const std::string_view what = kind == PortKind::Input ? "input" : "output";
  return {RLX_INVALID_ARGUMENT, text_of(entry_text(entry), " has no ", what, " ", quoted(name),
                                        "; its ", what, "s are ", list_text(names))};
}

void Session::claim_io(uint32_t entry) {
  if (io_owner_ == entry) return;
  if (io_owner_.has_value()) {
    Ports& previous = entries_[*io_owner_];
    previous.outputs_valid = false;
    for (Port& input : previous.inputs) {
      if (input.bound.has_value() || value_of(*io_owner_, input).size_bytes() == 0) continue;
      input.is_set = false;
      previous.sizes.forget_input(input_number(*io_owner_, input));
    }
  }
  io_owner_ = entry;
}

Status Session::prepare(uint32_t entry) {
  RLX_RETURN_IF_ERROR(check_entry(entry));
  RLX_RETURN_IF_ERROR(check_idle());
  RLX_RETURN_IF_ERROR(bind_agreed_sizes(entry));
  if (entries_[entry].prepared && !has_free_sizes(entry)) return {};
  RLX_RETURN_IF_ERROR(device_session_->prepare(entry));
  entries_[entry].prepared = true;
  return {};
}

Status Session::check_tensor(uint32_t entry, const Port& port, const HostTensor& tensor) const {
  const fb::Entry& program = record(entry);
  const fb::Value& value = value_of(entry, port);
  const std::span<const uint64_t> wanted = dims_of(value);
  bool same = value.dtype() == tensor.dtype && wanted.size() == tensor.dims.size();
  for (uint32_t axis = 0; same && axis < wanted.size(); ++axis) {
    const bool is_free = find_patch(program, fb::PatchField::ValueDim, port.value, axis) != nullptr;
    same = is_free || wanted[axis] == tensor.dims[axis];
  }
  if (!same) {
    return {RLX_INVALID_ARGUMENT,
            text_of("input ", name_of(value), " of ", entry_text(entry), " got ",
                    tensor_text(tensor.dtype, tensor.dims), ", wanted ",
                    has_free_sizes(entry) ? text_of(dtype_row(value.dtype())->name,
                                                    dims_text(plan_->index(), program, port.value))
                                          : tensor_text(value.dtype(), wanted))};
  }
  if (has_free_sizes(entry))
    RLX_RETURN_IF_ERROR(entries_[entry].sizes.check_input(input_number(entry, port), tensor.dims));
  const uint64_t bytes = *tensor_bytes(value.dtype(), tensor.dims);
  if (tensor.bytes.size() == bytes) return {};
  return {RLX_INVALID_ARGUMENT,
          text_of("input ", name_of(value), " of ", entry_text(entry), " got ", tensor.bytes.size(),
                  " bytes, wanted ", bytes, " for ", tensor_text(value.dtype(), tensor.dims))};
}

Status Session::set_input(uint32_t entry, std::string_view name, const HostTensor& tensor) {
  RLX_RETURN_IF_ERROR(check_entry(entry));
  RLX_RETURN_IF_ERROR(check_idle());
  Port* port = nullptr;
  RLX_RETURN_IF_ERROR(find_port(PortKind::Input, entry, name, port));
  const fb::Value& value = value_of(entry, *port);
  RLX_RETURN_IF_ERROR(check_tensor(entry, *port, tensor));
  if (port->bound.has_value()) {
    return {RLX_INVALID_STATE,
            text_of("input ", name_of(value), " of ", entry_text(entry),
                    " is bound to the caller's memory; write there, or bind it with size 0 first")};
  }
  claim_io(entry);
  // Until the copy has succeeded the input holds neither the old nor the new tensor.
  port->is_set = false;
  RLX_RETURN_IF_ERROR(device_session_->write(entry, port->value, tensor.bytes));
  port->is_set = true;
  if (has_free_sizes(entry))
    forget_outputs(entry,
                   entries_[entry].sizes.take_input(input_number(entry, *port), tensor.dims));
  return {};
}

Status Session::check_overlap(PortKind kind, uint32_t entry, const Port& port,
                              ExternalBuffer buffer) const {
  const auto check_list = [&](const std::vector<Port>& ports) -> Status {
    for (const Port& other : ports) {
      if (&other == &port || !other.bound.has_value() || !overlap(buffer, *other.bound)) continue;
      return {RLX_INVALID_ARGUMENT,
              text_of("the memory for ", name_of(value_of(entry, port)), " of ", entry_text(entry),
                      " overlaps that of ", name_of(value_of(entry, other)),
                      ", and one of them is an output")};
    }
    return {};
  };
  RLX_RETURN_IF_ERROR(check_list(entries_[entry].outputs));
  if (kind == PortKind::Output) RLX_RETURN_IF_ERROR(check_list(entries_[entry].inputs));
  return check_apart_from_states(text_of(name_of(value_of(entry, port)), " of ", entry_text(entry)),
                                 buffer, std::nullopt);
}

Status Session::bind(PortKind kind, uint32_t entry, std::string_view name, ExternalBuffer buffer) {
  RLX_RETURN_IF_ERROR(check_entry(entry));
  RLX_RETURN_IF_ERROR(check_idle());
  Port* port = nullptr;
  RLX_RETURN_IF_ERROR(find_port(kind, entry, name, port));
  const fb::Value& value = value_of(entry, *port);
  const bool gives_back = buffer.size_bytes == 0;
  if (gives_back && !port->bound.has_value()) return {};
  if (!gives_back) {
    // Which size a free one must have is known when the entry runs.
    const uint64_t least_bytes = has_free_sizes(entry) ? 0 : value.size_bytes();
    RLX_RETURN_IF_ERROR(
        check_memory(text_of(name_of(value), " of ", entry_text(entry)), buffer,
                     {.alignment_bytes = kIoAlignmentBytes, .size_bytes = least_bytes}));
    RLX_RETURN_IF_ERROR(check_overlap(kind, entry, *port, buffer));
  }
  RLX_RETURN_IF_ERROR(device_session_->bind(entry, port->value, buffer));
  port->bound = gives_back ? std::nullopt : std::optional(buffer);
  if (kind == PortKind::Input) {
    port->is_set = !gives_back || value.size_bytes() == 0;
    entries_[entry].sizes.forget_input(input_number(entry, *port));
  }
  entries_[entry].outputs_valid = entries_[entry].outputs_valid && kind == PortKind::Input;
  entries_[entry].prepared = false;
  return {};
}

Status Session::bind_input(uint32_t entry, std::string_view name, ExternalBuffer buffer) {
  return bind(PortKind::Input, entry, name, buffer);
}

Status Session::bind_output(uint32_t entry, std::string_view name, ExternalBuffer buffer) {
  return bind(PortKind::Output, entry, name, buffer);
}

Status Session::check_inputs_set(uint32_t entry) const {
  const Ports& ports = entries_[entry];
  if (std::all_of(ports.inputs.begin(), ports.inputs.end(),
                  [](const Port& input) { return input.is_set; }))
    return {};
  std::vector<std::string_view> missing;
  for (const Port& input : ports.inputs) {
    if (!input.is_set) missing.push_back(PlanView::text(value_of(entry, input).name()));
  }
  const bool taken = io_owner_.has_value() && *io_owner_ != entry;
  return {RLX_INVALID_STATE, text_of("input ", list_text(missing), " of ", entry_text(entry),
                                     missing.size() == 1 ? " was" : " were", " never set",
                                     taken ? text_of(" since ", entry_text(*io_owner_),
                                                     " used the memory that entries share")
                                           : "")};
}

Status Session::begin_run(uint32_t entry) {
  RLX_RETURN_IF_ERROR(check_inputs_set(entry));
  RLX_RETURN_IF_ERROR(bind_agreed_sizes(entry));
  RLX_RETURN_IF_ERROR(check_buffers(entry));
  claim_io(entry);
  entries_[entry].outputs_valid = false;
  return {};
}

Status Session::submit(uint32_t entry) {
  RLX_RETURN_IF_ERROR(check_entry(entry));
  RLX_RETURN_IF_ERROR(check_room_in_queue());
  RLX_RETURN_IF_ERROR(begin_run(entry));
  RLX_RETURN_IF_ERROR(device_session_->submit(entry));
  slot_of(submit_count_) = entry;
  ++submit_count_;
  return {};
}

Status Session::wait_for_oldest(uint64_t timeout_nanoseconds) {
  Status status = device_session_->wait(timeout_nanoseconds);
  if (status.code() == RLX_TIMEOUT) return status;
  const uint32_t entry = slot_of(end_count_);
  ++end_count_;
  // A later run may have taken the memory that entries share.
  if (io_owner_ == entry) entries_[entry].outputs_valid = status.ok();
  return status.ok() ? take_index_errors(entry) : status;
}

Status Session::wait_for(uint64_t run, uint64_t timeout_nanoseconds) {
  using std::chrono::steady_clock;
  if (run > submit_count_) {
    return {RLX_INVALID_ARGUMENT,
            text_of("there is no run ", run, ", the session has submitted ", submit_count_)};
  }
  const steady_clock::time_point begin = steady_clock::now();
  Status first_failure;
  uint64_t left = timeout_nanoseconds;
  while (end_count_ < run) {
    Status status = wait_for_oldest(left);
    if (status.code() == RLX_TIMEOUT) return first_failure.ok() ? status : first_failure;
    if (first_failure.ok()) first_failure = std::move(status);
    if (timeout_nanoseconds == RLX_NO_TIMEOUT) continue;
    const auto elapsed =
        static_cast<uint64_t>(std::chrono::nanoseconds(steady_clock::now() - begin).count());
    left = timeout_nanoseconds - std::min(elapsed, timeout_nanoseconds);
  }
  return first_failure;
}

void Session::find_index_words(uint32_t entry) {
  if (device_session_->index_errors().empty()) return;
  for (const fb::Entry* record : plan_->entry_ranges(entry, target())) {
    const std::span<const fb::Step> steps = PlanView::steps(*record);
    for (uint32_t s = 0; s < steps.size(); ++s) {
      for (const fb::Relocation& range : PlanView::relocations(*record, steps[s])) {
        const fb::Value& value = PlanView::value(*record, range.value());
        if (value.segment() != fb::Segment::IndexErrors) continue;
        const auto word = static_cast<uint32_t>(value.offset_bytes() / kIndexErrorBytes);
        entries_[entry].index_words.push_back({.record = record,
                                               .step = s,
                                               .word = word,
                                               .assertion = assertion_of(*record, range.value())});
      }
    }
  }
}

Status Session::take_index_errors(uint32_t entry) {
  const std::span<uint32_t> counts = device_session_->index_errors();
  const IndexWord* failed = nullptr;  // the first assertion
  const IndexWord* first = nullptr;   // that counted indices outside
  uint32_t first_count = 0;
  uint32_t others = 0;
  for (const IndexWord& word : entries_[entry].index_words) {
    if (word.record != &bound_from(entry)) continue;
    const uint32_t count = std::exchange(counts[word.word], 0);
    if (count == 0) continue;
    if (!word.assertion.empty()) {
      if (failed == nullptr) failed = &word;
      continue;
    }
    others += first != nullptr ? 1 : 0;
    if (first != nullptr) continue;
    first = &word;
    first_count = count;
  }
  // Where something does not hold, indices outside may be what comes of it.
  if (failed != nullptr) {
    return {RLX_ASSERTION_FAILED,
            text_of(entry_text(entry), ", ", plan_->describe_step(*failed->record, failed->step),
                    ": ", failed->assertion)};
  }
  if (first == nullptr) return {};
  return {RLX_INDEX_OUT_OF_RANGE,
          text_of(entry_text(entry), ", ", plan_->describe_step(*first->record, first->step), ": ",
                  first_count, first_count == 1 ? " index lies" : " indices lie", " outside",
                  others == 0 ? ""
                              : text_of("; so do indices of ", others, " other step",
                                        others == 1 ? "" : "s"))};
}

Status Session::run(uint32_t entry) {
  RLX_RETURN_IF_ERROR(submit(entry));
  return wait(UINT64_MAX);
}

Status Session::read_output(uint32_t entry, std::string_view name, std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(check_entry(entry));
  RLX_RETURN_IF_ERROR(check_idle());
  Port* port = nullptr;
  RLX_RETURN_IF_ERROR(find_port(PortKind::Output, entry, name, port));
  const auto place = [&] { return text_of("output ", quoted(name), " of ", entry_text(entry)); };
  if (port->bound.has_value()) {
    return {RLX_INVALID_STATE, text_of(place(), " is bound to the caller's memory; read it there")};
  }
  if (!entries_[entry].outputs_valid && has_free_sizes(entry)) {
    return {
        RLX_INVALID_STATE,
        text_of(place(), " is not there: no run of this entry has finished since its memory was ",
                "last used, or one of its symbols got another value")};
  }
  BoundEntry present;
  RLX_RETURN_IF_ERROR(bound_entry(entry, present));
  const auto number = static_cast<uint32_t>(port - entries_[entry].outputs.data());
  const fb::Value& value = PlanView::value(*present.record, present.record->outputs()->Get(number));
  if (bytes.size() != value.size_bytes()) {
    return {RLX_INVALID_ARGUMENT,
            text_of(place(), " got room for ", bytes.size(), " bytes, wanted ", value.size_bytes(),
                    " for ", tensor_text(value.dtype(), dims_of(value)))};
  }
  if (!entries_[entry].outputs_valid) {
    return {
        RLX_INVALID_STATE,
        text_of(place(),
                " is not there: no run of this entry has finished since its memory was last used")};
  }
  return device_session_->read(entry, port->value, bytes);
}

Status Session::check_room_for_steps(uint32_t entry, uint32_t capacity) const {
  RLX_RETURN_IF_ERROR(check_entry(entry));
  RLX_RETURN_IF_ERROR(entries_[entry].sizes.check_record());
  const size_t step_count = PlanView::steps(bound_from(entry)).size();
  if (capacity >= step_count) return {};
  return {RLX_INVALID_ARGUMENT, text_of("there is room for the times of ", capacity, " steps, ",
                                        entry_text(entry), " has ", step_count)};
}

Status Session::profile(uint32_t entry, std::vector<StepTime>& times) {
  if (!profile_) return {RLX_INVALID_STATE, "the session was created without the option profile"};
  RLX_RETURN_IF_ERROR(check_entry(entry));
  RLX_RETURN_IF_ERROR(check_idle());
  RLX_RETURN_IF_ERROR(begin_run(entry));
  RLX_RETURN_IF_ERROR(device_session_->profile(entry, times));
  entries_[entry].outputs_valid = true;
  return take_index_errors(entry);
}

Status Session::last_run_microseconds(double& microseconds) const {
  if (!profile_) return {RLX_INVALID_STATE, "the session was created without the option profile"};
  RLX_RETURN_IF_ERROR(check_idle());
  microseconds = device_session_->last_run_microseconds();
  return {};
}

Status Session::read_value(uint32_t entry, uint32_t step, uint32_t value_index,
                           std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(check_entry(entry));
  RLX_RETURN_IF_ERROR(check_idle());
  BoundEntry present;
  RLX_RETURN_IF_ERROR(bound_entry(entry, present));
  const fb::Entry& program = *present.record;
  const size_t step_count = PlanView::steps(program).size();
  if (step >= step_count || value_index >= program.values()->size()) {
    return {
        RLX_INVALID_ARGUMENT,
        text_of("there is no value ", value_index, " after step ", step, " of ", entry_text(entry),
                ", which has ", program.values()->size(), " values and ", step_count, " steps")};
  }
  const fb::Value& value = PlanView::value(program, value_index);
  if (step < value.first_step() || step > value.last_step()) {
    return {RLX_INVALID_ARGUMENT,
            text_of("value ", name_of(value), " of ", entry_text(entry), " lives from step ",
                    value.first_step(), " to ", value.last_step(), ", not after step ", step)};
  }
  if (bytes.size() != value.size_bytes()) {
    return {RLX_INVALID_ARGUMENT,
            text_of("value ", name_of(value), " of ", entry_text(entry), " got room for ",
                    bytes.size(), " bytes, wanted ", value.size_bytes())};
  }
  RLX_RETURN_IF_ERROR(begin_run(entry));
  Status status = device_session_->read_after(entry, step, value_index, bytes);
  for (uint32_t& count : device_session_->index_errors()) count = 0;
  return status;
}

Status Session::poison_arena(std::byte pattern) {
  RLX_RETURN_IF_ERROR(check_idle());
  return device_session_->poison_arena(pattern);
}

}  // namespace rlx
