// SPDX-License-Identifier: Apache-2.0
// Barriers in shared memory on which threads and copies are counted. CUDA only. Addresses of shared memory are 32-bit.
#ifndef RLX_LIB_MBARRIER_CUH
#define RLX_LIB_MBARRIER_CUH

#include "lib/mma.cuh"

// A barrier completes a phase when `arrivals` threads have arrived; phases are numbered 0, 1, 0, 1 ...
RLX_FN void rlx_mbarrier_init(rlx_u32 barrier, rlx_u32 arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
RLX_FN void rlx_mbarrier_arrive(rlx_u32 barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(barrier) : "memory");
}
// Arrives once this thread's asynchronous copies so far are complete, without waiting for them.
RLX_FN void rlx_mbarrier_arrive_after_copies(rlx_u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}
RLX_FN bool rlx_mbarrier_done(rlx_u32 barrier, rlx_u32 phase) {
  rlx_u32 done;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done)
               : "r"(barrier), "r"(phase)
               : "memory");
#else
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done)
               : "r"(barrier), "r"(phase)
               : "memory");
#endif
  return done != 0u;
}
// Returns when the barrier has completed the phase of this number.
RLX_FN void rlx_mbarrier_wait(rlx_u32 barrier, rlx_u32 phase) {
  while (!rlx_mbarrier_done(barrier, phase)) {
  }
}

// Writes to shared memory that this thread has made, or learnt of at a barrier, are seen by its wgmma and bulk copies.
RLX_FN void rlx_fence_async_shared() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#endif
