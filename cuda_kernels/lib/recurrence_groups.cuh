// SPDX-License-Identifier: Apache-2.0
// The walk of linear_recurrence_mma by warpgroups: one takes 16 columns of S from chunk to chunk in registers, and another, up to a chunk
// later, finds the results from what it leaves in shared memory. Left sides of products come into registers, right sides stand in panels
// (lib/wgmma.cuh). Named by the specializations of linear_recurrence_mma.cu; sm_90a only.
#ifndef RLX_LIB_RECURRENCE_GROUPS_CUH
#define RLX_LIB_RECURRENCE_GROUPS_CUH

// A panel: 32 keys or steps of the high parts of 16 columns, and of their low parts behind them.
constexpr int kPanelBytes = 2 * 16 * int(RLX_PANEL_ROW_BYTES);
constexpr int kStatePanels = (RLX_KEYS + 31) / 32;
constexpr int kState = 0;                                  // S before the chunk
constexpr int kMissing = kState + kStatePanels * kPanelBytes;  // V - diag(e^G) K S
constexpr int kTaken = kMissing + RLX_DELTA * 2 * kPanelBytes;  // D
constexpr int kFaded = kTaken + 2 * kPanelBytes;            // diag(e^(G_63 - G)) D
constexpr int kOwnBytes = kFaded + 2 * kPanelBytes;

#include "lib/recurrence_ring.cuh"

RLX_SHARED rlx_u64 has_state;   // S before the chunk stands in its place
RLX_SHARED rlx_u64 has_taken;   // D does
RLX_SHARED rlx_u64 read_state;  // they have been used by the other warpgroup
RLX_SHARED rlx_u64 read_taken;

RLX_FN void start_states() {
  rlx_mbarrier_init(rlx_shared_address(&has_state), 4u);
  rlx_mbarrier_init(rlx_shared_address(&has_taken), 4u);
  rlx_mbarrier_init(rlx_shared_address(&read_state), 4u);
  rlx_mbarrier_init(rlx_shared_address(&read_taken), 4u);
}

constexpr int kKeySteps = RLX_KEYS / 8;       // depths of a product over keys
constexpr int kHalves = (RLX_KEYS + 63) / 64;  // of 64 keys
// A lane's elements of 64 rows by 16 columns, e from 0 to 7, are of row 16 w + g + e / 2 % 2 * 8 and column e / 4 * 8 + 2t + e % 2. A sum has
// those of right sides' high parts and behind them those of the low ones.
template <bool kExact>
struct SumOf {
  static constexpr int kTiles = kExact ? 2 : 4;
  float parts[kTiles][4];
  RLX_FN float of(int e) const { return kExact ? parts[e / 4][e % 4] : parts[e / 4][e % 4] + parts[(2 + e / 4) % kTiles][e % 4]; }
};
using Sum = SumOf<false>;
// Nothing reads the sum's registers before this.
template <bool kExact>
RLX_FN void settle(SumOf<kExact>& sum) {
  RLX_UNROLL for (int i = 0; i < SumOf<kExact>::kTiles; ++i)
    asm volatile("" : "+f"(sum.parts[i][0]), "+f"(sum.parts[i][1]), "+f"(sum.parts[i][2]), "+f"(sum.parts[i][3])::"memory");
}
RLX_FN int row_of(int warp, int lane, int e) { return warp * 16 + lane / 4 + e / 2 % 2 * 8; }
RLX_FN int column_of(int lane, int e) { return e / 4 * 8 + lane % 4 * 2 + e % 2; }

// The depth from which a product's right side is read: descriptors count addresses by 16 bytes.
RLX_FN rlx_u64 right_at(rlx_u64 panels, int step) { return panels + rlx_u64(step / 4 * (kPanelBytes / 16) + step % 4 * 2); }

// Puts a lane's elements of 64 rows, from panel `first` on, to their places, where depths 2t and 2t + 1 of eight are at t and t + 4.
template <bool kExact>
RLX_FN void store_parts(rlx_u32 panels, const float (&x)[8], int warp, int lane) {
  RLX_UNROLL for (int e = 0; e < 8; ++e) {
    const int eight = warp % 2 * 2 + e / 2 % 2;
    const int piece = (eight * 2 + lane / 4 % 2) ^ (lane % 4 * 2 + e % 2);
    const rlx_u32 to = panels + rlx_u32(warp / 2 * kPanelBytes + column_of(lane, e) * int(RLX_PANEL_ROW_BYTES) + piece * 16 + lane / 8 * 4);
    rlx_shared_store1(to, high_part(x[e]));
    if (!kExact) rlx_shared_store1(to + 16 * RLX_PANEL_ROW_BYTES, low_part(x[e]));
  }
}

// What the warpgroup's threads have written is seen by its products behind this, and the threads' reads are done.
RLX_FN void group_barrier() {
  rlx_fence_async_shared();
  asm volatile("barrier.sync 1, 128;" ::: "memory");
}

// Behind this, products may begin that read these registers: the compiler would else find their contents between products, which then
// wait for each other.
template <int kCount>
RLX_FN void begin_products(Left (&a)[kCount]) {
  RLX_UNROLL for (int i = 0; i < kCount; ++i)
    asm volatile("" : "+r"(a[i].values[0]), "+r"(a[i].values[1]), "+r"(a[i].values[2]), "+r"(a[i].values[3])::"memory");
  rlx_wgmma_fence();
}
template <bool kExact>
RLX_FN void finish_products(SumOf<kExact>& sum) {
  rlx_wgmma_commit();
  rlx_wgmma_wait<0>();
  settle(sum);
}

// Rows of keys or queries times S.
RLX_FN void multiply_rows(Sum& sum, rlx_u32 rows, rlx_u32 state, int warp, int lane) {
  const rlx_u64 right = rlx_panel_descriptor(state);
  Left a[kKeySteps];
  const rlx_u32 left = rows + rlx_u32((warp * 16 + lane % 16) * kRowBytes + lane / 16 * 16);
  RLX_UNROLL for (int step = 0; step < kKeySteps; step += 2) {
    rlx_u32 words[4];
    rlx_load_tiles4(words, left + rlx_u32(step * 16));
    a[step] = left_of(words[0], words[1]);
    a[step + 1] = left_of(words[2], words[3]);
  }
  begin_products(a);
  RLX_UNROLL for (int step = 0; step < kKeySteps; ++step) rlx_wgmma_tf32_tiles<4>(sum.parts, a[step].values, right_at(right, step), step > 0);
  finish_products(sum);
}

// A triangle times right sides of all steps; those that are exact have no low parts.
template <bool kExact>
RLX_FN void multiply_triangle(SumOf<kExact>& sum, const float* triangle, rlx_u32 panels, int warp, int lane) {
  const rlx_u64 right = rlx_panel_descriptor(panels);
  Left high[8];
  Left low[8];
  const float* const pieces = triangle + piece_at(warp, 0) + lane * 4;
  RLX_UNROLL for (int j = 0; j < 8; ++j) {
    float4 a = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (j < 2 * warp + 2) a = *reinterpret_cast<const float4*>(pieces + j * 128);
    high[j] = {{high_part(a.x), high_part(a.y), high_part(a.z), high_part(a.w)}};
    low[j] = {{low_part(a.x), low_part(a.y), low_part(a.z), low_part(a.w)}};
  }
  begin_products(high);
  begin_products(low);
  RLX_UNROLL for (int j = 0; j < 8; ++j) rlx_wgmma_tf32_tiles<SumOf<kExact>::kTiles>(sum.parts, high[j].values, right_at(right, j), j > 0);
  RLX_UNROLL for (int j = 0; j < 8; ++j) rlx_wgmma_tf32_tiles<2>(sum.parts, low[j].values, right_at(right, j), true);
  finish_products(sum);
}

RLX_FN void load_values(float (&v)[8], const Stage& stage, int warp, int lane) {
  RLX_UNROLL for (int e = 0; e < 8; e += 2) {
    const float2 pair = values_of(stage, row_of(warp, lane, e), column_of(lane, e));
    v[e] = pair.x;
    v[e + 1] = pair.y;
  }
}

// The warpgroup that takes S from chunk to chunk.
RLX_FN void walk(const RlxParams& p, const Place& place, int warp, int lane) {
  const rlx_u32 own = rlx_shared_address(own_memory());
  const auto has_keys = [&](int half) { return half * 64 + warp * 16 < RLX_KEYS; };
  const auto key_of = [&](int half, int e) { return half * 64 + row_of(warp, lane, e); };
  float s[kHalves][8];
  const auto publish = [&] {
    RLX_UNROLL for (int half = 0; half < kHalves; ++half) {
      if (has_keys(half)) store_parts<false>(own + kState + rlx_u32(half * 2 * kPanelBytes), s[half], warp, lane);
    }
    group_barrier();
    arrive_warp(has_state, lane);
  };
  RLX_UNROLL for (int half = 0; half < kHalves; ++half) {
    RLX_UNROLL for (int e = 0; e < 8; ++e) s[half][e] = has_keys(half) ? first_state(p, place, key_of(half, e), column_of(lane, e)) : 0.0f;
  }
  publish();

  RLX_LOOP for (int chunk = 0; chunk < RLX_CHUNKS; ++chunk) {
    const Stage stage = stage_of(chunk);
    wait_full(chunk);
    float d[8];
    load_values(d, stage, warp, lane);
#if RLX_DELTA
    Sum sum;
    multiply_rows(sum, stage.keys, own + kState, warp, lane);
    RLX_UNROLL for (int e = 0; e < 8; ++e) d[e] -= stage.record[kGates + row_of(warp, lane, e)] * sum.of(e);
    store_parts<false>(own + kMissing, d, warp, lane);
    group_barrier();
    multiply_triangle(sum, stage.record + kTriangle, own + kMissing, warp, lane);
    RLX_UNROLL for (int e = 0; e < 8; ++e) d[e] = sum.of(e);
#endif
    float faded[8];
    RLX_UNROLL for (int e = 0; e < 8; ++e) faded[e] = d[e] * stage.record[kGates + kSteps + row_of(warp, lane, e)];
    store_parts<false>(own + kFaded, faded, warp, lane);
    if (chunk > 0) wait_turn(read_taken, chunk - 1);
    store_parts<!RLX_DELTA>(own + kTaken, d, warp, lane);

    // Keys by steps, in rows of 16 keys; those beyond are others again, whose sums nobody reads.
    Left a[kHalves][8];
    RLX_UNROLL for (int half = 0; half < kHalves; ++half) {
      const int key = min(half * 64 + warp * 16, RLX_KEYS - 16) + lane / 8 % 2 * 8;
      RLX_UNROLL for (int j = 0; j < 8; j += 2) {
        rlx_u32 words[4];
        rlx_load_tiles4_transposed(words, stage.keys + rlx_u32((j * 8 + lane / 16 * 8 + lane % 8) * kRowBytes + key * 2));
        a[half][j] = left_of(words[0], words[1]);
        a[half][j + 1] = left_of(words[2], words[3]);
      }
    }
    const float total = stage.record[kGates + 2 * kSteps];
    group_barrier();
    Sum added[kHalves];
    const rlx_u64 right = rlx_panel_descriptor(own + kFaded);
    RLX_UNROLL for (int half = 0; half < kHalves; ++half) begin_products(a[half]);
    RLX_UNROLL for (int j = 0; j < 8; ++j) {
      RLX_UNROLL for (int half = 0; half < kHalves; ++half)
        rlx_wgmma_tf32_tiles<4>(added[half].parts, a[half][j].values, right_at(right, j), j > 0);
    }
    rlx_wgmma_commit();
    arrive_warp(empty[chunk % kStages], lane);
    arrive_warp(has_taken, lane);
    rlx_wgmma_wait<0>();
    RLX_UNROLL for (int half = 0; half < kHalves; ++half) {
      settle(added[half]);
      RLX_UNROLL for (int e = 0; e < 8; ++e) s[half][e] = total * s[half][e] + added[half].of(e);
    }
    wait_turn(read_state, chunk);
    publish();
  }
  RLX_UNROLL for (int half = 0; half < kHalves; ++half) {
    RLX_UNROLL for (int e = 0; e < 8; ++e) {
      if (has_keys(half)) store_state(p, place, key_of(half, e), column_of(lane, e), s[half][e]);
    }
  }
}

// The warpgroup that finds the results.
RLX_FN void read_out(const RlxParams& p, const Place& place, int warp, int lane) {
  const rlx_u32 own = rlx_shared_address(own_memory());
  RLX_LOOP for (int chunk = 0; chunk < RLX_CHUNKS; ++chunk) {
    const Stage stage = stage_of(chunk);
    wait_full(chunk);
    float v[8] = {};
    if (RLX_HAS_D) load_values(v, stage, warp, lane);
    wait_turn(has_state, chunk);
    Sum sum;
    multiply_rows(sum, stage.queries, own + kState, warp, lane);
    arrive_warp(read_state, lane);
    float y[8];
    RLX_UNROLL for (int e = 0; e < 8; ++e) y[e] = sum.of(e) * (RLX_SCALE * stage.record[kGates + row_of(warp, lane, e)]);
    wait_turn(has_taken, chunk);
    SumOf<!RLX_DELTA> added;
    multiply_triangle(added, stage.record, own + kTaken, warp, lane);
    arrive_warp(read_taken, lane);
    arrive_warp(empty[chunk % kStages], lane);
    RLX_UNROLL for (int e = 0; e < 8; e += 2) {
      const float2 results = {y[e] + added.of(e), y[e + 1] + added.of(e + 1)};
      store_results(p, place, chunk * kSteps + row_of(warp, lane, e), column_of(lane, e), results, {v[e], v[e + 1]});
    }
  }
}

#endif
