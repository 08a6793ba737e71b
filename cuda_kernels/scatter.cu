// SPDX-License-Identifier: Apache-2.0
// scatter: rows of updates combined into y at the places that tuples of the index name (rlx_place), in ascending order of the updates and
// without float atomics. y holds the base already; tuples that name no place do nothing.
// A piece is what a thread moves at once: RLX_WORD_BYTES as they stand (RLX_REPLACE 1: the last update of a place wins), or RLX_WIDTH
// elements, combined in the compute type and rounded once. RLX_PHASE chooses a step of one of three forms:
//   few updates     DIRECT   one workgroup per update; that of a place's first update (its last, to replace) combines them all
//   replace         WINNER   scratch[place] = 1 + number of the place's last update;  WRITE  winners are written
//   sorted updates  COUNT    digits of a tile's keys (places) counted: counts[digit][tile], then the digits' totals
//                   SCAN     counts to the number of equal digits in tiles before
//                   SORT     pairs (key, update) to their places in the order of the digit, stable; repeated for every 8 bits
//                   COMBINE  runs of RLX_RUN sorted updates; what crosses their ends goes to scratch: partials[run][column], the
//                            head of a run that continues the one before, else the tail of one that the next continues
//                   FINISH   tails and the heads that follow them to y
//                   LAST     the last update of each place, to replace
// Layout: index [updates, coordinates], updates [outer, updates, row], y [outer, places, row], all dense. Columns are pieces of
//   (outer, row). Grid: DIRECT RLX_SLICES workgroups per update; SCAN a workgroup per digit; COUNT and SORT one per RLX_ROUNDS * 256
//   updates; WINNER a thread per update, WRITE and LAST per update and column, COMBINE and FINISH per run and column.
// Buffers: x pairs that SORT reads, 0 in its first pass; order pairs that it writes and the later phases read; scratch winners, counts
//   or partials.
// Specializations: the above, RLX_Y dtype of y and updates, RLX_PARTIAL dtype of partials, RLX_FIRST_PASS, RLX_SHIFT of the digit.
// generated/place.inc: rlx_place(index, tuple), rlx_place(index, tuple, outside) and RLX_INDEX. generated/scatter.inc: RLX_UPDATES, RLX_PLACES, RLX_COLUMNS,
//   RLX_ROW_PIECES, RLX_TILES, RLX_RUN, RLX_RUNS; RLX_ACC, RLX_COMBINE(a, b), RLX_SCALED(v).
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/indexing.cuh"
#include "lib/sets.cuh"
#include "generated/place.inc"
#include "generated/scatter.inc"

RLX_PARAMS(ScatterParams);

#define RLX_DIRECT 0
#define RLX_WINNER 1
#define RLX_WRITE 2
#define RLX_COUNT 3
#define RLX_SCAN 4
#define RLX_SORT 5
#define RLX_COMBINE_RUNS 6
#define RLX_FINISH 7
#define RLX_LAST 8

#define RLX_SORTS (RLX_PHASE == RLX_COUNT || RLX_PHASE == RLX_SCAN || RLX_PHASE == RLX_SORT)
#define RLX_MOVES (!RLX_SORTS && RLX_PHASE != RLX_WINNER)

#if RLX_MOVES
// A piece's number in updates and in y.
RLX_FN rlx_i64 update_piece(rlx_i64 update, RLX_INDEX column) {
  const rlx_i64 outer = rlx_i64(column / RLX_INDEX(RLX_ROW_PIECES));
  return (outer * RLX_UPDATES + update) * rlx_i64(RLX_ROW_PIECES) + rlx_i64(column % RLX_INDEX(RLX_ROW_PIECES));
}
RLX_FN rlx_i64 place_piece(rlx_i64 place, RLX_INDEX column) {
  const rlx_i64 outer = rlx_i64(column / RLX_INDEX(RLX_ROW_PIECES));
  return (outer * RLX_PLACES + place) * rlx_i64(RLX_ROW_PIECES) + rlx_i64(column % RLX_INDEX(RLX_ROW_PIECES));
}

#if !RLX_REPLACE
#if RLX_WIDTH == 4
#define RLX_GET(v, base, piece)                                               \
  {                                                                           \
    const rlx_vec4 four = RLX_CAT(rlx_load4_, RLX_Y)(base, (piece) * rlx_i64(4)); \
    v[0] = four.x;                                                            \
    v[1] = four.y;                                                            \
    v[2] = four.z;                                                            \
    v[3] = four.w;                                                            \
  }
#define RLX_PUT(v, base, piece)                                          \
  {                                                                      \
    rlx_vec4 four;                                                       \
    four.x = v[0];                                                       \
    four.y = v[1];                                                       \
    four.z = v[2];                                                       \
    four.w = v[3];                                                       \
    RLX_CAT(rlx_store4_, RLX_Y)(base, (piece) * rlx_i64(4), four);       \
  }
#else
#define RLX_GET(v, base, piece) v[0] = RLX_CAT(rlx_load_, RLX_Y)(base, piece);
#define RLX_PUT(v, base, piece) RLX_CAT(rlx_store_, RLX_Y)(base, piece, v[0]);
#endif
#define RLX_EACH RLX_UNROLL for (int k = 0; k < RLX_WIDTH; ++k)
#endif
#endif

#if RLX_PHASE == RLX_DIRECT
RLX_SHARED rlx_u32 others;              // whether another update is responsible for the place
RLX_SHARED rlx_u32 found[RLX_BLOCK_X / 32];  // bits of the window's updates of the place
#elif RLX_PHASE == RLX_COUNT
RLX_SHARED rlx_u32 counts[256];
#elif RLX_PHASE == RLX_SCAN
RLX_SHARED rlx_u32 sums[256];
#elif RLX_PHASE == RLX_SORT
RLX_SHARED rlx_u32 sums[256];
RLX_SHARED rlx_u32 starts[256];         // where the next update of a digit goes
RLX_SHARED rlx_u32 members[256 * 8];    // bits of the round's threads with a digit
#endif

#if RLX_PHASE == RLX_COUNT || RLX_PHASE == RLX_SORT
// Key and number of the update at position i; updates without a place sort behind all others.
RLX_FN rlx_uvec2 pair_at(rlx_ptr index, rlx_ptr pairs, rlx_i64 i, RLX_INOUT(rlx_u32) outside) {
#if RLX_FIRST_PASS
  const rlx_i64 place = rlx_place(index, i, outside);
  rlx_uvec2 pair;
  pair.x = place < rlx_i64(0) ? rlx_u32(RLX_PLACES) : rlx_u32(place);
  pair.y = rlx_u32(i);
  return pair;
#else
  return rlx_raw8(pairs, i * rlx_i64(8));
#endif
}
#endif

#if RLX_PHASE == RLX_COMBINE_RUNS || RLX_PHASE == RLX_FINISH || RLX_PHASE == RLX_LAST
RLX_FN rlx_u32 key_at(rlx_ptr order, rlx_i64 i) { return rlx_raw4(order, i * rlx_i64(8)); }
#endif

#if RLX_PHASE == RLX_COMBINE_RUNS || RLX_PHASE == RLX_FINISH
RLX_FN void put_partial(rlx_ptr scratch, rlx_i64 run, RLX_INDEX column, const RLX_ACC (&v)[RLX_WIDTH]) {
  const rlx_i64 at = (run * rlx_i64(RLX_COLUMNS) + rlx_i64(column)) * rlx_i64(RLX_WIDTH);
  RLX_EACH RLX_CAT(rlx_store_, RLX_PARTIAL)(scratch, at + rlx_i64(k), v[k]);
}
RLX_FN RLX_ACC partial_at(rlx_ptr scratch, rlx_i64 run, RLX_INDEX column, int k) {
  const rlx_i64 at = (run * rlx_i64(RLX_COLUMNS) + rlx_i64(column)) * rlx_i64(RLX_WIDTH);
  return RLX_CAT(rlx_load_, RLX_PARTIAL)(scratch, at + rlx_i64(k));
}
#endif

RLX_MAIN {
  const rlx_u32 thread = rlx_local_x;
#if RLX_PHASE == RLX_DIRECT
  const rlx_i64 update = rlx_i64(rlx_linear_group / rlx_u64(RLX_SLICES));
  if (update >= RLX_UPDATES) return;
  rlx_u32 outside = 0u;
  const rlx_i64 place = rlx_place(p.index, update, outside);
  RLX_COUNT_OUTSIDE(thread == 0u && rlx_linear_group % rlx_u64(RLX_SLICES) == rlx_u64(0) ? outside : 0u);
  if (place < rlx_i64(0)) return;
  if (thread == 0u) others = 0u;
  rlx_barrier();
#if RLX_REPLACE
  for (rlx_i64 i = update + rlx_i64(1) + rlx_i64(thread); i < RLX_UPDATES; i += rlx_i64(RLX_BLOCK_X)) {
#else
  for (rlx_i64 i = rlx_i64(thread); i < update; i += rlx_i64(RLX_BLOCK_X)) {
#endif
    if (rlx_place(p.index, i) == place) RLX_SHARED_OR(others, 1u);
  }
  rlx_barrier();
  if (others != 0u) return;
  const rlx_u64 wide_column = rlx_linear_group % rlx_u64(RLX_SLICES) * rlx_u64(RLX_BLOCK_X) + rlx_u64(thread);
  const bool works = wide_column < rlx_u64(RLX_COLUMNS);
  const RLX_INDEX column = works ? RLX_INDEX(wide_column) : RLX_INDEX(0);
#if RLX_REPLACE
  if (works) rlx_store_word(p.y, place_piece(place, column), rlx_load_word(p.updates, update_piece(update, column)));
#else
  RLX_ACC acc[RLX_WIDTH];
  RLX_GET(acc, p.y, place_piece(place, column))
  for (rlx_i64 first = update; first < RLX_UPDATES; first += rlx_i64(RLX_BLOCK_X)) {
    rlx_barrier();
    if (thread < rlx_u32(RLX_BLOCK_X / 32)) found[thread] = 0u;
    rlx_barrier();
    const rlx_i64 i = first + rlx_i64(thread);
    if (i < RLX_UPDATES && rlx_place(p.index, i) == place) RLX_SHARED_OR(found[thread / 32u], 1u << (thread % 32u));
    rlx_barrier();
    for (rlx_u32 w = 0u; w < rlx_u32(RLX_BLOCK_X / 32); ++w) {
      rlx_u32 bits = found[w];
      while (bits != 0u) {
        const rlx_i64 next = first + rlx_i64(w * 32u + rlx_low_bit(bits));
        bits &= bits - 1u;
        RLX_ACC v[RLX_WIDTH];
        RLX_GET(v, p.updates, update_piece(next, column))
        RLX_EACH acc[k] = RLX_COMBINE(acc[k], RLX_SCALED(v[k]));
      }
    }
  }
  if (works) RLX_PUT(acc, p.y, place_piece(place, column))
#endif

#elif RLX_PHASE == RLX_WINNER
  const rlx_u64 i = rlx_linear_group * rlx_u64(RLX_BLOCK_X) + rlx_u64(thread);
  if (i >= rlx_u64(RLX_UPDATES)) return;
  rlx_u32 outside = 0u;
  const rlx_i64 place = rlx_place(p.index, rlx_i64(i), outside);
  if (place >= rlx_i64(0)) rlx_atomic_max_u32(p.scratch, place, rlx_u32(i) + 1u);
  RLX_COUNT_OUTSIDE(outside);

#elif RLX_PHASE == RLX_WRITE || RLX_PHASE == RLX_LAST
  const rlx_u64 i = rlx_linear_group * rlx_u64(RLX_BLOCK_X) + rlx_u64(thread);
  if (i >= rlx_u64(RLX_UPDATES) * rlx_u64(RLX_COLUMNS)) return;
  const RLX_INDEX column = RLX_INDEX(i) % RLX_INDEX(RLX_COLUMNS);
  const rlx_i64 position = rlx_i64(RLX_INDEX(i) / RLX_INDEX(RLX_COLUMNS));
#if RLX_PHASE == RLX_WRITE
  const rlx_i64 update = position;
  const rlx_i64 place = rlx_place(p.index, update);
  if (place < rlx_i64(0) || rlx_load_u32(p.scratch, place) != rlx_u32(update) + 1u) return;
#else
  const rlx_uvec2 pair = rlx_raw8(p.order, position * rlx_i64(8));
  if (pair.x >= rlx_u32(RLX_PLACES)) return;
  if (position + rlx_i64(1) < RLX_UPDATES && key_at(p.order, position + rlx_i64(1)) == pair.x) return;
  const rlx_i64 place = rlx_i64(pair.x);
  const rlx_i64 update = rlx_i64(pair.y);
#endif
  rlx_store_word(p.y, place_piece(place, column), rlx_load_word(p.updates, update_piece(update, column)));

#elif RLX_PHASE == RLX_COUNT
  const rlx_i64 tile = rlx_i64(rlx_linear_group);
  if (tile >= rlx_i64(RLX_TILES)) return;
  counts[thread] = 0u;
  rlx_barrier();
  rlx_u32 outside = 0u;
  for (int round = 0; round < RLX_ROUNDS; ++round) {
    const rlx_i64 i = (tile * rlx_i64(RLX_ROUNDS) + rlx_i64(round)) * rlx_i64(256) + rlx_i64(thread);
    if (i < RLX_UPDATES) RLX_SHARED_ADD(counts[(pair_at(p.index, p.x, i, outside).x >> RLX_SHIFT) & 255u], 1u);
  }
  rlx_barrier();
  rlx_store_u32(p.scratch, rlx_i64(thread) * rlx_i64(RLX_TILES) + tile, counts[thread]);
  RLX_COUNT_OUTSIDE(outside);

#elif RLX_PHASE == RLX_SCAN
  const rlx_i64 row = rlx_i64(rlx_group_x) * rlx_i64(RLX_TILES);
  rlx_u32 before = 0u;
  for (rlx_i64 first = rlx_i64(0); first < rlx_i64(RLX_TILES); first += rlx_i64(256)) {
    const rlx_i64 i = first + rlx_i64(thread);
    const rlx_u32 own = i < rlx_i64(RLX_TILES) ? rlx_load_u32(p.scratch, row + i) : 0u;
    sums[thread] = own;
    rlx_barrier();
    for (rlx_u32 step = 1u; step < 256u; step *= 2u) {
      const rlx_u32 added = thread >= step ? sums[thread - step] : 0u;
      rlx_barrier();
      sums[thread] += added;
      rlx_barrier();
    }
    if (i < rlx_i64(RLX_TILES)) rlx_store_u32(p.scratch, row + i, before + sums[thread] - own);
    before += sums[255];
    rlx_barrier();
  }
  if (thread == 0u) rlx_store_u32(p.scratch, rlx_i64(256) * rlx_i64(RLX_TILES) + rlx_i64(rlx_group_x), before);

#elif RLX_PHASE == RLX_SORT
  const rlx_i64 tile = rlx_i64(rlx_linear_group);
  if (tile >= rlx_i64(RLX_TILES)) return;
  const rlx_u32 total = rlx_load_u32(p.scratch, rlx_i64(256) * rlx_i64(RLX_TILES) + rlx_i64(thread));
  sums[thread] = total;
  rlx_barrier();
  for (rlx_u32 step = 1u; step < 256u; step *= 2u) {
    const rlx_u32 added = thread >= step ? sums[thread - step] : 0u;
    rlx_barrier();
    sums[thread] += added;
    rlx_barrier();
  }
  starts[thread] = sums[thread] - total + rlx_load_u32(p.scratch, rlx_i64(thread) * rlx_i64(RLX_TILES) + tile);
  for (int round = 0; round < RLX_ROUNDS; ++round) {
    const rlx_i64 i = (tile * rlx_i64(RLX_ROUNDS) + rlx_i64(round)) * rlx_i64(256) + rlx_i64(thread);
    RLX_UNROLL for (rlx_u32 w = 0u; w < 8u; ++w) members[w * 256u + thread] = 0u;
    rlx_barrier();
    rlx_uvec2 pair;
    pair.x = 0u;
    pair.y = 0u;
    const bool is_there = i < RLX_UPDATES;
    rlx_u32 counted_before = 0u;
    if (is_there) pair = pair_at(p.index, p.x, i, counted_before);
    const rlx_u32 digit = (pair.x >> RLX_SHIFT) & 255u;
    if (is_there) RLX_SHARED_OR(members[digit * 8u + thread / 32u], 1u << (thread % 32u));
    rlx_barrier();
    rlx_u32 rank = rlx_bit_count(members[digit * 8u + thread / 32u] & ((1u << (thread % 32u)) - 1u));
    for (rlx_u32 w = 0u; w < thread / 32u; ++w) rank += rlx_bit_count(members[digit * 8u + w]);
    if (is_there) rlx_put8(p.order, rlx_i64(starts[digit] + rank) * rlx_i64(8), pair);
    rlx_barrier();
    rlx_u32 all = 0u;
    RLX_UNROLL for (rlx_u32 w = 0u; w < 8u; ++w) all += rlx_bit_count(members[thread * 8u + w]);
    starts[thread] += all;
    rlx_barrier();
  }

#elif RLX_PHASE == RLX_COMBINE_RUNS
  const rlx_u64 work = rlx_linear_group * rlx_u64(RLX_BLOCK_X) + rlx_u64(thread);
  if (work >= rlx_u64(RLX_RUNS) * rlx_u64(RLX_COLUMNS)) return;
  const RLX_INDEX column = RLX_INDEX(work % rlx_u64(RLX_COLUMNS));
  const rlx_i64 run = rlx_i64(work / rlx_u64(RLX_COLUMNS));
  const rlx_i64 first = run * rlx_i64(RLX_RUN);
  const rlx_i64 end = min(first + rlx_i64(RLX_RUN), rlx_i64(RLX_UPDATES));
  rlx_u32 key = key_at(p.order, first);
  if (key >= rlx_u32(RLX_PLACES)) return;
  bool is_head = first > rlx_i64(0) && key_at(p.order, first - rlx_i64(1)) == key;
  bool is_empty = is_head;
  RLX_ACC acc[RLX_WIDTH];
  RLX_EACH acc[k] = RLX_ACC(0);
  if (!is_head) RLX_GET(acc, p.y, place_piece(rlx_i64(key), column))
  // Four updates are fetched before they are combined, so that their latencies overlap.
  for (rlx_i64 i = first; i < end; i += rlx_i64(4)) {
    rlx_u32 keys[4];
    RLX_ACC values[4][RLX_WIDTH];
    RLX_UNROLL for (int j = 0; j < 4; ++j) {
      keys[j] = rlx_u32(RLX_PLACES);
      if (i + rlx_i64(j) < end) {
        const rlx_uvec2 pair = rlx_raw8(p.order, (i + rlx_i64(j)) * rlx_i64(8));
        keys[j] = pair.x;
        RLX_GET(values[j], p.updates, update_piece(rlx_i64(pair.y), column))
      }
    }
    RLX_UNROLL for (int j = 0; j < 4; ++j) {
      if (keys[j] < rlx_u32(RLX_PLACES)) {
        if (keys[j] != key) {
          if (is_head) {
            put_partial(p.scratch, run, column, acc);
          } else {
            RLX_PUT(acc, p.y, place_piece(rlx_i64(key), column))
          }
          key = keys[j];
          is_head = false;
          is_empty = false;
          RLX_GET(acc, p.y, place_piece(rlx_i64(key), column))
        }
        RLX_EACH acc[k] = is_empty ? RLX_SCALED(values[j][k]) : RLX_COMBINE(acc[k], RLX_SCALED(values[j][k]));
        is_empty = false;
      }
    }
  }
  const bool continues = end < RLX_UPDATES && key_at(p.order, end) == key;
  if (is_head) {
    put_partial(p.scratch, run, column, acc);
  } else if (continues) {
    put_partial(p.scratch, rlx_i64(RLX_RUNS) + run, column, acc);
  } else {
    RLX_PUT(acc, p.y, place_piece(rlx_i64(key), column))
  }

#elif RLX_PHASE == RLX_FINISH
  const rlx_u64 work = rlx_linear_group * rlx_u64(RLX_BLOCK_X) + rlx_u64(thread);
  if (work >= rlx_u64(RLX_RUNS) * rlx_u64(RLX_COLUMNS)) return;
  const RLX_INDEX column = RLX_INDEX(work % rlx_u64(RLX_COLUMNS));
  const rlx_i64 run = rlx_i64(work / rlx_u64(RLX_COLUMNS));
  const rlx_i64 first = run * rlx_i64(RLX_RUN);
  const rlx_i64 end = first + rlx_i64(RLX_RUN);
  if (end >= RLX_UPDATES) return;
  const rlx_u32 key = key_at(p.order, end);
  if (key >= rlx_u32(RLX_PLACES) || key_at(p.order, end - rlx_i64(1)) != key) return;
  if (first > rlx_i64(0) && key_at(p.order, first - rlx_i64(1)) == key) return;
  // The first position behind the place's updates.
  rlx_i64 low = end;
  rlx_i64 high = RLX_UPDATES;
  while (low < high) {
    const rlx_i64 middle = (low + high) / rlx_i64(2);
    if (key_at(p.order, middle) == key) {
      low = middle + rlx_i64(1);
    } else {
      high = middle;
    }
  }
  const rlx_i64 heads_end = (low + rlx_i64(RLX_RUN - 1)) / rlx_i64(RLX_RUN);
  RLX_ACC acc[RLX_WIDTH];
  RLX_EACH acc[k] = partial_at(p.scratch, rlx_i64(RLX_RUNS) + run, column, k);
  for (rlx_i64 next = run + rlx_i64(1); next < heads_end; ++next) {
    RLX_EACH acc[k] = RLX_COMBINE(acc[k], partial_at(p.scratch, next, column, k));
  }
  RLX_PUT(acc, p.y, place_piece(rlx_i64(key), column))
#endif
}
