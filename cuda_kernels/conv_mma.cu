// SPDX-License-Identifier: Apache-2.0
// y[n, o, co] = act(sum over taps t and c of x[n, o * stride + t * dilation - begin, c] * w[co, t, c] + bias[co] +
//   residual[n, o, co]): an implicit matrix product on tensor cores of pixels [M = N * OUT, K = taps * C] with filters [Co, K].
// Layout: channels last. x [N, H, W, C] with strides RLX_X_N, RLX_X_H, RLX_X_W, or volumes [N, D, H, W, C] (RLX_VOLUMES 1, RLX_X_D); y and residual [M, Co] with rows RLX_Y_PITCH and
//   RLX_RESIDUAL_PITCH elements apart. Addresses and strides are multiples of 16 bytes. Each form adds what it needs:
//   lib/conv_ring.cuh in general, lib/conv_patch.cuh (RLX_PATCH 1) for images of few channels.
// Programmatic launch: filters and bias are fetched before the kernel waits for its predecessors where RLX_PREFETCH 1 says that
//   both are weights.
// Specializations: RLX_TILE_M, RLX_TILE_N, RLX_WARPS_M, RLX_WARPS_N, RLX_WARPS_K, RLX_STAGES, RLX_SPLIT; RLX_IMAGES, RLX_CHANNELS,
//   RLX_FILTERS; window as in conv_window.h, RLX_NO_PADS 1: no tap of it lies in a pad; images, sizes of an image and strides
//   may be free sizes; RLX_WORDS as lib/conv_ring.cuh has it; storage types RLX_X (also of w), RLX_Y (also of the residual), RLX_BIAS;
//   RLX_BIAS and RLX_RESIDUAL are undefined where absent; RLX_ACTIVATION 1: generated/epilogue.inc defines rlx_activate.
//   RLX_TF32, where x is f32, 1: its values count as tf32.
// Numerics: f32 sums, one rounding at the store. f32 operands are split into two tf32 parts (lib/split_f32.cuh), settled every 32 depths;
//   where a sum is not finite, it is computed again by f32 fused multiply-adds, and so it is where groups are bundled
//   (lib/conv_ring.cuh). Pads are zeros that are multiplied.
// ptxas: spills because tiles of f32 for warpgroups are multiplied by warps where there are none: 8 bytes on sm_80.
#include "lib/prelude.inc"
#include "lib/storage.inc"
#include "lib/split_f32.cuh"
#include "lib/wgmma_tf32.cuh"

RLX_PARAMS(ConvMmaParams);

// Successors start when the steps before are complete: those then find the room that these left. ResNet-50 f16 b32 on an H200 0.905 ms
// against 0.910.
#undef RLX_RELEASES_EARLY
#define RLX_RELEASES_EARLY 0

#define rlx_acc_t float
#if RLX_ACTIVATION
#include "lib/math.inc"
#include "generated/epilogue.inc"
#else
#define rlx_activate(value) (value)
#endif
#ifndef RLX_ACTIVATES
#define RLX_ACTIVATES true
#endif

#ifndef RLX_WGMMA
#define RLX_WGMMA 0
#endif
#ifndef RLX_TF32
#define RLX_TF32 0
#endif
#define RLX_IS_F32 (RLX_CAT(rlx_bytes_, RLX_X) == 4)
#define RLX_SPLIT_F32 (RLX_IS_F32 && !RLX_TF32)
#ifndef RLX_BUNDLES
#define RLX_BUNDLES 1
#define RLX_BUNDLED 1
#endif
#ifndef RLX_WORDS
#define RLX_WORDS 0
#endif
#ifndef RLX_VOLUMES
#define RLX_VOLUMES 0
#define RLX_X_D 0
#endif
#define RLX_SUMS_AGAIN (RLX_IS_F32 || RLX_BUNDLED > 1)
#define RLX_IS_BF16_f16 false
#define RLX_IS_BF16_bf16 true

constexpr int kThreads = RLX_BLOCK_X;
constexpr int kBytes = RLX_CAT(rlx_bytes_, RLX_X);
#define RLX_PIXELS (RLX_OUT_D * RLX_OUT_H * RLX_OUT_W)  // of an image of y
#define RLX_ROWS (RLX_IMAGES * RLX_PIXELS)

// Older architectures have no clusters: there the first workgroup of each tile does all of it.
#if __CUDA_ARCH__ >= 900
constexpr int kSplit = RLX_SPLIT;
#else
constexpr int kSplit = 1;
#endif

// What a warp computes: blocks of 16 pixels by 8 filters.
constexpr int kWarpM = RLX_TILE_M / RLX_WARPS_M;
constexpr int kWarpN = RLX_TILE_N / RLX_WARPS_N;
constexpr int kBlocksM = kWarpM / 16;
constexpr int kBlocksN = kWarpN / 8;
static_assert(kThreads == 32 * RLX_WARPS_M * RLX_WARPS_N * RLX_WARPS_K, "warps");
static_assert(kBlocksM * 16 == kWarpM && kBlocksN % 2 == 0 && kBlocksN * 8 == kWarpN, "fragments");

// The sums of a tile in shared memory, one part per warp that shares its K: [RLX_WARPS_K][RLX_TILE_M][kSumPitch] f32.
constexpr int kSumPitch = RLX_TILE_N + 8;  // spreads the rows of a fragment over the banks
constexpr int kPartBytes = RLX_TILE_M * kSumPitch * 4;
constexpr int kSumBytes = RLX_WARPS_K * kPartBytes;

// What a warp sums.
#if RLX_SPLIT_F32
using WarpSums = RlxSplitSums<kBlocksM, kBlocksN>;
#else
struct WarpSums {
  float sums[kBlocksM][kBlocksN][4];
};
RLX_FN void rlx_clear(WarpSums& warp) { rlx_clear(warp.sums); }
RLX_FN void rlx_settle(WarpSums&) {}
RLX_FN float rlx_sum_of(const WarpSums& warp, int i, int j, int e) { return warp.sums[i][j][e]; }

// d += a * b of one block over one mma depth (32 bytes).
RLX_FN void multiply_block(float (&d)[4], const rlx_u32 (&a)[4], const rlx_u32 (&b)[2]) {
#if RLX_IS_F32
  rlx_mma_tf32(d, a, b);
#else
  RLX_CAT(rlx_mma_, RLX_X)(d, a, b);
#endif
}

// Rounds a fragment of f32 to tf32.
template <int kWords>
RLX_FN void round_fragment(rlx_u32 (&words)[kWords]) {
#if RLX_IS_F32
  RLX_UNROLL for (int i = 0; i < kWords; ++i) words[i] = rlx_tf32(rlx_from_bits(words[i]));
#endif
}
#endif

// All blocks of a warp over one mma depth; b[j] holds the fragments of blocks 2 j and 2 j + 1. kFew: few depths are added in all.
template <bool kFew>
RLX_FN void multiply_blocks(WarpSums& warp, rlx_u32 (&a)[kBlocksM][4], rlx_u32 (&b)[kBlocksN / 2][4]) {
  rlx_u32 columns[kBlocksN][2];
  RLX_UNROLL for (int j = 0; j < kBlocksN; ++j) {
    columns[j][0] = b[j / 2][j % 2 * 2];
    columns[j][1] = b[j / 2][j % 2 * 2 + 1];
  }
#if RLX_SPLIT_F32
  rlx_multiply_split<kFew>(warp, a, columns);
#else
  RLX_UNROLL for (int i = 0; i < kBlocksM; ++i) round_fragment(a[i]);
  RLX_UNROLL for (int j = 0; j < kBlocksN; ++j) {
    round_fragment(columns[j]);
    RLX_UNROLL for (int i = 0; i < kBlocksM; ++i) multiply_block(warp.sums[i][j], a[i], columns[j]);
  }
#endif
}

#if RLX_PATCH
#include "lib/conv_patch.cuh"
#else
#include "lib/conv_ring.cuh"
#endif
