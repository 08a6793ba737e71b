// SPDX-License-Identifier: Apache-2.0
// The coordinates of the elements that are not zero, in row-major order: row r of indices holds those of the r-th; rows that are left
// hold -1; count their number, which may be above the number of rows.
// Layout: x of any strides; indices dense [RLX_MOST, rank]. generated/rows.inc: RLX_INDEX (type of positions), RLX_X_AT(i) (element
//   offset of row-major position i), RLX_TRUE(v) (whether an element counts), RLX_PUT_COORDINATES(row, i) and RLX_PUT_NOTHING(row).
// Grid: two dispatches. The first (RLX_COUNTS) has RLX_CHUNKS groups, each of which writes the number in its chunk to partial[chunk].
//   In the second each of these groups adds up the numbers before its chunk and writes its coordinates; all groups, of which there
//   may be more, fill what is left over.
// Specializations: RLX_LANES threads; RLX_LENGTH elements, RLX_CHUNKS, RLX_CHUNK_LENGTH; RLX_ITEMS neighbours of a thread; RLX_MOST;
//   storage types RLX_X, RLX_I (of indices and count).
// Numerics: exact; NaN is not zero.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/math.cuh"
#include "lib/reduce.cuh"
#include "lib/scan.cuh"
#include "generated/rows.inc"

RLX_PARAMS(ScanParams);

RLX_FN RLX_INDEX added(RLX_INDEX a, RLX_INDEX b) { return a + b; }
RLX_GROUP_REDUCE(group_sum, RLX_INDEX, added)
#if !RLX_COUNTS
RLX_GROUP_SCAN(group_scan, RLX_INDEX, added, RLX_INDEX(0))
#endif

RLX_MAIN {
  const RLX_INDEX chunk = RLX_INDEX(rlx_linear_group);
  const RLX_INDEX begin = min(chunk * RLX_INDEX(RLX_CHUNK_LENGTH), RLX_INDEX(RLX_LENGTH));
  const RLX_INDEX end = min(begin + RLX_INDEX(RLX_CHUNK_LENGTH), RLX_INDEX(RLX_LENGTH));
#if RLX_COUNTS
  RLX_INDEX found = RLX_INDEX(0);
  for (RLX_INDEX i = begin + RLX_INDEX(rlx_lane); i < end; i += RLX_INDEX(RLX_LANES)) {
    if (RLX_TRUE(RLX_CAT(rlx_load_, RLX_X)(p.x, RLX_X_AT(i)))) ++found;
  }
  found = group_sum(found);
  if (rlx_lane == 0u && chunk < RLX_INDEX(RLX_CHUNKS)) rlx_store_i64(p.partial, chunk, rlx_i64(found));
#else
  // How many there are in all, and before this chunk.
  RLX_INDEX all = RLX_INDEX(0);
  RLX_INDEX earlier = RLX_INDEX(0);
  for (RLX_INDEX k = RLX_INDEX(rlx_lane); k < RLX_INDEX(RLX_CHUNKS); k += RLX_INDEX(RLX_LANES)) {
    const RLX_INDEX number = RLX_INDEX(rlx_load_i64(p.partial, k));
    all += number;
    if (k < chunk) earlier += number;
  }
  all = group_sum(all);
  earlier = group_sum(earlier);
  if (chunk == RLX_INDEX(0) && rlx_lane == 0u) RLX_CAT(rlx_store_, RLX_I)(p.count, 0, RLX_CAT(rlx_t_, RLX_I)(all));

  for (RLX_INDEX start = begin; start < end; start += RLX_INDEX(RLX_LANES * RLX_ITEMS)) {
    const RLX_INDEX first = start + RLX_INDEX(rlx_lane) * RLX_INDEX(RLX_ITEMS);
    rlx_u32 hits = 0u;
    RLX_INDEX here = RLX_INDEX(0);
    RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
      const RLX_INDEX i = first + RLX_INDEX(k);
      if (i < end) {
        if (RLX_TRUE(RLX_CAT(rlx_load_, RLX_X)(p.x, RLX_X_AT(i)))) {
          hits |= 1u << rlx_u32(k);
          ++here;
        }
      }
    }
    RLX_INDEX total;
    RLX_INDEX row = earlier + group_scan(here, total);
    earlier += total;
    RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
      if (((hits >> rlx_u32(k)) & 1u) != 0u) {
        const RLX_INDEX i = first + RLX_INDEX(k);
        if (row < RLX_INDEX(RLX_MOST)) {
          RLX_PUT_COORDINATES(row, i)
        }
        ++row;
      }
    }
  }

  const RLX_INDEX threads = RLX_INDEX(rlx_grid_x * rlx_grid_y * rlx_grid_z) * RLX_INDEX(RLX_LANES);
  for (RLX_INDEX row = all + chunk * RLX_INDEX(RLX_LANES) + RLX_INDEX(rlx_lane); row < RLX_INDEX(RLX_MOST); row += threads) {
    RLX_PUT_NOTHING(row)
  }
#endif
}
