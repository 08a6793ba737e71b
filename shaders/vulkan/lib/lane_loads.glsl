// SPDX-License-Identifier: Apache-2.0
// What a lane of matmul_lanes loads at a time: two depths of four lines of an operand, in accumulator precision (lib/product.inc). Lines
// behind the last one are copies of it, as nothing is stored of them: a driver that runs subgroups as vectors takes long for a branch.
#ifndef RLX_LIB_LANE_LOADS_GLSL
#define RLX_LIB_LANE_LOADS_GLSL

// Two neighbours that no thread writes (attention_lanes takes these alone), from an even index on, in one word of 32 or 64 bits.
layout(buffer_reference, scalar, buffer_reference_align = 4) restrict readonly buffer OperandU32 { uint v; };
rlx_vec2 rlx_operand2_f32(rlx_ptr base, rlx_i64 i) { return uintBitsToFloat(RLX_OPERAND8(RLX_AT(base, i, 4))); }
rlx_vec2 rlx_operand2_f16(rlx_ptr base, rlx_i64 i) { return rlx_unpack_f16x2(OperandU32(RLX_AT(base, i, 2)).v); }
rlx_vec2 rlx_operand2_bf16(rlx_ptr base, rlx_i64 i) { return rlx_unpack_bf16x2(OperandU32(RLX_AT(base, i, 2)).v); }

// RLX_LANE_LOADER defines load(base, line, depth, depths, values): values[i] becomes depth `depth + i`, below `depths`, of lines
// line..line+3. `vector` is 1, LINE or DEPTH as in lib/panel.inc. Where RLX_ODD_DEPTHS, the depth behind an odd number of them is 0.
#define RLX_LANE_LOADER(load, dtype, lines, line_stride, depth_stride, vector)                                                     \
  RLX_FN void load(rlx_ptr base, rlx_u32 line, rlx_u32 depth, rlx_u32 depths, RLX_INOUT_ARRAY(rlx_acc4_t, values, [2])) {           \
    RLX_CAT(RLX_LANE_LOAD_, vector)(dtype, rlx_u32(lines), RLX_INDEX(line_stride), RLX_INDEX(depth_stride))                         \
  }
#if RLX_ODD_DEPTHS
#define RLX_LANE_DEPTH(i) min(depth + i, depths - 1u)
#define RLX_LANE_KEPT(i, value) (depth + i < depths ? (value) : rlx_acc4_splat(0))
#else
#define RLX_LANE_DEPTH(i) (depth + i)
#define RLX_LANE_KEPT(i, value) (value)
#endif
#define RLX_LANE_LOAD_1(dtype, lines, line_stride, depth_stride)                                                                    \
  RLX_UNROLL for (rlx_u32 i = 0u; i < 2u; ++i) {                                                                                    \
    rlx_acc4_t loaded = rlx_acc4_splat(0);                                                                                          \
    RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) {                                                                                  \
      const RLX_INDEX at = RLX_INDEX(min(line + j, lines - 1u)) * line_stride + RLX_INDEX(RLX_LANE_DEPTH(i)) * depth_stride;        \
      loaded[j] = RLX_ELEMENT(dtype, base, at);                                                                                     \
    }                                                                                                                               \
    values[i] = RLX_LANE_KEPT(i, loaded);                                                                                           \
  }
#define RLX_LANE_LOAD_LINE(dtype, lines, line_stride, depth_stride)                                                                 \
  const RLX_INDEX from = RLX_INDEX(min(line, lines - 4u));                                                                          \
  RLX_UNROLL for (rlx_u32 i = 0u; i < 2u; ++i) {                                                                                    \
    const rlx_acc4_t loaded = RLX_CAT(rlx_operand4_, dtype)(base, from + RLX_INDEX(RLX_LANE_DEPTH(i)) * depth_stride);              \
    values[i] = RLX_LANE_KEPT(i, loaded);                                                                                           \
  }
// The number of depths is even.
#define RLX_LANE_LOAD_DEPTH(dtype, lines, line_stride, depth_stride)                                                                \
  RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) {                                                                                    \
    const RLX_INDEX at = RLX_INDEX(min(line + j, lines - 1u)) * line_stride + RLX_INDEX(depth);                                     \
    const rlx_vec2 pair = RLX_CAT(rlx_operand2_, dtype)(base, at);                                                                  \
    values[0][j] = pair.x;                                                                                                          \
    values[1][j] = pair.y;                                                                                                          \
  }

#endif
