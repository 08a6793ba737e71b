// SPDX-License-Identifier: Apache-2.0
// y[kept] = finish(combine over reduced of map(value[kept, reduced])): every reduction over any axes.
// Layout: kept and reduced are loop positions; generated/rows.inc turns them into element offsets (RLX_X_KEPT, RLX_X_REDUCED,
//   RLX_Y_KEPT), so operands may be strided. Loop positions run along the smallest strides of the input.
// Grid: RLX_CHUNKS groups for each RLX_ROWS rows, spread by split_grid. With RLX_CHUNKS > 1 the group writes its chunk's total to
//   partial[row * RLX_CHUNKS + chunk], and a second dispatch reduces those in a fixed order.
// Specializations: RLX_LANES x RLX_ROWS threads and RLX_BY_COLUMN (lib/reduce.glsl); RLX_ROW_COUNT, RLX_REDUCED, RLX_CHUNKS,
//   RLX_CHUNK_LENGTH; RLX_COMBINE (SUM, PROD, MAX, MIN, OR, AND); storage types RLX_Y, RLX_PARTIAL; RLX_WIDTH 4: elements
//   go four at a time, straight from operands[0] of storage type RLX_X or (RLX_FUSED) from the prologue; RLX_CENTERED.
// generated/rows.inc:  RLX_INDEX (type of offsets), RLX_VALUE, RLX_ACC (types), RLX_IDENTITY, RLX_MAP(v), RLX_FINISH(a); both may
//   name `center`, with RLX_CENTERED the value of operands[13] (type RLX_PARTIAL) at the row's place in y.
// generated/prologue.inc: statements that set `value` (RLX_VALUE) from `kept` and `reduced` (RLX_INDEX) and operands[0..12].
//   A fused elementwise chain goes here, with RLX_WIDTH 4 one that sets value_x, value_y, value_z and value_w; by default it is one
//   load of operands[0].
// Numerics: f16, bf16 and f32 accumulate in f32, f64 in f64, integers in 32 or 64 bits modulo their range; one rounding at the end.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "lib/math.glsl"
#ifdef RLX_DOUBLE
#include "lib/math64.glsl"
#endif
#include "lib/reduce.glsl"
#include "generated/rows.inc"

RLX_PARAMS(ReduceParams);

#define RLX_COMBINE_OP RLX_CAT(RLX_COMBINE_, RLX_COMBINE)
RLX_GROUP_REDUCE(reduce_row, RLX_ACC, RLX_COMBINE_OP)

RLX_MAIN {
  const RLX_INDEX group = RLX_INDEX(rlx_linear_group);
  const RLX_INDEX chunk = group % RLX_INDEX(RLX_CHUNKS);
  const RLX_INDEX row = group / RLX_INDEX(RLX_CHUNKS) * RLX_INDEX(RLX_ROWS) + RLX_INDEX(rlx_row);
  const bool inside = row < RLX_INDEX(RLX_ROW_COUNT);
  const RLX_INDEX kept = inside ? row : RLX_INDEX(0);
#if RLX_CENTERED
  const RLX_ACC center = RLX_CAT(rlx_load_, RLX_PARTIAL)(p.operands[13], RLX_Y_KEPT(kept));
#endif

  RLX_ACC total = RLX_IDENTITY;
  const RLX_INDEX begin = chunk * RLX_INDEX(RLX_CHUNK_LENGTH);
  const RLX_INDEX end = min(begin + RLX_INDEX(RLX_CHUNK_LENGTH), RLX_INDEX(RLX_REDUCED));
#if RLX_WIDTH == 4
  RLX_ACC part_x = total, part_y = total, part_z = total, part_w = total;
  for (RLX_INDEX i = begin + RLX_INDEX(rlx_lane) * 4; i < end; i += RLX_INDEX(RLX_LANES) * 4) {
    RLX_VALUE value_x, value_y, value_z, value_w;
#if RLX_FUSED
    const RLX_INDEX reduced = i;
#include "generated/prologue.inc"
#else
    const rlx_vec4 four = RLX_CAT(rlx_load4_, RLX_X)(p.operands[0], RLX_X_KEPT(kept) + i);
    value_x = four.x;
    value_y = four.y;
    value_z = four.z;
    value_w = four.w;
#endif
    const RLX_ACC term_x = RLX_MAP(value_x);
    const RLX_ACC term_y = RLX_MAP(value_y);
    const RLX_ACC term_z = RLX_MAP(value_z);
    const RLX_ACC term_w = RLX_MAP(value_w);
    part_x = RLX_COMBINE_OP(part_x, term_x);
    part_y = RLX_COMBINE_OP(part_y, term_y);
    part_z = RLX_COMBINE_OP(part_z, term_z);
    part_w = RLX_COMBINE_OP(part_w, term_w);
  }
  part_x = RLX_COMBINE_OP(part_x, part_y);
  part_z = RLX_COMBINE_OP(part_z, part_w);
  total = RLX_COMBINE_OP(part_x, part_z);
#else
  for (RLX_INDEX reduced = begin + RLX_INDEX(rlx_lane); reduced < end; reduced += RLX_INDEX(RLX_LANES)) {
    RLX_VALUE value;
#include "generated/prologue.inc"
    const RLX_ACC term = RLX_MAP(value);
    total = RLX_COMBINE_OP(total, term);
  }
#endif

  total = reduce_row(total);
  if (!inside || rlx_lane != 0u) return;
#if RLX_CHUNKS > 1
  RLX_CAT(rlx_store_, RLX_PARTIAL)(p.partial, row * RLX_INDEX(RLX_CHUNKS) + chunk,
                                   RLX_CAT(rlx_t_, RLX_PARTIAL)(total));
#else
  RLX_CAT(rlx_store_, RLX_Y)(p.y, RLX_Y_KEPT(row), RLX_CAT(rlx_t_, RLX_Y)(RLX_FINISH(total)));
#endif
}
