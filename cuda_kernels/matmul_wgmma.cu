// SPDX-License-Identifier: Apache-2.0
// Product of 16-bit matrices in large tiles, summed in f32:
//   y[m][n] = act(sum over k of a[m][k] * b[n][k] + bias[n]) + residual[m][n], rounded once;
//   gated: y = act(a b + bias) * (a b2 + bias2) + residual.
// Layout: a [M][K] and b, b2 [N][K], rows of dense depth at distances RLX_A_PITCH and RLX_B_PITCH; y dense [M][N]; residual rows
// at distance RLX_RESIDUAL_PITCH. All addresses and pitches are multiples of 16 bytes, K and N multiples of 8.
// Grid: an even number of workgroups, at most one per multiprocessor. Pairs of them, clusters on sm_90a, take every
// (gridDim.x / 2)-th pair of tiles of 128 x RLX_TILE_N that lie below each other and so share their panels of b.
// Workgroup: 384 threads. Warpgroup 0 copies panels of 64 depths of both operands into a ring of RLX_STAGES slots, half of b's
// for both workgroups of the pair; warpgroups 1 and 2 multiply: RLX_PINGPONG 1: tile by tile in turn, so that one finishes a tile
// while the other multiplies; 0: 64 rows of every tile each. On sm_90a by tensor copies and wgmma; elsewhere by cp.async and mma,
// always 64 rows each, no sharing, with a ring of two slots in 99 KiB.
// Specializations: RLX_A f16 | bf16, RLX_Y f16 | bf16 | f32, RLX_M, RLX_N, RLX_K, RLX_A_PITCH, RLX_B_PITCH, RLX_TILE_N,
//   RLX_STAGES, RLX_PINGPONG, RLX_GATED, RLX_RASTER (pairs of row tiles that take turns before the next column of tiles),
//   RLX_PREFETCH 1: b is a weight, read before predecessors have ended;
//   RLX_BIAS, RLX_BIAS2, RLX_RESIDUAL: storage types, undefined where absent; RLX_ACTIVATION 1: generated/epilogue.inc;
//   RLX_SHORT_MATH 1: by lib/short_math.cuh, where y has 16 bits.
// Maps: a with a box of 64 x 128, b and b2 with one of 64 x RLX_TILE_N / 2, all with the panels' swizzle of 128 bytes.
// Numerics: f32 sums in the order of k within the matrix unit's steps of 16; equal on every run.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/wgmma.cuh"

RLX_PARAMS(MatmulWgmmaParams);

#define rlx_acc_t rlx_f32
#if RLX_ACTIVATION
#include "lib/math.cuh"
#if RLX_SHORT_MATH
#include "lib/short_math.cuh"
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
constexpr rlx_u32 kTilesM = (RLX_M + kTileM - 1) / kTileM;
constexpr rlx_u32 kTilesN = (RLX_N + kTileN - 1) / kTileN;
constexpr rlx_u32 kPairsM = (kTilesM + 1) / 2;
constexpr rlx_u32 kPairs = kPairsM * kTilesN;
constexpr rlx_u32 kSteps = (RLX_K + RLX_PANEL_DEPTH - 1) / RLX_PANEL_DEPTH;
constexpr bool kWholeTiles = RLX_M % (2 * kTileM) == 0 && RLX_N % kTileN == 0;

constexpr bool kPingpong = RLX_HAS_WGMMA && RLX_PINGPONG;
constexpr rlx_u32 kBlocks = kPingpong ? 2 : 1;  // blocks of 64 rows per warpgroup
constexpr rlx_u32 kStages = RLX_HAS_WGMMA ? RLX_STAGES : 2;
constexpr rlx_u32 kPanelA = kTileM * RLX_PANEL_ROW_BYTES;
constexpr rlx_u32 kPanelB = kTileN * RLX_PANEL_ROW_BYTES;
constexpr rlx_u32 kStageBytes = kPanelA + kSums * kPanelB;
// 64 columns of 16 rows per warp on their way to y, rows 16 bytes apart in the banks.
constexpr rlx_u32 kOutputRowBytes = 144;
constexpr bool kStagesOutput = RLX_HAS_WGMMA && RLX_CAT(rlx_bytes_, RLX_Y) == 2;
constexpr rlx_u32 kOutputBytes = kStagesOutput ? 16 * kOutputRowBytes : 0;
constexpr rlx_u32 kBarrierBytes = 2 * 8 * kStages;
RLX_DYNAMIC_SHARED(1024 + kStages * kStageBytes + 8 * kOutputBytes + kBarrierBytes);

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
// next column. Of an odd number of row tiles the last pair's second lies outside the matrix.
RLX_FN Tile tile_at(rlx_u32 pair) {
  const rlx_u32 band = pair / (RLX_RASTER * kTilesN);
  const rlx_u32 first = band * RLX_RASTER;
  const rlx_u32 rows = kPairsM - first < RLX_RASTER ? kPairsM - first : RLX_RASTER;
  const rlx_u32 rest = pair - first * kTilesN;
  return {(2u * (first + rest % rows) + rlx_group_x % 2u) * kTileM, (rest / rows) * kTileN};
}
#define RLX_EACH_PAIR(pair) RLX_LOOP for (rlx_u32 pair = rlx_group_x / 2u; pair < kPairs; pair += rlx_grid_x / 2u)

// ---- copies ----

#if RLX_HAS_WGMMA
// Half of b's panel for both workgroups of the pair, which each copy their half.
RLX_FN void copy_b(const RlxTensorMaps& maps, const Ring& ring, rlx_u32 slot, rlx_u32 column, rlx_u32 depth) {
  const rlx_u32 rank = rlx_cluster_rank();
  const rlx_u32 first = rank * (kTileN / 2u);
  RLX_UNROLL for (rlx_u32 s = 0; s < kSums; ++s) {
    rlx_copy_box(ring.b(slot) + s * kPanelB + first * RLX_PANEL_ROW_BYTES, maps.at[1u + s], depth, column + first, ring.full(slot),
                 3u);
  }
}

// One thread. What b needs of the first slots may come before the predecessors' end.
RLX_FN void produce(const RlxParams&, const RlxTensorMaps& maps, const Ring& ring, rlx_u32 thread) {
  if (thread != 0u) return;
  constexpr rlx_u32 kEarly = !RLX_PREFETCH ? 0 : kSteps < kStages ? kSteps : kStages;
  RLX_UNROLL for (rlx_u32 i = 0; i <= kSums; ++i) rlx_prefetch_map(maps.at[i]);
  if (rlx_group_x / 2u < kPairs) {
    const Tile tile = tile_at(rlx_group_x / 2u);
    RLX_LOOP for (rlx_u32 step = 0; step < kEarly; ++step) {
      rlx_mbarrier_arrive_expecting(ring.full(step), kStageBytes);
      copy_b(maps, ring, step, tile.n, step * RLX_PANEL_DEPTH);
    }
  }
  rlx_wait_for_predecessors();
  Turn turn;
  rlx_u32 early = kEarly;
  RLX_EACH_PAIR(pair) {
    const Tile tile = tile_at(pair);
    RLX_LOOP for (rlx_u32 step = 0; step < kSteps; ++step) {
      if (early == 0u) {
        rlx_mbarrier_wait(ring.empty(turn.slot), turn.phase ^ 1u);
        rlx_mbarrier_arrive_expecting(ring.full(turn.slot), kStageBytes);
        copy_b(maps, ring, turn.slot, tile.n, step * RLX_PANEL_DEPTH);
      } else {
        --early;
      }
      rlx_copy_box(ring.a(turn.slot), maps.at[0], step * RLX_PANEL_DEPTH, tile.m, ring.full(turn.slot));
      turn.next();
    }
  }
}
#else
// One thread's pieces of a panel of kRows rows: piece thread % 8 of every 16th row. Rows past the end repeat the last one, whose
// products nobody stores; depths past the end are zeros.
template <rlx_u32 kRows, rlx_u32 kAllRows, rlx_u32 kPitch>
RLX_FN void copy_panel(rlx_u32 panel, rlx_ptr matrix, rlx_u32 first_row, rlx_u32 first_depth, rlx_u32 thread) {
  const rlx_u32 piece = thread % 8u;
  const rlx_u32 row = thread / 8u;
  const rlx_u32 shared = panel + rlx_panel_piece(row, piece);
  const rlx_u32 depth = first_depth + 8u * piece;
  const rlx_u32 bytes = RLX_K % RLX_PANEL_DEPTH == 0 || depth < RLX_K ? 16u : 0u;
  const rlx_u32 safe_depth = bytes == 0u ? 0u : depth;
  RLX_UNROLL for (rlx_u32 i = 0; i < kRows / 16u; ++i) {
    const rlx_u32 own = first_row + row + 16u * i;
    const rlx_u32 line = own < kAllRows ? own : kAllRows - 1u;
    const rlx_ptr from = matrix + (rlx_u64(line) * kPitch + safe_depth) * 2u;
    rlx_copy16_async(shared + 16u * i * RLX_PANEL_ROW_BYTES, from, bytes);
  }
}

RLX_FN void produce(const RlxParams& p, const RlxTensorMaps&, const Ring& ring, rlx_u32 thread) {
  Turn turn;
  RLX_EACH_PAIR(pair) {
    const Tile tile = tile_at(pair);
    RLX_LOOP for (rlx_u32 step = 0; step < kSteps; ++step) {
      rlx_mbarrier_wait(ring.empty(turn.slot), turn.phase ^ 1u);
      copy_panel<kTileM, RLX_M, RLX_A_PITCH>(ring.a(turn.slot), p.a, tile.m, step * RLX_PANEL_DEPTH, thread);
      copy_panel<kTileN, RLX_N, RLX_B_PITCH>(ring.b(turn.slot), p.b, tile.n, step * RLX_PANEL_DEPTH, thread);
#if RLX_GATED
      copy_panel<kTileN, RLX_N, RLX_B_PITCH>(ring.b(turn.slot) + kPanelB, p.b2, tile.n, step * RLX_PANEL_DEPTH, thread);
#endif
      rlx_mbarrier_arrive_after_copies(ring.full(turn.slot));
      turn.next();
    }
  }
  rlx_commit_copies();
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

// What a thread adds to its 32 sums of a chunk, loaded before any of it is used: [j] is for columns 8 j + 2 (lane % 4) and the
// next, [j][half] for row lane / 4 + 8 half of them.
struct Added {
#ifdef RLX_BIAS
  RLX_RAW2(RLX_BIAS) bias[8];
#endif
#ifdef RLX_BIAS2
  RLX_RAW2(RLX_BIAS2) bias2[8];
#endif
#ifdef RLX_RESIDUAL
  RLX_RAW2(RLX_RESIDUAL) residual[8][2];
#endif
};

RLX_FN void load_added(const RlxParams& p, Added& added, rlx_u32 row, rlx_u32 column) {
  RLX_UNROLL for (rlx_u32 j = 0; j < 8u; ++j) {
    const rlx_u32 own = column + 8u * j;
    const rlx_u32 safe = kWholeTiles || own < RLX_N ? own : 0u;
#ifdef RLX_BIAS
    added.bias[j] = RLX_LOAD2(RLX_BIAS, p.bias, safe);
#endif
#ifdef RLX_BIAS2
    added.bias2[j] = RLX_LOAD2(RLX_BIAS2, p.bias2, safe);
#endif
#ifdef RLX_RESIDUAL
    RLX_UNROLL for (rlx_u32 half = 0; half < 2u; ++half) {
      const rlx_u32 line = kWholeTiles || row + 8u * half < RLX_M ? row + 8u * half : RLX_M - 1u;
      added.residual[j][half] = RLX_LOAD2(RLX_RESIDUAL, p.residual, rlx_i64(line) * RLX_RESIDUAL_PITCH + safe);
    }
#endif
  }
}

// Two neighbours of y, from the sums at `at`.
RLX_FN rlx_vec2 finish(const Sums& sums, rlx_u32 at, const Added& added, rlx_u32 j, rlx_u32 half) {
  rlx_vec2 value{sums[at], sums[at + 1u]};
#ifdef RLX_BIAS
  add2(value, RLX_UNPACK2(RLX_BIAS, added.bias[j]));
#endif
  value.x = rlx_activate(value.x);
  value.y = rlx_activate(value.y);
#if RLX_GATED
  rlx_vec2 other{sums[kTileN / 2u + at], sums[kTileN / 2u + at + 1u]};
#ifdef RLX_BIAS2
  add2(other, RLX_UNPACK2(RLX_BIAS2, added.bias2[j]));
#endif
  value.x *= other.x;
  value.y *= other.y;
#endif
#ifdef RLX_RESIDUAL
  add2(value, RLX_UNPACK2(RLX_RESIDUAL, added.residual[j][half]));
#endif
  return value;
}

// 64 columns of a warp's 16 rows, from (row, column) of y on, from the first 32 sums of each thread.
RLX_FN void store_chunk(const RlxParams& p, const Sums& sums, rlx_u32 row, rlx_u32 column, rlx_u32 output) {
  const rlx_u32 lane = rlx_lane_of_warp;
  const rlx_u32 group = lane / 4u;
  const rlx_u32 pair = lane % 4u * 2u;
  Added added;
  load_added(p, added, row + group, column + pair);
  RLX_UNROLL for (rlx_u32 j = 0; j < 8u; ++j) {
    RLX_UNROLL for (rlx_u32 half = 0; half < 2u; ++half) {
      const rlx_vec2 value = finish(sums, 4u * j + 2u * half, added, j, half);
      if (kStagesOutput) {
        const rlx_u32 word = RLX_CAT(pack2_, RLX_Y)(value.x, value.y);
        // No clobber: nothing but the loads behind the barrier below, volatile themselves, reads it.
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(output + (group + 8u * half) * kOutputRowBytes + 16u * j + 2u * pair), "r"(word));
        continue;
      }
      const rlx_u32 y_row = row + group + 8u * half;
      const rlx_u32 y_column = column + 8u * j + pair;
      if (!kWholeTiles && (y_row >= RLX_M || y_column >= RLX_N)) continue;
      RLX_CAT(rlx_store_, RLX_Y)(p.y, rlx_i64(y_row) * RLX_N + y_column, value.x);
      RLX_CAT(rlx_store_, RLX_Y)(p.y, rlx_i64(y_row) * RLX_N + y_column + 1, value.y);
    }
  }
  if (!kStagesOutput) return;
  __syncwarp();
  RLX_UNROLL for (rlx_u32 i = 0; i < 4u; ++i) {
    const rlx_u32 own_row = 4u * i + lane / 8u;
    const rlx_u32 y_row = row + own_row;
    const rlx_u32 y_column = column + lane % 8u * 8u;
    rlx_u32 words[4];
    rlx_shared_load4(words, output + own_row * kOutputRowBytes + lane % 8u * 16u);
    if (kWholeTiles || (y_row < RLX_M && y_column < RLX_N)) {
      rlx_put16(p.y, (rlx_i64(y_row) * RLX_N + y_column) * 2, rlx_uvec4{words[0], words[1], words[2], words[3]});
    }
  }
  __syncwarp();
}

// A warp's 16 rows of each block of 64. The chunks take turns in the first sums, so that the code of one serves all: unrolled, an
// activation would stand there a hundred times.
RLX_FN void store_tile(const RlxParams& p, Sums (&sums)[kBlocks], rlx_u32 row, rlx_u32 column, rlx_u32 output) {
  RLX_LOOP for (rlx_u32 block = 0; block < kBlocks; ++block) {
    RLX_LOOP for (rlx_u32 chunk = 0; chunk < kTileN / 64u; ++chunk) {
      store_chunk(p, sums[0], row + 64u * block, column + 64u * chunk, output);
      RLX_UNROLL for (rlx_u32 i = 0; i < kColumns / 2u; ++i) {
        if (i % (kTileN / 2u) >= 32u) sums[0][i - 32u] = sums[0][i];
      }
    }
    RLX_UNROLL for (rlx_u32 i = 0; i < kColumns / 2u; ++i) sums[0][i] = sums[kBlocks - 1u][i];
  }
}

RLX_FN void consume(const RlxParams& p, const Ring& ring, rlx_u32 warpgroup, rlx_u32 output) {
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
    Sums sums[kBlocks];
    multiply_tile(sums, ring, turn, warpgroup);
    store_tile(p, sums, tile.m + first_row + rlx_warp % 4u * 16u, tile.n, output);
  }
}

RLX_MAIN_MAPS {
  const rlx_u32 base = (rlx_shared_address(rlx_shared) + 1023u) & ~1023u;
  const Ring ring{base, base + kStages * kStageBytes + 8u * kOutputBytes};
  if (rlx_local_x == 0u) {
    for (rlx_u32 slot = 0; slot < kStages; ++slot) {
      rlx_mbarrier_init(ring.full(slot), RLX_HAS_WGMMA ? 1u : kProducers);
      rlx_mbarrier_init(ring.empty(slot), RLX_HAS_WGMMA ? 2u * kReaders : kReaders);
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
    consume(p, ring, warp / 4u, base + kStages * kStageBytes + warp * kOutputBytes);
  }
#if RLX_HAS_WGMMA
  __syncwarp();
  rlx_cluster_barrier();  // the other workgroup of the pair may still write here
#endif
}
