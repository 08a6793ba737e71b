// SPDX-License-Identifier: Apache-2.0
// Attention of few queries over many keys, as in a decode step; the meaning is that of attention.cu. The rows (query, head) that
// share a kv head are taken together, RLX_R at a time, so that each key is read once for them.
// Threads: RLX_LANES (tx) x RLX_ROWS (ty). A team of RLX_LANES threads takes RLX_KU keys at a time, RLX_ROWS apart; thread tx holds
//   the pieces of four tx, tx + RLX_LANES ... of rows, keys and values. Teams meet at the end alone, in fixed order.
// Grid: RLX_MERGE 0: one group per (batch, kv head, tile of rows, split), splits fastest: each takes its share of the keys, and where
//   RLX_SPLITS > 1 leaves its sums in `partial`. RLX_MERGE 1: a team per row adds those up. Both spread by split_grid.
// Specializations: RLX_MERGE; RLX_GROUPS; RLX_SPLITS; RLX_KV_HEADS, RLX_HEADS_PER_KV; RLX_R, RLX_ROW_TILES; RLX_KP, RLX_VP pieces
//   of a thread; RLX_D4, RLX_DV4 pieces of a row; RLX_KU; RLX_MEETING: pieces of a thread that meet at a time; and what
//   lib/attention.cuh names, RLX_FLOAT8 and RLX_HAS_LSE as in attention.cu.
// partial: [batch, kv head, row, split, RLX_DV4 + 1] pieces; the last one holds maximum and sum.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/math.cuh"
#if RLX_DOUBLE
#include "lib/math64.cuh"
#endif
#include "lib/reduce.cuh"
#ifdef RLX_FLOAT8
#include "lib/float8_elements.cuh"
#endif
#include "generated/attention.inc"
#include "lib/attention.cuh"

RLX_PARAMS(AttentionDecodeParams);

// Rows of a kv head.
#define RLX_HEAD_ROWS (RLX_HEADS_PER_KV * RLX_SQ)

RLX_FN rlx_real4 zero_unless(bool taken, rlx_real4 four) {
  four.x = taken ? four.x : RLX_REAL(0);
  four.y = taken ? four.y : RLX_REAL(0);
  four.z = taken ? four.z : RLX_REAL(0);
  four.w = taken ? four.w : RLX_REAL(0);
  return four;
}

// Piece `piece` of split `split` of a row, the row being numbered over batches and kv heads.
RLX_FN rlx_i64 partial_at(RLX_INDEX row, int split, int piece) {
  return ((rlx_i64(row) * RLX_SPLITS + split) * (RLX_DV4 + 1) + piece) * 4;
}

RLX_FN void put_partial(rlx_ptr base, rlx_i64 at, rlx_real4 four) {
#if RLX_DOUBLE
  rlx_store_f64(base, at, four.x);
  rlx_store_f64(base, at + 1, four.y);
  rlx_store_f64(base, at + 2, four.z);
  rlx_store_f64(base, at + 3, four.w);
#else
  rlx_store4_f32(base, at, four);
#endif
}

RLX_FN rlx_real4 get_partial(rlx_ptr base, rlx_i64 at) {
#if RLX_DOUBLE
  rlx_real4 four;
  four.x = rlx_load_f64(base, at);
  four.y = rlx_load_f64(base, at + 1);
  four.z = rlx_load_f64(base, at + 2);
  four.w = rlx_load_f64(base, at + 3);
  return four;
#else
  return rlx_load4_f32(base, at);
#endif
}

// Piece `piece` of the row's result, of which `sum` is the weighted sum; piece 0 brings lse with it.
RLX_FN void store_result(rlx_ptr y, rlx_ptr lse, RLX_INDEX row, int piece, rlx_real4 sum, RLX_REAL top, RLX_REAL total) {
  const RLX_INDEX in_head = row % RLX_INDEX(RLX_HEAD_ROWS);
  const RLX_INDEX kv_head = row / RLX_INDEX(RLX_HEAD_ROWS) % RLX_INDEX(RLX_KV_HEADS);
  const RLX_INDEX batch = row / RLX_INDEX(RLX_HEAD_ROWS) / RLX_INDEX(RLX_KV_HEADS);
  const RLX_INDEX head = kv_head * RLX_INDEX(RLX_HEADS_PER_KV) + in_head / RLX_INDEX(RLX_SQ);
  const RLX_INDEX query = in_head % RLX_INDEX(RLX_SQ);
  const bool no_key = total == RLX_REAL(0);
  const RLX_REAL inverse = no_key ? RLX_REAL(0) : RLX_REAL(1) / total;
  store_y(y, batch * RLX_Y_B + head * RLX_Y_H + query * RLX_Y_S, piece * 4, add_scaled(zero4(), inverse, sum));
#if RLX_HAS_LSE
  if (piece == 0) {
    rlx_store_f32(lse, (batch * RLX_INDEX(RLX_KV_HEADS * RLX_HEADS_PER_KV) + head) * RLX_INDEX(RLX_SQ) + query,
                  rlx_f32(no_key ? RLX_MINUS_INFINITY : top + rlx_log(total)));
  }
#endif
}

#if RLX_MERGE

RLX_MAIN {
  const RLX_INDEX row = RLX_INDEX(rlx_linear_group) * RLX_INDEX(RLX_ROWS) + RLX_INDEX(rlx_row);
  if (row >= RLX_INDEX(RLX_GROUPS)) return;
  RLX_REAL top = RLX_MINUS_INFINITY;
  RLX_UNROLL for (int split = 0; split < RLX_SPLITS; ++split) {
    top = max(top, get_partial(p.partial, partial_at(row, split, RLX_DV4)).x);
  }
  RLX_REAL total = RLX_REAL(0);
  rlx_real4 sum[RLX_VP];
  RLX_UNROLL for (int n = 0; n < RLX_VP; ++n) sum[n] = zero4();
  RLX_UNROLL for (int split = 0; split < RLX_SPLITS; ++split) {
    const rlx_real4 state = get_partial(p.partial, partial_at(row, split, RLX_DV4));
    const RLX_REAL share = relative(state.x, top);
    total += share * state.y;
    RLX_UNROLL for (int n = 0; n < RLX_VP; ++n) {
      const int piece = min(n * RLX_LANES + int(rlx_lane), RLX_DV4 - 1);
      sum[n] = add_scaled(sum[n], share, get_partial(p.partial, partial_at(row, split, piece)));
    }
  }
  RLX_UNROLL for (int n = 0; n < RLX_VP; ++n) {
    const int piece = n * RLX_LANES + int(rlx_lane);
    if (piece < RLX_DV4) store_result(p.y, p.lse, row, piece, sum[n], top, total);
  }
}

#else

RLX_SHARED rlx_real4 meeting[RLX_MEETING * RLX_BLOCK_SIZE];
RLX_SHARED rlx_real4 states[RLX_R * RLX_ROWS];  // of each row in each team: maximum, sum
RLX_SHARED RLX_REAL shares[RLX_R * RLX_ROWS];   // by which its sums count
RLX_SHARED RLX_REAL tops[RLX_R];                // of each row: maximum
RLX_SHARED rlx_real4 merged[RLX_R];             // of each row: maximum, sum

RLX_GROUP_REDUCE(row_sum, RLX_REAL, RLX_COMBINE_SUM)

RLX_MAIN {
  const RLX_INDEX group = RLX_INDEX(rlx_linear_group);
  if (group >= RLX_INDEX(RLX_GROUPS)) return;
  const int thread = int(rlx_thread);
  const int tx = int(rlx_lane);
  const int ty = int(rlx_row);
  const int split = int(group % RLX_INDEX(RLX_SPLITS));
  const int first_row = int(group / RLX_INDEX(RLX_SPLITS) % RLX_INDEX(RLX_ROW_TILES)) * RLX_R;
  const RLX_INDEX batch_head = group / RLX_INDEX(RLX_SPLITS) / RLX_INDEX(RLX_ROW_TILES);
  const RLX_INDEX kv_head = batch_head % RLX_INDEX(RLX_KV_HEADS);
  const RLX_INDEX batch = batch_head / RLX_INDEX(RLX_KV_HEADS);
  const RLX_INDEX k_base = batch * RLX_K_B + kv_head * RLX_K_H;
  const RLX_INDEX v_base = batch * RLX_V_B + kv_head * RLX_V_H;

  // This split's share of the keys that some query may attend to.
  const int key_count = keys_held(p.kv_len, batch);
  const int position_0 = position_of_first(p.q_start, batch, key_count);
  const int begin = first_key_of(position_0);
  const int end = end_of_keys(position_0 + RLX_SQ - 1, key_count);
  const int share_of_keys = (max(end - begin, 0) + RLX_SPLITS - 1) / RLX_SPLITS;
  const int first = begin + split * share_of_keys;
  const int last = min(first + share_of_keys, end);

  // No branch stands in the unrolled loops (as in its twin): what lies behind an end is read before it, and not used.
  rlx_real4 q[RLX_R * RLX_KP];
  rlx_real4 result[RLX_R * RLX_VP];
  RLX_REAL top[RLX_R];
  RLX_REAL total[RLX_R];
  RLX_UNROLL for (int r = 0; r < RLX_R; ++r) {
    const int row = min(first_row + r, RLX_HEAD_ROWS - 1);
    const RLX_INDEX head = kv_head * RLX_INDEX(RLX_HEADS_PER_KV) + RLX_INDEX(row / RLX_SQ);
    const RLX_INDEX q_base = batch * RLX_Q_B + head * RLX_Q_H + RLX_INDEX(row % RLX_SQ) * RLX_Q_S;
    top[r] = RLX_MINUS_INFINITY;
    total[r] = RLX_REAL(0);
    RLX_UNROLL for (int n = 0; n < RLX_VP; ++n) result[r * RLX_VP + n] = zero4();
    RLX_UNROLL for (int n = 0; n < RLX_KP; ++n) {
      const int piece = n * RLX_LANES + tx;
      q[r * RLX_KP + n] = zero_unless(piece < RLX_D4, load_q(p.q, q_base, min(piece, RLX_D4 - 1) * 4));
    }
  }

  RLX_LOOP for (int tile = first; tile < last; tile += RLX_ROWS * RLX_KU) {
    rlx_real4 keys[RLX_KU * RLX_KP];
    rlx_real4 values[RLX_KU * RLX_VP];
    RLX_UNROLL for (int u = 0; u < RLX_KU; ++u) {
      const RLX_INDEX k_row = k_base + RLX_INDEX(min(tile + u * RLX_ROWS + ty, last - 1)) * RLX_K_S;
      RLX_UNROLL for (int n = 0; n < RLX_KP; ++n) {
        const int piece = n * RLX_LANES + tx;
        keys[u * RLX_KP + n] = zero_unless(piece < RLX_D4, load_k(p.k, k_row, min(piece, RLX_D4 - 1) * 4));
      }
    }
    RLX_UNROLL for (int u = 0; u < RLX_KU; ++u) {
      const RLX_INDEX v_row = v_base + RLX_INDEX(min(tile + u * RLX_ROWS + ty, last - 1)) * RLX_V_S;
      RLX_UNROLL for (int n = 0; n < RLX_VP; ++n) {
        values[u * RLX_VP + n] = load_v(p.v, v_row, min(n * RLX_LANES + tx, RLX_DV4 - 1) * 4);
      }
    }
    RLX_UNROLL for (int r = 0; r < RLX_R; ++r) {
      const int row = min(first_row + r, RLX_HEAD_ROWS - 1);
      const int query = row % RLX_SQ;
      const RLX_INDEX head = kv_head * RLX_INDEX(RLX_HEADS_PER_KV) + RLX_INDEX(row / RLX_SQ);
      RLX_REAL score[RLX_KU];
      bool allowed[RLX_KU];
      RLX_REAL highest = top[r];
      RLX_UNROLL for (int u = 0; u < RLX_KU; ++u) {
        const int key = tile + u * RLX_ROWS + ty;
        RLX_REAL product = RLX_REAL(0);
        RLX_UNROLL for (int n = 0; n < RLX_KP; ++n) product = dot_plus(q[r * RLX_KP + n], keys[u * RLX_KP + n], product);
        RLX_REAL s = row_sum(product);
        const bool attended = attends(p.mask, p.bias, batch, head, query, position_0 + query, min(key, last - 1), s);
        const bool allow = attended && key < last;
        allowed[u] = allow;
        score[u] = s;
        highest = allow && s > highest ? s : highest;
      }
      const RLX_REAL decay = relative(top[r], highest);
      top[r] = highest;
      RLX_REAL sum = total[r] * decay;
      RLX_UNROLL for (int n = 0; n < RLX_VP; ++n) {
        result[r * RLX_VP + n] = add_scaled(zero4(), decay, result[r * RLX_VP + n]);
      }
      RLX_UNROLL for (int u = 0; u < RLX_KU; ++u) {
        const RLX_REAL weight = allowed[u] ? relative(score[u], highest) : RLX_REAL(0);
        sum += weight;
        RLX_UNROLL for (int n = 0; n < RLX_VP; ++n) {
          result[r * RLX_VP + n] =
              add_scaled(result[r * RLX_VP + n], weight, zero_unless(allowed[u], values[u * RLX_VP + n]));
        }
      }
      total[r] = sum;
    }
  }

  // The teams meet: every row's maximum and sum, then its results, brought to that maximum.
  RLX_UNROLL for (int r = 0; r < RLX_R; ++r) {
    rlx_real4 state = zero4();
    state.x = top[r];
    state.y = total[r];
    if (tx == 0) states[r * RLX_ROWS + ty] = state;
  }
  rlx_barrier();
  for (int i = thread; i < RLX_R * RLX_ROWS; i += RLX_BLOCK_SIZE) {
    const int row_states = i - i % RLX_ROWS;
    RLX_REAL highest = RLX_MINUS_INFINITY;
    RLX_UNROLL for (int team = 0; team < RLX_ROWS; ++team) highest = max(highest, states[row_states + team].x);
    shares[i] = relative(states[i].x, highest);
    if (i == row_states) tops[i / RLX_ROWS] = highest;
  }
  rlx_barrier();
  if (thread < RLX_R) {
    RLX_REAL sum = RLX_REAL(0);
    RLX_UNROLL for (int team = 0; team < RLX_ROWS; ++team) {
      sum += shares[thread * RLX_ROWS + team] * states[thread * RLX_ROWS + team].y;
    }
    rlx_real4 state = zero4();
    state.x = tops[thread];
    state.y = sum;
    merged[thread] = state;
  }
  RLX_UNROLL for (int pair = 0; pair < RLX_R * RLX_VP; pair += RLX_MEETING) {
    rlx_barrier();
    RLX_UNROLL for (int m = 0; m < RLX_MEETING; ++m) {
      if (pair + m < RLX_R * RLX_VP) {
        meeting[m * RLX_BLOCK_SIZE + ty * RLX_LANES + tx] = add_scaled(zero4(), shares[(pair + m) / RLX_VP * RLX_ROWS + ty], result[pair + m]);
      }
    }
    rlx_barrier();
    for (int i = thread; i < RLX_MEETING * RLX_LANES; i += RLX_BLOCK_SIZE) {
      const int met = pair + i / RLX_LANES;
      const int r = met / RLX_VP;
      const int piece = met % RLX_VP * RLX_LANES + i % RLX_LANES;
      if (met >= RLX_R * RLX_VP || first_row + r >= RLX_HEAD_ROWS || piece >= RLX_DV4) continue;
      rlx_real4 sum = zero4();
      RLX_UNROLL for (int team = 0; team < RLX_ROWS; ++team) {
        sum = add_scaled(sum, RLX_REAL(1), meeting[i / RLX_LANES * RLX_BLOCK_SIZE + team * RLX_LANES + i % RLX_LANES]);
      }
      const RLX_INDEX row = batch_head * RLX_INDEX(RLX_HEAD_ROWS) + RLX_INDEX(first_row + r);
#if RLX_SPLITS > 1
      put_partial(p.partial, partial_at(row, split, piece), sum);
      if (piece == 0) put_partial(p.partial, partial_at(row, split, RLX_DV4), merged[r]);
#else
      store_result(p.y, p.lse, row, piece, sum, merged[r].x, merged[r].y);
#endif
    }
  }
}

#endif
