// SPDX-License-Identifier: Apache-2.0
// Words of warpgroup kernels: barriers in shared memory on which copies and products are counted, and wgmma where the
// architecture has it (RLX_HAS_WGMMA). CUDA only. Addresses of shared memory are 32-bit.
//
// A panel is a matrix in shared memory whose rows have 64 16-bit values (128 bytes); piece c (16 bytes) of row r stands at piece
// c ^ (r % 8), which keeps ldmatrix, wgmma and 16-byte stores free of bank conflicts. Panels begin at multiples of 1024 bytes.
#ifndef RLX_LIB_WGMMA_CUH
#define RLX_LIB_WGMMA_CUH

#include "lib/mbarrier.cuh"
#include "lib/mma.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define RLX_HAS_WGMMA 1
#else
#define RLX_HAS_WGMMA 0
#endif

// A matrix as the tensor copy engine sees it; the runtime makes it from the kernel's record (plan.fbs).
struct alignas(64) RlxTensorMap {
  rlx_u64 words[16];
};
// Where the first tap of a pixel's window stands in image n; beside the image where it is a pad.
struct RlxPixelPlace {
  int w;
  int h;
  int n;
};
#ifdef RLX_MAPS
// RLX_MAIN_MAPS { ... } is RLX_MAIN_PREFETCH with `maps`, one for each map() of the lowering, in their order.
struct RlxTensorMaps {
  RlxTensorMap at[RLX_MAPS];
};
#define RLX_MAIN_MAPS \
  RLX_FN void rlx_body(const RlxParams& p, const RlxTensorMaps& maps); \
  extern "C" __global__ void __launch_bounds__(RLX_BLOCK_X * RLX_BLOCK_Y * RLX_BLOCK_Z, RLX_MIN_GROUPS) \
  rlx_main(const __grid_constant__ RlxParams p, const __grid_constant__ RlxTensorMaps maps) { \
    rlx_release_successors(); \
    rlx_body(p, maps); \
  } \
  RLX_FN void rlx_body(const RlxParams& p, const RlxTensorMaps& maps)
#endif

#define RLX_PANEL_DEPTH 64u
#define RLX_PANEL_ROW_BYTES 128u

RLX_FN rlx_u32 rlx_panel_piece(rlx_u32 row, rlx_u32 piece) {
  return row * RLX_PANEL_ROW_BYTES + ((piece ^ (row & 7u)) << 4);
}

// Registers per thread of the calling warpgroup from here on.
template <int kRegisters>
RLX_FN void rlx_take_registers() {
#if RLX_HAS_WGMMA
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
RLX_FN void rlx_give_registers() {
#if RLX_HAS_WGMMA
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

#if RLX_HAS_WGMMA
// ---- tensor copies ----

// The workgroup's own barrier expects `bytes` of copies in its present phase, and this thread arrives.
RLX_FN void rlx_mbarrier_arrive_expecting(rlx_u32 barrier, rlx_u32 bytes) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// Arrives at the barrier of the same address in another workgroup of the cluster.
RLX_FN void rlx_mbarrier_arrive_at(rlx_u32 barrier, rlx_u32 rank) {
  asm volatile("{\n.reg .b32 address;\nmapa.shared::cluster.u32 address, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [address];\n}" ::"r"(barrier), "r"(rank)
               : "memory");
}
// Barriers that were initialised before are seen by the cluster behind its next barrier.
RLX_FN void rlx_fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

RLX_FN void rlx_prefetch_map(const RlxTensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<rlx_u64>(&map)) : "memory");
}
// One thread copies the map's box from element (x, y) on to shared memory, and its bytes count at the barrier; elements outside
// the matrix are zeros. With `ranks`, a mask, the same goes to the same addresses of all these workgroups of the cluster.
RLX_FN void rlx_copy_box(rlx_u32 shared, const RlxTensorMap& map, rlx_u32 x, rlx_u32 y, rlx_u32 barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                   shared),
               "l"(reinterpret_cast<rlx_u64>(&map)), "r"(x), "r"(y), "r"(barrier)
               : "memory");
}
RLX_FN void rlx_copy_box(rlx_u32 shared, const RlxTensorMap& map, rlx_u32 x, rlx_u32 y, rlx_u32 barrier, rlx_u32 ranks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], "
      "[%4], %5;" ::"r"(shared),
      "l"(reinterpret_cast<rlx_u64>(&map)), "r"(x), "r"(y), "r"(barrier), "h"(static_cast<unsigned short>(ranks))
      : "memory");
}

// The same of three dims.
RLX_FN void rlx_copy_box3(rlx_u32 shared, const RlxTensorMap& map, rlx_u32 x, rlx_u32 y, rlx_u32 z, rlx_u32 barrier,
                          rlx_u32 ranks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared),
      "l"(reinterpret_cast<rlx_u64>(&map)), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(static_cast<unsigned short>(ranks))
      : "memory");
}
// The map has a window: its pixels from `place` on, each read (tap_w, tap_h) further on, from channel c on.
RLX_FN void rlx_copy_pixels(rlx_u32 shared, const RlxTensorMap& map, rlx_u32 c, const RlxPixelPlace& place, rlx_u32 tap_w,
                            rlx_u32 tap_h, rlx_u32 barrier) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
               "[%6], {%7, %8};" ::"r"(shared),
               "l"(reinterpret_cast<rlx_u64>(&map)), "r"(c), "r"(place.w), "r"(place.h), "r"(place.n), "r"(barrier),
               "h"(static_cast<unsigned short>(tap_w)), "h"(static_cast<unsigned short>(tap_h))
               : "memory");
}

// One thread copies the map's box from shared memory to element (x, y) on; elements outside the matrix are left out. Writes to the
// shared memory come before by rlx_fence_async_shared in the threads that made them and a barrier.
RLX_FN void rlx_store_box(const RlxTensorMap& map, rlx_u32 x, rlx_u32 y, rlx_u32 shared) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
                   reinterpret_cast<rlx_u64>(&map)),
               "r"(x), "r"(y), "r"(shared)
               : "memory");
}
// Closes a group of this thread's stores of boxes; the wait returns when all but the kGroups youngest have read their memory.
RLX_FN void rlx_commit_boxes() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int kGroups>
RLX_FN void rlx_wait_boxes_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kGroups) : "memory");
}

// ---- wgmma: d (64 rows by kColumns) += a (64 x 16) * b^T (kColumns x 16), both in panels ----

RLX_FN void rlx_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
RLX_FN void rlx_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kGroups>
RLX_FN void rlx_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}

// Describes a panel from its 16-byte piece at `shared` on: 128-byte swizzle, 1024 bytes from eight rows to the next eight.
RLX_FN rlx_u64 rlx_panel_descriptor(rlx_u32 shared) {
  return (rlx_u64((shared & 0x3FFFFu) >> 4)) | (rlx_u64(1) << 16) | (rlx_u64(1024u >> 4) << 32) | (rlx_u64(1) << 62);
}

// The same panel `bytes` further along its rows, a multiple of 16 that stays within the 128 bytes of a row.
RLX_FN rlx_u64 rlx_panel_ahead(rlx_u64 descriptor, rlx_u32 bytes) { return descriptor + (bytes >> 4); }

// kBf16: operands are bf16, else f16. `add` 0 overwrites d. d[4 j .. 4 j + 3] of lane l of warp w: row 16 w + l / 4, columns
// 8 j + 2 (l % 4) and the next; then the same of row + 8.
template <int kColumns, bool kBf16>
struct rlx_wgmma;

#define RLX_WGMMA_REGISTERS_64 \
  "{" "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
#define RLX_WGMMA_OPERANDS_64 \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
  "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
  "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
  "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
template <>
struct rlx_wgmma<64, false> {
  static RLX_FN void run(float (&d)[32], rlx_u64 a, rlx_u64 b, rlx_u32 add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                 RLX_WGMMA_REGISTERS_64 "%32, %33, p, 1, 1, 0, 0;\n}\n"
                 : RLX_WGMMA_OPERANDS_64
                 : "l"(a), "l"(b), "r"(add));
  }
};
template <>
struct rlx_wgmma<64, true> {
  static RLX_FN void run(float (&d)[32], rlx_u64 a, rlx_u64 b, rlx_u32 add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 RLX_WGMMA_REGISTERS_64 "%32, %33, p, 1, 1, 0, 0;\n}\n"
                 : RLX_WGMMA_OPERANDS_64
                 : "l"(a), "l"(b), "r"(add));
  }
};
#define RLX_WGMMA_REGISTERS_128 \
  "{" "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
#define RLX_WGMMA_OPERANDS_128 \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
  "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
  "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
  "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
  "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
  "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
  "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
  "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
template <>
struct rlx_wgmma<128, false> {
  static RLX_FN void run(float (&d)[64], rlx_u64 a, rlx_u64 b, rlx_u32 add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
                 RLX_WGMMA_REGISTERS_128 "%64, %65, p, 1, 1, 0, 0;\n}\n"
                 : RLX_WGMMA_OPERANDS_128
                 : "l"(a), "l"(b), "r"(add));
  }
};
template <>
struct rlx_wgmma<128, true> {
  static RLX_FN void run(float (&d)[64], rlx_u64 a, rlx_u64 b, rlx_u32 add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 RLX_WGMMA_REGISTERS_128 "%64, %65, p, 1, 1, 0, 0;\n}\n"
                 : RLX_WGMMA_OPERANDS_128
                 : "l"(a), "l"(b), "r"(add));
  }
};
#define RLX_WGMMA_REGISTERS_192 \
  "{" "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
#define RLX_WGMMA_OPERANDS_192 \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
  "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
  "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
  "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
  "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
  "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
  "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
  "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), \
  "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), \
  "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), \
  "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), \
  "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
template <>
struct rlx_wgmma<192, false> {
  static RLX_FN void run(float (&d)[96], rlx_u64 a, rlx_u64 b, rlx_u32 add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\nwgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 "
                 RLX_WGMMA_REGISTERS_192 "%96, %97, p, 1, 1, 0, 0;\n}\n"
                 : RLX_WGMMA_OPERANDS_192
                 : "l"(a), "l"(b), "r"(add));
  }
};
template <>
struct rlx_wgmma<192, true> {
  static RLX_FN void run(float (&d)[96], rlx_u64 a, rlx_u64 b, rlx_u32 add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\nwgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
                 RLX_WGMMA_REGISTERS_192 "%96, %97, p, 1, 1, 0, 0;\n}\n"
                 : RLX_WGMMA_OPERANDS_192
                 : "l"(a), "l"(b), "r"(add));
  }
};
#define RLX_WGMMA_REGISTERS_256 \
  "{" "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
#define RLX_WGMMA_OPERANDS_256 \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
  "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
  "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
  "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
  "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
  "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
  "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
  "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), \
  "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), \
  "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), \
  "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), \
  "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), \
  "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), \
  "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), \
  "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), \
  "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
template <>
struct rlx_wgmma<256, false> {
  static RLX_FN void run(float (&d)[128], rlx_u64 a, rlx_u64 b, rlx_u32 add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\nwgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
                 RLX_WGMMA_REGISTERS_256 "%128, %129, p, 1, 1, 0, 0;\n}\n"
                 : RLX_WGMMA_OPERANDS_256
                 : "l"(a), "l"(b), "r"(add));
  }
};
template <>
struct rlx_wgmma<256, true> {
  static RLX_FN void run(float (&d)[128], rlx_u64 a, rlx_u64 b, rlx_u32 add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\nwgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
                 RLX_WGMMA_REGISTERS_256 "%128, %129, p, 1, 1, 0, 0;\n}\n"
                 : RLX_WGMMA_OPERANDS_256
                 : "l"(a), "l"(b), "r"(add));
  }
};
#endif

#endif
