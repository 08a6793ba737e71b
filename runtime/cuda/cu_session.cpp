// SPDX-License-Identifier: Apache-2.0
// A session: its memory, its io, and the runs.
#include "runtime/cuda/cu_session.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"

namespace rlx::cuda {
namespace {

using std::chrono::nanoseconds;

// Spinning saves the wake-up of a blocked thread (30 us and more). Runs that are shorter than this
// end while spinning; longer ones are slept through, and spun for around the time at which the last
// one ended.
constexpr nanoseconds kSpin(200000);
constexpr nanoseconds kLongestLead(500000);
// Where a timeout forbids blocking in the driver.
constexpr nanoseconds kPoll(50000);

}  // namespace

Status CudaSession::create(std::shared_ptr<CudaPlan> plan, const SessionOptions& options,
                           std::unique_ptr<DeviceSession>& session) {
  std::unique_ptr<CudaSession> made(new CudaSession(std::move(plan)));
  RLX_RETURN_IF_ERROR(made->context_.health());
  {
    const Current current(made->context_);
    RLX_RETURN_IF_ERROR(current.status());
    RLX_RETURN_IF_ERROR(made->allocate(options));
  }
  for (uint32_t entry = 0; entry < made->view_.entry_count(); ++entry) made->link(entry);
  RLX_RETURN_IF_ERROR(made->reset_states());
  session = std::move(made);
  return {};
}

CudaSession::~CudaSession() {
  if (stream_ == nullptr) return;
  // Nothing may go while the device uses it; a device that does not answer is lost and has stopped.
  const Current current(context_);
  static_cast<void>(context_.check(context_.api.cuStreamSynchronize(stream_), "the last run"));
}

Status CudaSession::allocate(const SessionOptions& options) {
  const PlanHeader& header = view_.header();
  RLX_RETURN_IF_ERROR(Segment::create(context_, "the states", header.state_bytes, state_));
  RLX_RETURN_IF_ERROR(Segment::create(context_, "the arena", header.arena_bytes, arena_));
  RLX_RETURN_IF_ERROR(Segment::create(context_, "io", header.io_bytes, io_));
  RLX_RETURN_IF_ERROR(allocate_index_errors(options.check_indices));
  if (options.stream != nullptr) {
    RLX_RETURN_IF_ERROR(adopt_stream(options.stream));
  } else {
    RLX_RETURN_IF_ERROR(create_stream(context_, own_stream_));
    stream_ = own_stream_.get();
  }
  RLX_RETURN_IF_ERROR(create_stream(context_, capture_));
  const unsigned timing = plan_->profile() ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
  RLX_RETURN_IF_ERROR(create_event(context_, CU_EVENT_BLOCKING_SYNC | timing, ended_));
  if (plan_->profile()) RLX_RETURN_IF_ERROR(create_event(context_, CU_EVENT_DEFAULT, begun_));
  return Staging::create(context_, stream_, io_.size_bytes(), staging_);
}

// Nobody looks at words that the host does not check: these lie where kernels add fastest.
Status CudaSession::allocate_index_errors(bool for_host) {
  const uint64_t size_bytes = view_.header().index_error_bytes;
  if (size_bytes == 0) return {};
  if (!for_host) {
    RLX_RETURN_IF_ERROR(
        Segment::create(context_, "the index errors", size_bytes, device_index_errors_));
    index_errors_ = device_index_errors_.address();
    return {};
  }
  RLX_RETURN_IF_ERROR(
      PinnedMemory::create(context_, "the index errors", size_bytes, host_index_errors_));
  std::memset(host_index_errors_.bytes().data(), 0, size_bytes);
  return host_index_errors_.device_address(context_, index_errors_);
}

std::span<uint32_t> CudaSession::index_errors() {
  const std::span<std::byte> bytes = host_index_errors_.bytes();
  return {reinterpret_cast<uint32_t*>(bytes.data()), bytes.size() / kIndexErrorBytes};
}

Status CudaSession::adopt_stream(void* stream) {
  const auto handle = static_cast<CUstream>(stream);
  CUcontext owner = nullptr;
  RLX_RETURN_IF_ERROR(
      context_.check(context_.api.cuStreamGetCtx(handle, &owner), "the given stream"));
  if (owner != context_.handle) {
    return invalid_argument(text_of("the given stream belongs to another CUDA context than ",
                                    context_.text(), "; adopt the stream's context first"));
  }
  stream_ = handle;
  return {};
}

void CudaSession::link(uint32_t entry) {
  const fb::Entry& record = view_.entry(entry, fb::TargetKind::Cuda);
  EntryState state;
  state.linked.entry = &record;
  for (const IoRange& io : io_ranges(record)) state.io.push_back({.io = io, .bound = {}});
  const auto base = [&](const fb::Value& value) -> CUdeviceptr {
    switch (value.segment()) {
      case fb::Segment::Weights:
        return plan_->weights().address(value.offset_bytes());
      case fb::Segment::State:
        return state_.address(value.offset_bytes());
      case fb::Segment::Arena:
        return arena_.address(value.offset_bytes());
      case fb::Segment::IndexErrors:
        return index_errors_ + value.offset_bytes();
      case fb::Segment::Io:
        break;  // Placed by its slot, below.
    }
    return 0;
  };
  for (const fb::Value* value : *record.values()) state.linked.addresses.push_back(base(*value));
  for (const IoSlot& slot : state.io) state.linked.addresses[slot.io.value] = io_address(slot);
  entries_.push_back(std::move(state));
}

CudaSession::IoSlot& CudaSession::io_slot(EntryState& state, uint32_t value) {
  return *std::find_if(state.io.begin(), state.io.end(),
                       [&](const IoSlot& slot) { return slot.io.value == value; });
}

Status CudaSession::require_idle(std::string_view what) const {
  if (!running_.has_value()) return {};
  return invalid_state(
      text_of(what, ": a run of this session is still under way; wait for it first"));
}

Status CudaSession::synchronise(std::string_view what) {
  RLX_RETURN_IF_ERROR(context_.check(context_.api.cuStreamSynchronize(stream_), what));
  staging_.reset();
  return {};
}

Status CudaSession::prepare(uint32_t entry) {
  EntryState& state = entries_[entry];
  if (state.graph && state.stale_steps.empty()) return {};
  RLX_RETURN_IF_ERROR(require_idle("prepare"));
  RLX_RETURN_IF_ERROR(context_.health());
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  return prepare_graph(state);
}

Status CudaSession::prepare_graph(EntryState& state) {
  const std::span<const fb::Step> steps = PlanView::steps(*state.linked.entry);
  const bool relink = state.graph && std::all_of(state.stale_steps.begin(), state.stale_steps.end(),
                                                 [&](uint32_t step) {
                                                   return EntryGraph::can_relink(steps[step]);
                                                 });
  if (relink) {
    for (const uint32_t step : state.stale_steps)
      RLX_RETURN_IF_ERROR(state.graph.relink(plan_->code(), state.linked, step));
  } else {
    RLX_RETURN_IF_ERROR(
        EntryGraph::create(plan_->code(), state.linked,
                           {.step_count = static_cast<uint32_t>(steps.size()), .events = {}},
                           capture_.get(), state.graph));
    RLX_RETURN_IF_ERROR(
        context_.check(context_.api.cuGraphUpload(state.graph.exec(), stream_), "cuGraphUpload"));
  }
  state.stale_steps.clear();
  return {};
}

Status CudaSession::write(uint32_t entry, uint32_t value, std::span<const std::byte> bytes) {
  RLX_RETURN_IF_ERROR(require_idle("write"));
  RLX_RETURN_IF_ERROR(context_.health());
  const IoSlot& slot = io_slot(entries_[entry], value);
  if (slot.bound.has_value())
    return invalid_state("write: the input lives in a bound buffer; write it there");
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  return staging_.write(io_address(slot), bytes);
}

Status CudaSession::read(uint32_t entry, uint32_t value, std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(require_idle("read"));
  RLX_RETURN_IF_ERROR(context_.health());
  const IoSlot& slot = io_slot(entries_[entry], value);
  if (slot.bound.has_value())
    return invalid_state("read: the output lives in a bound buffer; read it there");
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  return staging_.read(io_address(slot), bytes);
}

Status CudaSession::bind(uint32_t entry, uint32_t value, ExternalBuffer buffer) {
  RLX_RETURN_IF_ERROR(require_idle("bind"));
  EntryState& state = entries_[entry];
  IoSlot& slot = io_slot(state, value);
  slot.bound = buffer.size_bytes == 0 ? std::nullopt : std::optional(buffer.device_address);
  if (state.linked.addresses[value] == io_address(slot)) return {};
  state.linked.addresses[value] = io_address(slot);
  const std::span<const fb::Step> steps = PlanView::steps(*state.linked.entry);
  for (uint32_t s = 0; s < steps.size(); ++s) {
    const std::span<const fb::Relocation> ranges =
        PlanView::relocations(*state.linked.entry, steps[s]);
    const bool touched = std::any_of(ranges.begin(), ranges.end(),
                                     [&](const auto& range) { return range.value() == value; });
    const bool known =
        std::find(state.stale_steps.begin(), state.stale_steps.end(), s) != state.stale_steps.end();
    if (touched && !known) state.stale_steps.push_back(s);
  }
  return {};
}

Status CudaSession::submit(uint32_t entry) {
  RLX_RETURN_IF_ERROR(require_idle("submit"));
  RLX_RETURN_IF_ERROR(context_.health());
  RLX_RETURN_IF_ERROR(prepare(entry));
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  const Api& api = context_.api;
  if (begun_)
    RLX_RETURN_IF_ERROR(context_.check(api.cuEventRecord(begun_.get(), stream_), "submit"));
  RLX_RETURN_IF_ERROR(
      context_.check(api.cuGraphLaunch(entries_[entry].graph.exec(), stream_), "cuGraphLaunch"));
  RLX_RETURN_IF_ERROR(context_.check(api.cuEventRecord(ended_.get(), stream_), "submit"));
  submitted_ = std::chrono::steady_clock::now();
  running_ = entry;
  return {};
}

Status CudaSession::wait_for_end(uint64_t timeout_nanoseconds, nanoseconds expected,
                                 bool& overslept) {
  using Clock = std::chrono::steady_clock;
  const nanoseconds timeout(std::min<uint64_t>(timeout_nanoseconds, INT64_MAX));
  const Clock::time_point start = Clock::now();
  const auto elapsed = [&] { return nanoseconds(Clock::now() - start); };
  const Api& api = context_.api;
  const nanoseconds lead = std::min(expected / 5, kLongestLead);
  const bool sleeps = expected - lead > kSpin;
  if (sleeps) std::this_thread::sleep_for(std::min(expected - lead, timeout));
  const nanoseconds spin_end = std::min(expected + lead + kSpin, timeout);
  CUresult result = api.cuEventQuery(ended_.get());
  overslept = sleeps && result != CUDA_ERROR_NOT_READY;
  while (result == CUDA_ERROR_NOT_READY && elapsed() < spin_end)
    result = api.cuEventQuery(ended_.get());
  if (result == CUDA_ERROR_NOT_READY && timeout_nanoseconds == UINT64_MAX)
    result = api.cuEventSynchronize(ended_.get());
  while (result == CUDA_ERROR_NOT_READY && elapsed() < timeout) {
    std::this_thread::sleep_for(std::min(kPoll, timeout - elapsed()));
    result = api.cuEventQuery(ended_.get());
  }
  if (result == CUDA_ERROR_NOT_READY) {
    return timed_out(text_of("the run did not finish within ", timeout_nanoseconds / 1000,
                             " us on ", context_.info.id));
  }
  return context_.check(result, "the run");
}

Status CudaSession::wait(uint64_t timeout_nanoseconds) {
  if (!running_.has_value()) return {};
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  EntryState& state = entries_[*running_];
  const auto since_submit = [this] {
    return nanoseconds(std::chrono::steady_clock::now() - submitted_);
  };
  const nanoseconds expected = std::max(state.last_duration - since_submit(), nanoseconds(0));
  bool overslept = false;
  const Status status = wait_for_end(timeout_nanoseconds, expected, overslept);
  if (status.code() == RLX_TIMEOUT) return status;
  // How long before its wake-up such a run ended is not known: the next one is slept through for
  // less, until its end is seen.
  state.last_duration = overslept ? since_submit() * 3 / 4 : since_submit();
  running_.reset();
  if (!status.ok()) {
    return {status.code(), text_of("plan ", quoted(view_.name()), ", entry ",
                                   quoted(PlanView::text(state.linked.entry->name())), " on ",
                                   context_.info.id, ": ", status.message())};
  }
  staging_.reset();
  return take_run_time();
}

Status CudaSession::take_run_time() {
  if (!begun_) return {};
  float milliseconds = 0;
  RLX_RETURN_IF_ERROR(
      context_.check(context_.api.cuEventElapsedTime(&milliseconds, begun_.get(), ended_.get()),
                     "cuEventElapsedTime"));
  last_run_microseconds_ = milliseconds * 1e3;
  return {};
}

Status CudaSession::run_once(const EntryGraph& graph, std::string_view what) {
  RLX_RETURN_IF_ERROR(context_.check(context_.api.cuGraphLaunch(graph.exec(), stream_), what));
  return synchronise(what);
}

Status CudaSession::read_after(uint32_t entry, uint32_t step, uint32_t value,
                               std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(require_idle("read_after"));
  RLX_RETURN_IF_ERROR(context_.health());
  EntryState& state = entries_[entry];
  const fb::Value& record = PlanView::value(*state.linked.entry, value);
  if (record.segment() == fb::Segment::Arena &&
      (step < record.first_step() || step > record.last_step())) {
    return invalid_argument(text_of("value ", quoted(PlanView::text(record.name())),
                                    " does not live at step ", step,
                                    ": its bytes are its own from step ", record.first_step(),
                                    " to step ", record.last_step()));
  }
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  EntryGraph graph;
  RLX_RETURN_IF_ERROR(EntryGraph::create(
      plan_->code(), state.linked, {.step_count = step + 1, .events = {}}, capture_.get(), graph));
  RLX_RETURN_IF_ERROR(run_once(graph, "read_after"));
  return staging_.read(state.linked.addresses[value], bytes);
}

Status CudaSession::poison_arena(std::byte pattern) {
  RLX_RETURN_IF_ERROR(require_idle("poison_arena"));
  RLX_RETURN_IF_ERROR(context_.health());
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  RLX_RETURN_IF_ERROR(context_.check(
      context_.api.cuMemsetD8Async(arena_.address(), std::to_integer<unsigned char>(pattern),
                                   arena_.size_bytes(), stream_),
      "poison_arena"));
  return synchronise("poison_arena");
}

}  // namespace rlx::cuda
