// SPDX-License-Identifier: Apache-2.0
// Attention by lanes, for drivers that run subgroups as vectors of a CPU; the meaning is that of attention.kernel. The rows (query, head)
// that share a kv head are taken together: each of eight lanes has some for itself, and the lanes load keys and values for each other.
// Threads: eight. Thread l has RLX_R rows of the tile, l, l + 8 ..., whose queries and sums stay in registers.
// Grid: one group per (batch, kv head, tile of rows), row tiles fastest, spread by split_grid.
// Specializations: RLX_R, 2 or 4; RLX_TILE_KEYS: keys whose scores are kept at a time; RLX_GROUPS, RLX_ROW_TILES, RLX_KV_HEADS;
//   RLX_K_PAIRS, RLX_V_PAIRS: two elements at a time, of whole pairs; RLX_SELECTIVE: some key of a tile may be disallowed; and what
//   lib/attention.inc names, RLX_FLOAT8 and RLX_HAS_LSE as in attention.kernel.
// Phases, a tile of keys at a time: scores, which pass through shared memory, each thread's own; then what was summed is brought to the
//   maximum and the values are added, key by key. A load costs as much as tens of products there (shaders/README.md), and is used by all rows.
// Numerics: f32, depth by depth and key by key; as in attention.kernel otherwise.
#include "lib/prelude.inc"
#include "lib/storage.inc"
#include "lib/math.inc"
#ifdef RLX_FLOAT8
#include "lib/float8_elements.inc"
#endif
#include "generated/attention.inc"
#include "lib/attention.inc"
#include "lib/lane_loads.glsl"

RLX_PARAMS(AttentionParams);

#define RLX_LANES 8
#define RLX_TILE_ROWS (RLX_R * RLX_LANES)
#define RLX_HEAD_ROWS (RLX_HEADS_PER_KV * RLX_SQ)  // of a kv head
#define RLX_PAIRS(size) (((size) + 1) / 2)
#define RLX_PIECES(size) ((RLX_PAIRS(size) + RLX_LANES - 1) / RLX_LANES)

// Elements d and d + 1 of a row, 0 behind its end; d may lie behind it.
#define RLX_PAIR_FN_1(name, dtype, size)                                                                  \
  RLX_FN rlx_vec2 name(rlx_ptr base, RLX_INDEX at, int d) { return RLX_CAT(rlx_operand2_, dtype)(base, at + RLX_INDEX(min(d, (size) - 2))); }
#define RLX_PAIR_FN_0(name, dtype, size)                                                                  \
  RLX_FN rlx_vec2 name(rlx_ptr base, RLX_INDEX at, int d) {                                               \
    rlx_vec2 pair;                                                                                        \
    pair.x = RLX_CAT(rlx_load_, dtype)(base, at + RLX_INDEX(min(d, (size) - 1)));                         \
    pair.y = RLX_CAT(rlx_load_, dtype)(base, at + RLX_INDEX(min(d + 1, (size) - 1)));                     \
    if ((size) % 2 != 0) pair.y = d + 1 < (size) ? pair.y : 0.0;                                          \
    return pair;                                                                                          \
  }
RLX_CAT(RLX_PAIR_FN_, RLX_K_PAIRS)(load_k_pair, RLX_K, RLX_D)
RLX_CAT(RLX_PAIR_FN_, RLX_V_PAIRS)(load_v_pair, RLX_V, RLX_DV)

// A row that the lanes hold between them: lane l pair l of each piece, and where a subgroup has four lanes pair l + 4 besides.
#define RLX_SPREAD_FN(name, load_pair, size)                                                              \
  struct name##_row {                                                                                     \
    rlx_vec2 near[RLX_PIECES(size)];                                                                      \
    rlx_vec2 far[RLX_PIECES(size)];                                                                       \
  };                                                                                                      \
  RLX_FN name##_row name(rlx_ptr base, RLX_INDEX at) {                                                    \
    const int lane = int(gl_SubgroupInvocationID);                                                        \
    name##_row row;                                                                                       \
    RLX_UNROLL for (int n = 0; n < RLX_PIECES(size); ++n) {                                               \
      row.near[n] = load_pair(base, at, (n * RLX_LANES + lane) * 2);                                      \
      row.far[n] = row.near[n];                                                                           \
      if (rlx_subgroup_size < rlx_u32(RLX_LANES)) row.far[n] = load_pair(base, at, (n * RLX_LANES + lane + 4) * 2); \
    }                                                                                                     \
    return row;                                                                                           \
  }                                                                                                       \
  RLX_FN rlx_vec2 name##_pair(name##_row row, int pair) {                                                 \
    const rlx_u32 from = rlx_u32(pair % RLX_LANES);                                                       \
    const rlx_vec2 own = from < 4u ? row.near[pair / RLX_LANES] : row.far[pair / RLX_LANES];              \
    return subgroupShuffle(own, rlx_subgroup_size < rlx_u32(RLX_LANES) ? from % 4u : from);                 \
  }
RLX_SPREAD_FN(spread_k, load_k_pair, RLX_D)
RLX_SPREAD_FN(spread_v, load_v_pair, RLX_DV)

#define RLX_IN_FOURS(size) (((size) + 3) / 4 * 4)

// A value of each row of a thread.
#define rlx_rows RLX_CAT(rlx_vec, RLX_R)
#define rlx_flags RLX_CAT(bvec, RLX_R)
RLX_FN rlx_rows rlx_rows_of(RLX_IN_ARRAY(RLX_REAL, values, [RLX_R])) {
#if RLX_R == 4
  return rlx_vec4(values[0], values[1], values[2], values[3]);
#else
  return rlx_vec2(values[0], values[1]);
#endif
}

shared rlx_rows scores[RLX_TILE_KEYS * RLX_LANES];

RLX_MAIN {
  const RLX_INDEX group = RLX_INDEX(rlx_linear_group);
  if (group >= RLX_INDEX(RLX_GROUPS)) return;
  const int thread = int(gl_SubgroupID * rlx_subgroup_size + gl_SubgroupInvocationID);
  const int first_row = int(group % RLX_INDEX(RLX_ROW_TILES)) * RLX_TILE_ROWS;
  const int last_row = min(first_row + RLX_TILE_ROWS, RLX_HEAD_ROWS) - 1;
  const RLX_INDEX kv_head = group / RLX_INDEX(RLX_ROW_TILES) % RLX_INDEX(RLX_KV_HEADS);
  const RLX_INDEX batch = group / RLX_INDEX(RLX_ROW_TILES) / RLX_INDEX(RLX_KV_HEADS);
  const RLX_INDEX k_base = batch * RLX_K_B + kv_head * RLX_K_H;
  const RLX_INDEX v_base = batch * RLX_V_B + kv_head * RLX_V_H;

  // Keys that exist, the position of query 0, and the range of keys that some row of the tile may attend to.
  const int key_count = keys_held(p.kv_len, batch);
  const int position_0 = position_of_first(p.q_start, batch, key_count);
  const bool in_one_head = first_row / RLX_SQ == last_row / RLX_SQ;
  const int begin = first_key_of(position_0 + (in_one_head ? first_row % RLX_SQ : 0));
  const int end = end_of_keys(position_0 + (in_one_head ? last_row % RLX_SQ : RLX_SQ - 1), key_count);

  int query[RLX_R];
  RLX_INDEX head[RLX_R];
  RLX_INDEX q_row[RLX_R];
  RLX_UNROLL for (int i = 0; i < RLX_R; ++i) {
    const int row = min(first_row + i * RLX_LANES + thread, RLX_HEAD_ROWS - 1);
    query[i] = row % RLX_SQ;
    head[i] = kv_head * RLX_INDEX(RLX_HEADS_PER_KV) + RLX_INDEX(row / RLX_SQ);
    q_row[i] = batch * RLX_Q_B + head[i] * RLX_Q_H + RLX_INDEX(query[i]) * RLX_Q_S;
  }
  rlx_rows q[RLX_IN_FOURS(RLX_D)];
  RLX_UNROLL for (int n = 0; n < RLX_IN_FOURS(RLX_D) / 4; ++n) {
    rlx_vec4 four[RLX_R];
    RLX_UNROLL for (int i = 0; i < RLX_R; ++i) four[i] = load_q(p.q, q_row[i], n * 4);
    RLX_UNROLL for (int c = 0; c < 4; ++c) {
      RLX_REAL element[RLX_R];
      RLX_UNROLL for (int i = 0; i < RLX_R; ++i) element[i] = four[i][c];
      q[n * 4 + c] = rlx_rows_of(element);
    }
  }
  rlx_rows result[RLX_IN_FOURS(RLX_DV)];
  RLX_UNROLL for (int d = 0; d < RLX_IN_FOURS(RLX_DV); ++d) result[d] = rlx_rows(0.0);
  rlx_rows total = rlx_rows(0.0);
  RLX_REAL top[RLX_R];
  RLX_UNROLL for (int i = 0; i < RLX_R; ++i) top[i] = RLX_MINUS_INFINITY;

  RLX_LOOP for (int tile = begin; tile < end; tile += RLX_TILE_KEYS) {
    const int tile_end = min(tile + RLX_TILE_KEYS, end);
    RLX_REAL new_top[RLX_R];
    RLX_UNROLL for (int i = 0; i < RLX_R; ++i) new_top[i] = top[i];
    RLX_LOOP for (int key = tile; key < tile_end; ++key) {
      const spread_k_row k = spread_k(p.k, k_base + RLX_INDEX(key) * RLX_K_S);
      rlx_rows even = rlx_rows(0.0);
      rlx_rows odd = rlx_rows(0.0);
      RLX_UNROLL for (int j = 0; j < RLX_PAIRS(RLX_D); ++j) {
        const rlx_vec2 pair = spread_k_pair(k, j);
        even += pair.x * q[2 * j];
        odd += pair.y * q[2 * j + 1];
      }
      const rlx_rows product = even + odd;
      RLX_REAL s[RLX_R];
      RLX_UNROLL for (int i = 0; i < RLX_R; ++i) {
        s[i] = product[i];
        const bool allow = attends(p.mask, p.bias, batch, head[i], query[i], position_0 + query[i], key, s[i]);
        s[i] = allow ? s[i] : RLX_MINUS_INFINITY;
        new_top[i] = s[i] > new_top[i] ? s[i] : new_top[i];
      }
      scores[(key - tile) * RLX_LANES + thread] = rlx_rows_of(s);
    }
    RLX_REAL fall[RLX_R];
    RLX_UNROLL for (int i = 0; i < RLX_R; ++i) {
      fall[i] = relative(top[i], new_top[i]);
      top[i] = new_top[i];
    }
    const rlx_rows decay = rlx_rows_of(fall);
    total *= decay;
    RLX_UNROLL for (int d = 0; d < RLX_IN_FOURS(RLX_DV); ++d) result[d] *= decay;
    RLX_LOOP for (int key = tile; key < tile_end; ++key) {
      const spread_v_row v = spread_v(p.v, v_base + RLX_INDEX(key) * RLX_V_S);
      const rlx_rows score = scores[(key - tile) * RLX_LANES + thread];
      RLX_REAL w[RLX_R];
      RLX_UNROLL for (int i = 0; i < RLX_R; ++i) w[i] = relative(score[i], top[i]);
      const rlx_flags allowed = notEqual(score, rlx_rows(RLX_MINUS_INFINITY));
      const rlx_rows weight = mix(rlx_rows(0.0), rlx_rows_of(w), allowed);
      total += weight;
      RLX_UNROLL for (int j = 0; j < RLX_PAIRS(RLX_DV); ++j) {
        const rlx_vec2 pair = spread_v_pair(v, j);
        RLX_UNROLL for (int c = 0; c < 2; ++c) {
          const rlx_rows sum = result[2 * j + c] + pair[c] * weight;
#if RLX_SELECTIVE
          result[2 * j + c] = mix(result[2 * j + c], sum, allowed);
#else
          result[2 * j + c] = sum;
#endif
        }
      }
    }
  }

  RLX_REAL inverse[RLX_R];
  RLX_UNROLL for (int i = 0; i < RLX_R; ++i) {
    RLX_REAL share = RLX_REAL(1);
    RLX_REAL row_total = total[i];
    add_sink(p.sinks, head[i], top[i], row_total, share);
    const bool no_key = row_total == RLX_REAL(0);
    inverse[i] = no_key ? RLX_REAL(0) : share / row_total;
#if RLX_HAS_LSE
    if (first_row + i * RLX_LANES + thread < RLX_HEAD_ROWS) {
      rlx_store_f32(p.lse, (batch * RLX_INDEX(RLX_KV_HEADS * RLX_HEADS_PER_KV) + head[i]) * RLX_INDEX(RLX_SQ) + RLX_INDEX(query[i]),
                    no_key ? RLX_MINUS_INFINITY : top[i] + rlx_log(row_total));
    }
#endif
  }
  RLX_UNROLL for (int i = 0; i < RLX_R; ++i) {
    if (first_row + i * RLX_LANES + thread >= RLX_HEAD_ROWS) continue;
    const RLX_INDEX y_row = batch * RLX_Y_B + head[i] * RLX_Y_H + RLX_INDEX(query[i]) * RLX_Y_S;
    RLX_UNROLL for (int d = 0; d < RLX_IN_FOURS(RLX_DV); d += 4) {
      store_y(p.y, y_row, d, inverse[i] * rlx_vec4(result[d][i], result[d + 1][i], result[d + 2][i], result[d + 3][i]));
    }
  }
}
