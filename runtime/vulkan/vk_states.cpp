// SPDX-License-Identifier: Apache-2.0
// Initial values of a session's states, and their way to the host and back.
#include <cstring>
#include <vector>

#include "runtime/vulkan/vk_session.h"
#include "runtime/vulkan/vk_upload.h"
#include "schema/rounding.h"

namespace rlx::vulkan {
namespace {

// Records fills and copies; bytes of the host are brought by themselves.
class Writer final : public StateWriter {
 public:
  Writer(Context& context, const Segment& weights, const Segment& states, VkCommandBuffer commands)
      : context_(context),
        weights_(weights),
        states_(states),
        commands_(commands),
        uploader_(context) {}

  Status fill_zeros(ByteRange state) override {
    const Place target = states_.place(state.offset_bytes);
    // Fills take whole words; a state's slot ends at a multiple of the segment's alignment.
    context_.api.vkCmdFillBuffer(commands_, target.buffer, target.offset_bytes,
                                 round_up(state.size_bytes, sizeof(uint32_t)), 0);
    return {};
  }
  Status write(uint64_t offset_bytes, std::span<const std::byte> bytes) override {
    return uploader_.upload(states_, offset_bytes, bytes.size(),
                            [&](uint64_t place, std::span<std::byte> destination) {
                              const std::byte* source = bytes.data() + (place - offset_bytes);
                              std::memcpy(destination.data(), source, destination.size());
                              return Status();
                            });
  }
  Status copy_weight(uint64_t weight_offset_bytes, ByteRange state) override {
    const Place source = weights_.place(weight_offset_bytes);
    const Place target = states_.place(state.offset_bytes);
    record_copy(context_, commands_, source, target, state.size_bytes);
    return {};
  }
  Status finish() { return uploader_.finish(); }

 private:
  Context& context_;
  const Segment& weights_;
  const Segment& states_;
  VkCommandBuffer commands_;
  Uploader uploader_;
};

enum class Direction : uint8_t { FromState, ToState };

// One copy of all pieces, which lie one behind another in `host`.
void record_pieces(const Context& context, VkCommandBuffer commands, const Place& state,
                   const Buffer& host, const StatePart& part, Direction direction) {
  std::vector<VkBufferCopy> regions;
  for (uint64_t i = 0; i < part.pieces; ++i) {
    const uint64_t in_state = state.offset_bytes + i * part.stride_bytes;
    const uint64_t in_host = i * part.piece_bytes;
    const bool reads = direction == Direction::FromState;
    regions.push_back({.srcOffset = reads ? in_state : in_host,
                       .dstOffset = reads ? in_host : in_state,
                       .size = part.piece_bytes});
  }
  const VkBuffer source = direction == Direction::FromState ? state.buffer : host.buffer.get();
  const VkBuffer target = direction == Direction::FromState ? host.buffer.get() : state.buffer;
  context.api.vkCmdCopyBuffer(commands, source, target, static_cast<uint32_t>(regions.size()),
                              regions.data());
}

}  // namespace

Status VulkanSession::read_state_bytes(const StatePart& part, std::span<std::byte> bytes) {
  Buffer host;
  RLX_RETURN_IF_ERROR(
      create_buffer(context_, bytes.size(), MemoryUse::Readback, "a state's staging", host));
  RLX_RETURN_IF_ERROR(run_once("read_state", [&](VkCommandBuffer commands) {
    record_pieces(context_, commands, state_.place(segment_offset(part)), host, part,
                  Direction::FromState);
    return Status();
  }));
  std::memcpy(bytes.data(), host.mapped, bytes.size());
  return {};
}

Status VulkanSession::write_state_bytes(const StatePart& part, std::span<const std::byte> bytes) {
  Buffer host;
  RLX_RETURN_IF_ERROR(
      create_buffer(context_, bytes.size(), MemoryUse::Upload, "a state's staging", host));
  std::memcpy(host.mapped, bytes.data(), bytes.size());
  return run_once("write_state", [&](VkCommandBuffer commands) {
    record_pieces(context_, commands, state_.place(segment_offset(part)), host, part,
                  Direction::ToState);
    return Status();
  });
}

Status VulkanSession::copy_state_bytes(ByteRange range, const SessionBase& from) {
  const Segment& source = static_cast<const VulkanSession&>(from).state_;
  return run_once("copy_state", [&](VkCommandBuffer commands) {
    record_copy(context_, commands, source.place(range.offset_bytes),
                state_.place(range.offset_bytes), range.size_bytes);
    return Status();
  });
}

Status VulkanSession::fill_states() {
  return run_once("reset_states", [&](VkCommandBuffer commands) -> Status {
    Writer writer(context_, device_plan_.weights(), state_, commands);
    RLX_RETURN_IF_ERROR(write_states(view(), bound_states(), writer));
    return writer.finish();
  });
}

}  // namespace rlx::vulkan
