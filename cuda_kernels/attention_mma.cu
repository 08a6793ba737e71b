// SPDX-License-Identifier: Apache-2.0
// attention on tensor cores: y = sum over allowed keys of softmax(s) * v, s = softcap(scale * q . k) + bias; lse = log of the
// sum of exp(s), to which a head's sink adds exp(sink). The scores stay in registers: a running maximum and sum per row are carried over steps of keys.
// Layout: q [B,H,Sq,D], k [B,G,Sk,D], v [B,G,Sk,Dv], y [B,H,Sq,Dv] by strides, rows contiguous and at multiples of 16 bytes; lse
//   [B,H,Sq] dense; mask and bias [B,H,Sq,Sk] by strides. Query head h reads kv head h / RLX_HEADS_PER_KV.
// Rows: RLX_FOLD query heads of one kv head share a tile: row r is query r / RLX_FOLD of head `first + r % RLX_FOLD`.
// Grid: x: RLX_SPLITS workgroups that share the keys (a cluster) for each group of RLX_FOLD heads; y: batch; z: tiles of rows in the
//   order RLX_TILE_OF(z). A workgroup has RLX_WARPS_Q x RLX_WARPS_K warps (keys fastest) of 16 * RLX_M_TILES rows each; they and
//   the workgroups of a cluster take the steps of RLX_STEP_KEYS keys in turn. What the warps along the keys and the workgroups of a cluster found is joined at
//   the end, in fixed order, through shared memory. Below sm_90 the first workgroup of each would-be cluster does all of it.
// Forms: RLX_STAGED 0: every warp reads its keys and values straight into registers (few tiles: latency counts).
//   RLX_STAGED n: tiles of keys and values shared by the warps go through n stages of shared memory.
// Specializations: RLX_X storage type of q, k, v, y: f16, bf16 or f32; RLX_TERMS of an f32 product: 3 (tf32 of the high and low
//   parts: as accurate as f32) or 1 (tf32); RLX_D, RLX_DV (whole multiples of 16 bytes, at most 256 elements), RLX_SQ, RLX_SK,
//   RLX_HEADS, RLX_HEADS_PER_KV; storage types RLX_MASK, RLX_BIAS, RLX_KV_LEN, RLX_Q_START; RLX_HAS_MASK, RLX_HAS_BIAS,
//   RLX_BIAS_PAIRS 1: two keys' bias is one aligned access;
//   RLX_HAS_KV_LEN, RLX_HAS_Q_START, RLX_HAS_LSE; RLX_KV_LEN_STRIDE, RLX_Q_START_STRIDE (0: scalar); RLX_HAS_SINKS, RLX_SINKS
//   (storage type), RLX_SINKS_STRIDE; RLX_CAUSAL, RLX_ALIGN_END,
//   RLX_WINDOW_LEFT, RLX_WINDOW_RIGHT (-1: none); RLX_SQ, RLX_SK, the batch and strides may be free sizes, RLX_MOST_SQ is the largest
//   RLX_SQ; RLX_PREFETCH: k and v stood before the run, or only few rows of them did not:
//   they are fetched into L2 before the predecessors are complete; RLX_EARLY_POSITIONS: kv_len and q_start stood before the run and
//   may be read before that, too.
// generated/attention_mma.inc: RLX_INDEX, the strides RLX_{Q,K,V,Y,MASK,BIAS}_{B,H,S,K}, RLX_TILE_OF(z), RLX_ATTENDS(mask value),
//   RLX_SCORE(s) of the product s, and RLX_EXPONENT > 0: a score's weight is 2^(RLX_EXPONENT * score).
// Numerics: products of 16-bit values summed in f32; weights rounded to the storage type for the product with v, their sum not.
//   f32 by 3xTF32 with sums rounded to nearest (an infinite operand gives NaN). A disallowed key has weight 0 and contributes nothing
//   even where its v is NaN. A query without keys gives 0 and lse -inf; a NaN score gives NaN.
// ptxas: spills because heads of 256 with a mask need more registers than a thread can have: 112 bytes on sm_90 for values of 200.
//   No other case of the conformance table spills, on any architecture. This line also hides any later spill of this kernel.
#include "lib/prelude.inc"
#include "lib/storage.inc"
#include "lib/math.inc"
#include "lib/wgmma_rows.cuh"
#include "generated/attention_mma.inc"
#include "lib/attention_mma.cuh"
#include "lib/attention_join.cuh"

RLX_PARAMS(AttentionParams);

// Of 16 bits successors start when the steps before are complete: BERT-base b1 s16 on an H200 0.180 ms, against 0.188 at the end of
// this one. f32 gains by the early start.
#undef RLX_RELEASES_EARLY
#define RLX_RELEASES_EARLY (RLX_CAT(rlx_bytes_, RLX_X) > 2)

#if RLX_SPLITS > 1
RLX_CLUSTER(RLX_SPLITS);
#endif
RLX_DYNAMIC_SHARED(kSharedBytes);

// ---- keys and values ----

#if RLX_STAGED
// What a thread copies of every tile: piece `piece` of each panel, rows `row`, row + kRowsAtOnce, ...
struct Stager {
  rlx_ptr k;  // of the next tile
  rlx_ptr v;
  int row;
  int piece;
};
constexpr int kRowsAtOnce = RLX_BLOCK_SIZE / 8;
static_assert(kNTiles % 2 == 0);
static_assert(RLX_BLOCK_SIZE % 64 == 0 && (kTileKeys % kRowsAtOnce == 0 || kTileKeys < kRowsAtOnce));

RLX_FN Stager stager_of(const RlxParams& p, const Place& at, int first_key) {
  const int row = int(rlx_local_index) / 8;
  const int piece = int(rlx_local_index) % 8;
  return {k_row(p, at, first_key + row) + piece * 16, v_row(p, at, first_key + row) + piece * 16, row, piece};
}

// Copies a tile's rows, the first kRowBytes of each, zeros behind them and behind the `count` rows that there are.
template <int kPieces, int kRowBytes, bool kWhole>
RLX_FN void copy_rows(rlx_u32 panels, const Stager& stager, rlx_ptr from, rlx_i64 row_bytes, int count) {
  const rlx_u32 to = panels + rlx_panel_piece(stager.row, stager.piece);
  const rlx_ptr tile = from - rlx_ptr(stager.row * row_bytes + stager.piece * 16);
  RLX_UNROLL for (int panel = 0; panel * 8 < kPieces; ++panel) {
    if (kPieces - panel * 8 < 8 && panel * 8 + stager.piece >= kPieces) break;
    const bool in_row = kRowBytes - panel * 128 >= 128 || panel * 128 + stager.piece * 16 < kRowBytes;
    RLX_UNROLL for (int i = 0; i < kTileKeys; i += kRowsAtOnce) {
      if (kTileKeys < kRowsAtOnce && stager.row >= kTileKeys) break;
      const rlx_u32 shared = to + panel * kPanelBytes + i * 128;
      const rlx_ptr address = from + rlx_ptr(i * row_bytes + panel * 128);
      if (kWhole && kRowBytes - panel * 128 >= 128) {
        rlx_copy16_async(shared, address);
      } else {
        const bool inside = in_row && (kWhole || stager.row + i < count);
        rlx_copy16_async(shared, inside ? address : tile, inside ? 16u : 0u);
      }
    }
  }
}

template <bool kWhole>
RLX_FN void copy_tile(rlx_u32 stage, const Stager& stager, int count) {
  copy_rows<kKeyPieces, RLX_D * kBytes, kWhole>(stage, stager, stager.k, rlx_i64(RLX_K_S) * kBytes, count);
  copy_rows<kValuePieces, RLX_DV * kBytes, kWhole>(stage + kKeyPanels * kPanelBytes, stager, stager.v,
                                                   rlx_i64(RLX_V_S) * kBytes, count);
}

// Copies the next tile, of whose keys `count` are there, into a stage.
RLX_FN void stage_tile(Stager& stager, rlx_u32 stage, int count) {
  if (count >= kTileKeys) {
    copy_tile<true>(stage, stager, kTileKeys);
  } else if (count > 0) {
    copy_tile<false>(stage, stager, count);
  }
  stager.k += rlx_ptr(rlx_i64(kTileKeys * kSplits) * (rlx_i64(RLX_K_S) * kBytes));
  stager.v += rlx_ptr(rlx_i64(kTileKeys * kSplits) * (rlx_i64(RLX_V_S) * kBytes));
  rlx_commit_copies();
}

// The step's products of q and k; `keys` is the shared address of its first key.
RLX_FN void staged_scores(float (&s)[kMTiles][kNTiles][4], Queries& q, rlx_u32 keys) {
  const rlx_u32 lane = rlx_lane_of_warp;
  RLX_UNROLL for (int c = 0; c < 2 * kChunks; ++c) {
    Right k[kNTiles];
    const rlx_u32 row = keys + c / 4 * kPanelBytes + rlx_panel_piece(lane / 16 * 8 + lane % 8, c % 4 * 2 + lane / 8 % 2);
    RLX_UNROLL for (int n = 0; n < kNTiles; n += 2) {
      rlx_u32 r[4];
      rlx_load_tiles4(r, row + 8 * n * 128);
      k[n] = right_of(r[0], r[1]);
      k[n + 1] = right_of(r[2], r[3]);
    }
    RLX_UNROLL for (int m = 0; m < kMTiles; ++m) multiply_add<kNTiles>(s[m], q.of(m, c), k);
  }
}

// Right operands of the product of weights and values, depth step kk, result tiles from `first` on.
RLX_FN void staged_values(rlx_u32 (&b)[kGroup][2], rlx_u32 values, int kk, int first) {
  const rlx_u32 lane = rlx_lane_of_warp;
#if RLX_HALF
  RLX_UNROLL for (int j = 0; j < kGroup; j += 2) {
    rlx_u32 r[4];
    const rlx_u32 rows = values + (first + j) / 8 * kPanelBytes + 16 * kk * 128;
    rlx_load_tiles4_transposed(r, rows + rlx_panel_piece(lane % 16, (first + j) % 8 + lane / 16));
    b[j][0] = r[0];
    b[j][1] = r[1];
    b[j + 1][0] = r[2];
    b[j + 1][1] = r[3];
  }
#else
  RLX_UNROLL for (int u = 0; u < kGroup / 4; ++u) {
    rlx_u32 even[4], odd[4];
    const rlx_u32 rows = values + (first / 4 + u) * kPanelBytes + 8 * kk * 128;
    rlx_shared_load4(even, rows + rlx_panel_piece(2 * (lane % 4), lane / 4));
    rlx_shared_load4(odd, rows + rlx_panel_piece(2 * (lane % 4) + 1, lane / 4));
    RLX_UNROLL for (int e = 0; e < 4; ++e) {
      b[4 * u + e][0] = even[e];
      b[4 * u + e][1] = odd[e];
    }
  }
#endif
}

#if RLX_HAS_WGMMA
// The same products by the warpgroup, straight from the panels.
RLX_FN void warpgroup_scores(float (&s)[kNTiles][4], Queries& q, rlx_u32 keys) {
  rlx_wgmma_fence();
  RLX_UNROLL for (int c = 0; c < 2 * kChunks; ++c) {
    const rlx_u32 panel = keys + c / 4 * kPanelBytes + c % 4 * 32;
    rlx_wgmma_rows<kNTiles, false, kBf16>(s, q.of(0, c).high, [&](int tile) { return rlx_panel_descriptor(panel + tile * 1024); }, c > 0);
  }
  rlx_wgmma_commit();
  rlx_wgmma_wait<0>();
}
RLX_FN void warpgroup_values(float (&out)[kOutTiles][4], const Weights& weights, rlx_u32 values) {
  rlx_wgmma_fence();
  RLX_UNROLL for (int kk = 0; kk < kDepthSteps; ++kk) {
    const rlx_u32 rows = values + kk * 16 * 128;
    const auto columns = [&](int tile) { return rlx_panel_descriptor(rows + tile / 8 * kPanelBytes + tile % 8 * 16); };
    rlx_wgmma_rows<kOutTiles, true, kBf16>(out, weights.of(0, kk).high, columns, true);
  }
  rlx_wgmma_commit();
  rlx_wgmma_wait<0>();
}
#endif
#else
// One step's keys and values of a thread, as they come from memory: 16 bytes of the key rows 8n + g; kVector elements of the value
// rows that the thread's depth indices name.
struct Loaded {
  rlx_u32 k[kNTiles][kChunks][4];
  rlx_u32 v[kDepthSteps][kDepthRows][kVectors][kVectorWords];
};

RLX_FN void load_step(Loaded& loaded, const RlxParams& p, const Place& at, int first_key) {
  const int g = rlx_lane_of_warp / 4;
  const int t = rlx_lane_of_warp % 4;
  const rlx_ptr k = k_row(p, at, first_key + g) + 16 * t;
  const rlx_ptr v = v_row(p, at, first_key + 2 * t) + g * kVector * kBytes;
  RLX_UNROLL for (int n = 0; n < kNTiles; ++n) {
    RLX_UNROLL for (int c = 0; c < kChunks; ++c) {
      const bool inside = first_key + 8 * n + g < at.end && 64 * c + 16 * t < RLX_D * kBytes;
      load_words(loaded.k[n][c], k + rlx_i64(8 * n) * (rlx_i64(RLX_K_S) * kBytes) + 64 * c, inside);
    }
  }
  RLX_UNROLL for (int kk = 0; kk < kDepthSteps; ++kk) {
    RLX_UNROLL for (int r = 0; r < kDepthRows; ++r) {
      const int row = kDepth * kk + r % 2 + r / 2 * 8;
      RLX_UNROLL for (int u = 0; u < kVectors; ++u) {
        const bool inside = first_key + 2 * t + row < at.end && (8 * u + g) * kVector < RLX_DV;
        load_words(loaded.v[kk][r][u], v + rlx_i64(row) * (rlx_i64(RLX_V_S) * kBytes) + 8 * u * kVector * kBytes, inside);
      }
    }
  }
}

RLX_FN void loaded_scores(float (&s)[kMTiles][kNTiles][4], Queries& q, const Loaded& loaded) {
  RLX_UNROLL for (int c = 0; c < 2 * kChunks; ++c) {
    Right k[kNTiles];
    RLX_UNROLL for (int n = 0; n < kNTiles; ++n) {
      k[n] = right_of(loaded.k[n][c / 2][c % 2 * 2], loaded.k[n][c / 2][c % 2 * 2 + 1]);
    }
    RLX_UNROLL for (int m = 0; m < kMTiles; ++m) multiply_add<kNTiles>(s[m], q.of(m, c), k);
  }
}

RLX_FN void loaded_values(rlx_u32 (&b)[kGroup][2], const Loaded& loaded, int kk, int first) {
  RLX_UNROLL for (int j = 0; j < kGroup; ++j) {
    const int u = (first + j) / kVector;
    const int e = (first + j) % kVector;
    RLX_UNROLL for (int i = 0; i < 2; ++i) {
#if RLX_HALF
      const rlx_u32 pick = e % 2 == 0 ? 0x5410u : 0x7632u;  // low or high halves of two words
      b[j][i] = __byte_perm(loaded.v[kk][2 * i][u][e / 2], loaded.v[kk][2 * i + 1][u][e / 2], pick);
#else
      b[j][i] = loaded.v[kk][i][u][e];
#endif
    }
  }
}
#endif

// ---- the kernel ----

#if RLX_PREFETCH
// Asks for the rows that this warp's first step will read. A hint: what kv_len says before the wait may be an older value.
RLX_FN void prefetch_first_step(const RlxParams& p, Place at, int slot) {
#if RLX_HAS_KV_LEN
  const int key_count = min(max(int(load_past_l1(p.kv_len + at.batch * RLX_KV_LEN_STRIDE * kKvLenBytes)), 0), RLX_SK);
#else
  const int key_count = RLX_SK;
#endif
  find_keys(at, key_count, RLX_ALIGN_END ? key_count - RLX_SQ : 0);
  const int key = at.begin + slot * RLX_STEP_KEYS + int(rlx_lane_of_warp);
  if (rlx_lane_of_warp >= RLX_STEP_KEYS || key >= at.end) return;
  prefetch_row(k_row(p, at, key), RLX_D * kBytes);
  prefetch_row(v_row(p, at, key), RLX_DV * kBytes);
}
#endif

RLX_MAIN_PREFETCH {
  const int warp_k = rlx_warp % RLX_WARPS_K;
  const int warp_q = rlx_warp / RLX_WARPS_K;
  const int split = rlx_group_x % RLX_SPLITS;
  if (split >= kSplits) return;
  if (kSplits > 1) enter_cluster();
  Place at;
  at.batch = RLX_INDEX(rlx_group_y);
  at.head = int(rlx_group_x / RLX_SPLITS) * RLX_FOLD;
  at.first_row = RLX_TILE_OF(int(rlx_group_z)) * kTileRows;
#if RLX_PREFETCH
  prefetch_first_step(p, at, warp_k * RLX_SPLITS + split);
#endif
#if RLX_EARLY_POSITIONS
  read_positions(p, at);
#endif
  rlx_wait_for_predecessors();
  if (!RLX_RELEASES_EARLY) rlx_release_successors();
#if !RLX_EARLY_POSITIONS
  read_positions(p, at);
#endif

  // Steps of one warp each, dealt to the workgroups first; through shared memory tiles of all warps.
  constexpr int kUnitKeys = RLX_STAGED ? kTileKeys : RLX_STEP_KEYS;
  constexpr int kStride = RLX_STAGED ? kSplits : kSplits * RLX_WARPS_K;
  const int units = (at.end - at.begin + kUnitKeys - 1) / kUnitKeys;
  const int first_row = at.first_row + warp_q * 16 * kMTiles;
  const int unit_row = at.first_row + warp_q * 16 * kMTiles / kUnitRows * kUnitRows;
#if RLX_STAGED
  const rlx_u32 stages = (rlx_shared_address(rlx_shared) + 1023u) & ~1023u;
  Stager stager = stager_of(p, at, at.begin + split * kTileKeys);
  RLX_UNROLL for (int i = 0; i < RLX_STAGED - 1; ++i) {
    stage_tile(stager, stages + i * kStageBytes, at.end - at.begin - (split + i * kSplits) * kTileKeys);
  }
#endif
  Queries q(p, at, first_row);
  Rows rows;
  clear(rows);

  [[maybe_unused]] rlx_u32 stage = 0;
  RLX_LOOP for (int unit = RLX_STAGED ? split : warp_k * kSplits + split; unit < units; unit += kStride) {
    const int first_key = at.begin + unit * kUnitKeys + (RLX_STAGED ? warp_k * RLX_STEP_KEYS : 0);
#if RLX_STAGED
    rlx_wait_copies<RLX_STAGED - 2>();
    if constexpr (kWarpgroups) rlx_fence_async_shared();
    rlx_barrier();
    stage_tile(stager, stages + (stage == 0 ? RLX_STAGED - 1 : stage - 1) * kStageBytes,
               at.end - at.begin - (unit + (RLX_STAGED - 1) * kSplits) * kTileKeys);
    const rlx_u32 keys = stages + stage * kStageBytes + warp_k * RLX_STEP_KEYS * 128;
    const rlx_u32 values = keys + kKeyPanels * kPanelBytes;
    stage = stage == RLX_STAGED - 1 ? 0 : stage + 1;
#endif
    if (all_disallowed(at, unit_row, first_key)) continue;
    const bool partial = some_disallowed(at, unit_row, first_key);
    const ScoreFacts facts(p, at, first_row, first_key);
    float s[kMTiles][kNTiles][4];
    if constexpr (!kWarpgroups) clear(s);
#if RLX_STAGED
#if RLX_HAS_WGMMA
    if constexpr (kWarpgroups) warpgroup_scores(s[0], q, keys);
#endif
    if constexpr (!kWarpgroups) staged_scores(s, q, keys);
    const auto read_values = [&](rlx_u32(&b)[kGroup][2], int kk, int first) { staged_values(b, values, kk, first); };
#else
    Loaded loaded;
    load_step(loaded, p, at, first_key);
    loaded_scores(s, q, loaded);
    const auto read_values = [&](rlx_u32(&b)[kGroup][2], int kk, int first) { loaded_values(b, loaded, kk, first); };
#endif
    finish_scores(s, facts, at, first_row, first_key, partial);
    weigh(rows, s);
    const Weights weights(s);
    if (RLX_SELECTIVE && partial && accumulate_around_nonfinite(rows, weights, read_values, p, at, first_row, first_key)) continue;
#if RLX_STAGED && RLX_HAS_WGMMA
    if constexpr (kWarpgroups) warpgroup_values(rows.out[0], weights, values);
#endif
    if constexpr (!kWarpgroups) accumulate(rows, weights, read_values);
  }

  if constexpr (RLX_WARPS_K == 1 && kSplits == 1) {
    write_rows(p, at, rows, warp_q);
    return;
  }
#if RLX_STAGED
  rlx_wait_copies<0>();
  rlx_barrier();  // the stages become the place where the warps' results meet
#endif
  float* const joined = reinterpret_cast<float*>(rlx_shared);
  [[maybe_unused]] unsigned char* const received = rlx_shared + kSharedBytes - kReceivedBytes;
  leave_rows(rows, joined, warp_q, warp_k);
  if (kSplits > 1) wait_for_cluster();  // all have started: their shared memory may be written
  rlx_barrier();
  join_warps(p, at, joined, rlx_shared_address(received), split);
  if (kSplits > 1) {
    enter_cluster();
    wait_for_cluster();
    join_workgroups(p, at, received, split);
  }
}
