// SPDX-License-Identifier: Apache-2.0
// Initial values of a session's states.
#include <cstring>

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

}  // namespace

Status VulkanSession::fill_states() {
  return run_once("reset_states", [&](VkCommandBuffer commands) -> Status {
    Writer writer(context_, device_plan_.weights(), state_, commands);
    RLX_RETURN_IF_ERROR(write_states(view(), writer));
    return writer.finish();
  });
}

}  // namespace rlx::vulkan
