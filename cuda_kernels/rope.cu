// SPDX-License-Identifier: Apache-2.0
// Rotary embedding: y_a = x_a * c - x_b * s, y_b = x_b * c + x_a * s for each pair (a, b) of a head vector; the tail is copied.
// Layout: x and y [B,S,H,D] by strides. Pairs: RLX_NEOX 1: (i, i + RLX_PAIRS), 0: (2i, 2i + 1).
// Grid: one thread per pair or tail element of (batch, token, head), spread by split_grid.
// Specializations: RLX_COUNT threads that have work, RLX_TOKENS, RLX_HEADS, RLX_PAIRS, RLX_TAIL; storage types RLX_X (of x and y),
//   RLX_COS, RLX_SIN, RLX_POSITIONS; RLX_BY_POSITION: the table's row is the token's position, clamped to RLX_TABLE_ROWS;
//   RLX_HAS_POSITIONS; RLX_INVERSE.
// generated/rope.inc: RLX_INDEX, strides RLX_{X,Y}_{B,S,H,D}, RLX_COS_AT and RLX_SIN_AT(batch, token, row, pair), RLX_OFFSET (position
//   of token 0 without positions), RLX_POSITION_AT(batch, token) and RLX_POSITION_STEP (added per token: positions is a scalar).
// Numerics: f32, one rounding.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/indexing.cuh"
#include "generated/rope.inc"

RLX_PARAMS(RopeParams);

RLX_MAIN {
  const rlx_u64 thread = rlx_linear_group * RLX_BLOCK_SIZE + rlx_local_index;
  if (thread >= rlx_u64(RLX_COUNT)) return;
  const RLX_INDEX index = RLX_INDEX(thread);
  const RLX_INDEX per_head = RLX_INDEX(RLX_PAIRS + RLX_TAIL);
  const RLX_INDEX item = index % per_head;
  const RLX_INDEX head = index / per_head % RLX_INDEX(RLX_HEADS);
  const RLX_INDEX token = index / per_head / RLX_INDEX(RLX_HEADS) % RLX_INDEX(RLX_TOKENS);
  const RLX_INDEX batch = index / per_head / RLX_INDEX(RLX_HEADS) / RLX_INDEX(RLX_TOKENS);
  const RLX_INDEX x_head = batch * RLX_X_B + token * RLX_X_S + head * RLX_X_H;
  const RLX_INDEX y_head = batch * RLX_Y_B + token * RLX_Y_S + head * RLX_Y_H;

  if (item >= RLX_INDEX(RLX_PAIRS)) {
    const RLX_INDEX d = item + RLX_INDEX(RLX_PAIRS);
    const float copied = RLX_CAT(rlx_load_, RLX_X)(p.x, x_head + d * RLX_X_D);
    RLX_CAT(rlx_store_, RLX_X)(p.y, y_head + d * RLX_Y_D, copied);
    return;
  }

  RLX_INDEX row = RLX_INDEX(0);
#if RLX_BY_POSITION
  rlx_i64 position = RLX_OFFSET;
#if RLX_HAS_POSITIONS
  position += RLX_CAT(rlx_index_from_, RLX_POSITIONS)(
      RLX_CAT(rlx_load_, RLX_POSITIONS)(p.positions, RLX_POSITION_AT(batch, token)));
  position += rlx_i64(token) * RLX_POSITION_STEP;
#else
  position += rlx_i64(token);
#endif
  row = RLX_INDEX(min(max(position, rlx_i64(0)), rlx_i64(RLX_TABLE_ROWS - 1)));
#endif
  const float c = RLX_CAT(rlx_load_, RLX_COS)(p.cos_table, RLX_COS_AT(batch, token, row, item));
#if RLX_INVERSE
  const float s = -RLX_CAT(rlx_load_, RLX_SIN)(p.sin_table, RLX_SIN_AT(batch, token, row, item));
#else
  const float s = RLX_CAT(rlx_load_, RLX_SIN)(p.sin_table, RLX_SIN_AT(batch, token, row, item));
#endif
#if RLX_NEOX
  const RLX_INDEX a = item;
  const RLX_INDEX b = item + RLX_INDEX(RLX_PAIRS);
#else
  const RLX_INDEX a = item * 2;
  const RLX_INDEX b = item * 2 + 1;
#endif
  const float x_a = RLX_CAT(rlx_load_, RLX_X)(p.x, x_head + a * RLX_X_D);
  const float x_b = RLX_CAT(rlx_load_, RLX_X)(p.x, x_head + b * RLX_X_D);
  RLX_CAT(rlx_store_, RLX_X)(p.y, y_head + a * RLX_Y_D, x_a * c - x_b * s);
  RLX_CAT(rlx_store_, RLX_X)(p.y, y_head + b * RLX_Y_D, x_b * c + x_a * s);
#if RLX_BY_POSITION
  // The first thread of a token counts its position.
  const bool outside = position < rlx_i64(0) || position >= rlx_i64(RLX_TABLE_ROWS);
  RLX_COUNT_OUTSIDE(outside && item == RLX_INDEX(0) && head == RLX_INDEX(0) ? 1u : 0u);
#endif
}
