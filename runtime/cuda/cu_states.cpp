// SPDX-License-Identifier: Apache-2.0
// Initial values of a session's states, and their way to the host and back.
#include "runtime/cuda/cu_session.h"

namespace rlx::cuda {
namespace {

// Puts fills and copies on the session's stream.
class Writer final : public StateWriter {
 public:
  Writer(Context& context, CUstream stream, Staging& staging, const Segment& weights,
         const Segment& states)
      : context_(context), stream_(stream), staging_(staging), weights_(weights), states_(states) {}

  Status fill_zeros(ByteRange state) override {
    return context_.check(context_.api.cuMemsetD8Async(states_.address(state.offset_bytes), 0,
                                                       state.size_bytes, stream_),
                          "reset_states");
  }
  Status write(uint64_t offset_bytes, std::span<const std::byte> bytes) override {
    return staging_.write(states_.address(offset_bytes), bytes);
  }
  Status copy_weight(uint64_t weight_offset_bytes, ByteRange state) override {
    return context_.check(context_.api.cuMemcpyDtoDAsync_v2(states_.address(state.offset_bytes),
                                                            weights_.address(weight_offset_bytes),
                                                            state.size_bytes, stream_),
                          "reset_states");
  }

 private:
  Context& context_;
  CUstream stream_;
  Staging& staging_;
  const Segment& weights_;
  const Segment& states_;
};

}  // namespace

Status CudaSession::fill_states() {
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  Writer writer(context_, stream_, staging_, device_plan_.weights(), state_);
  RLX_RETURN_IF_ERROR(write_states(view(), bound_states(), writer));
  return synchronise("reset_states");
}

Status CudaSession::read_state_bytes(const StatePart& part, std::span<std::byte> bytes) {
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  return staging_.read_pieces(state_.address(segment_offset(part)), part.piece_bytes,
                              part.stride_bytes, bytes);
}

Status CudaSession::write_state_bytes(const StatePart& part, std::span<const std::byte> bytes) {
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  CUdeviceptr target = state_.address(segment_offset(part));
  for (uint64_t i = 0; i < part.pieces; ++i) {
    RLX_RETURN_IF_ERROR(
        staging_.write(target, bytes.subspan(i * part.piece_bytes, part.piece_bytes)));
    target += part.stride_bytes;
  }
  return synchronise("write_state");
}

Status CudaSession::copy_state_bytes(ByteRange range, const SessionBase& from) {
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  const Segment& source = static_cast<const CudaSession&>(from).state_;
  RLX_RETURN_IF_ERROR(
      context_.check(context_.api.cuMemcpyDtoDAsync_v2(state_.address(range.offset_bytes),
                                                       source.address(range.offset_bytes),
                                                       range.size_bytes, stream_),
                     "copy_state"));
  return synchronise("copy_state");
}

}  // namespace rlx::cuda
