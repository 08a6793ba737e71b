// SPDX-License-Identifier: Apache-2.0
// Buffers with their memory, and segments: address ranges of a plan laid over one or more buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/vulkan/vk_context.h"

namespace rlx::vulkan {

enum class MemoryUse : uint8_t {
  Device,    // weights, state, arena: device-local, host-visible only where memory is unified
  Io,        // device-local, host-visible too where the whole device memory is
  Upload,    // host memory that the host writes and copies read
  Readback,  // host memory that copies write and the host reads
  Shared,    // host memory that kernels write too, a word now and then
};

// Where some bytes of a plan are. `buffer` is null for memory of the caller, which is known by its
// address only.
struct Place {
  VkBuffer buffer = VK_NULL_HANDLE;
  uint64_t offset_bytes = 0;  // in the buffer
  uint64_t address = 0;
  std::byte* mapped = nullptr;
};

// A buffer alone on its allocation.
struct Buffer {
  OwnedMemory memory;
  OwnedBuffer buffer;
  uint64_t size_bytes = 0;
  uint64_t address = 0;         // device address; 0 for Upload and Readback
  std::byte* mapped = nullptr;  // coherent; null where the host cannot reach it
  bool host_cached = false;     // reading `mapped` is fast

  [[nodiscard]] Place place(uint64_t offset_bytes) const {
    return {.buffer = buffer.get(),
            .offset_bytes = offset_bytes,
            .address = address + offset_bytes,
            .mapped = mapped == nullptr ? nullptr : mapped + offset_bytes};
  }
};

// `what` names the buffer in errors.
Status create_buffer(Context& context, uint64_t size_bytes, MemoryUse use, std::string_view what,
                     Buffer& buffer);

// Copies between two buffers; nothing where there are no bytes.
void record_copy(const Context& context, VkCommandBuffer commands, const Place& source,
                 const Place& target, uint64_t size_bytes);

// Bytes of a segment that must lie in one buffer.
struct SegmentPart {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  std::string_view name;
};

// Of weights or states.
template <class Tensors>
std::vector<SegmentPart> parts_of(const Tensors& tensors) {
  std::vector<SegmentPart> parts;
  for (const auto* tensor : tensors) {
    parts.push_back({.offset_bytes = tensor->offset_bytes(),
                     .size_bytes = tensor->size_bytes(),
                     .name = tensor->name()->string_view()});
  }
  return parts;
}

// A segment in as few buffers as the device's largest allocation allows; parts are never cut.
class Segment {
 public:
  // `what` ("weights") and the parts' names are for errors: a part larger than the largest
  // allocation is refused.
  static Status create(Context& context, std::string_view what, uint64_t size_bytes,
                       std::vector<SegmentPart> parts, Segment& segment);

  // The place of an offset below size_bytes(); bytes from there to the end of the part that holds
  // it are contiguous.
  [[nodiscard]] Place place(uint64_t offset_bytes) const;
  // Bytes from the offset to the end of its buffer.
  [[nodiscard]] uint64_t contiguous_bytes(uint64_t offset_bytes) const;
  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }

  struct Chunk {
    uint64_t offset_bytes = 0;  // of the segment
    Buffer memory;
  };
  [[nodiscard]] const std::vector<Chunk>& chunks() const { return chunks_; }

 private:
  [[nodiscard]] const Chunk& chunk_of(uint64_t offset_bytes) const;

  uint64_t size_bytes_ = 0;
  std::vector<Chunk> chunks_;  // by offset
};

}  // namespace rlx::vulkan
