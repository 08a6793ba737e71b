// SPDX-License-Identifier: Apache-2.0
// gather: y[outer, r, :] = x[outer, index[r], :]; negative indices count from the end once, then those outside [0, size) take
// the nearest row (or zeros). Rows are copied in words, bit by bit.
// Layout: x [outer, size, row] by strides, index [rows] and y [outer, rows, row] dense. Grid: a workgroup per RLX_ITEMS words of y per
// thread, neighbours side by side; all of a thread's loads come before its stores.
// Specializations: RLX_WORD_BYTES 1..16, RLX_ROW_WORDS, RLX_ROWS, RLX_ITEMS, RLX_I dtype of the index, RLX_ZERO_OUTSIDE.
// generated/sizes.inc: RLX_INDEX; RLX_SIZE, RLX_COUNT words of y; in words RLX_X_OUTER(o), RLX_X_COLUMN(c) and RLX_X_ROW.
// A table of blocks (RLX_W_ELEMENTS defined): lib/block_rows.cuh.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/indexing.cuh"
#include "generated/sizes.inc"

RLX_PARAMS(GatherParams);

#ifdef RLX_W_ELEMENTS
#include "lib/block_rows.cuh"
#else
// The row of x that index `row` names, not yet inside of it.
RLX_FN rlx_i64 source_row(rlx_ptr index, rlx_i64 row) {
  const rlx_i64 source = RLX_CAT(rlx_index_from_, RLX_I)(RLX_CAT(rlx_load_, RLX_I)(index, row));
  return source < rlx_i64(0) ? source + RLX_SIZE : source;
}
RLX_FN bool is_inside(rlx_i64 source) { return rlx_u64(source) < rlx_u64(RLX_SIZE); }

RLX_MAIN {
  const rlx_u64 first = rlx_linear_group * rlx_u64(RLX_BLOCK_X * RLX_ITEMS) + rlx_u64(rlx_local_x);
  RLX_WORD words[RLX_ITEMS];
  bool all_inside = true;
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const rlx_u64 word = first + rlx_u64(k * RLX_BLOCK_X);
    words[k] = RLX_ZERO_WORD;
    if (word < rlx_u64(RLX_COUNT)) {
      const RLX_INDEX column = RLX_INDEX(word) % RLX_INDEX(RLX_ROW_WORDS);
      const RLX_INDEX rest = RLX_INDEX(word) / RLX_INDEX(RLX_ROW_WORDS);
      const RLX_INDEX row = rest % RLX_INDEX(RLX_ROWS);
      const RLX_INDEX outer = rest / RLX_INDEX(RLX_ROWS);
      rlx_i64 source = source_row(p.index, rlx_i64(row));
      const bool inside = is_inside(source);
      all_inside = all_inside && inside;
      source = min(max(source, rlx_i64(0)), rlx_i64(RLX_SIZE) - rlx_i64(1));
      const rlx_i64 from = rlx_i64(RLX_X_OUTER(outer)) + source * rlx_i64(RLX_X_ROW) + rlx_i64(RLX_X_COLUMN(column));
      if (inside || RLX_ZERO_OUTSIDE == 0) words[k] = rlx_load_word(p.x, from);
    }
  }
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const rlx_u64 word = first + rlx_u64(k * RLX_BLOCK_X);
    if (word < rlx_u64(RLX_COUNT)) rlx_store_word(p.y, rlx_i64(word), words[k]);
  }
#ifdef RLX_INDEX_ERRORS
  if (all_inside) return;
  // Looked up once more, so that good indices cost no counting: that of a row's first word is its own to count.
  rlx_u32 outside = 0u;
  for (int k = 0; k < RLX_ITEMS; ++k) {
    const rlx_u64 word = first + rlx_u64(k * RLX_BLOCK_X);
    const rlx_u64 row = word / rlx_u64(RLX_ROW_WORDS);
    const bool counts = word % rlx_u64(RLX_ROW_WORDS) == rlx_u64(0) && row < rlx_u64(RLX_ROWS);
    if (word < rlx_u64(RLX_COUNT) && counts && !is_inside(source_row(p.index, rlx_i64(row)))) ++outside;
  }
  RLX_COUNT_OUTSIDE(outside);
#endif
}
#endif
