// SPDX-License-Identifier: Apache-2.0
// y[m, n] = act(sum over k of a[m, k] * b[k, n] + bias[m, n]) + residual[m, n] on tensor cores, for every batch entry.
// Layout: a and b as in matmul.kernel, both of one type and in whole aligned pieces of RLX_A_COPY and RLX_B_COPY bytes (16 where
//   undefined, 8, 4 or 2) along one axis: along the depth (RLX_A_BY_LINE 0) or along the lines (1; a line is an m of a, an n of b); y is dense.
// Grid: tiles x RLX_SPLITS x batches groups; the RLX_SPLITS groups of a tile are a cluster and share out k.
// Specializations: RLX_TILE_M, RLX_TILE_N, RLX_TILE_K; RLX_STAGES tiles of depth are in flight; RLX_WARPS_M x RLX_WARPS_N warps
//   share a tile, RLX_WARPS_K of them each its depth; RLX_SPLITS, RLX_SPLIT_K (depth of a group, whole tiles); RLX_A, the
//   type of both operands; RLX_TF32 1: f32 operands count as tf32; RLX_A_WEIGHTS, RLX_B_WEIGHTS 1: the operand is there before any
//   step runs, so it travels while the steps before this one finish; RLX_ROW_BY_ROW 1: tiles in order of rows, not of bands of rows;
//   epilogue (lib/product.inc); RLX_M, RLX_N, RLX_K, RLX_BATCHES, the operands' strides and generated/batch.inc as in matmul.kernel; all
//   but RLX_K may be free sizes.
// Phases: panels of a and b travel to shared memory (cp.async) ahead of their use; warps multiply; all sums of a tile meet in
//   shared memory, across the cluster too, where each thread adds its elements in a fixed order and finishes them.
// Numerics: f32 sums, one rounding at the store. f32 operands are split into two tf32 parts (lib/split_f32.cuh), settled with every tile
//   of depth; where a sum is not finite, it is computed again by f32 fused multiply-adds. Warpgroups
//   leave low * low out.
// ptxas: spills because tiles of f32 for warpgroups are multiplied by warps where there are none: 16 bytes on sm_80.
#include "lib/prelude.inc"
#include "lib/storage.inc"
#include "lib/product.inc"
#include "lib/lines.inc"
#include "lib/split_f32.cuh"
#include "lib/wgmma_narrow.cuh"
#include "lib/wgmma_tf32.cuh"

RLX_PARAMS(MatmulMmaParams);

// Successors start when the steps before are complete: those then find the room that these left. Encoders on an H200, against release
// at the start and at the end: BERT-base b1 s128 0.284 ms, 0.34, 0.30; MiniLM-L6 0.090 ms; BERT-base of f32, s16, 0.278 against 0.311.
#undef RLX_RELEASES_EARLY
#define RLX_RELEASES_EARLY 0

#define RLX_TILES_M ((RLX_M + RLX_TILE_M - 1) / RLX_TILE_M)
#define RLX_TILES_N ((RLX_N + RLX_TILE_N - 1) / RLX_TILE_N)
#define RLX_TILES (RLX_TILES_M * RLX_TILES_N)
#define RLX_OPERAND_BYTES RLX_CAT(rlx_bytes_, RLX_A)
#define RLX_IS_F32 (RLX_OPERAND_BYTES == 4)
#define RLX_SPLIT_F32 (RLX_IS_F32 && !RLX_TF32)

#ifndef RLX_A_COPY
#define RLX_A_COPY 16
#endif
#ifndef RLX_B_COPY
#define RLX_B_COPY 16
#endif

#define rlx_is_bf16_f16 0
#define rlx_is_bf16_bf16 1
#define rlx_is_bf16_f32 0
constexpr bool kIsBf16 = RLX_CAT(rlx_is_bf16_, RLX_A);
constexpr rlx_u32 kElementBytes = RLX_OPERAND_BYTES;
constexpr rlx_u32 kChunk = 16 / kElementBytes;      // elements of a 16-byte piece
constexpr rlx_u32 kStepDepth = 32 / kElementBytes;  // depth of one mma
constexpr rlx_u32 kThreads = 32 * RLX_WARPS_M * RLX_WARPS_N * RLX_WARPS_K;
constexpr rlx_u32 kWarpM = RLX_TILE_M / RLX_WARPS_M;
constexpr rlx_u32 kWarpN = RLX_TILE_N / RLX_WARPS_N;
constexpr rlx_u32 kFragmentsM = kWarpM / 16;
constexpr rlx_u32 kFragmentsN = kWarpN / 8;
constexpr rlx_u32 kSteps = RLX_TILE_K / kStepDepth / RLX_WARPS_K;  // of a warp per tile of depth
static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 && kSteps * RLX_WARPS_K * kStepDepth == RLX_TILE_K, "whole fragments");

#include "lib/product_panels.cuh"
using PanelA = Panel<RLX_TILE_M, RLX_A_BY_LINE>;
using PanelB = Panel<RLX_TILE_N, RLX_B_BY_LINE>;
constexpr rlx_u32 kStageBytes = PanelA::kBytes + PanelB::kBytes;

// A warpgroup's product (sm_90a) in place of its warps' own, rows of 128 bytes along the depth, 16 lines of a per warp: of 16-bit
// operands along the depth; of f32 in parts, which warps_n 1 asks for, with a along the depth.
#if RLX_HAS_WGMMA && !RLX_IS_F32 && !RLX_A_BY_LINE && !RLX_B_BY_LINE && RLX_TILE_K == 64 && \
    RLX_TILE_M == 16 * RLX_WARPS_M && RLX_WARPS_M % 4 == 0
#define RLX_WARPGROUPS 1
#else
#define RLX_WARPGROUPS 0
#endif
#if RLX_SPLIT_F32 && !RLX_A_BY_LINE && RLX_TILE_K == 32 && RLX_TILE_M == 16 * RLX_WARPS_M && RLX_WARPS_M % 4 == 0 && \
    RLX_WARPS_N == 1 && RLX_WARPS_K == 1
#define RLX_FOR_PART_GROUPS 1
#else
#define RLX_FOR_PART_GROUPS 0
#endif
#define RLX_PART_GROUPS (RLX_FOR_PART_GROUPS && RLX_HAS_WGMMA)

// What warpgroups read beside the stages of f32, one place for a block and one for the next: low parts of a, of b, and of a b by
// line its high parts too, along the depth.
constexpr rlx_u32 kPartsBytesA = RLX_TILE_M * 128;
constexpr rlx_u32 kPartsBytesB = RLX_TILE_N * 128;
constexpr rlx_u32 kPartsBytes = RLX_PART_GROUPS ? kPartsBytesA + (RLX_B_BY_LINE ? 2 : 1) * kPartsBytesB : 0;
// Tiles for warpgroups take up to 227 KiB where there are such; elsewhere as many stages as fit into 99 KiB.
constexpr rlx_u32 kStagesElsewhere = (98 * 1024) / kStageBytes;
constexpr rlx_u32 kStages =
    RLX_FOR_PART_GROUPS && !RLX_PART_GROUPS && RLX_STAGES > kStagesElsewhere ? kStagesElsewhere : RLX_STAGES;

// Columns of the fragments of f32 panels along the lines: a thread reads kPacked neighbours at once, one for each of kPacked
// fragments, so that column c of fragment f stands for column kPacked * c + f of theirs.
#define RLX_PERMUTED (RLX_IS_F32 && RLX_B_BY_LINE && !RLX_PART_GROUPS)
constexpr rlx_u32 kPackedN = kWarpN % 32 == 0 ? 4 : 2;
constexpr rlx_u32 kPackedM = kWarpM % 32 == 0 ? 4 : 2;

// The tile's sums, one slice for each warp that shares its depth: [RLX_WARPS_K][RLX_TILE_M][kSumPitch] f32.
constexpr rlx_u32 kSumPitch = RLX_TILE_N + (RLX_PERMUTED ? 4 : 8);
constexpr rlx_u32 kSliceFloats = RLX_TILE_M * kSumPitch;
constexpr rlx_u32 kPipelineBytes = kStages * kStageBytes + 2 * kPartsBytes;
constexpr rlx_u32 kSumBytes = RLX_WARPS_K * kSliceFloats * 4;

// Up to 1024 bytes more, so that panels begin at multiples of 1024.
RLX_DYNAMIC_SHARED((kPipelineBytes > kSumBytes ? kPipelineBytes : kSumBytes) + 1024);

RLX_FN rlx_u32 shared_base() { return (rlx_shared_address(rlx_shared) + 1023u) & ~1023u; }
RLX_FN float* sums_base() {
  return reinterpret_cast<float*>(rlx_shared + (shared_base() - rlx_shared_address(rlx_shared)));
}

#if RLX_SPLITS > 1
RLX_CLUSTER(RLX_SPLITS);
#endif
#if RLX_SPLITS > 1 && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define RLX_IN_CLUSTER 1
constexpr rlx_u32 kSharers = RLX_SPLITS;  // groups that work on a tile
#else
#define RLX_IN_CLUSTER 0
constexpr rlx_u32 kSharers = 1;  // no cluster: its first group does all of the depth
#endif
constexpr rlx_u32 kDepth = kSharers == 1 ? RLX_K : RLX_SPLIT_K;  // of a group, at most
constexpr rlx_u32 kBlocks = (kDepth + RLX_TILE_K - 1) / RLX_TILE_K;
constexpr bool kRefill = kBlocks > kStages;  // else the whole depth is in flight at once
constexpr bool kDepthsAreEqual = kSharers == 1 || RLX_K == RLX_SPLITS * RLX_SPLIT_K;
// Stages in flight; refilled are the one used last, or the one before, which warpgroups may be still reading.
constexpr rlx_u32 kBehind = RLX_WARPGROUPS ? 2 : 1;
constexpr rlx_u32 kAhead = kRefill ? kStages - kBehind : kStages;
static_assert(!kRefill || kStages > kBehind, "a stage to fill while another is used");

// ---- fragments ----

struct WarpPlace {
  rlx_u32 m;  // first line of a in the tile
  rlx_u32 n;  // first line of b
  rlx_u32 k;  // which of the warps that share the depth
  rlx_u32 lane;
};

RLX_FN void load_words(rlx_u32 (&words)[2], rlx_u32 shared) { rlx_shared_load2(words, shared); }
RLX_FN void load_words(rlx_u32 (&words)[4], rlx_u32 shared) { rlx_shared_load4(words, shared); }

// The warp's fragments at `step` (32 bytes of depth) of a panel.
RLX_FN void load_a(rlx_u32 panel, WarpPlace warp, rlx_u32 step, rlx_u32 (&a)[kFragmentsM][4]) {
  const rlx_u32 lane = warp.lane;
#if !RLX_A_BY_LINE
  RLX_UNROLL for (rlx_u32 i = 0; i < kFragmentsM; ++i) {
    rlx_load_tiles4(a[i], panel + PanelA::at(warp.m + i * 16u + (lane & 15u), step * 2u + (lane >> 4)));
  }
#elif !RLX_IS_F32
  RLX_UNROLL for (rlx_u32 i = 0; i < kFragmentsM; ++i) {
    const rlx_u32 depth = step * 16u + (lane & 7u) + ((lane >> 4) << 3);
    rlx_load_tiles4_transposed(a[i], panel + PanelA::at(depth, (warp.m + i * 16u) / 8u + ((lane >> 3) & 1u)));
  }
#else
  // Row r of fragment f, r below 8 or above, stands for line kPackedM * (r % 8) + 2 f + r / 8 of theirs.
  const rlx_u32 g = lane >> 2;
  RLX_UNROLL for (rlx_u32 half = 0; half < 2u; ++half) {
    const rlx_u32 row = panel + (step * 8u + (lane & 3u) + half * 4u) * PanelA::kPitch;
    RLX_UNROLL for (rlx_u32 i = 0; i < kFragmentsM; i += kPackedM / 2u) {
      rlx_u32 words[kPackedM];
      load_words(words, row + (warp.m + i * 16u + g * kPackedM) * 4u);
      RLX_UNROLL for (rlx_u32 w = 0; w < kPackedM; ++w) a[i + w / 2u][half * 2u + w % 2u] = words[w];
    }
  }
#endif
}

RLX_FN void load_b(rlx_u32 panel, WarpPlace warp, rlx_u32 step, rlx_u32 (&b)[kFragmentsN][2]) {
  const rlx_u32 lane = warp.lane;
#if RLX_IS_F32 && RLX_B_BY_LINE
  const rlx_u32 g = lane >> 2;
  RLX_UNROLL for (rlx_u32 half = 0; half < 2u; ++half) {
    const rlx_u32 row = panel + (step * 8u + (lane & 3u) + half * 4u) * PanelB::kPitch;
    RLX_UNROLL for (rlx_u32 j = 0; j < kFragmentsN; j += kPackedN) {
      rlx_u32 words[kPackedN];
      load_words(words, row + (warp.n + j * 8u + g * kPackedN) * 4u);
      RLX_UNROLL for (rlx_u32 w = 0; w < kPackedN; ++w) b[j + w][half] = words[w];
    }
  }
#else
  RLX_UNROLL for (rlx_u32 j = 0; j < kFragmentsN; j += 2u) {
    rlx_u32 words[4];
#if RLX_B_BY_LINE
    rlx_load_tiles4_transposed(
        words, panel + PanelB::at(step * 16u + (lane & 15u), (warp.n + j * 8u) / 8u + (lane >> 4)));
#else
    rlx_load_tiles4(words, panel + PanelB::at(warp.n + j * 8u + (lane & 7u) + ((lane >> 4) << 3), step * 2u + ((lane >> 3) & 1u)));
#endif
    b[j][0] = words[0];
    b[j][1] = words[1];
    b[j + 1u][0] = words[2];
    b[j + 1u][1] = words[3];
  }
#endif
}

// ---- products ----

using Sums = float[kFragmentsM][kFragmentsN][4];

// What a warp has summed.
#if RLX_SPLIT_F32
using Accumulators = RlxSplitSums<kFragmentsM, kFragmentsN>;
constexpr bool kLowProducts = RLX_K < RLX_SPLIT_FEW_PRODUCTS;
#else
struct Accumulators {
  Sums sums;
};
RLX_FN void rlx_clear(Accumulators& acc) { rlx_clear(acc.sums); }
#endif

RLX_FN void multiply_step(rlx_u32 (&a)[kFragmentsM][4], rlx_u32 (&b)[kFragmentsN][2], Accumulators& acc) {
#if RLX_SPLIT_F32
  rlx_multiply_split<kLowProducts>(acc, a, b);
#else
#if RLX_IS_F32
#define rlx_mma_f32 rlx_mma_tf32
  RLX_UNROLL for (rlx_u32 i = 0; i < kFragmentsM; ++i) {
    RLX_UNROLL for (rlx_u32 e = 0; e < 4u; ++e) a[i][e] = rlx_tf32(rlx_from_bits(a[i][e]));
  }
  RLX_UNROLL for (rlx_u32 j = 0; j < kFragmentsN; ++j) {
    RLX_UNROLL for (rlx_u32 e = 0; e < 2u; ++e) b[j][e] = rlx_tf32(rlx_from_bits(b[j][e]));
  }
#endif
  RLX_UNROLL for (rlx_u32 j = 0; j < kFragmentsN; ++j) {
    RLX_UNROLL for (rlx_u32 i = 0; i < kFragmentsM; ++i) RLX_CAT(rlx_mma_, RLX_A)(acc.sums[i][j], a[i], b[j]);
  }
#endif
}

RLX_FN float sum_of(const Accumulators& acc, rlx_u32 i, rlx_u32 j, rlx_u32 e) {
#if RLX_SPLIT_F32
  return rlx_sum_of(acc, int(i), int(j), int(e));
#else
  return acc.sums[i][j][e];
#endif
}

// Multiplies the panels of one stage.
RLX_FN void multiply_block(rlx_u32 stage, WarpPlace warp, Accumulators& acc) {
#if RLX_WARPGROUPS
  rlx_wgmma_fence();
  const rlx_u64 a = rlx_panel_descriptor(stage + warp.m / 64u * 64u * RLX_PANEL_ROW_BYTES + warp.k * 32u);
  const rlx_u64 b = rlx_panel_descriptor(stage + PanelA::kBytes + warp.n * RLX_PANEL_ROW_BYTES + warp.k * 32u);
  RLX_UNROLL for (rlx_u32 step = 0; step < kSteps; ++step) {
    const rlx_u32 depth_bytes = step * RLX_WARPS_K * 32u;
    using Flat = float[kWarpN / 2];
    rlx_wgmma<kWarpN, kIsBf16>::run(reinterpret_cast<Flat&>(acc.sums), rlx_panel_ahead(a, depth_bytes), rlx_panel_ahead(b, depth_bytes),
                                    1u);
  }
  rlx_wgmma_commit();
#else
  RLX_UNROLL for (rlx_u32 step = 0; step < kSteps; ++step) {
    rlx_u32 a[kFragmentsM][4];
    rlx_u32 b[kFragmentsN][2];
    load_a(stage, warp, step * RLX_WARPS_K + warp.k, a);
    load_b(stage + PanelA::kBytes, warp, step * RLX_WARPS_K + warp.k, b);
    multiply_step(a, b, acc);
  }
#if RLX_SPLIT_F32
  rlx_settle(acc);
#endif
#endif
}

// Makes the sums readable.
RLX_FN void finish_blocks(Accumulators& acc) {
#if RLX_WARPGROUPS
  rlx_wgmma_wait<0>();
#endif
}

// ---- the pipeline ----

// What this group multiplies: `blocks` tiles of depth.
struct Work {
  PanelCopies<PanelA, RLX_A_BY_LINE, RLX_A_COPY> a;
  PanelCopies<PanelB, RLX_B_BY_LINE, RLX_B_COPY> b;
  rlx_u32 blocks;
  rlx_u32 shared;

  // Of the first kStages blocks.
  RLX_FN rlx_u32 stage(rlx_u32 block) const { return shared + block * kStageBytes; }
  // The stage of the block after the one of `stage`.
  RLX_FN rlx_u32 next(rlx_u32 stage) const { return stage == shared + (kStages - 1) * kStageBytes ? shared : stage + kStageBytes; }
  RLX_FN void copy_a(rlx_u32 stage, rlx_u32 block) const { a.copy(stage, block); }
  RLX_FN void copy_b(rlx_u32 stage, rlx_u32 block) const { b.copy(stage + PanelA::kBytes, block); }
};

// The first panels: weights before the steps ahead have finished, the rest after. One group of copies per block.
RLX_FN void start_copies(const Work& work) {
  RLX_UNROLL for (rlx_u32 block = 0; block < kAhead; ++block) {
    if (block >= work.blocks) break;
    if (RLX_A_WEIGHTS) work.copy_a(work.stage(block), block);
    if (RLX_B_WEIGHTS) work.copy_b(work.stage(block), block);
  }
  rlx_wait_for_predecessors();
  rlx_release_successors();
  RLX_UNROLL for (rlx_u32 block = 0; block < kAhead; ++block) {
    if (block < work.blocks) {
      if (!RLX_A_WEIGHTS) work.copy_a(work.stage(block), block);
      if (!RLX_B_WEIGHTS) work.copy_b(work.stage(block), block);
    }
    rlx_commit_copies();
  }
}

// Block after block as they arrive; stages are filled again where not all blocks have their own.
RLX_FN void multiply_in_turn(const Work& work, WarpPlace warp, Accumulators& acc) {
  rlx_u32 stage = work.shared;
  rlx_u32 filled = work.stage(kAhead % kStages);
  RLX_LOOP for (rlx_u32 block = 0; block < work.blocks; ++block) {
    rlx_wait_copies<kAhead - 1>();
#if RLX_WARPGROUPS
    rlx_fence_async_shared();
    rlx_wgmma_wait<1>();
#endif
    rlx_barrier();
    if (kRefill && block + kAhead < work.blocks) {
      work.copy_a(filled, block + kAhead);
      work.copy_b(filled, block + kAhead);
      filled = work.next(filled);
    }
    rlx_commit_copies();
    multiply_block(stage, warp, acc);
    stage = work.next(stage);
  }
  finish_blocks(acc);
}

#if RLX_PART_GROUPS
// Splits the pieces that this thread copied of a panel along the depth; high parts stay.
template <typename P>
RLX_FN void split_panel(rlx_u32 panel, rlx_u32 low) {
  constexpr rlx_u32 kChunks = P::kRows * P::kRowChunks;
  static_assert(kChunks % kThreads == 0, "whole turns");
  RLX_UNROLL for (rlx_u32 index = rlx_local_index; index < kChunks; index += kThreads) {
    const rlx_u32 at = P::at(index / P::kRowChunks, index % P::kRowChunks);
    rlx_split_shared4(panel + at, low + at);
  }
}

// Both parts of b's panel by line, turned along the depth.
RLX_FN void turn_parts(rlx_u32 panel, rlx_u32 high, rlx_u32 low) {
  constexpr rlx_u32 kChunks = RLX_TILE_N * 8;
  static_assert(kChunks % kThreads == 0, "whole turns");
  RLX_UNROLL for (rlx_u32 index = rlx_local_index; index < kChunks; index += kThreads) {
    const rlx_u32 line = index % RLX_TILE_N;
    const rlx_u32 chunk = index / RLX_TILE_N;
    rlx_u32 high_words[4];
    rlx_u32 low_words[4];
    RLX_UNROLL for (rlx_u32 e = 0; e < 4u; ++e) {
      rlx_split_f32(rlx_shared_load1(panel + (chunk * 4u + e) * PanelB::kPitch + line * 4u), high_words[e], low_words[e]);
    }
    rlx_shared_store4(high + rlx_panel_piece(line, chunk), high_words);
    rlx_shared_store4(low + rlx_panel_piece(line, chunk), low_words);
  }
}

// Starts the warpgroup's products of two panels.
RLX_FN void start_products(rlx_u32 a, rlx_u32 b, WarpPlace warp, bool first, Sums& sums) {
  RLX_UNROLL for (rlx_u32 step = 0; step < kSteps; ++step) {
    const rlx_u64 rows = rlx_panel_descriptor(a + warp.m / 64u * 64u * RLX_PANEL_ROW_BYTES + step * 32u);
    using Flat = float[kWarpN / 2];
    rlx_wgmma_tf32<kWarpN>::run(reinterpret_cast<Flat&>(sums), rows, rlx_panel_descriptor(b + step * 32u), first && step == 0 ? 0u : 1u);
  }
}

// Block after block. The one before is complete in all warpgroups behind the barrier: its stage is filled again, the parts of the
// one before that are replaced, and its sums are settled while this block's mixed products go on.
RLX_FN void multiply_parts_in_turn(const Work& work, WarpPlace warp, Accumulators& acc) {
  rlx_u32 a = work.shared;
  rlx_u32 filled = work.stage(kAhead % kStages);
  RLX_LOOP for (rlx_u32 block = 0; block < work.blocks; ++block) {
    const rlx_u32 a_low = work.shared + kStages * kStageBytes + block % 2u * kPartsBytes;
    const rlx_u32 b_low = a_low + kPartsBytesA;
    const rlx_u32 b = RLX_B_BY_LINE ? b_low + kPartsBytesB : a + PanelA::kBytes;
    rlx_wait_copies<kAhead - 1>();
    split_panel<PanelA>(a, a_low);
#if RLX_B_BY_LINE
    rlx_barrier();
    turn_parts(a + PanelA::kBytes, b, b_low);
#else
    split_panel<PanelB>(b, b_low);
#endif
    rlx_wgmma_wait<0>();
    rlx_fence_async_shared();
    rlx_barrier();
    rlx_wgmma_fence();
    start_products(a_low, b, warp, false, acc.mixed);
    start_products(a, b_low, warp, false, acc.mixed);
    rlx_wgmma_commit();
    rlx_add_high(acc);
    rlx_wgmma_fence();
    start_products(a, b, warp, true, acc.high);
    rlx_wgmma_commit();
    if (kRefill && block + kAhead < work.blocks) {
      work.copy_a(filled, block + kAhead);
      work.copy_b(filled, block + kAhead);
      filled = work.next(filled);
    }
    rlx_commit_copies();
    a = work.next(a);
  }
  rlx_wgmma_wait<0>();
  rlx_add_high(acc);
}
#endif

// All blocks are in flight, and warpgroups' products follow each other without a barrier (whose fence costs as much as a block):
// half of the panels, then the others.
RLX_FN void multiply_at_once(const Work& work, WarpPlace warp, Accumulators& acc) {
  constexpr rlx_u32 kFirst = (kBlocks + 1) / 2;
  rlx_wait_copies<kAhead - (kFirst < kAhead ? kFirst : kAhead)>();
  rlx_fence_async_shared();
  rlx_barrier();
  RLX_LOOP for (rlx_u32 block = 0; block < min(kFirst, work.blocks); ++block) multiply_block(work.stage(block), warp, acc);
  rlx_wait_copies<0>();
  rlx_fence_async_shared();
  rlx_barrier();
  RLX_LOOP for (rlx_u32 block = kFirst; block < work.blocks; ++block) multiply_block(work.stage(block), warp, acc);
  finish_blocks(acc);
}

// ---- the tile's sums ----

RLX_FN void put_sums(const Accumulators& acc, WarpPlace warp) {
  float* slice = sums_base() + warp.k * kSliceFloats;
  const rlx_u32 g = warp.lane >> 2;
  const rlx_u32 t = warp.lane & 3u;
  RLX_UNROLL for (rlx_u32 i = 0; i < kFragmentsM; ++i) {
    RLX_UNROLL for (rlx_u32 half = 0; half < 2u; ++half) {
#if RLX_IS_F32 && RLX_A_BY_LINE
      const rlx_u32 fragment = i % (kPackedM / 2u);
      const rlx_u32 row = warp.m + (i - fragment) * 16u + g * kPackedM + fragment * 2u + half;
#else
      const rlx_u32 row = warp.m + i * 16u + half * 8u + g;
#endif
      float* line = slice + row * kSumPitch + warp.n;
#if RLX_PERMUTED
      RLX_UNROLL for (rlx_u32 j = 0; j < kFragmentsN; j += kPackedN) {
        RLX_UNROLL for (rlx_u32 c = 0; c < 2u; ++c) {
          RLX_UNROLL for (rlx_u32 w = 0; w < kPackedN; w += 2u) {
            const float2 pair = {sum_of(acc, i, j + w, half * 2u + c), sum_of(acc, i, j + w + 1u, half * 2u + c)};
            *reinterpret_cast<float2*>(line + j * 8u + (2u * t + c) * kPackedN + w) = pair;
          }
        }
      }
#else
      RLX_UNROLL for (rlx_u32 j = 0; j < kFragmentsN; ++j) {
        const float2 pair = {sum_of(acc, i, j, half * 2u), sum_of(acc, i, j, half * 2u + 1u)};
        *reinterpret_cast<float2*>(line + j * 8u + 2u * t) = pair;
      }
#endif
    }
  }
}

// Adds the slices of this group's warps, four neighbours at a time, in order; the sum takes the place of the first.
RLX_FN rlx_acc4_t sum_slices(rlx_u32 at) {
  const float* own = sums_base() + at;
  rlx_acc4_t sum = rlx_acc4_splat(0.0f);
  RLX_UNROLL for (rlx_u32 k = 0; k < RLX_WARPS_K; ++k) sum += *reinterpret_cast<const float4*>(own + k * kSliceFloats);
  return sum;
}
RLX_FN void join_slices() {
  RLX_UNROLL for (rlx_u32 first = 0; first < RLX_TILE_M * RLX_TILE_N / 4; first += kThreads) {
    const rlx_u32 unit = first + rlx_local_index;
    if (unit >= RLX_TILE_M * RLX_TILE_N / 4) break;
    const rlx_u32 at = unit / (RLX_TILE_N / 4) * kSumPitch + unit % (RLX_TILE_N / 4) * 4u;
    *reinterpret_cast<rlx_acc4_t*>(sums_base() + at) = sum_slices(at);
  }
}

// Four neighbours of the tile, added over all groups of the tile in their order; only what is wanted is read of other groups.
RLX_FN rlx_acc4_t gather_sums(rlx_u32 row, rlx_u32 column, bool wanted) {
  const rlx_u32 at = row * kSumPitch + column;
#if RLX_IN_CLUSTER
  const rlx_u32 own = shared_base() + at * 4u;
  float4 parts[kSharers];
  RLX_UNROLL for (rlx_u32 rank = 0; rank < kSharers; ++rank) parts[rank] = rlx_cluster_load4(rlx_cluster_address(own, rank), wanted);
  rlx_acc4_t sum = parts[0];
  RLX_UNROLL for (rlx_u32 rank = 1; rank < kSharers; ++rank) sum += parts[rank];
  return sum;
#else
  return sum_slices(at);
#endif
}

#if RLX_IS_F32
// The product of a line of a and a line of b by fused multiply-adds.
RLX_APART float exact_sum(rlx_ptr a, rlx_ptr b, rlx_u32 m, rlx_u32 n RLX_APART_SIZES) {
  float sum = 0.0f;
  RLX_LOOP for (rlx_u32 k = 0; k < rlx_u32(RLX_K) && sum == sum; ++k) {  // NaN stays what it is
    const float x = rlx_load_f32(a, rlx_i64(m) * rlx_i64(RLX_A_LINE) + rlx_i64(k) * rlx_i64(RLX_A_DEPTH));
    const float w = rlx_load_f32(b, rlx_i64(n) * rlx_i64(RLX_B_LINE) + rlx_i64(k) * rlx_i64(RLX_B_DEPTH));
    sum = fmaf(x, w, sum);
  }
  return sum;
}
#endif

// ---- the kernel ----

// A thread's share of the tile: kUnits times four neighbours, kThreads * 4 apart.
constexpr rlx_u32 kRowUnits = RLX_TILE_N / 4;
constexpr rlx_u32 kGroupUnits = (RLX_TILE_M * kRowUnits + kSharers - 1) / kSharers;
constexpr rlx_u32 kUnits = (kGroupUnits + kThreads - 1) / kThreads;

struct Unit {
  bool exists;
  rlx_u32 row;  // in the tile
  rlx_u32 column;
  rlx_u32 m;  // in y
  rlx_u32 n;
};

RLX_FN Unit unit_of(rlx_u32 number, rlx_u32 rank, rlx_u32 tile_m, rlx_u32 tile_n) {
  const rlx_u32 within = rlx_local_index + number * kThreads;
  const rlx_u32 index = rank * kGroupUnits + within;
  Unit unit;
  unit.row = min(index / kRowUnits, rlx_u32(RLX_TILE_M - 1));
  unit.column = index % kRowUnits * 4u;
  unit.m = tile_m * rlx_u32(RLX_TILE_M) + index / kRowUnits;
  unit.n = tile_n * rlx_u32(RLX_TILE_N) + unit.column;
  unit.exists = within < kGroupUnits && index < RLX_TILE_M * kRowUnits && unit.m < rlx_u32(RLX_M) && unit.n < rlx_u32(RLX_N);
  return unit;
}

#if RLX_Y_VECTOR == 4
// What the epilogue adds to a unit, as it is stored where that is one load: 16-bit values keep few registers while they wait.
using rlx_four_f16 = rlx_uvec2;
using rlx_four_bf16 = rlx_uvec2;
using rlx_four_f32 = rlx_vec4;
RLX_FN rlx_acc4_t widened_f32(rlx_vec4 four) { return four; }
RLX_FN rlx_acc4_t widened_f16(rlx_uvec2 four) {
  const rlx_vec2 low = rlx_unpack_f16x2(four.x);
  const rlx_vec2 high = rlx_unpack_f16x2(four.y);
  return rlx_acc4_t(low.x, low.y, high.x, high.y);
}
RLX_FN rlx_acc4_t widened_bf16(rlx_uvec2 four) {
  const rlx_vec2 low = rlx_unpack_bf16x2(four.x);
  const rlx_vec2 high = rlx_unpack_bf16x2(four.y);
  return rlx_acc4_t(low.x, low.y, high.x, high.y);
}

struct Added {
#if defined(RLX_BIAS) && RLX_BIAS_VECTOR == 4
  RLX_CAT(rlx_four_, RLX_BIAS) bias_words;
  RLX_FN rlx_acc4_t bias() const { return RLX_CAT(widened_, RLX_BIAS)(bias_words); }
  RLX_FN void load_bias(rlx_ptr base, RLX_INDEX m, RLX_INDEX n) {
    const rlx_i64 at = rlx_i64(m) * RLX_BIAS_M + rlx_i64(n);
    bias_words = rlx_at<RLX_CAT(rlx_four_, RLX_BIAS)>(base, at * RLX_CAT(rlx_bytes_, RLX_BIAS));
  }
#else
  rlx_acc4_t bias_value;
  RLX_FN rlx_acc4_t bias() const { return bias_value; }
  RLX_FN void load_bias(rlx_ptr base, RLX_INDEX m, RLX_INDEX n) { bias_value = rlx_bias4(base, m, n); }
#endif
#if defined(RLX_RESIDUAL) && RLX_RESIDUAL_VECTOR == 4
  RLX_CAT(rlx_four_, RLX_RESIDUAL) residual_words;
  RLX_FN rlx_acc4_t residual() const { return RLX_CAT(widened_, RLX_RESIDUAL)(residual_words); }
  RLX_FN void load_residual(rlx_ptr base, RLX_INDEX m, RLX_INDEX n) {
    const rlx_i64 at = rlx_i64(m) * RLX_RESIDUAL_M + rlx_i64(n);
    residual_words = rlx_at<RLX_CAT(rlx_four_, RLX_RESIDUAL)>(base, at * RLX_CAT(rlx_bytes_, RLX_RESIDUAL));
  }
#else
  rlx_acc4_t residual_value;
  RLX_FN rlx_acc4_t residual() const { return residual_value; }
  RLX_FN void load_residual(rlx_ptr base, RLX_INDEX m, RLX_INDEX n) { residual_value = rlx_residual4(base, m, n); }
#endif
};
// Little enough to wait in registers while the tile is multiplied.
constexpr bool kAddedEarly = sizeof(Added) * kUnits <= 128;

RLX_FN void load_added(Added (&added)[kUnits], rlx_ptr bias, rlx_ptr residual, rlx_u32 rank, rlx_u32 tile_m, rlx_u32 tile_n) {
  RLX_UNROLL for (rlx_u32 number = 0; number < kUnits; ++number) {
    const Unit unit = unit_of(number, rank, tile_m, tile_n);
    if (!unit.exists) continue;
    added[number].load_bias(bias, RLX_INDEX(unit.m), RLX_INDEX(unit.n));
    added[number].load_residual(residual, RLX_INDEX(unit.m), RLX_INDEX(unit.n));
  }
}
#endif

RLX_MAIN_PREFETCH {
  const rlx_u32 group = rlx_u32(rlx_linear_group);
  if (group >= rlx_u32(RLX_TILES) * rlx_u32(RLX_SPLITS) * rlx_u32(RLX_BATCHES)) return;
  const rlx_u32 rank = group % rlx_u32(RLX_SPLITS);
  if (rank >= kSharers) return;
#ifdef RLX_SIZES
  // Of one matrix without a division by what the run gives.
  const rlx_u32 of_batch = group / rlx_u32(RLX_SPLITS);
  const rlx_u32 tile = rlx_u32(RLX_BATCHES) == 1u ? of_batch : of_batch % rlx_u32(RLX_TILES);
#else
  const rlx_u32 tile = group / rlx_u32(RLX_SPLITS) % rlx_u32(RLX_TILES);
#endif
#if RLX_ROW_BY_ROW
  // The last band has as many rows as the run gives, and a division by those would take longer than b's panels from the L2 cache.
  const rlx_u32 tile_m = tile / rlx_u32(RLX_TILES_N);
  const rlx_u32 tile_n = tile % rlx_u32(RLX_TILES_N);
#else
  // Tiles in bands of eight rows: neighbours share a's lines or b's.
  const rlx_u32 band = tile / (8u * rlx_u32(RLX_TILES_N));
  const rlx_u32 band_rows = min(8u, rlx_u32(RLX_TILES_M) - band * 8u);
  const rlx_u32 in_band = tile - band * 8u * rlx_u32(RLX_TILES_N);
  const rlx_u32 tile_m = band * 8u + in_band % band_rows;
  const rlx_u32 tile_n = in_band / band_rows;
#endif
  const rlx_u32 batch = group / (rlx_u32(RLX_TILES) * rlx_u32(RLX_SPLITS));
#include "generated/batch.inc"
  const rlx_ptr a = RLX_AT(p.a, a_batch, kElementBytes);
  const rlx_ptr b = RLX_AT(p.b, b_batch, kElementBytes);
  const rlx_u32 depth_begin = kSharers == 1 ? 0u : rank * rlx_u32(RLX_SPLIT_K);
  const rlx_u32 depth_end = min(rlx_u32(RLX_K), depth_begin + kDepth);
  Work work = {{a, tile_m * rlx_u32(RLX_TILE_M), depth_begin, rlx_u32(RLX_M), RLX_A_LINE, RLX_A_DEPTH, 0},
               {b, tile_n * rlx_u32(RLX_TILE_N), depth_begin, rlx_u32(RLX_N), RLX_B_LINE, RLX_B_DEPTH, 0},
               kDepthsAreEqual ? kBlocks : (depth_end - depth_begin + rlx_u32(RLX_TILE_K - 1)) / rlx_u32(RLX_TILE_K),
               shared_base()};
  work.a.begin();
  work.b.begin();
  start_copies(work);

  // What the epilogue adds, where it is little: it arrives with the panels.
#ifdef RLX_BIAS
  const rlx_ptr bias = RLX_AT(p.bias, bias_batch, RLX_CAT(rlx_bytes_, RLX_BIAS));
#else
  const rlx_ptr bias = 0;
#endif
#ifdef RLX_RESIDUAL
  const rlx_ptr residual = RLX_AT(p.residual, residual_batch, RLX_CAT(rlx_bytes_, RLX_RESIDUAL));
#else
  const rlx_ptr residual = 0;
#endif
#if RLX_Y_VECTOR == 4
  Added added[kUnits];
  if (kAddedEarly) load_added(added, bias, residual, rank, tile_m, tile_n);
#endif

  // Multiply.
  const rlx_u32 warp_index = rlx_warp;
  const WarpPlace warp = {warp_index % RLX_WARPS_M * kWarpM, warp_index / RLX_WARPS_M % RLX_WARPS_N * kWarpN,
                          warp_index / (RLX_WARPS_M * RLX_WARPS_N) % RLX_WARPS_K, rlx_lane_of_warp};
  Accumulators acc;
  rlx_clear(acc);
#if RLX_PART_GROUPS
  multiply_parts_in_turn(work, warp, acc);
#else
  if (kRefill || !RLX_WARPGROUPS) {
    multiply_in_turn(work, warp, acc);
  } else {
    multiply_at_once(work, warp, acc);
  }
#endif

  // Meet in shared memory.
#if RLX_Y_VECTOR == 4
  if (!kAddedEarly) load_added(added, bias, residual, rank, tile_m, tile_n);
#endif
  rlx_wait_copies<0>();
  rlx_barrier();  // nobody reads panels any more
  put_sums(acc, warp);
  rlx_barrier();
#if RLX_IN_CLUSTER
  if (RLX_WARPS_K > 1) {
    join_slices();
    rlx_barrier();
  }
  rlx_cluster_publish();
  rlx_cluster_wait();
#endif

  // Finish and store.
  const rlx_ptr y = RLX_AT(p.y, rlx_y_entry(batch), RLX_CAT(rlx_bytes_, RLX_Y));
  rlx_acc4_t sums[kUnits];
  RLX_UNROLL for (rlx_u32 number = 0; number < kUnits; ++number) {
    const Unit unit = unit_of(number, rank, tile_m, tile_n);
    sums[number] = gather_sums(unit.row, unit.column, unit.exists);  // no branch keeps the loads of units apart
  }
  RLX_UNROLL for (rlx_u32 number = 0; number < kUnits; ++number) {
    const Unit unit = unit_of(number, rank, tile_m, tile_n);
    if (!unit.exists) continue;
    const RLX_INDEX m = RLX_INDEX(unit.m);
    const RLX_INDEX n = RLX_INDEX(unit.n);
    const RLX_INDEX at = rlx_y_element(m, n);
    rlx_acc4_t value = sums[number];
#if RLX_IS_F32
    RLX_UNROLL for (rlx_u32 c = 0; c < 4u; ++c) {
      if (!rlx_finite(value[c]) && unit.n + c < rlx_u32(RLX_N)) value[c] = exact_sum(a, b, unit.m, unit.n + c RLX_GIVEN_SIZES);
    }
#endif
#if RLX_Y_VECTOR == 4
    RLX_CAT(rlx_store4_, RLX_Y)(y, at, rlx_apply4(value, added[number].bias(), added[number].residual()));
#else
    RLX_UNROLL for (rlx_u32 c = 0; c < 4u; ++c) {
      if (unit.n + c >= rlx_u32(RLX_N)) continue;
      RLX_CAT(rlx_store_, RLX_Y)(y, at + RLX_INDEX(c), rlx_finish(value[c], bias, residual, m, n + RLX_INDEX(c)));
    }
#endif
  }
#if RLX_IN_CLUSTER
  rlx_cluster_arrive();
  rlx_cluster_wait();  // the others may still read this group's sums
#endif
}
