// SPDX-License-Identifier: Apache-2.0
// Orders rows by key and, among equals, by place.
// RLX_MERGE 0 sorts tiles of RLX_TILE elements of each row and keeps the first RLX_KEEP of each. A row that fits one tile is thereby
//   sorted; of longer ones the tiles' first elements make shorter rows, to which this is applied again (few of many are wanted), or the
//   tiles are merged.
// RLX_MERGE 1 merges sorted runs of each row two by two; elements of the first run stand before their equals of the second. Of each
//   merged run the first RLX_MERGED elements are kept. A last run without a partner is copied.
// Layout: rows and the positions along them are loop positions; generated/rows.inc turns them into element offsets (RLX_X_KEPT,
//   RLX_X_REDUCED, RLX_Y_KEPT, RLX_Y_REDUCED) and names their type RLX_INDEX. keys and places are scratch, row after row: tile after
//   tile of RLX_KEEP, or RLX_LENGTH elements in runs of RLX_RUN (the last maybe shorter), which become RLX_NEXT_LENGTH in runs of
//   RLX_MERGED. With RLX_LAST the result goes to values and indices; before that these two are the next stage's keys and places.
// Grid: RLX_MERGE 0: one group for each RLX_TILES tiles. RLX_MERGE 1: RLX_RUN_TILES groups for each merged run, one for every RLX_TILE
//   elements of it. Spread by split_grid.
// Specializations: those; RLX_ROW_COUNT; RLX_WIDE 1: keys of 64 bits; RLX_LAST with RLX_HAS_VALUES, RLX_RAW (integers of the width of
//   x), RLX_HAS_INDICES, RLX_I (their type). RLX_MERGE 0: RLX_TILE (power of two), RLX_COLS (of a row), RLX_ROW_TILES; RLX_BY_COLUMN 1:
//   neighbouring threads read neighbouring tiles; RLX_FROM_KEYS 1: elements come from keys and places, else from x of type RLX_X;
//   RLX_DESCENDING. RLX_MERGE 1: RLX_TILE, a multiple of the workgroup; RLX_NEXT_RUNS (merged runs of a row).
// Numerics: exact. Values are copied bit by bit.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/math.cuh"
#include "lib/order.cuh"
#include "generated/rows.inc"

RLX_PARAMS(SortParams);

#if RLX_WIDE
#define RLX_KEY rlx_u64
#define RLX_KEY_STORAGE i64
#else
#define RLX_KEY rlx_u32
#define RLX_KEY_STORAGE u32
#endif
#if RLX_MERGE
#define RLX_LOAD_KEY(i) RLX_KEY(RLX_CAT(rlx_load_, RLX_KEY_STORAGE)(p.keys, i))
#define RLX_ITEMS (RLX_TILE / RLX_BLOCK_SIZE)

RLX_SHARED RLX_KEY keys[RLX_TILE];
RLX_SHARED rlx_u32 places[RLX_TILE];
RLX_SHARED RLX_INDEX splits[2];

RLX_MAIN {
  const RLX_INDEX group = RLX_INDEX(rlx_linear_group);
  const RLX_INDEX tile = group % RLX_INDEX(RLX_RUN_TILES);
  const RLX_INDEX run = group / RLX_INDEX(RLX_RUN_TILES) % RLX_INDEX(RLX_NEXT_RUNS);
  const RLX_INDEX row = group / RLX_INDEX(RLX_RUN_TILES) / RLX_INDEX(RLX_NEXT_RUNS);
  const bool inside = row < RLX_INDEX(RLX_ROW_COUNT);
  // The two runs, and which of the merged elements are this group's.
  const RLX_INDEX first = (inside ? row : RLX_INDEX(0)) * RLX_INDEX(RLX_LENGTH) + run * RLX_INDEX(2) * RLX_INDEX(RLX_RUN);
  const RLX_INDEX left = RLX_INDEX(RLX_LENGTH) - run * RLX_INDEX(2) * RLX_INDEX(RLX_RUN);
  const RLX_INDEX first_count = min(left, RLX_INDEX(RLX_RUN));
  const RLX_INDEX second = first + first_count;
  const RLX_INDEX second_count = min(left - first_count, RLX_INDEX(RLX_RUN));
  const RLX_INDEX wanted = min(first_count + second_count, RLX_INDEX(RLX_MERGED));
  const RLX_INDEX begin = min(tile * RLX_INDEX(RLX_TILE), wanted);
  const RLX_INDEX end = min(begin + RLX_INDEX(RLX_TILE), wanted);

  // How many of the first `begin` and of the first `end` merged elements come from the first run.
  if (rlx_local_index < 2u) {
    const RLX_INDEX count = rlx_local_index == 0u ? begin : end;
    RLX_INDEX low = max(count - second_count, RLX_INDEX(0));
    RLX_INDEX high = min(count, first_count);
    while (low < high) {
      const RLX_INDEX middle = (low + high) / RLX_INDEX(2);
      if (RLX_LOAD_KEY(first + middle) <= RLX_LOAD_KEY(second + count - RLX_INDEX(1) - middle)) {
        low = middle + RLX_INDEX(1);
      } else {
        high = middle;
      }
    }
    splits[rlx_local_index] = low;
  }
  rlx_barrier();
  const RLX_INDEX from_first = splits[0];
  const rlx_u32 here_first = rlx_u32(splits[1] - from_first);
  const rlx_u32 here = rlx_u32(end - begin);
  const RLX_INDEX from_second = begin - from_first;
  for (rlx_u32 e = rlx_local_index; e < here; e += rlx_u32(RLX_BLOCK_SIZE)) {
    const RLX_INDEX at =
        e < here_first ? first + from_first + RLX_INDEX(e) : second + from_second + RLX_INDEX(e - here_first);
    keys[e] = RLX_LOAD_KEY(at);
    places[e] = rlx_load_u32(p.places, at);
  }
  rlx_barrier();

  // Each thread merges RLX_ITEMS neighbours of the result.
  const rlx_u32 here_second = here - here_first;
  const rlx_u32 start = min(rlx_local_index * rlx_u32(RLX_ITEMS), here);
  rlx_u32 low = start > here_second ? start - here_second : 0u;
  rlx_u32 high = min(start, here_first);
  while (low < high) {
    const rlx_u32 middle = (low + high) / 2u;
    if (keys[middle] <= keys[here_first + start - 1u - middle]) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  rlx_u32 a = low;
  rlx_u32 b = here_first + start - low;
  RLX_KEY merged_keys[RLX_ITEMS];
  rlx_u32 merged_places[RLX_ITEMS];
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    merged_keys[k] = RLX_KEY(0);
    merged_places[k] = 0u;
    if (start + rlx_u32(k) < here) {
      bool take_first = a < here_first;
      if (take_first && b < here) take_first = keys[a] <= keys[b];
      const rlx_u32 taken = take_first ? a : b;
      merged_keys[k] = keys[taken];
      merged_places[k] = places[taken];
      if (take_first) {
        ++a;
      } else {
        ++b;
      }
    }
  }
  rlx_barrier();
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    if (start + rlx_u32(k) < here) {
      keys[start + rlx_u32(k)] = merged_keys[k];
      places[start + rlx_u32(k)] = merged_places[k];
    }
  }
  rlx_barrier();

  for (rlx_u32 e = rlx_local_index; e < here && inside; e += rlx_u32(RLX_BLOCK_SIZE)) {
    const RLX_INDEX i = begin + RLX_INDEX(e);
#if RLX_LAST
    const rlx_u32 place = places[e];
#if RLX_HAS_VALUES
    RLX_CAT(rlx_store_, RLX_RAW)(p.values, RLX_Y_KEPT(row) + RLX_Y_REDUCED(i),
                                 RLX_CAT(rlx_load_, RLX_RAW)(p.x, RLX_X_KEPT(row) + RLX_X_REDUCED(place)));
#endif
#if RLX_HAS_INDICES
    RLX_CAT(rlx_store_, RLX_I)(p.indices, RLX_Y_KEPT(row) + RLX_Y_REDUCED(i), RLX_CAT(rlx_t_, RLX_I)(place));
#endif
#else
    const RLX_INDEX at = row * RLX_INDEX(RLX_NEXT_LENGTH) + run * RLX_INDEX(RLX_MERGED) + i;
    RLX_CAT(rlx_store_, RLX_KEY_STORAGE)(p.values, at, RLX_CAT(rlx_t_, RLX_KEY_STORAGE)(keys[e]));
    rlx_store_u32(p.indices, at, places[e]);
#endif
  }
}

#else
#define RLX_HELD (RLX_TILE * RLX_TILES)

RLX_SHARED RLX_KEY keys[RLX_HELD];
RLX_SHARED rlx_u32 places[RLX_HELD];

RLX_MAIN {
  const RLX_INDEX first_tile = RLX_INDEX(rlx_linear_group) * RLX_INDEX(RLX_TILES);
  for (rlx_u32 e = rlx_local_index; e < rlx_u32(RLX_HELD); e += rlx_u32(RLX_BLOCK_SIZE)) {
#if RLX_BY_COLUMN
    const rlx_u32 tile_in_group = e % rlx_u32(RLX_TILES);
    const rlx_u32 place_in_tile = e / rlx_u32(RLX_TILES);
#else
    const rlx_u32 tile_in_group = e / rlx_u32(RLX_TILE);
    const rlx_u32 place_in_tile = e % rlx_u32(RLX_TILE);
#endif
    const RLX_INDEX tile = first_tile + RLX_INDEX(tile_in_group);
    const RLX_INDEX row = tile / RLX_INDEX(RLX_ROW_TILES);
    const RLX_INDEX i = tile % RLX_INDEX(RLX_ROW_TILES) * RLX_INDEX(RLX_TILE) + RLX_INDEX(place_in_tile);
    RLX_KEY key = ~RLX_KEY(0);
    rlx_u32 place = rlx_no_place;
    if (row < RLX_INDEX(RLX_ROW_COUNT) && i < RLX_INDEX(RLX_COLS)) {
#if RLX_FROM_KEYS
      key = RLX_KEY(RLX_CAT(rlx_load_, RLX_KEY_STORAGE)(p.keys, row * RLX_INDEX(RLX_COLS) + i));
      place = rlx_load_u32(p.places, row * RLX_INDEX(RLX_COLS) + i);
#else
      key = rlx_key(RLX_CAT(rlx_load_, RLX_X)(p.x, RLX_X_KEPT(row) + RLX_X_REDUCED(i)));
      place = rlx_u32(i);
#if RLX_DESCENDING
      key = ~key;
#endif
#endif
    }
    keys[tile_in_group * rlx_u32(RLX_TILE) + place_in_tile] = key;
    places[tile_in_group * rlx_u32(RLX_TILE) + place_in_tile] = place;
  }

  // Bitonic network: runs of `run` elements become sorted, every other one backwards.
  for (rlx_u32 run = 2u; run <= rlx_u32(RLX_TILE); run *= 2u) {
    for (rlx_u32 distance = run / 2u; distance > 0u; distance /= 2u) {
      rlx_barrier();
      for (rlx_u32 pair = rlx_local_index; pair < rlx_u32(RLX_HELD / 2); pair += rlx_u32(RLX_BLOCK_SIZE)) {
        const rlx_u32 low = ((pair & ~(distance - 1u)) << 1) | (pair & (distance - 1u));
        const rlx_u32 high = low + distance;
        const bool backwards = (low & rlx_u32(RLX_TILE - 1) & run) != 0u;
        const RLX_KEY low_key = keys[low];
        const RLX_KEY high_key = keys[high];
        const rlx_u32 low_place = places[low];
        const rlx_u32 high_place = places[high];
        const bool ordered = low_key < high_key || (low_key == high_key && low_place <= high_place);
        if (ordered == backwards) {
          keys[low] = high_key;
          keys[high] = low_key;
          places[low] = high_place;
          places[high] = low_place;
        }
      }
    }
  }
  rlx_barrier();

  for (rlx_u32 e = rlx_local_index; e < rlx_u32(RLX_TILES * RLX_KEEP); e += rlx_u32(RLX_BLOCK_SIZE)) {
#if RLX_BY_COLUMN
    const rlx_u32 tile_in_group = e % rlx_u32(RLX_TILES);
    const rlx_u32 i = e / rlx_u32(RLX_TILES);
#else
    const rlx_u32 tile_in_group = e / rlx_u32(RLX_KEEP);
    const rlx_u32 i = e % rlx_u32(RLX_KEEP);
#endif
    const RLX_INDEX tile = first_tile + RLX_INDEX(tile_in_group);
    const RLX_INDEX row = tile / RLX_INDEX(RLX_ROW_TILES);
    if (row < RLX_INDEX(RLX_ROW_COUNT)) {
      const rlx_u32 place = places[tile_in_group * rlx_u32(RLX_TILE) + i];
#if RLX_LAST
#if RLX_HAS_VALUES
      RLX_CAT(rlx_store_, RLX_RAW)(p.values, RLX_Y_KEPT(row) + RLX_Y_REDUCED(i),
                                   RLX_CAT(rlx_load_, RLX_RAW)(p.x, RLX_X_KEPT(row) + RLX_X_REDUCED(place)));
#endif
#if RLX_HAS_INDICES
      RLX_CAT(rlx_store_, RLX_I)(p.indices, RLX_Y_KEPT(row) + RLX_Y_REDUCED(i), RLX_CAT(rlx_t_, RLX_I)(place));
#endif
#else
      const RLX_INDEX at = tile * RLX_INDEX(RLX_KEEP) + RLX_INDEX(i);
      RLX_CAT(rlx_store_, RLX_KEY_STORAGE)(p.values, at,
                                           RLX_CAT(rlx_t_, RLX_KEY_STORAGE)(keys[tile_in_group * rlx_u32(RLX_TILE) + i]));
      rlx_store_u32(p.indices, at, place);
#endif
    }
  }
}

#endif
