// SPDX-License-Identifier: Apache-2.0
// gather_nd: y[t, :] = x[place(t) + :], where tuple t of the index names a place of x (rlx_place); zeros where it names none. Also
// gather_elements, whose rows are single elements. Words are copied, bit by bit.
// Layout: x by strides, index [tuples, coordinates] and y [tuples, row] dense. Grid: a workgroup per RLX_ITEMS words of y
// per thread, neighbours side by side; all of a thread's loads come before its stores.
// Specializations: RLX_WORD_BYTES 1..16, RLX_ROW_WORDS, RLX_ITEMS.
// generated/place.inc: rlx_place(index, tuple, outside) in words; RLX_X_COLUMN(c) in words; RLX_COUNT words of y.
#version 460
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "lib/indexing.glsl"
#include "generated/place.inc"

RLX_PARAMS(GatherParams);

RLX_MAIN {
  const rlx_u64 first = rlx_linear_group * rlx_u64(RLX_BLOCK_X * RLX_ITEMS) + rlx_u64(rlx_local_x);
  RLX_WORD words[RLX_ITEMS];
  rlx_u32 outside = 0u;
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const rlx_u64 word = first + rlx_u64(k * RLX_BLOCK_X);
    words[k] = RLX_ZERO_WORD;
    if (word < rlx_u64(RLX_COUNT)) {
      const RLX_INDEX column = RLX_INDEX(word) % RLX_INDEX(RLX_ROW_WORDS);
      rlx_u32 of_tuple = 0u;
      const rlx_i64 place = rlx_place(p.index, rlx_i64(RLX_INDEX(word) / RLX_INDEX(RLX_ROW_WORDS)), of_tuple);
      outside += column == RLX_INDEX(0) ? of_tuple : 0u;
      if (place >= rlx_i64(0)) words[k] = rlx_load_word(p.x, place + rlx_i64(RLX_X_COLUMN(column)));
    }
  }
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const rlx_u64 word = first + rlx_u64(k * RLX_BLOCK_X);
    if (word < rlx_u64(RLX_COUNT)) rlx_store_word(p.y, rlx_i64(word), words[k]);
  }
  RLX_COUNT_OUTSIDE(outside);
}
