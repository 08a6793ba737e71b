// SPDX-License-Identifier: Apache-2.0
// The general form of conv_mma: steps of 128 bytes along K go through a ring of RLX_STAGES slots of shared memory (asynchronous
// copies that zero what lies in the pads, 16-byte pieces swizzled by the row); every warp takes a part of the tile and, of each
// step, a part of K. The parts of K, of the warps and then of the cluster's workgroups, are summed in a fixed order through shared
// memory.
// Layout: x's channels are dense, those of a bundle a multiple of 16 bytes; w [Co, KERNEL_D, KERNEL_H, KERNEL_W, C] dense.
// Groups: RLX_BUNDLED of them that stand side by side are multiplied as one bundle of RLX_CHANNELS by RLX_FILTERS, of RLX_BUNDLES (both 1
// where undefined). Filters have zeros for the channels of their bundle's other groups; where a sum is not finite, which those may have
// made, it is computed again by f32 fused multiply-adds of its own group.
// RLX_WGMMA 1, where the architecture has it: each warpgroup multiplies an equal share of the tile's rows in multiples of 64 by all
// its filters; RLX_WARPS_K is 1. There the ring may take up to 227 KiB; elsewhere it has as many of the RLX_STAGES slots as fit into
// 99 KiB. As a step's f32 values arrive there, each thread splits those that it copied: high parts stay, low ones go to one of two
// further slots; low * low is left out.
// RLX_WORDS 1: channels, filters and what follows from them are words too, by which convolutions of several shapes share the code. It is
// told what it can no longer see: RLX_WHOLE_DEPTH, RLX_WHOLE_FILTERS, RLX_WHOLE_UNITS, RLX_TAPS_FIRST; RLX_LEAST_DEPTH, which K is not
// below; RLX_RESIDENT, the number of steps where the ring is to hold all of them, else 0; RLX_ACTIVATES, where defined a word that is 0
// where the activation is not applied. It divides by RLX_INVERSE_PIXELS, _OUT_W, _CHANNELS, _TILES_N (rlx_quotient).
// Grid: tiles of filters fastest, then bundles, then tiles of pixels; RLX_SPLIT workgroups (a cluster) share a tile and divide K.
#ifndef RLX_LIB_CONV_RING_CUH
#define RLX_LIB_CONV_RING_CUH

constexpr int kPieceBytes = 16;
constexpr int kPiece = kPieceBytes / kBytes;  // elements
constexpr int kStepBytes = 128;
constexpr int kStep = kStepBytes / kBytes;  // elements of K
constexpr int kPieces = kStepBytes / kPieceBytes;
constexpr int kTaps = RLX_KERNEL_D * RLX_KERNEL_H * RLX_KERNEL_W;
#define RLX_DEPTH (kTaps * RLX_CHANNELS)
// Of a group.
#define RLX_OWN_CHANNELS (RLX_CHANNELS / RLX_BUNDLED)
#define RLX_OWN_FILTERS (RLX_FILTERS / RLX_BUNDLED)
#define RLX_OWN_DEPTH (kTaps * RLX_OWN_CHANNELS)
#define RLX_TILES_N ((RLX_FILTERS + RLX_TILE_N - 1) / RLX_TILE_N)
#define RLX_TILES_M ((RLX_ROWS + RLX_TILE_M - 1) / RLX_TILE_M)
#define RLX_ALL_STEPS ((RLX_DEPTH + kStep - 1) / kStep)
#define RLX_SHARE_STEPS ((RLX_ALL_STEPS + kSplit - 1) / kSplit)  // of a workgroup
constexpr int kSubSteps = kStepBytes / 32 / RLX_WARPS_K;  // mma depths of a step

// What a thread copies: one 16-byte column of every kRowStride-th row.
constexpr int kRowStride = kThreads / kPieces;
constexpr int kRowsA = RLX_TILE_M / kRowStride;
constexpr int kRowsB = RLX_TILE_N / kRowStride;
static_assert(kRowsA * kRowStride == RLX_TILE_M && kRowsB * kRowStride == RLX_TILE_N && kRowStride % 8 == 0, "copies");
static_assert(kSubSteps * RLX_WARPS_K * 32 == kStepBytes, "fragments");

// Products by warpgroups: the slots are panels of lib/wgmma.cuh.
constexpr bool kByGroups = RLX_WGMMA && RLX_HAS_WGMMA;
constexpr int kGroupM = RLX_TILE_M / (kThreads / 128);
constexpr int kGroupBlocks = kGroupM / 64;
static_assert(!kByGroups || (kGroupBlocks * 64 == kGroupM && RLX_WARPS_K == 1 && (kBytes == 2 || RLX_SPLIT_F32)), "warpgroups");
constexpr bool kByParts = kByGroups && RLX_SPLIT_F32;
constexpr int kAlignBytes = kByGroups ? 1024 : 0;

// Shared memory: the ring, then (in its place) the sums.
constexpr int kBytesA = RLX_TILE_M * kStepBytes;
constexpr int kSlotBytes = kBytesA + RLX_TILE_N * kStepBytes;
constexpr int kSlotsEverywhere = 99 * 1024 / kSlotBytes;
constexpr int kStages = kByGroups || RLX_STAGES <= kSlotsEverywhere ? RLX_STAGES : kSlotsEverywhere;
constexpr int kRingBytes = (kStages + (kByParts ? 2 : 0)) * kSlotBytes;
constexpr int kSumsAt = 0;
constexpr int kWorkBytes = kAlignBytes + (kRingBytes > kSumBytes ? kRingBytes : kSumBytes);

// Steps where the ring holds all of them, so that no slot is used twice; else 0.
#if RLX_WORDS
constexpr int kResidentSteps = kSplit == RLX_SPLIT && RLX_RESIDENT <= kStages ? RLX_RESIDENT : 0;
#else
constexpr int kResidentSteps = RLX_SHARE_STEPS <= kStages ? RLX_SHARE_STEPS : 0;
#endif
constexpr bool kResident = kResidentSteps > 0;
#define RLX_STEPS (kResident ? kResidentSteps : RLX_SHARE_STEPS)
// Slots that are still read when the next copies start: short rings give way to copies.
constexpr int kBehind = kByGroups && !kByParts && kStages > 4 ? 2 : 1;
constexpr int kAhead = kResident ? kResidentSteps : kStages - kBehind;

// What needs no test: steps beyond K, filters beyond the last, taps in the pads. And what of order depends on K: whether few products are
// added in all, whether a step's channels are of one tap.
#if RLX_WORDS
constexpr bool kWholeDepth = RLX_WHOLE_DEPTH;
constexpr bool kWholeFilters = RLX_WHOLE_FILTERS;
constexpr bool kFewDepth = RLX_LEAST_DEPTH < RLX_SPLIT_FEW_PRODUCTS;
constexpr bool kWholeTaps = RLX_TAPS_FIRST;
#else
constexpr bool kWholeDepth = RLX_DEPTH % kStep == 0 && RLX_SHARE_STEPS * kSplit == RLX_ALL_STEPS;
constexpr bool kWholeFilters = RLX_FILTERS % RLX_TILE_N == 0;
constexpr bool kFewDepth = RLX_DEPTH < RLX_SPLIT_FEW_PRODUCTS;
constexpr bool kWholeTaps = RLX_CHANNELS % kStep == 0;
static_assert(RLX_OWN_CHANNELS * RLX_BUNDLED == RLX_CHANNELS && RLX_OWN_FILTERS * RLX_BUNDLED == RLX_FILTERS, "bundles");
#endif
constexpr bool kNoPads = RLX_NO_PADS;

// n / size for 0 <= n, where the words' inverse is 2^30 / size, rounded up, which the compiler has found to be exact enough.
RLX_FN int rlx_quotient(int n, int inverse) { return int(__umulhi(rlx_u32(n) * 4u, rlx_u32(inverse))); }
#if RLX_WORDS
#define RLX_QUOTIENT(n, size) rlx_quotient(n, RLX_CAT(RLX_INVERSE_, size))
#else
#define RLX_QUOTIENT(n, size) (int(rlx_u32(n) / rlx_u32(RLX_CAT(RLX_, size))))
#endif

// A place of x from a pixel's first one on, or a pixel of it.
struct Place {
  int d;
  int h;
  int w;
};
RLX_FN Place place_of_tap(int tap) {
  const rlx_u32 number = rlx_u32(tap);  // as it is not negative
  Place place;
  place.d = RLX_VOLUMES ? int(number / (RLX_KERNEL_H * RLX_KERNEL_W)) * RLX_DILATION_D : 0;
  place.h = int(RLX_VOLUMES ? number / RLX_KERNEL_W % RLX_KERNEL_H : number / RLX_KERNEL_W) * RLX_DILATION_H;
  place.w = int(number % RLX_KERNEL_W) * RLX_DILATION_W;
  return place;
}
// Where the window of a pixel of y begins, which stands in `line` of its image; whether a place lies in x. Macros, as a function apart
// has the sizes in words of its own.
#define RLX_WINDOW_BEGIN(pixel, line)                                                   \
  (Place{RLX_VOLUMES ? (line) / RLX_OUT_H * RLX_STRIDE_D - RLX_BEGIN_D : 0,             \
         (RLX_VOLUMES ? (line) % RLX_OUT_H : (line)) * RLX_STRIDE_H - RLX_BEGIN_H,      \
         ((pixel) - (line) * RLX_OUT_W) * RLX_STRIDE_W - RLX_BEGIN_W})
#define RLX_IS_INSIDE(d, h, w) \
  ((!RLX_VOLUMES || rlx_u32(d) < rlx_u32(RLX_IN_D)) && rlx_u32(h) < rlx_u32(RLX_IN_H) && rlx_u32(w) < rlx_u32(RLX_IN_W))

#if RLX_SUMS_AGAIN
RLX_APART float exact_sum(const RlxParams& p, int row, int filter RLX_APART_SIZES) {
  const int image = row / RLX_PIXELS;
  const int pixel = row % RLX_PIXELS;
  const Place begin = RLX_WINDOW_BEGIN(pixel, pixel / RLX_OUT_W);
  float sum = 0.0f;
  RLX_LOOP for (int tap = 0; tap < kTaps && sum == sum; ++tap) {  // NaN stays what it is
    const Place further = place_of_tap(tap);
    const int d = begin.d + further.d;
    const int h = begin.h + further.h;
    const int w = begin.w + further.w;
    const bool inside = RLX_IS_INSIDE(d, h, w);
    const int first = filter / RLX_OWN_FILTERS * RLX_OWN_CHANNELS;
    const rlx_i64 from = rlx_i64(image) * RLX_X_N + rlx_i64(d) * RLX_X_D + rlx_i64(h) * RLX_X_H + rlx_i64(w) * RLX_X_W + first;
    const rlx_i64 weights = rlx_i64(filter) * RLX_OWN_DEPTH + tap * RLX_OWN_CHANNELS;
    RLX_LOOP for (int c = 0; c < RLX_OWN_CHANNELS && sum == sum; ++c) {
      sum = fmaf(inside ? RLX_CAT(rlx_load_, RLX_X)(p.x, from + c) : 0.0f, RLX_CAT(rlx_load_, RLX_X)(p.w, weights + c), sum);
    }
  }
  return sum;
}
#endif

#include "lib/conv_units.cuh"

// ---- copies into the ring ----

// What a pixel's copies need: few operations per tap, since a step's copies wait for them.
constexpr bool kTapsFitWord = kTaps <= 32;
struct Pixel {
  rlx_ptr at;    // of its window's first element, which may lie before x
  rlx_u32 taps;  // bit t: tap t lies in x; without pads, or where a word does not hold all taps: whether the pixel exists
  Place begin;   // only where a word does not hold all taps
};
// Bit i: place begin + i * dilation is one of `size`.
template <int kCount>
RLX_FN rlx_u32 places_inside(int begin, int dilation, int size) {
  rlx_u32 bits = 0u;
  RLX_UNROLL for (int i = 0; i < kCount; ++i) bits |= rlx_u32(begin + i * dilation) < rlx_u32(size) ? 1u << i : 0u;
  return bits;
}
RLX_FN rlx_u32 taps_inside(const Place& begin) {
  const rlx_u32 across = places_inside<RLX_KERNEL_W>(begin.w, RLX_DILATION_W, RLX_IN_W);
  const rlx_u32 lines = places_inside<RLX_KERNEL_H>(begin.h, RLX_DILATION_H, RLX_IN_H);
  const rlx_u32 slices = RLX_VOLUMES ? places_inside<RLX_KERNEL_D>(begin.d, RLX_DILATION_D, RLX_IN_D) : 1u;
  rlx_u32 bits = 0u;
  RLX_UNROLL for (int line = 0; line < RLX_KERNEL_D * RLX_KERNEL_H; ++line) {
    const bool inside = (slices >> (line / RLX_KERNEL_H) & lines >> (line % RLX_KERNEL_H) & 1u) != 0u;
    bits |= inside ? across << (line * RLX_KERNEL_W) : 0u;
  }
  return bits;
}
RLX_FN Pixel pixel_of(rlx_ptr x, int row) {
  const bool exists = row < RLX_ROWS;
  const int image = RLX_QUOTIENT(row, PIXELS);
  const int pixel = row - image * RLX_PIXELS;
  Pixel place;
  place.begin = RLX_WINDOW_BEGIN(pixel, RLX_QUOTIENT(pixel, OUT_W));
  const Place& begin = place.begin;
  place.at = RLX_AT(x, image * RLX_X_N + begin.d * RLX_X_D + begin.h * RLX_X_H + begin.w * RLX_X_W, kBytes);
  if constexpr (!kNoPads && kTapsFitWord) {
    place.taps = exists ? taps_inside(begin) : 0u;
  } else {
    place.taps = exists;
  }
  return place;
}

// What a thread's piece of a step stands for. Where warpgroups multiply and a step's channels are of one tap, steps go over all taps
// before the next channels: measured, 1 % of ResNet-50 at batch 32; smaller products lose as much.
constexpr bool kTapsFirst = RLX_WGMMA && kWholeTaps;
struct Depth {
  int k;  // in w's order: [KERNEL_D, KERNEL_H, KERNEL_W, C]
  int tap;
  int channel;
  bool inside;
};
RLX_FN Depth depth_of(int step, int column) {
  Depth depth;
  if (kTapsFirst) {
    depth.tap = int(rlx_u32(step) % rlx_u32(kTaps));
    depth.channel = int(rlx_u32(step) / rlx_u32(kTaps)) * kStep + column * kPiece;
    depth.k = depth.tap * RLX_CHANNELS + depth.channel;
    depth.inside = kWholeDepth || step < RLX_ALL_STEPS;
  } else {
    depth.k = step * kStep + column * kPiece;
    depth.tap = kTaps == 1 && RLX_WORDS ? 0 : RLX_QUOTIENT(depth.k, CHANNELS);
    depth.channel = depth.k - depth.tap * RLX_CHANNELS;
    depth.inside = kWholeDepth || depth.k < RLX_DEPTH;
  }
  return depth;
}

// Elements of a piece whose channels are of one group, whatever the piece.
RLX_FN constexpr int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }
constexpr int kPart = RLX_BUNDLED == 1 ? kPiece : common_divisor(kPiece, RLX_OWN_CHANNELS);

// Of w's elements, which 31 bits number. Constants are better multiplied in 64 bits, as they become offsets of one address.
#if RLX_WORDS
using FilterOffset = int;
#else
using FilterOffset = rlx_i64;
#endif

// The pieces of the bundle's filters at the depth of a step; `row` is the thread's first filter of the tile, `column` its piece.
RLX_FN void copy_filters(rlx_ptr w, rlx_u32 slot, const Depth& depth, int first, int row, int column) {
  const rlx_u32 to = slot + kBytesA + row * kStepBytes + ((column ^ (row & 7)) * kPieceBytes);
  RLX_UNROLL for (int i = 0; i < kRowsB; ++i) {
    const int filter = first + row + i * kRowStride;
    RLX_UNROLL for (int part = 0; part < kPiece / kPart; ++part) {
      const int channel = depth.channel + part * kPart;
      const bool own = RLX_BUNDLED == 1 || channel / RLX_OWN_CHANNELS == filter / RLX_OWN_FILTERS;
      const int k = RLX_BUNDLED == 1 ? depth.k : depth.tap * RLX_OWN_CHANNELS + channel % RLX_OWN_CHANNELS;
      const bool inside = depth.inside && own && (kWholeFilters || filter < RLX_FILTERS);
      const rlx_ptr from = w + rlx_ptr(rlx_i64(inside ? FilterOffset(filter) * RLX_OWN_DEPTH + k : 0)) * kBytes;
      rlx_copy_async<kPart * kBytes>(to + i * kRowStride * kStepBytes + part * kPart * kBytes, from, inside ? kPart * kBytes : 0);
    }
  }
}

RLX_FN void copy_pixels(rlx_u32 slot, const Depth& depth, const Pixel (&pixels)[kRowsA], int row, int column) {
  const Place tap = place_of_tap(depth.tap);
  const rlx_i64 further = rlx_i64(tap.d * RLX_X_D + tap.h * RLX_X_H + tap.w * RLX_X_W + depth.channel);
  const rlx_u32 wanted = !depth.inside ? 0u : !kNoPads && kTapsFitWord ? 1u << depth.tap : 1u;
  const rlx_u32 to = slot + row * kStepBytes + ((column ^ (row & 7)) * kPieceBytes);
  RLX_UNROLL for (int i = 0; i < kRowsA; ++i) {
    const Place& begin = pixels[i].begin;
    bool inside = (pixels[i].taps & wanted) != 0u;
    if (kNoPads && RLX_ROWS % RLX_TILE_M == 0) inside = depth.inside;
    if (!kNoPads && !kTapsFitWord) inside = inside && RLX_IS_INSIDE(begin.d + tap.d, begin.h + tap.h, begin.w + tap.w);
    rlx_copy16_async(to + i * kRowStride * kStepBytes, RLX_AT(pixels[i].at, further, kBytes), inside ? 16u : 0u);
  }
}

// ---- products ----

// The warp's part of the step in `slot`: blocks of 16 pixels by 8 filters.
RLX_FN void multiply_step(rlx_u32 slot, rlx_u32 warp_m, rlx_u32 warp_n, rlx_u32 warp_k, WarpSums& sums) {
  const rlx_u32 lane = rlx_lane_of_warp;
  const rlx_u32 a_rows = slot + (warp_m * kWarpM + lane % 16u) * kStepBytes;
  const rlx_u32 b_rows = slot + kBytesA + (warp_n * kWarpN + lane % 8u + lane / 16u * 8u) * kStepBytes;
  RLX_UNROLL for (int sub = 0; sub < kSubSteps; ++sub) {
    const rlx_u32 piece = (warp_k * kSubSteps + sub) * 2u;
    const rlx_u32 a_piece = ((piece + lane / 16u) ^ (lane & 7u)) * kPieceBytes;
    const rlx_u32 b_piece = ((piece + lane / 8u % 2u) ^ (lane & 7u)) * kPieceBytes;
    rlx_u32 a[kBlocksM][4];
    rlx_u32 b[kBlocksN / 2][4];
    RLX_UNROLL for (int i = 0; i < kBlocksM; ++i) rlx_load_tiles4(a[i], a_rows + a_piece + i * 16 * kStepBytes);
    RLX_UNROLL for (int j = 0; j < kBlocksN / 2; ++j) rlx_load_tiles4(b[j], b_rows + b_piece + j * 16 * kStepBytes);
    multiply_blocks<kFewDepth>(sums, a, b);
  }
  rlx_settle(sums);
}

#if RLX_WGMMA && RLX_HAS_WGMMA
using GroupSums = float[kGroupBlocks][RLX_TILE_N / 8][4];

RLX_FN void store_group_sums(const GroupSums& sums) {
  const int row = int(rlx_warp / 4u * kGroupM + rlx_warp % 4u * 16u + rlx_lane_of_warp / 4u);
  const int column = int(rlx_lane_of_warp % 4u * 2u);
  RLX_UNROLL for (int i = 0; i < kGroupBlocks; ++i) {
    RLX_UNROLL for (int j = 0; j < RLX_TILE_N / 8; ++j) {
      *reinterpret_cast<float2*>(sum_at(0, row + i * 64, column + j * 8)) = make_float2(sums[i][j][0], sums[i][j][1]);
      *reinterpret_cast<float2*>(sum_at(0, row + i * 64 + 8, column + j * 8)) = make_float2(sums[i][j][2], sums[i][j][3]);
    }
  }
}

// Starts the warpgroup's products of pixels and filters in two slots, which may be one.
RLX_FN void start_products(rlx_u32 pixels, rlx_u32 filters, bool first, GroupSums& sums) {
  const rlx_u64 a = rlx_panel_descriptor(pixels + rlx_warp / 4u * (kGroupM * kStepBytes));
  const rlx_u64 b = rlx_panel_descriptor(filters + kBytesA);
  // Descriptors count in 16 bytes.
  RLX_UNROLL for (int k = 0; k < kStepBytes / 32; ++k) {
    RLX_UNROLL for (int i = 0; i < kGroupBlocks; ++i) {
      const rlx_u64 rows = a + rlx_u64(i * 64 * kStepBytes / 16 + 2 * k);
      auto& d = reinterpret_cast<float(&)[RLX_TILE_N / 2]>(sums[i]);
#if RLX_SPLIT_F32
      rlx_wgmma_tf32<RLX_TILE_N>::run(d, rows, b + rlx_u64(2 * k), first && k == 0 ? 0u : 1u);
#else
      rlx_wgmma<RLX_TILE_N, bool(RLX_CAT(RLX_IS_BF16_, RLX_X))>::run(d, rows, b + rlx_u64(2 * k), first && k == 0 ? 0u : 1u);
#endif
    }
  }
}

#if RLX_SPLIT_F32
// Splits the thread's own pieces of a slot; low parts go to another one.
RLX_FN void split_step(rlx_u32 slot, rlx_u32 low, int row, int column) {
  const rlx_u32 at = row * kStepBytes + ((column ^ (row & 7)) * kPieceBytes);
  RLX_UNROLL for (int i = 0; i < kRowsA + kRowsB; ++i) {
    rlx_split_shared4(slot + at + i * kRowStride * kStepBytes, low + at + i * kRowStride * kStepBytes);
  }
}
#endif
#endif

// Calls multiply(step) for steps from kStepNumber on, each as soon as its copies, one group per step, are here.
template <int kStepNumber, typename Multiply>
RLX_FN void multiply_resident(const Multiply& multiply) {
  if constexpr (kStepNumber < kResidentSteps) {
    rlx_wait_copies<kResidentSteps - 1 - kStepNumber>();
    rlx_barrier();
    multiply(kStepNumber);
    multiply_resident<kStepNumber + 1>(multiply);
  }
}

#if RLX_BUNDLES > 1
// The parameters of one bundle: its channels of x, its filters, its columns of all that has a column per filter.
RLX_FN RlxParams of_bundle(RlxParams p, int bundle) {
  p.x += rlx_ptr(bundle * RLX_CHANNELS) * kBytes;
  p.w += rlx_ptr(bundle * RLX_FILTERS) * (RLX_OWN_DEPTH * kBytes);
#ifdef RLX_BIAS
  p.bias += rlx_ptr(bundle * RLX_FILTERS) * RLX_CAT(rlx_bytes_, RLX_BIAS);
#endif
#ifdef RLX_RESIDUAL
  p.residual += rlx_ptr(bundle * RLX_FILTERS) * RLX_CAT(rlx_bytes_, RLX_Y);
#endif
  p.y += rlx_ptr(bundle * RLX_FILTERS) * RLX_CAT(rlx_bytes_, RLX_Y);
  return p;
}
#else
RLX_FN const RlxParams& of_bundle(const RlxParams& p, int) { return p; }
#endif

RLX_MAIN_PREFETCH {
  const rlx_u32 linear = rlx_u32(rlx_linear_group);
  const int tile = int(linear / RLX_SPLIT);
  const rlx_u32 rank = linear % RLX_SPLIT;
  if (tile >= RLX_TILES_M * RLX_BUNDLES * RLX_TILES_N || rank >= kSplit) return;  // whole clusters
  const int row_tile = RLX_QUOTIENT(tile, TILES_N);
  const int tile_n = tile - row_tile * RLX_TILES_N;
  const int tile_m = row_tile / RLX_BUNDLES;
  const RlxParams& bundle = of_bundle(p, row_tile % RLX_BUNDLES);
  const int first_step = int(rank) * RLX_STEPS;

  rlx_u32 ring = rlx_shared_address(rlx_shared);
  if (kByGroups) ring = (ring + 1023u) & ~1023u;
  const int row = int(rlx_local_index) / kPieces;
  const int column = int(rlx_local_index) % kPieces;
  Pixel pixels[kRowsA];
  RLX_UNROLL for (int i = 0; i < kRowsA; ++i) pixels[i] = pixel_of(bundle.x, tile_m * RLX_TILE_M + row + i * kRowStride);
  const int first_filter = tile_n * RLX_TILE_N;

#if !RLX_PREFETCH
  rlx_wait_for_predecessors();
  rlx_release_successors();
#endif
  RLX_UNROLL for (int s = 0; s < kAhead; ++s) {
    if (s < RLX_STEPS) copy_filters(bundle.w, ring + s * kSlotBytes, depth_of(first_step + s, column), first_filter, row, column);
  }
  Ahead ahead;
  load_bias(bundle.bias, first_filter, ahead);
#if RLX_PREFETCH
  rlx_wait_for_predecessors();
  rlx_release_successors();
#endif
  RLX_UNROLL for (int s = 0; s < kAhead; ++s) {
    if (s < RLX_STEPS) copy_pixels(ring + s * kSlotBytes, depth_of(first_step + s, column), pixels, row, column);
    rlx_commit_copies();
  }

  const auto row_of = [=](int tile_row) { return tile_m * RLX_TILE_M + tile_row; };
  load_early_residuals(bundle.residual, rank, first_filter, row_of, ahead);

  // There is a step at least, which loops say by testing behind it: where ptxas sees a way around wgmma's products it waits for each.
#if RLX_WGMMA && RLX_HAS_WGMMA
  rlx_u32 slot = 0;
  rlx_u32 next_slot = rlx_u32(kAhead % kStages);
  const auto next_step = [&](int step) {
    if (step + kAhead < RLX_STEPS) {
      const rlx_u32 to = ring + next_slot * kSlotBytes;
      const Depth depth = depth_of(first_step + step + kAhead, column);
      copy_filters(bundle.w, to, depth, first_filter, row, column);
      copy_pixels(to, depth, pixels, row, column);
    }
    rlx_commit_copies();
    slot = slot + 1u == kStages ? 0u : slot + 1u;
    next_slot = next_slot + 1u == kStages ? 0u : next_slot + 1u;
  };
#if RLX_SPLIT_F32
  // The step before is complete in all warpgroups behind the barrier: its slot is filled again, the low parts of the one before that are
  // replaced, and its sums are settled while this step's mixed products go on.
  RlxSplitSums<kGroupBlocks, RLX_TILE_N / 8> parts;
  rlx_clear(parts);
  int step = 0;
  RLX_LOOP do {
    const rlx_u32 high = ring + slot * kSlotBytes;
    const rlx_u32 low = ring + (kStages + (step & 1)) * kSlotBytes;
    rlx_wait_copies<kAhead - 1>();
    split_step(high, low, row, column);
    rlx_wgmma_wait<0>();
    rlx_fence_async_shared();
    rlx_barrier();
    rlx_wgmma_fence();
    start_products(low, high, false, parts.mixed);
    start_products(high, low, false, parts.mixed);
    rlx_wgmma_commit();
    rlx_add_high(parts);
    rlx_wgmma_fence();
    start_products(high, high, true, parts.high);
    rlx_wgmma_commit();
    next_step(step);
  } while (++step < RLX_STEPS);
  rlx_wgmma_wait<0>();
  rlx_add_high(parts);
  GroupSums sums;
  RLX_UNROLL for (int i = 0; i < kGroupBlocks; ++i) {
    RLX_UNROLL for (int j = 0; j < RLX_TILE_N / 8; ++j) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) sums[i][j][e] = rlx_sum_of(parts, i, j, e);
    }
  }
#else
  GroupSums sums;
  int step = 0;
  RLX_LOOP do {
    rlx_wait_copies<kAhead - 1>();
    rlx_fence_async_shared();
    rlx_barrier();
    rlx_wgmma_fence();
    start_products(ring + slot * kSlotBytes, ring + slot * kSlotBytes, step == 0, sums);
    rlx_wgmma_commit();
    next_step(step);
    rlx_wgmma_wait<kBehind - 1>();
  } while (++step < RLX_STEPS);
  rlx_wgmma_wait<0>();
#endif
  rlx_barrier();
  store_group_sums(sums);
#else
  const rlx_u32 warp_m = rlx_warp % RLX_WARPS_M;
  const rlx_u32 warp_n = rlx_warp / RLX_WARPS_M % RLX_WARPS_N;
  const rlx_u32 warp_k = rlx_warp / (RLX_WARPS_M * RLX_WARPS_N);
  WarpSums sums;
  rlx_clear(sums);
  if constexpr (kResident) {
    multiply_resident<0>([&](int step) { multiply_step(ring + step * kSlotBytes, warp_m, warp_n, warp_k, sums); });
  } else {
    rlx_u32 slot = 0;
    rlx_u32 next_slot = kAhead;
    Depth next_depth = depth_of(first_step + kAhead, column);
    int step = 0;
    RLX_LOOP do {
      rlx_wait_copies<kAhead - 1>();
      rlx_barrier();
      if (step + kAhead < RLX_STEPS) {
        const rlx_u32 to = ring + next_slot * kSlotBytes;
        copy_filters(bundle.w, to, next_depth, first_filter, row, column);
        copy_pixels(to, next_depth, pixels, row, column);
      }
      rlx_commit_copies();
      next_depth = depth_of(first_step + step + 1 + kAhead, column);  // beside the products
      multiply_step(ring + slot * kSlotBytes, warp_m, warp_n, warp_k, sums);
      slot = slot + 1u == kStages ? 0u : slot + 1u;
      next_slot = next_slot + 1u == kStages ? 0u : next_slot + 1u;
    } while (++step < RLX_STEPS);
  }
  rlx_wait_copies<0>();
  rlx_barrier();

  store_sums(warp_m, warp_n, warp_k, sums);
#endif
  rlx_barrier();
#if RLX_SPLIT > 1 && __CUDA_ARCH__ >= 900
  publish_sums();
#endif
  finish_units(bundle, rank, first_filter, row_of, ahead);
}

#endif
