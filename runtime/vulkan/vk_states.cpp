// SPDX-License-Identifier: Apache-2.0
// Initial values of a session's states.
#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/vulkan/vk_session.h"
#include "runtime/vulkan/vk_upload.h"

namespace rlx::vulkan {
namespace {

// The number one, in the order of dtype.def. Quantised blocks have no single pattern for it and no
// row.
struct One {
  uint32_t size_bytes;
  uint64_t bits;
};
constexpr std::array<One, 14> kOnes = {{{4, 0x3f800000},          // f32
                                        {2, 0x3c00},              // f16
                                        {2, 0x3f80},              // bf16
                                        {8, 0x3ff0000000000000},  // f64
                                        {1, 1},                   // i8
                                        {1, 1},                   // u8
                                        {2, 1},                   // i16
                                        {4, 1},                   // i32
                                        {4, 1},                   // u32
                                        {8, 1},                   // i64
                                        {1, 1},                   // bool
                                        {8, 0x3f800000},          // c64: 1 + 0i
                                        {1, 0x38},                // f8e4m3
                                        {1, 0x3c}}};              // f8e5m2

void fill_ones(const One& one, std::span<std::byte> destination) {
  for (size_t i = 0; i + one.size_bytes <= destination.size(); i += one.size_bytes) {
    std::memcpy(destination.data() + i, &one.bits, one.size_bytes);
  }
}

}  // namespace

Status VulkanSession::reset_states() {
  RLX_RETURN_IF_ERROR(require_idle("reset_states"));
  if (view_.index().states()->size() == 0) return {};
  RLX_RETURN_IF_ERROR(upload_ones());
  return run_once("reset_states", [&](VkCommandBuffer commands) { record_state_resets(commands); });
}

Status VulkanSession::upload_ones() {
  Uploader uploader(context_);
  for (const fb::State* state : *view_.index().states()) {
    if (state->init() != fb::StateInit::Ones) continue;
    if (state->dtype() >= kOnes.size()) {
      return unsuitable(text_of("state ", quoted(PlanView::text(state->name())),
                                " begins as ones, which a quantised type cannot"));
    }
    const One& one = kOnes[state->dtype()];
    RLX_RETURN_IF_ERROR(uploader.upload(state_, state->offset_bytes(), state->size_bytes(),
                                        [&](uint64_t, std::span<std::byte> destination) {
                                          fill_ones(one, destination);
                                          return Status();
                                        }));
  }
  return uploader.finish();
}

void VulkanSession::record_state_resets(VkCommandBuffer commands) {
  for (const fb::State* state : *view_.index().states()) {
    if (state->size_bytes() == 0) continue;
    const Place target = state_.place(state->offset_bytes());
    if (state->init() == fb::StateInit::Zeros) {
      // Fills take whole words; a state's slot ends at a multiple of the segment's alignment.
      const uint64_t words_bytes = (state->size_bytes() + 3) / 4 * 4;
      context_.api.vkCmdFillBuffer(commands, target.buffer, target.offset_bytes, words_bytes, 0);
    } else if (state->init() == fb::StateInit::Weight) {
      const fb::Weight& weight = *view_.index().weights()->Get(*state->init_weight());
      const Place source = plan_->weights().place(weight.offset_bytes());
      const VkBufferCopy region = {.srcOffset = source.offset_bytes,
                                   .dstOffset = target.offset_bytes,
                                   .size = state->size_bytes()};
      context_.api.vkCmdCopyBuffer(commands, source.buffer, target.buffer, 1, &region);
    }
  }
}

}  // namespace rlx::vulkan
