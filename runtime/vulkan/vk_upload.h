// SPDX-License-Identifier: Apache-2.0
// Brings host bytes into device segments: directly where the host reaches them, else through a ring
// of staging buffers whose copies run while the next one is being filled.
#pragma once

#include <array>

#include "runtime/plan/plan_memory.h"
#include "runtime/vulkan/vk_memory.h"

namespace rlx::vulkan {

class Uploader {
 public:
  explicit Uploader(Context& context) : context_(context) {}
  // Waits for copies that a failed upload left under way.
  ~Uploader();
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  // Fills [offset, offset + size) of the segment with what the source writes. Call finish() before
  // the bytes are used.
  Status upload(const Segment& segment, uint64_t offset_bytes, uint64_t size_bytes,
                const ByteSource& source);
  Status finish();

 private:
  struct Slot {
    Buffer memory;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    OwnedFence fence;
    bool in_flight = false;
  };

  Status prepare_slots();
  Status upload_staged(const Place& place, uint64_t offset_bytes, uint64_t size_bytes,
                       const ByteSource& source);
  Status wait(Slot& slot);

  Context& context_;
  CommandPool pool_;
  std::array<Slot, 3> slots_;
  size_t next_ = 0;
};

}  // namespace rlx::vulkan
