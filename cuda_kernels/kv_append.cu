// SPDX-License-Identifier: Apache-2.0
// kv_append (RLX_ROTATE 0): y[o, row(b, i), :] = x[o, i, :] for every new row i; the other rows of the cache y stay.
//   row(b, i) = positions[b] + i, dropped outside the cache, or modulo its capacity (RLX_CIRCULAR); b = o / RLX_OUTER_PER_BATCH.
//   Bits are copied in words of RLX_WORD_BYTES.
// rope_append (RLX_ROTATE 1): queries q and keys x get a rotary embedding, y_a = x_a * c - x_b * s, y_b = x_b * c + x_a * s for the
//   pairs (i, i + RLX_PAIRS) (RLX_NEOX 1) or (2i, 2i + 1) of a head, with the tables' row at the token's position, clamped to them.
//   Queries go to y_q. With RLX_APPEND, keys and values v go into the caches y and y_v as above; else there are no values.
// Layout: x [outer, RLX_NEW_ROWS, row] by strides, y dense [outer, RLX_CAPACITY, row]. Rotated: q, x, v [B,S,H,D] by strides, D
//   contiguous; the caches by strides, RLX_YK_S and RLX_YV_S from row to row.
// Grid: one thread per word of x, or per RLX_WIDTH pairs of (batch, token, slot), where the slots are the heads of q, x and v.
// Specializations: the above; RLX_COUNT threads that have work, RLX_ROW_WORDS, RLX_POSITIONS (undefined: 0), RLX_POSITION_STRIDE;
//   RLX_SLOTS, RLX_Q_HEADS, RLX_K_HEADS, RLX_TOKENS; storage types RLX_X (of q, x, v and their results), RLX_COS, RLX_SIN; rows of
//   the tables RLX_TABLE_ROWS, RLX_COS_LINE and RLX_SIN_LINE apart; RLX_INVERSE.
// generated/append.inc: RLX_INDEX, RLX_CAPACITY; RLX_X_OUTER(o), RLX_X_ROW and RLX_X_COLUMN(c) in words; or the strides
//   RLX_{Q,K,V,YQ,YK,YV}_{B,S,H} and RLX_OFFSET (added to every position).
// Numerics: f32, one rounding.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/indexing.cuh"
#include "generated/append.inc"

RLX_PARAMS(AppendParams);

// Row of the cache for new row i, or -1 where it is dropped. Positions below 0 count from the end.
RLX_FN rlx_i64 append_row(rlx_i64 position, rlx_i64 i) {
#if RLX_CIRCULAR
  if (rlx_i64(RLX_NEW_ROWS) - i > RLX_CAPACITY) return rlx_i64(-1);
  const rlx_i64 first = position >= rlx_i64(0) ? position % RLX_CAPACITY
                                               : RLX_CAPACITY - rlx_i64(1) - (rlx_i64(-1) - position) % RLX_CAPACITY;
  return (first + i) % RLX_CAPACITY;
#else
  const rlx_i64 row = (position < rlx_i64(0) ? position + RLX_CAPACITY : position) + i;
  return row >= rlx_i64(0) && row < RLX_CAPACITY ? row : rlx_i64(-1);
#endif
}

// A row that lies outside the cache; those that a circular cache would overwrite at once are none.
RLX_FN bool is_lost(rlx_i64 row) { return RLX_CIRCULAR == 0 && row < rlx_i64(0); }

RLX_FN rlx_i64 given_position(const RlxParams& p, RLX_INDEX batch) {
#ifdef RLX_POSITIONS
  return RLX_CAT(rlx_index_from_, RLX_POSITIONS)(RLX_CAT(rlx_load_, RLX_POSITIONS)(p.positions, batch * RLX_INDEX(RLX_POSITION_STRIDE)));
#else
  return rlx_i64(0);
#endif
}

#if RLX_ROTATE
#if RLX_WIDTH == 4
#define RLX_GET(v, dtype, base, at)                               \
  {                                                               \
    const rlx_vec4 four = RLX_CAT(rlx_load4_, dtype)(base, at);   \
    v[0] = four.x;                                                \
    v[1] = four.y;                                                \
    v[2] = four.z;                                                \
    v[3] = four.w;                                                \
  }
#define RLX_PUT(v, dtype, base, at)                \
  {                                                \
    rlx_vec4 four;                                 \
    four.x = v[0];                                 \
    four.y = v[1];                                 \
    four.z = v[2];                                 \
    four.w = v[3];                                 \
    RLX_CAT(rlx_store4_, dtype)(base, at, four);   \
  }
#else
#define RLX_GET(v, dtype, base, at) v[0] = RLX_CAT(rlx_load_, dtype)(base, at);
#define RLX_PUT(v, dtype, base, at) RLX_CAT(rlx_store_, dtype)(base, at, v[0]);
#endif

// Places of the elements of RLX_WIDTH pairs in their head.
#if RLX_NEOX
#define RLX_A(pair) (pair)
#define RLX_B(pair) ((pair) + RLX_INDEX(RLX_PAIRS))
#else
#define RLX_A(pair) ((pair) * 2)
#define RLX_B(pair) ((pair) * 2 + 1)
#endif

RLX_FN void rotate(const RlxParams& p, rlx_ptr x, RLX_INDEX x_head, rlx_ptr y, rlx_i64 y_head, RLX_INDEX pair, RLX_INDEX table_row) {
  float c[RLX_WIDTH];
  float s[RLX_WIDTH];
  float a[RLX_WIDTH];
  float b[RLX_WIDTH];
  RLX_GET(c, RLX_COS, p.cos_table, table_row * RLX_INDEX(RLX_COS_LINE) + pair)
  RLX_GET(s, RLX_SIN, p.sin_table, table_row * RLX_INDEX(RLX_SIN_LINE) + pair)
  RLX_GET(a, RLX_X, x, x_head + RLX_A(pair))
  RLX_GET(b, RLX_X, x, x_head + RLX_B(pair))
  RLX_UNROLL for (int i = 0; i < RLX_WIDTH; ++i) {
#if RLX_INVERSE
    s[i] = -s[i];
#endif
    const float turned = a[i] * c[i] - b[i] * s[i];
    b[i] = b[i] * c[i] + a[i] * s[i];
    a[i] = turned;
  }
  RLX_PUT(a, RLX_X, y, y_head + rlx_i64(RLX_A(pair)))
  RLX_PUT(b, RLX_X, y, y_head + rlx_i64(RLX_B(pair)))
}

RLX_FN void copy_pairs(rlx_ptr x, RLX_INDEX x_head, rlx_ptr y, rlx_i64 y_head, RLX_INDEX pair) {
  float a[RLX_WIDTH];
  float b[RLX_WIDTH];
  RLX_GET(a, RLX_X, x, x_head + RLX_A(pair))
  RLX_GET(b, RLX_X, x, x_head + RLX_B(pair))
  RLX_PUT(a, RLX_X, y, y_head + rlx_i64(RLX_A(pair)))
  RLX_PUT(b, RLX_X, y, y_head + rlx_i64(RLX_B(pair)))
}
#endif

RLX_MAIN {
  const rlx_u64 thread = rlx_linear_group * rlx_u64(RLX_BLOCK_X) + rlx_u64(rlx_local_x);
  if (thread >= rlx_u64(RLX_COUNT)) return;
  const RLX_INDEX index = RLX_INDEX(thread);
#if RLX_ROTATE
  const RLX_INDEX pieces = RLX_INDEX(RLX_PAIRS / RLX_WIDTH);
  const RLX_INDEX pair = index % pieces * RLX_INDEX(RLX_WIDTH);
  const RLX_INDEX slot = index / pieces % RLX_INDEX(RLX_SLOTS);
  const RLX_INDEX token = index / pieces / RLX_INDEX(RLX_SLOTS) % RLX_INDEX(RLX_TOKENS);
  const RLX_INDEX batch = index / pieces / RLX_INDEX(RLX_SLOTS) / RLX_INDEX(RLX_TOKENS);
  const rlx_i64 given = given_position(p, batch);
  const rlx_i64 position = given + rlx_i64(token) + RLX_OFFSET;
  const RLX_INDEX table_row = RLX_INDEX(min(max(position, rlx_i64(0)), rlx_i64(RLX_TABLE_ROWS - 1)));
  if (slot < RLX_INDEX(RLX_Q_HEADS)) {
    const RLX_INDEX x_head = batch * RLX_Q_B + token * RLX_Q_S + slot * RLX_Q_H;
    rotate(p, p.q, x_head, p.y_q, rlx_i64(batch * RLX_YQ_B + token * RLX_YQ_S + slot * RLX_YQ_H), pair, table_row);
    return;
  }
  // The first thread of a token's keys counts its place in the table and in the caches.
  const bool counts = slot == RLX_INDEX(RLX_Q_HEADS) && pair == RLX_INDEX(0);
  RLX_COUNT_OUTSIDE(counts && (position < rlx_i64(0) || position >= rlx_i64(RLX_TABLE_ROWS)) ? 1u : 0u);
#if RLX_APPEND
  const rlx_i64 row = append_row(given, rlx_i64(token));
  RLX_COUNT_OUTSIDE(counts && is_lost(row) ? 1u : 0u);
  if (row < rlx_i64(0)) return;
#else
  const rlx_i64 row = rlx_i64(token);
#endif
  const RLX_INDEX key_head = slot - RLX_INDEX(RLX_Q_HEADS);
  if (key_head < RLX_INDEX(RLX_K_HEADS)) {
    const RLX_INDEX x_head = batch * RLX_K_B + token * RLX_K_S + key_head * RLX_K_H;
    rotate(p, p.x, x_head, p.y, rlx_i64(batch) * RLX_YK_B + row * RLX_YK_S + rlx_i64(key_head) * RLX_YK_H, pair, table_row);
    return;
  }
#if RLX_APPEND
  const RLX_INDEX value_head = key_head - RLX_INDEX(RLX_K_HEADS);
  const RLX_INDEX x_head = batch * RLX_V_B + token * RLX_V_S + value_head * RLX_V_H;
  copy_pairs(p.v, x_head, p.y_v, rlx_i64(batch) * RLX_YV_B + row * RLX_YV_S + rlx_i64(value_head) * RLX_YV_H, pair);
#endif
#else
  const RLX_INDEX column = index % RLX_INDEX(RLX_ROW_WORDS);
  const RLX_INDEX i = index / RLX_INDEX(RLX_ROW_WORDS) % RLX_INDEX(RLX_NEW_ROWS);
  const RLX_INDEX outer = index / RLX_INDEX(RLX_ROW_WORDS) / RLX_INDEX(RLX_NEW_ROWS);
  const rlx_i64 row = append_row(given_position(p, outer / RLX_INDEX(RLX_OUTER_PER_BATCH)), rlx_i64(i));
  const bool counts = column == RLX_INDEX(0) && outer % RLX_INDEX(RLX_OUTER_PER_BATCH) == RLX_INDEX(0);
  RLX_COUNT_OUTSIDE(counts && is_lost(row) ? 1u : 0u);
  if (row < rlx_i64(0)) return;
  const RLX_INDEX from = RLX_X_OUTER(outer) + i * RLX_X_ROW + RLX_X_COLUMN(column);
  const rlx_i64 to = (rlx_i64(outer) * RLX_CAPACITY + row) * rlx_i64(RLX_ROW_WORDS) + rlx_i64(column);
  rlx_store_word(p.y, to, rlx_load_word(p.x, rlx_i64(from)));
#endif
}
