// SPDX-License-Identifier: Apache-2.0
// The staging ring.
#include "runtime/vulkan/vk_upload.h"

#include <algorithm>

namespace rlx::vulkan {
namespace {

// Large enough that a copy's fixed cost vanishes, small enough that filling one slot overlaps
// copying another.
constexpr uint64_t kSlotBytes = uint64_t{32} << 20;

}  // namespace

Uploader::~Uploader() {
  for (Slot& slot : slots_) {
    // The memory must not go while a copy reads it; a failure to wait was reported by the call that
    // failed.
    if (slot.in_flight) static_cast<void>(wait(slot));
  }
}

Status Uploader::upload(const Segment& segment, uint64_t offset_bytes, uint64_t size_bytes,
                        const ByteSource& source) {
  const uint64_t end = offset_bytes + size_bytes;
  while (offset_bytes < end) {
    const Place place = segment.place(offset_bytes);
    uint64_t piece = std::min(end - offset_bytes, segment.contiguous_bytes(offset_bytes));
    if (piece == 0) {
      // Padding between two buffers of the segment: nothing there is ever read.
      const auto& chunks = segment.chunks();
      const auto following = std::find_if(
          chunks.begin(), chunks.end(),
          [&](const Segment::Chunk& chunk) { return chunk.offset_bytes > offset_bytes; });
      if (following == chunks.end()) return {};
      offset_bytes = following->offset_bytes;
      continue;
    }
    if (place.mapped != nullptr) {
      RLX_RETURN_IF_ERROR(source(offset_bytes, {place.mapped, piece}));
    } else {
      piece = std::min(piece, kSlotBytes);
      RLX_RETURN_IF_ERROR(upload_staged(place, offset_bytes, piece, source));
    }
    offset_bytes += piece;
  }
  return {};
}

Status Uploader::prepare_slots() {
  if (pool_) return {};
  CommandPool pool;
  RLX_RETURN_IF_ERROR(CommandPool::create(context_, pool));
  for (Slot& slot : slots_) {
    RLX_RETURN_IF_ERROR(
        create_buffer(context_, kSlotBytes, MemoryUse::Upload, "the staging ring", slot.memory));
    RLX_RETURN_IF_ERROR(pool.allocate(context_, slot.commands));
    RLX_RETURN_IF_ERROR(create_fence(context_, slot.fence));
  }
  pool_ = std::move(pool);
  return {};
}

Status Uploader::upload_staged(const Place& place, uint64_t offset_bytes, uint64_t size_bytes,
                               const ByteSource& source) {
  RLX_RETURN_IF_ERROR(prepare_slots());
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  RLX_RETURN_IF_ERROR(wait(slot));
  RLX_RETURN_IF_ERROR(source(offset_bytes, {slot.memory.mapped, size_bytes}));

  const DeviceApi& api = context_.api;
  const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                          .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  RLX_RETURN_IF_ERROR(
      context_.check(api.vkBeginCommandBuffer(slot.commands, &begin), "vkBeginCommandBuffer"));
  record_copy(context_, slot.commands, slot.memory.place(0), place, size_bytes);
  RLX_RETURN_IF_ERROR(context_.check(api.vkEndCommandBuffer(slot.commands), "vkEndCommandBuffer"));
  RLX_RETURN_IF_ERROR(context_.submit(slot.commands, slot.fence.get()));
  slot.in_flight = true;
  return {};
}

Status Uploader::wait(Slot& slot) {
  if (!slot.in_flight) return {};
  slot.in_flight = false;
  return context_.wait(slot.fence.get(), UINT64_MAX, "an upload");
}

Status Uploader::finish() {
  for (Slot& slot : slots_) RLX_RETURN_IF_ERROR(wait(slot));
  return {};
}

}  // namespace rlx::vulkan
