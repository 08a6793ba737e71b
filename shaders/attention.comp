// SPDX-License-Identifier: Apache-2.0
// y = sum over allowed keys of softmax(s) * v, s = softcap(scale * q . k) + bias; lse = log of the sum of exp(s). The scores are
// never written to memory: a running maximum and sum per query are carried over tiles of keys.
// Layout: q [B,H,Sq,D], k [B,G,Sk,D], v [B,G,Sk,Dv], y [B,H,Sq,Dv] by strides with the last dim contiguous; lse [B,H,Sq] dense;
//   mask and bias [B,H,Sq,Sk] by strides. Query head h reads kv head h / RLX_HEADS_PER_KV.
// Threads: RLX_LANES (tx) x RLX_ROWS (ty). A thread owns RLX_RQ queries, four neighbouring keys of the tile (4 tx ...) and four
//   neighbouring columns (4 tx ...) of each of the RLX_NV column blocks of the result.
//   ty numbers queries; tiles of 4 * RLX_LANES keys are shared. attention_decode is for few queries.
// Grid: one group per (batch, head, tile of queries), query tiles fastest, spread by split_grid.
// Specializations: RLX_GROUPS, RLX_QUERY_TILES, RLX_HEADS, RLX_HEADS_PER_KV, RLX_SQ, RLX_SK, RLX_D, RLX_DV; RLX_D4 = ceil(RLX_D / 4);
//   RLX_DC4 pieces of four per staged chunk of D; RLX_KP pitch of a staged key (odd); RLX_STAGE pieces of the staging buffer;
//   RLX_Q_RESIDENT: the queries stay in shared memory, else they are staged with each chunk; storage types RLX_Q (of q and y), RLX_K,
//   RLX_V, RLX_MASK, RLX_BIAS, RLX_KV_LEN, RLX_Q_START; RLX_Q_WIDE, RLX_K_WIDE, RLX_V_WIDE, RLX_Y_WIDE: four elements at a time;
//   RLX_HAS_MASK, RLX_HAS_BIAS, RLX_HAS_KV_LEN, RLX_HAS_Q_START, RLX_HAS_LSE; RLX_KV_LEN_STRIDE, RLX_Q_START_STRIDE (0: scalar);
//   RLX_CAUSAL, RLX_ALIGN_END, RLX_WINDOW_LEFT, RLX_WINDOW_RIGHT (-1: none), RLX_SELECTIVE: some key of a tile may be disallowed;
//   RLX_FLOAT8 where RLX_K or RLX_V is an 8-bit float.
// generated/attention.inc: RLX_INDEX, the strides RLX_{Q,K,V,Y,MASK,BIAS}_{B,H,S,K}, RLX_SCALE, RLX_SOFTCAP(s), RLX_ATTENDS(mask value).
// Numerics: f32 throughout (f64 with RLX_DOUBLE 1: q, k, v or bias is f64), one rounding. A disallowed key has the weight -0, and
//   its v is never multiplied: it may be NaN. A query without keys gives 0 and lse -inf; a NaN score gives NaN.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "lib/math.glsl"
#if RLX_DOUBLE
#include "lib/math64.glsl"
#endif
#include "lib/reduce.glsl"
#ifdef RLX_FLOAT8
#include "lib/float8_elements.glsl"
#endif
#include "generated/attention.inc"
#include "lib/attention.glsl"

RLX_PARAMS(AttentionParams);

#define RLX_TILE_KEYS (4 * RLX_LANES)
#define RLX_TILE_QUERIES (RLX_RQ * RLX_ROWS)

RLX_SHARED rlx_real4 stage[RLX_STAGE];
#if RLX_Q_RESIDENT
RLX_SHARED rlx_real4 queries[RLX_TILE_QUERIES * RLX_D4];
#endif
RLX_SHARED rlx_real4 weights[RLX_RQ * RLX_ROWS * RLX_LANES];
RLX_SHARED rlx_u32 stage_with_nonfinite;

RLX_GROUP_REDUCE(row_max, RLX_REAL, RLX_COMBINE_GREATER)
RLX_GROUP_REDUCE(row_sum, RLX_REAL, RLX_COMBINE_SUM)

RLX_MAIN {
  const RLX_INDEX group = RLX_INDEX(rlx_linear_group);
  if (group >= RLX_INDEX(RLX_GROUPS)) return;
  const int thread = int(rlx_thread);
  const int tx = int(rlx_lane);
  const int ty = int(rlx_row);
  const int first_query = int(group % RLX_INDEX(RLX_QUERY_TILES)) * RLX_TILE_QUERIES;
  const RLX_INDEX head = group / RLX_INDEX(RLX_QUERY_TILES) % RLX_INDEX(RLX_HEADS);
  const RLX_INDEX batch = group / RLX_INDEX(RLX_QUERY_TILES) / RLX_INDEX(RLX_HEADS);
  const RLX_INDEX kv_head = head / RLX_INDEX(RLX_HEADS_PER_KV);
  const RLX_INDEX q_base = batch * RLX_Q_B + head * RLX_Q_H;
  const RLX_INDEX k_base = batch * RLX_K_B + kv_head * RLX_K_H;
  const RLX_INDEX v_base = batch * RLX_V_B + kv_head * RLX_V_H;

  // Keys that exist, the position of query 0, and the range of keys that some query of the tile may attend to.
  const int key_count = keys_held(p.kv_len, batch);
  const int position_0 = position_of_first(p.q_start, batch, key_count);
  const int last_query = min(first_query + RLX_TILE_QUERIES, RLX_SQ) - 1;
  const int begin = first_key_of(position_0 + first_query);
  const int end = end_of_keys(position_0 + last_query, key_count);

#if RLX_Q_RESIDENT
  for (int i = thread; i < RLX_TILE_QUERIES * RLX_D4; i += RLX_BLOCK_SIZE) {
    const int query = first_query + i / RLX_D4;
    queries[i] = zero4();
    if (query < RLX_SQ) queries[i] = load_q(p.q, q_base + RLX_INDEX(query) * RLX_Q_S, i % RLX_D4 * 4);
  }
#endif
  if (thread == 0) stage_with_nonfinite = 0u;
  rlx_u32 stage_number = 0u;

  RLX_REAL top[RLX_RQ];
  RLX_REAL total[RLX_RQ];
  rlx_real4 result[RLX_RQ * RLX_NV];
  RLX_UNROLL for (int i = 0; i < RLX_RQ; ++i) {
    top[i] = RLX_MINUS_INFINITY;
    total[i] = RLX_REAL(0);
  }
  RLX_UNROLL for (int i = 0; i < RLX_RQ * RLX_NV; ++i) result[i] = zero4();

  RLX_LOOP for (int tile = begin; tile < end; tile += RLX_TILE_KEYS) {
    // Scores.
    RLX_REAL score[RLX_RQ * 4];
    RLX_UNROLL for (int i = 0; i < RLX_RQ * 4; ++i) score[i] = RLX_REAL(0);
    RLX_LOOP for (int chunk = 0; chunk < RLX_D4; chunk += RLX_DC4) {
      rlx_barrier();
      // Key 4 a + b of the tile lies at row b * RLX_LANES + a, so that the lanes of a row read neighbouring rows.
      for (int i = thread; i < RLX_TILE_KEYS * RLX_DC4; i += RLX_BLOCK_SIZE) {
        const int staged = i / RLX_DC4;
        const int piece = i % RLX_DC4;
        const int row = staged % 4 * RLX_LANES + staged / 4;
        rlx_real4 four = zero4();
        if (tile + staged < end && chunk + piece < RLX_D4) {
          four = load_k(p.k, k_base + RLX_INDEX(tile + staged) * RLX_K_S, (chunk + piece) * 4);
        }
        stage[row * RLX_KP + piece] = four;
      }
#if !RLX_Q_RESIDENT
      for (int i = thread; i < RLX_TILE_QUERIES * RLX_DC4; i += RLX_BLOCK_SIZE) {
        const int query = first_query + i / RLX_DC4;
        const int piece = i % RLX_DC4;
        rlx_real4 four = zero4();
        if (query < RLX_SQ && chunk + piece < RLX_D4) {
          four = load_q(p.q, q_base + RLX_INDEX(query) * RLX_Q_S, (chunk + piece) * 4);
        }
        stage[RLX_TILE_KEYS * RLX_KP + i] = four;
      }
#endif
      rlx_barrier();
      RLX_UNROLL for (int piece = 0; piece < RLX_DC4; ++piece) {
        if (RLX_D4 % RLX_DC4 != 0 && chunk + piece >= RLX_D4) break;
        const rlx_real4 k0 = stage[tx * RLX_KP + piece];
        const rlx_real4 k1 = stage[(tx + RLX_LANES) * RLX_KP + piece];
        const rlx_real4 k2 = stage[(tx + RLX_LANES * 2) * RLX_KP + piece];
        const rlx_real4 k3 = stage[(tx + RLX_LANES * 3) * RLX_KP + piece];
        RLX_UNROLL for (int i = 0; i < RLX_RQ; ++i) {
          const int row = ty * RLX_RQ + i;
#if RLX_Q_RESIDENT
          const rlx_real4 q = queries[row * RLX_D4 + chunk + piece];
#else
          const rlx_real4 q = stage[RLX_TILE_KEYS * RLX_KP + row * RLX_DC4 + piece];
#endif
          score[4 * i] = dot_plus(q, k0, score[4 * i]);
          score[4 * i + 1] = dot_plus(q, k1, score[4 * i + 1]);
          score[4 * i + 2] = dot_plus(q, k2, score[4 * i + 2]);
          score[4 * i + 3] = dot_plus(q, k3, score[4 * i + 3]);
        }
      }
    }

    // Weights relative to the maximum so far; what was summed before is brought to it.
    RLX_UNROLL for (int i = 0; i < RLX_RQ; ++i) {
      const int query = first_query + ty * RLX_RQ + i;
      const int first_key = tile + 4 * tx;
      const int position = position_0 + query;
      bool allowed[4];
      RLX_REAL highest = RLX_MINUS_INFINITY;
      RLX_UNROLL for (int j = 0; j < 4; ++j) {
        const int key = first_key + j;
        RLX_REAL s = score[4 * i + j];
        const bool allow = key < end && query < RLX_SQ &&
                           attends(p.mask, p.bias, batch, head, query, position, key, s);
        allowed[j] = allow;
        score[4 * i + j] = s;
        if (allow && s > highest) highest = s;
      }
      const RLX_REAL new_top = max(top[i], row_max(highest));
      const RLX_REAL decay = relative(top[i], new_top);
      top[i] = new_top;
      RLX_UNROLL for (int j = 0; j < 4; ++j) {
        score[4 * i + j] = allowed[j] ? relative(score[4 * i + j], new_top) : RLX_DISALLOWED;
      }
      rlx_real4 four;
      four.x = score[4 * i];
      four.y = score[4 * i + 1];
      four.z = score[4 * i + 2];
      four.w = score[4 * i + 3];
      total[i] = total[i] * decay + ((four.x + four.y) + (four.z + four.w));
      RLX_UNROLL for (int n = 0; n < RLX_NV; ++n) {
        result[i * RLX_NV + n] = add_scaled(zero4(), decay, result[i * RLX_NV + n]);
      }
      weights[(ty * RLX_RQ + i) * RLX_LANES + tx] = four;
    }

    // Weighted sum of v.
    RLX_UNROLL for (int n = 0; n < RLX_NV; ++n) {
      const int column = (n * RLX_LANES + tx) * 4;
      rlx_barrier();
      ++stage_number;
      for (int i = thread; i < RLX_TILE_KEYS * RLX_LANES; i += RLX_BLOCK_SIZE) {
        const int key = tile + i / RLX_LANES;
        const int staged_column = (n * RLX_LANES + i % RLX_LANES) * 4;
        rlx_real4 four = zero4();
        if (key < end && staged_column < RLX_DV) {
          four = load_v(p.v, v_base + RLX_INDEX(key) * RLX_V_S, staged_column);
        }
        stage[i] = four;
#if RLX_SELECTIVE
        if (nonfinite4(four)) stage_with_nonfinite = stage_number;
#endif
      }
      rlx_barrier();
#if RLX_SELECTIVE
      if (stage_with_nonfinite == stage_number) {
        RLX_LOOP for (int k4 = 0; k4 < RLX_LANES; ++k4) {
          RLX_UNROLL for (int i = 0; i < RLX_RQ; ++i) {
            const rlx_real4 w = weights[(ty * RLX_RQ + i) * RLX_LANES + k4];
            rlx_real4 sum = result[i * RLX_NV + n];
            sum = add_allowed(sum, w.x, stage[(4 * k4) * RLX_LANES + tx]);
            sum = add_allowed(sum, w.y, stage[(4 * k4 + 1) * RLX_LANES + tx]);
            sum = add_allowed(sum, w.z, stage[(4 * k4 + 2) * RLX_LANES + tx]);
            result[i * RLX_NV + n] = add_allowed(sum, w.w, stage[(4 * k4 + 3) * RLX_LANES + tx]);
          }
        }
        continue;
      }
#endif
      RLX_UNROLL for (int k4 = 0; k4 < RLX_LANES; ++k4) {
        const rlx_real4 v0 = stage[(4 * k4) * RLX_LANES + tx];
        const rlx_real4 v1 = stage[(4 * k4 + 1) * RLX_LANES + tx];
        const rlx_real4 v2 = stage[(4 * k4 + 2) * RLX_LANES + tx];
        const rlx_real4 v3 = stage[(4 * k4 + 3) * RLX_LANES + tx];
        RLX_UNROLL for (int i = 0; i < RLX_RQ; ++i) {
          const rlx_real4 w = weights[(ty * RLX_RQ + i) * RLX_LANES + k4];
          rlx_real4 sum = result[i * RLX_NV + n];
          sum = add_scaled(sum, w.x, v0);
          sum = add_scaled(sum, w.y, v1);
          sum = add_scaled(sum, w.z, v2);
          result[i * RLX_NV + n] = add_scaled(sum, w.w, v3);
        }
      }
    }
  }

  RLX_UNROLL for (int i = 0; i < RLX_RQ; ++i) total[i] = row_sum(total[i]);

  // Result.
  RLX_UNROLL for (int i = 0; i < RLX_RQ; ++i) {
    const int query = first_query + ty * RLX_RQ + i;
    if (query >= RLX_SQ) continue;
    const bool no_key = total[i] == RLX_REAL(0);
    const RLX_REAL inverse = no_key ? RLX_REAL(0) : RLX_REAL(1) / total[i];
    const RLX_INDEX y_row = batch * RLX_Y_B + head * RLX_Y_H + RLX_INDEX(query) * RLX_Y_S;
    RLX_UNROLL for (int n = 0; n < RLX_NV; ++n) {
      const int column = (n * RLX_LANES + tx) * 4;
      const rlx_real4 four = add_scaled(zero4(), inverse, result[i * RLX_NV + n]);
      store_y(p.y, y_row, column, four);
    }
#if RLX_HAS_LSE
    if (tx == 0) {
      rlx_store_f32(p.lse, (batch * RLX_INDEX(RLX_HEADS) + head) * RLX_INDEX(RLX_SQ) + RLX_INDEX(query),
                    rlx_f32(no_key ? RLX_MINUS_INFINITY : top[i] + rlx_log(total[i])));
    }
#endif
  }
}
