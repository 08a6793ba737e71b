// SPDX-License-Identifier: Apache-2.0
// A session: its memory, its io, and the runs.
#include "runtime/vulkan/vk_session.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"

namespace rlx::vulkan {
namespace {

uint64_t round_up(uint64_t bytes, uint64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

Status create_timestamps(Context& context, uint32_t count, OwnedQueryPool& pool) {
  if (context.physical.timestamp_valid_bits == 0) {
    return unsuitable(text_of("profiling was asked for, but the queue of device ",
                              context.physical.info.id, " has no timestamps"));
  }
  const VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                      .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                      .queryCount = count};
  VkQueryPool handle = VK_NULL_HANDLE;
  RLX_RETURN_IF_ERROR(context.check(
      context.api.vkCreateQueryPool(context.device, &info, nullptr, &handle), "vkCreateQueryPool"));
  pool = OwnedQueryPool(context, handle);
  return {};
}

Status read_timestamps(Context& context, VkQueryPool pool, std::span<uint64_t> ticks) {
  return context.check(
      context.api.vkGetQueryPoolResults(
          context.device, pool, 0, static_cast<uint32_t>(ticks.size()), ticks.size_bytes(),
          ticks.data(), sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
      "vkGetQueryPoolResults");
}

// Ticks count modulo the valid bits.
double microseconds_between(const PhysicalDevice& device, uint64_t begin, uint64_t end) {
  const uint64_t mask = device.timestamp_valid_bits >= 64
                            ? UINT64_MAX
                            : (uint64_t{1} << device.timestamp_valid_bits) - 1;
  return static_cast<double>((end - begin) & mask) * device.timestamp_nanoseconds / 1000;
}

void copy_buffer(const Context& context, VkCommandBuffer commands, VkBuffer source,
                 uint64_t source_offset, VkBuffer target, uint64_t target_offset,
                 uint64_t size_bytes) {
  if (size_bytes == 0) return;
  const VkBufferCopy region = {
      .srcOffset = source_offset, .dstOffset = target_offset, .size = size_bytes};
  context.api.vkCmdCopyBuffer(commands, source, target, 1, &region);
}

}  // namespace

Status VulkanSession::create(std::shared_ptr<VulkanPlan> plan, const SessionOptions& options,
                             std::unique_ptr<DeviceSession>& session) {
  std::unique_ptr<VulkanSession> made(new VulkanSession(std::move(plan)));
  RLX_RETURN_IF_ERROR(made->context_.health());
  RLX_RETURN_IF_ERROR(made->allocate(options));
  for (uint32_t entry = 0; entry < made->view_.entry_count(); ++entry) made->link(entry);
  RLX_RETURN_IF_ERROR(made->reset_states());
  session = std::move(made);
  return {};
}

VulkanSession::~VulkanSession() {
  // Nothing may go while the device uses it; a device that does not answer is lost and has stopped.
  if (running_.has_value())
    static_cast<void>(context_.wait(fence_.get(), UINT64_MAX, "the last run"));
}

Status VulkanSession::allocate(const SessionOptions& options) {
  std::vector<SegmentPart> state_parts;
  for (const fb::State* state : *view_.index().states()) {
    state_parts.push_back({.offset_bytes = state->offset_bytes(),
                           .size_bytes = state->size_bytes(),
                           .name = PlanView::text(state->name())});
  }
  std::vector<SegmentPart> arena_parts;
  for (uint32_t entry = 0; entry < view_.entry_count(); ++entry)
    append_arena_parts(view_.entry(entry, fb::TargetKind::Vulkan), arena_parts);
  RLX_RETURN_IF_ERROR(Segment::create(context_, "state", view_.header().state_bytes,
                                      std::move(state_parts), state_));
  RLX_RETURN_IF_ERROR(Segment::create(context_, "the arena", view_.header().arena_bytes,
                                      std::move(arena_parts), arena_));
  RLX_RETURN_IF_ERROR(allocate_index_errors(options.check_indices));
  RLX_RETURN_IF_ERROR(allocate_io());
  if (plan_->profile()) RLX_RETURN_IF_ERROR(create_timestamps(context_, 2, run_times_));
  RLX_RETURN_IF_ERROR(CommandPool::create(context_, pool_));
  RLX_RETURN_IF_ERROR(create_fence(context_, fence_));
  return pool_.allocate(context_, once_);
}

// Nobody looks at words that the host does not check: these lie where kernels add fastest.
Status VulkanSession::allocate_index_errors(bool for_host) {
  const uint64_t size_bytes = view_.header().index_error_bytes;
  if (size_bytes == 0) return {};
  if (!for_host) {
    return create_buffer(context_, size_bytes, MemoryUse::Device, "index errors", index_errors_);
  }
  RLX_RETURN_IF_ERROR(
      create_buffer(context_, size_bytes, MemoryUse::Shared, "index errors", index_errors_));
  index_errors_for_host_ = true;
  std::memset(index_errors_.mapped, 0, size_bytes);
  return {};
}

std::span<uint32_t> VulkanSession::index_errors() {
  if (!index_errors_for_host_) return {};
  return {reinterpret_cast<uint32_t*>(index_errors_.mapped),
          view_.header().index_error_bytes / kIndexErrorBytes};
}

Status VulkanSession::allocate_io() {
  const uint64_t size_bytes = view_.header().io_bytes;
  RLX_RETURN_IF_ERROR(create_buffer(context_, size_bytes, MemoryUse::Io, "io", io_));
  if (io_.mapped == nullptr) {
    RLX_RETURN_IF_ERROR(
        create_buffer(context_, size_bytes, MemoryUse::Upload, "the inputs' staging", upload_));
  }
  if (io_.mapped == nullptr || !io_.host_cached) {
    RLX_RETURN_IF_ERROR(create_buffer(context_, size_bytes, MemoryUse::Readback,
                                      "the outputs' staging", download_));
  }
  return {};
}

void VulkanSession::link(uint32_t entry) {
  const fb::Entry& record = view_.entry(entry, fb::TargetKind::Vulkan);
  EntryState state;
  state.linked.entry = &record;
  uint64_t io_bytes = 0;
  const auto add_slot = [&](uint32_t value, bool is_input) {
    const uint64_t size_bytes = PlanView::value(record, value).size_bytes();
    state.io.push_back(
        {.value = value, .offset_bytes = io_bytes, .size_bytes = size_bytes, .is_input = is_input});
    io_bytes += round_up(size_bytes, kArenaAlignmentBytes);
  };
  for (const uint32_t value : *record.inputs()) add_slot(value, true);
  for (const uint32_t value : *record.outputs()) add_slot(value, false);

  state.linked.places.resize(record.values()->size());
  for (uint32_t i = 0; i < state.linked.places.size(); ++i) {
    const fb::Value& value = PlanView::value(record, i);
    Place& place = state.linked.places[i];
    switch (value.segment()) {
      case fb::Segment::Weights:
        place = plan_->weights().place(value.offset_bytes());
        break;
      case fb::Segment::State:
        place = state_.place(value.offset_bytes());
        break;
      case fb::Segment::Arena:
        place = arena_.place(value.offset_bytes());
        break;
      case fb::Segment::IndexErrors:
        place = {.buffer = index_errors_.buffer.get(),
                 .offset_bytes = value.offset_bytes(),
                 .address = index_errors_.address + value.offset_bytes()};
        break;
      case fb::Segment::Io:
        break;  // Placed by its slot, below.
    }
  }
  for (const IoSlot& slot : state.io) state.linked.places[slot.value] = io_place(slot);
  entries_.push_back(std::move(state));
}

Place VulkanSession::io_place(const IoSlot& slot) const {
  if (slot.bound_address.has_value()) return {.address = *slot.bound_address};
  return {.buffer = io_.buffer.get(),
          .offset_bytes = slot.offset_bytes,
          .address = io_.address + slot.offset_bytes,
          .mapped = io_.mapped == nullptr ? nullptr : io_.mapped + slot.offset_bytes};
}

VulkanSession::IoSlot& VulkanSession::io_slot(EntryState& state, uint32_t value) {
  return *std::find_if(state.io.begin(), state.io.end(),
                       [&](const IoSlot& slot) { return slot.value == value; });
}

Status VulkanSession::require_idle(std::string_view what) const {
  if (!running_.has_value()) return {};
  return invalid_state(
      text_of(what, ": a run of this session is still under way; wait for it first"));
}

Status VulkanSession::prepare(uint32_t entry) {
  EntryState& state = entries_[entry];
  if (state.recorded) return {};
  RLX_RETURN_IF_ERROR(require_idle("prepare"));
  RLX_RETURN_IF_ERROR(context_.health());
  if (state.commands == VK_NULL_HANDLE) {
    RLX_RETURN_IF_ERROR(pool_.allocate(context_, state.commands));
  }
  RLX_RETURN_IF_ERROR(record_entry(state));
  state.recorded = true;
  return {};
}

Status VulkanSession::record_entry(EntryState& state) {
  const VkCommandBuffer commands = state.commands;
  RLX_RETURN_IF_ERROR(begin_commands(context_, commands));
  if (run_times_) {
    context_.api.vkCmdResetQueryPool(commands, run_times_.get(), 0, 2);
    context_.api.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, run_times_.get(),
                                     0);
  }
  record_inputs(state, commands);
  record_steps(context_, view_, plan_->pipelines(), state.linked,
               {.step_count = state.linked.entry->steps()->size()}, commands);
  record_outputs(state, commands);
  if (run_times_) {
    context_.api.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
                                     run_times_.get(), 1);
  }
  record_host_barrier(context_, commands);
  return end_commands(context_, commands);
}

void VulkanSession::record_inputs(const EntryState& state, VkCommandBuffer commands) {
  if (!upload_.buffer) return;
  bool copied = false;
  for (const IoSlot& slot : state.io) {
    if (!slot.is_input || slot.bound_address.has_value() || slot.size_bytes == 0) continue;
    copy_buffer(context_, commands, upload_.buffer.get(), slot.offset_bytes, io_.buffer.get(),
                slot.offset_bytes, slot.size_bytes);
    copied = true;
  }
  if (copied) record_barrier(context_, commands);
}

void VulkanSession::record_outputs(const EntryState& state, VkCommandBuffer commands) {
  if (!download_.buffer) return;
  bool first = true;
  for (const IoSlot& slot : state.io) {
    if (slot.is_input || slot.bound_address.has_value()) continue;
    if (first) record_barrier(context_, commands);
    first = false;
    copy_buffer(context_, commands, io_.buffer.get(), slot.offset_bytes, download_.buffer.get(),
                slot.offset_bytes, slot.size_bytes);
  }
}

Status VulkanSession::write(uint32_t entry, uint32_t value, std::span<const std::byte> bytes) {
  RLX_RETURN_IF_ERROR(require_idle("write"));
  const IoSlot& slot = io_slot(entries_[entry], value);
  if (slot.bound_address.has_value())
    return invalid_state("write: the input lives in a bound buffer; write it there");
  std::byte* target = io_.mapped != nullptr ? io_.mapped : upload_.mapped;
  if (!bytes.empty()) std::memcpy(target + slot.offset_bytes, bytes.data(), bytes.size());
  return {};
}

Status VulkanSession::read(uint32_t entry, uint32_t value, std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(require_idle("read"));
  RLX_RETURN_IF_ERROR(context_.health());
  const IoSlot& slot = io_slot(entries_[entry], value);
  if (slot.bound_address.has_value())
    return invalid_state("read: the output lives in a bound buffer; read it there");
  const std::byte* source = download_.buffer ? download_.mapped : io_.mapped;
  if (!bytes.empty()) std::memcpy(bytes.data(), source + slot.offset_bytes, bytes.size());
  return {};
}

Status VulkanSession::bind(uint32_t entry, uint32_t value, ExternalBuffer buffer) {
  RLX_RETURN_IF_ERROR(require_idle("bind"));
  EntryState& state = entries_[entry];
  const fb::Entry& record = *state.linked.entry;
  if (buffer.size_bytes != 0) {
    // Copies and fills go through VkBuffer handles, and the caller's memory is known by its address
    // only.
    const std::span<const fb::Step> steps = PlanView::steps(record);
    for (uint32_t i = 0; i < steps.size(); ++i) {
      if (steps[i].kind() == fb::StepKind::Dispatch) continue;
      for (const fb::Relocation& relocation : PlanView::relocations(record, steps[i])) {
        if (relocation.value() != value) continue;
        return unsuitable(
            text_of(quoted(PlanView::text(PlanView::value(record, value).name())),
                    " cannot live in a bound buffer: ", view_.describe_step(record, i),
                    " copies or fills it, which Vulkan does by buffer handle, not by address"));
      }
    }
  }
  IoSlot& slot = io_slot(state, value);
  slot.bound_address = buffer.size_bytes == 0 ? std::nullopt : std::optional(buffer.device_address);
  state.linked.places[value] = io_place(slot);
  state.recorded = false;
  return {};
}

Status VulkanSession::submit(uint32_t entry) {
  RLX_RETURN_IF_ERROR(require_idle("submit"));
  RLX_RETURN_IF_ERROR(context_.health());
  RLX_RETURN_IF_ERROR(prepare(entry));
  RLX_RETURN_IF_ERROR(context_.submit(entries_[entry].commands, fence_.get()));
  submitted_ = std::chrono::steady_clock::now();
  running_ = entry;
  return {};
}

Status VulkanSession::wait(uint64_t timeout_nanoseconds) {
  if (!running_.has_value()) return {};
  EntryState& state = entries_[*running_];
  const auto since_submit = [this] { return std::chrono::steady_clock::now() - submitted_; };
  const std::chrono::nanoseconds expected = std::max(
      state.last_duration - std::chrono::nanoseconds(since_submit()), std::chrono::nanoseconds(0));
  const Status status = context_.wait(fence_.get(), timeout_nanoseconds, "the run", expected);
  if (status.code() == RLX_TIMEOUT) return status;
  state.last_duration = since_submit();
  const std::string_view entry =
      PlanView::text(view_.entry(*running_, fb::TargetKind::Vulkan).name());
  running_.reset();
  if (!status.ok()) {
    return {status.code(), text_of("plan ", quoted(view_.name()), ", entry ", quoted(entry), " on ",
                                   context_.physical.info.id, ": ", status.message())};
  }
  RLX_RETURN_IF_ERROR(take_run_time());
  return context_.health();
}

Status VulkanSession::take_run_time() {
  if (!run_times_) return {};
  std::array<uint64_t, 2> ticks = {};
  RLX_RETURN_IF_ERROR(read_timestamps(context_, run_times_.get(), ticks));
  last_run_microseconds_ = microseconds_between(context_.physical, ticks[0], ticks[1]);
  return {};
}

Status VulkanSession::run_once(std::string_view what,
                               const std::function<void(VkCommandBuffer)>& body) {
  RLX_RETURN_IF_ERROR(require_idle(what));
  RLX_RETURN_IF_ERROR(context_.health());
  RLX_RETURN_IF_ERROR(begin_commands(context_, once_));
  body(once_);
  record_host_barrier(context_, once_);
  RLX_RETURN_IF_ERROR(end_commands(context_, once_));
  RLX_RETURN_IF_ERROR(context_.submit(once_, fence_.get()));
  RLX_RETURN_IF_ERROR(context_.wait(fence_.get(), UINT64_MAX, what));
  return context_.health();
}

Status VulkanSession::profile(uint32_t entry, std::vector<StepTime>& times) {
  if (!plan_->profile())
    return invalid_state("profile: the plan was loaded without the option profile");
  EntryState& state = entries_[entry];
  const uint32_t step_count = state.linked.entry->steps()->size();
  OwnedQueryPool pool;
  RLX_RETURN_IF_ERROR(create_timestamps(context_, step_count + 1, pool));
  RLX_RETURN_IF_ERROR(run_once("profile", [&](VkCommandBuffer commands) {
    record_inputs(state, commands);
    record_steps(context_, view_, plan_->pipelines(), state.linked,
                 {.step_count = step_count, .step_times = pool.get()}, commands);
    record_outputs(state, commands);
  }));
  std::vector<uint64_t> ticks(step_count + 1);
  RLX_RETURN_IF_ERROR(read_timestamps(context_, pool.get(), ticks));
  std::vector<StepTime> made(step_count);
  for (uint32_t i = 0; i < step_count; ++i) {
    made[i] = {.step = i,
               .microseconds = microseconds_between(context_.physical, ticks[i], ticks[i + 1])};
  }
  last_run_microseconds_ = microseconds_between(context_.physical, ticks.front(), ticks.back());
  times = std::move(made);
  return {};
}

Status VulkanSession::read_after(uint32_t entry, uint32_t step, uint32_t value,
                                 std::span<std::byte> bytes) {
  EntryState& state = entries_[entry];
  const fb::Value& record = PlanView::value(*state.linked.entry, value);
  if (record.segment() == fb::Segment::Arena &&
      (step < record.first_step() || step > record.last_step())) {
    return invalid_argument(text_of("value ", quoted(PlanView::text(record.name())),
                                    " does not live at step ", step,
                                    ": its bytes are its own from step ", record.first_step(),
                                    " to step ", record.last_step()));
  }
  const Place place = state.linked.places[value];
  if (place.buffer == VK_NULL_HANDLE) {
    return invalid_state(text_of("value ", quoted(PlanView::text(record.name())),
                                 " lives in a bound buffer; read it there, or bind it back first"));
  }
  if (bytes.empty()) return {};
  Buffer host;
  RLX_RETURN_IF_ERROR(
      create_buffer(context_, bytes.size(), MemoryUse::Readback, "a value's staging", host));
  RLX_RETURN_IF_ERROR(run_once("read_after", [&](VkCommandBuffer commands) {
    record_inputs(state, commands);
    record_steps(context_, view_, plan_->pipelines(), state.linked, {.step_count = step + 1},
                 commands);
    record_barrier(context_, commands);
    copy_buffer(context_, commands, place.buffer, place.offset_bytes, host.buffer.get(), 0,
                bytes.size());
  }));
  std::memcpy(bytes.data(), host.mapped, bytes.size());
  return {};
}

Status VulkanSession::poison_arena(std::byte pattern) {
  return run_once("poison_arena", [&](VkCommandBuffer commands) {
    for (const Segment::Chunk& chunk : arena_.chunks()) {
      context_.api.vkCmdFillBuffer(commands, chunk.memory.buffer.get(), 0, VK_WHOLE_SIZE,
                                   std::to_integer<uint32_t>(pattern) * 0x01010101u);
    }
  });
}

}  // namespace rlx::vulkan
