// SPDX-License-Identifier: Apache-2.0
// Product of 16-bit matrices in large tiles, summed in f32:
//   y[m][n] = act(sum over k of a[m][k] * b[n][k] + bias[n]) + residual[m][n], rounded once;
//   gated: y = act(a b + bias) * (a b2 + bias2) + residual;
//   RLX_RESIDUAL_FIRST 1: y = act(a b + bias + residual).
// Layout: a [M][K] and b, b2 [N][K], rows of dense depth at distances RLX_A_PITCH and RLX_B_PITCH; y and residual rows at distances
// RLX_Y_PITCH and RLX_RESIDUAL_PITCH. All addresses, and all pitches but that of a ragged y, are multiples of 16 bytes, K is one of
// 8. So is N but where y's rows are ragged.
// RLX_WINDOW 1, a convolution: the lines of a are the pixels under the windows of images x [N, H, W, RLX_CHANNELS], channels dense,
// with strides RLX_X_N, RLX_X_H, RLX_X_W, and K is RLX_TAPS * RLX_CHANNELS. Depth goes over all taps before the next 64 channels.
// Grid: an even number of workgroups, at most one per multiprocessor. Pairs of them, clusters on sm_90a, take every
// (gridDim.x / 2)-th pair of tiles of 128 x RLX_TILE_N that lie below each other and so share their panels of b, or with RLX_BESIDE 1
// beside each other and share those of a.
// Workgroup: 384 threads. Warpgroup 0 copies panels of 64 depths of both operands into a ring of RLX_STAGES slots, half of the
// shared one for both workgroups of the pair; warpgroups 1 and 2 multiply: RLX_PINGPONG 1: tile by tile in turn, so that one finishes a tile
// while the other multiplies; 0: 64 rows of every tile each. On sm_90a by tensor copies and wgmma; elsewhere by cp.async and mma,
// always 64 rows each, no sharing, with a ring of two slots in 99 KiB. On sm_90a results of 16 bits leave through RLX_BUFFERS
// buffers of 16 x 64 per warp and the copy engine, which also brings a residual of 16 bits there while the tile is multiplied.
// Specializations: RLX_A f16 | bf16, RLX_Y f16 | bf16 | f32, RLX_M (may be free), RLX_N, RLX_K, RLX_A_PITCH, RLX_B_PITCH, RLX_TILE_N,
//   RLX_STAGES, RLX_PINGPONG, RLX_GATED, RLX_BESIDE (none of a window), RLX_RASTER (row tiles of a workgroup that take turns before the next column
//   of tiles),
//   RLX_PREFETCH 1: b is a weight, read before predecessors have ended;
//   RLX_BIAS, RLX_BIAS2, RLX_RESIDUAL: storage types, undefined where absent; RLX_ACTIVATION 1: generated/epilogue.inc;
//   of a window RLX_TAPS, KERNEL_W, STRIDE, BEGIN, DILATION, IN and OUT as in conv_window.h (H and W; IN and OUT may be free);
//   RLX_SHORT_MATH 1: by lib/short_math.inc, where y has 16 bits; RLX_RESIDUAL_COPIED 1: the residual, of 16 bits as y, has a map;
//   RLX_RAGGED 1: N is no multiple of 8, and y, which then has no map, leaves element by element; without b2 and residual, without
//   bias where N is odd; RLX_UNROLL_CHUNKS 1: the code of the epilogue stands there for every chunk, which then moves no sums.
// Maps: a with a box of 64 x 128, or a window of 64 channels of 128 pixels, b and b2 with a box of 64 x RLX_TILE_N / 2 (of a window
// 64 channels, a tap, and so many filters), or of tiles beside each other a with one of 64 x 32, b and b2 of 64 x RLX_TILE_N; y if it has 16 bits and the residual if it is copied
// with one of 64 x 16, all with the panels' swizzle of 128 bytes.
// Numerics: f32 sums in the order of k within the matrix unit's steps of 16; equal on every run.
#include "lib/prelude.inc"
#include "lib/storage.inc"
#include "lib/wgmma.cuh"

RLX_PARAMS(MatmulWgmmaParams);

#define rlx_acc_t rlx_f32
#if RLX_ACTIVATION
#include "lib/math.inc"
#if RLX_SHORT_MATH
#include "lib/short_math.inc"
#endif
#include "generated/epilogue.inc"
#else
#define rlx_activate(value) (value)
#endif

#define RLX_IS_F16_f16 1
#define RLX_IS_F16_bf16 0
constexpr bool kBf16 = !RLX_CAT(RLX_IS_F16_, RLX_A);
constexpr rlx_u32 kTileM = 128;
constexpr rlx_u32 kTileN = RLX_TILE_N;
constexpr rlx_u32 kSums = RLX_GATED ? 2 : 1;  // products per element of y
constexpr rlx_u32 kColumns = kSums * kTileN;  // of the multiplied panel: those of b, then those of b2
constexpr rlx_u32 kTilesN = (RLX_N + kTileN - 1) / kTileN;
#define RLX_TILES_M ((rlx_u32(RLX_M) + kTileM - 1u) / kTileM)
#if RLX_BESIDE
#define RLX_PAIRS_M RLX_TILES_M
constexpr rlx_u32 kPairsN = (kTilesN + 1) / 2;
#else
#define RLX_PAIRS_M ((RLX_TILES_M + 1u) / 2u)
constexpr rlx_u32 kPairsN = kTilesN;
#endif
#define RLX_PAIRS (RLX_PAIRS_M * kPairsN)
#if RLX_WINDOW
constexpr rlx_u32 kTaps = RLX_TAPS;
constexpr rlx_u32 kDepth = RLX_CHANNELS;  // of a tap
#define RLX_PIXELS rlx_u32(RLX_OUT_H * RLX_OUT_W)  // of an image of y
#else
constexpr rlx_u32 kTaps = 1;
constexpr rlx_u32 kDepth = RLX_K;
#endif
constexpr rlx_u32 kSteps = kTaps * ((kDepth + RLX_PANEL_DEPTH - 1) / RLX_PANEL_DEPTH);
#ifdef RLX_SIZES
constexpr bool kWholeTiles = false;  // RLX_M is free
#else
constexpr bool kWholeTiles = RLX_M % ((RLX_BESIDE ? 1 : 2) * kTileM) == 0 && RLX_N % ((RLX_BESIDE ? 2 : 1) * kTileN) == 0;
#endif

constexpr bool kPingpong = RLX_HAS_WGMMA && RLX_PINGPONG;
constexpr rlx_u32 kBlocks = kPingpong ? 2 : 1;  // blocks of 64 rows per warpgroup
constexpr rlx_u32 kStages = RLX_HAS_WGMMA ? RLX_STAGES : 2;
constexpr rlx_u32 kPanelA = kTileM * RLX_PANEL_ROW_BYTES;
constexpr rlx_u32 kPanelB = kTileN * RLX_PANEL_ROW_BYTES;
constexpr rlx_u32 kStageBytes = kPanelA + kSums * kPanelB;
// Chunks, 64 columns of a warp's 16 rows, pass through buffers: panels of 16 rows.
constexpr bool kBuffersOutput = RLX_HAS_WGMMA && RLX_CAT(rlx_bytes_, RLX_Y) == 2;
constexpr bool kCopiesResidual = kBuffersOutput && RLX_RESIDUAL_COPIED;
constexpr rlx_u32 kBuffers = RLX_BUFFERS;  // per warp
static_assert(kBuffers > 1 || !kCopiesResidual, "a residual comes into one buffer while another is sent");
constexpr rlx_u32 kBufferBytes = kBuffersOutput ? 16 * RLX_PANEL_ROW_BYTES : 0;
// What a warp adds to all rows of a tile: the biases of its columns.
#ifdef RLX_BIAS
constexpr rlx_u32 kBiasBytes = kBuffersOutput ? kTileN * RLX_CAT(rlx_bytes_, RLX_BIAS) : 0;
#else
constexpr rlx_u32 kBiasBytes = 0;
#endif
#ifdef RLX_BIAS2
constexpr rlx_u32 kBias2Bytes = kBuffersOutput ? kTileN * RLX_CAT(rlx_bytes_, RLX_BIAS2) : 0;
#else
constexpr rlx_u32 kBias2Bytes = 0;
#endif
constexpr rlx_u32 kPanelBytes = kStages * kStageBytes + 8 * kBuffers * kBufferBytes;
constexpr rlx_u32 kRingBarrierBytes = 2 * 8 * kStages;
constexpr rlx_u32 kBarrierBytes = kRingBarrierBytes + 8 * 8 * kBuffers;
RLX_DYNAMIC_SHARED(1024 + kPanelBytes + kBarrierBytes + 8 * (kBiasBytes + kBias2Bytes));

RLX_CLUSTER(2);

constexpr rlx_u32 kProducers = 128;
constexpr rlx_u32 kReaders = kPingpong ? 4 : 8;  // warps of a workgroup that read a slot

// The ring of slots: where a slot lies, and its barriers.
struct Ring {
  rlx_u32 panels;
  rlx_u32 barriers;
  RLX_FN rlx_u32 a(rlx_u32 slot) const { return panels + slot * kStageBytes; }
  RLX_FN rlx_u32 b(rlx_u32 slot) const { return a(slot) + kPanelA; }
  RLX_FN rlx_u32 full(rlx_u32 slot) const { return barriers + 8u * slot; }
  RLX_FN rlx_u32 empty(rlx_u32 slot) const { return barriers + 8u * (kStages + slot); }
};

// The place in the endless sequence of slots.
struct Turn {
  rlx_u32 slot = 0;
  rlx_u32 phase = 0;
  RLX_FN void next() {
    if (++slot == kStages) {
      slot = 0;
      phase ^= 1u;
    }
  }
  RLX_FN void skip(rlx_u32 turns) {
    const rlx_u32 sum = slot + turns;
    phase ^= (sum / kStages) & 1u;
    slot = sum % kStages;
  }
};

struct Tile {
  rlx_u32 m;
  rlx_u32 n;
};
// The workgroup's tile of a pair. Pairs that run at the same time share rows and columns: RLX_RASTER pairs of row tiles before the
// next column. Of an odd number of tiles below or beside each other the last pair's second lies outside the matrix.
RLX_FN Tile tile_at(rlx_u32 pair) {
  const rlx_u32 band = pair / (RLX_RASTER * kPairsN);
  const rlx_u32 first = band * RLX_RASTER;
  const rlx_u32 rows = RLX_PAIRS_M - first < RLX_RASTER ? RLX_PAIRS_M - first : RLX_RASTER;
  const rlx_u32 rest = pair - first * kPairsN;
  const rlx_u32 m = first + rest % rows;
  const rlx_u32 n = rest / rows;
  const rlx_u32 rank = rlx_group_x % 2u;
  return RLX_BESIDE ? Tile{m * kTileM, (2u * n + rank) * kTileN} : Tile{(2u * m + rank) * kTileM, n * kTileN};
}
#define RLX_EACH_PAIR(pair) RLX_LOOP for (rlx_u32 pair = rlx_group_x / 2u; pair < RLX_PAIRS; pair += rlx_grid_x / 2u)

// ---- copies ----

#if RLX_WINDOW
// Where the window of a pixel of y begins; of pixels past the last one in images that there are not.
RLX_FN RlxPixelPlace place_of(rlx_u32 line) {
  const rlx_u32 pixel = line % RLX_PIXELS;
  return {int(pixel % rlx_u32(RLX_OUT_W)) * RLX_STRIDE_W - RLX_BEGIN_W, int(pixel / rlx_u32(RLX_OUT_W)) * RLX_STRIDE_H - RLX_BEGIN_H,
          int(line / RLX_PIXELS)};
}
RLX_FN rlx_u32 tap_w_of(rlx_u32 tap) { return tap % RLX_KERNEL_W * RLX_DILATION_W; }
RLX_FN rlx_u32 tap_h_of(rlx_u32 tap) { return tap / RLX_KERNEL_W * RLX_DILATION_H; }
#endif
// The depth of a tap from which a step goes on.
RLX_FN rlx_u32 depth_of(rlx_u32 step) { return step / kTaps * RLX_PANEL_DEPTH; }

#if RLX_HAS_WGMMA
// A panel of a comes in boxes, none of which lies past the last line: the copy engine brings such ones slowly. What then stands in
// their rows makes results that nobody stores.
constexpr rlx_u32 kBoxLines = RLX_BESIDE ? 32 : kTileM;
constexpr rlx_u32 kBoxBytes = kBoxLines * RLX_PANEL_ROW_BYTES;
RLX_FN rlx_u32 boxes_from(rlx_u32 line) {
  const rlx_u32 lines = line < rlx_u32(RLX_M) ? rlx_u32(RLX_M) - line : 0u;
  return lines >= kTileM ? kTileM / kBoxLines : (lines + kBoxLines - 1u) / kBoxLines;
}

// A shared panel goes to both workgroups of the pair, which take turns: by boxes of a's, by halves of b's.
#if RLX_BESIDE
RLX_FN void copy_a(const RlxTensorMaps& maps, const Ring& ring, rlx_u32 slot, rlx_u32 line, rlx_u32 boxes, rlx_u32 step) {
  RLX_LOOP for (rlx_u32 i = rlx_cluster_rank(); i < boxes; i += 2u)
    rlx_copy_box(ring.a(slot) + i * kBoxBytes, maps.at[0], depth_of(step), line + i * kBoxLines, ring.full(slot), 3u);
}
RLX_FN void copy_b(const RlxTensorMaps& maps, const Ring& ring, rlx_u32 slot, rlx_u32 column, rlx_u32 step) {
  RLX_UNROLL for (rlx_u32 s = 0; s < kSums; ++s)
    rlx_copy_box(ring.b(slot) + s * kPanelB, maps.at[1u + s], depth_of(step), column, ring.full(slot));
}
#else
RLX_FN void copy_a(const RlxTensorMaps& maps, const Ring& ring, rlx_u32 slot, rlx_u32 line, rlx_u32 boxes, rlx_u32 step) {
  if (boxes > 0u) rlx_copy_box(ring.a(slot), maps.at[0], depth_of(step), line, ring.full(slot));
}
RLX_FN void copy_b(const RlxTensorMaps& maps, const Ring& ring, rlx_u32 slot, rlx_u32 column, rlx_u32 step) {
  const rlx_u32 first = rlx_cluster_rank() * (kTileN / 2u);
  RLX_UNROLL for (rlx_u32 s = 0; s < kSums; ++s) {
    const rlx_u32 panel = ring.b(slot) + s * kPanelB + first * RLX_PANEL_ROW_BYTES;
#if RLX_WINDOW
    rlx_copy_box3(panel, maps.at[1u + s], depth_of(step), step % kTaps, column + first, ring.full(slot), 3u);
#else
    rlx_copy_box(panel, maps.at[1u + s], depth_of(step), column + first, ring.full(slot), 3u);
#endif
  }
}
#endif
RLX_FN void expect_panels(const Ring& ring, rlx_u32 slot, rlx_u32 boxes) {
  rlx_mbarrier_arrive_expecting(ring.full(slot), kSums * kPanelB + boxes * kBoxBytes);
}

// One thread. What b needs of the first slots may come before the predecessors' end.
RLX_FN void produce(const RlxParams&, const RlxTensorMaps& maps, const Ring& ring, rlx_u32 thread) {
  if (thread != 0u) return;
  constexpr rlx_u32 kEarly = !RLX_PREFETCH ? 0 : kSteps < kStages ? kSteps : kStages;
  RLX_UNROLL for (rlx_u32 i = 0; i <= kSums; ++i) rlx_prefetch_map(maps.at[i]);
  if (rlx_group_x / 2u < RLX_PAIRS) {
    const Tile tile = tile_at(rlx_group_x / 2u);
    const rlx_u32 boxes = boxes_from(tile.m);
    RLX_LOOP for (rlx_u32 step = 0; step < kEarly; ++step) {
      expect_panels(ring, step, boxes);
      copy_b(maps, ring, step, tile.n, step);
    }
  }
  rlx_wait_for_predecessors();
  Turn turn;
  rlx_u32 early = kEarly;
  RLX_EACH_PAIR(pair) {
    const Tile tile = tile_at(pair);
    const rlx_u32 boxes = boxes_from(tile.m);
#if RLX_WINDOW
    const RlxPixelPlace place = place_of(tile.m);
#endif
    RLX_LOOP for (rlx_u32 step = 0; step < kSteps; ++step) {
      if (early == 0u) {
        rlx_mbarrier_wait(ring.empty(turn.slot), turn.phase ^ 1u);
        expect_panels(ring, turn.slot, boxes);
        copy_b(maps, ring, turn.slot, tile.n, step);
      } else {
        --early;
      }
#if RLX_WINDOW
      if (boxes > 0u) {
        rlx_copy_pixels(ring.a(turn.slot), maps.at[0], depth_of(step), place, tap_w_of(step % kTaps), tap_h_of(step % kTaps),
                        ring.full(turn.slot));
      }
#else
      copy_a(maps, ring, turn.slot, tile.m, boxes, step);
#endif
      turn.next();
    }
  }
  // The workgroup lasts until both have given all slots back: then no arrival of the other one, nor a copy, is on its way here.
  RLX_LOOP for (rlx_u32 i = 0; i < kStages; ++i) {
    rlx_mbarrier_wait(ring.empty(turn.slot), turn.phase ^ 1u);
    turn.next();
  }
}
#else
// What a thread copies of a panel: piece thread % 8 of every 16th row. Depths past the end are zeros.
struct Pieces {
  rlx_u32 row;
  rlx_u32 shared;  // of the row
  rlx_u32 depth;   // 0 where it lies past the end
  rlx_u32 bytes;
};
RLX_FN Pieces pieces_of(rlx_u32 panel, rlx_u32 step, rlx_u32 thread) {
  const rlx_u32 depth = depth_of(step) + 8u * (thread % 8u);
  const bool inside = kDepth % RLX_PANEL_DEPTH == 0 || depth < kDepth;
  return {thread / 8u, panel + rlx_panel_piece(thread / 8u, thread % 8u), inside ? depth : 0u, inside ? 16u : 0u};
}

// Of a panel of kRows rows of which there are `all_rows`; those past the end repeat the last one, whose products nobody stores.
template <rlx_u32 kRows, rlx_u32 kPitch>
RLX_FN void copy_panel(rlx_u32 panel, rlx_ptr matrix, rlx_u32 all_rows, rlx_u32 first_row, rlx_u32 step, rlx_u32 thread) {
  const Pieces pieces = pieces_of(panel, step, thread);
  const rlx_u32 depth = step % kTaps * kDepth + pieces.depth;
  RLX_UNROLL for (rlx_u32 i = 0; i < kRows / 16u; ++i) {
    const rlx_u32 own = first_row + pieces.row + 16u * i;
    const rlx_u32 line = own < all_rows ? own : all_rows - 1u;
    const rlx_ptr from = matrix + (rlx_u64(line) * kPitch + depth) * 2u;
    rlx_copy16_async(pieces.shared + 16u * i * RLX_PANEL_ROW_BYTES, from, pieces.bytes);
  }
}
#if RLX_WINDOW
RLX_FN void copy_pixels(rlx_u32 panel, rlx_ptr x, rlx_u32 first_row, rlx_u32 step, rlx_u32 thread) {
  const Pieces pieces = pieces_of(panel, step, thread);
  RLX_UNROLL for (rlx_u32 i = 0; i < kTileM / 16u; ++i) {
    const rlx_u32 line = first_row + pieces.row + 16u * i;
    const RlxPixelPlace place = place_of(line);
    const int h = place.h + int(tap_h_of(step % kTaps));
    const int w = place.w + int(tap_w_of(step % kTaps));
    const bool inside = line < rlx_u32(RLX_M) && rlx_u32(h) < rlx_u32(RLX_IN_H) && rlx_u32(w) < rlx_u32(RLX_IN_W);
    const rlx_i64 from =
        inside ? rlx_i64(place.n) * RLX_X_N + rlx_i64(h) * RLX_X_H + rlx_i64(w) * RLX_X_W + pieces.depth : rlx_i64(0);
    rlx_copy16_async(pieces.shared + 16u * i * RLX_PANEL_ROW_BYTES, x + rlx_ptr(from) * 2u, inside ? pieces.bytes : 0u);
  }
}
#endif

RLX_FN void produce(const RlxParams& p, const RlxTensorMaps&, const Ring& ring, rlx_u32 thread) {
  Turn turn;
  RLX_EACH_PAIR(pair) {
    const Tile tile = tile_at(pair);
    RLX_LOOP for (rlx_u32 step = 0; step < kSteps; ++step) {
      rlx_mbarrier_wait(ring.empty(turn.slot), turn.phase ^ 1u);
#if RLX_WINDOW
      copy_pixels(ring.a(turn.slot), p.a, tile.m, step, thread);
#else
      copy_panel<kTileM, RLX_A_PITCH>(ring.a(turn.slot), p.a, rlx_u32(RLX_M), tile.m, step, thread);
#endif
      copy_panel<kTileN, RLX_B_PITCH>(ring.b(turn.slot), p.b, RLX_N, tile.n, step, thread);
#if RLX_GATED
      copy_panel<kTileN, RLX_B_PITCH>(ring.b(turn.slot) + kPanelB, p.b2, RLX_N, tile.n, step, thread);
#endif
      rlx_mbarrier_arrive_after_copies(ring.full(turn.slot));
      turn.next();
    }
  }
  rlx_wait_copies<0>();  // a thread that ends while its copies are under way loses them
}
#endif

// ---- products ----

// 64 rows by kColumns sums, as wgmma and mma give them to a thread.
using Sums = float[kColumns / 2];

#if RLX_HAS_WGMMA
RLX_FN void multiply_slot(Sums (&sums)[kBlocks], const Ring& ring, rlx_u32 slot, rlx_u32 first_row, bool first) {
  const rlx_u64 a = rlx_panel_descriptor(ring.a(slot) + first_row * RLX_PANEL_ROW_BYTES);
  const rlx_u64 b = rlx_panel_descriptor(ring.b(slot));
  RLX_UNROLL for (rlx_u32 k = 0; k < RLX_PANEL_DEPTH / 16u; ++k) {
    RLX_UNROLL for (rlx_u32 block = 0; block < kBlocks; ++block) {
      // Descriptors count in 16 bytes.
      rlx_wgmma<kColumns, kBf16>::run(sums[block], a + block * (64u * RLX_PANEL_ROW_BYTES / 16u) + 2u * k, b + 2u * k,
                                      first && k == 0u ? 0u : 1u);
    }
  }
}
#else
RLX_FN void multiply_slot(Sums (&sums)[kBlocks], const Ring& ring, rlx_u32 slot, rlx_u32 first_row, bool) {
  const rlx_u32 lane = rlx_lane_of_warp;
  const rlx_u32 a_row = first_row + rlx_warp % 4u * 16u + lane % 16u;
  RLX_UNROLL for (rlx_u32 k = 0; k < RLX_PANEL_DEPTH / 16u; ++k) {
    rlx_u32 a[4];
    rlx_load_tiles4(a, ring.a(slot) + rlx_panel_piece(a_row, 2u * k + lane / 16u));
    // Two tiles of 8 columns at once.
    RLX_UNROLL for (rlx_u32 j = 0; j < kColumns / 8u; j += 2u) {
      rlx_u32 b[4];
      const rlx_u32 b_row = 8u * j + lane % 8u + lane / 16u * 8u;
      rlx_load_tiles4(b, ring.b(slot) + rlx_panel_piece(b_row, 2u * k + lane / 8u % 2u));
      RLX_UNROLL for (rlx_u32 half = 0; half < 2u; ++half) {
        float(&d)[4] = *reinterpret_cast<float(*)[4]>(&sums[0][4u * (j + half)]);
        const rlx_u32 columns[2] = {b[2u * half], b[2u * half + 1u]};
        if (kBf16) {
          rlx_mma_bf16(d, a, columns);
        } else {
          rlx_mma_f16(d, a, columns);
        }
      }
    }
  }
}
#endif

// With kPingpong one warpgroup multiplies at a time: the other one's slots come after, and a slot's phases are told apart only
// from one to the next. Each warpgroup waits for its turn at a barrier of its own, where the other one arrives.
RLX_FN void await_turn(rlx_u32 warpgroup) { asm volatile("barrier.sync %0, 256;" ::"r"(1u + warpgroup) : "memory"); }
RLX_FN void give_turn_to(rlx_u32 warpgroup) { asm volatile("barrier.arrive %0, 256;" ::"r"(1u + warpgroup) : "memory"); }

// Gives a slot back to those who fill it: on sm_90a both workgroups of the pair.
RLX_FN void release(const Ring& ring, rlx_u32 slot) {
  if (rlx_lane_of_warp != 0u) return;
#if RLX_HAS_WGMMA
  rlx_mbarrier_arrive_at(ring.empty(slot), 0u);
  rlx_mbarrier_arrive_at(ring.empty(slot), 1u);
#else
  rlx_mbarrier_arrive(ring.empty(slot));
#endif
}

// All of k. Slots are given back as soon as the products that read them are complete.
RLX_FN void multiply_tile(Sums (&sums)[kBlocks], const Ring& ring, Turn& turn, rlx_u32 warpgroup) {
  const rlx_u32 first_row = kPingpong ? 0u : 64u * warpgroup;
#if !RLX_HAS_WGMMA
  RLX_UNROLL for (rlx_u32 i = 0; i < kColumns / 2u; ++i) sums[0][i] = 0.0f;
#endif
#if RLX_HAS_WGMMA
  rlx_u32 previous = 0;
#endif
  if (kPingpong) await_turn(warpgroup);
  RLX_LOOP for (rlx_u32 step = 0; step < kSteps; ++step) {
    rlx_mbarrier_wait(ring.full(turn.slot), turn.phase);
#if RLX_HAS_WGMMA
    rlx_wgmma_fence();
    multiply_slot(sums, ring, turn.slot, first_row, step == 0u);
    rlx_wgmma_commit();
    rlx_wgmma_wait<1>();
    if (step > 0u) release(ring, previous);
    previous = turn.slot;
#else
    multiply_slot(sums, ring, turn.slot, first_row, false);
    __syncwarp();
    release(ring, turn.slot);
#endif
    turn.next();
  }
  if (kPingpong) give_turn_to(1u - warpgroup);
#if RLX_HAS_WGMMA
  rlx_wgmma_wait<0>();
  release(ring, previous);
#endif
}

// ---- epilogue ----

// Two neighbours as they stand in memory, and as floats.
using Raw2_f16 = rlx_u32;
using Raw2_bf16 = rlx_u32;
using Raw2_f32 = rlx_vec2;
RLX_FN rlx_vec2 unpack2_f16(rlx_u32 word) { return rlx_unpack_f16x2(word); }
RLX_FN rlx_vec2 unpack2_bf16(rlx_u32 word) { return rlx_unpack_bf16x2(word); }
RLX_FN rlx_vec2 unpack2_f32(rlx_vec2 pair) { return pair; }
#define RLX_RAW2(dtype) RLX_CAT(Raw2_, dtype)
#define RLX_LOAD2(dtype, base, i) rlx_at<RLX_RAW2(dtype)>(base, rlx_i64(i) * rlx_i64(RLX_CAT(rlx_bytes_, dtype)))
#define RLX_UNPACK2(dtype, raw) RLX_CAT(unpack2_, dtype)(raw)
RLX_FN rlx_u32 pack2_f16(float x, float y) {
  rlx_u32 word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(y), "f"(x));
  return word;
}
RLX_FN rlx_u32 pack2_f32(float, float) { return 0; }  // never called
RLX_FN rlx_u32 pack2_bf16(float x, float y) {
  rlx_u32 word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(y), "f"(x));
  return word;
}

RLX_FN void add2(rlx_vec2& value, rlx_vec2 added) {
  value.x += added.x;
  value.y += added.y;
}

// What a warp works with beside its sums: its buffers, the barriers at which residuals arrive in them, and its columns' biases,
// all in shared memory; the number of its next chunk tells the buffer and its phase.
struct Output {
  rlx_u32 buffers;
  rlx_u32 barriers;
  rlx_u32 bias;
  rlx_u32 chunk = 0;
  RLX_FN rlx_u32 buffer(rlx_u32 number) const { return buffers + number % kBuffers * kBufferBytes; }
  RLX_FN rlx_u32 barrier(rlx_u32 number) const { return barriers + number % kBuffers * 8u; }
  RLX_FN rlx_u32 phase(rlx_u32 number) const { return number / kBuffers & 1u; }
};

// Where a thread's sums of a chunk belong, and what is added to them: group 4 * j + half is for columns 8 j + 2 (lane % 4) and the
// next of row lane / 4 + 8 half.
struct Place {
  rlx_u32 row;     // of the thread, half 0
  rlx_u32 column;  // of the thread, j 0
  rlx_u32 own;     // in the buffer: the thread's word of row lane / 4, before the piece is chosen
  rlx_u32 bias;    // in shared memory, of j 0
  rlx_u32 bias2;
};

#define RLX_COLUMN_OF(place, j) ((place).column + 8u * (j))
RLX_FN rlx_u32 safe_column(rlx_u32 column) { return kWholeTiles || column < RLX_N ? column : 0u; }
RLX_FN rlx_u32 buffer_word(const Place& place, rlx_u32 j, rlx_u32 half) {
  return place.own + half * (8u * RLX_PANEL_ROW_BYTES) + ((j ^ rlx_lane_of_warp / 4u) << 4);
}

RLX_FN void shared_load(rlx_u32& word, rlx_u32 shared) { word = rlx_shared_load1(shared); }
RLX_FN void shared_load(rlx_vec2& pair, rlx_u32 shared) {
  rlx_u32 words[2];
  rlx_shared_load2(words, shared);
  pair = rlx_vec2{rlx_from_bits(words[0]), rlx_from_bits(words[1])};
}

// What is added to four neighbouring groups of columns, loaded before any of it is used.
struct Added {
#ifdef RLX_BIAS
  RLX_RAW2(RLX_BIAS) bias[4];
#endif
#ifdef RLX_BIAS2
  RLX_RAW2(RLX_BIAS2) bias2[4];
#endif
#ifdef RLX_RESIDUAL
  RLX_RAW2(RLX_RESIDUAL) residual[4][2];
#endif
};

RLX_FN void load_added(const RlxParams& p, Added& added, const Place& place, rlx_u32 first) {
  RLX_UNROLL for (rlx_u32 i = 0; i < 4u; ++i) {
    const rlx_u32 j = first + i;
#ifdef RLX_BIAS
    if (kBuffersOutput) {
      shared_load(added.bias[i], place.bias + 8u * j * RLX_CAT(rlx_bytes_, RLX_BIAS));
    } else {
      added.bias[i] = RLX_LOAD2(RLX_BIAS, p.bias, safe_column(RLX_COLUMN_OF(place, j)));
    }
#endif
#ifdef RLX_BIAS2
    if (kBuffersOutput) {
      shared_load(added.bias2[i], place.bias2 + 8u * j * RLX_CAT(rlx_bytes_, RLX_BIAS2));
    } else {
      added.bias2[i] = RLX_LOAD2(RLX_BIAS2, p.bias2, safe_column(RLX_COLUMN_OF(place, j)));
    }
#endif
#ifdef RLX_RESIDUAL
    RLX_UNROLL for (rlx_u32 half = 0; half < 2u; ++half) {
#if RLX_RESIDUAL_COPIED
      if (kCopiesResidual) {
        added.residual[i][half] = rlx_shared_load1(buffer_word(place, j, half));
        continue;
      }
#endif
      const rlx_u32 row = place.row + 8u * half;
      const rlx_u32 line = kWholeTiles || row < rlx_u32(RLX_M) ? row : rlx_u32(RLX_M) - 1u;
      added.residual[i][half] =
          RLX_LOAD2(RLX_RESIDUAL, p.residual, rlx_i64(line) * RLX_RESIDUAL_PITCH + safe_column(RLX_COLUMN_OF(place, j)));
    }
#endif
  }
}

// Two neighbours of y, from the sums at `at`.
RLX_FN rlx_vec2 finish(const Sums& sums, rlx_u32 at, const Added& added, rlx_u32 i, rlx_u32 half) {
  rlx_vec2 value{sums[at], sums[at + 1u]};
#ifdef RLX_BIAS
  add2(value, RLX_UNPACK2(RLX_BIAS, added.bias[i]));
#endif
#if RLX_RESIDUAL_FIRST
  add2(value, RLX_UNPACK2(RLX_RESIDUAL, added.residual[i][half]));
#endif
  value.x = rlx_activate(value.x);
  value.y = rlx_activate(value.y);
#if RLX_GATED
  rlx_vec2 other{sums[kTileN / 2u + at], sums[kTileN / 2u + at + 1u]};
#ifdef RLX_BIAS2
  add2(other, RLX_UNPACK2(RLX_BIAS2, added.bias2[i]));
#endif
  value.x *= other.x;
  value.y *= other.y;
#endif
#if defined(RLX_RESIDUAL) && !RLX_RESIDUAL_FIRST
  add2(value, RLX_UNPACK2(RLX_RESIDUAL, added.residual[i][half]));
#endif
  return value;
}

// A chunk's first or second four groups of columns, from the first 32 sums of each thread.
RLX_FN void store_half(const RlxParams& p, const Sums& sums, const Place& place, rlx_u32 first) {
  Added added;
  load_added(p, added, place, first);
  rlx_vec2 values[4][2];
  RLX_UNROLL for (rlx_u32 i = 0; i < 4u; ++i) {
    RLX_UNROLL for (rlx_u32 half = 0; half < 2u; ++half) {
      values[i][half] = finish(sums, 4u * (first + i) + 2u * half, added, i, half);
    }
  }
  RLX_UNROLL for (rlx_u32 i = 0; i < 4u; ++i) {
    RLX_UNROLL for (rlx_u32 half = 0; half < 2u; ++half) {
      const rlx_vec2 value = values[i][half];
      if (kBuffersOutput) {
        rlx_shared_store1(buffer_word(place, first + i, half), RLX_CAT(pack2_, RLX_Y)(value.x, value.y));
        continue;
      }
      const rlx_u32 row = place.row + 8u * half;
      const rlx_u32 column = RLX_COLUMN_OF(place, first + i);
      if (!kWholeTiles && (row >= rlx_u32(RLX_M) || column >= RLX_N)) continue;
      RLX_CAT(rlx_store_, RLX_Y)(p.y, rlx_i64(row) * RLX_Y_PITCH + column, value.x);
      if (RLX_N % 2 == 1 && column + 1 == RLX_N) continue;
      RLX_CAT(rlx_store_, RLX_Y)(p.y, rlx_i64(row) * RLX_Y_PITCH + column + 1, value.y);
    }
  }
}

#if RLX_HAS_WGMMA
// Behind a and b, in order.
constexpr rlx_u32 kMapY = 1 + kSums;
constexpr rlx_u32 kMapResidual = 2 + kSums;
constexpr rlx_u32 kChunks = kBlocks * (kTileN / 64);  // of a warp, per tile

// The residual of the warp's chunk number `of_tile` of a tile that begins at (row, column) for it.
RLX_FN void copy_residual(const RlxTensorMaps& maps, const Output& output, rlx_u32 row, rlx_u32 column, rlx_u32 of_tile,
                          rlx_u32 number) {
  if (rlx_lane_of_warp != 0u) return;
  constexpr rlx_u32 kRow = kTileN / 64u;
  rlx_mbarrier_arrive_expecting(output.barrier(number), kBufferBytes);
  rlx_copy_box(output.buffer(number), maps.at[kMapResidual], column + of_tile % kRow * 64u, row + of_tile / kRow * 64u,
               output.barrier(number));
}

// A warp's copy of a tile's biases; columns past the end become zeros.
template <rlx_u32 kBytes>
RLX_FN void copy_bias(rlx_u32 shared, rlx_ptr bias, rlx_u32 column) {
  RLX_UNROLL for (rlx_u32 i = 2u * rlx_lane_of_warp; i < kTileN; i += 64u) {
    const bool inside = kWholeTiles || column + i < RLX_N;
    rlx_copy_async<2 * kBytes>(shared + i * kBytes, bias + rlx_u64(inside ? column + i : 0u) * kBytes, inside ? 2u * kBytes : 0u);
  }
}

// Before a tile is multiplied: its biases and first residuals set out.
RLX_FN void begin_tile(const RlxParams& p, const RlxTensorMaps& maps, const Output& output, rlx_u32 row, rlx_u32 column) {
  if (kCopiesResidual) {
    if (rlx_lane_of_warp == 0u) rlx_wait_boxes_read<0>();
    constexpr rlx_u32 kFirst = kBuffers < kChunks ? kBuffers : kChunks;
    RLX_UNROLL for (rlx_u32 i = 0; i < kFirst; ++i) copy_residual(maps, output, row, column, i, output.chunk + i);
  }
  if (kBiasBytes + kBias2Bytes == 0u) return;
#ifdef RLX_BIAS
  copy_bias<RLX_CAT(rlx_bytes_, RLX_BIAS)>(output.bias, p.bias, column);
#endif
#ifdef RLX_BIAS2
  copy_bias<RLX_CAT(rlx_bytes_, RLX_BIAS2)>(output.bias + kBiasBytes, p.bias2, column);
#endif
}

// Behind a chunk whose values stand in its buffer.
#if RLX_RAGGED
RLX_FN void send_chunk(const RlxParams& p, const RlxTensorMaps&, const Output& output, rlx_u32 row, rlx_u32 column) {
  __syncwarp();
  RLX_UNROLL for (rlx_u32 i = 0; i < 16u; ++i) {
    RLX_UNROLL for (rlx_u32 j = 0; j < 64u; j += 32u) {
      const rlx_u32 at = j + rlx_lane_of_warp;
      const rlx_u32 word = rlx_shared_load1(output.buffer(output.chunk) + rlx_panel_piece(i, at / 8u) + at % 8u / 2u * 4u);
      if (row + i >= rlx_u32(RLX_M) || column + at >= RLX_N) continue;
      rlx_at<unsigned short>(p.y, (rlx_i64(row + i) * RLX_Y_PITCH + column + at) * 2) =
          static_cast<unsigned short>(at % 2u == 0u ? word : word >> 16);
    }
  }
  __syncwarp();
}
#else
RLX_FN void send_chunk(const RlxParams&, const RlxTensorMaps& maps, const Output& output, rlx_u32 row, rlx_u32 column) {
  rlx_fence_async_shared();
  __syncwarp();
  if (rlx_lane_of_warp != 0u || row >= rlx_u32(RLX_M)) return;
  rlx_store_box(maps.at[kMapY], column, row, output.buffer(output.chunk));
  rlx_commit_boxes();
}
#endif
#endif

// A warp's 16 rows of each block of 64, from (row, column) of y on. The chunks take turns in the first sums, so that the code of
// one may serve all: unrolled, a long activation would stand there a hundred times.
#if RLX_UNROLL_CHUNKS
#define RLX_EACH_CHUNK RLX_UNROLL
#else
#define RLX_EACH_CHUNK RLX_LOOP
#endif
RLX_FN void store_tile(const RlxParams& p, const RlxTensorMaps& maps, Sums (&sums)[kBlocks], Output& output, rlx_u32 row,
                       rlx_u32 column) {
  const rlx_u32 lane = rlx_lane_of_warp;
  const rlx_u32 pair = lane % 4u * 2u;
#if RLX_HAS_WGMMA
  if (kBiasBytes + kBias2Bytes > 0u) {
    rlx_wait_copies<0>();
    __syncwarp();
  }
#endif
  RLX_EACH_CHUNK for (rlx_u32 block = 0; block < kBlocks; ++block) {
    RLX_EACH_CHUNK for (rlx_u32 i = 0; i < kTileN / 64u; ++i) {
      Place place{row + 64u * block + lane / 4u, column + 64u * i + pair, 0, 0, 0};
#if RLX_HAS_WGMMA
      if (kBuffersOutput) {
        place.own = output.buffer(output.chunk) + lane / 4u * RLX_PANEL_ROW_BYTES + pair * 2u;
        place.bias = output.bias + (64u * i + pair) * (kBiasBytes / kTileN);
        place.bias2 = output.bias + kBiasBytes + (64u * i + pair) * (kBias2Bytes / kTileN);
        if (kCopiesResidual) {
          rlx_mbarrier_wait(output.barrier(output.chunk), output.phase(output.chunk));
        } else {
          if (lane == 0u) rlx_wait_boxes_read<kBuffers - 1u>();
          __syncwarp();
        }
      }
#endif
      store_half(p, sums[0], place, 0);
      store_half(p, sums[0], place, 4);
#if RLX_HAS_WGMMA
      if (kBuffersOutput) {
        send_chunk(p, maps, output, row + 64u * block, column + 64u * i);
        const rlx_u32 next = block * (kTileN / 64u) + i + kBuffers - 1u;
        if (kCopiesResidual && next >= kBuffers && next < kChunks) {
          if (lane == 0u) rlx_wait_boxes_read<1>();
          copy_residual(maps, output, row, column, next, output.chunk + kBuffers - 1u);
        }
        ++output.chunk;
      }
#endif
      RLX_UNROLL for (rlx_u32 s = 0; s < kColumns / 2u; ++s) {
        if (s % (kTileN / 2u) >= 32u) sums[0][s - 32u] = sums[0][s];
      }
    }
    RLX_UNROLL for (rlx_u32 s = 0; s < kColumns / 2u; ++s) sums[0][s] = sums[kBlocks - 1u][s];
  }
}

RLX_FN void consume(const RlxParams& p, const RlxTensorMaps& maps, const Ring& ring, rlx_u32 warpgroup, Output output) {
  Turn turn;
  rlx_u32 number = 0;
  const rlx_u32 first_row = kPingpong ? 0u : 64u * warpgroup;
  if (kPingpong && warpgroup == 1u) give_turn_to(0u);
  RLX_EACH_PAIR(pair) {
    if (kPingpong && number++ % 2u != warpgroup) {
      turn.skip(kSteps);
      continue;
    }
    const Tile tile = tile_at(pair);
    const rlx_u32 row = tile.m + first_row + rlx_warp % 4u * 16u;
    Sums sums[kBlocks];
#if RLX_HAS_WGMMA
    begin_tile(p, maps, output, row, tile.n);
#endif
    multiply_tile(sums, ring, turn, warpgroup);
    store_tile(p, maps, sums, output, row, tile.n);
  }
#if RLX_HAS_WGMMA
  if (kBuffersOutput && rlx_lane_of_warp == 0u) rlx_wait_boxes_read<0>();  // buffers live as long as the workgroup
#endif
}

RLX_MAIN_MAPS {
  const rlx_u32 base = (rlx_shared_address(rlx_shared) + 1023u) & ~1023u;
  const Ring ring{base, base + kPanelBytes};
  if (rlx_local_x == 0u) {
    for (rlx_u32 slot = 0; slot < kStages; ++slot) {
      rlx_mbarrier_init(ring.full(slot), RLX_HAS_WGMMA ? 1u : kProducers);
      rlx_mbarrier_init(ring.empty(slot), RLX_HAS_WGMMA ? 2u * kReaders : kReaders);
    }
    if (kCopiesResidual) {
      for (rlx_u32 i = 0; i < 8u * kBuffers; ++i) rlx_mbarrier_init(base + kPanelBytes + kRingBarrierBytes + 8u * i, 1u);
    }
  }
#if RLX_HAS_WGMMA
  if (rlx_local_x == 0u) rlx_fence_mbarrier_init();
  __syncwarp();
  rlx_cluster_barrier();
#else
  rlx_barrier();
#endif
  if (rlx_local_x < kProducers) {
    rlx_give_registers<40>();
    if (!RLX_HAS_WGMMA) rlx_wait_for_predecessors();
    produce(p, maps, ring, rlx_local_x);
  } else {
    rlx_take_registers<232>();
    rlx_wait_for_predecessors();
    const rlx_u32 warp = rlx_warp - kProducers / 32u;
    const Output output{base + kStages * kStageBytes + warp * (kBuffers * kBufferBytes),
                        base + kPanelBytes + kRingBarrierBytes + 8u * kBuffers * warp,
                        base + kPanelBytes + kBarrierBytes + warp * (kBiasBytes + kBias2Bytes)};
    consume(p, maps, ring, warp / 4u, output);
  }
}
