// SPDX-License-Identifier: Apache-2.0
// y[kept] = position in the row of its largest element, or smallest with RLX_SMALLEST; the first one, or the last one with
// RLX_SELECT_LAST. NaN is the extreme of both, and the first NaN wins.
// Layout: generated/rows.inc turns loop positions into element offsets (RLX_X_KEPT, RLX_X_REDUCED, RLX_Y_KEPT) and names their
//   type RLX_INDEX. The position in the row is the loop position.
// Grid: RLX_CHUNKS groups for each RLX_ROWS rows, spread by split_grid. With RLX_CHUNKS > 1 y is scratch that takes 16 bytes for each
//   row and chunk: the extreme in the first 8, its position as i64 in the others. A second dispatch (RLX_FINAL) chooses among those:
//   its x is that scratch, its RLX_REDUCED the number of chunks.
// Specializations: RLX_LANES x RLX_ROWS threads and RLX_BY_COLUMN (lib/reduce.glsl); RLX_ROW_COUNT, RLX_REDUCED (at least 1),
//   RLX_CHUNK_LENGTH; RLX_X, RLX_Y storage types; RLX_WIDTH 4 or 8: so many neighbours are read at a time, as 16 bytes.
// Numerics: exact; -0 equals +0.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "lib/reduce.glsl"
#include "generated/rows.inc"

RLX_PARAMS(CopyParams);

#define RLX_VALUE RLX_CAT(rlx_t_, RLX_X)

struct Candidate {
  RLX_VALUE value;
  RLX_INDEX position;
};

RLX_FN Candidate candidate(RLX_VALUE value, RLX_INDEX position) {
  Candidate made;
  made.value = value;
  made.position = position;
  return made;
}

RLX_FN Candidate rlx_shuffle_xor(Candidate value, rlx_u32 distance) {
  return candidate(rlx_shuffle_xor(value.value, distance), rlx_shuffle_xor(value.position, distance));
}

RLX_FN Candidate better(Candidate a, Candidate b) {
  const bool a_nan = rlx_nan(a.value);
  const bool b_nan = rlx_nan(b.value);
#if RLX_SMALLEST
  bool take_b = b.value < a.value;
#else
  bool take_b = b.value > a.value;
#endif
#if RLX_SELECT_LAST
  if (a.value == b.value) take_b = b.position > a.position;
#else
  if (a.value == b.value) take_b = b.position < a.position;
#endif
  if (a_nan || b_nan) take_b = b_nan && (!a_nan || b.position < a.position);
  if (take_b) return b;
  return a;
}

// Elements of RLX_X in the 16 bytes of a chunk.
#define RLX_STEP (16 / RLX_CAT(rlx_bytes_, RLX_X))

RLX_GROUP_REDUCE(best_of_row, Candidate, better)

RLX_MAIN {
  const RLX_INDEX group = RLX_INDEX(rlx_linear_group);
  const RLX_INDEX chunk = group % RLX_INDEX(RLX_CHUNKS);
  const RLX_INDEX row = group / RLX_INDEX(RLX_CHUNKS) * RLX_INDEX(RLX_ROWS) + RLX_INDEX(rlx_row);
  const bool inside = row < RLX_INDEX(RLX_ROW_COUNT);
  const RLX_INDEX kept = inside ? row : RLX_INDEX(0);
  const RLX_INDEX x_row = RLX_X_KEPT(kept);
  const RLX_INDEX begin = chunk * RLX_INDEX(RLX_CHUNK_LENGTH);
  const RLX_INDEX end = min(begin + RLX_INDEX(RLX_CHUNK_LENGTH), RLX_INDEX(RLX_REDUCED));

  // A thread without elements of its own stands for the first one.
#if RLX_FINAL
  const RLX_INDEX parts = kept * RLX_INDEX(RLX_REDUCED);
#define RLX_CANDIDATE(i)                                                       \
  candidate(RLX_CAT(rlx_load_, RLX_X)(p.x, (parts + (i)) * RLX_STEP),          \
            RLX_INDEX(rlx_load_i64(p.x, (parts + (i)) * RLX_INDEX(2) + RLX_INDEX(1))))
#else
#define RLX_CANDIDATE(i) candidate(RLX_CAT(rlx_load_, RLX_X)(p.x, x_row + RLX_X_REDUCED(i)), i)
#endif
  Candidate best = RLX_CANDIDATE(begin);
#if RLX_WIDTH > 1
  for (RLX_INDEX i = begin + RLX_INDEX(rlx_lane) * RLX_WIDTH; i < end; i += RLX_INDEX(RLX_LANES) * RLX_WIDTH) {
    RLX_VALUE values[RLX_WIDTH];
#if RLX_WIDTH == 8
    RLX_CAT(rlx_load8_, RLX_X)(p.x, x_row + i, values);
#else
    const rlx_vec4 four = RLX_CAT(rlx_load4_, RLX_X)(p.x, x_row + i);
    values[0] = four.x;
    values[1] = four.y;
    values[2] = four.z;
    values[3] = four.w;
#endif
    RLX_UNROLL for (int k = 0; k < RLX_WIDTH; ++k) best = better(best, candidate(values[k], i + RLX_INDEX(k)));
  }
#else
  for (RLX_INDEX i = begin + RLX_INDEX(rlx_lane); i < end; i += RLX_INDEX(RLX_LANES)) {
    best = better(best, RLX_CANDIDATE(i));
  }
#endif
  best = best_of_row(best);
  if (inside && rlx_lane == 0u) {
#if RLX_CHUNKS > 1
    const RLX_INDEX part = row * RLX_INDEX(RLX_CHUNKS) + chunk;
    RLX_CAT(rlx_store_, RLX_X)(p.y, part * RLX_STEP, best.value);
    rlx_store_i64(p.y, part * RLX_INDEX(2) + RLX_INDEX(1), rlx_i64(best.position));
#else
    RLX_CAT(rlx_store_, RLX_Y)(p.y, RLX_Y_KEPT(row), RLX_CAT(rlx_t_, RLX_Y)(best.position));
#endif
  }
}
