// SPDX-License-Identifier: Apache-2.0
// wgmma of lib/wgmma.cuh for tf32: d (64 rows by kColumns) += a (64 x 8) * b^T (kColumns x 8), both in panels, whose rows have 32 values
// of f32 here, of which the hardware ignores the low 13 bits.
#ifndef RLX_LIB_WGMMA_TF32_CUH
#define RLX_LIB_WGMMA_TF32_CUH

#include "lib/wgmma.cuh"

#if RLX_HAS_WGMMA

template <int kColumns>
struct rlx_wgmma_tf32;
template <>
struct rlx_wgmma_tf32<64> {
  static RLX_FN void run(float (&d)[32], rlx_u64 a, rlx_u64 b, rlx_u32 add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 "
                 RLX_WGMMA_REGISTERS_64 "%32, %33, p, 1, 1;\n}\n"
                 : RLX_WGMMA_OPERANDS_64
                 : "l"(a), "l"(b), "r"(add));
  }
};
template <>
struct rlx_wgmma_tf32<128> {
  static RLX_FN void run(float (&d)[64], rlx_u64 a, rlx_u64 b, rlx_u32 add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 "
                 RLX_WGMMA_REGISTERS_128 "%64, %65, p, 1, 1;\n}\n"
                 : RLX_WGMMA_OPERANDS_128
                 : "l"(a), "l"(b), "r"(add));
  }
};
#endif

#endif
