// SPDX-License-Identifier: Apache-2.0
// Where element (m, n) of a product's y stands: the batch entry's offset, and the element's within it.
// Specializations: RLX_Y_LINE: elements from line to line, where y is not dense [RLX_BATCHES, RLX_M, RLX_N]; generated/batch.inc then
//   has y_batch, the offset of `batch`.

#ifdef RLX_Y_LINE
#define rlx_y_entry(batch) (y_batch)
#else
#define RLX_Y_LINE (RLX_N)
#define rlx_y_entry(batch) (rlx_i64(batch) * rlx_i64(RLX_M) * rlx_i64(RLX_N))
#endif
#define rlx_y_element(m, n) ((m) * RLX_INDEX(RLX_Y_LINE) + (n))
