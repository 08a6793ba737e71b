// SPDX-License-Identifier: Apache-2.0
// Choice of memory types, allocation, and the cutting of large segments.
#include "runtime/vulkan/vk_memory.h"

#include <algorithm>
#include <optional>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "schema/plan_header.h"
#include "schema/rounding.h"

namespace rlx::vulkan {
namespace {

constexpr VkMemoryPropertyFlags kHostCoherent =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

struct TypeWish {
  VkMemoryPropertyFlags required;
  VkMemoryPropertyFlags wanted;
  VkMemoryPropertyFlags avoided;
};

TypeWish wish_for(const PhysicalDevice& device, MemoryUse use) {
  constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  constexpr VkMemoryPropertyFlags kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  switch (use) {
    case MemoryUse::Device:
      if (device.info.unified_memory) return {kLocal, kHostCoherent | kCached, 0};
      return {kLocal, 0, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT};
    case MemoryUse::Io:
      return {kLocal, kHostCoherent | kCached, 0};
    case MemoryUse::Upload:
      return {kHostCoherent, 0, kLocal};
    case MemoryUse::Readback:
    case MemoryUse::Shared:
      return {kHostCoherent, kCached, kLocal};
  }
  return {};
}

int bit_count(VkMemoryPropertyFlags flags) {
  return __builtin_popcount(flags);
}

// A small window onto device memory (a BAR of 256 MiB) is not worth filling with tensors.
bool in_small_window(const PhysicalDevice& device, const VkMemoryType& type) {
  return (type.propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0 &&
         device.memory.memoryHeaps[type.heapIndex].size < device.info.memory_bytes / 2;
}

// Types that need a feature of their own or that behave unlike plain memory.
constexpr VkMemoryPropertyFlags kSpecial =
    VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_PROTECTED_BIT |
    VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD |
    VK_MEMORY_PROPERTY_RDMA_CAPABLE_BIT_NV;

std::optional<uint32_t> choose_type(const PhysicalDevice& device, uint32_t allowed, MemoryUse use) {
  const TypeWish wish = wish_for(device, use);
  std::optional<uint32_t> best;
  int best_score = 0;
  for (uint32_t i = 0; i < device.memory.memoryTypeCount; ++i) {
    const VkMemoryType& type = device.memory.memoryTypes[i];
    const VkMemoryPropertyFlags flags = type.propertyFlags;
    if ((allowed >> i & 1) == 0 || (flags & wish.required) != wish.required ||
        (flags & kSpecial) != 0)
      continue;
    if (in_small_window(device, type)) continue;
    const int score = bit_count(flags & wish.wanted) - 2 * bit_count(flags & wish.avoided);
    if (best.has_value() && score <= best_score) continue;
    best = i;
    best_score = score;
  }
  return best;
}

bool is_device_use(MemoryUse use) {
  return use == MemoryUse::Device || use == MemoryUse::Io;
}

// Kernels reach the buffer by its address.
bool has_address(MemoryUse use) {
  return is_device_use(use) || use == MemoryUse::Shared;
}

Status create_handle(Context& context, uint64_t size_bytes, MemoryUse use, const std::string& what,
                     Buffer& buffer) {
  VkBufferUsageFlags usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (has_address(use)) {
    usage |= VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    if (context.physical.conditional) usage |= VK_BUFFER_USAGE_CONDITIONAL_RENDERING_BIT_EXT;
  }
  const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                   .size = size_bytes,
                                   .usage = usage,
                                   .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
  VkBuffer handle = VK_NULL_HANDLE;
  RLX_RETURN_IF_ERROR(
      context.check(context.api.vkCreateBuffer(context.device, &info, nullptr, &handle),
                    "vkCreateBuffer for " + what));
  buffer.buffer = OwnedBuffer(context, handle);
  buffer.size_bytes = size_bytes;
  return {};
}

Status allocate(Context& context, MemoryUse use, const std::string& what, Buffer& buffer) {
  VkMemoryRequirements needs = {};
  context.api.vkGetBufferMemoryRequirements(context.device, buffer.buffer.get(), &needs);
  const std::optional<uint32_t> type = choose_type(context.physical, needs.memoryTypeBits, use);
  if (!type.has_value()) {
    return unsuitable("device " + context.physical.info.id + " has no memory type for " + what);
  }
  const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                           .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
  const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                     .pNext = has_address(use) ? &flags : nullptr,
                                     .allocationSize = needs.size,
                                     .memoryTypeIndex = *type};
  VkDeviceMemory memory = VK_NULL_HANDLE;
  RLX_RETURN_IF_ERROR(context.check(
      context.api.vkAllocateMemory(context.device, &info, nullptr, &memory),
      "allocating " + bytes_text(needs.size) + " for " + what + " on " + context.physical.info.id));
  buffer.memory = OwnedMemory(context, memory);
  RLX_RETURN_IF_ERROR(
      context.check(context.api.vkBindBufferMemory(context.device, buffer.buffer.get(), memory, 0),
                    "vkBindBufferMemory for " + what));
  const VkMemoryPropertyFlags properties = context.physical.memory.memoryTypes[*type].propertyFlags;
  buffer.host_cached = (properties & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
  if ((properties & kHostCoherent) != kHostCoherent) return {};
  if (context.physical.staging_only && is_device_use(use)) return {};
  void* mapped = nullptr;
  RLX_RETURN_IF_ERROR(
      context.check(context.api.vkMapMemory(context.device, memory, 0, VK_WHOLE_SIZE, 0, &mapped),
                    "vkMapMemory for " + what));
  buffer.mapped = static_cast<std::byte*>(mapped);
  return {};
}

}  // namespace

Status create_buffer(Context& context, uint64_t size_bytes, MemoryUse use, std::string_view what,
                     Buffer& buffer) {
  const std::string name(what);
  Buffer made;
  // Whole alignment units: fills and copies of padded ends stay inside. Never empty: Vulkan has no
  // empty buffers.
  const uint64_t padded =
      std::max<uint64_t>(round_up(size_bytes, kArenaAlignmentBytes), kArenaAlignmentBytes);
  RLX_RETURN_IF_ERROR(create_handle(context, padded, use, name, made));
  RLX_RETURN_IF_ERROR(allocate(context, use, name, made));
  if (has_address(use)) {
    const VkBufferDeviceAddressInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                            .buffer = made.buffer.get()};
    made.address = context.api.vkGetBufferDeviceAddress(context.device, &info);
    if (made.address == 0 || made.address % kArenaAlignmentBytes != 0) {
      return unsuitable("device " + context.physical.info.id + " put " + name + " at address " +
                        std::to_string(made.address) + ", which is no multiple of " +
                        std::to_string(kArenaAlignmentBytes));
    }
  }
  buffer = std::move(made);
  return {};
}

void record_copy(const Context& context, VkCommandBuffer commands, const Place& source,
                 const Place& target, uint64_t size_bytes) {
  if (size_bytes == 0) return;
  const VkBufferCopy region = {
      .srcOffset = source.offset_bytes, .dstOffset = target.offset_bytes, .size = size_bytes};
  context.api.vkCmdCopyBuffer(commands, source.buffer, target.buffer, 1, &region);
}

namespace {

struct Cut {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
};

// Rounds parts outwards to whole alignment units, joins overlapping ones, then packs neighbours
// into cuts of at most `limit` bytes.
Status cut_segment(const Context& context, std::string_view what, uint64_t limit,
                   std::vector<SegmentPart> parts, std::vector<Cut>& cuts) {
  for (SegmentPart& part : parts) {
    const uint64_t end = round_up(part.offset_bytes + part.size_bytes, kArenaAlignmentBytes);
    part.offset_bytes = part.offset_bytes / kArenaAlignmentBytes * kArenaAlignmentBytes;
    part.size_bytes = part.size_bytes == 0 ? 0 : end - part.offset_bytes;
  }
  std::sort(parts.begin(), parts.end(), [](const SegmentPart& a, const SegmentPart& b) {
    return a.offset_bytes < b.offset_bytes;
  });
  std::vector<SegmentPart> joined;
  for (const SegmentPart& part : parts) {
    if (part.size_bytes == 0) continue;
    if (!joined.empty() &&
        part.offset_bytes < joined.back().offset_bytes + joined.back().size_bytes) {
      const uint64_t end = std::max(joined.back().offset_bytes + joined.back().size_bytes,
                                    part.offset_bytes + part.size_bytes);
      joined.back().size_bytes = end - joined.back().offset_bytes;
    } else {
      joined.push_back(part);
    }
  }
  for (const SegmentPart& part : joined) {
    const uint64_t end = part.offset_bytes + part.size_bytes;
    if (part.size_bytes > limit) {
      return unsuitable(text_of(what, ": the bytes that hold ", quoted(part.name),
                                " must lie in one piece of ", bytes_text(part.size_bytes),
                                ", and device ", context.physical.info.id, " allocates at most ",
                                bytes_text(limit), " at once"));
    }
    if (!cuts.empty() && end - cuts.back().offset_bytes <= limit) {
      cuts.back().size_bytes = end - cuts.back().offset_bytes;
    } else {
      cuts.push_back({.offset_bytes = part.offset_bytes, .size_bytes = part.size_bytes});
    }
  }
  return {};
}

}  // namespace

Status Segment::create(Context& context, std::string_view what, uint64_t size_bytes,
                       std::vector<SegmentPart> parts, Segment& segment) {
  const uint64_t limit =
      context.physical.max_allocation_bytes / kArenaAlignmentBytes * kArenaAlignmentBytes;
  std::vector<Cut> cuts;
  if (size_bytes > limit)
    RLX_RETURN_IF_ERROR(cut_segment(context, what, limit, std::move(parts), cuts));
  if (cuts.empty()) cuts.push_back({.offset_bytes = 0, .size_bytes = size_bytes});
  Segment made;
  made.size_bytes_ = size_bytes;
  for (const Cut& cut : cuts) {
    Chunk chunk{.offset_bytes = cut.offset_bytes, .memory = {}};
    RLX_RETURN_IF_ERROR(
        create_buffer(context, cut.size_bytes, MemoryUse::Device, what, chunk.memory));
    made.chunks_.push_back(std::move(chunk));
  }
  segment = std::move(made);
  return {};
}

const Segment::Chunk& Segment::chunk_of(uint64_t offset_bytes) const {
  const auto after = std::upper_bound(
      chunks_.begin(), chunks_.end(), offset_bytes,
      [](uint64_t offset, const Chunk& chunk) { return offset < chunk.offset_bytes; });
  return after == chunks_.begin() ? chunks_.front() : *(after - 1);
}

Place Segment::place(uint64_t offset_bytes) const {
  const Chunk& chunk = chunk_of(offset_bytes);
  return chunk.memory.place(offset_bytes - chunk.offset_bytes);
}

uint64_t Segment::contiguous_bytes(uint64_t offset_bytes) const {
  const Chunk& chunk = chunk_of(offset_bytes);
  const uint64_t inside = offset_bytes - chunk.offset_bytes;
  return chunk.memory.size_bytes - std::min(inside, chunk.memory.size_bytes);
}

}  // namespace rlx::vulkan
