// SPDX-License-Identifier: Apache-2.0
// wgmma of lib/wgmma.cuh for 16, 32 and 48 columns, sides of which may be turned: consecutive values are rows of the result (or columns)
// and not depths. In a turned panel a row is a depth of 64 rows of the result, and 16 depths further on stand 2048 bytes further on.
#ifndef RLX_LIB_WGMMA_FEW_CUH
#define RLX_LIB_WGMMA_FEW_CUH

#include "lib/wgmma.cuh"

#if RLX_HAS_WGMMA

// Describes cores of 8 x 8 values (128 bytes, a row's 8 values beside each other) from `shared` on, `depths` bytes from one to that of
// the next 8 depths and `others` to that of the next 8 rows or columns of the result.
RLX_FN rlx_u64 rlx_core_descriptor(rlx_u32 shared, rlx_u32 depths, rlx_u32 others) {
  return rlx_u64((shared & 0x3FFFFu) >> 4) | (rlx_u64(depths >> 4) << 16) | (rlx_u64(others >> 4) << 32);
}

#define RLX_WGMMA_EIGHT(i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define RLX_WGMMA_FEW(shape, type, registers, a_at, b_at, add_at, turned_a, turned_b, ...) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" add_at ", 0;\nwgmma.mma_async.sync.aligned." shape ".f32." type "." type " {" registers \
               "}, %" a_at ", %" b_at ", p, 1, 1, %" turned_a ", %" turned_b ";\n}\n" \
               : __VA_ARGS__ \
               : "l"(a), "l"(b), "r"(rlx_u32(add)), "n"(int(kTurnedLeft)), "n"(int(kTurnedRight)))
#define RLX_WGMMA_FEW_16(type) \
  RLX_WGMMA_FEW("m64n16k16", type, "%0, %1, %2, %3, %4, %5, %6, %7", "8", "9", "10", "11", "12", RLX_WGMMA_EIGHT(0))
#define RLX_WGMMA_FEW_32(type) \
  RLX_WGMMA_FEW("m64n32k16", type, "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15", "16", "17", "18", "19", "20", \
                RLX_WGMMA_EIGHT(0), RLX_WGMMA_EIGHT(8))
#define RLX_WGMMA_FEW_48(type) \
  RLX_WGMMA_FEW("m64n48k16", type, \
                "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23", "24", "25", \
                "26", "27", "28", RLX_WGMMA_EIGHT(0), RLX_WGMMA_EIGHT(8), RLX_WGMMA_EIGHT(16))

// d as rlx_wgmma has it. `add` false overwrites d.
template <int kColumns, bool kBf16, bool kTurnedLeft, bool kTurnedRight>
RLX_FN void rlx_wgmma_few(float* d, rlx_u64 a, rlx_u64 b, bool add) {
  static_assert(kColumns == 16 || kColumns == 32 || kColumns == 48);
  if constexpr (kColumns == 16 && kBf16) RLX_WGMMA_FEW_16("bf16");
  if constexpr (kColumns == 16 && !kBf16) RLX_WGMMA_FEW_16("f16");
  if constexpr (kColumns == 32 && kBf16) RLX_WGMMA_FEW_32("bf16");
  if constexpr (kColumns == 32 && !kBf16) RLX_WGMMA_FEW_32("f16");
  if constexpr (kColumns == 48 && kBf16) RLX_WGMMA_FEW_48("bf16");
  if constexpr (kColumns == 48 && !kBf16) RLX_WGMMA_FEW_48("f16");
}
#endif

#endif
