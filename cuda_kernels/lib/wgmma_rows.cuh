// SPDX-License-Identifier: Apache-2.0
// wgmma whose left operand stands in registers: d (64 rows by 8 * kTiles columns) += a (64 x 16) * b, b in panels. sm_90a only.
//   a: the warp's 16 rows as the left operand of m16n8k16 (lib/mma.cuh); d[j]: its columns 8j to 8j + 7 as that product's result.
//   kTransposed false: b's columns are rows of the panel, its depth the 16 values from the piece on that the descriptor names.
//   kTransposed true: b's depth are 16 rows of the panel, its columns the values from that piece on.
// Between rlx_wgmma_fence and rlx_wgmma_wait nothing may touch d or a.
#ifndef RLX_LIB_WGMMA_ROWS_CUH
#define RLX_LIB_WGMMA_ROWS_CUH

#include "lib/wgmma.cuh"

#if RLX_HAS_WGMMA
#define RLX_WGMMA_ROWS_16(type) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %13, 0;\nwgmma.mma_async.sync.aligned.m64n16k16.f32." type "." type " {" \
  "%0, %1, %2, %3, %4, %5, %6, %7" \
  "}, {%8, %9, %10, %11}, %12, p, 1, 1, %14;\n}\n" \
  : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]) \
  : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(rlx_u32(add)), "n"(kTransposed))
#define RLX_WGMMA_ROWS_32(type) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\nwgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type " {" \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
  "}, {%16, %17, %18, %19}, %20, p, 1, 1, %22;\n}\n" \
  : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), \
  "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]) \
  : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(rlx_u32(add)), "n"(kTransposed))
#define RLX_WGMMA_ROWS_64(type) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
  "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}\n" \
  : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), \
  "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), \
  "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), \
  "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]) \
  : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(rlx_u32(add)), "n"(kTransposed))

template <int kTiles, bool kTransposed, bool kBf16>
RLX_FN void rlx_wgmma_tiles(float (*d)[4], const rlx_u32 (&a)[4], rlx_u64 b, bool add) {
  static_assert(kTiles == 2 || kTiles == 4 || kTiles == 8);
  if constexpr (kTiles == 8) {
    if constexpr (kBf16) {
      RLX_WGMMA_ROWS_64("bf16");
    } else {
      RLX_WGMMA_ROWS_64("f16");
    }
  } else if constexpr (kTiles == 4) {
    if constexpr (kBf16) {
      RLX_WGMMA_ROWS_32("bf16");
    } else {
      RLX_WGMMA_ROWS_32("f16");
    }
  } else {
    if constexpr (kBf16) {
      RLX_WGMMA_ROWS_16("bf16");
    } else {
      RLX_WGMMA_ROWS_16("f16");
    }
  }
}

// Any even number of tiles; descriptor(j) describes b from column 8j on. `add` false overwrites d.
template <int kTiles, bool kTransposed, bool kBf16, int kFirst = 0, int kAll, typename Descriptor>
RLX_FN void rlx_wgmma_rows(float (&d)[kAll][4], const rlx_u32 (&a)[4], Descriptor descriptor, bool add) {
  constexpr int kNow = kTiles >= 8 ? 8 : kTiles >= 4 ? 4 : 2;
  rlx_wgmma_tiles<kNow, kTransposed, kBf16>(d + kFirst, a, descriptor(kFirst), add);
  if constexpr (kTiles > kNow) rlx_wgmma_rows<kTiles - kNow, kTransposed, kBf16, kFirst + kNow>(d, a, descriptor, add);
}
#endif

#endif
