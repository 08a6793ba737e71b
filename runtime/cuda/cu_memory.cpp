// SPDX-License-Identifier: Apache-2.0
// Allocations and copies.
#include "runtime/cuda/cu_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/base/threads.h"
#include "runtime/device/device_names.h"
#include "schema/rounding.h"

namespace rlx::cuda {
namespace {

// A session's transfers are mostly small: enough to hold all inputs of most models at once.
constexpr uint64_t kStagingBytes = uint64_t{16} << 20;
constexpr uint64_t kStagingAlignmentBytes = 64;

// Weights: each thread fills its own slot while the copies of the others run. Slots are large
// enough for a copy's fixed cost to vanish; four threads read page cache as fast as PCIe takes it.
constexpr uint64_t kSlotBytes = uint64_t{4} << 20;
constexpr size_t kUploadThreads = 4;

}  // namespace

Status Segment::create(Context& context, std::string_view what, uint64_t size_bytes,
                       Segment& segment) {
  const uint64_t padded =
      std::max<uint64_t>(round_up(size_bytes, kArenaAlignmentBytes), kArenaAlignmentBytes);
  CUdeviceptr address = 0;
  const CUresult result = context.api.cuMemAlloc_v2(&address, padded);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    return out_of_device_memory(text_of(device_text(context.info), " has no ", bytes_text(padded),
                                        " for ", what, "; ", bytes_text(context.available_bytes()),
                                        " are free"));
  }
  RLX_RETURN_IF_ERROR(context.check(result, "cuMemAlloc"));
  segment.memory_ = OwnedDeviceMemory(context, address);
  segment.size_bytes_ = padded;
  return {};
}

Status PinnedMemory::create(Context& context, std::string_view what, uint64_t size_bytes,
                            PinnedMemory& memory) {
  const uint64_t padded = std::max<uint64_t>(size_bytes, 1);
  void* address = nullptr;
  const CUresult result = context.api.cuMemHostAlloc(&address, padded, CU_MEMHOSTALLOC_DEVICEMAP);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    return out_of_host_memory(
        text_of("the system pins no ", bytes_text(padded), " of host memory for ", what));
  }
  RLX_RETURN_IF_ERROR(context.check(result, "cuMemHostAlloc"));
  memory.memory_ = OwnedHostMemory(context, address);
  memory.size_bytes_ = size_bytes;
  return {};
}

Status Staging::create(Context& context, CUstream stream, uint64_t largest_bytes,
                       Staging& staging) {
  Staging made;
  made.context_ = &context;
  made.stream_ = stream;
  RLX_RETURN_IF_ERROR(PinnedMemory::create(context, "the session's staging",
                                           std::min(largest_bytes, kStagingBytes), made.buffer_));
  staging = std::move(made);
  return {};
}

Status Staging::synchronise() {
  RLX_RETURN_IF_ERROR(
      context_->check(context_->api.cuStreamSynchronize(stream_), "cuStreamSynchronize"));
  reset();
  return {};
}

Status Staging::write(CUdeviceptr target, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::span<std::byte> room = buffer_.bytes().subspan(used_bytes_);
    const size_t piece = std::min(bytes.size(), room.size());
    // Rather wait than cut a tensor that fits into the whole buffer.
    if (piece == 0 || (piece < bytes.size() && used_bytes_ > 0)) {
      RLX_RETURN_IF_ERROR(synchronise());
      continue;
    }
    std::memcpy(room.data(), bytes.data(), piece);
    RLX_RETURN_IF_ERROR(context_->check(
        context_->api.cuMemcpyHtoDAsync_v2(target, room.data(), piece, stream_), "an upload"));
    used_bytes_ = std::min<uint64_t>(round_up(used_bytes_ + piece, kStagingAlignmentBytes),
                                     buffer_.bytes().size());
    target += piece;
    bytes = bytes.subspan(piece);
  }
  return {};
}

Status Staging::read(CUdeviceptr source, std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(synchronise());
  while (!bytes.empty()) {
    const size_t piece = std::min(bytes.size(), buffer_.bytes().size());
    RLX_RETURN_IF_ERROR(context_->check(
        context_->api.cuMemcpyDtoHAsync_v2(buffer_.bytes().data(), source, piece, stream_),
        "a download"));
    RLX_RETURN_IF_ERROR(synchronise());
    std::memcpy(bytes.data(), buffer_.bytes().data(), piece);
    source += piece;
    bytes = bytes.subspan(piece);
  }
  return {};
}

Status Staging::read_pieces(CUdeviceptr source, uint64_t piece_bytes, uint64_t stride_bytes,
                            std::span<std::byte> bytes) {
  const uint64_t at_once = buffer_.bytes().size() / piece_bytes;
  if (at_once == 0) {
    for (; !bytes.empty(); bytes = bytes.subspan(piece_bytes), source += stride_bytes)
      RLX_RETURN_IF_ERROR(read(source, bytes.first(piece_bytes)));
    return {};
  }
  RLX_RETURN_IF_ERROR(synchronise());
  while (!bytes.empty()) {
    const std::span<std::byte> taken =
        bytes.first(std::min<uint64_t>(at_once, bytes.size() / piece_bytes) * piece_bytes);
    for (uint64_t done = 0; done < taken.size(); done += piece_bytes, source += stride_bytes) {
      RLX_RETURN_IF_ERROR(
          context_->check(context_->api.cuMemcpyDtoHAsync_v2(buffer_.bytes().data() + done, source,
                                                             piece_bytes, stream_),
                          "a download"));
    }
    RLX_RETURN_IF_ERROR(synchronise());
    std::memcpy(taken.data(), buffer_.bytes().data(), taken.size());
    bytes = bytes.subspan(taken.size());
  }
  return {};
}

namespace {

// Pieces of at most a slot, in the order of the ranges.
std::vector<ByteRange> cut(std::span<const ByteRange> ranges, uint64_t piece_bytes) {
  std::vector<ByteRange> pieces;
  for (const ByteRange& range : ranges) {
    for (uint64_t done = 0; done < range.size_bytes; done += piece_bytes) {
      pieces.push_back({.offset_bytes = range.offset_bytes + done,
                        .size_bytes = std::min(piece_bytes, range.size_bytes - done)});
    }
  }
  return pieces;
}

// Takes pieces one after another, fills its slot, copies it. The slot is two halves: one is filled
// while the copy of the other runs.
class UploadThread {
 public:
  UploadThread(Context& context, const Segment& segment, const ByteSource& source,
               uint64_t piece_bytes)
      : context_(context), segment_(segment), source_(source), piece_bytes_(piece_bytes) {}

  Status run(const std::vector<ByteRange>& pieces, std::atomic<size_t>& next) {
    const Current current(context_);
    RLX_RETURN_IF_ERROR(current.status());
    RLX_RETURN_IF_ERROR(create_stream(context_, stream_));
    RLX_RETURN_IF_ERROR(
        PinnedMemory::create(context_, "the upload ring", 2 * piece_bytes_, memory_));
    for (OwnedEvent& event : copied_)
      RLX_RETURN_IF_ERROR(create_event(context_, CU_EVENT_DISABLE_TIMING, event));
    Status status;
    size_t half = 0;
    for (size_t i = next.fetch_add(1); i < pieces.size() && status.ok(); i = next.fetch_add(1)) {
      status = copy(pieces[i], half);
      half ^= 1;
    }
    // The memory must not go while a copy reads it, whatever else failed.
    const Status finished =
        context_.check(context_.api.cuStreamSynchronize(stream_.get()), "an upload");
    return status.ok() ? finished : status;
  }

 private:
  Status copy(const ByteRange& piece, size_t half) {
    const std::span<std::byte> slot =
        memory_.bytes().subspan(half * piece_bytes_, piece.size_bytes);
    const CUevent copied = copied_[half].get();
    RLX_RETURN_IF_ERROR(context_.check(context_.api.cuEventSynchronize(copied), "an upload"));
    RLX_RETURN_IF_ERROR(source_(piece.offset_bytes, slot));
    RLX_RETURN_IF_ERROR(
        context_.check(context_.api.cuMemcpyHtoDAsync_v2(segment_.address(piece.offset_bytes),
                                                         slot.data(), slot.size(), stream_.get()),
                       "an upload"));
    return context_.check(context_.api.cuEventRecord(copied, stream_.get()), "an upload");
  }

  Context& context_;
  const Segment& segment_;
  const ByteSource& source_;
  const uint64_t piece_bytes_;
  OwnedStream stream_;
  PinnedMemory memory_;
  OwnedEvent copied_[2];
};

}  // namespace

Status upload(Context& context, const Segment& segment, std::span<const ByteRange> ranges,
              const ByteSource& source) {
  uint64_t total_bytes = 0;
  for (const ByteRange& range : ranges) total_bytes += range.size_bytes;
  if (total_bytes == 0) return {};
  const uint64_t piece_bytes = std::min(kSlotBytes / 2, round_up(total_bytes, 4096));
  const std::vector<ByteRange> pieces = cut(ranges, piece_bytes);
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  Status first_failure;
  const auto work = [&] {
    Status status;
    try {
      UploadThread thread(context, segment, source, piece_bytes);
      status = thread.run(pieces, next);
    } catch (const std::bad_alloc&) {
      status = out_of_host_memory({});
    }
    if (status.ok()) return;
    next = pieces.size();  // Nothing that follows would be used.
    const std::lock_guard lock(mutex);
    if (first_failure.ok()) first_failure = std::move(status);
  };
  run_on_threads(std::min(kUploadThreads, pieces.size()), work);
  return first_failure;
}

}  // namespace rlx::cuda
