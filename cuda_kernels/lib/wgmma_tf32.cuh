// SPDX-License-Identifier: Apache-2.0
// wgmma of lib/wgmma.cuh for tf32: d (64 rows by kColumns) += a (64 x 8) * b^T (kColumns x 8), both in panels, whose rows have 32 values
// of f32 here, of which the hardware ignores the low 13 bits. rlx_wgmma_tf32_tiles: a stands in registers.
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

// d (64 rows by 8 * kTiles columns) += a (64 x 8) * b^T. a: the warp's 16 rows as the left operand of m16n8k8 (lib/mma.cuh); d[j]: its
// columns 8j to 8j + 7 as that product's result. `add` false overwrites d. Between rlx_wgmma_fence and rlx_wgmma_wait nothing may touch d or a.
template <int kTiles>
RLX_FN void rlx_wgmma_tf32_tiles(float (*d)[4], const rlx_u32 (&a)[4], rlx_u64 b, bool add) {
  static_assert(kTiles == 2 || kTiles == 4);
  if constexpr (kTiles == 2) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %13, 0;\nwgmma.mma_async.sync.aligned.m64n16k8.f32.tf32.tf32 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7"
                 "}, {%8, %9, %10, %11}, %12, p, 1, 1;\n}\n"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(rlx_u32(add)));
  } else {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\nwgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
                 "}, {%16, %17, %18, %19}, %20, p, 1, 1;\n}\n"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]),
                   "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(rlx_u32(add)));
  }
}
#endif

#endif
