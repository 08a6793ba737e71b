// SPDX-License-Identifier: Apache-2.0
// gather: y[outer, r, :] = x[outer, index[r], :]; negative indices count from the end once, then those outside [0, size) take
// the nearest row (or zeros). Rows are copied in words, bit by bit.
// Layout: x [outer, size, row], index [rows], y [outer, rows, row], all dense. Grid: one thread per word of y.
// Specializations: RLX_WORD_BYTES 1..16, RLX_ROW_WORDS, RLX_ROWS, rlx_index the index type, RLX_I dtype of the index,
// RLX_ZERO_OUTSIDE, generated/sizes.inc: RLX_SIZE, RLX_COUNT words of y.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/indexing.cuh"
#include "generated/sizes.inc"

RLX_PARAMS(GatherParams);

RLX_MAIN {
  const rlx_u64 word = rlx_linear_group * rlx_u64(RLX_BLOCK_X) + rlx_u64(rlx_local_x);
  if (word >= rlx_u64(RLX_COUNT)) return;
  const rlx_index column = rlx_index(word) % rlx_index(RLX_ROW_WORDS);
  const rlx_index rest = rlx_index(word) / rlx_index(RLX_ROW_WORDS);
  const rlx_index row = rest % rlx_index(RLX_ROWS);
  const rlx_i64 outer = rlx_i64(rest / rlx_index(RLX_ROWS));
  rlx_i64 source = RLX_CAT(rlx_index_from_, RLX_I)(RLX_CAT(rlx_load_, RLX_I)(p.index, rlx_i64(row)));
  if (source < rlx_i64(0)) source += RLX_SIZE;
#if RLX_ZERO_OUTSIDE
  const bool inside = source >= rlx_i64(0) && source < RLX_SIZE;
#endif
  source = min(max(source, rlx_i64(0)), rlx_i64(RLX_SIZE) - rlx_i64(1));
  const rlx_i64 from = (outer * RLX_SIZE + source) * rlx_i64(RLX_ROW_WORDS) + rlx_i64(column);
  const rlx_i64 to = rlx_i64(word);
#if RLX_ZERO_OUTSIDE
  if (!inside) {
    rlx_store_word(p.y, to, RLX_ZERO_WORD);
    return;
  }
#endif
  rlx_store_word(p.y, to, rlx_load_word(p.x, from));
}
