// SPDX-License-Identifier: Apache-2.0
// pad and roll: y[i] = x[source(i)], or the constant where the source lies outside; bits are copied as they stand.
// Layout: y dense, x strided. Grid: one thread per element of y, groups spread over three axes by split_grid.
// Specializations: RLX_RAW storage type, rlx_index the index type, rlx_coordinate a signed one (int or rlx_i64) for coordinates,
// generated/sizes.inc: RLX_COUNT elements of y and RLX_CONSTANT,
// generated/source.inc: statements that take `rest` (the linear index) apart and add the source's element offset to `offset`.
#version 460
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "generated/sizes.inc"

RLX_PARAMS(CopyParams);

RLX_MAIN {
  const rlx_u64 element = rlx_linear_group * rlx_u64(RLX_BLOCK_X) + rlx_u64(rlx_local_x);
  if (element >= rlx_u64(RLX_COUNT)) return;
  rlx_index rest = rlx_index(element);
  rlx_i64 offset = rlx_i64(0);
  bool inside = true;
  rlx_coordinate c;
#include "generated/source.inc"
  RLX_CAT(rlx_t_, RLX_RAW) bits = RLX_CAT(rlx_t_, RLX_RAW)(RLX_CONSTANT);
  if (inside) bits = RLX_CAT(rlx_load_, RLX_RAW)(p.x, offset);
  RLX_CAT(rlx_store_, RLX_RAW)(p.y, rlx_i64(element), bits);
}
