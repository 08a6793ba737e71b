// SPDX-License-Identifier: Apache-2.0
// A session: its memory, its io, and the runs.
#include "runtime/cuda/cu_session.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/device/device_names.h"
#include "runtime/device/wait_for_end.h"
#include "runtime/plan/free_sizes.h"

namespace rlx::cuda {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kSpin(200000);
// Where a timeout forbids blocking in the driver.
constexpr nanoseconds kPoll(50000);

// In which states travel where inputs and outputs are smaller: a copy of it takes several times as
// long as waiting for its end.
constexpr uint64_t kStatePieceBytes = uint64_t{1} << 20;

// The end of a run. The driver wakes a blocked thread at the end, but not after a time.
class EventWait {
 public:
  EventWait(const Api& api, CUevent event) : api_(api), event_(event) {}

  bool is_over() {
    result_ = api_.cuEventQuery(event_);
    return result_ != CUDA_ERROR_NOT_READY;
  }
  bool sleep(nanoseconds time) {
    std::this_thread::sleep_for(time);
    overslept_ = is_over();
    return overslept_;
  }
  bool block(nanoseconds most) {
    if (most == nanoseconds::max()) {
      result_ = api_.cuEventSynchronize(event_);
      return true;
    }
    const auto end = std::chrono::steady_clock::now() + most;
    for (nanoseconds left = most; left > nanoseconds(0);
         left = end - std::chrono::steady_clock::now()) {
      std::this_thread::sleep_for(std::min(kPoll, left));
      if (is_over()) return true;
    }
    return false;
  }
  [[nodiscard]] CUresult result() const { return result_; }
  [[nodiscard]] bool overslept() const { return overslept_; }

 private:
  const Api& api_;
  CUevent event_;
  CUresult result_ = CUDA_ERROR_NOT_READY;
  bool overslept_ = false;
};

}  // namespace

Status CudaSession::create(const std::shared_ptr<CudaPlan>& plan, const SessionOptions& options,
                           std::unique_ptr<DeviceSession>& session) {
  std::unique_ptr<CudaSession> made(new CudaSession(plan, options));
  RLX_RETURN_IF_ERROR(made->context_.health());
  {
    const Current current(made->context_);
    RLX_RETURN_IF_ERROR(current.status());
    RLX_RETURN_IF_ERROR(made->allocate(options));
  }
  for (uint32_t entry = 0; entry < made->entry_count(); ++entry) made->link(entry);
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
  const PlanHeader& header = view().header();
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
  const unsigned timing = profiles() ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
  ended_.resize(queue_depth());
  for (OwnedEvent& event : ended_)
    RLX_RETURN_IF_ERROR(create_event(context_, CU_EVENT_BLOCKING_SYNC | timing, event));
  if (profiles()) RLX_RETURN_IF_ERROR(create_event(context_, CU_EVENT_DEFAULT, begun_));
  const uint64_t state_piece_bytes = std::min(header.state_bytes, kStatePieceBytes);
  return Staging::create(context_, stream_, std::max(io_.size_bytes(), state_piece_bytes),
                         staging_);
}

// Nobody looks at words that the host does not check: these lie where kernels add fastest.
Status CudaSession::allocate_index_errors(bool for_host) {
  const uint64_t size_bytes = view().header().index_error_bytes;
  if (size_bytes == 0) return {};
  if (!for_host) {
    RLX_RETURN_IF_ERROR(
        Segment::create(context_, "the index errors", size_bytes, device_index_errors_));
    index_errors_ = device_index_errors_.address();
    return {};
  }
  RLX_RETURN_IF_ERROR(
      PinnedMemory::create(context_, "the index errors", size_bytes, host_index_errors_));
  show_index_errors(host_index_errors_.bytes());
  return host_index_errors_.device_address(context_, index_errors_);
}

Status CudaSession::adopt_stream(void* stream) {
  const auto handle = static_cast<CUstream>(stream);
  CUcontext owner = nullptr;
  RLX_RETURN_IF_ERROR(
      context_.check(context_.api.cuStreamGetCtx(handle, &owner), "the given stream"));
  if (owner != context_.handle) {
    return invalid_argument(text_of("the given stream belongs to another CUDA context than ",
                                    device_text(context_.info),
                                    "; adopt the stream's context first"));
  }
  stream_ = handle;
  return {};
}

LinkedEntry CudaSession::linked(const fb::Entry& record, std::span<const IoSlot> io) const {
  const auto base = [&](const fb::Value& value) -> CUdeviceptr {
    switch (value.segment()) {
      case fb::Segment::Weights:
        return device_plan_.weights().address(value.offset_bytes());
      case fb::Segment::State:
        return bound_address(value).value_or(state_.address(value.offset_bytes()));
      case fb::Segment::Arena:
        return arena_.address(value.offset_bytes());
      case fb::Segment::IndexErrors:
        return index_errors_ + value.offset_bytes();
      case fb::Segment::Io:
        break;  // Placed by its slot, below.
    }
    return 0;
  };
  LinkedEntry linked{.entry = &record, .addresses = {}};
  for (const fb::Value* value : *record.values()) linked.addresses.push_back(base(*value));
  for (const IoSlot& slot : io) linked.addresses[slot.io.value] = io_address(slot);
  return linked;
}

void CudaSession::link(uint32_t program) {
  programs_.resize(std::max<size_t>(programs_.size(), program + size_t{1}));
  ProgramState& state = programs_[program];
  const fb::Entry& unbound = unbound_record(program);
  // Its own, of fixed sizes, whose states have moved; or that of the binding whose place it takes.
  const bool is_own = state.graph && !has_free_sizes(unbound) && state.unbound == &unbound;
  EntryGraph own;
  if (is_own) {
    own = std::move(state.graph);
  } else if (state.graph && state.graph.serves_bindings()) {
    spares_.push_back({.unbound = state.unbound, .graph = std::move(state.graph)});
  }
  state = {};
  state.unbound = &unbound;
  state.linked = linked(record(program), io(program));
  if (!is_own) return;
  state.graph = std::move(own);
  state.stale_steps.resize(PlanView::steps(record(program)).size());
  std::iota(state.stale_steps.begin(), state.stale_steps.end(), 0u);
}

// ---- graphs of bindings ----

// Many values of a size are met once, and making a graph takes longer than such a run: a
// millisecond for 300 steps. Giving another binding's graph new params, and the device what
// changed, takes a third of that, destroying one almost half a millisecond. So the first run of a
// binding puts its steps on the stream. The second takes the graph of a binding that nobody keeps,
// if one suits; else it goes as the first, and while it is under way a graph is made.

bool CudaSession::begins_with_steps(uint32_t program) const {
  return has_free_sizes(*programs_[program].unbound) && can_launch_steps(record(program));
}

void CudaSession::drop_surplus_spares() {
  // Bindings of a record have as many ways to launch their kernels.
  constexpr std::ptrdiff_t kMostOfRecord = 8;
  for (size_t i = 0; i < spares_.size();) {
    const auto is_of_record = [&](const Spare& s) { return s.unbound == spares_[i].unbound; };
    if (std::ranges::count_if(spares_, is_of_record) <= kMostOfRecord) {
      ++i;
    } else {
      spares_.erase(spares_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

Status CudaSession::take_spare(uint32_t program) {
  const auto found = std::ranges::find_if(spares_, [&](const Spare& spare) {
    return spare.unbound == programs_[program].unbound &&
           spare.graph.can_relink_all(code(program), record(program));
  });
  if (found == spares_.end()) return {};
  EntryGraph graph = std::move(found->graph);
  spares_.erase(found);
  ProgramState& state = programs_[program];
  const auto count = static_cast<uint32_t>(PlanView::steps(record(program)).size());
  for (uint32_t step = 0; step < count; ++step)
    RLX_RETURN_IF_ERROR(graph.relink(code(program), state.linked, step));
  state.graph = std::move(graph);
  return {};
}

void CudaSession::use_time_of_run(uint32_t program) {
  ProgramState& state = programs_[program];
  if (!begins_with_steps(program)) return;
  const Current current(context_);
  if (!current.status().ok()) return;
  drop_surplus_spares();
  if (state.graph || state.launches != 2) return;
  // Where it cannot be made, the next run tries again and tells.
  EntryGraph graph;
  if (make_graph(code(program), state.linked, graph).ok()) state.graph = std::move(graph);
}

Status CudaSession::make_graph(const StepCode& code, const LinkedEntry& linked, EntryGraph& graph) {
  const auto count = static_cast<uint32_t>(PlanView::steps(*linked.entry).size());
  return EntryGraph::create(code, linked, {.step_count = count, .events = {}}, capture_.get(),
                            graph);
}

Status CudaSession::prepare_products(uint32_t program) {
  ProgramState& state = programs_[program];
  if (state.gemms || &view_of(program) == &view()) return {};
  GemmSet gemms;
  RLX_RETURN_IF_ERROR(
      device_plan_.gemms().at_binding(context_, view_of(program), record(program), gemms));
  state.gemms = std::move(gemms);
  return {};
}

StepCode CudaSession::code(uint32_t program) const {
  const std::optional<GemmSet>& gemms = programs_[program].gemms;
  return device_plan_.code(view_of(program), gemms ? *gemms : device_plan_.gemms());
}

Status CudaSession::synchronise(std::string_view what) {
  RLX_RETURN_IF_ERROR(context_.check(context_.api.cuStreamSynchronize(stream_), what));
  staging_.reset();
  return {};
}

Status CudaSession::prepare_program(uint32_t program) {
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  RLX_RETURN_IF_ERROR(prepare_products(program));
  ProgramState& state = programs_[program];
  const bool relink =
      state.graph &&
      std::all_of(state.stale_steps.begin(), state.stale_steps.end(), [&](uint32_t step) {
        return state.graph.can_relink(code(program), *state.linked.entry, step);
      });
  if (relink) {
    for (const uint32_t step : state.stale_steps)
      RLX_RETURN_IF_ERROR(state.graph.relink(code(program), state.linked, step));
  } else if (begins_with_steps(program)) {
    state.graph = {};
  } else {
    RLX_RETURN_IF_ERROR(make_graph(code(program), state.linked, state.graph));
  }
  state.stale_steps.clear();
  return {};
}

Status CudaSession::write_io(const IoSlot& slot, std::span<const std::byte> bytes) {
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  return staging_.write(io_address(slot), bytes);
}

Status CudaSession::read_io(const IoSlot& slot, std::span<std::byte> bytes) {
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  return staging_.read(io_address(slot), bytes);
}

void CudaSession::move_io(uint32_t program, const IoSlot& slot) {
  ProgramState& state = programs_[program];
  state.linked.addresses[slot.io.value] = io_address(slot);
  const std::span<const fb::Step> steps = PlanView::steps(*state.linked.entry);
  for (uint32_t s = 0; s < steps.size(); ++s) {
    const std::span<const fb::Relocation> ranges =
        PlanView::relocations(*state.linked.entry, steps[s]);
    const bool touched = std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
      return range.value() == slot.io.value;
    });
    const bool known =
        std::find(state.stale_steps.begin(), state.stale_steps.end(), s) != state.stale_steps.end();
    if (touched && !known) state.stale_steps.push_back(s);
  }
}

Status CudaSession::launch(uint32_t program, uint32_t slot) {
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  const Api& api = context_.api;
  if (begun_)
    RLX_RETURN_IF_ERROR(context_.check(api.cuEventRecord(begun_.get(), stream_), "submit"));
  ProgramState& state = programs_[program];
  ++state.launches;
  if (!state.graph && state.launches == 2) RLX_RETURN_IF_ERROR(take_spare(program));
  if (!state.graph && state.launches > 2)
    RLX_RETURN_IF_ERROR(make_graph(code(program), state.linked, state.graph));
  RLX_RETURN_IF_ERROR(
      state.graph ? context_.check(api.cuGraphLaunch(state.graph.exec(), stream_), "cuGraphLaunch")
                  : launch_steps(code(program), state.linked, stream_));
  return context_.check(api.cuEventRecord(ended_[slot].get(), stream_), "submit");
}

SessionBase::RunEnd CudaSession::wait_for_run(uint32_t slot, uint64_t timeout_nanoseconds,
                                              nanoseconds expected) {
  const Current current(context_);
  if (!current.status().ok()) return {.status = current.status(), .is_over = false};
  EventWait work(context_.api, ended_[slot].get());
  const WaitTimes times{
      .timeout_nanoseconds = timeout_nanoseconds, .expected = expected, .spin = kSpin};
  if (!wait_for_end(work, times)) {
    return {.status = out_of_time("the run", timeout_nanoseconds, context_.info), .is_over = false};
  }
  return {.status = context_.check(work.result(), "the run"), .overslept = work.overslept()};
}

Status CudaSession::finish_run(double& microseconds) {
  staging_.reset();
  if (!begun_) return {};
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  return microseconds_between(context_, begun_.get(), ended_[last_slot()].get(), microseconds);
}

Status CudaSession::run_once(const EntryGraph& graph, std::string_view what) {
  RLX_RETURN_IF_ERROR(context_.check(context_.api.cuGraphLaunch(graph.exec(), stream_), what));
  return synchronise(what);
}

Status CudaSession::run_and_read(uint32_t program, uint32_t step, uint32_t value,
                                 std::span<std::byte> bytes) {
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  RLX_RETURN_IF_ERROR(prepare_products(program));
  const LinkedEntry& linked = programs_[program].linked;
  EntryGraph graph;
  RLX_RETURN_IF_ERROR(EntryGraph::create(
      code(program), linked, {.step_count = step + 1, .events = {}}, capture_.get(), graph));
  RLX_RETURN_IF_ERROR(run_once(graph, "read_after"));
  return staging_.read(linked.addresses[value], bytes);
}

Status CudaSession::fill_arena(std::byte pattern) {
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  RLX_RETURN_IF_ERROR(context_.check(
      context_.api.cuMemsetD8Async(arena_.address(), std::to_integer<unsigned char>(pattern),
                                   arena_.size_bytes(), stream_),
      "poison_arena"));
  return synchronise("poison_arena");
}

}  // namespace rlx::cuda
