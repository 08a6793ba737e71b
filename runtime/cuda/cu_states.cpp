// SPDX-License-Identifier: Apache-2.0
// Initial values of a session's states.
#include <algorithm>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/cuda/cu_session.h"

namespace rlx::cuda {
namespace {

// Whole elements of every dtype that has a number one.
constexpr uint64_t kPieceBytes = 64 << 10;

Status write_ones(Staging& staging, const fb::State& state, CUdeviceptr target) {
  if (!has_one(state.dtype())) {
    return unsuitable(text_of("state ", quoted(PlanView::text(state.name())),
                              " begins as ones, which a quantised type cannot"));
  }
  std::vector<std::byte> ones(std::min(state.size_bytes(), kPieceBytes));
  fill_with_ones(state.dtype(), ones);
  for (uint64_t done = 0; done < state.size_bytes(); done += ones.size()) {
    const uint64_t piece = std::min<uint64_t>(ones.size(), state.size_bytes() - done);
    RLX_RETURN_IF_ERROR(staging.write(target + done, std::span(ones).first(piece)));
  }
  return {};
}

}  // namespace

Status CudaSession::reset_states() {
  RLX_RETURN_IF_ERROR(require_idle("reset_states"));
  RLX_RETURN_IF_ERROR(context_.health());
  if (view_.index().states()->size() == 0) return {};
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  const Api& api = context_.api;
  for (const fb::State* state : *view_.index().states()) {
    if (state->size_bytes() == 0) continue;
    const CUdeviceptr target = state_.address(state->offset_bytes());
    switch (state->init()) {
      case fb::StateInit::Zeros:
        RLX_RETURN_IF_ERROR(context_.check(
            api.cuMemsetD8Async(target, 0, state->size_bytes(), stream_), "reset_states"));
        break;
      case fb::StateInit::Ones:
        RLX_RETURN_IF_ERROR(write_ones(staging_, *state, target));
        break;
      case fb::StateInit::Weight: {
        const fb::Weight& weight = *view_.index().weights()->Get(*state->init_weight());
        RLX_RETURN_IF_ERROR(context_.check(
            api.cuMemcpyDtoDAsync_v2(target, plan_->weights().address(weight.offset_bytes()),
                                     state->size_bytes(), stream_),
            "reset_states"));
        break;
      }
    }
  }
  return synchronise("reset_states");
}

}  // namespace rlx::cuda
