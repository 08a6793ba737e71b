// SPDX-License-Identifier: Apache-2.0
// attention on tensor cores: y = sum over allowed keys of softmax(s) * v, s = softcap(scale * q . k) + bias; lse = log of the
// sum of exp(s). The scores stay in registers: a running maximum and sum per row are carried over steps of keys.
// Layout: q [B,H,Sq,D], k [B,G,Sk,D], v [B,G,Sk,Dv], y [B,H,Sq,Dv] by strides, rows contiguous and at multiples of 16 bytes; lse
//   [B,H,Sq] dense; mask and bias [B,H,Sq,Sk] by strides. Query head h reads kv head h / RLX_HEADS_PER_KV.
// Rows: RLX_FOLD query heads of one kv head share a tile: row r is query r / RLX_FOLD of head `first + r % RLX_FOLD`.
// Grid: x: RLX_SPLITS workgroups that share the keys (a cluster) for each group of RLX_FOLD heads; y: batch; z: tiles of rows in the
//   order RLX_TILE_OF(z). A workgroup has RLX_WARPS_Q x RLX_WARPS_K warps (keys fastest): 16 * RLX_M_TILES rows and every
//   RLX_WARPS_K-th step of RLX_STEP_KEYS keys each. What the warps along the keys and the workgroups of a cluster found is joined at
//   the end, in fixed order, through shared memory. Below sm_90 the first workgroup of each would-be cluster does all of it.
// Forms: RLX_STAGED 0: every warp reads its keys and values straight into registers (few tiles: latency counts).
//   RLX_STAGED n: tiles of keys and values shared by the warps go through n stages of shared memory.
// Specializations: RLX_X storage type of q, k, v, y: f16, bf16 or f32; RLX_TERMS of an f32 product: 3 (tf32 of the high and low
//   parts: as accurate as f32) or 1 (tf32); RLX_D, RLX_DV (whole multiples of 16 bytes, at most 256 elements), RLX_SQ, RLX_SK,
//   RLX_HEADS, RLX_HEADS_PER_KV; storage types RLX_MASK, RLX_BIAS, RLX_KV_LEN, RLX_Q_START; RLX_HAS_MASK, RLX_HAS_BIAS,
//   RLX_HAS_KV_LEN, RLX_HAS_Q_START, RLX_HAS_LSE; RLX_KV_LEN_STRIDE, RLX_Q_START_STRIDE (0: scalar); RLX_CAUSAL, RLX_ALIGN_END,
//   RLX_WINDOW_LEFT, RLX_WINDOW_RIGHT (-1: none); RLX_PREFETCH: k and v stood before the run, or only few rows of them did not:
//   they are fetched into L2 before the predecessors are complete.
// generated/attention_mma.inc: RLX_INDEX, the strides RLX_{Q,K,V,Y,MASK,BIAS}_{B,H,S,K}, RLX_TILE_OF(z), RLX_ATTENDS(mask value),
//   RLX_SCORE(s) of the product s, and RLX_EXPONENT > 0: a score's weight is 2^(RLX_EXPONENT * score).
// Numerics: products of 16-bit values summed in f32; weights rounded to the storage type for the product with v, their sum not.
//   f32 by 3xTF32 with sums rounded to nearest (an infinite operand gives NaN). A disallowed key has weight 0 and contributes nothing
//   even where its v is NaN. A query without keys gives 0 and lse -inf; a NaN score gives NaN.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/math.cuh"
#include "lib/mma.cuh"
#include "generated/attention_mma.inc"
#include "lib/attention_mma.cuh"

RLX_PARAMS(AttentionMmaParams);

#if RLX_SPLITS > 1
RLX_CLUSTER(RLX_SPLITS);
#endif
RLX_DYNAMIC_SHARED(kSharedBytes);

// ---- keys and values ----

#if RLX_STAGED
// Copies the keys and values of one tile, zeros behind the end.
RLX_FN void stage_tile(const RlxParams& p, const Place& at, int first_key, int stage) {
  if (first_key >= at.end) return;
  const rlx_u32 keys = rlx_shared_address(rlx_shared) + stage * kStageBytes;
  const rlx_u32 values = keys + kTileKeys * kKeyPitch;
  RLX_UNROLL for (int i = rlx_local_index; i < kTileKeys * kKeyUnits; i += RLX_BLOCK_SIZE) {
    const int row = i / kKeyUnits;
    const int unit = i % kKeyUnits;
    const bool inside = first_key + row < at.end && unit * 16 < RLX_D * kBytes;
    const RLX_INDEX element = inside ? RLX_INDEX(first_key + row) * RLX_K_S + RLX_INDEX(unit * (16 / kBytes)) : RLX_INDEX(0);
    rlx_copy16_async(keys + row * kKeyPitch + unit * 16, key_address(p, at, element), inside ? 16u : 0u);
  }
  RLX_UNROLL for (int i = rlx_local_index; i < kTileKeys * kValueUnits; i += RLX_BLOCK_SIZE) {
    const int row = i / kValueUnits;
    const int unit = i % kValueUnits;
    const bool inside = first_key + row < at.end && unit * 16 < RLX_DV * kBytes;
    const RLX_INDEX element = inside ? RLX_INDEX(first_key + row) * RLX_V_S + RLX_INDEX(unit * (16 / kBytes)) : RLX_INDEX(0);
    rlx_copy16_async(values + row * kValuePitch + unit * 16, value_address(p, at, element), inside ? 16u : 0u);
  }
}

// The step's products of q and k; `keys` is the shared address of its first key.
RLX_FN void staged_scores(float (&s)[kMTiles][kNTiles][4], const Left (&q)[kMTiles][2 * kChunks], rlx_u32 keys) {
  const rlx_u32 lane = rlx_lane_of_warp;
  RLX_UNROLL for (int n = 0; n < kNTiles; ++n) {
    RLX_UNROLL for (int c = 0; c < kChunks; ++c) {
      rlx_u32 k[4];
      rlx_load_tiles4(k, keys + (8 * n + lane % 8) * kKeyPitch + (4 * c + lane / 8) * 16);
      multiply_chunk(s, q, k, n, c);
    }
  }
}

// Right operands of the product of weights and values, depth step kk.
RLX_FN void staged_values(rlx_u32 (&b)[kOutTiles][2], rlx_u32 values, int kk) {
  const rlx_u32 lane = rlx_lane_of_warp;
#if RLX_HALF
  RLX_UNROLL for (int j = 0; j < kOutTiles; j += 2) {
    rlx_u32 r[4];
    rlx_load_tiles4_transposed(r, values + (16 * kk + lane % 16) * kValuePitch + (j + lane / 16) * 16);
    b[j][0] = r[0];
    b[j][1] = r[1];
    b[j + 1][0] = r[2];
    b[j + 1][1] = r[3];
  }
#else
  RLX_UNROLL for (int u = 0; u < kOutTiles / 4; ++u) {
    rlx_u32 even[4], odd[4];
    const rlx_u32 row = values + (8 * kk + 2 * (lane % 4)) * kValuePitch + (8 * u + lane / 4) * 16;
    rlx_shared_load4(even, row);
    rlx_shared_load4(odd, row + kValuePitch);
    RLX_UNROLL for (int e = 0; e < 4; ++e) {
      b[4 * u + e][0] = even[e];
      b[4 * u + e][1] = odd[e];
    }
  }
#endif
}
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
  RLX_UNROLL for (int n = 0; n < kNTiles; ++n) {
    const int key = first_key + 8 * n + g;
    RLX_UNROLL for (int c = 0; c < kChunks; ++c) {
      const int d = (16 * c + 4 * t) * kWordElements;
      const bool inside = key < at.end && d < RLX_D;
      load_words(loaded.k[n][c], key_address(p, at, RLX_INDEX(key) * RLX_K_S + RLX_INDEX(d)), inside);
    }
  }
  RLX_UNROLL for (int kk = 0; kk < kDepthSteps; ++kk) {
    RLX_UNROLL for (int r = 0; r < kDepthRows; ++r) {
      const int key = first_key + kDepth * kk + 2 * t + r % 2 + r / 2 * 8;
      RLX_UNROLL for (int u = 0; u < kVectors; ++u) {
        const int d = (8 * u + g) * kVector;
        const bool inside = key < at.end && d < RLX_DV;
        load_words(loaded.v[kk][r][u], value_address(p, at, RLX_INDEX(key) * RLX_V_S + RLX_INDEX(d)), inside);
      }
    }
  }
}

RLX_FN void loaded_scores(float (&s)[kMTiles][kNTiles][4], const Left (&q)[kMTiles][2 * kChunks], const Loaded& loaded) {
  RLX_UNROLL for (int n = 0; n < kNTiles; ++n) {
    RLX_UNROLL for (int c = 0; c < kChunks; ++c) multiply_chunk(s, q, loaded.k[n][c], n, c);
  }
}

RLX_FN void loaded_values(rlx_u32 (&b)[kOutTiles][2], const Loaded& loaded, int kk) {
  RLX_UNROLL for (int u = 0; u < kVectors; ++u) {
    RLX_UNROLL for (int e = 0; e < kVector; ++e) {
#if RLX_HALF
      const rlx_u32 pick = e % 2 == 0 ? 0x5410u : 0x7632u;  // low or high halves of two words
      RLX_UNROLL for (int i = 0; i < 2; ++i) {
        b[kVector * u + e][i] = __byte_perm(loaded.v[kk][2 * i][u][e / 2], loaded.v[kk][2 * i + 1][u][e / 2], pick);
      }
#else
      RLX_UNROLL for (int i = 0; i < 2; ++i) b[kVector * u + e][i] = loaded.v[kk][i][u][e];
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
  prefetch_row(key_address(p, at, RLX_INDEX(key) * RLX_K_S), RLX_D * kBytes);
  prefetch_row(value_address(p, at, RLX_INDEX(key) * RLX_V_S), RLX_DV * kBytes);
}
#endif

RLX_MAIN_PREFETCH {
  const int warp_k = rlx_warp % RLX_WARPS_K;
  const int warp_q = rlx_warp / RLX_WARPS_K;
  const int split = rlx_group_x % RLX_SPLITS;
  if (split >= kSplits) return;
  Place at;
  at.batch = RLX_INDEX(rlx_group_y);
  at.head = int(rlx_group_x / RLX_SPLITS) * RLX_FOLD;
  at.first_row = RLX_TILE_OF(int(rlx_group_z)) * kTileRows;
#if RLX_PREFETCH
  prefetch_first_step(p, at, split * RLX_WARPS_K + warp_k);
#endif
  rlx_wait_for_predecessors();
  read_positions(p, at);

  const int tiles = (at.end - at.begin + kTileKeys - 1) / kTileKeys;
  const int first_row = at.first_row + warp_q * 16 * kMTiles;
#if RLX_STAGED
  RLX_UNROLL for (int i = 0; i < RLX_STAGED - 1; ++i) {
    stage_tile(p, at, at.begin + (split + i * kSplits) * kTileKeys, i);
    rlx_commit_copies();
  }
#endif
  Left q[kMTiles][2 * kChunks];
  load_queries(q, p, at, first_row);
  Rows rows;
  clear(rows);

  int stage = 0;
  RLX_LOOP for (int tile = split; tile < tiles; tile += kSplits) {
    const int first_key = at.begin + tile * kTileKeys + warp_k * RLX_STEP_KEYS;
    const bool partial = some_disallowed(at, first_row, first_key);
    float s[kMTiles][kNTiles][4];
    RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
      RLX_UNROLL for (int n = 0; n < kNTiles; ++n) {
        RLX_UNROLL for (int i = 0; i < 4; ++i) s[m][n][i] = 0.0f;
      }
    }
#if RLX_STAGED
    rlx_wait_copies<RLX_STAGED - 2>();
    rlx_barrier();
    const int freed = stage == 0 ? RLX_STAGED - 1 : stage - 1;
    stage_tile(p, at, at.begin + (tile + (RLX_STAGED - 1) * kSplits) * kTileKeys, freed);
    rlx_commit_copies();
    const rlx_u32 keys = rlx_shared_address(rlx_shared) + stage * kStageBytes;
    const rlx_u32 values = keys + kTileKeys * kKeyPitch + warp_k * RLX_STEP_KEYS * kValuePitch;
    stage = stage == RLX_STAGED - 1 ? 0 : stage + 1;
    staged_scores(s, q, keys + warp_k * RLX_STEP_KEYS * kKeyPitch);
#else
    Loaded loaded;
    load_step(loaded, p, at, first_key);
    loaded_scores(s, q, loaded);
#endif
    finish_scores(s, p, at, first_row, first_key, partial);
    weigh(rows, s);
    RLX_UNROLL for (int kk = 0; kk < kDepthSteps; ++kk) {
      rlx_u32 b[kOutTiles][2];
#if RLX_STAGED
      staged_values(b, values, kk);
#else
      loaded_values(b, loaded, kk);
#endif
      accumulate(rows, s, b, kk, p, at, first_row, first_key, partial);
    }
  }

#if RLX_STAGED
  rlx_wait_copies<0>();
  rlx_barrier();  // the stages become the place where the warps' results meet
#endif
  float* const joined = reinterpret_cast<float*>(rlx_shared);
  leave_rows(rows, joined, warp_q, warp_k);
  rlx_barrier();
  join_warps(p, at, joined);
#if RLX_SPLITS > 1 && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  rlx_cluster_barrier();
  join_workgroups(p, at, joined, split);
  rlx_cluster_barrier();  // shared memory stays until all have read it
#endif
}
