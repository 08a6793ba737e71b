// SPDX-License-Identifier: Apache-2.0
// The form of conv_mma for images of few channels: a workgroup keeps its filters in shared memory and walks over tiles of RLX_TILE_H
// x RLX_TILE_W output pixels. Of each tile, the patch of x under its windows is staged with RLX_PATCH_CHANNELS channels per pixel
// (those beyond C are zeros), from which fragments are read in place: 16 bytes of the patch, a piece, are one tap or two
// neighbouring ones, so that K runs over the rows of the kernel, each padded to whole pieces. The next patch travels in registers
// meanwhile.
// Layout: x has any strides, also along channels (RLX_X_C); w has strides RLX_W_N, RLX_W_C, RLX_W_H, RLX_W_W.
// Two taps per piece need a dilation of 1 and an even stride along W.
// Grid: along x, filters fastest; every group takes each gridDim.x / filter tiles-th tile of pixels.
#ifndef RLX_LIB_CONV_PATCH_CUH
#define RLX_LIB_CONV_PATCH_CUH

constexpr int kPixelBytes = RLX_PATCH_CHANNELS * kBytes;
constexpr int kPixelWords = kPixelBytes / 4;
constexpr int kPieceTaps = 16 / kPixelBytes;
constexpr int kRowPieces = (RLX_KERNEL_W + kPieceTaps - 1) / kPieceTaps;
constexpr int kPieces = RLX_KERNEL_H * kRowPieces;
constexpr int kSteps = (kPieces + 1) / 2;  // mma depths, two pieces each
constexpr int kDepth = RLX_KERNEL_H * RLX_KERNEL_W * RLX_CHANNELS;
static_assert(kPieceTaps == 1 || (kPieceTaps == 2 && RLX_DILATION_W == 1 && RLX_STRIDE_W % 2 == 0), "aligned pieces");
static_assert(RLX_CHANNELS <= RLX_PATCH_CHANNELS && RLX_WARPS_K == 1 && RLX_SPLIT == 1, "patch form");
static_assert(RLX_TILE_H * RLX_TILE_W == RLX_TILE_M, "tile");

constexpr int kPatchH = (RLX_TILE_H - 1) * RLX_STRIDE_H + (RLX_KERNEL_H - 1) * RLX_DILATION_H + 1;
constexpr int kPatchUsed = (RLX_TILE_W - 1) * RLX_STRIDE_W + (kRowPieces * kPieceTaps - 1) * RLX_DILATION_W + 1;
constexpr int kPatchW = (kPatchUsed + kPieceTaps - 1) / kPieceTaps * kPieceTaps;
constexpr int kPatchPixels = kPatchH * kPatchW;
constexpr int kThreadPixels = (kPatchPixels + kThreads - 1) / kThreads;

#define RLX_TILES_H ((RLX_OUT_H + RLX_TILE_H - 1) / RLX_TILE_H)
#define RLX_TILES_W ((RLX_OUT_W + RLX_TILE_W - 1) / RLX_TILE_W)
#define RLX_TILES (RLX_IMAGES * RLX_TILES_H * RLX_TILES_W)
constexpr int kTilesN = (RLX_FILTERS + RLX_TILE_N - 1) / RLX_TILE_N;

// Shared memory: filters (rows an odd number of pieces apart, which spreads a fragment over the banks), patch, sums.
constexpr int kFilterPitch = kSteps * 32 + 16;
constexpr int kPatchAt = RLX_TILE_N * kFilterPitch;
constexpr int kSumsAt = kPatchAt + (kPatchPixels * kPixelBytes + 15) / 16 * 16;
constexpr int kWorkBytes = kSumsAt + kSumBytes;

#if RLX_IS_F32
RLX_APART float exact_sum(const RlxParams& p, int row, int filter RLX_APART_SIZES) {
  const int image = row / RLX_PIXELS;
  const int pixel = row % RLX_PIXELS;
  float sum = 0.0f;
  RLX_LOOP for (int tap = 0; tap < RLX_KERNEL_H * RLX_KERNEL_W && sum == sum; ++tap) {  // NaN stays what it is
    const int tap_h = tap / RLX_KERNEL_W;
    const int tap_w = tap % RLX_KERNEL_W;
    const int h = pixel / RLX_OUT_W * RLX_STRIDE_H - RLX_BEGIN_H + tap_h * RLX_DILATION_H;
    const int w = pixel % RLX_OUT_W * RLX_STRIDE_W - RLX_BEGIN_W + tap_w * RLX_DILATION_W;
    const bool inside = rlx_u32(h) < rlx_u32(RLX_IN_H) && rlx_u32(w) < rlx_u32(RLX_IN_W);
    RLX_LOOP for (int c = 0; c < RLX_CHANNELS && sum == sum; ++c) {
      const rlx_i64 from = rlx_i64(image) * RLX_X_N + rlx_i64(h) * RLX_X_H + rlx_i64(w) * RLX_X_W + c * rlx_i64(RLX_X_C);
      const rlx_i64 weight = rlx_i64(filter) * RLX_W_N + tap_h * RLX_W_H + tap_w * RLX_W_W + c * RLX_W_C;
      sum = fmaf(inside ? rlx_load_f32(p.x, from) : 0.0f, rlx_load_f32(p.w, weight), sum);
    }
  }
  return sum;
}
#endif

#include "lib/conv_units.cuh"

// ---- staging ----

// A pixel's channels as they stand in the patch.
struct PatchPixel {
  rlx_u32 words[kPixelWords];
};

// The bits of element i.
#if RLX_CAT(rlx_bytes_, RLX_X) == 2
RLX_FN rlx_u32 bits_at(rlx_ptr base, rlx_i64 i) { return rlx_at<unsigned short>(base, i * 2); }
#else
RLX_FN rlx_u32 bits_at(rlx_ptr base, rlx_i64 i) { return rlx_at<rlx_u32>(base, i * 4); }
#endif

RLX_FN void put_channel(PatchPixel& pixel, int channel, rlx_u32 bits) {
  constexpr int kPerWord = 4 / kBytes;
  pixel.words[channel / kPerWord] |= bits << (channel % kPerWord * (32 / kPerWord));
}

// Channels from the address of the first one on, `step` elements apart; zeros where not inside.
RLX_FN PatchPixel load_pixel(rlx_ptr base, rlx_i64 at, rlx_i64 step, bool inside) {
  PatchPixel pixel;
  RLX_UNROLL for (int i = 0; i < kPixelWords; ++i) pixel.words[i] = 0u;
  if (!inside) return pixel;
  RLX_UNROLL for (int c = 0; c < RLX_CHANNELS; ++c) put_channel(pixel, c, bits_at(base, at + c * step));
  return pixel;
}

RLX_FN void store_pixel(int at_bytes, const PatchPixel& pixel) {
  rlx_u32* to = reinterpret_cast<rlx_u32*>(rlx_shared + at_bytes);
  RLX_UNROLL for (int i = 0; i < kPixelWords; i += 2) *reinterpret_cast<uint2*>(to + i) = make_uint2(pixel.words[i], pixel.words[i + 1]);
}

// Rows of the kernel, each padded with zeros to whole pieces, behind them a zero piece where their number is odd.
RLX_FN void stage_filters(rlx_ptr w, int first_filter) {
  constexpr int kRowTaps = kSteps * 2 * kPieceTaps;
  for (int i = int(rlx_local_index); i < RLX_TILE_N * kRowTaps; i += kThreads) {
    const int filter = i / kRowTaps;
    const int tap = i % kRowTaps;
    const int tap_h = tap / (kRowPieces * kPieceTaps);
    const int tap_w = tap % (kRowPieces * kPieceTaps);
    const bool inside = first_filter + filter < RLX_FILTERS && tap_h < RLX_KERNEL_H && tap_w < RLX_KERNEL_W;
    const rlx_i64 at = rlx_i64(first_filter + filter) * RLX_W_N + tap_h * RLX_W_H + tap_w * RLX_W_W;
    store_pixel(filter * kFilterPitch + tap * kPixelBytes, load_pixel(w, at, RLX_W_C, inside));
  }
}

struct TilePlace {
  int image;
  int h;  // of the first output pixel
  int w;
};
RLX_FN TilePlace tile_place(int tile) {
  return {tile / (RLX_TILES_H * RLX_TILES_W), tile / RLX_TILES_W % RLX_TILES_H * RLX_TILE_H, tile % RLX_TILES_W * RLX_TILE_W};
}

RLX_FN void fetch_patch(rlx_ptr x, int tile, PatchPixel (&pixels)[kThreadPixels]) {
  const TilePlace place = tile_place(tile);
  RLX_UNROLL for (int i = 0; i < kThreadPixels; ++i) {
    const int at = int(rlx_local_index) + i * kThreads;
    const int h = place.h * RLX_STRIDE_H - RLX_BEGIN_H + at / kPatchW;
    const int w = place.w * RLX_STRIDE_W - RLX_BEGIN_W + at % kPatchW;
    const bool inside = at < kPatchPixels && rlx_u32(h) < rlx_u32(RLX_IN_H) && rlx_u32(w) < rlx_u32(RLX_IN_W);
    const rlx_i64 from = rlx_i64(place.image) * RLX_X_N + rlx_i64(h) * RLX_X_H + rlx_i64(w) * RLX_X_W;
    pixels[i] = load_pixel(x, from, RLX_X_C, inside);
  }
}

RLX_FN void stage_patch(const PatchPixel (&pixels)[kThreadPixels]) {
  RLX_UNROLL for (int i = 0; i < kThreadPixels; ++i) {
    const int at = int(rlx_local_index) + i * kThreads;
    if (at < kPatchPixels) store_pixel(kPatchAt + at * kPixelBytes, pixels[i]);
  }
}

// ---- products ----

// Where the piece stands in the patch, from that of a pixel's first tap. The zero piece: anywhere.
RLX_FN constexpr int piece_offset(int piece) {
  return piece >= kPieces ? 0
                          : (piece / kRowPieces * RLX_DILATION_H * kPatchW + piece % kRowPieces * kPieceTaps * RLX_DILATION_W) * kPixelBytes;
}
// How many of the piece's four words belong to taps of the kernel: what lies behind is no pixel of the window, and may be infinite.
RLX_FN constexpr int piece_words(int piece) {
  if (piece >= kPieces) return 0;
  return piece % kRowPieces == kRowPieces - 1 && RLX_KERNEL_W % kPieceTaps != 0 ? 2 : 4;
}

RLX_FN void multiply_patch(rlx_u32 warp_m, rlx_u32 warp_n, WarpSums& sums) {
  const rlx_u32 lane = rlx_lane_of_warp;
  const rlx_u32 shared = rlx_shared_address(rlx_shared);
  rlx_u32 windows[kBlocksM];
  RLX_UNROLL for (int i = 0; i < kBlocksM; ++i) {
    const int row = int(warp_m * kWarpM + lane % 16u) + i * 16;
    windows[i] = shared + kPatchAt + (row / RLX_TILE_W * RLX_STRIDE_H * kPatchW + row % RLX_TILE_W * RLX_STRIDE_W) * kPixelBytes;
  }
  const rlx_u32 filters = shared + (warp_n * kWarpN + lane % 8u + lane / 16u * 8u) * kFilterPitch + lane / 8u % 2u * 16u;
  RLX_UNROLL for (int step = 0; step < kSteps; ++step) {
    const int offset = lane < 16u ? piece_offset(2 * step) : piece_offset(2 * step + 1);
    rlx_u32 a[kBlocksM][4];
    rlx_u32 b[kBlocksN / 2][4];
    RLX_UNROLL for (int i = 0; i < kBlocksM; ++i) {
      rlx_load_tiles4(a[i], windows[i] + offset);
      RLX_UNROLL for (int e = 0; e < 4; ++e) {
        if (piece_words(2 * step + e / 2) < 4 && int(lane % 4u) >= piece_words(2 * step + e / 2)) a[i][e] = 0u;
      }
    }
    RLX_UNROLL for (int j = 0; j < kBlocksN / 2; ++j) rlx_load_tiles4(b[j], filters + step * 32 + j * 16 * kFilterPitch);
    multiply_blocks<(kDepth < RLX_SPLIT_FEW_PRODUCTS)>(sums, a, b);
    if (step % 4 == 3 || step + 1 == kSteps) rlx_settle(sums);
  }
}

RLX_MAIN_PREFETCH {
  const int first_filter = int(rlx_group_x) % kTilesN * RLX_TILE_N;
  const int stride = int(rlx_grid_x) / kTilesN;
#if !RLX_PREFETCH
  rlx_wait_for_predecessors();
  rlx_release_successors();
#endif
  stage_filters(p.w, first_filter);
  Ahead ahead;
  load_bias(p.bias, first_filter, ahead);
#if RLX_PREFETCH
  rlx_wait_for_predecessors();
  rlx_release_successors();
#endif
  PatchPixel pixels[kThreadPixels];
  int tile = int(rlx_group_x) / kTilesN;
  if (tile < RLX_TILES) fetch_patch(p.x, tile, pixels);
  RLX_LOOP for (; tile < RLX_TILES; tile += stride) {
    stage_patch(pixels);
    rlx_barrier();
    if (tile + stride < RLX_TILES) fetch_patch(p.x, tile + stride, pixels);
    const TilePlace place = tile_place(tile);
    const auto row_of = [=](int tile_row) {
      const int h = place.h + tile_row / RLX_TILE_W;
      const int w = place.w + tile_row % RLX_TILE_W;
      return h < RLX_OUT_H && w < RLX_OUT_W ? place.image * RLX_PIXELS + h * RLX_OUT_W + w : RLX_ROWS;
    };
    load_early_residuals(p.residual, 0u, first_filter, row_of, ahead);
    const rlx_u32 warp_m = rlx_warp % RLX_WARPS_M;
    const rlx_u32 warp_n = rlx_warp / RLX_WARPS_M;
    WarpSums sums;
    rlx_clear(sums);
    multiply_patch(warp_m, warp_n, sums);
    store_sums(warp_m, warp_n, 0u, sums);
    rlx_barrier();
    finish_units(p, 0u, first_filter, row_of, ahead);
  }
}

#endif
