// SPDX-License-Identifier: Apache-2.0
// reverse_sequence: y[.., t, ..] = x[.., lens[b] - 1 - t, ..] where t < lens[b], else x[.., t, ..]; b and t are the coordinates along
// the batch and the time axis. Lengths count as clamped to [0, RLX_TIMES]. Words of elements are copied as they stand.
// Layout: y dense, x strided, lens [batch] dense. Grid: one thread per word of y, groups spread over three axes by split_grid.
// Specializations: RLX_WORD_BYTES 1..16, RLX_I dtype of lens, rlx_index the index type, generated/sizes.inc: RLX_COUNT words of y,
// RLX_TIMES and RLX_TIME_STRIDE (in words), generated/source.inc: statements that take `rest` (the linear index) apart into `batch`,
// `time` and, for the other axes and the batch, the source's `offset` in words; `first` becomes false behind the batch's first word.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/indexing.cuh"
#include "generated/sizes.inc"

RLX_PARAMS(GatherParams);

RLX_MAIN {
  const rlx_u64 word = rlx_linear_group * rlx_u64(RLX_BLOCK_X) + rlx_u64(rlx_local_x);
  if (word >= rlx_u64(RLX_COUNT)) return;
  rlx_index rest = rlx_index(word);
  rlx_i64 offset = rlx_i64(0);
  rlx_i64 batch = rlx_i64(0);
  rlx_i64 time = rlx_i64(0);
  bool first = true;
  rlx_i64 c;
#include "generated/source.inc"
  const rlx_i64 wanted = RLX_CAT(rlx_index_from_, RLX_I)(RLX_CAT(rlx_load_, RLX_I)(p.index, batch));
  const rlx_i64 length = min(wanted, rlx_i64(RLX_TIMES));
  if (time < length) time = length - rlx_i64(1) - time;
  rlx_store_word(p.y, rlx_i64(word), rlx_load_word(p.x, offset + time * rlx_i64(RLX_TIME_STRIDE)));
  RLX_COUNT_OUTSIDE(first && (wanted < rlx_i64(0) || wanted > rlx_i64(RLX_TIMES)) ? 1u : 0u);
}
