// SPDX-License-Identifier: Apache-2.0
// A session: its memory, its io, and the runs.
#include "runtime/vulkan/vk_session.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/plan/free_sizes.h"

namespace rlx::vulkan {
namespace {

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

// An output up to this size comes to the host with each run; a larger one when it is read: its
// bytes take longer than a submit of their own, and runs whose output nobody reads need not wait.
constexpr uint64_t kMostBytesWithRun = 256 * 1024;

bool comes_with_run(const IoRange& output) {
  return output.range.size_bytes <= kMostBytesWithRun;
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

}  // namespace

Status VulkanSession::create(const std::shared_ptr<VulkanPlan>& plan, const SessionOptions& options,
                             std::unique_ptr<DeviceSession>& session) {
  std::unique_ptr<VulkanSession> made(new VulkanSession(plan, options));
  RLX_RETURN_IF_ERROR(made->context_.health());
  RLX_RETURN_IF_ERROR(made->allocate(options));
  for (uint32_t entry = 0; entry < made->entry_count(); ++entry) made->link(entry);
  RLX_RETURN_IF_ERROR(made->reset_states());
  for (uint32_t entry = 0; entry < made->entry_count(); ++entry)
    if (has_free_sizes(made->record(entry))) RLX_RETURN_IF_ERROR(made->make_spare(entry));
  session = std::move(made);
  return {};
}

VulkanSession::~VulkanSession() {
  // Nothing may go while the device uses it; a device that does not answer is lost and has stopped.
  // The last run's fence tells of those before it too.
  if (is_running())
    static_cast<void>(context_.wait(run_fences_[last_slot()].get(), UINT64_MAX, "the last run"));
}

Status VulkanSession::allocate(const SessionOptions& options) {
  std::vector<SegmentPart> arena_parts;
  for (uint32_t entry = 0; entry < entry_count(); ++entry)
    append_arena_parts(record(entry), arena_parts);
  RLX_RETURN_IF_ERROR(Segment::create(context_, "state", view().header().state_bytes,
                                      parts_of(*view().index().states()), state_));
  RLX_RETURN_IF_ERROR(Segment::create(context_, "the arena", view().header().arena_bytes,
                                      std::move(arena_parts), arena_));
  RLX_RETURN_IF_ERROR(allocate_index_errors(options.check_indices));
  RLX_RETURN_IF_ERROR(allocate_io());
  if (profiles()) RLX_RETURN_IF_ERROR(create_timestamps(context_, 2, run_times_));
  RLX_RETURN_IF_ERROR(CommandPool::create(context_, pool_));
  run_fences_.resize(queue_depth());
  for (OwnedFence& fence : run_fences_) RLX_RETURN_IF_ERROR(create_fence(context_, fence));
  RLX_RETURN_IF_ERROR(create_fence(context_, once_fence_));
  return pool_.allocate(context_, once_);
}

// Nobody looks at words that the host does not check: these lie where kernels add fastest.
Status VulkanSession::allocate_index_errors(bool for_host) {
  const uint64_t size_bytes = view().header().index_error_bytes;
  if (size_bytes == 0) return {};
  if (!for_host) {
    return create_buffer(context_, size_bytes, MemoryUse::Device, "index errors", index_errors_);
  }
  RLX_RETURN_IF_ERROR(
      create_buffer(context_, size_bytes, MemoryUse::Shared, "index errors", index_errors_));
  show_index_errors({index_errors_.mapped, size_bytes});
  return {};
}

Status VulkanSession::allocate_io() {
  const uint64_t size_bytes = view().header().io_bytes;
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

void VulkanSession::link(uint32_t program) {
  programs_.resize(std::max<size_t>(programs_.size(), program + size_t{1}));
  ProgramState& state = programs_[program];
  state.is_new = true;
  state.linked.entry = &record(program);
  state.linked.places.resize(record(program).values()->size());
  for (uint32_t i = 0; i < state.linked.places.size(); ++i) {
    const fb::Value& value = PlanView::value(record(program), i);
    Place& place = state.linked.places[i];
    switch (value.segment()) {
      case fb::Segment::Weights:
        place = device_plan_.weights().place(value.offset_bytes());
        break;
      case fb::Segment::State:
        if (const auto bound = bound_address(value))
          place = {.address = *bound};
        else
          place = state_.place(value.offset_bytes());
        break;
      case fb::Segment::Arena:
        place = arena_.place(value.offset_bytes());
        break;
      case fb::Segment::IndexErrors:
        place = index_errors_.place(value.offset_bytes());
        break;
      case fb::Segment::Io:
        break;  // Placed by its slot, below.
    }
  }
  for (const IoSlot& slot : io(program)) state.linked.places[slot.io.value] = io_place(slot);
}

Place VulkanSession::io_place(const IoSlot& slot) const {
  if (slot.bound_address.has_value()) return {.address = *slot.bound_address};
  return io_.place(slot.io.range.offset_bytes);
}

void VulkanSession::move_io(uint32_t program, const IoSlot& slot) {
  programs_[program].linked.places[slot.io.value] = io_place(slot);
}

Status VulkanSession::prepare_program(uint32_t program) {
  ProgramState& state = programs_[program];
  if (state.commands == VK_NULL_HANDLE) std::swap(state.commands, spare_);
  if (state.commands == VK_NULL_HANDLE)
    RLX_RETURN_IF_ERROR(pool_.allocate(context_, state.commands));
  return record_program(program, state.commands);
}

Status VulkanSession::make_spare(uint32_t program) {
  if (spare_ != VK_NULL_HANDLE) return {};
  VkCommandBuffer made = VK_NULL_HANDLE;
  RLX_RETURN_IF_ERROR(pool_.allocate(context_, made));
  RLX_RETURN_IF_ERROR(record_program(program, made));
  spare_ = made;
  return {};
}

void VulkanSession::use_time_of_run(uint32_t program) {
  // Runs at a kept binding allocate nothing.
  if (!std::exchange(programs_[program].is_new, false)) return;
  // Where it cannot be made, the next binding tries again and tells.
  if (has_free_sizes(record(program))) static_cast<void>(make_spare(program));
}

Status VulkanSession::record_program(uint32_t program, VkCommandBuffer commands) {
  const ProgramState& state = programs_[program];
  VkCommandBufferUsageFlags usage = 0;
  if (queue_depth() > 1) usage = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  RLX_RETURN_IF_ERROR(begin_commands(context_, commands, usage));
  if (run_times_) {
    context_.api.vkCmdResetQueryPool(commands, run_times_.get(), 0, 2);
    context_.api.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, run_times_.get(),
                                     0);
  }
  record_inputs(program, commands);
  record_steps(context_, view_of(program), device_plan_.pipelines(), state.linked,
               {.step_count = state.linked.entry->steps()->size()}, commands);
  record_outputs(program, commands);
  if (run_times_) {
    context_.api.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
                                     run_times_.get(), 1);
  }
  record_host_barrier(context_, commands);
  return end_commands(context_, commands);
}

void VulkanSession::record_inputs(uint32_t program, VkCommandBuffer commands) const {
  if (!upload_.buffer) return;
  bool copied = false;
  for (const IoSlot& slot : io(program)) {
    const auto [offset_bytes, size_bytes] = slot.io.range;
    if (!slot.io.is_input || slot.bound_address.has_value() || size_bytes == 0) continue;
    record_copy(context_, commands, upload_.place(offset_bytes), io_.place(offset_bytes),
                size_bytes);
    copied = true;
  }
  if (copied) record_barrier(context_, commands);
}

void VulkanSession::record_outputs(uint32_t program, VkCommandBuffer commands) const {
  if (!download_.buffer) return;
  bool first = true;
  for (const IoSlot& slot : io(program)) {
    const auto [offset_bytes, size_bytes] = slot.io.range;
    if (slot.io.is_input || slot.bound_address.has_value() || !comes_with_run(slot.io)) continue;
    if (first) record_barrier(context_, commands);
    first = false;
    record_copy(context_, commands, io_.place(offset_bytes), download_.place(offset_bytes),
                size_bytes);
  }
}

Status VulkanSession::write_io(const IoSlot& slot, std::span<const std::byte> bytes) {
  std::byte* target = io_.mapped != nullptr ? io_.mapped : upload_.mapped;
  std::memcpy(target + slot.io.range.offset_bytes, bytes.data(), bytes.size());
  return {};
}

Status VulkanSession::read_io(const IoSlot& slot, std::span<std::byte> bytes) {
  const uint64_t offset_bytes = slot.io.range.offset_bytes;
  if (download_.buffer && !comes_with_run(slot.io)) {
    RLX_RETURN_IF_ERROR(run_once("read", [&](VkCommandBuffer commands) {
      record_copy(context_, commands, io_.place(offset_bytes), download_.place(offset_bytes),
                  bytes.size());
      return Status();
    }));
  }
  const std::byte* source = download_.buffer ? download_.mapped : io_.mapped;
  std::memcpy(bytes.data(), source + offset_bytes, bytes.size());
  return {};
}

// Copies and fills go through VkBuffer handles, and the caller's memory is known by its address
// only.
Status VulkanSession::check_bindable(const fb::Entry& record, uint32_t value) const {
  const std::span<const fb::Step> steps = PlanView::steps(record);
  for (uint32_t i = 0; i < steps.size(); ++i) {
    // In a plan, what is skipped is a dispatch at other sizes.
    if (steps[i].kind() == fb::StepKind::Dispatch || steps[i].kind() == fb::StepKind::Skip)
      continue;
    for (const fb::Relocation& relocation : PlanView::relocations(record, steps[i])) {
      if (relocation.value() != value) continue;
      return unsuitable(
          text_of(quoted(PlanView::text(PlanView::value(record, value).name())),
                  " cannot live in a bound buffer: ", view().describe_step(record, i),
                  " copies or fills it, which Vulkan does by buffer handle, not by address"));
    }
  }
  return {};
}

Status VulkanSession::launch(uint32_t program, uint32_t slot) {
  return context_.submit(programs_[program].commands, run_fences_[slot].get());
}

SessionBase::RunEnd VulkanSession::wait_for_run(uint32_t slot, uint64_t timeout_nanoseconds,
                                                std::chrono::nanoseconds expected) {
  Status status = context_.wait(run_fences_[slot].get(), timeout_nanoseconds, "the run", expected);
  const bool is_over = status.code() != RLX_TIMEOUT;
  return {.status = std::move(status), .is_over = is_over};
}

Status VulkanSession::finish_run(double& microseconds) {
  if (!run_times_) return {};
  std::array<uint64_t, 2> ticks = {};
  RLX_RETURN_IF_ERROR(read_timestamps(context_, run_times_.get(), ticks));
  microseconds = microseconds_between(context_.physical, ticks[0], ticks[1]);
  return {};
}

Status VulkanSession::run_once(std::string_view what,
                               const std::function<Status(VkCommandBuffer)>& body) {
  RLX_RETURN_IF_ERROR(begin_commands(context_, once_));
  const Status recorded = body(once_);
  record_host_barrier(context_, once_);
  RLX_RETURN_IF_ERROR(end_commands(context_, once_));
  RLX_RETURN_IF_ERROR(recorded);
  RLX_RETURN_IF_ERROR(context_.submit(once_, once_fence_.get()));
  RLX_RETURN_IF_ERROR(context_.wait(once_fence_.get(), UINT64_MAX, what));
  return context_.health();
}

Status VulkanSession::time_steps(uint32_t program, StepTimes& times) {
  const LinkedEntry& linked = programs_[program].linked;
  const uint32_t step_count = linked.entry->steps()->size();
  OwnedQueryPool pool;
  RLX_RETURN_IF_ERROR(create_timestamps(context_, step_count + 1, pool));
  RLX_RETURN_IF_ERROR(run_once("profile", [&](VkCommandBuffer commands) {
    record_inputs(program, commands);
    record_steps(context_, view_of(program), device_plan_.pipelines(), linked,
                 {.step_count = step_count, .step_times = pool.get()}, commands);
    record_outputs(program, commands);
    return Status();
  }));
  std::vector<uint64_t> ticks(step_count + 1);
  RLX_RETURN_IF_ERROR(read_timestamps(context_, pool.get(), ticks));
  for (uint32_t i = 0; i < step_count; ++i) {
    times.microseconds.push_back(microseconds_between(context_.physical, ticks[i], ticks[i + 1]));
  }
  times.all_microseconds = microseconds_between(context_.physical, ticks.front(), ticks.back());
  return {};
}

Status VulkanSession::run_and_read(uint32_t program, uint32_t step, uint32_t value,
                                   std::span<std::byte> bytes) {
  const LinkedEntry& linked = programs_[program].linked;
  const Place place = linked.places[value];
  if (place.buffer == VK_NULL_HANDLE) {
    return invalid_state(
        text_of("value ", quoted(PlanView::text(PlanView::value(record(program), value).name())),
                " lives in a bound buffer; read it there, or bind it back first"));
  }
  if (bytes.empty()) return {};
  Buffer host;
  RLX_RETURN_IF_ERROR(
      create_buffer(context_, bytes.size(), MemoryUse::Readback, "a value's staging", host));
  RLX_RETURN_IF_ERROR(run_once("read_after", [&](VkCommandBuffer commands) {
    record_inputs(program, commands);
    record_steps(context_, view_of(program), device_plan_.pipelines(), linked,
                 {.step_count = step + 1}, commands);
    record_barrier(context_, commands);
    record_copy(context_, commands, place, host.place(0), bytes.size());
    return Status();
  }));
  std::memcpy(bytes.data(), host.mapped, bytes.size());
  return {};
}

Status VulkanSession::fill_arena(std::byte pattern) {
  return run_once("poison_arena", [&](VkCommandBuffer commands) {
    for (const Segment::Chunk& chunk : arena_.chunks()) {
      context_.api.vkCmdFillBuffer(commands, chunk.memory.buffer.get(), 0, VK_WHOLE_SIZE,
                                   std::to_integer<uint32_t>(pattern) * 0x01010101u);
    }
    return Status();
  });
}

}  // namespace rlx::vulkan
