// SPDX-License-Identifier: Apache-2.0
// A ring of stages in shared memory that one warp fills from global memory while others read: what kernels are made of that go
// through a large operand once. CUDA only. A stage is `full` when all its bytes have arrived and `empty` when every reader is done.
#ifndef RLX_LIB_STREAM_CUH
#define RLX_LIB_STREAM_CUH

#include "lib/mbarrier.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define RLX_HAS_BULK_COPY 1
#else
#define RLX_HAS_BULK_COPY 0
#endif

// Arrivals that complete a stage: of the thread that announces its bytes, or of every lane that copied.
#define RLX_STREAM_ARRIVALS (RLX_HAS_BULK_COPY ? 1u : 32u)

// Called by all lanes of the filling warp before the copies of a stage: `bytes` are to arrive at the barrier in all.
RLX_FN void rlx_stream_announce(rlx_u32 barrier, rlx_u32 bytes, rlx_u32 lane) {
#if RLX_HAS_BULK_COPY
  if (lane == 0u) {
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;\n}" ::"r"(barrier), "r"(bytes) : "memory");
  }
#endif
}
// Copies contiguous bytes, a multiple of 16 at multiples of 16, that will not be read again soon: they leave the L2 cache first.
RLX_FN void rlx_stream_copy(rlx_u32 shared, rlx_ptr global, rlx_u32 bytes, rlx_u32 barrier, rlx_u32 lane) {
#if RLX_HAS_BULK_COPY
  if (lane == 0u) {
    asm volatile(
        "{\n.reg .b64 policy;\ncreatepolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], policy;\n}" ::"r"(shared),
        "l"(global), "r"(bytes), "r"(barrier)
        : "memory");
  }
#else
  for (rlx_u32 at = lane * 16u; at < bytes; at += 32u * 16u) rlx_copy16_async(shared + at, global + at);
#endif
}
// Called by all lanes after the copies of a stage.
RLX_FN void rlx_stream_close(rlx_u32 barrier) {
#if !RLX_HAS_BULK_COPY
  rlx_mbarrier_arrive_after_copies(barrier);
#endif
}

#endif
