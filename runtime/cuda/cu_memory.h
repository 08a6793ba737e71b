// SPDX-License-Identifier: Apache-2.0
// Device segments, pinned host memory, and the two ways between them: a small staging buffer for a
// session's inputs and outputs, a ring filled by several threads for weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/cuda/cu_context.h"
#include "runtime/plan/plan_memory.h"

namespace rlx::cuda {

// Device memory of one segment, in one plain allocation.
class Segment {
 public:
  // `what` ("the weights") is for errors. The context is current.
  static Status create(Context& context, std::string_view what, uint64_t size_bytes,
                       Segment& segment);
  [[nodiscard]] CUdeviceptr address(uint64_t offset_bytes = 0) const {
    return memory_.get() + offset_bytes;
  }
  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }

 private:
  OwnedDeviceMemory memory_;
  uint64_t size_bytes_ = 0;  // rounded up to kArenaAlignmentBytes, never 0
};

// Host memory that the device copies from and to without the driver's help, and that kernels reach.
class PinnedMemory {
 public:
  static Status create(Context& context, std::string_view what, uint64_t size_bytes,
                       PinnedMemory& memory);
  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(memory_.get()), size_bytes_};
  }
  // Of the same memory, for kernels. The context is current.
  Status device_address(Context& context, CUdeviceptr& address) const {
    return context.check(context.api.cuMemHostGetDevicePointer_v2(&address, memory_.get(), 0),
                         "cuMemHostGetDevicePointer");
  }

 private:
  OwnedHostMemory memory_;
  uint64_t size_bytes_ = 0;
};

// Copies on one stream through one pinned buffer. Writes are under way when write() returns: only a
// buffer that is full waits for them, so that one run's inputs cost one memcpy each.
class Staging {
 public:
  // For transfers of up to `largest_bytes`; larger ones go in pieces.
  static Status create(Context& context, CUstream stream, uint64_t largest_bytes, Staging& staging);
  Status write(CUdeviceptr target, std::span<const std::byte> bytes);
  // Waits for the stream's earlier work too.
  Status read(CUdeviceptr source, std::span<std::byte> bytes);
  // Pieces of the device's memory whose begins lie `stride_bytes` apart, one behind another.
  Status read_pieces(CUdeviceptr source, uint64_t piece_bytes, uint64_t stride_bytes,
                     std::span<std::byte> bytes);
  // The stream has finished: the whole buffer is free.
  void reset() { used_bytes_ = 0; }

 private:
  Status synchronise();

  Context* context_ = nullptr;
  CUstream stream_ = nullptr;
  PinnedMemory buffer_;
  uint64_t used_bytes_ = 0;
};

// Fills the ranges of the segment with what the source says, asked by several threads at once, and
// waits for the last copy. The context need not be current.
Status upload(Context& context, const Segment& segment, std::span<const ByteRange> ranges,
              const ByteSource& source);

}  // namespace rlx::cuda
