// SPDX-License-Identifier: Apache-2.0
// rlx_wgmma of lib/wgmma.cuh for few columns: 32, 48 and 96.
#ifndef RLX_LIB_WGMMA_NARROW_CUH
#define RLX_LIB_WGMMA_NARROW_CUH

#include "lib/wgmma.cuh"

#if RLX_HAS_WGMMA

#define RLX_WGMMA_32(type) \
  asm volatile( \
    "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\nwgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type " " \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, " \
    "%16, %17, p, 1, 1, 0, 0;\n}\n" \
    : \
    "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
    "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]) \
    : "l"(a), "l"(b), "r"(add))
template <bool kBf16>
struct rlx_wgmma<32, kBf16> {
  static RLX_FN void run(float (&d)[16], rlx_u64 a, rlx_u64 b, rlx_u32 add) {
    if constexpr (kBf16) {
      RLX_WGMMA_32("bf16");
    } else {
      RLX_WGMMA_32("f16");
    }
  }
};

#define RLX_WGMMA_48(type) \
  asm volatile( \
    "{\n.reg .pred p;\nsetp.ne.b32 p, %26, 0;\nwgmma.mma_async.sync.aligned.m64n48k16.f32." type "." type " " \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23}, " \
    "%24, %25, p, 1, 1, 0, 0;\n}\n" \
    : \
    "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
    "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
    "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]) \
    : "l"(a), "l"(b), "r"(add))
template <bool kBf16>
struct rlx_wgmma<48, kBf16> {
  static RLX_FN void run(float (&d)[24], rlx_u64 a, rlx_u64 b, rlx_u32 add) {
    if constexpr (kBf16) {
      RLX_WGMMA_48("bf16");
    } else {
      RLX_WGMMA_48("f16");
    }
  }
};

#define RLX_WGMMA_96(type) \
  asm volatile( \
    "{\n.reg .pred p;\nsetp.ne.b32 p, %50, 0;\nwgmma.mma_async.sync.aligned.m64n96k16.f32." type "." type " " \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, " \
    "%48, %49, p, 1, 1, 0, 0;\n}\n" \
    : \
    "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
    "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
    "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
    "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
    "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
    "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]) \
    : "l"(a), "l"(b), "r"(add))
template <bool kBf16>
struct rlx_wgmma<96, kBf16> {
  static RLX_FN void run(float (&d)[48], rlx_u64 a, rlx_u64 b, rlx_u32 add) {
    if constexpr (kBf16) {
      RLX_WGMMA_96("bf16");
    } else {
      RLX_WGMMA_96("f16");
    }
  }
};

#endif

#endif
