// SPDX-License-Identifier: Apache-2.0
// How lines of a weight matrix in blocks (lib/weights.inc) come to the warps that multiply them where their bytes are whole aligned pieces of 16:
// the copy engine brings what all warps of the workgroup need at once, line by line, which keeps more under way than threads could.
// Specializations: RLX_WARPS of each of RLX_ROUND_TEAMS teams; RLX_TILES of 16 lines per workgroup at most; RLX_N, RLX_K;
//   lib/blocks.inc; RLX_W_EARLY as in lib/block_ring.cuh.
// Phases: a round is RLX_WARPS slices, one of each warp; a stage of the ring is a tile's lines of a round. The tiles of the workgroup pass by
//   round after round, of which teams of warps take turns; each passes by the others' too, so that none is a turn of the ring ahead, where the
//   parity of a barrier would say nothing. The first warp fills a stage again when the one behind it is done with too.
#ifndef RLX_LIB_BLOCK_LINES_CUH
#define RLX_LIB_BLOCK_LINES_CUH

#include "lib/block_ring.cuh"
#include "lib/stream.cuh"

constexpr rlx_u32 kRounds = (kSlices + RLX_WARPS - 1) / RLX_WARPS;
constexpr rlx_u32 kRoundBytes = RLX_WARPS * kSliceBytes;                  // of a line
constexpr rlx_u32 kLastBytes = kLineBytes - (kRounds - 1) * kRoundBytes;  // of the last round
constexpr rlx_u32 kRoundPitch = ((kRoundBytes + 15) / 16 | 1u) * 16u;     // odd, so that eight lines lie in banks of their own
constexpr rlx_u32 kRoundStageBytes = kLines * kRoundPitch;
constexpr bool kWholeLines = RLX_K % kSlice == 0 && kLineBytes % 16 == 0 && (kRounds == 1 || kRoundBytes % 16 == 0);
// Stages of which a multiprocessor has room for two workgroups' and more; no more than there are to be filled.
constexpr rlx_u32 kRoom = 80 * 1024;
constexpr rlx_u32 kStagesInRoom = kRoom / kRoundStageBytes < 2u ? 2u : kRoom / kRoundStageBytes;
constexpr rlx_u32 kRoundStages = kStagesInRoom < kRounds * RLX_TILES ? kStagesInRoom : kRounds * RLX_TILES;
// A stage is filled again behind so many that were used later, so that slow readers are not waited for, where there is one more to travel.
constexpr rlx_u32 kLag = kRoundStages > 2u ? 2u : 1u;
constexpr rlx_u32 kRoundRingBytes = kRoundStages * kRoundStageBytes;

__shared__ rlx_u64 full[kRoundStages];
__shared__ rlx_u64 empty[kRoundStages];

// A stage of the ring and the parity of the turn that it is in.
struct Turn {
  rlx_u32 stage;
  rlx_u32 parity;
  RLX_FN void step() {
    if (++stage < kRoundStages) return;
    stage = 0u;
    parity ^= 1u;
  }
};

RLX_FN void copy_lines(Weights from, rlx_u32 first_line, rlx_u32 round, rlx_u32 to, rlx_u32 barrier) {
  const rlx_u32 lane = rlx_lane_of_warp;
  const rlx_u32 bytes = round + 1u == kRounds ? kLastBytes : kRoundBytes;
  rlx_stream_announce(barrier, kLines * bytes, lane);
  const auto copy = [&](rlx_u32 line, rlx_u32 own_lane) {
    const rlx_ptr start = rlx_line_address(from, min(first_line + line, rlx_u32(RLX_N - 1))) + rlx_ptr(round * kRoundBytes);
    rlx_stream_copy(to + line * kRoundPitch, start, bytes, barrier, own_lane);
  };
#if RLX_HAS_BULK_COPY
  if (lane < kLines) copy(lane, 0u);
#else
  for (rlx_u32 line = 0u; line < kLines; ++line) copy(line, lane);
#endif
  rlx_stream_close(barrier);
}

// The first warp's way through what is to be copied.
struct Copies {
  Weights from;
  rlx_u32 ring;
  rlx_u32 first_line;
  rlx_u32 tiles;
  rlx_u32 round;
  rlx_u32 tile;
  Turn turn;
  RLX_FN void next() {
    if (round == kRounds) return;
    // In the first turn the stages are empty: the phase before a barrier's first is complete.
    rlx_mbarrier_wait(rlx_shared_address(&empty[turn.stage]), turn.parity ^ 1u);
    copy_lines(from, first_line + tile * kLines, round, ring + turn.stage * kRoundStageBytes, rlx_shared_address(&full[turn.stage]));
    turn.step();
    if (++tile < tiles) return;
    tile = 0u;
    ++round;
  }
};

// As stream_tiles of lib/block_ring.cuh.
template <typename Begin, typename Use>
RLX_FN void stream_lines(unsigned char* shared, Weights from, rlx_u32 first_line, rlx_u32 tiles, const Begin& begin, const Use& use) {
  if (rlx_local_index < kRoundStages) {
    rlx_mbarrier_init(rlx_shared_address(&full[rlx_local_index]), RLX_STREAM_ARRIVALS);
    rlx_mbarrier_init(rlx_shared_address(&empty[rlx_local_index]), RLX_WARPS * RLX_ROUND_TEAMS);
    rlx_fence_async_shared();
  }
  rlx_barrier();
#if !RLX_W_EARLY
  rlx_wait_for_predecessors();
#endif
  Copies copies = {from, rlx_shared_address(shared), first_line, tiles, 0u, 0u, {0u, 0u}};
  const bool is_copying = rlx_warp == 0u;
  for (rlx_u32 i = 0u; is_copying && i < kRoundStages; ++i) copies.next();
#if RLX_W_EARLY
  rlx_wait_for_predecessors();
#endif
  Turn turn = {0u, 0u};
  rlx_u32 used = 0u;
  const rlx_u32 team = rlx_warp / RLX_WARPS;
  const rlx_u32 warp = rlx_warp % RLX_WARPS;
  RLX_LOOP for (rlx_u32 round = 0u; round < kRounds; ++round) {
    const rlx_u32 slice = round * RLX_WARPS + warp;
    const bool is_own = round % RLX_ROUND_TEAMS == team;
    if (is_own && slice < kSlices) begin(slice);
    RLX_LOOP for (rlx_u32 tile = 0u; tile < tiles; ++tile) {
      if (is_copying && used >= kLag) copies.next();
      ++used;
      rlx_mbarrier_wait(rlx_shared_address(&full[turn.stage]), turn.parity);
      if (is_own && slice < kSlices) {
        const rlx_u32 place = turn.stage * kRoundStageBytes + rlx_lane_of_warp / 4u * kRoundPitch + warp * kSliceBytes;
        const rlx_u32 at[2] = {place, place + 8u * kRoundPitch};
        use(tile, round < RLX_ROUND_TEAMS, at);
      }
      __syncwarp();
      if (rlx_lane_of_warp == 0u) rlx_mbarrier_arrive(rlx_shared_address(&empty[turn.stage]));
      turn.step();
    }
  }
}

#endif
