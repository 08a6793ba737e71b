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
RLX_MAIN {
  const rlx_u64 first = rlx_linear_group * rlx_u64(RLX_BLOCK_X * RLX_ITEMS) + rlx_u64(rlx_local_x);
  RLX_WORD words[RLX_ITEMS];
  rlx_u32 outside = 0u;
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const rlx_u64 word = first + rlx_u64(k * RLX_BLOCK_X);
    words[k] = RLX_ZERO_WORD;
    if (word < rlx_u64(RLX_COUNT)) {
      const RLX_INDEX column = RLX_INDEX(word) % RLX_INDEX(RLX_ROW_WORDS);
      const RLX_INDEX rest = RLX_INDEX(word) / RLX_INDEX(RLX_ROW_WORDS);
      const RLX_INDEX row = rest % RLX_INDEX(RLX_ROWS);
      const RLX_INDEX outer = rest / RLX_INDEX(RLX_ROWS);
      rlx_i64 source = RLX_CAT(rlx_index_from_, RLX_I)(RLX_CAT(rlx_load_, RLX_I)(p.index, rlx_i64(row)));
      if (source < rlx_i64(0)) source += RLX_SIZE;
      const bool inside = source >= rlx_i64(0) && source < RLX_SIZE;
      outside += !inside && column == RLX_INDEX(0) && outer == RLX_INDEX(0) ? 1u : 0u;
      source = min(max(source, rlx_i64(0)), rlx_i64(RLX_SIZE) - rlx_i64(1));
      const rlx_i64 from = rlx_i64(RLX_X_OUTER(outer)) + source * rlx_i64(RLX_X_ROW) + rlx_i64(RLX_X_COLUMN(column));
      if (inside || RLX_ZERO_OUTSIDE == 0) words[k] = rlx_load_word(p.x, from);
    }
  }
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const rlx_u64 word = first + rlx_u64(k * RLX_BLOCK_X);
    if (word < rlx_u64(RLX_COUNT)) rlx_store_word(p.y, rlx_i64(word), words[k]);
  }
  RLX_COUNT_OUTSIDE(outside);
}
#endif
