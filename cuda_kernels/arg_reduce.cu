// SPDX-License-Identifier: Apache-2.0
// y[kept] = position in the row of its largest element, or smallest with RLX_SMALLEST; the first one, or the last one with
// RLX_SELECT_LAST. NaN is the extreme of both, and the first NaN wins.
// Layout: generated/rows.inc turns loop positions into element offsets (RLX_X_KEPT, RLX_X_REDUCED, RLX_Y_KEPT) and names their
//   type RLX_INDEX. The position in the row is the loop position.
// Grid: one group for each RLX_ROWS rows, spread by split_grid.
// Specializations: RLX_LANES x RLX_ROWS threads and RLX_BY_COLUMN (lib/reduce.cuh); RLX_ROW_COUNT, RLX_REDUCED (at least 1);
//   RLX_X, RLX_Y storage types.
// Numerics: exact; -0 equals +0.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/reduce.cuh"
#include "generated/rows.inc"

RLX_PARAMS(CopyParams);

struct Candidate {
  RLX_CAT(rlx_t_, RLX_X) value;
  RLX_INDEX position;
};

RLX_FN Candidate rlx_shuffle_xor(Candidate candidate, rlx_u32 distance) {
  candidate.value = rlx_shuffle_xor(candidate.value, distance);
  candidate.position = rlx_shuffle_xor(candidate.position, distance);
  return candidate;
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

RLX_GROUP_REDUCE(best_of_row, Candidate, better)

RLX_MAIN {
  const RLX_INDEX row = RLX_INDEX(rlx_linear_group) * RLX_INDEX(RLX_ROWS) + RLX_INDEX(rlx_row);
  const bool inside = row < RLX_INDEX(RLX_ROW_COUNT);
  const RLX_INDEX kept = inside ? row : RLX_INDEX(0);
  const RLX_INDEX x_row = RLX_X_KEPT(kept);

  // A thread without elements of its own stands for element 0.
  Candidate best;
  best.value = RLX_CAT(rlx_load_, RLX_X)(p.x, x_row + RLX_X_REDUCED(0));
  best.position = RLX_INDEX(0);
  for (RLX_INDEX i = RLX_INDEX(rlx_lane); i < RLX_INDEX(RLX_REDUCED); i += RLX_INDEX(RLX_LANES)) {
    Candidate next;
    next.value = RLX_CAT(rlx_load_, RLX_X)(p.x, x_row + RLX_X_REDUCED(i));
    next.position = i;
    best = better(best, next);
  }
  best = best_of_row(best);
  if (inside && rlx_lane == 0u) {
    RLX_CAT(rlx_store_, RLX_Y)(p.y, RLX_Y_KEPT(row), RLX_CAT(rlx_t_, RLX_Y)(best.position));
  }
}
