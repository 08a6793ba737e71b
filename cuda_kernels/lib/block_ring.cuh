// SPDX-License-Identifier: Apache-2.0
// How lines of a weight matrix in blocks (lib/weights.inc) come to the warps that multiply them, at the speed of memory: what the streamed forms
// of dequant_mma share.
// Specializations: RLX_WARPS, RLX_TILES of 16 lines per workgroup at most, RLX_STAGES of a warp's ring (at least 2); RLX_N, RLX_K;
//   lib/blocks.inc.
//   RLX_W_EARLY 1: w does not depend on earlier steps, so its first stages are loaded before the wait for them.
// Phases: a slice is 256 depths. Each warp has every RLX_WARPS-th one and lets the workgroup's tiles pass by: their bytes come as they are, 16
//   at a time (cp.async), into a ring of its own, RLX_STAGES - 1 tiles ahead.
#ifndef RLX_LIB_BLOCK_RING_CUH
#define RLX_LIB_BLOCK_RING_CUH

#include "lib/mma.cuh"

constexpr rlx_u32 kLines = 16;  // of a tile
constexpr rlx_u32 kSlice = 256;
constexpr rlx_u32 kSlices = (RLX_K + kSlice - 1) / kSlice;
constexpr rlx_u32 kLineBytes = RLX_K / RLX_W_ELEMENTS * RLX_W_BYTES;
constexpr rlx_u32 kSliceBytes = kSlice / RLX_W_ELEMENTS * RLX_W_BYTES;
// Whether every line's slice begins at a multiple of 16; else it lies up to 15 bytes behind where its place in the ring begins.
constexpr bool kAligned = kLineBytes % 16 == 0 && kSliceBytes % 16 == 0;
constexpr rlx_u32 kChunks = kAligned ? kSliceBytes / 16 : (kSliceBytes + 30) / 16;  // of a slice of a line
constexpr rlx_u32 kPitch = (kChunks | 1u) * 16u;  // odd, so that eight lines lie in banks of their own
constexpr rlx_u32 kStageBytes = kLines * kPitch;
constexpr rlx_u32 kRingsBytes = RLX_WARPS * RLX_STAGES * kStageBytes;  // shared memory begins with them
static_assert(RLX_STAGES >= 2, "a stage that travels");

// Starts the copies of a tile's slice; zeros behind the end of a line, and lines beyond the matrix repeat the last.
RLX_FN void copy_tile(unsigned char* shared, Weights from, rlx_u32 first_line, rlx_u32 slice, rlx_u32 to) {
  const rlx_u32 lane = rlx_lane_of_warp;
  RLX_UNROLL for (rlx_u32 half = 0u; half < 2u; ++half) {
    const rlx_u32 line = lane / 4u + half * 8u;
    const rlx_ptr start = rlx_line_address(from, min(first_line + line, rlx_u32(RLX_N - 1)));
    const rlx_ptr begin = (start + rlx_ptr(slice * kSliceBytes)) & ~rlx_ptr(15);
    const rlx_u32 left = rlx_u32(start + rlx_ptr(kLineBytes) - begin);
    const rlx_u32 place = rlx_shared_address(shared) + to + line * kPitch;
    RLX_UNROLL for (rlx_u32 i = 0u; i < (kChunks + 3u) / 4u; ++i) {
      const rlx_u32 at = (lane % 4u + i * 4u) * 16u;
      if (at >= kChunks * 16u) continue;
      if (kAligned && RLX_K % kSlice == 0u) {
        rlx_copy16_async(place + at, begin + at);
      } else {
        const rlx_u32 bytes = at < left ? min(left - at, 16u) : 0u;
        rlx_copy16_async(place + at, bytes != 0u ? begin + at : begin, bytes);
      }
    }
  }
}
// Where the slice of a line that copy_tile brought begins in its place.
RLX_FN rlx_u32 skew_of(Weights from, rlx_u32 line, rlx_u32 slice) {
  if (kAligned) return 0u;
  return (rlx_u32(rlx_line_address(from, min(line, rlx_u32(RLX_N - 1)))) + slice * kSliceBytes) & 15u;
}

// A warp's way through its slices and, in each, the workgroup's tiles.
struct Walk {
  rlx_u32 slice;
  rlx_u32 tile;
  rlx_u32 stage;
  RLX_FN void step(rlx_u32 tiles) {
    stage = stage + 1u == RLX_STAGES ? 0u : stage + 1u;
    if (++tile < tiles) return;
    tile = 0u;
    slice += RLX_WARPS;
  }
};

// All of a warp's slices of the workgroup's tiles: begin(slice), then use(tile, is_first, at) for every tile of it; is_first: in its first
// slice; at: where the slices of the thread's two lines of the tile, g and g + 8 of a fragment, begin in shared memory.
template <typename Begin, typename Use>
RLX_FN void stream_tiles(unsigned char* shared, Weights from, rlx_u32 first_line, rlx_u32 tiles, const Begin& begin, const Use& use) {
  const rlx_u32 ring = rlx_warp * (RLX_STAGES * kStageBytes);
  const rlx_u32 line = rlx_lane_of_warp / 4u;
  Walk ahead = {rlx_warp, 0u, 0u};
  const auto copy_next = [&]() {
    if (ahead.slice < kSlices) {
      copy_tile(shared, from, first_line + ahead.tile * kLines, ahead.slice, ring + ahead.stage * kStageBytes);
      ahead.step(tiles);
    }
    rlx_commit_copies();
  };
#if !RLX_W_EARLY
  rlx_wait_for_predecessors();
#endif
  RLX_UNROLL for (rlx_u32 i = 0u; i + 1u < RLX_STAGES; ++i) copy_next();
#if RLX_W_EARLY
  rlx_wait_for_predecessors();
#endif
  RLX_LOOP for (Walk now = {rlx_warp, 0u, 0u}; now.slice < kSlices; now.step(tiles)) {
    if (now.tile == 0u) begin(now.slice);
    // Behind this the tile's bytes are there for the whole warp, and the ring's oldest stage is free.
    rlx_wait_copies<RLX_STAGES - 2>();
    __syncwarp();
    copy_next();
    const rlx_u32 first = first_line + now.tile * kLines + line;
    const rlx_u32 place = ring + now.stage * kStageBytes + line * kPitch;
    const rlx_u32 at[2] = {place + skew_of(from, first, now.slice), place + 8u * kPitch + skew_of(from, first + 8u, now.slice)};
    use(now.tile, now.slice == rlx_warp, at);
  }
}

#endif
